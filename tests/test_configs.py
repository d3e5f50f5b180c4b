"""Every preset, recipe, protocol and ablation that is shipped can be used, and no field is an option nobody reads."""

import ast
import dataclasses
import importlib
import pkgutil
import re
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
from videopred.nn import quantize
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


WORLDS = {  # side, layers, rate, steps of token ConvS5 and of TECO, drop_loss of token ConvS5, dropout, causal context
    "dmlab": (64, 8, 5e-4, 250_000, 500_000, 0.0, 0.5, 144),
    "minecraft": (128, 12, 5e-4, 500_000, 1_000_000, 0.9, 0.0, 0),
    "habitat": (128, 8, 1e-4, 500_000, 1_000_000, 0.9, 0.5, 0),
}
SIZES = {  # width of z, codes, blocks per width of encoder and decoder, states and blocks of ConvS5, the prior
    "dmlab": (64, 1024, 2, 4, 1024, 32, (512, 2048, 8, 8)),
    "minecraft": (128, 1024, 4, 6, 512, 1, (768, 3072, 12, 6)),
    "habitat": (256, 2048, 4, 8, 512, 1, (1024, 4096, 16, 16)),
}
OF_TOKENS = [name for name in config.shipped("presets") if re.search("-(teco|token|vq-convs5)", name)]


@pytest.mark.parametrize("name", OF_TOKENS)
def test_presets_of_tokens_make_a_step(name, monkeypatch):
    """At full size, in shapes alone: loss, gradients for all, and a drawn frame."""
    monkeypatch.setattr(
        quantize, "nearest", lambda x, codes: x.new_zeros(x.shape[:-1], dtype=torch.int64)
    )  # no autocast
    run = config.load(RunConfig, "presets", name)
    with torch.device("meta"):
        predictor = run.predictor.build(run.recipe.format)
        times = 2, run.training.clip_frames
        tokens, actions = torch.zeros(*times, *predictor.tokenizer.grid).long(), torch.zeros(times).long()
        noise = torch.zeros(*times, *predictor.noise_shape())
    loss, _, _ = predictor(Clip(tokens=tokens, actions=actions), noise=noise)
    loss.backward()
    assert loss.shape == ()
    assert all(p.grad is not None and p.grad.shape == p.shape for p in predictor.parameters())


@pytest.mark.parametrize("world", WORLDS)
def test_the_papers_settings_on_tokens(world):
    side, layers, rate, steps, teco_steps, drop, dropout, context = WORLDS[world]
    latent, codes, encoder, decoder, states, blocks, prior = SIZES[world]
    runs = {name: config.load(RunConfig, "presets", name) for name in OF_TOKENS if name.startswith(world)}
    plain, convs5, s5, transformer = (
        runs[f"{world}-{kind}"].predictor for kind in ("vq-convs5", "teco-convs5", "teco-s5", "teco-transformer")
    )
    for name, run in runs.items():
        training, optimizer = run.training, run.training.optimizer
        assert side // run.predictor.tokenizer.codec.stride == 16, "the papers' grid of tokens"
        assert run.recipe.format.height == side and run.predictor.causal_context == context
        assert training.steps == (steps if "vq" in name else teco_steps)
        assert (training.batch_size, training.clip_frames, training.action_dropout) == (16, 300, dropout)
        assert (training.clip_gradient, training.ema, optimizer.warmup_steps, optimizer.decay) == (0, 0, 5000, "all")
        assert (optimizer.schedule, optimizer.weight_decay) == ("paper_cosine", 1e-5)
        assert run.predictor.smoothing == 0.01
    assert runs[f"{world}-vq-convs5"].training.optimizer.learning_rate == rate
    assert runs[f"{world}-teco-convs5"].training.optimizer.learning_rate == rate
    assert (plain.drop_loss, plain.stack.width, plain.stack.depth, plain.temperature) == (drop, 512, layers, 1.0)
    assert (plain.codec.encoder_widths, plain.codec.decoder_widths, plain.codec.decoder_blocks) == ((256,), (512,), 4)
    for teco in convs5, s5, transformer:
        assert (teco.latent_width, teco.num_codes, teco.code_width) == (latent, codes, 32)
        assert (teco.codec.encoder_blocks, teco.codec.decoder_blocks) == (encoder, decoder)
        assert teco.codec.encoder_widths == teco.codec.decoder_widths == (256, 512)
        assert (teco.drop_loss, teco.reduction) == (0.9, "paper")
        sizes = teco.prior.token_width, teco.prior.mlp_width, teco.prior.num_heads, teco.prior.depth
        assert sizes == prior and teco.prior.vocab_width == 256
        assert (teco.prior.draft_steps, teco.prior.revise_steps, teco.prior.revisions) == (8, 8, 2)
    dynamics = convs5.stack.dynamics
    assert (dynamics.num_states, dynamics.num_blocks, dynamics.clip_eigenvalues) == (states, blocks, False)
    assert (convs5.stack.width, convs5.stack.depth) == (512, layers)


@pytest.mark.parametrize("name", ["doom-maze-token-small", "doom-maze-teco-small"])
def test_small_presets_of_tokens_stand_on_the_small_codec(name):
    run, codec = config.load(RunConfig, "presets", name), config.load(RunConfig, "presets", "doom-maze-vq-small")
    assert run.predictor.tokenizer.checkpoint == codec.name
    assert run.predictor.tokenizer.codec == codec.predictor.codec
    assert run.recipe == codec.recipe
    with torch.device("meta"):
        predictor = run.predictor.build(run.recipe.format)
    assert sum(4 * tensor.numel() for tensor in predictor.state_dict().values()) < 7e6, "bytes that are shipped"


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
