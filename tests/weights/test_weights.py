"""Weight files: found, taken over, fetched in several tries from our own server, and refused if they are not right."""

import errno
import http.server
import ssl
import threading
from dataclasses import replace

import pytest
import torch

from videopred import cli, weights

SHAPE = (400, 1024, 1, 1, 1)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("VIDEOPRED_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setitem(weights.KNOWN, "i3d_pretrained_400", replace(weights.KNOWN["i3d_pretrained_400"], url="none:"))
    return tmp_path / "home"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.pt"
    torch.save({"logits.conv3d.weight": torch.zeros(1).expand(SHAPE)}, path)
    return path


@pytest.fixture
def server(file, monkeypatch):
    """Serves `file`; `cut` is how many bytes it sends before it hangs up, `ranges` what was asked for."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            content, asked = server.content, self.headers.get("Range")
            server.ranges.append(asked)
            start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and server.resumes else 0
            if start >= len(content):
                self.send_error(416)
                return
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            self.wfile.write(content[start : start + server.cut])

        def log_message(self, *_): ...

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    server.content, server.cut, server.ranges, server.resumes = file.read_bytes(), 10**9, [], True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}/file"
    monkeypatch.setitem(weights.KNOWN, "i3d_pretrained_400", replace(weights.KNOWN["i3d_pretrained_400"], url=url))
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_missing_says_what_to_do(capsys):
    with pytest.raises(
        weights.WeightsMissing, match=r"weights missing: run `videopred weights fetch alexnet`.*weights add"
    ):
        weights.load("alexnet")
    assert cli.main(["weights", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(weights.KNOWN) and all(line.endswith("missing") for line in lines)


def test_added_then_checked_ever_after(file, home, capsys):
    assert cli.main(["weights", "add", "i3d_pretrained_400", str(file)]) == 0
    target = home / "weights" / "i3d_pretrained_400.pt"
    out, err = capsys.readouterr()
    assert out.strip() == str(target) and weights.sha256(file) in err
    assert weights.load("i3d_pretrained_400") == (target, weights.sha256(file))
    assert sorted(path.name for path in target.parent.iterdir()) == [target.name, f"{target.name}.sha256"]
    torch.save({"other": torch.zeros(3)}, target)
    with pytest.raises(ValueError, match=r"SHA-256 is .*it was .*it is now 1 tensors of another network \(other"):
        weights.load("i3d_pretrained_400")
    weights.add("i3d_pretrained_400", file)  # replaced on purpose
    assert weights.load("i3d_pretrained_400")[1] == weights.sha256(file)


def test_torch_hub_is_searched_and_its_file_recorded(file, tmp_path, home):
    hub = tmp_path / "torch" / "hub" / "checkpoints"
    hub.mkdir(parents=True)
    path = hub / "i3d_pretrained_400.pt"
    path.write_bytes(file.read_bytes())
    assert weights.load("i3d_pretrained_400")[0] == path
    assert weights.recorded("i3d_pretrained_400") == weights.sha256(file)
    path.write_bytes(b"damaged")
    with pytest.raises(ValueError, match="it is now nothing that torch can load"):
        weights.load("i3d_pretrained_400")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "an empty file"),
        (b"<!DOCTYPE html><title>Sign in</title>", "a web page"),
        (b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"),
        ({"features.10.weight": torch.zeros(1).expand(256, 256, 3, 3)}, "AlexNet of torchvision, 1 tensors"),
    ],
)
def test_wrong_files_are_told_apart(tmp_path, home, capsys, content, words):
    path = tmp_path / "wrong"
    path.write_bytes(content) if isinstance(content, bytes) else torch.save(content, path)
    assert cli.main(["weights", "add", "i3d_pretrained_400", str(path)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and words in err and weights.sha256(path)[:16] in err
    assert not (home / "weights" / "i3d_pretrained_400.pt").exists()


def test_a_name_that_promises_a_hash_is_held_to_it(tmp_path):
    path = tmp_path / "alexnet.pth"
    torch.save({"features.10.weight": torch.zeros(1).expand(256, 256, 3, 3)}, path)
    with pytest.raises(ValueError, match=r"not alexnet-owt-7be5be79.pth .*begins with 7be5be79: it is AlexNet"):
        weights.add("alexnet", path)


def test_an_interrupted_download_goes_on(server, file, home):
    server.cut = len(server.content) // 3
    for _ in range(2):
        with pytest.raises(weights.Unreachable, match=r"Run this again to go on.*weights add i3d_pretrained_400 FILE"):
            weights.fetch("i3d_pretrained_400")
        assert not (home / "weights" / "i3d_pretrained_400.pt").exists()
    server.cut = 10**9
    path = weights.fetch("i3d_pretrained_400")
    assert path.read_bytes() == file.read_bytes()
    assert server.ranges == [None, *(f"bytes={n * (len(server.content) // 3)}-" for n in (1, 2))]
    assert weights.fetch("i3d_pretrained_400") == path and len(server.ranges) == 3  # it is there
    assert not list(path.parent.glob("*.part"))


def test_a_server_that_cannot_resume_starts_again(server, file):
    server.cut, server.resumes = 100, False
    with pytest.raises(weights.Unreachable):
        weights.fetch("i3d_pretrained_400")
    server.cut = 10**9
    assert weights.fetch("i3d_pretrained_400").read_bytes() == file.read_bytes()


def test_a_web_page_in_its_place_is_not_kept(server, home):
    server.content = b"<html>Please sign in</html>"
    with pytest.raises(ValueError, match="it is a web page"):
        weights.fetch("i3d_pretrained_400")
    assert not list((home / "weights").iterdir())


def test_a_broken_tls_connection_is_the_networks_fault(file, monkeypatch):
    """It is an OSError too, as a full disk is; what has arrived is kept."""

    def breaks(*_, **__):
        raise ssl.SSLError("bad record mac")

    monkeypatch.setattr("urllib.request.urlopen", breaks)
    with pytest.raises(weights.Unreachable, match=r"bad record mac.*Run this again to go on"):
        weights.fetch("i3d_pretrained_400")


def test_no_network_is_one_line_and_the_machines_fault(capsys):
    assert cli.main(["weights", "fetch", "i3d_pretrained_400"]) == 3
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "cannot be fetched" in err and "weights add i3d_pretrained_400 FILE" in err


def test_unknown_names_and_the_folder(capsys, home):
    assert cli.main(["weights", "fetch", "resnet"]) == 2
    assert "resnet: no such weights, there are: i3d_pretrained_400" in capsys.readouterr().err
    assert cli.main(["weights", "path"]) == 0
    assert capsys.readouterr().out.strip() == str(home / "weights")


def test_an_empty_record_is_none(file, home, capsys):
    """A full disk may have left one."""
    weights.add("i3d_pretrained_400", file)
    record = home / "weights" / "i3d_pretrained_400.pt.sha256"
    for content in (b"", b"\n"):
        record.write_bytes(content)
        assert cli.main(["weights", "list"]) == 0
        assert "never loaded" in capsys.readouterr().out
        assert weights.load("i3d_pretrained_400")[1] == weights.sha256(file) == weights.recorded("i3d_pretrained_400")
    record.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="when first loaded"):
        weights.load("i3d_pretrained_400")


def test_a_zip_file_of_which_only_the_end_is_right_is_told(tmp_path, capsys):
    path = tmp_path / "cut.pt"
    torch.save({"logits.conv3d.weight": torch.zeros(2)}, path)
    content = bytearray(path.read_bytes())
    place = content.index(b"PK\x01\x02")
    content[place : place + 4] = b"\0" * 4
    path.write_bytes(content)
    assert cli.main(["weights", "add", "i3d_pretrained_400", str(path)]) == 2
    assert "it is nothing that torch can load as weights" in capsys.readouterr().err


def test_a_copy_that_fails_leaves_what_was_downloaded_and_names_its_own_place(file, home, monkeypatch, capsys):
    def full(source, target):
        target.write_bytes(b"some")
        raise OSError(errno.ENOSPC, "No space left on device", str(source))

    (home / "weights").mkdir(parents=True)
    part = home / "weights" / "i3d_pretrained_400.pt.part"
    part.write_bytes(b"downloaded")
    monkeypatch.setattr("shutil.copyfile", full)
    assert cli.main(["weights", "add", "i3d_pretrained_400", str(file)]) == 3
    assert f"{home}/weights/i3d_pretrained_400.pt: No space left" in capsys.readouterr().err
    assert list(part.parent.iterdir()) == [part] and part.read_bytes() == b"downloaded"
