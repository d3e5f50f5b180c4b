"""Every member of the list of dynamics, named in an override of a preset, trains and rolls out."""

import itertools
import typing

import pytest
import torch

from videopred import checkpoint
from videopred.clip import stack
from videopred.config import ConfigError
from videopred.dynamics import Dynamics
from videopred.rollout import rollout

SETTINGS = {  # what a model of width 4 with latents of 4x4 cannot take as it comes
    "s5": "grid=[4,4]",
    "transformer": "num_heads=2",
    "paper_transformer": "patch=4 token_width=16 num_heads=2",
    "linear_attention": "num_heads=2",
    "performer": "num_heads=2",
}
KINDS = [member.kind for member in typing.get_args(Dynamics)]


@pytest.mark.parametrize("kind", KINDS)
def test_trains_and_rolls_out(kind, tiny, go, tmp_path):
    settings = [f"predictor.stack.dynamics.{word}" for word in SETTINGS.get(kind, "").split()]
    run = tiny(f"predictor.stack.dynamics.kind={kind}", *settings, "training.save_every=4", "training.ema=0.0")
    go(run, tmp_path)
    early, late = (checkpoint.load(str(folder)).predictor for folder in sorted(tmp_path.glob("step_*")))
    for (name, before), after in zip(early.named_parameters(), late.parameters(), strict=True):
        assert after.isfinite().all() and not torch.equal(after, before), f"{name} stands still"
    clip = stack([run.recipe.build("test", 3)[0]])
    frames = list(itertools.islice(rollout(late, late.observe(clip)), 70))  # beyond every window
    assert torch.cat(frames).isfinite().all() and torch.cat(frames).abs().max() <= 1


@pytest.mark.parametrize("kind", ["transformer", "paper_transformer"])
def test_a_window_shorter_than_the_context_is_refused(kind, tiny):
    words = [f"predictor.stack.dynamics.kind={kind}", "predictor.stack.dynamics.window=7", "training.context=8"]
    with pytest.raises(ConfigError, match=r"dynamics.window = 7: must be at least training.context = 8"):
        tiny(*words)
    tiny(*words, "predictor.stack.dynamics.window=8")
