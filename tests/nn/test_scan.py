"""The fast scan beside the plain one: values, gradients, last state, every length and precision."""

import pytest
import torch

from videopred.nn.scan import scan, scan_reference

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}


def case(length: int, dtype: torch.dtype = torch.float64, lanes: tuple[int, ...] = (3, 2), p: int = 5):
    """a inside the unit circle with an angle of its own per state, b, and a nonzero initial state."""
    radius, angle = torch.rand(p) * 0.3 + 0.7, torch.randn(p)
    a = torch.stack([radius * angle.cos(), radius * angle.sin()], -1)
    b, initial = torch.randn(2, length, *lanes, p, 2), torch.randn(2, *lanes, p, 2)
    return [x.to(dtype).requires_grad_() for x in (a, b, initial)]


def assert_close(got: torch.Tensor, want: torch.Tensor) -> None:
    torch.testing.assert_close(got, want, rtol=0, atol=TOLERANCE[want.dtype] * want.abs().max().item())


def test_the_plain_loop_is_the_recurrence_in_complex_numbers():
    a, b, initial = (x.detach() for x in case(4))
    x, want = torch.view_as_complex(initial), []
    for b_t in torch.view_as_complex(b).unbind(1):
        x = torch.view_as_complex(a) * x + b_t
        want.append(x)
    assert_close(scan_reference(a, b, initial), torch.view_as_real(torch.stack(want, 1)))


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("length", [1, 2, 7, 64])
def test_values_and_gradients_equal_the_plain_loop(length, dtype):
    arguments = case(length, dtype)
    fast, plain = scan(*arguments), scan_reference(*arguments)
    assert_close(fast, plain)
    weights = torch.randn_like(plain)
    weights[:, -1] *= 10  # what a later chunk sends back through the last state
    of_fast, of_plain = (torch.autograd.grad((weights * x).sum(), arguments) for x in (fast, plain))
    for got, want in zip(of_fast, of_plain, strict=True):
        assert_close(got, want)


@pytest.mark.parametrize("lanes", [(), (3,), (2, 2, 3)], ids=str)
def test_any_number_of_lanes(lanes):
    arguments = case(3, lanes=lanes)
    assert_close(scan(*arguments), scan_reference(*arguments))
    torch.autograd.gradcheck(scan, arguments)


def test_chunks_with_the_state_carried_equal_the_whole():
    a, b, initial = case(7)
    whole, outputs, state = scan(a, b, initial), [], initial
    for chunk in b.split([1, 4, 2], 1):
        outputs.append(scan(a, chunk, state))
        state = outputs[-1][:, -1]
    assert torch.equal(torch.cat(outputs, 1), whole)


def test_only_wanted_gradients_are_needed():
    a, b, initial = case(5)
    (gradient,) = torch.autograd.grad(scan(a.detach(), b, initial.detach()).sum(), b)
    (want,) = torch.autograd.grad(scan_reference(a.detach(), b, initial.detach()).sum(), b)
    assert_close(gradient, want)


def test_arguments_stay_as_they_are():
    arguments = case(5)
    before = [x.detach().clone() for x in arguments]
    scan(*arguments).sum().backward()
    assert all(torch.equal(x, y) for x, y in zip(arguments, before, strict=True))


def test_half_precision_is_computed_in_float32():
    a, b, initial = case(64, torch.float32)
    out = scan(a, b.bfloat16(), initial)
    assert out.dtype == torch.float32
    assert_close(out, scan_reference(a, b.bfloat16().float(), initial))


def test_strided_memory():
    a, b, initial = (x.detach() for x in case(6))
    strided = b.transpose(1, 3).contiguous().transpose(1, 3)
    assert not strided.is_contiguous()
    assert torch.equal(scan(a, strided, initial), scan(a, b, initial))


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # opcheck's own
def test_the_operator_keeps_the_rules_of_torch_library():
    """Schema, fake tensors, autograd registration and AOT dispatch, so that it compiles."""
    torch.library.opcheck(torch.ops.videopred.scan.default, tuple(case(3)))
    grad, (a, x, initial) = torch.randn(2, 3, 3, 2, 5, 2), (x.detach().float() for x in case(3))
    torch.library.opcheck(torch.ops.videopred.scan_backward.default, (grad, a, x, initial))


def test_compiles_without_a_break():
    """Sixty-four steps are one operator: Dynamo does not see the loop."""
    graphs = []

    def keep(graph, _):
        graphs.append(graph)
        return graph.forward

    arguments = case(64)
    compiled = torch.compile(scan, fullgraph=True, backend=keep)
    assert_close(compiled(*arguments), scan(*arguments))
    assert len(graphs) == 1 and len(graphs[0].graph.nodes) < 20
