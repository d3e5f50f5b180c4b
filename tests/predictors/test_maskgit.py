"""The MaskGit prior: whom it listens to, how it draws, and what noise does."""

import dataclasses

import pytest
import torch

from videopred.predictors.maskgit import MaskGitConfig
from videopred.predictors.sampling import choose, require_noise, uniform

SMALL = MaskGitConfig(vocab_width=6, token_width=8, mlp_width=8, num_heads=2, depth=2, draft_steps=3, revise_steps=2)
GRID, CODES, FEATURES = (2, 3), 5, 4


@pytest.fixture
def prior():
    torch.manual_seed(0)
    return SMALL.build(CODES, FEATURES, GRID).double()


def features(num: int) -> torch.Tensor:
    return torch.randn(num, FEATURES, *GRID, dtype=torch.float64)


def test_a_token_hears_every_other_but_not_its_masked_self(prior):
    tokens = torch.randint(CODES, (1, *GRID))
    tokens[0, 0, 1] = -1
    known = features(1)
    before = prior(tokens, known)
    other = tokens.clone()
    other[0, 1, 2] = (other[0, 1, 2] + 1) % CODES
    assert (prior(other, known) - before).abs().amax(-1).min() > 1e-9, "attention goes both ways"
    with torch.no_grad():
        prior.table[tokens[0, 0, 0]] += 1.0
    assert not torch.allclose(prior(tokens, known), before)


def test_another_grid_is_refused(prior):
    with pytest.raises(ValueError, match=r"tokens of \(3, 2\): this prior has learned a grid of \(2, 3\)"):
        prior(torch.zeros(1, 3, 2, dtype=torch.int64), features(1))
    places = torch.tensor([[4, 0]])
    tokens, known = torch.zeros(1, *GRID, dtype=torch.int64), features(1)
    torch.testing.assert_close(prior(tokens, known, places)[0], prior(tokens, known).flatten(1, 2)[0, [4, 0]])
    with pytest.raises(ValueError, match=r"features of \(3, 2\)"):
        prior.sample(features(1).mT, torch.randn(1, *prior.noise_shape()))


def test_calls_are_counted(prior):
    calls = []
    prior.blocks[0].register_forward_hook(lambda *_: calls.append(1))
    prior.sample(features(2), torch.randn(2, *prior.noise_shape(), dtype=torch.float64))
    assert len(calls) == prior.calls == 3 + 2 * 2
    papers = dataclasses.replace(SMALL, draft_steps=8, revise_steps=8, revisions=2)
    assert papers.build(4, 2, (8, 8)).calls == 24, "8 for the draft, twice 8 to revise"
    many = dataclasses.replace(SMALL, draft_steps=50, revisions=0)
    assert many.build(4, 2, (2, 2)).calls == 4, "no call without a token to draw"


def test_the_last_block_works_on_the_tokens_that_are_drawn_alone(prior):
    """A quarter to an eighth of them are: of a shallow prior it saves a fifth of the arithmetic."""
    sizes = []
    for block in prior.blocks:
        block.wide.register_forward_hook(lambda module, inputs, output: sizes.append(output.shape[1]))
    tokens, known, places = torch.randint(CODES, (2, *GRID)), features(2), torch.tensor([[4, 0], [5, 3]])
    some = prior(tokens, known, places)
    assert sizes == [6, 2]
    every = prior(tokens, known).flatten(1, 2)
    torch.testing.assert_close(some, torch.stack([every[i, where] for i, where in enumerate(places)]))


def test_draft_and_revise_mask_what_they_draw_and_nothing_else(prior):
    """In the draft each token is masked until it is drawn; a revision masks its part alone; each pass draws all."""
    seen = []
    prior.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].flatten(1)))
    drawn = prior.sample(features(3), torch.randn(3, *prior.noise_shape(), dtype=torch.float64))
    masked = [(tokens < 0).sum(1).tolist() for tokens in seen]
    assert masked == [[6] * 3, [4] * 3, [2] * 3] + [[3] * 3] * 4
    for first in 3, 5:
        again = (seen[first] < 0).int() + (seen[first + 1] < 0).int()
        assert (again == 1).all(), "the parts of a revision are the whole frame, each token once"
    assert ((drawn >= 0) & (drawn < CODES)).all()


def test_a_sample_depends_on_its_own_noise_alone(prior):
    known, noise = features(4), torch.randn(4, *prior.noise_shape(), dtype=torch.float64)
    together = prior.sample(known, noise)
    for i in range(4):
        assert torch.equal(prior.sample(known[i : i + 1], noise[i : i + 1])[0], together[i])
    assert not torch.equal(prior.sample(known, noise.flip(0)), together)


def test_codes_are_drawn_as_often_as_they_are_likely():
    logits = torch.tensor([0.0, 1.0, 2.0, -30.0]).double()
    chance = (torch.arange(10_000, dtype=torch.float64) + 0.5) / 10_000
    for temperature in 1.0, 0.5, 4.0:
        drawn = choose(logits.expand(10_000, 4), chance, temperature)
        shares = torch.bincount(drawn, minlength=4) / 10_000
        torch.testing.assert_close(shares, (logits / temperature).softmax(0).float(), rtol=0, atol=2e-4)
    assert choose(logits, torch.tensor(1.0).double()) == 3, "a chance of 1 is the last code, not one beyond"
    assert choose(logits, torch.tensor(0.0).double()) == 0


def test_a_code_that_cannot_be_is_never_drawn():
    """float32 rounds a few normal numbers in a hundred million to a chance of 1."""
    logits = torch.tensor([0.0, 1.0, -200.0])
    chance = uniform(torch.tensor([6.0, -6.0]))
    assert chance[0] == 1
    assert choose(logits.expand(2, 3), chance).tolist() == [1, 0]


def test_the_coldest_temperature_is_the_likeliest_code():
    logits = torch.tensor([10.0, 30.0, 29.0]).expand(9, 3)
    assert (choose(logits, torch.linspace(0, 1, 9), 1e-38) == 1).all()


def test_normal_noise_is_uniform_chance():
    chance = uniform(torch.randn(100_000, generator=torch.Generator().manual_seed(0)))
    assert torch.histc(chance, 10, 0, 1).sub(10_000).abs().max() < 400


def test_missing_noise_says_what_to_give():
    ids = torch.zeros(2, 3)
    with pytest.raises(ValueError, match=r"give noise \(batch, frames, 7\)"):
        require_noise(None, ids, (7,))
    with pytest.raises(ValueError, match=r"noise of shape \(2, 2, 7\): must be \(2, 3, 7\)"):
        require_noise(torch.zeros(2, 2, 7), ids, (7,))


@pytest.mark.parametrize(
    ("field", "value"),
    [("temperature", 0.0), ("revisions", -1), ("draft_steps", 0), ("token_width", 7), ("num_heads", 5)],
)
def test_impossible_settings_are_refused(field, value):
    with pytest.raises(ValueError, match=f"{field} = {value}"):
        MaskGitConfig(**{"num_heads": 1, field: value})
