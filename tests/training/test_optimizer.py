"""Parameter groups, schedules, and the update by its formula."""

import dataclasses
from itertools import pairwise

import pytest
import torch

from videopred.clip import Format
from videopred.codecs.resnet import ResNetCodecConfig
from videopred.dynamics.convs4 import ConvS4Config
from videopred.dynamics.convs5 import ConvS5Config
from videopred.dynamics.gated import GatedConfig
from videopred.dynamics.s5 import S5Config
from videopred.predictors.actions import ActionsConfig
from videopred.predictors.pixel import PixelConfig
from videopred.predictors.stack import StackConfig
from videopred.spatial.convnext import ConvNeXtConfig
from videopred.spatial.resnet import ResNetConfig
from videopred.spatial.ssm2d import SSM2DMixerConfig
from videopred.training.optimizer import OptimizerConfig, groups, learning_rate

CONFIG = OptimizerConfig(learning_rate=0.1, warmup_steps=10, weight_decay=0.5)


@pytest.fixture
def model():
    return PixelConfig(
        codec=ResNetCodecConfig(encoder_widths=(4, 8), decoder_widths=(4, 8), num_groups=2),
        stack=StackConfig(
            width=4, depth=2, dynamics=ConvS5Config(num_states=4, feedthrough=3), spatial=ResNetConfig(num_groups=2)
        ),
        actions=ActionsConfig(width=2),
    ).build(Format(channels=1, height=4, width=4, num_actions=3))


def decays(model, config) -> dict[str, float]:
    """The decay of each parameter by name; each is in exactly one group."""
    names = {id(p): name for name, p in model.named_parameters()}
    made = config.build(model).param_groups
    found = [(names[id(p)], group["weight_decay"]) for group in made for p in group["params"]]
    assert sorted(name for name, _ in found) == sorted(names.values())
    return dict(found)


def test_ours_decays_kernels_and_matrices_only(model):
    decay = decays(model, CONFIG)
    for name, value in decay.items():
        leaf = name.rpartition(".")[2]
        spared = leaf in ("bias", "lambda_re", "lambda_im", "log_step", "b", "c") or ".norm" in name
        assert value == (0 if spared else 0.5), name
    assert decay["mix.weight"] == decay["actions.table.weight"] == decay["codec.encoder.stem.weight"] == 0.5
    assert decay["stack.layers.0.dynamics.feedthrough.weight"] == 0.5
    assert decay["stack.layers.1.dynamics.b"] == decay["stack.layers.0.spatial.norm1.weight"] == 0


def test_the_papers_decays_everything(model):
    assert set(decays(model, dataclasses.replace(CONFIG, decay="all")).values()) == {0.5}


@pytest.mark.parametrize("decay", ["matrices", "all"])
def test_groups_follow_the_order_of_the_parameters(model, decay):
    """A checkpoint's optimiser state is matched by place."""
    place = {id(p): i for i, p in enumerate(model.parameters())}
    for group in groups(model, dataclasses.replace(CONFIG, decay=decay)):
        order = [place[id(p)] for p in group["params"]]
        assert order == sorted(order)


def test_a_zero_gradient_leaves_only_decay(model):
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = CONFIG.build(model)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    decay = decays(model, CONFIG)
    for name, p in model.named_parameters():
        torch.testing.assert_close(p.detach(), before[name] * (1 - 0.1 * decay[name]), msg=name)


def test_two_updates_by_the_formula():
    """AdamW (Loshchilov and Hutter, 2019) with betas 0.9 and 0.95, epsilon 1e-8; decay is multiplied by the rate."""
    module = torch.nn.Linear(2, 2, bias=False).double()
    w, m, v = module.weight.detach().clone(), 0, 0
    optimizer = CONFIG.build(module)
    for step in (1, 2):
        gradient = torch.randn(2, 2, dtype=torch.float64)
        m, v = 0.9 * m + 0.1 * gradient, 0.95 * v + 0.05 * gradient**2
        w = w - 0.1 * (m / (1 - 0.9**step) / ((v / (1 - 0.95**step)).sqrt() + 1e-8) + 0.5 * w)
        module.weight.grad = gradient
        optimizer.step()
    torch.testing.assert_close(module.weight.detach(), w, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "schedule, end",
    [("cosine", 100), ("paper_cosine", 90)],  # the step from which nothing more is learned
)
def test_cosine_rises_falls_and_ends(schedule, end):
    config = dataclasses.replace(CONFIG, schedule=schedule)
    rates = [learning_rate(config, step, 100) for step in range(101)]
    assert rates[:11] == pytest.approx([0.01 * step for step in range(11)])
    assert all(before > after for before, after in pairwise(rates[10 : end + 1]))
    assert rates[(10 + end) // 2] == pytest.approx(0.05)
    assert all(rate == 0 for rate in rates[end:])


def test_constant_stays_after_the_warm_up():
    config = dataclasses.replace(CONFIG, schedule="constant")
    assert [learning_rate(config, step, 20) for step in (0, 5, 10, 19)] == [0, 0.05, 0.1, 0.1]


def test_no_warm_up_starts_at_the_peak():
    assert learning_rate(dataclasses.replace(CONFIG, warmup_steps=0), 0, 100) == 0.1


def test_a_run_shorter_than_its_warm_up_is_no_error():
    for schedule in ("cosine", "paper_cosine", "constant"):
        config = dataclasses.replace(CONFIG, schedule=schedule)
        assert all(0 <= learning_rate(config, step, 5) <= 0.1 for step in range(5))


def test_a_part_may_ask_for_a_multiple_of_the_rate():
    class Slow(torch.nn.Linear):
        def learning_rates(self):
            return [(self.weight, 0.1)]

    slow, fast = Slow(2, 2), torch.nn.Linear(2, 2)
    model = torch.nn.Sequential(slow, fast)
    for decay in "matrices", "all":
        made = groups(model, dataclasses.replace(CONFIG, decay=decay))
        factors = {id(p): group["factor"] for group in made for p in group["params"]}
        assert factors == {id(p): 0.1 if p is slow.weight else 1.0 for p in model.parameters()}


FACTS = {  # of each part: what is spared although it has several axes, and what learns at a tenth of the rate
    "convs5": (ConvS5Config(num_states=4), {"b", "c"}, set()),
    "gated": (GatedConfig(num_states=4), {"b", "c", "step.weight"}, set()),
    "convs4": (ConvS4Config(num_states=4), {"log_decay", "lambda_im", "log_step", "c"}, set()),
    "s5": (S5Config(grid=(2, 2), token_width=4, num_states=4), {"ssm.b", "ssm.c"}, set()),
    "ssm2d, real": (SSM2DMixerConfig(), {"a", "b", "c"}, set()),
    "ssm2d, complex": (SSM2DMixerConfig(numbers="complex"), {"a", "b", "c"}, {"a", "b", "c"}),
    "convnext over it": (
        ConvNeXtConfig(mixer=SSM2DMixerConfig(numbers="complex")),
        {"mixer.a", "mixer.b", "mixer.c"},
        {"mixer.a", "mixer.b", "mixer.c"},
    ),
}


@pytest.mark.parametrize("part, spared, slow", FACTS.values(), ids=FACTS)
def test_what_a_part_says_of_its_parameters_reaches_the_optimiser(part, spared, slow):
    """Nothing with one axis is decayed: steps, eigenvalues, D and gamma are of these."""
    module = part.build(4)
    names = {id(p): name for name, p in module.named_parameters()}
    for group in CONFIG.build(torch.nn.ModuleDict({"inner": module})).param_groups:
        for p in group["params"]:
            name = names.pop(id(p))
            assert group["weight_decay"] == (0 if p.dim() == 1 or name in spared else 0.5), name
            assert group["factor"] == (0.1 if name in slow else 1.0), name
    assert not names
