"""The doom-maze recorder. What needs its engines is skipped where they are not installed."""

import math
import subprocess
import sys

import numpy as np
import pytest
import torch

from videopred.recorders import DoomMazeConfig
from videopred.recorders.maze import CELL

SMALL = DoomMazeConfig(frames=40)


@pytest.fixture(scope="module")
def clips():
    pytest.importorskip(
        "vizdoom", reason="the recorder's engines are not installed: pip install 'videopred[doom-maze]'"
    )
    pytest.importorskip(
        "labmaze", reason="the recorder's engines are not installed: pip install 'videopred[doom-maze]'"
    )
    return list(SMALL.record("train", [0, 1, 11]))


@pytest.mark.parametrize(
    "settings, said",
    [
        ({"image_size": 60}, "image_size = 60: must divide 768"),
        ({"maze_size": 10}, "maze_size = 10: must be odd"),
        ({"maze_size": 5}, "maze_size = 5: must be at least 7"),
        ({"maze_size": 10001}, "maze_size = 10001: must be at most 101"),
        ({"frames": 0}, "frames = 0"),
        ({"turn": 0.0}, "turn = 0.0"),
        ({"stride": 100.0}, "stride = 100.0"),
        ({"revisit": 1.5}, "revisit = 1.5"),
    ],
)
def test_settings_out_of_range_are_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        DoomMazeConfig(**settings)


def test_a_missing_engine_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "vizdoom" else object())
    with pytest.raises(ValueError, match=r"needs vizdoom; run pip install 'videopred\[doom-maze\]'"):
        next(SMALL.record("train", [0]))


def test_no_engine_is_imported_before_it_records():
    code = "import sys, videopred.recorders; print([n for n in ('vizdoom', 'labmaze') if n in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


@pytest.mark.parametrize(("size", "rooms"), [(7, 4), (7, 0), (21, 100)])
def test_mazes_of_other_sizes_are_walked(size, rooms, clips):
    clip = next(DoomMazeConfig(frames=5, maze_size=size, rooms=rooms).record("train", [0]))
    assert clip.pose.abs()[:, :2].max() < size * CELL and clip.frames.float().std() > 20


def test_clips_are_in_the_recorders_format(clips):
    for clip, index in zip(clips, (0, 1, 11), strict=True):
        assert clip.id == f"train/{index}"
        assert clip.frames.dtype == torch.uint8 and clip.frames.shape == (40, 64, 64, 3)
        assert clip.actions.dtype == torch.int64 and clip.actions.shape == (40,)
        assert set(clip.actions.tolist()) <= {0, 1, 2}
        assert clip.pose.dtype == torch.float32 and clip.pose.shape == (40, 3)
        assert 40 < clip.frames.float().mean() < 215 and clip.frames.float().std() > 20


def test_a_clip_depends_on_its_number_alone(clips):
    alone = {index: next(SMALL.record("train", [index])) for index in (1, 11)}
    for clip, index in zip(clips[1:], (1, 11), strict=True):
        for part in ("frames", "actions", "pose"):
            assert torch.equal(getattr(clip, part), getattr(alone[index], part)), part
    other = next(SMALL.record("test", [1]))
    assert not torch.equal(other.frames, clips[1].frames)
    reseeded = next(DoomMazeConfig(frames=40, seed=1).record("train", [1]))
    assert not torch.equal(reseeded.frames, clips[1].frames)


def test_an_action_leads_to_the_frame_it_is_stored_with(clips):
    """Also for frame 0, whose action was made before it."""
    for clip in clips:
        pose = clip.pose.double().numpy()
        moved, turned = np.diff(pose[:, :2], axis=0), np.diff(pose[:, 2])
        turned = (turned + 180) % 360 - 180
        for t, action in enumerate(clip.actions[1:].tolist()):
            assert turned[t] == pytest.approx({0: 0, 1: SMALL.turn, 2: -SMALL.turn}[action], abs=0.1)
            if action:
                assert np.abs(moved[t]).max() < 1e-3
            elif np.hypot(*moved[t]) > SMALL.stride - 1.5:  # not along a wall; drawn at whole map units
                angle = math.radians(pose[t, 2])
                assert moved[t] == pytest.approx(SMALL.stride * np.array([math.cos(angle), math.sin(angle)]), abs=1.01)


def test_turning_left_moves_the_picture_to_the_right(clips):
    """The picture agrees with the actions: of all shifts the one of a left turn fits frames after a left turn best."""
    wins = {1: [], 2: []}
    for clip in clips:
        gray = clip.frames.float().mean(-1)
        for t in range(1, len(gray)):
            action = int(clip.actions[t])
            if action:
                before, after = gray[t - 1], gray[t]
                errors = {s: (after[:, 12:-12] - before.roll(s, 1)[:, 12:-12]).abs().mean().item() for s in (-9, 0, 9)}
                wins[action].append(min(errors, key=errors.get))  # type: ignore[arg-type]
    assert np.mean([s == 9 for s in wins[1]]) > 0.7
    assert np.mean([s == -9 for s in wins[2]]) > 0.7


def test_frames_of_another_size_show_the_same(clips):
    large = next(DoomMazeConfig(frames=6, image_size=96).record("train", [0]))
    assert large.frames.shape == (6, 96, 96, 3)
    small = torch.nn.functional.interpolate(large.frames.permute(0, 3, 1, 2).float(), (64, 64), mode="area")
    assert (small - clips[0].frames[:6].permute(0, 3, 1, 2).float()).abs().mean() < 8
    assert CELL == 128


def test_nothing_is_left_where_it_is_called(tmp_path, monkeypatch, clips):
    monkeypatch.chdir(tmp_path)
    next(DoomMazeConfig(frames=2).record("train", [0]))
    assert not list(tmp_path.iterdir())
