"""Training: one loop for every predictor on every recipe.

A preset is a `RunConfig`: a recipe, a predictor and how to train it. `loop.train` runs it in a folder, and the same
call in the same folder goes on where it stopped.
"""

from dataclasses import dataclass, field
from typing import Literal

from videopred import config
from videopred.data import Recipe
from videopred.predictors import Predictor
from videopred.training.feeding import ClosedLoopConfig, Feeding, TeacherForcingConfig
from videopred.training.optimizer import OptimizerConfig
from videopred.training.tokenizer import TokenizerConfig


@dataclass(frozen=True)
class TrainingConfig:
    """Counts are in updates ("steps"), `clip_frames` and `time_chunk` in frames; 0 turns `time_chunk`, `clip_gradient`
    or an `*_every` off.

    `accumulate` batches of `batch_size` clips make one update, however many processes share them. A clip passes in
    chunks of `time_chunk` frames, which backward computes again: the same gradient from the memory of one chunk.
    `ema` is the decay of the averaged weights that predict (0: the raw weights do). `keep` is how many of the newest
    checkpoints stay, besides one every `keep_every`. Every `validate_every` steps a rollout of `validation_clips` test
    clips, `context` + `horizon` frames long, is scored and drawn. `threads` 0 leaves torch's own number; the number a
    run began with is recorded and used when it goes on.
    `precision` "auto" is bfloat16 autocast where the hardware multiplies bfloat16, else float32.
    """

    steps: int
    batch_size: int
    clip_frames: int
    time_chunk: int = 0
    feeding: Feeding = field(default_factory=TeacherForcingConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    seed: int = 0
    accumulate: int = 1
    clip_gradient: float = 1.0
    action_dropout: float = 0.0
    precision: Literal["float32", "bfloat16", "auto"] = "float32"
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
        config.at_least(
            self, seed=0, clip_gradient=0, workers=0, threads=0, keep_every=0, validate_every=0, time_chunk=0
        )
        config.at_least(self, steps=1, batch_size=1, accumulate=1, keep=1, log_every=1, save_every=1)
        config.at_least(self, context=1, horizon=1, validation_clips=1)
        config.at_most(self, seed=2**63 - 1, threads=4096, workers=512, batch_size=10**6, clip_frames=10**6)
        if self.clip_frames < self.feeding.least_frames:
            least = f"{self.feeding.least_frames} with feeding {self.feeding.kind}"
            raise ValueError(f"clip_frames = {self.clip_frames}: must be at least {least}")
        if self.time_chunk and isinstance(self.feeding, ClosedLoopConfig):
            raise ValueError(
                f"time_chunk = {self.time_chunk}: not with feeding closed_loop, which feeds its own frames back one by "
                f"one; bound its memory by feeding.max_gradient, or choose another feeding, or time_chunk = 0"
            )
        if not 0 <= self.action_dropout <= 1:
            raise ValueError(f"action_dropout = {self.action_dropout}: must lie in 0..1")
        if not 0 <= self.ema < 1:
            raise ValueError(f"ema = {self.ema}: must be at least 0 and below 1")


@dataclass(frozen=True)
class OriginConfig:
    """The trained model whose weights a run begins with: `checkpoint` as commands take one, and its file's SHA-256.

    `hash` is filled in when training begins; a run that goes on needs the file no more.
    """

    checkpoint: str
    hash: str = ""


@dataclass(frozen=True)
class RunConfig:
    """A preset: everything that decides what a training run does. In a predictor's place may stand a tokenizer."""

    predictor: Predictor | TokenizerConfig
    training: TrainingConfig
    recipe: Recipe = config.named("recipes")
    name: str = ""
    origin: OriginConfig | None = None

    def __post_init__(self):
        feeding = self.training.feeding
        if hasattr(self.predictor, "tokenizer") and not isinstance(feeding, TeacherForcingConfig):
            raise ValueError(
                f"training.feeding.kind = {feeding.kind!r}: feeds pixels back, and predictor.kind = "
                f"{self.predictor.kind!r} is fed tokens; use teacher_forcing"
            )
        dynamics = getattr(getattr(self.predictor, "stack", None), "dynamics", None)
        window = getattr(dynamics, "window", None)
        if window is not None and window < self.training.context:
            raise ValueError(
                f"predictor.stack.dynamics.window = {window}: must be at least training.context = "
                f"{self.training.context}, or the model never sees all of the context"
            )
