"""Tiny worlds whose truth is known: a picture that slides as far as the action says, and a corridor that is walked.

In the corridor a frame shows nothing but where one stands, so that scores under any actions can be told by hand.
"""

from dataclasses import dataclass
from typing import Literal

import pytest
import torch
from torch import nn

from videopred.clip import Clip, Format
from videopred.evaluation import Protocol
from videopred.metrics import EnergyConfig, InkConfig, PSNRConfig, SSIMConfig

METRICS = (PSNRConfig(), SSIMConfig(), InkConfig(), EnergyConfig())


@dataclass(frozen=True)
class SlideConfig:
    """Clip i shows picture i; frame t is frame t - 1 moved right by action t (by one pixel if there are no actions)."""

    kind: Literal["slide"] = "slide"
    name: str = "slide"
    size: int = 12
    num_actions: int = 0
    train_clips: int = 5

    @property
    def format(self) -> Format:
        return Format(1, self.size, self.size, self.num_actions)

    def build(self, split, frames):
        if split == "train" and not self.train_clips:
            raise ValueError("slide has no training clips")
        return Slide(self, split, frames)


class Slide:
    def __init__(self, config, split, frames):
        self.config, self.split, self.frames = config, split, frames

    def __len__(self):
        return 9 if self.split == "test" else self.config.train_clips

    def __getitem__(self, i):
        random = torch.Generator().manual_seed(i + (100 if self.split == "train" else 0))
        size, n = self.config.size, self.config.num_actions
        picture = torch.randint(0, 256, (size, size, 1), dtype=torch.uint8, generator=random)
        actions = torch.randint(0, n, (self.frames,), generator=random) if n else None
        moves = torch.ones(self.frames, dtype=torch.long) if actions is None else actions
        moves[0] = 0
        frames = torch.stack([picture.roll(int(shift), 1) for shift in moves.cumsum(0)])
        return Clip(frames=frames, actions=actions, id=f"{self.split}/{i}")


class SlidePredictor(nn.Module):
    """Predicts a sliding picture exactly. `noise` is how much of the noise it is handed is added to a frame."""

    def __init__(self, format: Format, noise: float = 0.0):
        super().__init__()
        self.format, self.noise = format, noise
        self.mix = nn.Conv2d(format.channels, format.channels, 1, bias=False)
        nn.init.ones_(self.mix.weight)
        self.observed: list[Clip] = []

    def observe(self, clip, state=None):
        self.observed.append(clip)
        return clip.pixels()[:, -1], torch.zeros(len(clip.id), dtype=torch.int64)

    def predict(self, state, action=None, noise=None):
        newest, count = state
        moves = torch.ones(len(newest), dtype=torch.long) if action is None else action
        frame = torch.stack([picture.roll(int(move), 2) for picture, move in zip(newest, moves, strict=True)])
        frame = self.mix(frame)
        if noise is not None:
            frame = frame + self.noise * noise[:, :, None, None]
        return frame, (frame, count + 1)

    def noise_shape(self):
        return (1,) if self.noise else None


@pytest.fixture
def predictor():
    """Makes a SlidePredictor for a protocol."""
    return lambda protocol, noise=0.0: SlidePredictor(protocol.recipe.format, noise)


@pytest.fixture
def protocol():
    """Makes a protocol over the sliding world: 5 clips, context 3, horizon 4, all metrics."""

    def make(size=12, num_actions=0, train_clips=5, **changes):
        recipe = SlideConfig(size=size, num_actions=num_actions, train_clips=train_clips)
        settings = {"num_clips": 5, "context": 3, "horizon": 4, "metrics": METRICS, "name": "sliding"}
        return Protocol(recipe=recipe, **(settings | changes))

    return make


STEPS = torch.tensor([0, -1, 1])  # stay, back, forward


@dataclass(frozen=True)
class CorridorConfig:
    """Clip i walks by random actions; the frame at place x is gray level 120 + 10 x, the pose (128 x, 0, 90)."""

    kind: Literal["corridor"] = "corridor"
    name: str = "corridor"
    with_pose: bool = True
    num_clips: int = 6

    @property
    def format(self) -> Format:
        return Format(3, 2, 2, 3)

    def build(self, split, frames):
        return Corridor(self, split, frames)


class Corridor:
    def __init__(self, config, split, frames):
        self.config, self.split, self.frames = config, split, frames
        self.read: list[int] = []

    def __len__(self):
        return self.config.num_clips

    def __getitem__(self, i):
        self.read.append(i)
        random = torch.Generator().manual_seed(i)
        actions = torch.randint(0, 3, (60,), generator=random)[: self.frames]
        places = STEPS[actions].cumsum(0) - STEPS[actions[0]]
        frames = (120 + 10 * places).to(torch.uint8)[:, None, None, None].expand(-1, 2, 2, 3)
        pose = torch.stack([128.0 * places, torch.zeros(self.frames), torch.full((self.frames,), 90.0)], 1)
        return Clip(
            frames=frames.clone(),
            actions=actions,
            pose=pose if self.config.with_pose else None,
            id=f"{self.split}/{i}",
        )


class Walker(nn.Module):
    """Predicts the corridor exactly; one that does not hear stays where it is."""

    def __init__(self, format: Format, hears: bool):
        super().__init__()
        self.format, self.hears = format, hears

    def observe(self, clip, state=None):
        return (clip.pixels()[:, -1],)

    def predict(self, state, action=None, noise=None):
        steps = STEPS[action] * self.hears
        frame = state[0] + steps[:, None, None, None] * 20 / 255
        return frame, (frame,)

    def noise_shape(self):
        return None


@pytest.fixture
def corridor():
    """Makes a protocol over the corridor: 6 clips, context 4, horizon 8, PSNR."""

    def make(with_pose=True, num_clips=6, **changes):
        recipe = CorridorConfig(with_pose=with_pose)
        settings = {"num_clips": num_clips, "context": 4, "horizon": 8, "metrics": (PSNRConfig(),), "name": "walks"}
        return Protocol(recipe=recipe, **(settings | changes))

    return make


@pytest.fixture
def walker():
    """Makes a Walker for a protocol."""
    return lambda protocol, hears=True: Walker(protocol.recipe.format, hears)
