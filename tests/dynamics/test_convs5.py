"""What holds for ConvS5 alone."""

import pytest
import torch

from videopred.dynamics.convs5 import ConvS5Config
from videopred.nn.recall import sharing
from videopred.nn.ssm import hippo_eigen


def test_kernel_size_1_is_s5_at_every_pixel_by_itself():
    layer = ConvS5Config(num_states=8, b_kernel_size=1, c_kernel_size=1).build(6).double()
    x = torch.randn(2, 5, 6, 3, 4, dtype=torch.float64)
    alone = x.permute(0, 3, 4, 1, 2).reshape(24, 5, 6, 1, 1)  # every pixel a clip of its own
    want = layer(alone)[0].reshape(2, 3, 4, 5, 6).permute(0, 3, 4, 1, 2)
    torch.testing.assert_close(layer(x)[0], want, rtol=0, atol=1e-12)


def test_it_is_the_recurrence_in_complex_numbers():
    """x_t = A_bar x_{t-1} + B_bar u_t, y_t = 2 Re(C x_t) at one pixel, from the stored parameters."""
    layer = ConvS5Config(num_states=8, b_kernel_size=1, c_kernel_size=1).build(3).double()
    u = torch.randn(4, 3, dtype=torch.float64)
    eigenvalues = torch.complex(layer.lambda_re, layer.lambda_im)
    a = torch.exp(eigenvalues * layer.log_step.exp())
    b = ((a - 1) / eigenvalues)[:, None] * torch.view_as_complex(layer.b)[:, :, 0, 0]
    c = torch.view_as_complex(layer.c)[:, :, 0, 0]
    x, want = torch.zeros(4, dtype=torch.complex128), []
    for u_t in u:
        x = a * x + b @ u_t.to(b.dtype)
        want.append(2 * (c @ x).real)
    got, _ = layer(u[None, :, :, None, None])
    torch.testing.assert_close(got[0, :, :, 0, 0], torch.stack(want), rtol=0, atol=1e-12)


@pytest.mark.parametrize("clip", [True, False])
def test_clipped_eigenvalues_cannot_grow(clip):
    """After a step that drives the real parts above zero."""
    layer = ConvS5Config(num_states=16, clip_eigenvalues=clip).build(4)
    layer.lambda_re.data = torch.linspace(-1, 5, 8)
    layer.log_step.data += 2
    a, _, _ = layer.discretise()
    assert (a.norm(dim=-1).max() <= 1) == clip
    _, state = layer(torch.ones(1, 200, 4, 2, 2))
    assert state.isfinite().all() or not clip


def test_initial_values():
    """He normal with half of the variance in each part; eigenvalues of HiPPO-N in blocks; steps in their range."""
    layer = ConvS5Config(num_states=64, num_blocks=4, step_range=(0.01, 0.02)).build(64)
    eigenvalues, vectors = hippo_eigen(64, 4)
    assert (layer.lambda_re == -0.5).all()
    torch.testing.assert_close(layer.lambda_im.double(), eigenvalues.imag, rtol=1e-6, atol=0)
    assert layer.log_step.exp().min() >= 0.01 and layer.log_step.exp().max() <= 0.02
    std = (2 / (64 * 9)) ** 0.5 / 2**0.5
    for kernel in layer.b, layer.c:
        assert kernel.shape[0] + kernel.shape[1] == 32 + 64
        for part in kernel.unbind(-1):
            assert part.std().item() == pytest.approx(std, rel=0.03)
    # B is V^H times something real: what V takes back has no imaginary part beyond the kept half's
    b = torch.view_as_complex(layer.b.data).to(torch.complex128).flatten(1)
    real = 2 * (vectors @ b).real  # V and its conjugate together restore the real B0
    torch.testing.assert_close(vectors.mH @ real.to(b.dtype), b, rtol=0, atol=1e-6)
    assert real.std().item() == pytest.approx((2 / (64 * 9)) ** 0.5, rel=0.03)


def test_feedthrough_adds_a_convolution_of_the_input():
    plain = ConvS5Config(num_states=8).build(4)
    layer = ConvS5Config(num_states=8, feedthrough=5).build(4)
    layer.load_state_dict({**layer.state_dict(), **plain.state_dict()})
    x = torch.randn(2, 3, 4, 6, 5)
    want = plain(x)[0] + layer.feedthrough(x.flatten(0, 1)).unflatten(0, (2, 3))
    torch.testing.assert_close(layer(x)[0], want)


def test_initial_values_drawn_at_random():
    """Kernels have the size that HiPPO gives them; eigenvalues are another draw each time, and stable."""
    config = ConvS5Config(num_states=64, num_blocks=2, initial="random")
    layer, other = config.build(64), config.build(64)
    assert not torch.equal(layer.lambda_re, other.lambda_re)
    assert layer.discretise()[0].norm(dim=-1).max() < 1
    for kernel in layer.b, layer.c:
        assert kernel.std().item() == pytest.approx((1 / (64 * 9)) ** 0.5, rel=0.03)


def test_frames_of_a_rollout_share_one_discretisation_and_are_the_same_bit_for_bit(monkeypatch):
    layer, x = ConvS5Config(num_states=4).build(3), torch.randn(2, 6, 3, 4, 4)
    calls, compute = [], layer.discretise
    monkeypatch.setattr(layer, "discretise", lambda: calls.append(1) or compute())

    def stream():
        state, frames = None, []
        for frame in x.split(1, 1):
            y, state = layer(frame, state)
            frames.append(y)
        return torch.cat(frames, 1)

    with torch.no_grad():
        kept = stream()
        assert len(calls) == 1
    anew = stream()  # with gradient nothing is kept
    assert len(calls) == 7 and torch.equal(kept, anew)
    with sharing():
        shared = stream()
    assert len(calls) == 8 and torch.equal(shared, anew)
    leaves = list(layer.parameters())
    for got, want in zip(
        torch.autograd.grad(shared.square().sum(), leaves),
        torch.autograd.grad(anew.square().sum(), leaves),
        strict=True,
    ):
        torch.testing.assert_close(got, want)
    layer.log_step.data.add_(1)
    with torch.no_grad():
        assert not torch.equal(stream(), kept)
