"""Action conditioning against its definition."""

import pytest
import torch

from videopred.predictors.actions import ActionsConfig

CPU = torch.device("cpu")


def test_rows_of_the_table_are_tiled_behind_the_latents_and_minus_one_is_the_last_row():
    actions = ActionsConfig(width=3).build(num_actions=4)
    assert actions.table.weight.shape == (5, 3)
    latents, ids = torch.randn(2, 3, 6, 2, 5), torch.tensor([[0, 3, -1], [-1, 1, 2]])
    out = actions(latents, ids)
    assert torch.equal(out[:, :, :6], latents)
    for (clip, time), row in (((0, 0), 0), ((0, 1), 3), ((0, 2), 4), ((1, 0), 4), ((1, 2), 2)):
        want = actions.table.weight[row, :, None, None].expand(3, 2, 5)
        assert torch.equal(out[clip, time, 6:], want)


def test_without_actions_nothing_is_joined():
    actions, latents = ActionsConfig(width=3).build(num_actions=0), torch.randn(2, 3, 6, 2, 5)
    assert actions(latents, torch.zeros(2, 3, dtype=torch.int64)) is latents
    assert actions.width == 0 and not list(actions.parameters())
    assert (actions.ids(torch.full((2, 3), 7), 2, 3, CPU) == 7).all()  # a clip may have actions that nobody reads


def test_the_number_of_the_config_wins_over_the_recipes():
    assert ActionsConfig(num_actions=1, width=1).build(num_actions=0).table.weight.shape == (2, 1)
    assert ActionsConfig(num_actions=2, width=1).build(num_actions=5).num_actions == 2


def test_a_single_action_need_not_be_named():
    ids = ActionsConfig(width=2).build(num_actions=1).ids(None, 2, 3, CPU)
    assert torch.equal(ids, torch.zeros(2, 3, dtype=torch.int64))


@pytest.mark.parametrize(
    "given, message",
    [
        (None, r"needs an action \(0\.\.3, or -1 for unknown\) for every frame"),
        (torch.zeros(2, 4), r"shape \(2, 4\): must be \(2, 3\)"),
        (torch.zeros(6), r"shape \(6,\): must be \(2, 3\)"),
        (torch.tensor([[0, 1, 4], [0, 0, 0]]), r"lie in 0\.\.4: must be 0\.\.3, or -1"),
        (torch.tensor([[0, 1, -2], [0, 0, 0]]), r"lie in -2\.\.1"),
    ],
)
def test_bad_actions_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        ActionsConfig().build(num_actions=4).ids(given, 2, 3, CPU)


def test_the_table_starts_with_the_deviation_of_flax():
    table = ActionsConfig(width=64).build(num_actions=500).table.weight
    assert table.std().item() == pytest.approx(64**-0.5, rel=0.03)
