"""What holds for ConvGRU alone."""

import torch

from videopred.dynamics.convgru import ConvGRUConfig


def test_kernel_size_1_is_the_recurrence_with_matrices():
    layer = ConvGRUConfig(kernel_size=1).build(3).double()
    torch.nn.init.normal_(layer.inputs.bias)
    weight, bias = layer.inputs.weight[..., 0, 0], layer.inputs.bias
    gates, candidate = layer.gates.weight[..., 0, 0], layer.candidate.weight[..., 0, 0]
    u, h, want = torch.randn(5, 3).double(), torch.rand(3).double(), []
    start = h[None, :, None, None]
    for u_t in u:
        z = torch.sigmoid(weight[:3] @ u_t + bias[:3] + gates[:3] @ h)
        r = torch.sigmoid(weight[3:6] @ u_t + bias[3:6] + gates[3:] @ h)
        n = torch.tanh(weight[6:] @ u_t + bias[6:] + candidate @ (r * h))
        h = z * h + (1 - z) * n
        want.append(h)
    y, last = layer(u[None, :, :, None, None], start)
    torch.testing.assert_close(y[0, :, :, 0, 0], torch.stack(want), rtol=0, atol=1e-12)
    assert torch.equal(last, y[:, -1])


def test_the_state_stays_between_minus_one_and_one():
    _, last = ConvGRUConfig().build(4)(torch.randn(2, 50, 4, 3, 3) * 30)
    assert last.abs().max() <= 1
