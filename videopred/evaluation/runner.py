"""evaluate(): rolls a predictor out as a protocol says, and scores it and the trivial predictions in one pass.

Batches of clips stream through: what is kept is the metrics' numbers, and the frames of one batch. A number depends on
the protocol and the weights, not on the batch size beyond the rounding of the device's arithmetic.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from videopred.clip import Clip, stack
from videopred.data.whole_file import require_writable
from videopred.evaluation import result, shuffled
from videopred.evaluation.protocol import Protocol
from videopred.evaluation.reconstruction import row_of
from videopred.evaluation.result import Result
from videopred.evaluation.revisit import Visits
from videopred.evaluation.rows import ModelRow, TrivialRow
from videopred.evaluation.trivial import TRIVIAL
from videopred.metrics import label


@torch.no_grad()
def evaluate(
    predictor,
    protocol: Protocol | str,
    *,
    num_clips: int | None = None,
    samples: int | None = None,
    batch_size: int = 16,
    device: torch.device | str | None = None,
    checkpoint: dict[str, Any] | None = None,
    progress: bool = False,
    save_clips: str | Path | None = None,
) -> Result:
    """Scores `predictor` under `protocol` (or one of that name); the first row of the result is the model.

    In its place may stand a tokenizer's codec, whose row is of reconstructions (`reconstruction.py`).

    The second is the model under shuffled actions, if it has several and there are two clips; then the trivial ones.

    num_clips, samples : in place of the protocol's; the result then is one of another protocol (its hash differs)
    batch_size         : clips rolled out at a time; changes time and memory
    device             : where to run; the predictor is moved there (default: where it is)
    checkpoint         : `name`, `hash`, `step`, `config` of the weights, for the result; `name` is the row's
    progress           : a bar on stderr, if that is a terminal
    save_clips         : folder for what was scored, as `data_<i>.npz` in TECO's layout (real, fake)

    A clip with a frame that is not finite is named in `failed_clips` and left out of the model's row. Raises ValueError
    if the predictor does not fit the recipe's format, the data set has too few clips, or no pose where `revisit` asks
    for it, or the folder is not empty.
    """
    protocol = Protocol.load(protocol) if isinstance(protocol, str) else protocol
    protocol = protocol.shortened(num_clips, samples)
    if batch_size < 1:
        raise ValueError(f"batch_size = {batch_size}: must be at least 1")
    _require_fit(predictor, protocol)
    dataset = protocol.dataset()
    if save_clips is not None:
        _require_empty(Path(save_clips))

    if device is not None:
        predictor.to(device)
    device = next((p.device for p in predictor.parameters()), torch.device("cpu"))
    checkpoint = checkpoint or {}
    was_training = predictor.training
    predictor.eval()
    name = checkpoint.get("name") or "model"
    name = f"{name} (model)" if name in TRIVIAL else name  # rows and arrays are found by name
    model = row_of(predictor, protocol, device, name)
    if samples is not None and model.samples < samples:
        raise ValueError(f"samples = {samples}: this model is deterministic, every sample would be the same; ask for 1")
    misled = ModelRow(predictor, protocol, device, f"{model.name} (shuffled actions)", "shuffled actions")
    models = [model, misled] if shuffled.tells(protocol, predictor.format.num_actions) else [model]
    trivial = [TrivialRow(name, protocol) for name in TRIVIAL]
    for metric, reason in model.reasons.items() if progress else ():
        tqdm.write(f"videopred: {label(metric)} will not be computed: {reason}", sys.stderr)
    visits, saved = Visits(protocol.revisit, protocol.context), 0
    frames = protocol.num_clips * model.samples * protocol.horizon * len(models)
    try:
        with tqdm(total=frames, unit=" frames", desc="eval", disable=None if progress else True) as bar:
            for clip, givers in _batches(dataset, protocol, batch_size):
                visits.take(clip)
                truth = protocol.truth(clip).to(device)  # made on the CPU: a GPU divides by 255 with another rounding
                clip = clip.to(device)
                for row in trivial:
                    row.take(truth, clip.id)
                for sample in range(model.samples):
                    fake = model.take(clip, truth, sample, bar)
                    if save_clips is not None:
                        _save(Path(save_clips) / f"data_{saved}.npz", clip, truth, fake, protocol.context, sample)
                        saved += 1
                if misled in models:
                    lent = shuffled.lend(clip, dataset, givers, protocol.context)
                    for sample in range(misled.samples):
                        misled.take(lent, truth, sample, bar)
    finally:
        predictor.train(was_training)

    rows = [*models, *trivial]
    entries = [row.entry() for row in rows]
    arrays = {key: array for row in rows for key, array in row.arrays.items()}
    visits.add(entries, arrays)
    data = {
        "protocol": protocol.to_dict(),
        "checkpoint": checkpoint,
        "environment": result.environment(device),
        "rows": entries,
    }
    return Result(data, arrays)


def _batches(dataset, protocol: Protocol, size: int) -> Iterator[tuple[Clip, list[int]]]:
    """Batches of the protocol's clips, and for each clip the place of the one whose actions it gets when shuffled."""
    givers = shuffled.donors(protocol)
    for start in range(0, protocol.num_clips, size):
        yield stack([dataset[i] for i in protocol.indices[start : start + size]]), givers[start : start + size]


def _require_fit(predictor, protocol: Protocol) -> None:
    has, takes = protocol.recipe.format, predictor.format
    if (has.channels, has.height, has.width) != (takes.channels, takes.height, takes.width):
        raise ValueError(
            f"the model takes frames of {takes.height} x {takes.width} x {takes.channels}, protocol {protocol.name!r} "
            f"gives {has.height} x {has.width} x {has.channels} (recipe {protocol.recipe.name!r}); choose one that fits"
        )
    if takes.num_actions and takes.num_actions != has.num_actions:
        raise ValueError(
            f"the model knows {takes.num_actions} actions, recipe {protocol.recipe.name!r} of protocol "
            f"{protocol.name!r} has {has.num_actions}; choose a protocol that fits"
        )


def _require_empty(folder: Path) -> None:
    if any(folder.glob("data_*.npz")):
        raise ValueError(f"{folder}: already holds data_*.npz files; give another folder, so that clips are not mixed")
    require_writable(folder / "data_0.npz")


def _save(path: Path, clip: Clip, real: Tensor, fake: Tensor, context: int, sample: int) -> None:
    fake = torch.cat([real[:, :context], fake], 1)
    tensors = {"real": real, "fake": fake} | ({} if clip.actions is None else {"actions": clip.actions})
    arrays: dict[str, Any] = {name: tensor.cpu().numpy() for name, tensor in tensors.items()}
    arrays |= {"context": context, "sample": sample, "clip_ids": np.array(clip.id)}
    result.write(path, lambda file: np.savez_compressed(file, **arrays))
