"""A model on disk: what is read is what was written, and whatever is wrong with it is one line."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from videopred import checkpoint, config, saved
from videopred.clip import Clip
from videopred.training import RunConfig


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run folder with two steps, and the newer step's predictor."""
    run = config.load(RunConfig, "presets", "debug", ["predictor.stack.depth=1"])
    folder = tmp_path_factory.mktemp("runs") / "mine"
    for step in (90, 100):
        torch.manual_seed(step)
        predictor = run.predictor.build(run.recipe.format)
        place = folder / f"step_{step:08d}"
        place.mkdir(parents=True)
        save_file(
            {name: tensor.contiguous() for name, tensor in predictor.state_dict().items()}, place / "model.safetensors"
        )
        (place / "config.toml").write_text(config.dumps(run))
    return folder, predictor


@pytest.fixture
def step(made, tmp_path):
    """A copy of the newer step folder, to be harmed."""
    return shutil.copytree(made[0] / "step_00000100", tmp_path / "run" / "step_00000100")


@pytest.fixture
def shipped(monkeypatch, tmp_path):
    """An empty checkpoints/ folder in the place of the checkout's."""
    monkeypatch.setattr(saved, "SHIPPED", tmp_path / "checkpoints")
    return tmp_path / "checkpoints"


def test_what_is_read_is_what_was_written(made):
    folder, predictor = made
    loaded = checkpoint.load(str(folder))
    assert (loaded.name, loaded.step) == ("mine", 100)
    assert loaded.hash == hashlib.sha256((folder / "step_00000100/model.safetensors").read_bytes()).hexdigest()
    assert loaded.config == config.to_dict(config.load(RunConfig, "presets", "debug", ["predictor.stack.depth=1"]))
    assert not loaded.predictor.training
    clip = Clip(frames=torch.rand(2, 5, 1, 32, 32) * 2 - 1)
    with torch.no_grad():
        assert torch.equal(loaded.predictor(clip)[0], predictor(clip)[0])


def test_a_step_folder_is_that_step(made):
    loaded = checkpoint.load(str(made[0] / "step_00000090"))
    assert (loaded.name, loaded.step) == ("mine", 90)


def test_a_name_is_that_of_the_folder_however_it_is_called(made, step, monkeypatch):
    monkeypatch.chdir(made[0] / "step_00000090")
    assert [(loaded.name, loaded.step) for loaded in map(checkpoint.load, (".", ".."))] == [("mine", 90), ("mine", 100)]
    other = step.rename(step.parent / "2024")  # a number, but of no step
    loaded = checkpoint.load(str(other))
    assert (loaded.name, loaded.step) == ("2024", 0)


@pytest.mark.parametrize("where", ["checkpoints/small", "checkpoints/runs/small"])
def test_a_name_is_looked_for_among_the_shipped_and_the_own(where, step, shipped, tmp_path):
    shutil.copytree(step, tmp_path / where)
    (tmp_path / where / "card.json").write_text(json.dumps({"step": 4000}))
    loaded = checkpoint.load("small")
    assert (loaded.name, loaded.step) == ("small", 4000)


def test_a_name_that_is_both_means_the_shipped_model_and_says_so_once(step, shipped, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(step, shipped / "twice")
    assert (checkpoint.resolve("twice"), capsys.readouterr().err) == (shipped / "twice", "")
    own = shutil.copytree(step, shipped / "runs/twice/step_00000007")
    assert [checkpoint.resolve("twice") for _ in range(2)] == [shipped / "twice"] * 2
    says = "using the shipped model twice; your run is checkpoints/runs/twice, give its path to use it"
    assert capsys.readouterr().err == f"videopred: {says}\n"
    assert checkpoint.resolve("checkpoints/runs/twice") == own.relative_to(tmp_path)


def test_a_run_of_the_current_folder_has_a_name_where_no_checkout_is(step, shipped, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    shutil.copytree(step, "checkpoints/runs/mine/step_00000007")
    assert checkpoint.load("mine").step == 7
    assert saved.runs() == {"mine": Path("checkpoints/runs/mine/step_00000007")}


def test_a_step_that_is_not_whole_is_not_the_newest(step, tmp_path):
    for name in ("step_00000200", ".step_00000300.draft", "damaged_step_00000400", "step_best"):
        (tmp_path / "run" / name).mkdir()
    (tmp_path / "run" / "step_best" / "model.safetensors").touch()
    assert checkpoint.resolve(str(tmp_path / "run")) == step


def test_steps_are_in_the_order_of_their_numbers(tmp_path):
    for number in (2, 100_000_000, 99_999_999):
        (tmp_path / f"step_{number:08d}").mkdir()
    (tmp_path / "step_00000003").touch()
    assert [int(path.name[5:]) for path in checkpoint.steps(tmp_path)] == [2, 99_999_999, 100_000_000]


def test_no_such_checkpoint_says_what_there_is(shipped, step):
    with pytest.raises(
        FileNotFoundError, match=r"smal: no such checkpoint.*under checkpoints/ of the source repository"
    ):
        checkpoint.load("smal")
    shutil.copytree(step, shipped / "small")
    with pytest.raises(FileNotFoundError, match=r"smal: no such checkpoint.*a shipped model; shipped are small$"):
        checkpoint.load("smal")


def test_a_folder_without_a_model_is_no_checkpoint(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"holds no model.safetensors and no step_\* folder"):
        checkpoint.load(str(tmp_path))
    (tmp_path / "a.mp4").touch()
    with pytest.raises(FileNotFoundError, match=r"a\.mp4: holds no model.safetensors"):
        checkpoint.load(str(tmp_path / "a.mp4"))


def shorten(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


HARM = {
    "model cut off": ("model.safetensors", shorten, ValueError, "model.safetensors: damaged or cut off"),
    "model empty": ("model.safetensors", lambda path: path.write_bytes(b""), ValueError, "damaged or cut off"),
    "model garbage": (
        "model.safetensors",
        lambda path: path.write_bytes(b"\x80\x04" * 99),
        ValueError,
        "damaged or cut off",
    ),
    "model missing": ("model.safetensors", lambda path: path.unlink(), FileNotFoundError, "holds no model.safetensors"),
    "config missing": ("config.toml", lambda path: path.unlink(), FileNotFoundError, "config.toml: missing"),
    "config empty": ("config.toml", lambda path: path.write_text(""), ValueError, r"config.toml: has no \[recipe\]"),
    "config cut off": ("config.toml", lambda path: path.write_text("[recipe"), ValueError, "config.toml: damaged"),
    "config binary": (
        "config.toml",
        lambda path: path.write_bytes(b"\xff\xfe\x00"),
        ValueError,
        "config.toml: damaged",
    ),
}


@pytest.mark.parametrize(("file", "harm", "error", "says"), HARM.values(), ids=HARM)
def test_damage_is_named(file, harm, error, says, step):
    harm(step / file)
    with pytest.raises(error, match=says):
        checkpoint.load(str(step))


KINDS = {
    "another recipe": ('kind = "moving_mnist"', 'kind = "atari"', "recipe.kind = 'atari': must be one of"),
    "another predictor": ('kind = "pixel"', 'kind = "oracle"', "predictor.kind = 'oracle'"),
    "a key of another version": ("num_states = 8", "num_states = 8\nnum_stats = 8", "did you mean 'num_states'"),
    "an outsider who is not there": ('kind = "convs5"', 'kind = "no_such_package.layer:Config"', "cannot be imported"),
    "numbers that do not go together": ("num_groups = 4", "num_groups = 5", "config.toml: no model can be built"),
}


@pytest.mark.parametrize(("old", "new", "says"), KINDS.values(), ids=KINDS)
def test_a_config_of_another_kind_is_named(old, new, says, step):
    text = (step / "config.toml").read_text()
    assert old in text
    (step / "config.toml").write_text(text.replace(old, new))
    with pytest.raises(ValueError, match=says) as error:
        checkpoint.load(str(step))
    assert "step_00000100/config.toml: no model can be built from it" in str(error.value)


def lose(weights):
    del weights["mix.weight"], weights["stack.layers.0.norm.weight"]


def grow(weights):
    weights["stack.layers.7.extra"] = torch.zeros(1)


def reshape(weights):
    weights["mix.bias"] = torch.zeros(99)


MISFITS = {"lacks": (lose, "mix.weight: the file lacks it"), "adds": (grow, "layers.7.extra: the model has no such"),
           "shape": (reshape, r"mix.bias is \(99,\), the config makes it \(16,\)")}  # fmt: skip


@pytest.mark.parametrize(("change", "says"), MISFITS.values(), ids=MISFITS)
def test_weights_of_another_model_name_the_first_misfit(change, says, step):
    weights = load_file(step / "model.safetensors")
    change(weights)
    save_file(weights, step / "model.safetensors")
    with pytest.raises(ValueError, match=f"weights of another model: .*{says}"):
        checkpoint.load(str(step))


def test_a_misfit_leaves_the_module_as_it_was(made, tmp_path):
    weights = {name: torch.ones_like(tensor) for name, tensor in made[1].state_dict().items()}
    reshape(weights)
    before = {name: tensor.clone() for name, tensor in made[1].state_dict().items()}
    with pytest.raises(ValueError, match=r"mix\.bias"):
        checkpoint.fill(made[1], weights, tmp_path)
    assert all(torch.equal(tensor, before[name]) for name, tensor in made[1].state_dict().items())


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"step'])
def test_a_damaged_card_is_named(text, step, tmp_path):
    shutil.copytree(step, tmp_path / "model")
    (tmp_path / "model" / "card.json").write_text(text)
    with pytest.raises(ValueError, match=r"card\.json: damaged"):
        checkpoint.load(str(tmp_path / "model"))


def test_no_pickle_is_read(step):
    weights = load_file(step / "model.safetensors")
    (step / "model.safetensors").unlink()
    torch.save(weights, step / "model.safetensors")
    with pytest.raises(ValueError, match="damaged or cut off"):
        checkpoint.load(str(step))


def test_a_part_from_outside_is_imported_and_loads_again(tmp_path):
    """In a process of its own, which has the outsider on its path."""
    (tmp_path / "outside.py").write_text(
        "from dataclasses import dataclass\nfrom videopred.spatial.resnet import ResNetConfig\n"
        "@dataclass(frozen=True)\nclass MineConfig(ResNetConfig):\n    kind: str = 'mine'\n"
    )
    code = (
        "import torch; from videopred import checkpoint, config, saved\n"
        "from videopred.training import RunConfig; from pathlib import Path; from safetensors.torch import save_file\n"
        "mine = ['predictor.stack.spatial.kind=outside:MineConfig', 'predictor.stack.spatial.num_groups=8']\n"
        "run = config.load(RunConfig, 'presets', 'debug', mine)\n"
        "Path('config.toml').write_text(config.dumps(run)); assert 'outside:MineConfig' in config.dumps(run)\n"
        "weights = run.predictor.build(run.recipe.format).state_dict()\n"
        "save_file({name: tensor.contiguous() for name, tensor in weights.items()}, 'model.safetensors')\n"
        "print(type(config.from_dict(RunConfig, checkpoint.load('.').config).predictor.stack.spatial).__name__)"
    )
    path = os.pathsep.join([str(tmp_path), str(Path(checkpoint.__file__).parents[1])])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=tmp_path,
                          env=os.environ | {"PYTHONPATH": path})  # fmt: skip
    assert (done.stdout, done.stderr) == ("MineConfig\n", "")
