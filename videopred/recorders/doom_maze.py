"""Walks through random mazes: DeepMind Lab's maze generator and textures (labmaze), drawn by ViZDoom without a display.

A stand-in for DMLab where one has no DMLab: numbers on it cannot be compared with those published for DMLab.

Every clip has a maze of its own; eight after each other share one of labmaze's styles. The agent walks to random places
and often back to where it came from. Each frame is one action: `forward` by `stride` map units (a cell is 128 wide),
`left` or `right` by `turn` degrees on the spot; there is no inertia, and walls are slid along. The pose is x and y in
map units, to the whole unit, and the angle in degrees. More pixels are drawn than kept, as the engine does not smooth
its textures.
"""

import contextlib
import importlib.util
import itertools
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from videopred.clip import Clip, Format
from videopred.config import at_least, at_most

ENGINES = ("vizdoom", "labmaze")
NEEDED = {name: name for name in ENGINES} | {"PIL": "pillow"}  # module -> package
SCREENS = {192: "RES_256X192", 384: "RES_512X384", 768: "RES_1024X768"}  # drawn height -> ViZDoom's name
HIDDEN = ("hud", "weapon", "crosshair", "decals", "particles", "messages", "effects_sprites", "corpses")
SETTLING = 12  # tics until the engine obeys
FAMILY = 8  # so many clips after each other share a style, as the engine takes a quarter of a second to start


@dataclass(frozen=True)
class DoomMazeConfig:
    """
    frames     : length of a clip
    image_size : height and width in pixels; 768 is a multiple of it
    maze_size  : cells along a side, walls included; odd
    rooms      : at most so many rooms; the rest is corridors
    stride     : map units of a step forward; a cell is 128 wide
    turn       : degrees of a step to the left or right
    revisit    : share of walks that lead back to a place of the last walks
    seed       : another seed, other clips
    """

    kind: Literal["doom_maze"] = "doom_maze"
    frames: int = 300
    image_size: int = 64
    maze_size: int = 11
    rooms: int = 4
    stride: float = 16.0
    turn: float = 10.0
    revisit: float = 0.5
    seed: int = 0

    def __post_init__(self):
        at_least(self, frames=1, image_size=8, maze_size=7, rooms=0, seed=0)
        at_most(self, frames=10**6, maze_size=101, rooms=100, seed=2**63 - 1)
        if max(SCREENS) % self.image_size:
            raise ValueError(f"image_size = {self.image_size}: must divide {max(SCREENS)}, as 32, 64, 96 and 128 do")
        if not self.maze_size % 2:
            raise ValueError(f"maze_size = {self.maze_size}: must be odd, as walls stand between cells")
        if not 0 < self.stride <= 64 or not 0 < self.turn <= 90 or not 0 <= self.revisit <= 1:
            raise ValueError(
                f"stride = {self.stride}, turn = {self.turn}, revisit = {self.revisit}: must lie in 0..64 map units, "
                "0..90 degrees and 0..1"
            )

    @property
    def format(self) -> Format:
        return Format(3, self.image_size, self.image_size, len(self.action_names))

    @property
    def action_names(self) -> tuple[str, ...]:
        return "forward", "left", "right"

    @property
    def engines(self) -> tuple[str, ...]:
        return ENGINES

    def require(self) -> None:
        missing = [package for module, package in NEEDED.items() if importlib.util.find_spec(module) is None]
        if missing:
            raise ValueError(
                f"recorder doom_maze needs {', '.join(missing)}; run pip install 'videopred[doom-maze]' "
                f"(or pip install {' '.join(NEEDED.values())})"
            )

    def record(self, split: Literal["train", "test"], indices: Iterable[int]) -> Iterator[Clip]:
        """Raises ValueError if an engine is not installed."""
        self.require()
        for family, members in itertools.groupby(indices, lambda index: index // FAMILY):
            yield from _record(self, split, family, list(members))


def _record(config: DoomMazeConfig, split: str, family: int, indices: list[int]) -> Iterator[Clip]:
    """Clips of one family: they share a style, and with it one start of the engine."""
    from videopred.recorders.maze import Walker, random_maze
    from videopred.recorders.wad import Level, wad

    levels = []
    for index in indices:
        rng = np.random.default_rng([config.seed, split == "test", index])
        maze = random_maze(config.maze_size, config.rooms, int(rng.integers(2**31)))
        levels.append(Level(maze, maze.cells[rng.integers(len(maze.cells))], int(rng.integers(360)), rng))
    style = np.random.default_rng([config.seed, split == "test", family, FAMILY])
    with _engine(wad(levels, style), config.image_size) as start:
        for number, (index, level) in enumerate(zip(indices, levels, strict=True)):
            walker = Walker(level.maze, level.rng, config.turn, config.revisit)
            frames, actions, poses = _walk(config, start(number), walker)
            yield Clip(frames=frames, actions=actions, pose=poses, id=f"{split}/{index}")


def _walk(config: DoomMazeConfig, game: Any, walker: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Frames, actions and poses of one clip."""
    from videopred.recorders.maze import FORWARD, LEFT, step

    frames, actions, poses = [], [], []
    x, y, angle = game.get_state().game_variables
    for _ in range(config.frames):
        action = walker.act(x, y, angle)
        before = x, y
        if action == FORWARD:
            x, y = step(walker.maze, x, y, angle, config.stride)
            if (x, y) == before:
                walker.stuck(x, y)
        game.send_game_command(f"warp {round(x)} {round(y)}")  # it takes whole numbers
        game.make_action([{FORWARD: 0, LEFT: -config.turn}.get(action, config.turn)])
        state = game.get_state()
        angle = state.game_variables[2]
        frames.append(_shrunk(state.screen_buffer, config.image_size))
        actions.append(action)
        poses.append(state.game_variables)
    return torch.from_numpy(np.stack(frames)), torch.tensor(actions), torch.from_numpy(np.array(poses, np.float32))


def _shrunk(screen: np.ndarray, size: int) -> np.ndarray:
    """The square in the middle of a screen uint8 (h, w, 3), by the mean over whole blocks of pixels."""
    from PIL import Image

    height, width = screen.shape[:2]
    square = screen[:, (width - height) // 2 : (width + height) // 2]
    return np.asarray(Image.fromarray(square).reduce(height // size))


@contextlib.contextmanager
def _engine(levels: bytes, size: int) -> Iterator[Callable[[int], Any]]:
    """The running engine: a function that gives it standing at the first frame of a level."""
    import vizdoom

    from videopred.recorders.wad import level_name

    def start(number: int) -> Any:
        game.set_doom_map(level_name(number))
        game.set_seed(1)
        game.new_episode()
        game.make_action([0], SETTLING)
        return game

    with tempfile.TemporaryDirectory(prefix="videopred-") as folder:
        (Path(folder) / "maze.wad").write_bytes(levels)
        game = vizdoom.DoomGame()
        game.set_doom_game_path(str(Path(vizdoom.__file__).parent / "freedoom2.wad"))
        game.set_doom_scenario_path(f"{folder}/maze.wad")
        game.set_doom_config_path(f"{folder}/engine.ini")
        game.set_doom_map(level_name(0))
        height = next(height for height in SCREENS if (height % size == 0 and height >= 2 * size) or height == 768)
        game.set_screen_resolution(getattr(vizdoom.ScreenResolution, SCREENS[height]))
        game.set_screen_format(vizdoom.ScreenFormat.RGB24)
        game.set_window_visible(False)
        game.set_sound_enabled(False)
        game.set_console_enabled(False)
        for part in HIDDEN:
            getattr(game, f"set_render_{part}")(False)
        game.set_available_buttons([vizdoom.Button.TURN_LEFT_RIGHT_DELTA])
        variable = vizdoom.GameVariable
        game.set_available_game_variables([variable.POSITION_X, variable.POSITION_Y, variable.ANGLE])
        game.set_episode_timeout(0)
        game.set_mode(vizdoom.Mode.PLAYER)
        try:
            with contextlib.chdir(folder):  # the engine leaves a folder where it is started
                game.init()
            yield start
        finally:
            game.close()
