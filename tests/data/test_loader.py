"""The order of clips: complete, without duplicates, the same after resuming, for any number of ranks."""

from itertools import chain, islice

import pytest
import torch

from videopred.clip import Clip
from videopred.data.loader import batches, permuted


class Numbers:
    """Clip i shows the number i."""

    def __init__(self, length, broken=None):
        self.length, self.broken = length, broken

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if index == self.broken:
            raise ValueError(f"clip {index}.npz: damaged")
        return Clip(frames=torch.full((2, 1, 1, 1), index, dtype=torch.uint8), id=f"train/{index}")


def _read(count, *args, **kwargs):
    taken = list(islice(batches(*args, **kwargs), count))
    assert all(batch.id == tuple(f"train/{x}" for x in batch.frames[:, 0, 0, 0, 0].tolist()) for batch in taken)
    return [batch.frames[:, 0, 0, 0, 0].tolist() for batch in taken]


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 16, 17, 100, 1000, 4097])
def test_permutations_hold_every_index_once(length):
    for seed, epoch in ((0, 0), (1, 0), (0, 1)):
        assert sorted(permuted(i, length, seed, epoch) for i in range(length)) == list(range(length))


def test_permutations_mix():
    length, epochs = 50, 400
    orders = torch.tensor([[permuted(i, length, 0, epoch) for i in range(length)] for epoch in range(epochs)]).double()
    assert len(orders.unique(dim=0)) == epochs
    sigma = ((length**2 - 1) / 12 / epochs) ** 0.5
    assert (orders.mean(0) - (length - 1) / 2).abs().max() < 4.5 * sigma  # no place prefers small or large
    assert ((orders[:, 1:] - orders[:, :-1]) == 1).double().mean() < 2 / length  # neighbours are not kept
    assert permuted(0, 10**12, 0, 0) != permuted(0, 10**12, 0, 1)


def test_every_epoch_holds_every_clip_once_in_a_new_order():
    taken = [*chain(*_read(20, Numbers(10), 5, 0))]
    epochs = [taken[i : i + 10] for i in range(0, 100, 10)]
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 10
    assert taken != [*chain(*_read(20, Numbers(10), 5, 1))]


class Windows(Numbers):
    """Shows clip and epoch."""

    def window(self, index, epoch):
        return Clip(frames=torch.tensor([index, epoch], dtype=torch.uint8).view(2, 1, 1, 1), id=f"train/{index}")


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_every_epoch_asks_for_a_new_window_of_every_clip():
    def windows(count, batch=3, **keys):
        taken = islice(batches(Windows(5), batch, 0, **keys), count)
        return [tuple(window.flatten().tolist()) for clip in taken for window in clip.frames]

    whole = windows(10)
    assert sorted(whole) == [(clip, epoch) for clip in range(5) for epoch in range(6)]
    assert [clip for clip, _ in whole] == [*chain(*_read(10, Numbers(5), 3, 0))]
    assert windows(3, position=7) == windows(3, position=7, workers=2) == whole[21:]
    assert [*chain(*zip(*(windows(10, 1, rank=rank, world=3) for rank in range(3))))] == whole
    assert windows(1, shuffle=False) == [(0, 0), (1, 1), (2, 2)]  # clips, not windows


def test_without_shuffling_clips_come_in_order_and_begin_again():
    assert _read(3, Numbers(5), 2, 0, shuffle=False) == [[0, 1], [2, 3], [4, 0]]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("workers", [0, 2])
def test_resuming_at_a_position_continues(workers):
    whole = _read(12, Numbers(17), 3, 5)
    for position in (0, 1, 7):
        assert _read(12 - position, Numbers(17), 3, 5, position=position, workers=workers) == whole[position:]


def test_ranks_share_the_batches_of_one_process():
    whole = _read(9, Numbers(100), 6, 5)
    for world in (2, 3):
        ranks = [_read(9, Numbers(100), 6 // world, 5, rank=rank, world=world) for rank in range(world)]
        assert [[*chain(*parts)] for parts in zip(*ranks, strict=True)] == whole


def test_a_batch_may_be_larger_than_the_dataset():
    assert sorted(_read(1, Numbers(3), 6, 0)[0]) == [0, 0, 1, 1, 2, 2]


def test_the_global_generator_is_left_alone():
    before = torch.get_rng_state()
    _read(3, Numbers(10), 2, 0)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("workers", [0, 1])
def test_a_readers_error_stays_one_line(workers):
    with pytest.raises(ValueError) as caught:
        _read(3, Numbers(4, broken=2), 2, 0, shuffle=False, workers=workers)
    assert str(caught.value) == "clip 2.npz: damaged"


@pytest.mark.parametrize(
    "keys",
    [
        {"batch_size": 0},
        {"position": -1},
        {"workers": -1},
        {"rank": 2, "world": 2},
        {"rank": -1},
        {"world": 0},
    ],
)
def test_numbers_out_of_range_are_refused_at_once(keys):
    with pytest.raises(ValueError, match=next(iter(keys))):
        batches(Numbers(4), **({"batch_size": 1, "seed": 0} | keys))
    with pytest.raises(ValueError, match="no clips"):
        batches(Numbers(0), 1, 0)
