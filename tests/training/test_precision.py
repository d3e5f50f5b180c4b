"""Precision "auto" is bfloat16 exactly where the hardware multiplies it."""

import pytest
import torch

from videopred.training.precision import autocasts

CPU = torch.device("cpu")


@pytest.mark.parametrize("capability", ["amx_bf16", "avx512_bf16", "bf16"])
def test_auto_follows_the_hardware(monkeypatch, capability):
    for able in (True, False):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda able=able: {capability: able}, raising=False)
        assert autocasts("auto", CPU) == able
        assert autocasts("bfloat16", CPU) and not autocasts("float32", CPU)


def test_a_torch_that_cannot_say_gives_float32(monkeypatch):
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    assert not autocasts("auto", CPU)
