"""FVD: from weight files to a distance, and what it refuses. tests/parity holds the numbers of its parts."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn

from videopred import weights
from videopred.metrics import FVDConfig, fvd
from videopred.metrics.features import FrechetMetric, Network
from videopred.metrics.frechet import frechet_distance
from videopred.metrics.i3d import I3D, prepared


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("VIDEOPRED_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    yield
    fvd._network.cache_clear()


@pytest.fixture(scope="module")
def network():
    """I3D with random numbers that spread the logits."""
    torch.manual_seed(0)
    made = I3D()
    for name, value in made.state_dict().items():
        if value.dim() > 1:
            value.normal_(0, (2 / value[0].numel()) ** 0.5)
        elif name.endswith("running_var"):
            value.uniform_(0.1, 0.2)
    return made


class AsTheyCallIt(nn.Module):
    """The call of StyleGAN-V's file, with a network that is soon done."""

    def __init__(self):
        super().__init__()
        self.logits = nn.Linear(3, 400)

    def forward(self, x: torch.Tensor, rescale: bool = True, resize: bool = True, return_features: bool = False):
        assert not rescale and not resize and return_features
        return self.logits(x.mean((2, 3, 4)))


@pytest.fixture
def plain(network, tmp_path):
    """The state dict, taken over."""
    state = {name: x for name, x in network.state_dict().items() if not name.endswith("num_batches_tracked")}
    torch.save(state, tmp_path / "plain.pt")
    weights.add("i3d_pretrained_400", tmp_path / "plain.pt")


def clips(n, frames=9, seed=0):
    return torch.randint(0, 256, (n, frames, 10, 12, 1), dtype=torch.uint8, generator=torch.manual_seed(seed))


def test_from_a_state_dict_to_a_distance(plain, network):
    """The epsilon of the batch norms matters."""
    x = clips(2)
    metric = FVDConfig().build()
    metric.update(x, x.flip(0), ["a", "b"])
    score = metric.compute()
    assert score.mean == pytest.approx(0, abs=1e-9)  # the same set
    with torch.no_grad():
        want = network(prepared(x[0]))[0].double().numpy()
    np.testing.assert_allclose(score.arrays["predicted"][0, 0], want, atol=1e-5 * want.std())
    sha256 = weights.recorded("i3d_pretrained_400")
    about = score.extras["weights"]
    assert about | {"input": ""} == {
        "name": "i3d_pretrained_400",
        "sha256": sha256,
        "input": "",
        "batch_norm": "tensorflow",
    }
    assert about["input"] == "224 x 224, bilinear, half-pixel centres, no antialiasing, [-1, 1]"
    other = FVDConfig(batch_norm="pytorch").network()(x[0]).numpy()
    assert np.abs(other - want).max() > 1e-3 * want.std()


def test_from_torchscript_to_a_distance(tmp_path):
    module = AsTheyCallIt()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(module).save(str(tmp_path / "scripted.pt"))
    weights.add("i3d_torchscript", tmp_path / "scripted.pt")
    fake, real = clips(3), clips(3, seed=1)
    metric = FVDConfig(weights="i3d_torchscript").build()
    metric.update(fake, real, ["a", "b", "c"])
    with torch.no_grad():
        rows = [torch.cat([module(prepared(x), False, False, True) for x in v]).numpy() for v in (fake, real)]
    assert metric.compute().mean == pytest.approx(frechet_distance(*rows), rel=1e-4)


def test_missing_and_wrong_weights(tmp_path):
    with pytest.raises(weights.WeightsMissing, match="run `videopred weights fetch i3d_torchscript`"):
        FVDConfig(weights="i3d_torchscript").build()
    with pytest.raises(ValueError, match="has its own, fixed"):
        FVDConfig(weights="i3d_torchscript", batch_norm="pytorch")
    path = weights.folder() / "i3d_pretrained_400.pt"
    path.parent.mkdir(parents=True)
    torch.save({"features.10.weight": torch.zeros(1).expand(256, 256, 3, 3)}, path)
    with pytest.raises(ValueError, match=r"not i3d_pretrained_400\.pt .*it is AlexNet of torchvision"):
        FVDConfig().build()


def test_another_network_under_the_same_name_is_refused(tmp_path, network):
    """One tensor of I3D, or TorchScript that is no I3D, is not enough for a number that is called FVD."""
    torch.save({"logits.conv3d.weight": network.state_dict()["logits.conv3d.weight"]}, tmp_path / "other.pt")
    weights.add("i3d_pretrained_400", tmp_path / "other.pt")
    with pytest.raises(ValueError, match=r"i3d_pretrained_400\.pt: holds another network than i3d_pretrained_400"):
        FVDConfig().build()
    module = AsTheyCallIt()
    module.logits = nn.Linear(3, 2048)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(module).save(str(tmp_path / "scripted.pt"))
    weights.add("i3d_torchscript", tmp_path / "scripted.pt")
    with pytest.raises(ValueError, match=r"gives \(1, 2048\) for a clip: I3D has 1 x 400 logits"):
        FVDConfig(weights="i3d_torchscript").build().update(clips(1), clips(1), ["a"])


def test_eight_frames_are_refused(plain):
    with pytest.raises(ValueError, match=r"at least 9 frames.*got 8"):
        FVDConfig().build().update(clips(1, 8), clips(1, 8), ["a"])


class Plain:
    """A config whose network takes the first pixels of a clip, and counts the clips it sees."""

    covariance, frames = "n-1", 0

    def __init__(self):
        self.seen = []
        self.made = Network(self.look, {"name": "plain"})

    def look(self, frames):
        self.seen.append(len(frames))
        return frames.flatten()[:5].float()

    def network(self):
        return self.made


def test_samples_are_pooled_and_told_apart():
    metric = FrechetMetric(Plain())
    fakes, real = [clips(6, seed=i) for i in (1, 2)], clips(6)
    for sample, fake in enumerate(fakes):
        metric.update(fake, real, list("abcdef"), sample)
    score = metric.compute()
    rows = [x.flatten(1)[:, :5].double().numpy() for x in (*fakes, real)]
    assert score.value == pytest.approx(frechet_distance(np.concatenate(rows[:2]), rows[2]))
    assert score.extras["per_sample"] == pytest.approx([frechet_distance(x, rows[2]) for x in rows[:2]])
    assert "6 clips are few: below 256" in score.extras["warning"]


def test_the_floor_is_between_true_clips():
    metric = FrechetMetric(Plain())
    real = clips(9)
    metric.update(clips(9, seed=1), real, list("abcdefghi"))
    rows = real.flatten(1)[:, :5].double().numpy()
    floor = metric.floor([list("abc"), list("def"), list("ghi")])
    pairs = [frechet_distance(rows[:3], rows[3:6]), frechet_distance(rows[3:6], rows[6:])]
    assert floor == {"floor": pytest.approx(np.mean(pairs)), "floor_clips": 3}


def test_a_clip_is_seen_once_and_only_as_far_as_asked():
    config = Plain()
    for _ in range(3):  # the rows of a table
        FrechetMetric(config).update(clips(2), clips(2), ["a", "b"])
    assert config.seen == [9, 9]
    config.frames = 4
    FrechetMetric(config).update(clips(1), clips(1), ["a"])
    assert config.seen == [9, 9, 4]
    config.frames = 10
    with pytest.raises(ValueError, match="frames = 10: the clips have only 9 frames"):
        FrechetMetric(config).update(clips(1), clips(1), ["a"])


@pytest.mark.parametrize("covariance", ["n-1", "n"])
def test_one_clip_has_no_distance(covariance):
    """Not with several samples either: one true clip is no set."""
    config = Plain()
    config.covariance = covariance
    metric = FrechetMetric(config)
    for sample in range(2):
        metric.update(clips(1, seed=sample), clips(1), ["a"], sample)
        with pytest.raises(ValueError, match="at least 2 clips"):
            metric.compute()


def test_labels():
    assert FVDConfig().label == "fvd" and FVDConfig(frames=16).label == "fvd-16f"
