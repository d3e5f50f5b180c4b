"""Frechet video distance: how far the predicted clips, as a set, are from the true ones.

Unterthiner et al., "FVD: A new metric for video generation" (2019): the Frechet distance of I3D's logits (i3d.py) of
whole clips. Lower is better; it grows as clips get fewer, so that numbers of different counts, lengths or conventions
say nothing about one another, and the distance between true clips alone is printed beside each.
"""

import warnings
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from videopred import weights
from videopred.metrics.features import FrechetConfig, Network
from videopred.metrics.i3d import DIMENSIONS, I3D, INPUT, BatchNorm, prepared

Weights = Literal["i3d_pretrained_400", "i3d_torchscript"]


@dataclass(frozen=True)
class FVDConfig(FrechetConfig):
    """FVD: distance of the predicted clips as a set from the true ones, by I3D's logits.

    covariance, context, frames : as `FrechetConfig` says
    weights    : the file; both hold the same network
    batch_norm : `tensorflow` adds 1e-3 to variances, as the papers did, `pytorch` 1e-5, as PyTorch ports do
    """

    kind: Literal["fvd"] = "fvd"
    weights: Weights = "i3d_pretrained_400"
    batch_norm: BatchNorm = "tensorflow"

    def __post_init__(self):
        super().__post_init__()
        if self.weights == "i3d_torchscript" and self.batch_norm != "tensorflow":
            raise ValueError("batch_norm = 'pytorch': i3d_torchscript has its own, fixed; choose i3d_pretrained_400")

    def network(self) -> Network:
        path, digest = weights.load(self.weights)
        return _network(self.weights, self.batch_norm, path, digest)


@lru_cache(maxsize=2)
def _network(name: Weights, batch_norm: BatchNorm, path: Path, digest: str) -> Network:
    about: dict[str, Any] = {"name": name, "sha256": digest, "input": INPUT}
    try:
        if name == "i3d_torchscript":
            return Network(_Scripted(path), about)
        module = I3D(batch_norm)
        module.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    except RuntimeError as error:
        raise ValueError(f"{path}: holds another network than {name} ({str(error).splitlines()[0]})") from error
    return Network(_Whole(module), about | {"batch_norm": batch_norm})


class _Whole:
    def __init__(self, module: I3D):
        self.module = module.eval()

    def __call__(self, frames: Tensor) -> Tensor:
        return self.module.to(frames.device)(prepared(frames))[0]


class _Scripted:
    """StyleGAN-V's file; told to neither rescale nor resize, so that both files see the same pixels."""

    def __init__(self, path: Path):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # TorchScript is on its way out; the file is what it is
            self.module = torch.jit.load(str(path), map_location="cpu").eval()

    def __call__(self, frames: Tensor) -> Tensor:
        module = self.module.to(frames.device)
        found = module(prepared(frames), rescale=False, resize=False, return_features=True)
        if found.shape != (1, DIMENSIONS):
            raise ValueError(f"i3d_torchscript gives {tuple(found.shape)} for a clip: I3D has 1 x {DIMENSIONS} logits")
        return found[0]
