"""Vector quantisation: gradients, running means, dead codes."""

import pytest
import torch

from videopred.nn.quantize import AveragedCodebook, Codebook, CosineCodebook, nearest, spread


def vectors(num: int = 64, width: int = 3, seed: int = 0) -> torch.Tensor:
    return torch.randn(num, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_nearest_is_the_least_distance():
    x, codes = vectors(50), vectors(20, seed=1)
    assert torch.equal(nearest(x.view(5, 10, 3), codes), torch.cdist(x, codes).argmin(1).view(5, 10))


@pytest.mark.parametrize("member", [Codebook, AveragedCodebook, CosineCodebook])
def test_bfloat16_autocast_does_not_confuse_neighbours(member):
    codebook, x = member(256, 8), vectors(500, 8).float()
    wide = codebook.double()(x.double()) if member is not CosineCodebook else None
    with torch.autocast("cpu", torch.bfloat16):
        found = codebook.float()(x)
    assert found.vectors.dtype == (torch.bfloat16 if member is CosineCodebook else torch.float32)
    assert found.commitment.dtype == torch.float32
    assert wide is None or torch.equal(found.ids, wide.ids)


@pytest.mark.parametrize("member", [Codebook, AveragedCodebook])
def test_gradient_goes_straight_through_and_the_losses_draw_both_sides(member):
    codebook, x = member(8, 3, beta=0.5).double(), vectors().requires_grad_()
    found = codebook(x)
    weights = vectors(seed=2)
    (found.vectors * weights).sum().backward()
    assert torch.equal(x.grad, weights)
    apart = x.detach() - codebook.embed(found.ids).detach()
    assert torch.isclose(found.commitment, 0.5 * apart.square().mean() / 2)
    x.grad = None
    found.commitment.backward()
    torch.testing.assert_close(x.grad, 0.5 * apart / apart.numel())
    if member is Codebook:
        codebook.codes.grad = None
        codebook(x).codebook.backward()
        wanted = torch.zeros_like(codebook.codes).index_add_(0, found.ids, -apart / apart.numel())
        torch.testing.assert_close(codebook.codes.grad, wanted)
    else:
        assert not list(codebook.parameters())


def test_the_first_settling_puts_every_code_on_a_vector_and_forward_changes_nothing():
    codebook, x = Codebook(16, 3).double(), vectors()
    before = {name: tensor.clone() for name, tensor in codebook.state_dict().items()}
    found = codebook(x)
    assert all(torch.equal(before[name], tensor) for name, tensor in codebook.state_dict().items())
    assert codebook.settle(x, found.ids, generator()) == 16
    assert all((code == x).all(1).any() for code in codebook.codes.detach())
    assert len(codebook.codes.unique(dim=0)) == 16


@pytest.mark.parametrize("member", [Codebook, AveragedCodebook])
def test_a_code_that_most_vectors_are_near_at_first_is_spread_too(member):
    codebook, x = member(16, 3).double(), vectors() + 10
    ids = torch.zeros(64, dtype=torch.int64)
    assert codebook.settle(x, ids, generator()) == 16
    assert codebook.settle(x, ids, generator()) == 0, "it has been used"
    never = member(4, 3, restart_below=0).double()
    assert never.settle(x, ids, generator()) == 0


def test_running_means_are_those_of_their_vectors():
    codebook, x = AveragedCodebook(4, 3, decay=0.9, restart_below=0).double(), vectors()
    sizes, sums = torch.ones(4).double(), codebook.codes.clone()
    for _ in range(5):
        ids = codebook(x).ids
        one_hot = torch.nn.functional.one_hot(ids, 4).double()
        sizes, sums = 0.9 * sizes + 0.1 * one_hot.sum(0), 0.9 * sums + 0.1 * one_hot.T @ x
        assert codebook.settle(x, ids, generator()) == 0
        torch.testing.assert_close(codebook.codes, sums / sizes[:, None])


@pytest.mark.parametrize("member", [Codebook, AveragedCodebook])
def test_a_dead_code_is_put_to_new_use_and_the_others_stay(member):
    codebook, x = member(4, 3).double(), vectors()
    codebook.settle(x, codebook(x).ids, generator())
    kept = codebook.codes.detach().clone()
    codebook.codes.data[3] = 1e3
    codebook.used[3] = 0.01
    ids = codebook(x).ids
    assert (ids != 3).all()
    assert codebook.settle(x, ids, generator()) == 1
    assert (x == codebook.codes[3].detach()).all(1).any()
    moved = (codebook.codes[:3].detach() - kept[:3]).abs().max()
    assert moved == 0 if member is Codebook else 0 < moved < 0.2
    codebook.settle(x, codebook(x).ids, generator())  # what was put there stays there, near
    assert (x - codebook.codes[3].detach()).norm(dim=1).min() < 0.3


def test_fewer_vectors_than_dead_codes():
    codebook, x = Codebook(16, 3).double(), vectors(5)
    assert codebook.settle(x, codebook(x).ids, generator()) == 5
    assert codebook.settle(vectors(5, seed=1), codebook(x).ids, generator()) == 5


def test_spread():
    perplexity, usage = spread(torch.tensor([[0, 1], [1, 0]]), 8)
    assert perplexity.item() == pytest.approx(2) and usage.item() == 0.25
    assert spread(torch.arange(8), 8)[0].item() == pytest.approx(8)
