"""The bench of a layer on tiny frames: what is timed is what it says, and shares follow from times."""

import pytest
import torch

from videopred.bench import layer as bench
from videopred.nn.flops import counting


@pytest.fixture
def tiny(monkeypatch):
    for name, value in {"LENGTH": 2, "SIDE": 4, "WIDTH": 32, "STATES": 32}.items():
        monkeypatch.setattr(bench, name, value)


def test_a_pass_has_the_work_it_says(tiny):
    for name, each in (bench.layers() | dict(bench.convolutions())).items():
        gradients = each.call()
        assert isinstance(gradients, torch.Tensor) or all(g.abs().max() > 0 for g in gradients), name
        assert each.convolutions in (1, 3) if name.startswith("convolution") else each.convolutions in (0, 6, 12)


def test_the_layer_consists_of_four_convolutions(tiny):
    """torch's counter takes only backward passes that end in leaves' `.grad`."""
    layer = bench.StackConfig(
        width=32, depth=1, dynamics=bench.ConvS5Config(num_states=32), spatial=bench.ResNetConfig(num_groups=8)
    ).build()
    with counting() as counter:
        layer(torch.randn(1, 2, 32, 4, 4, requires_grad=True))[0].sum().backward()
    assert counter.get_total_flops() == 1e9 * bench.layers()[bench.LAYER].gflop


def test_shares_follow_from_times(tiny, monkeypatch):
    def compare(functions, rounds, title):
        seconds = {name: [12.0 * rounds] * rounds for name in functions}
        return (
            seconds
            | {name: [4.0 * rounds] * rounds for name in functions if name.startswith("convolution")}
            | {"convolution, channels-first, forward + backward": [2.0 * rounds] * rounds}
        )

    monkeypatch.setattr(bench, "compare", compare)
    rows = {row.name: row for row in bench.rows(True, None)}
    best = rows["convolution, channels-first, forward + backward"]
    assert best.figures["of_convolution"] == pytest.approx(1)
    assert rows["convolution, channels-first, forward"].figures["of_convolution"] == pytest.approx(1 / 6)
    assert rows["layer"].figures["of_convolution"] == pytest.approx(12 / 3 * 2 / 12)
    assert rows["layer"].work == {"conv3x3_gflops": 4 * best.work["conv3x3_gflops"]}
    assert rows["its scan"].ratio == 1 and not rows["its scan"].work
