"""Training: one loop for every predictor on every recipe.

A preset is a `RunConfig`: a recipe, a predictor and how to train it. `loop.train` runs it in a folder, and the same
call in the same folder goes on where it stopped.
"""

from dataclasses import dataclass, field
from typing import Literal

from videopred import config
from videopred.data import Recipe
from videopred.predictors import Predictor
from videopred.training.feeding import Feeding, TeacherForcingConfig
from videopred.training.optimizer import OptimizerConfig


@dataclass(frozen=True)
class TrainingConfig:
    """Counts are in updates ("steps"), `clip_frames` in frames; 0 turns an `*_every` or a `clip_gradient` off.

    `accumulate` batches of `batch_size` clips make one update. `ema` is the decay of the averaged weights that
    predict (0: the raw weights do). `keep` is how many of the newest checkpoints stay, besides one every `keep_every`.
    `validate_every` steps a rollout of `validation_clips` test clips, `context` + `horizon` frames long, is scored and
    drawn. `threads` 0 leaves torch's own number; the number a run began with is recorded and used when it goes on.
    """

    steps: int
    batch_size: int
    clip_frames: int
    feeding: Feeding = field(default_factory=TeacherForcingConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    seed: int = 0
    accumulate: int = 1
    clip_gradient: float = 1.0
    action_dropout: float = 0.0
    precision: Literal["float32", "bfloat16"] = "float32"
    ema: float = 0.0
    workers: int = 0
    threads: int = 0
    tensorboard: bool = False
    log_every: int = 10
    save_every: int = 200
    keep: int = 2
    keep_every: int = 0
    validate_every: int = 0
    validation_clips: int = 8
    context: int = 16
    horizon: int = 48

    def __post_init__(self):
        least = dict.fromkeys(("seed", "clip_gradient", "workers", "threads", "keep_every", "validate_every"), 0)
        least |= dict.fromkeys(("steps", "batch_size", "accumulate", "keep", "log_every", "save_every"), 1)
        least |= dict.fromkeys(("context", "horizon", "validation_clips"), 1)
        for key, value in (least | {"clip_frames": self.feeding.least_frames}).items():
            if not getattr(self, key) >= value:
                of = f" with feeding {self.feeding.kind}" if key == "clip_frames" else ""
                raise ValueError(f"{key} = {getattr(self, key)}: must be at least {value}{of}")
        if not 0 <= self.action_dropout <= 1:
            raise ValueError(f"action_dropout = {self.action_dropout}: must lie in 0..1")
        if not 0 <= self.ema < 1:
            raise ValueError(f"ema = {self.ema}: must be at least 0 and below 1")


@dataclass(frozen=True)
class RunConfig:
    """A preset: everything that decides what a training run does."""

    predictor: Predictor
    training: TrainingConfig
    recipe: Recipe = config.named("recipes")
    name: str = ""
