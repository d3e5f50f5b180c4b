"""Clips, and the one place where uint8 and [-1, 1] meet."""

import pytest
import torch

from videopred.clip import Clip, stack, to_float, to_uint8

LEVELS = torch.arange(256, dtype=torch.uint8).reshape(1, 16, 16, 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rounding_brings_every_level_back(dtype):
    assert to_uint8(to_float(LEVELS, dtype), "round").equal(LEVELS)


def test_truncation_brings_63_levels_back_one_lower():
    lower = LEVELS.int() - to_uint8(to_float(LEVELS), "truncate").int()
    assert set(lower.unique().tolist()) == {0, 1}
    assert lower.sum() == 63


def test_ends_of_the_range():
    assert to_float(torch.tensor([[[0, 255]]], dtype=torch.uint8)).flatten().tolist() == [-1.0, 1.0]
    outside = torch.tensor([-3.0, -1.0, 1.0, 3.0]).reshape(4, 1, 1)
    assert to_uint8(outside).flatten().tolist() == [0, 0, 255, 255]


def test_frames_become_channels_first_without_moving():
    frames = torch.randint(0, 256, (2, 3, 4, 5, 3), dtype=torch.uint8)
    pixels = Clip(frames=frames).pixels()
    assert pixels.shape == (2, 3, 3, 4, 5)
    assert pixels[1, 2, 0, 3, 4].item() == pytest.approx(2 * frames[1, 2, 3, 4, 0].item() / 255 - 1, abs=1e-6)
    assert pixels.flatten(0, 1).is_contiguous(memory_format=torch.channels_last)


def clip(i: int, t: int = 6, size: int = 4) -> Clip:
    actions = torch.arange(t) + 10 * i
    return Clip(frames=torch.full((t, size, size, 1), i, dtype=torch.uint8), actions=actions, id=f"test/{i}", start=i)


def test_stack_joins_clips_in_order():
    batch = stack([clip(0), clip(1)])
    assert batch.frames.shape == (2, 6, 4, 4, 1)
    assert batch.frames[1].eq(1).all()
    assert batch.actions[1].tolist() == list(range(10, 16))
    assert (batch.id, batch.start, batch.pose) == (("test/0", "test/1"), (0, 1), None)


@pytest.mark.parametrize("other", [clip(1, size=5), clip(1, t=5), Clip(frames=clip(1).frames)])
def test_clips_that_do_not_match_are_refused(other):
    with pytest.raises(ValueError, match="clips of one batch must have equal"):
        stack([clip(0), other])


def test_chunks_tile_the_clip_and_know_its_length():
    batch = stack([clip(0, t=7), clip(1, t=7)])
    chunks = list(batch.chunks(3))
    assert [chunk.num_frames for chunk in chunks] == [3, 3, 1]
    assert {chunk.whole for chunk in chunks} == {7}
    assert torch.cat([chunk.actions for chunk in chunks], 1).equal(batch.actions)
    assert torch.cat([chunk.frames for chunk in chunks], 1).equal(batch.frames)


def test_slice_takes_frames_and_their_actions():
    part = stack([clip(0), clip(1)]).slice(2, 4)
    assert part.actions.tolist() == [[2, 3], [12, 13]]
    assert (part.num_frames, part.frames.shape[1], part.id) == (2, 2, ("test/0", "test/1"))


def test_tokens_stand_in_for_frames_but_are_no_pixels():
    tokens = Clip(tokens=torch.zeros(2, 5, 3, 3, dtype=torch.int64))
    assert (tokens.num_frames, Clip(tokens=torch.zeros(5, 3, 3)).num_frames) == (5, 5)
    with pytest.raises(ValueError, match="tokens, not frames"):
        tokens.pixels()


def test_to_reaches_every_tensor():
    moved = clip(0).to("meta")
    assert {moved.frames.device.type, moved.actions.device.type} == {"meta"}
