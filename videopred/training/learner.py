"""What an update differentiates: a predictor with what it is fed, as one module."""

from torch import Generator, Tensor, nn

from videopred.chunked import Chunked
from videopred.clip import Clip
from videopred.training import TrainingConfig


class Learner(nn.Module):
    """forward(clip, progress, generator) -> (loss, metrics) of the feeding, the clip whole or in chunks of time.

    Some feedings call a predictor many times, and not by its `forward`; DDP averages gradients of one `forward`.
    """

    def __init__(self, predictor: nn.Module, settings: TrainingConfig):
        super().__init__()
        self.predictor, self.feeding = predictor, settings.feeding
        self.fed = Chunked(predictor, settings.time_chunk) if settings.time_chunk else predictor

    def forward(self, clip: Clip, progress: float, generator: Generator) -> tuple[Tensor, dict[str, Tensor]]:
        return self.feeding.loss(self.fed, clip, progress, generator)
