"""Every preset, recipe, protocol and ablation that is shipped can be used, and no field is an option nobody reads."""

import ast
import dataclasses
import importlib
import pkgutil
from pathlib import Path

import pytest

import videopred
from videopred import config
from videopred.commands.sweep import work
from videopred.data import Recipe
from videopred.evaluation import Protocol
from videopred.sweep import Ablation, check_parameters, fingerprint, load
from videopred.training import RunConfig

PACKAGE = Path(videopred.__file__).parent


def configs() -> list[type]:
    """Every dataclass of the package that a TOML file can fill, in part or whole."""
    modules = [importlib.import_module(info.name) for info in pkgutil.walk_packages([str(PACKAGE)], "videopred.")]
    members = [member for module in modules for member in vars(module).values()]
    classes = {member for member in members if dataclasses.is_dataclass(member) and isinstance(member, type)}
    return sorted((c for c in classes if c.__name__.endswith("Config") or c is Protocol), key=lambda c: c.__qualname__)


def names_read() -> set[str]:
    """Every x that some line of the package reads as `something.x`."""
    trees = [ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    return {node.attr for node in nodes if isinstance(node.ctx, ast.Load)}


READ = names_read()


@pytest.mark.parametrize("cls", configs(), ids=lambda cls: cls.__name__)
def test_every_field_is_read_somewhere(cls):
    fields = {field.name for field in dataclasses.fields(cls)} - {"kind"}
    assert fields <= READ, f"{cls.__name__}: nothing reads {sorted(fields - READ)}"
    assert cls.__dataclass_params__.frozen


@pytest.mark.parametrize("name", config.shipped("presets"))
def test_preset(name):
    run = config.load(RunConfig, "presets", name)
    assert run.name == name
    assert config.from_dict(RunConfig, config.to_dict(run)) == run
    predictor = run.predictor.build(run.recipe.format)
    assert predictor.format == run.recipe.format
    assert sum(p.numel() for p in predictor.parameters()) > 1000


@pytest.mark.parametrize("name", config.shipped("recipes"))
def test_recipe(name):
    recipe = config.load(Recipe, "recipes", name)  # type: ignore[arg-type]
    assert config.from_dict(Recipe, config.to_dict(recipe)) == recipe
    format = recipe.format
    for split in "train", "test":
        frames = recipe.build(split, 3)[0].frames
        assert frames.shape == (3, format.height, format.width, format.channels)
        assert frames.max() > frames.min()


@pytest.mark.parametrize("name", config.shipped("protocols"))
def test_protocol(name):
    protocol = config.load(Protocol, "protocols", name)
    assert config.from_dict(Protocol, config.to_dict(protocol)) == protocol
    dataset = protocol.recipe.build(protocol.split, 2)
    assert len(dataset) >= protocol.num_clips
    assert all(metric.build() is not None for metric in protocol.metrics)


@pytest.mark.parametrize("name", config.shipped("ablations"))
def test_ablation(name):
    """Every cell can be built, is within the budget, and is told apart from the others by its settings."""
    ablation = config.load(Ablation, "ablations", name)
    assert config.from_dict(Ablation, config.to_dict(ablation)) == ablation
    assert ablation.question.endswith("?")
    with_all = work(ablation, "cpu")
    runs = [load(cell, ablation, with_all) for cell in ablation.cells]
    check_parameters(ablation, [with_all.parameters(run) for run in runs])
    assert len({fingerprint(run, ablation, with_all.protocol) for run in runs}) == len(runs)
    assert {run.recipe.format for run in runs} == {Protocol.load(ablation.protocol).recipe.format}
