"""The index: what was read once is not read again, and what changed is."""

import errno
import os
import shutil
import time
import zipfile
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from videopred.data import index, recording
from videopred.data.index import NAME, open_index


def save(path: Path, frames: int = 4, **arrays) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, video=np.full((frames, 2, 3, 1), 7, np.uint8), **arrays)
    return path


@pytest.fixture
def read(monkeypatch):
    """Names of the recordings that are read."""
    names, facts = [], recording.facts

    def reading(path):
        names.append(path.name)
        return facts(path)

    monkeypatch.setattr(recording, "facts", reading)
    return names


@pytest.fixture
def folder(tmp_path):
    for i in range(5):
        save(tmp_path / "data" / str(i % 2) / f"{i}.npz", i + 1, actions=np.arange(i + 1), pose=np.zeros((i + 1, 2)))
    return tmp_path / "data"


def lengths(found) -> dict[str, int]:
    return {found.path(clip["recording"]): int(clip["length"]) for clip in found.clips}


ALL = {"0/0.npz": 1, "0/2.npz": 3, "0/4.npz": 5, "1/1.npz": 2, "1/3.npz": 4}


def test_everything_is_found_and_read_once(folder, read):
    found = open_index(folder)
    assert lengths(found) == ALL and sorted(read) == ["0.npz", "1.npz", "2.npz", "3.npz", "4.npz"]
    facts = found.facts(2)
    assert (facts.length, facts.height, facts.width, facts.channels) == (5, 2, 3, 1)
    assert (facts.actions, facts.least, facts.most, facts.pose) == (5, 0, 4, 2)
    read.clear()
    again = open_index(folder)
    assert read == [] and all(getattr(again, x).tobytes() == getattr(found, x).tobytes() for x in index.Index.ARRAYS)
    assert all(isinstance(value, np.ndarray) for name, value in vars(again).items() if name != "folder")


def test_only_what_changed_is_read_again(folder, read):
    open_index(folder)
    read.clear()
    save(folder / "0" / "2.npz", 9)
    save(folder / "new.npz", 6)
    (folder / "1" / "1.npz").unlink()
    os.utime(folder / "1" / "3.npz", ns=(0, 1))  # the same size, written again
    found = open_index(folder)
    assert sorted(read) == ["2.npz", "3.npz", "new.npz"]
    assert lengths(found) == {"0/0.npz": 1, "0/2.npz": 9, "0/4.npz": 5, "1/3.npz": 4, "new.npz": 6}
    assert found.facts(2).most == 4  # what was kept is still what it was


def test_faults_are_kept_but_not_those_of_the_moment(folder, read, monkeypatch):
    (folder / "text.npz").write_text("hello")
    (folder / "gone.npz").symlink_to(folder / "nowhere.npz")
    for _ in range(2):
        found = open_index(folder)
        faults = {found.path(i): str(found.reasons[j]) for i, j in enumerate(found.faults) if j >= 0}
        assert faults.keys() == {"gone.npz", "text.npz"} and lengths(found) == ALL
        assert faults["gone.npz"] == "cannot be read: No such file or directory"
        assert faults["text.npz"].startswith("damaged, or not an .npz file")
    assert read.count("text.npz") == 1 and read.count("gone.npz") == 2
    save(folder / "nowhere.npz", 8)
    assert lengths(open_index(folder)) == ALL | {"gone.npz": 8, "nowhere.npz": 8}


@pytest.mark.parametrize("code", [errno.EIO, errno.EMFILE, errno.ESTALE, errno.ENOMEM, errno.ETIMEDOUT])
def test_a_machine_that_does_not_give_a_video_for_a_moment(folder, monkeypatch, code):
    with av.open(str(folder / "a.mkv"), "w") as output:
        stream = output.add_stream("ffv1", rate=25)
        stream.height, stream.width, stream.pix_fmt = 2, 3, "bgr0"
        output.mux(stream.encode(av.VideoFrame.from_ndarray(np.zeros((2, 3, 3), np.uint8), format="rgb24")))
        output.mux(stream.encode())
    with monkeypatch.context() as patch:
        patch.setattr(av, "open", lambda *args, **keys: av.error.err_check(-code))
        [reason] = open_index(folder).reasons
    assert reason.startswith("cannot be read: ")
    assert lengths(open_index(folder)) == ALL | {"a.mkv": 1}


def test_a_change_of_any_file_of_a_recording_is_seen(folder, read):
    for t in range(3):
        (folder / "walk").mkdir(exist_ok=True)
        Image.fromarray(np.full((2, 3), t, np.uint8)).save(folder / "walk" / f"{t}.png")
    np.savez(folder / "walk.npz", actions=[0, 1, 2])
    for name in ("0.png", "1.png", "2.png", "../walk.npz"):
        os.utime(folder / "walk" / name, (100, 100))
    open_index(folder)
    np.savez(folder / "walk.npz", actions=[0, 1, 9])  # of the same size, and older than the pictures
    os.utime(folder / "walk.npz", (50, 50))
    read.clear()
    found = open_index(folder)
    assert read == ["walk"] and found.clips["most"].max() == 9
    (folder / "walk" / "0.png").rename(folder / "walk" / "3.png")
    open_index(folder)
    assert read == ["walk", "walk"]


def test_a_link_to_itself_is_said_to_be_one(folder):
    (folder / "self.npz").symlink_to("self.npz")
    (folder / "round").symlink_to("round")
    found = open_index(folder)
    assert lengths(found) == ALL and found.reasons.tolist() == ["cannot be read: Too many levels of symbolic links"]
    assert found.path(int(np.argmax(found.faults))) == "self.npz"


def test_what_may_not_be_read_is_said(folder, monkeypatch):
    open_zip, scan = zipfile.ZipFile, os.scandir

    def refuse(place, allowed, **keys):
        if str(place).endswith(("/2.npz", "/1")):
            raise PermissionError(13, "Permission denied", str(place))
        return allowed(place, **keys)

    with monkeypatch.context() as patch:
        patch.setattr("zipfile.ZipFile", lambda place, **keys: refuse(place, open_zip, **keys))
        [reason] = open_index(folder).reasons
    assert reason == "cannot be read: Permission denied"
    assert lengths(open_index(folder)) == ALL
    monkeypatch.setattr(os, "scandir", lambda place: refuse(place, scan))
    with pytest.raises(ValueError, match="/1: cannot be searched: Permission denied"):
        open_index(folder)


def test_headers_are_parsed_one_at_a_time(folder, monkeypatch):
    """Python 3.11's parser may raise SystemError in one thread while another one parses."""
    parse, running, most = np.lib.format.read_array_header_1_0, [], [0]

    def parsing(file):
        running.append(file)
        most[0] = max(most[0], len(running))
        time.sleep(0.005)
        running.remove(file)
        return parse(file)

    monkeypatch.setattr(index.os, "cpu_count", lambda: 8)
    monkeypatch.setattr(np.lib.format, "read_array_header_1_0", parsing)
    assert lengths(open_index(folder)) == ALL and most == [1]


def test_a_build_that_ends_early_goes_on_where_it_was(folder, read, monkeypatch):
    monkeypatch.setattr(index, "BLOCK", 2)
    monkeypatch.setattr(index, "SAVE_EVERY", -1)
    facts, killed = recording.facts, RuntimeError("killed")

    def reading(path):
        if path.name == "1.npz":
            assert index._load(folder).paths.tolist() == [b"0/0.npz", b"0/2.npz"]  # what SIGKILL would leave
            raise killed
        return facts(path)

    with monkeypatch.context() as patch:
        patch.setattr(recording, "facts", reading)
        with pytest.raises(RuntimeError):
            open_index(folder)
    assert not list(folder.glob("*.tmp"))
    before = {*read}
    read.clear()
    assert lengths(open_index(folder)) == ALL
    assert {"0.npz", "2.npz"} <= before and not before & {*read} - {"4.npz"} and "1.npz" in read


def test_a_damaged_or_old_index_is_made_again(folder, read):
    open_index(folder)
    for content in (b"", b"hello", (folder / NAME).read_bytes()[:300]):
        (folder / NAME).write_bytes(content)
        read.clear()
        assert lengths(open_index(folder)) == ALL and len(read) == 5
    np.savez(folder / NAME, version=0)
    assert lengths(open_index(folder)) == ALL


def test_it_goes_elsewhere_where_the_folder_cannot_be_written(folder, read, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("VIDEOPRED_HOME", str(tmp_path / "home"))
    (folder / f"{NAME}").mkdir()  # so that no file can take its name
    open_index(folder)
    assert len([*(tmp_path / "home" / "indexes").glob("*.npz")]) == 1
    read.clear()
    assert lengths(open_index(folder)) == ALL and read == []
    monkeypatch.setenv("VIDEOPRED_HOME", str(folder / "0" / "0.npz"))
    assert lengths(open_index(folder)) == ALL
    assert "its index could not be saved" in capsys.readouterr().err


def test_a_folder_may_be_moved_with_its_index(folder, read, tmp_path):
    (folder / "text.npz").write_text("hello")
    open_index(folder)
    read.clear()
    moved = open_index(folder.rename(tmp_path / "moved"))
    assert lengths(moved) == ALL and read == [] and "data" not in str(moved.reasons)


def test_what_counts_as_a_recording(tmp_path):
    def paths():
        return [place.path for place in recording.search(tmp_path)]

    for name in ("a.mp4", "a.npz", "B.MKV", "c.npy", "d.txt", ".hidden.npz", "._a.mp4", "x/e.npz", ".y/f.npz", "d.npz"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    for name in ("walk/1.png", "walk/2.jpg", "walk.npz", "stills/1.png", "stills/e.mp4", "z.npz", "z/1.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "x" / "round").symlink_to(tmp_path)
    # not a.npz and walk.npz, which hold actions, nor pictures beside a video
    assert paths() == ["B.MKV", "a.mp4", "c.npy", "d.npz", "stills/e.mp4", "walk", "x/e.npz", "z.npz"]
    before = {place.path: place.stamp for place in recording.search(tmp_path)}
    (tmp_path / "a.npz").write_bytes(b"longer")  # a change of the actions is a change of the recording
    (tmp_path / "walk" / "3.png").write_bytes(b"x")
    after = {place.path: place.stamp for place in recording.search(tmp_path)}
    assert {path for path in before if before[path] != after[path]} == {"a.mp4", "walk"}


def test_a_folder_of_two_names_has_the_first_wherever_it_is_searched(tmp_path, monkeypatch):
    save(tmp_path / "y" / "a.npz")
    (tmp_path / "x").symlink_to("y")
    scan = os.scandir
    for order in (sorted, lambda entries, key: sorted(entries, key=key)[::-1]):
        monkeypatch.setattr(os, "scandir", lambda place, order=order: order(scan(place), key=lambda entry: entry.name))
        assert [place.path for place in recording.search(tmp_path)] == ["x/a.npz"]


def test_frames_beside_frames_are_refused(tmp_path):
    for t in range(4):
        (tmp_path / "a").mkdir(exist_ok=True)
        Image.fromarray(np.full((2, 3), t, np.uint8)).save(tmp_path / "a" / f"{t}.png")
    save(tmp_path / "a.npz", 6)
    [reason] = open_index(tmp_path).reasons
    assert reason == "a.npz beside it holds frames too, as 'video'; move one of them away"
    np.savez(tmp_path / "a.npz", actions=np.arange(4))
    assert lengths(open_index(tmp_path)) == {"a": 4}


def test_frames_are_in_the_order_of_their_numbers(tmp_path):
    for t in (0, 1, 2, 10, 11):
        Image.fromarray(np.full((2, 3), t, np.uint8)).save(tmp_path / f"f{t}.png")
    [facts] = recording.facts(tmp_path)
    blocks = [*recording.frames(tmp_path, 0, facts, np.arange(5))]
    assert [int(block[0, 0, 0, 0]) for block in blocks] == [0, 1, 2, 10, 11]
    shutil.copy(tmp_path / "f0.png", tmp_path / "f3.png")
    with pytest.raises(ValueError, match="has 6 pictures, and had 5 when it was indexed"):
        [*recording.frames(tmp_path, 0, facts, np.arange(5))]
