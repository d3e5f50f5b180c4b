"""`videopred data encode`: tokens on disk are those that are made on the fly; and what can go wrong."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from videopred import cli, config, tokenizer
from videopred.clip import stack
from videopred.codecs.vqgan import VQGANConfig
from videopred.data import ClipsConfig, EncodedConfig, MovingMNISTConfig, Recipe
from videopred.data.loader import batches
from videopred.data.split import NoClips
from videopred.making import encode as making
from videopred.making.encode import encode
from videopred.tokenizer import Trained

CODEC = VQGANConfig(
    width=4, multipliers=(1, 2), num_blocks=1, attention=(), num_groups=2, latent_channels=4, code_width=4, num_codes=16
)
LENGTHS = (9, 70, 12, 9)


@pytest.fixture
def recipe(tmp_path):
    """Recordings of several lengths with actions; one is longer than what is encoded at a time."""
    random = np.random.default_rng(0)
    for split in ("train", "test"):
        (tmp_path / "clips" / split / "0").mkdir(parents=True)
        for i, length in enumerate(LENGTHS):
            video = random.integers(0, 256, (length, 8, 12, 3)).astype(np.uint8)
            np.savez(tmp_path / "clips" / split / "0" / f"{i}.npz", video=video, actions=random.integers(0, 2, length))
    return ClipsConfig(root=str(tmp_path / "clips"), image_size=(8, 12), actions=("on", "back"), name="walks")


def trained(recipe, seed: int = 0, digest: str = "a" * 64) -> Trained:
    torch.manual_seed(seed)
    form = recipe.format
    codec = CODEC.build(form.channels, form.height, form.width).eval()
    return Trained(codec, recipe, "codec", 1, digest, {})


def read(folder) -> EncodedConfig:
    return config.load(Recipe, "recipes", str(folder / "recipe.toml"))


def test_tokens_are_those_made_on_the_fly(recipe, tmp_path, monkeypatch):
    monkeypatch.setattr(making, "SHARD", 3)
    codec = trained(recipe)
    encode(recipe, codec, tmp_path / "tokens")
    encoded = read(tmp_path / "tokens")
    assert encoded.format == replace(recipe.format, codec="a" * 64)
    for split in ("train", "test"):
        frames, tokens = recipe.build(split, 9), encoded.build(split, 9)
        assert len(tokens) == len(frames) == 4 and tokens.max_frames == 70
        assert tokens.lengths.tolist() == frames.lengths.tolist()
        for i in range(4):
            want, got = frames.cut(i, 0, int(frames.lengths[i])), tokens.cut(i, 0, int(frames.lengths[i]))
            assert torch.equal(got.tokens, codec.codec.tokenize(stack([want]).pixels())[0])
            assert torch.equal(got.actions, want.actions)
            assert (got.id, got.start) == (want.id, 0)
    batch = next(batches(recipe.build("test", 9), 4, 0, shuffle=False))
    stored = next(batches(encoded.build("test", 9), 4, 0, shuffle=False))
    assert torch.equal(stored.tokens, codec.codec.tokenize(batch.pixels()))
    assert torch.equal(stored.actions, batch.actions) and stored.id == batch.id
    assert len(stored.tokens.unique()) > 1


def test_windows_start_anywhere_and_are_the_same_each_time(recipe, tmp_path):
    encode(recipe, trained(recipe), tmp_path / "tokens")
    dataset = read(tmp_path / "tokens").build("train", 9)
    whole = dataset.cut(1, 0, 70)
    starts = set()
    for epoch in range(12):
        window = dataset.window(1, epoch)
        assert torch.equal(window.tokens, whole.tokens[window.start : window.start + 9])
        assert torch.equal(window.actions, whole.actions[window.start : window.start + 9])
        assert torch.equal(window.tokens, dataset.window(1, epoch).tokens)
        starts.add(window.start)
    assert len(starts) > 6
    assert len(read(tmp_path / "tokens").build("train", 10)) == 2  # those that are long enough


def test_going_on_makes_what_is_missing_and_the_same_files(recipe, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(making, "SHARD", 2)
    codec = trained(recipe)
    encode(recipe, codec, tmp_path / "straight")
    tokens_of, calls = making.tokens_of, []

    def interrupted(*args):
        if len(calls) == 4:
            raise KeyboardInterrupt
        calls.append(args)
        return tokens_of(*args)

    monkeypatch.setattr(making, "tokens_of", interrupted)
    with pytest.raises(KeyboardInterrupt):
        encode(recipe, codec, tmp_path / "stopped")
    assert "the same command goes on from there" in capsys.readouterr().err
    monkeypatch.setattr(making, "tokens_of", tokens_of)
    done = encode(recipe, codec, tmp_path / "stopped")
    assert (done.clips, done.there) == (6, 2)
    assert encode(recipe, codec, tmp_path / "stopped").clips == 0
    files = [{path.relative_to(root): path.read_bytes() for path in root.glob("*/*")}
             for root in (tmp_path / "straight", tmp_path / "stopped")]  # fmt: skip
    assert files[0] == files[1] and len(files[0]) == 12


def test_more_clips_later(recipe, tmp_path):
    codec = trained(recipe)
    encode(recipe, codec, tmp_path / "tokens", num_clips=2)
    assert len(read(tmp_path / "tokens").build("train", 9)) == 2
    encode(recipe, codec, tmp_path / "tokens")
    assert len(read(tmp_path / "tokens").build("train", 9)) == 4


def test_fewer_clips_later_lose_nothing(recipe, tmp_path):
    codec = trained(recipe)
    encode(recipe, codec, tmp_path / "tokens")
    done = encode(recipe, codec, tmp_path / "tokens", num_clips=1)
    assert (done.clips, done.there) == (0, 2)
    assert len(read(tmp_path / "tokens").build("train", 9)) == 4


def test_longer_clips_later_are_made_and_shorter_ones_are_there(tmp_path):
    recipe = MovingMNISTConfig(digit_size=7, image_size=16, train_clips=3, test_clips=2, name="digits")
    for frames, made in (5, 5), (8, 5), (4, 0):
        assert encode(recipe, trained(recipe), tmp_path / "tokens", frames=frames).clips == made
    assert read(tmp_path / "tokens").build("test", 8).lengths.tolist() == [8, 8]


def test_a_recipe_without_end_is_told_how_long(tmp_path):
    recipe = MovingMNISTConfig(digit_size=7, image_size=16, train_clips=3, test_clips=2, name="digits")
    codec = trained(recipe)
    with pytest.raises(ValueError, match="'digits': its clips have no end; say how long with --frames"):
        encode(recipe, codec, tmp_path / "tokens")
    encode(recipe, codec, tmp_path / "tokens", frames=5)
    clip = read(tmp_path / "tokens").build("test", 5)[1]
    want = recipe.build("test", 5)[1]
    assert torch.equal(clip.tokens, codec.codec.tokenize(stack([want]).pixels())[0])
    assert clip.actions is None and clip.id == want.id


def test_frames_the_codec_does_not_take(recipe, tmp_path):
    with pytest.raises(
        ValueError, match=r"recipe 'walks': has frames of 8x12 and 3 channels; the codec codec takes 16x16"
    ):
        encode(recipe, trained(MovingMNISTConfig(image_size=16, digit_size=7)), tmp_path / "tokens")
    with pytest.raises(ValueError, match="8x16"):
        encode(replace(recipe, image_size=(8, 16)), trained(recipe), tmp_path / "tokens")
    assert not (tmp_path / "tokens").exists()


def test_tokens_of_another_codec(recipe, tmp_path):
    codec, other = trained(recipe), trained(recipe, 1, "b" * 64)
    encode(recipe, codec, tmp_path / "tokens")
    with pytest.raises(config.ConfigError, match="holds other tokens: hash: "):
        encode(recipe, other, tmp_path / "tokens")
    with pytest.raises(config.ConfigError, match="holds other tokens: recipe"):
        encode(replace(recipe, stride=2, action_pool="last"), codec, tmp_path / "tokens")
    encoded = read(tmp_path / "tokens")
    with pytest.raises(
        ValueError, match="holds tokens of codec codec with hash aaaaaaaaaaaa, the recipe 'tokens' is of b"
    ):
        replace(encoded, codec="b" * 64).build("train", 2)
    codec.require(encoded.format, "recipe 'tokens'")
    with pytest.raises(ValueError, match="recipe 'tokens': holds tokens of a codec with hash aaaaaaaaaaaa"):
        other.require(encoded.format, "recipe 'tokens'")
    with pytest.raises(ValueError, match="holds tokens already"):
        encode(encoded, codec, tmp_path / "again")
    with pytest.raises(ValueError, match="64 hex digits"):
        replace(encoded, codec="abc")


def test_damage_is_named(recipe, tmp_path):
    root = tmp_path / "tokens"
    encode(recipe, trained(recipe), root)
    encoded, path = read(root), root / "test" / "00000.npy"
    tokens = np.load(path)
    tokens[11] = 16
    np.save(path, tokens)
    with pytest.raises(ValueError, match=r"00000.npy: token 16 in clip test/0/1.npz; the codec has codes 0..15"):
        encoded.build("test", 9)[1]
    encoded.build("test", 9)[0]  # another clip of that shard
    np.save(path, tokens[:50])  # whole, but not all of it
    with pytest.raises(ValueError, match=r"00000.npy: damaged or cut off"):
        encoded.build("test", 9)[2]
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ValueError, match=r"00000.npy: damaged or cut off"):
        encoded.build("test", 9)[0]
    path.unlink()
    with pytest.raises(ValueError, match=r"00000.npy: missing; remove its .json, and encode again"):
        encoded.build("test", 9)[0]
    for text in "{", "[]", '{"ids": []}':
        path.with_suffix(".json").write_text(text)
        with pytest.raises(ValueError, match=r"00000.json: damaged"):
            encoded.build("test", 9)
    (root / "encoded.json").unlink()
    with pytest.raises(NoClips, match="videopred data encode"):
        encoded.build("test", 9)


def test_the_command(recipe, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "walks.toml").write_text(config.dumps(recipe))
    monkeypatch.setattr(tokenizer, "load", lambda name, device: trained(recipe))
    assert cli.main(["data", "encode", "walks.toml", "codec", "--clips", "1"]) == 0
    assert "2 clips encoded, 18 frames" in capsys.readouterr().out
    assert str(making.Encoding(tmp_path, 1, 0, 9, 1.0)).startswith("1 clip encoded, 9 frames")
    folder = tmp_path / "datasets" / "data" / "walks-codec"
    assert json.loads((folder / "encoded.json").read_text())["codec"]["num_codes"] == 16
    assert cli.main(["data", "show", str(folder / "recipe.toml")]) == 0
    assert cli.main(["data", "check", str(folder / "recipe.toml")]) == 2
    assert "holds tokens, and check looks at frames" in capsys.readouterr().err
    assert cli.main(["data", "encode", "walks.toml", "codec", "--clips", "0"]) == 2
    assert "--clips 0: must be at least 1" in capsys.readouterr().err
