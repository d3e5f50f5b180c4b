"""What an update differentiates: a predictor with what it is fed, as one module."""

from torch import Generator, Tensor, nn

from videopred.clip import Clip
from videopred.config import ConfigError
from videopred.training import TrainingConfig, distributed
from videopred.training.chunked import Chunked


class Learner(nn.Module):
    """forward(clip, progress, generator) -> (loss, metrics) of the feeding, the clip whole or in chunks of time.

    Some feedings call a predictor many times, and not by its `forward`; DDP averages gradients of one `forward`.
    Raises ConfigError for what cannot train in many processes, or in chunks.
    """

    def __init__(self, predictor: nn.Module, settings: TrainingConfig):
        super().__init__()
        if hasattr(predictor, "settle"):  # a tokenizer
            if distributed.world() > 1:
                raise ConfigError("a codebook moves by what one process has seen: train a tokenizer without torchrun")
            if settings.time_chunk:
                raise ConfigError(
                    f"training.time_chunk = {settings.time_chunk}: a tokenizer has no memory to carry over; "
                    f"set it to 0, and clip_frames lower"
                )
        self.predictor, self.feeding = predictor, settings.feeding
        self.fed = Chunked(predictor, settings.time_chunk) if settings.time_chunk else predictor

    def forward(self, clip: Clip, progress: float, generator: Generator) -> tuple[Tensor, dict[str, Tensor]]:
        return self.feeding.loss(self.fed, clip, progress, generator)

    def settle(self, generator: Generator) -> None:
        """After an update: lets the predictor do what it learns otherwise than by gradient, if it does."""
        if settle := getattr(self.predictor, "settle", None):
            settle(generator)
