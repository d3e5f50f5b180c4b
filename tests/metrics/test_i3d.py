"""I3D: what it refuses, and which weight files it takes; tests/parity holds its numbers."""

import pytest
import torch

from videopred.metrics.i3d import I3D, prepared


def without_counters(network):
    return {name: x for name, x in network.state_dict().items() if not name.endswith("num_batches_tracked")}


def test_takes_a_state_dict_without_counters_and_nothing_less():
    source, network = I3D(), I3D()
    state = without_counters(source)
    assert len(state) == 287 and sum(x.numel() for x in state.values()) == 12_711_881 - 57
    network.load_state_dict(state)
    assert all(torch.equal(network.state_dict()[name], x) for name, x in state.items())
    versioned = source.state_dict()  # carries a version that asks for the counters
    for name in list(versioned):
        if name.endswith("num_batches_tracked"):
            del versioned[name]
    network.load_state_dict(versioned)
    del state["Mixed_4c.b1b.bn.bias"]
    with pytest.raises(RuntimeError, match=r"Missing key.*Mixed_4c\.b1b\.bn\.bias"):
        network.load_state_dict(state)


def test_eight_frames_are_too_few():
    with pytest.raises(ValueError, match=r"at least 9 frames.*got 8"):
        prepared(torch.zeros(8, 16, 16, 3, dtype=torch.uint8))
    with pytest.raises(ValueError, match=r"at least 9 frames.*got 8"):
        I3D()(torch.zeros(1, 3, 8, 224, 224))


def test_one_range_whatever_the_type_and_gray_is_repeated():
    frames = torch.randint(0, 256, (9, 12, 20, 1), dtype=torch.uint8)
    x = prepared(frames)
    assert x.shape == (1, 3, 9, 224, 224) and x.dtype == torch.float32
    torch.testing.assert_close(prepared(frames.double() / 255), x, atol=1e-6, rtol=0)
    torch.testing.assert_close(prepared(frames.expand(-1, -1, -1, 3)), x, atol=1e-6, rtol=0)
    for value, want in ((255, 1.0), (0, -1.0)):
        low, high = prepared(torch.full((9, 8, 8, 3), value, dtype=torch.uint8)).aminmax()
        assert low.item() == pytest.approx(want, abs=1e-6) and high.item() == pytest.approx(want, abs=1e-6)
    with pytest.raises(ValueError, match="1 or 3 channels, got 4"):
        prepared(torch.zeros(9, 8, 8, 4))
