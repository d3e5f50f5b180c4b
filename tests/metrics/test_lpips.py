"""LPIPS: never without its real trunk."""

import hashlib
import sys
from pathlib import Path

import pytest
import torch

from videopred import weights
from videopred.metrics import LPIPSConfig, lpips

package = pytest.importorskip("lpips")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("VIDEOPRED_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    lpips._network.cache_clear()


@pytest.fixture
def trunk(tmp_path, monkeypatch):
    """A file with torchvision's names whose numbers are random; `weights` is told that it is the right one."""
    import torchvision

    path = tmp_path / "alexnet.pth"
    torch.save({f"features.{k}": v for k, v in torchvision.models.alexnet().features.state_dict().items()}, path)
    monkeypatch.setattr(weights, "load", lambda name: (path, "0" * 64))
    return path


@pytest.mark.parametrize(("net", "name"), [("alex", "alexnet"), ("vgg", "vgg16"), ("squeeze", "squeezenet1_1")])
def test_without_the_trunk_there_is_no_distance(net, name):
    with pytest.raises(weights.WeightsMissing, match=f"weights missing: run `videopred weights fetch {name}`"):
        LPIPSConfig(net=net).build()
    with pytest.raises(weights.WeightsMissing):
        lpips.lpips(torch.zeros(1, 1, 64, 64, 3), torch.zeros(1, 1, 64, 64, 3), net)


def test_a_trunk_that_lacks_a_layer_is_refused(trunk):
    file = torch.load(trunk)
    del file["features.8.bias"]
    torch.save(file, trunk)
    with pytest.raises(ValueError, match=r"lacks features\.8\.bias"):
        LPIPSConfig().build()


def test_one_number_per_frame_whatever_the_batch(trunk, monkeypatch):
    """The package's own number of [-1, 1], for uint8 and for [0, 1]; in pieces; without a gradient."""
    x, y = torch.randint(0, 256, (2, 2, 3, 40, 48, 3), dtype=torch.uint8)
    got = lpips.lpips(x, y)
    module = lpips._network("alex", *weights.load(""))
    with torch.no_grad():
        want = module(*(v.flatten(0, 1).movedim(-1, 1).float() / 127.5 - 1 for v in (x, y))).view(2, 3)
    torch.testing.assert_close(got, want.double(), atol=1e-6, rtol=0)
    torch.testing.assert_close(lpips.lpips(x.double() / 255, y.float() / 255), got, atol=1e-6, rtol=0)
    assert torch.equal(lpips.lpips(x[1:], y[1:]), got[1:]) and not got.requires_grad
    monkeypatch.setattr("videopred.metrics.frames.CHUNK", 1)
    torch.testing.assert_close(lpips.lpips(x, y), got, atol=1e-6, rtol=0)


def test_frames_it_cannot_take(trunk):
    with pytest.raises(ValueError, match="at least 31 pixels; these are 30 x 64"):
        lpips.lpips(torch.zeros(1, 1, 30, 64, 3), torch.zeros(1, 1, 30, 64, 3))
    with pytest.raises(ValueError, match="1 or 3 channels, got 2"):
        lpips.lpips(torch.zeros(1, 1, 64, 64, 2), torch.zeros(1, 1, 64, 64, 2))


def test_the_result_says_which_file(trunk):
    metric = LPIPSConfig().build()
    metric.update(torch.zeros(1, 1, 32, 32, 1), torch.ones(1, 1, 32, 32, 1), ["a"])
    score = metric.compute()
    heads = Path(package.__file__).parent / "weights/v0.1/alex.pth"
    sums = {"sha256": "0" * 64, "heads_sha256": hashlib.sha256(heads.read_bytes()).hexdigest()}
    assert score.extras == {"weights": {"name": "alexnet"} | sums} and score.mean > 0


def test_without_the_package(trunk, monkeypatch):
    monkeypatch.setitem(sys.modules, "lpips", None)
    with pytest.raises(ValueError, match="needs the package lpips: pip install"):
        LPIPSConfig().build()
