"""LPIPS with the package's own heads and a trunk made from a formula, against distances computed in float64 (1e-6)."""

import zlib

import numpy as np
import pytest
import torch

from videopred import weights
from videopred.metrics.lpips import lpips

MIX = np.uint32


def has_distances(gold) -> bool:
    return "dist" in gold and "lin/keys" in gold


def parameter(name: str, shape: tuple[int, ...]) -> np.ndarray:
    h = np.arange(np.prod(shape, dtype=int), dtype=np.uint32) * MIX(2654435761) + MIX(zlib.crc32(name.encode()))
    h = (h ^ (h >> MIX(16))) * MIX(0x85EBCA6B)
    h = (h ^ (h >> MIX(13))) * MIX(0xC2B2AE35)
    u = (2.0 * (h ^ (h >> MIX(16))) + 1 - 2.0**32) / 2.0**32
    scale = np.sqrt(3 / np.prod(shape[1:])) if len(shape) > 1 else 0.25
    return (scale * u).reshape(shape).astype(np.float32)


@pytest.fixture
def trunk(gold, tmp_path, monkeypatch):
    pytest.importorskip("lpips")
    shapes = [tuple(map(int, shape.split(","))) for shape in gold.arrays["shapes"]]
    tensors = {str(key): parameter(str(key), shape) for key, shape in zip(gold.arrays["keys"], shapes, strict=True)}
    assert [zlib.crc32(x.tobytes()) for x in tensors.values()] == gold.arrays["crc32"].tolist()
    torch.save({key: torch.from_numpy(x) for key, x in tensors.items()}, tmp_path / "trunk.pth")
    monkeypatch.setattr(weights, "load", lambda name: (tmp_path / "trunk.pth", "made from a formula"))


def frames(gold, side: str, channels: int = 3) -> torch.Tensor:
    return gold[side].to(torch.uint8)[:, None, ..., :channels]


@pytest.mark.golden(takes=has_distances)
def test_distances(gold, trunk):
    got = lpips(frames(gold, "fake"), frames(gold, "real"))[:, 0]
    assert (got - gold["dist"]).abs().max() < 1e-6
    gold.check("dist", got, 1e-5)
    gold.check("sym", lpips(frames(gold, "real"), frames(gold, "fake"))[:, 0], 1e-5)
    gold.check("self", lpips(frames(gold, "real"), frames(gold, "real"))[:, 0], 1e-6)
    unit = [frames(gold, side).double() / 255 for side in ("fake", "real")]
    gold.check("normalize_flag", lpips(*unit)[:, 0], 1e-5)


@pytest.mark.golden(takes=has_distances)
def test_gray_is_repeated(gold, trunk):
    got = lpips(frames(gold, "fake", 1), frames(gold, "real", 1))[:, 0]
    gold.check("gray_1ch/dist", got, 1e-5)
    gold.check("gray_x3/dist", got, 1e-5)
