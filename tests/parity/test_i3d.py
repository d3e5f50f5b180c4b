"""I3D against logits and features that were computed in float64, for parameters and clips made from a formula.

The formulas are those of the file (README.md): a parameter or a clip is a hash of its name and index, so no file of
weights is needed. Allowed is 1e-4 of the standard deviation; the mildest mistake known makes 1e-3.
"""

import zlib

import numpy as np
import pytest
import torch

from videopred.metrics.frechet import frechet_distance
from videopred.metrics.i3d import EPSILON, I3D, prepared

BATCH_NORM = {f"eps{epsilon:.0e}".replace("e-0", "e-"): name for name, epsilon in EPSILON.items()}
MIX = np.uint32


def has_logits(gold) -> bool:
    return "sd/keys" in gold and bool(gold.keys("logits/"))


def mixed(h: np.ndarray) -> np.ndarray:
    h = h ^ (h >> MIX(16))
    h = h * MIX(0x85EBCA6B)
    h = (h ^ (h >> MIX(13))) * MIX(0xC2B2AE35)
    return h ^ (h >> MIX(16))


def parameter(name: str, shape: list[int]) -> torch.Tensor:
    if name.endswith("num_batches_tracked"):
        return torch.tensor(0)
    h = np.arange(np.prod(shape, dtype=int), dtype=np.uint32) * MIX(2654435761) + MIX(zlib.crc32(name.encode()))
    u = (2.0 * mixed(h) + 1 - 2.0**32) / 2.0**32
    if name.endswith("running_var"):
        u = 0.6 + 0.5 * u
    elif len(shape) >= 2:
        u = np.sqrt(3 / np.prod(shape[1:])) * u
    else:
        u = 1 + 0.25 * u if name.endswith("bn.weight") else 0.25 * u
    return torch.from_numpy(u.reshape(shape).astype(np.float32))


def clips(n: int, t: int, h: int = 64, w: int = 64, first: int = 0) -> torch.Tensor:
    """uint8 (n, t, h, w, 3)."""
    i, time, y, x, c = np.ogrid[first : first + n, :t, :h, :w, :3]
    k = mixed(((((i * 1009 + time) * 1013 + y) * 1019 + x) * 3 + c).astype(np.uint32))
    base = 3 * y * (c + 1) + 5 * x + 7 * time * (i + 1) + (x * y) // 4 + 40 * c + 90 * i
    return torch.from_numpy(((base + (k >> MIX(28))) % 256).astype(np.uint8))


@pytest.fixture(scope="module")
def weights() -> dict[str, torch.Tensor]:
    return {name: parameter(name, list(value.shape)) for name, value in I3D().state_dict().items()}


@pytest.fixture(scope="module")
def networks(weights):
    found = {key: I3D(name) for key, name in BATCH_NORM.items()}
    for network in found.values():
        network.load_state_dict(weights)
    return found


@torch.no_grad()
def logits(network, frames) -> torch.Tensor:
    return torch.cat([network(prepared(clip)) for clip in frames])


@pytest.mark.golden(takes=has_logits)
def test_names_shapes_and_fill(gold, weights):
    keys, shapes, sums = (gold.arrays[f"sd/{name}"] for name in ("keys", "shapes", "crc32"))
    assert {name: ",".join(map(str, x.shape)) for name, x in weights.items()} == dict(zip(keys, shapes, strict=True))
    assert {name: zlib.crc32(x.numpy().tobytes()) for name, x in weights.items()} == dict(zip(keys, sums, strict=True))
    assert sum(value.numel() for value in weights.values()) == gold["sd/n_params"]


@pytest.mark.golden(takes=has_logits)
@pytest.mark.parametrize("case", ["eps1e-3/T9", "eps1e-5/T9", "eps1e-3/T10", "eps1e-3/T17 in pieces"])
def test_logits(gold, networks, case, monkeypatch):
    """Of 9 frames; of an even number, padded otherwise; of 17, where two pairs of time steps are averaged."""
    if "pieces" in case:
        monkeypatch.setattr("videopred.metrics.i3d.PIECE", 4)
    key = f"logits/{case.partition(' ')[0]}"
    if key not in gold:
        pytest.skip(f"{gold.path.name} has no {key}")
    epsilon, frames = key.split("/")[1:]
    got = logits(networks[epsilon], clips(1, int(frames[1:]))).double()
    error = (got - gold[key][:1]).abs().max() / gold[key].std()
    gold.errors[key] = (error.item(), 1e-4)
    assert error < 1e-4


@pytest.mark.golden(takes=has_logits)
def test_layers(gold, networks):
    """Mean, spread and single values of all that comes out of pools and mixed blocks."""
    network, seen = networks["eps1e-3"], {}
    hooks = [
        module.register_forward_hook(lambda _, __, out, name=name: seen.update({name: out[0].double()}))
        for name, module in network.named_children()
        if not name.startswith("Conv3d") or name == "Conv3d_2b_1x1"
    ]
    logits(network, clips(1, 9))
    for hook in hooks:
        hook.remove()
    for name in seen.keys() - {"logits"}:
        key = f"end/eps1e-3/T9/{name}"
        assert list(seen[name].shape) == gold[f"{key}/shape"].tolist()
        got = torch.stack([seen[name].mean(), seen[name].std(correction=0)])
        gold.check(f"{key}/mean_std", got, 1e-4)
        gold.check(f"{key}/val", seen[name].flatten()[gold[f"{key}/idx"]], 1e-4)
    assert len(seen) == 15


@pytest.mark.golden(takes=has_logits)
def test_resizing(gold):
    for size in {key.split("/")[1] for key in gold.keys("pre/")} - {"448x448", "256x256"}:
        h, w = map(int, size.split("x"))
        n, _, t, _, _ = gold[f"pre/{size}/shape"].tolist()
        frames = clips(n, t, h, w)
        assert zlib.crc32(frames.numpy().tobytes()) == gold.arrays[f"pre/{size}/u8_crc32"]
        got = torch.cat([prepared(torch.cat([clip] * 9))[:, :, :t] for clip in frames]).double()
        gold.check(f"pre/{size}/val", got.flatten()[gold[f"pre/{size}/idx"]], 1e-4)
        gold.check(f"pre/{size}/mean_std", torch.stack([got.mean(), got.std(correction=0)]), 1e-4)


@pytest.mark.golden(takes=lambda gold: "e2e/real_logits" in gold)
def test_from_clips_to_a_distance(gold, networks):
    """The distances of the file's logits lie in frechet.npz beside it; of its clips one is enough."""
    real, fake = (gold[f"e2e/{side}_logits"].numpy() for side in ("real", "fake"))
    with np.load(gold.path.with_name("frechet.npz")) as values:
        for covariance in ("n", "n-1"):
            got, want = frechet_distance(real, fake, covariance), float(values[f"i3d_e2e/fd/{covariance}"])
            assert got == pytest.approx(want, rel=1e-10)
    ours = logits(networks["eps1e-3"], clips(1, 9, first=len(real) + 1))
    assert np.abs(ours.numpy() - fake[1:2]).max() < 1e-4 * fake.std()
