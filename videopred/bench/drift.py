"""How far a rollout in bfloat16 drifts from the same rollout in float32.

The same clip rolled out twice, under bfloat16 autocast (in which scan, statistics of norms and the frame itself stay
float32) and without. `rms` is the root of the mean squared difference over the pixels of a frame, in [-1, 1], and the
ratio is to that between the float32 rollout and the truth: far below 1, the rounding is lost in the model's own error.
"""

from collections.abc import Iterator

import torch
from torch import Tensor
from tqdm import tqdm

from videopred.bench.rollout import CONTEXT, model
from videopred.bench.rounds import Row
from videopred.clip import stack
from videopred.rollout import noise_for, rollout

FRAMES = (1, 10, 100, 400, 1200)


def rows(quick: bool, checkpoint: str | None) -> Iterator[Row]:
    yield from measure(*model(checkpoint), frames=FRAMES[:3] if quick else FRAMES)


def measure(name: str, predictor, recipe, frames: tuple[int, ...]) -> Iterator[Row]:
    """A row of drift and one of error at each of `frames`, counted from the first that is predicted."""
    clip = stack([recipe.build("test", CONTEXT + frames[-1])[0]])
    device = next(predictor.parameters()).device
    truth, seen = clip.pixels(), clip.slice(0, CONTEXT).to(device)
    actions = None if clip.actions is None else clip.actions[:, CONTEXT:].to(device)

    def predicted(bfloat16: bool) -> Iterator[Tensor]:
        cast = torch.autocast(device.type, torch.bfloat16, enabled=bfloat16)
        with torch.no_grad(), cast:
            state = predictor.observe(seen)
        following = rollout(predictor, state, actions=actions, noise=lambda i: noise_for(predictor, 0, clip.id, 0, i))  # type: ignore[arg-type]
        while True:
            with cast:
                frame = next(following)
            yield frame.float().cpu()

    shape = f"{name}, one clip after {CONTEXT} frames"
    both = zip(range(1, frames[-1] + 1), predicted(True), predicted(False))
    for number, short, long in tqdm(both, total=frames[-1], desc="drift", unit=" frames", disable=None, leave=False):
        if number in frames:
            drift, error = _rms(short - long), _rms(long - truth[:, CONTEXT + number - 1])
            base = f"float32 against the truth, frame {number}"
            yield Row(base, shape, None, rounds=1, figures={"rms": error})
            drifted = f"bfloat16 against float32, frame {number}"
            yield Row(drifted, shape, None, base, drift / error, rounds=1, figures={"rms": drift})


def _rms(difference: Tensor) -> float:
    return difference.square().mean().sqrt().item()
