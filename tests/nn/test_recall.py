"""When something is computed again, and when it is not."""

import copy
import pickle

import pytest
import torch
from torch import nn

from videopred.nn.recall import Recall, sharing


class Squares:
    """Squares of a parameter, counted."""

    def __init__(self):
        self.p, self.count, self.recall = nn.Parameter(torch.randn(3)), 0, Recall()

    def compute(self):
        self.count += 1
        return self.p**2

    def __call__(self, key="key", p=None):
        return self.recall(key, [self.p if p is None else p], self.compute)


@pytest.fixture
def squares():
    return Squares()


def test_without_gradient_it_is_computed_once(squares):
    with torch.no_grad():
        first = squares()
        assert squares() is first and squares.count == 1
    assert torch.equal(first, squares.p.detach() ** 2)


CHANGES = {
    "in place": lambda p: p.add_(1),
    "through data": lambda p: p.data.add_(1),
    "new data": lambda p: setattr(p, "data", p.data + 1),
    "copied": lambda p: p.copy_(torch.zeros(3)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
@torch.no_grad()
def test_a_changed_parameter_is_noticed(squares, change):
    squares()
    change(squares.p)
    assert torch.equal(squares(), squares.p**2)
    assert torch.equal(squares(), squares.p**2)
    assert squares.count == 2


@torch.no_grad()
def test_an_optimiser_step_is_noticed(squares):
    squares()
    squares.p.grad = torch.ones(3)
    torch.optim.AdamW([squares.p], lr=0.1).step()
    assert torch.equal(squares(), squares.p**2)


@torch.no_grad()
def test_another_key_or_another_parameter_is_another_thing(squares):
    squares()
    squares("other")
    squares("other", squares.p.clone())
    assert squares.count == 3


def test_calls_within_sharing_share_a_graph_and_the_next_ones_compute_anew(squares):
    for total in (1, 2):  # the same parameters, as when gradients of several batches are accumulated
        with sharing():
            loss = sum(squares().sum() for _ in range(5))
        assert squares.count == total
        loss.backward()
        torch.testing.assert_close(squares.p.grad, total * 10 * squares.p.detach())


def test_two_losses_that_share_nothing_are_differentiated_one_by_one(squares):
    losses = [squares().sum(), squares().sum()]
    for _ in range(2):
        with sharing():
            losses.append(squares().sum())
    for loss in losses:
        loss.backward()
    torch.testing.assert_close(squares.p.grad, 8 * squares.p.detach())


def test_values_without_gradient_are_not_served_with_it(squares):
    with sharing():
        with torch.no_grad():
            assert not squares().requires_grad
        assert squares().requires_grad
        with torch.no_grad():
            assert not squares().requires_grad


def test_a_copy_begins_empty(squares):
    with torch.no_grad():
        squares()
    for again in copy.deepcopy(squares.recall), pickle.loads(pickle.dumps(squares.recall)):
        assert again([], [squares.p], lambda: torch.zeros(1)).item() == 0


def test_inference_tensors_count_no_changes():
    with torch.inference_mode():
        squares = Squares()
        squares()
        squares.p.add_(1)
        assert torch.equal(squares(), squares.p**2)


@torch.no_grad()
def test_another_precision_of_the_same_numbers_is_noticed(squares):
    squares.p.data.fill_(0.5)
    assert squares().dtype == torch.float32
    squares.p.data = squares.p.data.double()
    assert squares().dtype == torch.float64
