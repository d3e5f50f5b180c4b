"""The fast scan beside the plain one: values, gradients, last state, every length and precision.

VIDEOPRED_TEST_DEVICE names the device; `interpreted.py` runs these tests on the kernels without a GPU.
"""

import os

import pytest
import torch

from videopred.nn.scan import scan, scan_reference

DEVICE = os.environ.get("VIDEOPRED_TEST_DEVICE", "cpu")
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}


def case(
    length: int,
    dtype: torch.dtype = torch.float64,
    lanes: tuple[int, ...] = (3, 2),
    p: int = 5,
    *,
    varying: bool = False,
):
    """a inside the unit circle with an angle of its own per state (or per element), b, and a nonzero initial state."""
    shape = (2, length, *lanes, p) if varying else (p,)
    radius, angle = torch.rand(shape) * 0.3 + 0.7, torch.randn(shape)
    a = torch.stack([radius * angle.cos(), radius * angle.sin()], -1)
    b, initial = torch.randn(2, length, *lanes, p, 2), torch.randn(2, *lanes, p, 2)
    return [x.to(DEVICE, dtype).requires_grad_() for x in (a, b, initial)]


def assert_close(got: torch.Tensor, want: torch.Tensor) -> None:
    torch.testing.assert_close(got, want, rtol=0, atol=TOLERANCE[want.dtype] * want.abs().max().item())


@pytest.fixture(params=[False, True], ids=["shared", "varying"])
def varying(request):
    return request.param


def test_the_plain_loop_is_the_recurrence_in_complex_numbers(varying):
    a, b, initial = (x.detach() for x in case(4, varying=varying))
    x, want = torch.view_as_complex(initial), []
    for t, b_t in enumerate(torch.view_as_complex(b).unbind(1)):
        x = torch.view_as_complex(a[:, t] if varying else a) * x + b_t
        want.append(x)
    assert_close(scan_reference(a, b, initial), torch.view_as_real(torch.stack(want, 1)))


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("length", [1, 2, 7, 64])
def test_values_and_gradients_equal_the_plain_loop(length, dtype, varying):
    arguments = case(length, dtype, varying=varying)
    fast, plain = scan(*arguments), scan_reference(*arguments)
    assert_close(fast, plain)
    weights = torch.randn_like(plain)
    weights[:, -1] *= 10  # what a later chunk sends back through the last state
    of_fast, of_plain = (torch.autograd.grad((weights * x).sum(), arguments) for x in (fast, plain))
    for got, want in zip(of_fast, of_plain, strict=True):
        assert_close(got, want)


def test_lanes_that_fill_no_block(varying):
    """67 lanes and 3 clips of 9 steps: of a kernel's blocks of lanes, and of steps, the last are not full."""
    a, b, initial = case(9, torch.float32, (67,), 1, varying=varying)
    b, initial = b.repeat(2, 1, 1, 1, 1)[:3], initial.repeat(2, 1, 1, 1)[:3]
    a = a.repeat(2, 1, 1, 1, 1)[:3] if varying else a
    arguments = [x.detach().requires_grad_() for x in (a, b, initial)]
    fast, plain = scan(*arguments), scan_reference(*arguments)
    assert_close(fast, plain)
    of_fast, of_plain = (torch.autograd.grad(x.sin().sum(), arguments) for x in (fast, plain))
    for got, want in zip(of_fast, of_plain, strict=True):
        assert_close(got, want)


@pytest.mark.parametrize("lanes", [(), (3,), (2, 2, 3)], ids=str)
def test_any_number_of_lanes(lanes, varying):
    arguments = case(3, lanes=lanes, varying=varying)
    assert_close(scan(*arguments), scan_reference(*arguments))
    torch.autograd.gradcheck(scan, arguments)


def test_chunks_with_the_state_carried_equal_the_whole(varying):
    a, b, initial = case(7, varying=varying)
    whole, outputs, state, sizes = scan(a, b, initial), [], initial, [1, 4, 2]
    for a_of_chunk, chunk in zip(a.split(sizes, 1) if varying else [a] * 3, b.split(sizes, 1), strict=True):
        outputs.append(scan(a_of_chunk, chunk, state))
        state = outputs[-1][:, -1]
    assert torch.equal(torch.cat(outputs, 1), whole)


def test_steps_do_not_commute():
    """Two steps in the other order give another state; one that varies in nothing gives what a shared one gives."""
    a, b, initial = (x.detach() for x in case(2, varying=True))
    assert not torch.allclose(scan(a.flip(1), b.flip(1), initial)[:, -1], scan(a, b, initial)[:, -1], atol=0.1)
    a, b, initial = (x.detach() for x in case(5))
    assert_close(scan(a.expand(b.shape), b, initial), scan(a, b, initial))


def test_an_a_of_another_shape_is_refused():
    a, b, initial = case(3)
    with pytest.raises(ValueError, match=r"a \(1, 5, 2\) must have the shape of b \(2, 3, 3, 2, 5, 2\) or of its last"):
        scan(a[None], b, initial)


def test_only_wanted_gradients_are_needed(varying):
    a, b, initial = case(5, varying=varying)
    (gradient,) = torch.autograd.grad(scan(a.detach(), b, initial.detach()).sum(), b)
    (want,) = torch.autograd.grad(scan_reference(a.detach(), b, initial.detach()).sum(), b)
    assert_close(gradient, want)


def test_arguments_stay_as_they_are(varying):
    arguments = case(5, varying=varying)
    before = [x.detach().clone() for x in arguments]
    scan(*arguments).sum().backward()
    assert all(torch.equal(x, y) for x, y in zip(arguments, before, strict=True))


def test_half_precision_is_computed_in_float32(varying):
    a, b, initial = (x.detach() for x in case(64, torch.float32, varying=varying))
    short, as_long = b.bfloat16().requires_grad_(), b.bfloat16().float().requires_grad_()
    out, want = scan(a, short, initial), scan_reference(a, as_long, initial)
    assert out.dtype == torch.float32
    assert_close(out, want)
    weights = torch.randn_like(out)
    (gradient,) = torch.autograd.grad((weights * out).sum(), short)
    (wanted,) = torch.autograd.grad((weights * want).sum(), as_long)
    assert gradient.dtype == torch.bfloat16
    torch.testing.assert_close(gradient.float(), wanted, rtol=2**-7, atol=1e-5)  # cut off, where it is not rounded


def test_strided_memory():
    a, b, initial = (x.detach() for x in case(6))
    strided = b.transpose(1, 3).contiguous().transpose(1, 3)
    assert not strided.is_contiguous()
    assert torch.equal(scan(a, strided, initial), scan(a, b, initial))


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # opcheck's own
def test_the_operator_keeps_the_rules_of_torch_library(varying):
    """Schema, fake tensors, autograd registration and AOT dispatch, so that it compiles."""
    torch.library.opcheck(torch.ops.videopred.scan.default, tuple(case(3, varying=varying)))
    a, x, initial = (x.detach().float() for x in case(3, varying=varying))
    arguments = torch.randn_like(x), a, x, initial, torch.bfloat16
    torch.library.opcheck(torch.ops.videopred.scan_backward.default, arguments)


def test_compiles_without_a_break(varying):
    """Sixty-four steps are one operator: Dynamo does not see the loop."""
    graphs = []

    def keep(graph, _):
        graphs.append(graph)
        return graph.forward

    arguments = case(64, varying=varying)
    compiled = torch.compile(scan, fullgraph=True, dynamic=False, backend=keep)
    assert_close(compiled(*arguments), scan(*arguments))
    assert len(graphs) == 1 and len(graphs[0].graph.nodes) < 20
