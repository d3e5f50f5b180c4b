"""Every preset, recipe, protocol and ablation that is shipped can be used, and no field is an option nobody reads."""

import ast
import dataclasses
import importlib
import pkgutil
from pathlib import Path

import pytest
import torch

import videopred
from videopred import config
from videopred.clip import Clip
from videopred.commands.sweep import work
from videopred.data import ClipsConfig, Recipe
from videopred.data.split import NoClips
from videopred.evaluation import Protocol
from videopred.sweep import Ablation, check_parameters, fingerprint, load
from videopred.training import RunConfig
from videopred.weights import WeightsMissing

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
    with torch.device("meta"):  # the papers' models take a while to fill with numbers
        predictor = run.predictor.build(run.recipe.format)
    assert predictor.format == run.recipe.format
    assert sum(p.numel() for p in predictor.parameters()) > 1000


@pytest.mark.parametrize(
    ("name", "side", "depth", "rate", "steps", "dropout"),
    [
        ("dmlab", 64, 8, 5e-4, 250_000, 0.5),
        ("minecraft", 128, 12, 5e-4, 500_000, 0.0),
        ("habitat", 128, 8, 1e-4, 500_000, 0.5),
    ],
)
def test_the_papers_settings_for_worlds_with_actions(name, side, depth, rate, steps, dropout):
    run = config.load(RunConfig, "presets", name)
    training, optimizer = run.training, run.training.optimizer
    assert (run.recipe.format.height, run.recipe.format.width, run.recipe.format.channels) == (side, side, 3)
    assert run.recipe.format.height // run.predictor.codec.stride == 16, "the papers' latent"
    assert (training.steps, training.batch_size, training.clip_frames) == (steps, 16, 300)
    assert (training.action_dropout, training.clip_gradient, training.ema) == (dropout, 0, 0)
    assert (optimizer.learning_rate, optimizer.warmup_steps, optimizer.weight_decay) == (rate, 5000, 1e-5)
    assert (optimizer.schedule, optimizer.decay, run.predictor.reduction) == ("paper_cosine", "all", "paper")
    with torch.device("meta"):
        predictor = run.predictor.build(run.recipe.format)
    assert predictor.actions.table.weight.shape == (6 + 1, 16)
    width, kept = 512, 256
    maps = 2 * (2 * 9 * width * kept) + 3 * kept  # B and C, complex, 3x3; Lambda, complex, and the steps
    block = 2 * (9 * width * width + width + 2 * width)  # twice a convolution with bias, and GroupNorm
    assert sum(p.numel() for p in predictor.stack.parameters()) == depth * (maps + block + 2 * width)


@pytest.mark.parametrize("name", config.shipped("recipes"))
def test_recipe(name):
    recipe = config.load(Recipe, "recipes", name)  # type: ignore[arg-type]
    assert config.from_dict(Recipe, config.to_dict(recipe)) == recipe
    format = recipe.format
    if isinstance(recipe, ClipsConfig) and not Path(recipe.root).is_dir():
        with pytest.raises(NoClips, match="Put the data there"):
            recipe.build("train", 3)
        pytest.skip(f"no data in {recipe.root}")
    for split in "train", "test":
        frames = recipe.build(split, 3)[0].frames
        assert frames.shape == (3, format.height, format.width, format.channels)
        assert frames.max() > frames.min()


@pytest.mark.parametrize("name", config.shipped("protocols"))
def test_protocol(name):
    protocol = config.load(Protocol, "protocols", name)
    assert config.from_dict(Protocol, config.to_dict(protocol)) == protocol
    if not isinstance(protocol.recipe, ClipsConfig):  # whoever has a folder may have fewer clips in it
        assert len(protocol.recipe.build(protocol.split, 2)) >= protocol.num_clips
    for metric in protocol.metrics:
        try:
            assert metric.build().numbers is not None
        except WeightsMissing as error:
            assert "run `videopred weights fetch" in str(error)


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


LAYER = "predictor.stack.dynamics"
UNFIT = [  # settings of the debug preset, whose stack has width 16 and whose context has 4 frames; what is said of them
    ("predictor.stack.spatial.num_groups=7", "16 channels .* num_groups = 7 .* choose a divisor of 16"),
    ("predictor.codec.num_groups=5", "16 channels .* num_groups = 5 .* choose a divisor of 16"),
    ("predictor.stack.spatial.kind=ssm2d predictor.stack.spatial.num_systems=3", "num_systems = 3; choose a divisor"),
    (f"{LAYER}.kind=transformer {LAYER}.num_heads=3", "num_heads = 3: must divide the width, 16"),
    (f"{LAYER}.num_states=63", rf"{LAYER}: num_states = 63 in num_blocks = 1: .* multiple of 2$"),
    (f"{LAYER}.num_blocks=3", rf"{LAYER}: num_states = 8 in num_blocks = 3: .* multiple of 6$"),
    (f"{LAYER}.kind=gated {LAYER}.num_states=7", rf"{LAYER}: num_states = 7 in .* multiple of 2$"),
    (f"{LAYER}.kind=s5 {LAYER}.num_states=7", rf"{LAYER}: num_states = 7 in .* multiple of 2$"),
    (f"{LAYER}.kind=convs4 {LAYER}.num_states=7", rf"{LAYER}: num_states = 7 in .* multiple of 2$"),
    (f"{LAYER}.kind=transformer {LAYER}.window=3", rf"{LAYER}.window = 3: must be at least training.context = 4"),
    (f"{LAYER}.b_kernel_size=0", rf"{LAYER}: b_kernel_size = 0: must be at least 1"),
    ("predictor.stack.spatial.kernel_size=[3,0]", r"kernel_size = \(3, 0\): must be at least 1"),
]  # fmt: skip


@pytest.mark.parametrize("words, said", UNFIT, ids=[words for words, _ in UNFIT])
def test_a_setting_that_fits_no_model_is_named_with_its_value_and_the_rule(words, said):
    with pytest.raises(ValueError, match=said):
        run = config.load(RunConfig, "presets", "debug", words.split())
        run.predictor.build(run.recipe.format)


KERNELS = [  # every kernel may be even: it then reaches one pixel further down and right, as the papers' code pads
    *(f"{LAYER}.{name}=4" for name in ("b_kernel_size", "c_kernel_size", "feedthrough")),
    *(f"{LAYER}.kind={kind} {LAYER}.kernel_size=2" for kind in ("convlstm", "convgru")),
    "predictor.stack.spatial.kernel_size=[4,2]",
    *(f"predictor.stack.spatial.kind={kind} predictor.stack.spatial.kernel_size=4" for kind in ("glu", "efficientmod")),
    "predictor.stack.spatial.kind=convnext predictor.stack.spatial.mixer.kernel_size=4",
]


@pytest.mark.parametrize("words", KERNELS)
def test_even_kernels_keep_the_size_of_a_frame(words):
    run = config.load(RunConfig, "presets", "debug", words.split())
    predictor = run.predictor.build(run.recipe.format)
    state = predictor.observe(Clip(frames=torch.zeros(1, 2, 32, 32, 1, dtype=torch.uint8)))
    assert predictor.predict(state)[0].shape == (1, 1, 32, 32)
