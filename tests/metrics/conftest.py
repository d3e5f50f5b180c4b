"""Stand-ins for networks whose weights are not here."""

import pytest
import torch

from videopred import weights
from videopred.metrics import efficientnet, fvd, lpips, stlpips
from videopred.metrics.features import Network


@pytest.fixture
def stand_ins(monkeypatch, tmp_path):
    """Learned metrics but for their networks: means over quarters of a clip, and a mean absolute difference."""
    path = tmp_path / "weights"
    path.write_bytes(b"")

    def quarters(frames):
        unit = frames.double() / 255 if frames.dtype == torch.uint8 else frames.double()
        return torch.stack([part.mean() for half in unit.chunk(2, 1) for part in half.chunk(2, 2)])

    network = Network(quarters, {"name": "stand-in"})
    monkeypatch.setattr(weights, "load", lambda name: (path, "0" * 64))
    monkeypatch.setattr(fvd, "_network", lambda *_: network)
    monkeypatch.setattr(lpips, "_network", lambda *_: MeanDifference())
    monkeypatch.setattr(lpips, "_heads", lambda net: "0" * 64)
    monkeypatch.setattr(lpips, "SMALLEST", {"alex": 1})
    monkeypatch.setattr(efficientnet, "_network", lambda: network)
    monkeypatch.setattr(stlpips, "_network", lambda net: (MeanDifference(), {"name": "stand-in"}))
    monkeypatch.setattr(stlpips, "SMALLEST", 1)


class MeanDifference(torch.nn.Module):
    def forward(self, x, y):
        return (x.double() - y.double()).abs().mean((1, 2, 3), keepdim=True)
