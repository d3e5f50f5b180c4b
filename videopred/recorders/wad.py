"""A maze as a Doom level: a WAD file with the map as text (UDMF), textures and a palette made from them.

Doom draws with 256 colours, so each of labmaze's five styles and three skies gets a palette of its own, with the
darker shades that Doom fades distant walls to.
"""

import functools
import io
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from videopred.recorders.maze import CELL, Maze, middle

STYLES = ("style_01", "style_02", "style_03", "style_04", "style_05")
SKIES = ("sky_01", "sky_02", "sky_03")
LIGHT = 224
SHADES = (1.0, 0.8, 0.6, 0.4)
ODD_WALLS = 0.08  # share of walls with a texture of their own: landmarks

Lump = tuple[str, bytes]


@dataclass(frozen=True)
class Level:
    """A maze, the player's cell and angle in whole degrees, and what its textures are drawn by."""

    maze: Maze
    start: tuple[int, int]
    angle: int
    rng: np.random.Generator


def wad(levels: list[Level], rng: np.random.Generator) -> bytes:
    """A file of levels, `level_name(i)` the name of each, all in one random style."""
    style, sky = STYLES[rng.integers(len(STYLES))], SKIES[rng.integers(len(SKIES))]
    walls, floors, textures = _style(style, sky)
    lumps, maps = [], ""
    for i, level in enumerate(levels):
        text = _textmap(level, walls, floors)
        lumps += [(level_name(i), b""), ("TEXTMAP", text.encode()), ("ENDMAP", b"")]
        maps += f'map {level_name(i)} "maze"\n{{\nsky1 = "LMSKY", 0.0\n}}\n'
    return _archive([*textures, ("MAPINFO", maps.encode()), *lumps])


def level_name(index: int) -> str:
    return f"MAP{index + 1:02}"


def _archive(lumps: list[Lump]) -> bytes:
    content, directory = b"", b""
    for name, data in lumps:
        directory += struct.pack("<ii8s", 12 + len(content), len(data), name.encode())
        content += data
    return struct.pack("<4sii", b"PWAD", len(lumps), 12 + len(content)) + content + directory


@functools.cache
def _style(style: str, sky: str) -> tuple[list[str], list[str], list[Lump]]:
    """Names of wall and floor textures, and the lumps that hold them, the sky and the palette."""
    import labmaze

    assets = Path(labmaze.__file__).parent / "assets"
    images, names = {}, {}
    for what, short in (("wall", "LMW"), ("floor", "LMF")):
        paths = sorted((assets / style).glob(f"{what}_*_d.png"))
        names[what] = [f"{short}{i}" for i in range(len(paths))]
        images |= {name: _image(path, int(CELL)) for name, path in zip(names[what], paths, strict=True)}
    sides = [np.asarray(_image(assets / sky / f"{side}.png", 256)) for side in ("ft", "rt", "bk", "lf")]
    images["LMSKY"] = Image.fromarray(np.concatenate(sides, 1)[:160])
    lumps = [(name, _png(image)) for name, image in images.items()]
    palette = _palette(list(images.values()))
    lumps = [("PLAYPAL", palette * 14), ("TX_START", b""), *lumps, ("TX_END", b"")]
    return names["wall"], names["floor"], lumps


def _palette(images: list[Image.Image]) -> bytes:
    """256 colours: black, 254 that the images need, darkened too, and white."""
    pixels = np.concatenate([np.asarray(image).reshape(-1, 3)[::7] for image in images])
    shaded = np.concatenate([pixels * shade for shade in SHADES]).astype(np.uint8)
    side = int(len(shaded) ** 0.5)
    square = Image.fromarray(shaded[: side * side].reshape(side, side, 3))
    colours = square.quantize(254, method=Image.Quantize.MEDIANCUT).getpalette() or []
    return bytes([0, 0, 0, *colours[: 254 * 3], 255, 255, 255]).ljust(768, b"\0")


def _image(path: Path, side: int) -> Image.Image:
    return Image.open(path).convert("RGBA").convert("RGB").resize((side, side), Image.Resampling.LANCZOS)


def _png(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def _textmap(level: Level, walls: list[str], floors: list[str]) -> str:
    """The map: one sector for each room and one for the corridors, a wall where an open cell meets a closed one."""
    maze, rng = level.maze, level.rng
    rooms = sorted({str(maze.rooms[cell]) for cell in maze.cells})
    wall_of = dict(zip(rooms, rng.choice(walls, len(rooms)), strict=True))
    sectors = [
        f'sector {{ heightfloor = 0; heightceiling = {int(CELL)}; texturefloor = "{floor}"; '
        f'textureceiling = "F_SKY1"; lightlevel = {LIGHT}; }}'
        for floor in rng.choice(floors, len(rooms))
    ]
    vertices: dict[tuple[int, int], int] = {}
    lines, sides = [], []

    def line(ends: list[tuple[int, int]], fronts: list[str], flags: str) -> None:
        first, second = (vertices.setdefault(end, len(vertices)) for end in ends)
        back = f"sideback = {len(sides) + 1}; " if len(fronts) > 1 else ""
        lines.append(f"linedef {{ v1 = {first}; v2 = {second}; sidefront = {len(sides)}; {back}{flags} = true; }}")
        sides.extend(f"sidedef {{ {front} }}" for front in fronts)

    for row, column in maze.cells:
        room = str(maze.rooms[row, column])
        corners = [(column, row), (column + 1, row), (column + 1, row + 1), (column, row + 1)]  # clockwise from above
        for i, near in enumerate([(row - 1, column), (row, column + 1), (row + 1, column), (row, column - 1)]):
            ends = [(int(x * CELL), int(-y * CELL)) for x, y in (corners[i], corners[(i + 1) % 4])]
            other = str(maze.rooms[near])
            if maze.walls[near]:
                texture = rng.choice(walls) if rng.random() < ODD_WALLS else wall_of[room]
                line(ends, [f'sector = {rooms.index(room)}; texturemiddle = "{texture}";'], "blocking")
            elif other != room and i in (0, 1):  # the other two are lines of the neighbours
                line(ends, [f"sector = {rooms.index(name)};" for name in (room, other)], "twosided")
    x, y = middle(level.start)
    modes = " ".join(f"{mode} = true;" for mode in (*(f"skill{i}" for i in range(1, 6)), "single", "coop", "dm"))
    thing = f"thing {{ x = {x}; y = {y}; angle = {level.angle}; type = 1; {modes} }}"
    points = [f"vertex {{ x = {x}; y = {y}; }}" for x, y in vertices]
    return "\n".join(['namespace = "zdoom";', *points, *lines, *sides, *sectors, thing])
