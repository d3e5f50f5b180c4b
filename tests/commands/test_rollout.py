"""`videopred rollout`: what it writes, what it asks of the model, and what it refuses before the model has run."""

import os
import signal
from dataclasses import dataclass
from fractions import Fraction

import av
import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from videopred import checkpoint, cli
from videopred.clip import Clip, Format
from videopred.data.strip import Strip
from videopred.data.video_writer import VideoWriter

GRAY, ACTIONS = Format(1, 8, 12), Format(1, 8, 12, num_actions=3)


class Fake(nn.Module):
    """Predicts the newest frame, 10 levels brighter; 20 more per action; noise, where there is any, moves all of it."""

    def __init__(self, format: Format, noisy: bool = False, breaks_at: int | None = None):
        super().__init__()
        self.format, self.noisy, self.breaks_at = format, noisy, breaks_at
        self.seen: list[Clip] = []
        self.asked: list = []

    def noise_shape(self):
        return (2,) if self.noisy else None

    def observe(self, clip, state=None):
        self.seen.append(clip)
        return (clip.pixels()[:, -1],)

    def predict(self, state, action=None, noise=None):
        self.asked.append(None if action is None else action.tolist())
        step = 10 if action is None else 10 + 20 * action.float()[:, None, None, None]
        frame = state[0] + step * 2 / 255 + (0 if noise is None else 0.05 * noise.sum(1)[:, None, None, None])
        if self.breaks_at == len(self.asked):
            frame = frame.clone()
            frame[0] = torch.nan
        return frame, (frame,)


@dataclass(frozen=True)
class FakeRecipe:
    """Five clips of `length` frames (None: endless); frame t of clip i is gray level i + t."""

    format: Format
    length: int | None = 30
    with_actions: bool = False
    action_names: tuple[str, ...] = ()
    name: str = "fake"

    def build(self, split, frames):
        assert split == "test"
        return FakeClips(self, frames)


class FakeClips:
    def __init__(self, recipe, frames):
        self.recipe, self.frames, self.max_frames = recipe, frames, recipe.length
        assert recipe.length is None or frames <= recipe.length

    def __len__(self):
        return 5

    def __getitem__(self, index):
        size = self.recipe.format
        levels = torch.arange(self.frames, dtype=torch.uint8)[:, None, None, None] + index
        frames = levels.expand(-1, size.height, size.width, size.channels).clone()
        actions = torch.arange(self.frames) % size.num_actions if self.recipe.with_actions else None
        return Clip(frames=frames, actions=actions, id=f"test/{index}")


@pytest.fixture
def shell(monkeypatch, empty_folder, capsys):
    """`shell(words, format=..., ...)` runs a command line with a fake model; gives (code, stdout, stderr, model)."""

    def run(words: str, format=GRAY, length: int | None = 30, with_actions=False, names=(), training=None, **options):
        model = Fake(format, **options)
        raw = {} if training is None else {"training": training}
        loaded = checkpoint.Loaded(model, FakeRecipe(format, length, with_actions, names), "fake", 0, "", raw)
        monkeypatch.setattr(checkpoint, "load", lambda name, device="cpu": loaded)
        code = cli.main(["rollout", "fake", *words.split()])
        return code, *capsys.readouterr(), model

    return run


def predicted(path="a.npz") -> np.ndarray:
    """Gray level of every frame of `fake`, (rows, t)."""
    return np.load(path)["fake"][:, :, 0, 0, 0].astype(int)


def test_npz_is_the_context_and_then_what_the_model_says(shell):
    code, out, err, model = shell("--out a.npz --context 4 --horizon 6 --index 1 --count 2")
    assert (code, out, err) == (0, "a.npz\n", "")
    assert model.seen[0].frames.shape == (2, 4, 8, 12, 1) and model.seen[0].id == ("test/1", "test/2")
    with np.load("a.npz", allow_pickle=False) as got:
        assert np.array_equal(got["real"][:, :, 0, 0, 0], [range(1, 11), range(2, 12)])
        assert predicted().tolist() == [[1, 2, 3, 4, *range(14, 74, 10)], [2, 3, 4, 5, *range(15, 75, 10)]]
        assert (got["context"], got["real_frames"], got["clip_ids"].tolist()) == (4, 10, ["test/1", "test/2"])


def test_truth_ends_before_the_prediction_does(shell):
    assert shell("--out a.npz --context 25 --horizon 40", length=30)[0] == 0
    with np.load("a.npz") as got:
        assert (got["real"].shape[1], got["fake"].shape[1], got["real_frames"]) == (30, 65, 30)


def test_truth_without_an_end_is_held_within_bounds(shell, monkeypatch):
    monkeypatch.setattr("videopred.commands.rollout.TRUTH_BYTES", 2 * 20 * 8 * 12)
    assert shell("--out a.npz --context 5 --horizon 40 --count 2", length=None)[0] == 0
    with np.load("a.npz") as got:
        assert (got["real_frames"], got["fake"].shape[1]) == (20, 45)


@pytest.mark.parametrize(
    ("training", "expected"), [(None, (16, 200)), ({"context": 3, "horizon": 7}, (3, 7)), ({"steps": 1}, (16, 200))]
)
def test_lengths_are_the_checkpoints_where_nobody_says(shell, training, expected):
    assert shell("--out a.npz", length=None, training=training)[0] == 0
    with np.load("a.npz") as got:
        assert (got["context"], got["fake"].shape[1]) == (expected[0], sum(expected))


@pytest.mark.parametrize("context", ["a", 0, -3, 2.5, True])
def test_a_length_of_the_checkpoint_that_is_none_is_refused(shell, context):
    code, _, err, _ = shell("--out a.npz", training={"context": context})
    assert (code, err.count("\n")) == (2, 1) and f"training.context = {context!r}: must be a whole" in err
    assert shell("--out a.npz --context 2 --horizon 3", training={"context": context})[0] == 0


@pytest.mark.parametrize("suffix", ["mp4", "webm"])
def test_a_video_has_every_frame_and_the_rate(shell, suffix):
    code, out, _, _ = shell(f"--out new/folder/a.{suffix} --context 4 --horizon 40 --scale 3 --fps 29.97")
    assert (code, out) == (0, f"new/folder/a.{suffix}\n")
    with av.open(f"new/folder/a.{suffix}") as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
        assert container.streams.video[0].average_rate == Fraction(2997, 100)
    assert len(frames) == 44
    assert np.abs(frames[4].astype(int) - frames[3]).max() > 50, "the marks change colour where the context ends"


def test_gif_and_png(shell):
    assert shell("--out a.gif --context 4 --horizon 6")[0] == shell("--out a.png --context 4 --horizon 6")[0] == 0
    with Image.open("a.gif") as image:
        assert (image.n_frames, image.info["duration"]) == (10, 50)
    with Image.open("a.png") as image:
        assert np.asarray(image).std() > 10


def test_samples_stand_next_to_each_other_and_repeat_by_seed(shell):
    assert shell("--out a.npz --context 4 --horizon 5 --count 2 --samples 3", noisy=True)[0] == 0
    first = predicted()
    assert first.shape == (6, 9) and len({tuple(row) for row in first.tolist()}) == 6
    assert np.load("a.npz")["sample"].tolist() == [0, 1, 2] * 2
    shell("--out b.npz --context 4 --horizon 5 --index 1 --samples 2", noisy=True)
    assert np.array_equal(predicted("b.npz"), first[3:5]), "a sample depends on nothing but seed, clip and number"
    shell("--out c.npz --context 4 --horizon 5 --index 1 --samples 2 --seed 1", noisy=True)
    assert (predicted("c.npz")[:, 4:] != first[3:5, 4:]).any(1).all()


def test_actions_of_the_recipe_are_used(shell):
    code, _, err, model = shell("--out a.npz --context 4 --horizon 5 --count 2", format=ACTIONS, with_actions=True)
    assert (code, err) == (0, "")
    assert model.seen[0].actions.tolist() == [[0, 1, 2, 0]] * 2
    assert model.asked == [[1, 1], [2, 2], [0, 0], [1, 1], [2, 2]]
    assert np.load("a.npz")["actions"].tolist() == [[0, 1, 2, 0, 1, 2, 0, 1, 2]] * 2
    assert shell("--out a.npz --context 4", format=ACTIONS, with_actions=True)[0] == 0
    assert np.load("a.npz")["fake"].shape[1] == 30, "without --horizon, as far as there are actions"


@pytest.mark.parametrize("form", ["list", "txt", "npz"])
def test_given_actions_lead_to_the_predicted_frames(shell, form, empty_folder):
    (empty_folder / "a.txt").write_text("2 1*2\n0,-1\n")
    np.savez(empty_folder / "a.npz", actions=np.array([2, 1, 1, 0, -1]))
    words = {"list": "2,1*2,0,-1", "txt": "a.txt", "npz": "a.npz"}[form]
    code, _, err, model = shell(f"--out b.npz --context 2 --actions {words}", format=ACTIONS, with_actions=True)
    assert code == 0 and err == NO_TRUTH.format(2)
    assert model.asked == [[2], [1], [1], [0], [-1]]
    assert np.load("b.npz")["actions"].tolist() == [[0, 1, 2, 1, 1, 0, -1]]
    shell(f"--out b.npz --context 2 --horizon 2 --actions {words}", format=ACTIONS, with_actions=True)
    assert predicted("b.npz").tolist() == [[0, 1, 51, 81]]


NAMES = ("forward", "left", "right")
NO_TRUTH = "videopred: from predicted frame {} on the actions differ from the clip's: no truth\n"


def test_truth_is_shown_for_as_long_as_the_actions_are_the_clips_own(shell):
    """The clip's actions are 0, 1, 2, 0, 1, 2 ...; beyond, the true frames came of other actions."""
    for given, own in [("2,0,1,2", 4), ("2,0,0,2", 2), ("1,1", 0)]:
        code, _, err, _ = shell(f"--out a.npz --context 2 --actions {given}", format=ACTIONS, with_actions=True)
        assert code == 0 and np.load("a.npz")["real"].shape[1] == 2 + own
        assert (f"from predicted frame {own + 1} on the actions differ" in err) == (own < given.count(",") + 1)


def test_actions_have_the_names_of_the_checkpoints_recipe(shell, empty_folder):
    words = "--out a.npz --context 2 --actions left,left,forward*3,2,unknown"
    code, _, err, model = shell(words, format=ACTIONS, with_actions=True, names=NAMES)
    assert code == 0 and err == NO_TRUTH.format(1)
    assert model.asked == [[1], [1], [0], [0], [0], [2], [-1]]
    (empty_folder / "walk.txt").write_text("right*2\nforward")
    np.save("clip.npy", np.zeros((6, 8, 12, 1), np.uint8))
    words = "--out b.npz --clip clip.npy --context 2 --actions walk.txt"
    assert shell(words, format=ACTIONS, names=NAMES)[0] == 0
    assert np.load("b.npz")["actions"].tolist() == [[-1, -1, 2, 2, 0]]


def test_a_picture_tells_the_actions_by_name(shell, monkeypatch):
    seen = []
    monkeypatch.setattr("videopred.data.writer.Strip", lambda layout: seen.append(layout.words) or Strip(layout))
    words = "--out a.png --context 2 --actions left,unknown"
    assert shell(words, format=ACTIONS, with_actions=True, names=NAMES)[0] == 0
    assert shell(words.replace("left", "1"), format=ACTIONS, with_actions=True)[0] == 0
    assert seen == [(("forward", "left", "left", "unknown"),), ()]


def test_a_clip_without_actions_is_said_to_be_unknown(shell):
    code, _, err, model = shell("--out a.npz --context 2 --actions 1,1", format=ACTIONS)
    assert code == 0 and "the clip has no actions" in err and err.count("\n") == 1
    assert model.seen[0].actions.tolist() == [[-1, -1]]


def test_a_clip_file_takes_the_place_of_the_recipe(shell, empty_folder):
    video = np.random.default_rng(0).integers(0, 200, (2, 6, 8, 12, 1), dtype=np.uint8)
    np.savez(empty_folder / "in.npz", video=video)
    code, _, _, model = shell("--out a.npz --clip in.npz --index 1 --context 6 --horizon 3")
    assert code == 0 and model.seen[0].id == ("in.npz/1",)
    with np.load("a.npz") as got:
        assert np.array_equal(got["real"], video[1:]) and got["fake"].shape[1] == 9
        assert np.array_equal(got["fake"][0, 6:, 0, 0, 0], video[1, 5, 0, 0, 0] + np.array([10, 20, 30]))
    with VideoWriter(empty_folder / "in.mp4", Fraction(7)) as writer:
        for frame in np.full((9, 8, 12, 3), 128, np.uint8):
            writer.write(frame)
    assert shell("--out a.mp4 --clip in.mp4 --context 6 --horizon 10")[0] == 0
    with av.open("a.mp4") as container:
        assert container.streams.video[0].average_rate == 7
        assert sum(1 for _ in container.decode(video=0)) == 16


def test_frames_that_are_not_finite_are_said_and_drawn_black(shell):
    code, _, err, _ = shell("--out a.npz --context 2 --horizon 5 --count 2", breaks_at=3)
    assert code == 0
    assert err == "videopred: clip test/0: not finite from predicted frame 3 on; drawn black\n"
    assert predicted()[:, 4:].tolist() == [[0, 0, 0], [32, 42, 52]]


REFUSED = {
    "suffix": ("--out a.mpeg", r"a.mpeg: cannot write .mpeg; its name must end in one of .mp4"),
    "no suffix": ("--out a", "a: has no suffix"),
    "folder": ("--out there.mp4", "there.mp4: is a folder"),
    "unwritable": ("--out /proc/a.mp4", "/proc/a.mp4: cannot be written"),
    "horizon 0": ("--out a.mp4 --horizon 0", "--horizon 0: must be at least 1"),
    "horizon -5": ("--out a.mp4 --horizon -5", "--horizon -5: must be at least 1"),
    "context 0": ("--out a.mp4 --context 0", "--context 0: must be at least 1"),
    "count 0": ("--out a.mp4 --count 0", "--count 0: must be at least 1"),
    "scale 0": ("--out a.mp4 --scale 0", "--scale 0: must be at least 1"),
    "scale huge": ("--out a.mp4 --scale 9999", "use fewer clips, fewer samples or a smaller scale"),
    "index -1": ("--out a.mp4 --index -1", "--index -1: must be at least 0"),
    "index 5": ("--out a.mp4 --index 5", "clip 5 is asked for, there are clips 0..4"),
    "count 6": ("--out a.mp4 --count 6", "clip 5 is asked for, there are clips 0..4"),
    "context": ("--out a.mp4 --context 31", "--context 31: the clip has 30 frames"),
    "fps 0": ("--out a.mp4 --fps 0", "--fps 0: must be a number above 0, and at most 1000"),
    "fps word": ("--out a.mp4 --fps fast", "--fps fast: must be a number"),
    "fps 1/0": ("--out a.mp4 --fps 1/0", "--fps 1/0: must be a number"),
    "fps gif": ("--out a.gif --fps 60", "--fps 60: must be a number above 0, and at most 50 for .gif"),
    "samples": ("--out a.mp4 --samples 2", "--samples 2: this model is deterministic"),
    "recipe": ("--out a.mp4 --recipe moving-mnist", "gives frames of 64 x 64 x 1, the model takes 8 x 12 x 1"),
    "no recipe": ("--out a.mp4 --recipe moving-mnits", "did you mean 'moving-mnist'?"),
    "clip missing": ("--out a.mp4 --clip absent.mp4", "absent.mp4: no such file"),
    "clip empty": ("--out a.mp4 --clip empty.npz", "empty.npz: is empty"),
    "clip corrupt": ("--out a.mp4 --clip corrupt.mp4", "corrupt.mp4: not a video, or damaged"),
    "clip size": ("--out a.mp4 --clip size.npy", "size.npy: is 9 x 12, the model takes 8 x 12"),
    "clip channels": (
        "--out a.mp4 --clip colour.npy",
        "colour.npy: frames have shape (6, 8, 12, 2); must be",
    ),
    "clip short": ("--out a.mp4 --clip good.npy --context 7", "--context 7: the clip has 6 frames"),
    "clip index": ("--out a.mp4 --clip good.npy --index 1", "clip 1 is asked for, there are clips 0..0"),
    "the clip itself": ("--out itself.npz --clip itself.npz", "--out itself.npz: is the clip itself"),
    "no actions taken": ("--out a.mp4 --actions 0,1", "--actions: this model takes no actions"),
}
REFUSED_WITH_ACTIONS = {
    "missing": ("--out a.mp4 --clip good.npy --context 4", "this model needs the actions"),
    "above": ("--out a.mp4 --context 4 --actions 0,3", "actions lie in 0..3; must be 0..2, or -1 for unknown"),
    "below": ("--out a.mp4 --context 4 --actions 0,-2", "actions lie in -2..2; must be 0..2"),
    "too few": ("--out a.mp4 --context 4 --horizon 3 --actions 0,1", "--horizon 3: there are actions for 2 frames"),
    "clip's too few": ("--out a.mp4 --context 4 --horizon 27", "--horizon 27: there are actions for 26 frames"),
    "none left": ("--out a.mp4 --context 30", "there are actions for 0 frames after the context of 30"),
    "words": (
        "--out a.mp4 --actions left,right",
        "'left' is not the number of an action, and the actions of this model have no names",
    ),
    "huge": ("--out a.mp4 --actions 0," + "9" * 27, "is not the number of an action"),
    "too many": ("--out a.mp4 --actions 0*1000000000000", "makes more than 10,000,000 actions in all"),
    "times": ("--out a.mp4 --actions 1*x", "--actions: '1*x': after the * must stand how many times, as in 1*20"),
    "times < 0": ("--out a.mp4 --actions 1*-2", "--actions: '1*-2': after the * must stand how many times"),
    "empty": ("--out a.mp4 --actions ,", "--actions: there are none"),
    "no txt": ("--out a.mp4 --actions absent.txt", "--actions absent.txt: no such file"),
    "no key": ("--out a.mp4 --actions noactions.npz", "has no `actions` of shape"),
    "rows": ("--out a.mp4 --context 4 --actions rows.npz", "--actions: there are rows for 2 clips; --count is 1"),
}


@pytest.fixture
def files(empty_folder):
    (empty_folder / "there.mp4").mkdir()
    (empty_folder / "empty.npz").touch()
    (empty_folder / "corrupt.mp4").write_bytes(b"not a video" * 100)
    np.save("size.npy", np.zeros((6, 9, 12, 1), np.uint8))
    np.save("colour.npy", np.zeros((6, 8, 12, 2), np.uint8))
    np.save("good.npy", np.zeros((6, 8, 12, 1), np.uint8))
    np.savez("itself.npz", video=np.zeros((6, 8, 12, 1), np.uint8))
    np.savez("noactions.npz", video=np.zeros(3))
    np.savez("rows.npz", actions=np.zeros((2, 5), int))
    return sorted(empty_folder.iterdir())


def check_refused(result, message, files, folder):
    code, out, err, model = result
    assert (code, out) == (2, "")
    assert err.startswith("videopred: error: ") and message in err and err.count("\n") == 1
    assert model.seen == model.asked == [], "refused before the model ran"
    assert sorted(folder.iterdir()) == files, "and nothing was written"


@pytest.mark.parametrize(("words", "message"), REFUSED.values(), ids=REFUSED)
def test_refuses(shell, files, empty_folder, words, message):
    check_refused(shell(words), message, files, empty_folder)


@pytest.mark.parametrize(("words", "message"), REFUSED_WITH_ACTIONS.values(), ids=REFUSED_WITH_ACTIONS)
def test_refuses_actions(shell, files, empty_folder, words, message):
    check_refused(shell(words, format=ACTIONS, with_actions=True), message, files, empty_folder)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("lefft", "'lefft': no such action, did you mean 'left'? There are forward, left, right, and unknown"),
        ("jump", "'jump': no such action. There are forward"),
        ("3", "actions lie in 0..3; must be 0..2, or -1 for unknown"),
    ],
)
def test_refuses_actions_that_have_no_such_name(shell, files, empty_folder, word, message):
    result = shell(f"--out a.mp4 --context 4 --actions {word}*2", format=ACTIONS, with_actions=True, names=NAMES)
    check_refused(result, message, files, empty_folder)


def test_recipe_and_clip_exclude_each_other(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["rollout", "x", "--out", "a.mp4", "--recipe", "r", "--clip", "c"])
    assert stop.value.code == 2 and "not allowed with" in capsys.readouterr().err


def test_an_interruption_leaves_the_old_file(shell, monkeypatch, empty_folder):
    (empty_folder / "a.mp4").write_bytes(b"old")

    def interrupt(self, *args, **kwargs):
        raise KeyboardInterrupt

    def terminate(self, *args, **kwargs):
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    for stop in (interrupt, terminate):
        monkeypatch.setattr(Fake, "predict", stop)
        code, out, err, _ = shell("--out a.mp4")
        assert (code, out, err) == (130, "", "videopred: interrupted\n")
        assert [path.read_bytes() for path in empty_folder.iterdir()] == [b"old"]
        assert signal.getsignal(signal.SIGTERM) == before


class Parted(Fake):
    """The same, by parts: it calls one three times a frame, and that one another."""

    def __init__(self, format: Format):
        super().__init__(format)
        self.prior, self.last = nn.Identity(), nn.Identity()

    def predict(self, state, action=None, noise=None):
        for _ in range(3):
            self.prior(state[0])
        frame, state = super().predict(state, action, noise)
        return self.last(frame), state


def test_profile_tells_the_time_of_a_frame_by_part_and_writes_the_same_file(shell, monkeypatch, capsys):
    words = "--context 4 --horizon 6 --count 2 --out"
    assert shell(f"{words} plain.npz")[0] == 0
    model = Parted(GRAY)
    loaded = checkpoint.Loaded(model, FakeRecipe(GRAY), "fake", 0, "", {})
    monkeypatch.setattr(checkpoint, "load", lambda name, device="cpu": loaded)
    assert cli.main(["rollout", "fake", "--profile", *words.split(), "profiled.npz"]) == 0
    head, *lines, total, path = capsys.readouterr().out.splitlines()
    assert (head.split(), path) == (["frame,", "by", "part", "ms", "share", "calls"], "profiled.npz")
    calls = {line.split()[0]: line.split()[-1] for line in lines}
    assert calls == {"prior": "3", "last": "1", "noise": "1", "writing": "1", "(other)": "0"}
    assert sum(float(line.split()[1]) for line in lines) == pytest.approx(float(total.split()[1]), abs=0.3)
    assert np.array_equal(predicted("profiled.npz"), predicted("plain.npz"))
    assert not any(part._forward_hooks for part in model.modules())


def test_a_deterministic_model_has_no_settings_of_drawing(shell):
    code, _, err, _ = shell("--out a.npz --sampling predictor.temperature=0.5")
    assert code == 2 and "this model draws by no settings: it is deterministic" in err
