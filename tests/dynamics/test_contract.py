"""What every member of `videopred.dynamics` must do."""

import dataclasses
import typing

import pytest
import torch
from torch import Tensor

from videopred.dynamics import Dynamics
from videopred.dynamics.convs5 import ConvS5Config

WIDTH, HEIGHT, FRAME_WIDTH = 6, 3, 4
SMALL = {  # of the fields a member may have
    "num_states": 8,
    "num_heads": 2,
    "num_features": 3,
    "window": 4,
    "patch": 1,
    "grid": (HEIGHT, FRAME_WIDTH),
    "token_width": 8,
    "mlp_width": 5,
    "depth": 1,
}
GROWS = {"paper_transformer": "keeps up to window - 1 frames of tokens, because it encodes its window afresh"}
SHORT = {"transformer": "a cache is no sum: under autocast it keeps the precision that its keys were computed in"}
MEMBERS = [
    member(**{key: SMALL[key] for key in SMALL if key in {field.name for field in dataclasses.fields(member)}})
    for member in typing.get_args(Dynamics) or (Dynamics,)
]
MORE = [
    ConvS5Config(num_states=8, num_blocks=2, b_kernel_size=1, c_kernel_size=2, feedthrough=3, clip_eigenvalues=False),
]
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}


def name(config) -> str:
    return config.kind + ("" if config in MEMBERS else "-more")


@pytest.fixture(params=MEMBERS + MORE, ids=name)
def config(request):
    return request.param


def clip(length: int, batch: int = 2, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(batch, length, WIDTH, HEIGHT, FRAME_WIDTH, dtype=dtype)


def leaves(state) -> list[Tensor]:
    """The tensors of a state, a nest of tuples."""
    return [state] if isinstance(state, Tensor) else [leaf for part in state for leaf in leaves(part)]


def pieces(layer, x: Tensor, state, sizes: list[int]):
    outputs = []
    for piece in x.split(sizes, 1):
        y, state = layer(piece, state)
        outputs.append(y)
    return torch.cat(outputs, 1), state


def assert_close(got, want, tolerance: float) -> None:
    for g, w in zip(leaves(got), leaves(want), strict=True):
        torch.testing.assert_close(g, w, rtol=0, atol=tolerance * max(1.0, w.abs().max().item()))


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("started", [False, True], ids=["from-none", "from-state"])
def test_whole_is_chunks_is_frame_by_frame(config, dtype, started):
    layer, x = config.build(WIDTH).to(dtype), clip(9, dtype=dtype)
    state = layer(clip(3, dtype=dtype))[1] if started else None
    y, last = layer(x, state)
    assert y.shape == x.shape
    for sizes in [4, 3, 2], [1, 8], [1] * 9:
        assert_close(pieces(layer, x, state, sizes), (y, last), TOLERANCE[dtype])


def test_the_state_matters(config):
    """Else the test above says nothing."""
    layer, x = config.build(WIDTH).double(), clip(4)
    assert not torch.allclose(layer(x)[0][:, 0], layer(x, layer(clip(3))[1])[0][:, 0], atol=1e-3)


def test_the_future_does_not_change_the_past(config):
    layer, x = config.build(WIDTH).double(), clip(6)
    changed = torch.cat([x[:, :4], clip(2)], 1)
    assert_close(layer(changed)[0][:, :4], layer(x)[0][:, :4], 1e-12)
    assert not torch.allclose(layer(changed)[0][:, 4], layer(x)[0][:, 4])


def test_clips_of_a_batch_are_independent(config):
    layer, x = config.build(WIDTH).double(), clip(5, batch=3)
    state = layer(clip(2, batch=3))[1]
    y, last = layer(x, state)
    for i in range(3):
        one = _map(state, lambda leaf, i=i: leaf[i : i + 1])
        assert_close(layer(x[i : i + 1], one), (y[i : i + 1], _map(last, lambda leaf, i=i: leaf[i : i + 1])), 1e-12)


def _map(state, function):
    return function(state) if isinstance(state, Tensor) else tuple(_map(part, function) for part in state)


def test_the_given_state_and_clip_stay_as_they_are(config):
    layer, x = config.build(WIDTH), clip(3, dtype=torch.float32)
    _, state = layer(x)
    before = [leaf.clone() for leaf in [x, *leaves(state)]]
    layer(x, state)[0].sum().backward()
    assert all(torch.equal(leaf, kept) for leaf, kept in zip([x, *leaves(state)], before, strict=True))


def test_the_state_is_batch_first_float32_and_of_constant_size(config):
    layer = config.build(WIDTH)
    with torch.no_grad():
        _, early = layer(clip(8 if config.kind in GROWS else 2, batch=3, dtype=torch.float32))
        _, late = layer(clip(30, batch=3, dtype=torch.float32), early)
    for leaf, other in zip(leaves(early), leaves(late), strict=True):
        assert len(leaf) == 3 and leaf.shape == other.shape
        assert leaf.dtype == (torch.float32 if leaf.is_floating_point() else torch.int64)
        held = other.untyped_storage().nbytes()  # a view would keep all thirty frames alive
        assert held == other.numel() * other.element_size()


def test_gradients(config):
    sides = getattr(config, "grid", (2, 2))
    layer = config.build(2).double()
    names, parameters = zip(*layer.named_parameters(), strict=True)
    x = torch.randn(1, 3, 2, *sides, dtype=torch.float64, requires_grad=True)
    state = _map(layer(x[:, :2])[1], lambda leaf: leaf.detach().requires_grad_(leaf.is_floating_point()))

    def outputs(x, *parameters):
        y, last = torch.func.functional_call(layer, dict(zip(names, parameters, strict=True)), (x, state))
        return y, *(leaf for leaf in leaves(last) if leaf.is_floating_point())

    def of_state(*given):
        rest = iter(given)
        y, last = layer(x.detach(), _map(state, lambda leaf: next(rest) if leaf.is_floating_point() else leaf))
        return y, *(leaf for leaf in leaves(last) if leaf.is_floating_point())

    many = sum(p.numel() for p in parameters) > 300
    torch.autograd.gradcheck(outputs, (x, *parameters), fast_mode=many)
    torch.autograd.gradcheck(of_state, [leaf for leaf in leaves(state) if leaf.is_floating_point()])


def test_bfloat16_autocast_is_near_float32_also_after_many_frames(config):
    layer, x = config.build(WIDTH), clip(300, dtype=torch.float32)
    with torch.no_grad():
        want, _ = layer(x)
        with torch.autocast("cpu", torch.bfloat16):
            got, state = pieces(layer, x, None, [299, 1])
    kept = torch.bfloat16 if config.kind in SHORT else torch.float32
    assert all(leaf.dtype == kept for leaf in leaves(state) if leaf.is_floating_point())
    error = (got.float() - want).square().mean((0, 2, 3, 4)).sqrt() / want.square().mean().sqrt()
    assert error.max() < 0.03  # NaN fails too


def test_saved_and_loaded_it_is_the_same(config, tmp_path):
    layer, other, x = config.build(WIDTH), config.build(WIDTH), clip(3, dtype=torch.float32)
    torch.save(layer.state_dict(), tmp_path / "layer.pt")
    assert not torch.equal(other(x)[0], layer(x)[0])
    other.load_state_dict(torch.load(tmp_path / "layer.pt", weights_only=True))
    assert torch.equal(other(x)[0], layer(x)[0])


def test_no_decay_names_its_own_parameters(config):
    layer = config.build(WIDTH)
    own = {id(p) for p in layer.parameters()}
    assert {id(p) for p in getattr(layer, "no_decay", list)()} <= own


@pytest.mark.parametrize("config", MEMBERS, ids=name)
def test_it_compiles_without_a_break_and_is_the_same(config):
    """Forward and backward; Dynamo sees each time step of a member that loops, so the clip is short."""
    layer, x = config.build(WIDTH).double(), clip(2)
    compiled = torch.compile(layer, fullgraph=True, dynamic=False, backend="aot_eager")
    state = _map(layer(clip(3))[1], Tensor.detach)
    got, want = compiled(x, state), layer(x, state)
    assert_close(got, want, 1e-12)
    of_got, of_want = (torch.autograd.grad(y.square().sum(), list(layer.parameters())) for y, _ in (got, want))
    assert_close(of_got, of_want, 1e-10)
