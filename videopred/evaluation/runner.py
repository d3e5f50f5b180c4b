"""evaluate(): rolls a predictor out as a protocol says, and scores it and the trivial predictions in one pass.

Batches of clips stream through: what is kept is the metrics' numbers, and the frames of one batch. A number depends on
the protocol and the weights, not on the number of processes, on an interruption, or, beyond the rounding of the
device's arithmetic, on the size of batches.
"""

import copy
import hashlib
import json
import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from videopred.clip import Clip, stack
from videopred.data.whole_file import require_writable
from videopred.evaluation import result, shuffled
from videopred.evaluation.collect import collect, joined
from videopred.evaluation.parts import Kept, Part, digest
from videopred.evaluation.protocol import Protocol
from videopred.evaluation.reconstruction import row_of
from videopred.evaluation.result import Result
from videopred.evaluation.revisit import Visits
from videopred.evaluation.rows import ModelRow, Row, TrivialRow, announce, apart, is_random
from videopred.evaluation.timing import Stopwatch
from videopred.evaluation.trivial import TRIVIAL


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
    workers: int = 1,
    keep: str | Path | None = None,
) -> Result:
    """Scores `predictor` under `protocol` (or one of that name); the first row of the result is the model.

    The second is the model under shuffled actions, if it has several and there are two clips; then the trivial ones.

    num_clips, samples : in place of the protocol's; the result then is one of another protocol (its hash differs)
    batch_size         : clips rolled out at a time; changes time and memory
    device             : where to run; the predictor is moved there (default: where it is)
    checkpoint         : `name`, `hash`, `step`, `config` of the weights, for the result; `name` is the row's
    progress           : a bar on stderr, if that is a terminal, and before it which metrics will not be computed
    save_clips         : folder for what was scored, as `data_<i>.npz` in TECO's layout (real, fake)
    workers            : processes that share the batches, each on a GPU of its own as far as there are; with more than
                         one the predictor must be picklable
    keep               : folder in which finished batches wait, so that the same call goes on after an interruption; it
                         is the caller's to remove (`Kept(keep).drop()`) when the result is safe

    A clip with a frame that is not finite is named in `failed_clips` and left out of the model's row. Raises ValueError
    if the predictor does not fit the recipe's format, the data set has too few clips, or no pose where `revisit` asks
    for it, or the folder of clips is not empty.
    """
    protocol = Protocol.load(protocol) if isinstance(protocol, str) else protocol
    if samples is not None and samples > 1 and not is_random(predictor):
        raise ValueError(f"samples = {samples}: this model is deterministic, every sample would be the same; ask for 1")
    protocol = protocol.shortened(num_clips, samples)
    if batch_size < 1:
        raise ValueError(f"batch_size = {batch_size}: must be at least 1")
    _require_fit(predictor, protocol)
    if device is not None:
        predictor.to(device)
    was_training = predictor.training
    predictor.eval()
    try:
        job = Rollouts(
            predictor, protocol, batch_size, checkpoint or {}, None if save_clips is None else Path(save_clips)
        )
        if job.save_clips is not None:
            _require_room(job.save_clips, keep is not None and Kept(Path(keep)).of(job.key()))
        rows = job.rows(Stopwatch(job.device))
        if progress:
            announce(rows[0])
        parts = collect(job, None if keep is None else Path(keep), workers, progress)
    finally:
        predictor.train(was_training)
    environment = result.environment(job.device) | {"processes": workers}
    return joined(rows, parts, protocol, checkpoint or {}, environment)


class Rollouts:
    """The batches of an evaluation of a predictor: a job for `collect`."""

    def __init__(
        self, predictor, protocol: Protocol, batch_size: int, checkpoint: dict[str, Any], save_clips: Path | None
    ):
        self.predictor, self.protocol, self.batch_size = predictor, protocol, batch_size
        self.checkpoint, self.save_clips = checkpoint, save_clips
        self.device = next((p.device for p in predictor.parameters()), torch.device("cpu"))
        self.dataset, self.givers = protocol.dataset(), shuffled.donors(protocol)
        self.samples = protocol.samples if is_random(predictor) else 1
        self.misled = shuffled.tells(protocol, predictor.format.num_actions)
        self.scoring: list[Row] = []  # of this process, made when it begins

    def __len__(self) -> int:
        return -(-self.protocol.num_clips // self.batch_size)

    def __getstate__(self) -> dict[str, Any]:
        """For another process: the weights by value and on the CPU, from where they go to its own device."""
        return vars(self) | {"predictor": pickle.dumps(copy.deepcopy(self.predictor).cpu()), "scoring": []}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state | {"predictor": pickle.loads(state["predictor"])})

    def rows(self, watch: Stopwatch) -> list[Row]:
        """The model, the model misled if that tells something, the trivial predictions."""
        name = apart(self.checkpoint.get("name") or "model")
        rows: list[Row] = [row_of(self.predictor, self.protocol, name, watch)]
        if self.misled:
            title = f"{name} (shuffled actions)"
            rows.append(ModelRow(self.predictor, self.protocol, title, watch, "shuffled actions"))
        return rows + [TrivialRow(name, self.protocol, watch) for name in TRIVIAL]

    def frames(self, number: int) -> int:
        return len(self._places(number)) * self.protocol.horizon * self.samples * (2 if self.misled else 1)

    def key(self) -> dict[str, Any]:
        return {
            "protocol": self.protocol.hash,
            "checkpoint": {key: value for key, value in self.checkpoint.items() if key != "config"},
            "weights": digest(*(tensor.cpu() for tensor in self.predictor.state_dict().values())),
            "config": _joined([json.dumps(self.checkpoint.get("config"), default=str)]),
            "batch_size": self.batch_size,
            "save_clips": None if self.save_clips is None else str(self.save_clips.absolute()),
            "environment": result.environment(self.device),
        }

    def fingerprint(self, number: int) -> str:
        return _joined(self._read(number)[2])

    @torch.no_grad()
    def __call__(self, number: int) -> Iterator[int | Part]:
        if not self.scoring:
            self.predictor.to(self.device)
            self.scoring = self.rows(Stopwatch(self.device))
        watch, protocol = self.scoring[0].watch, self.protocol
        model, *others = self.scoring
        assert isinstance(model, ModelRow)
        with watch("data"):
            clip, truth, digests = self._read(number)
            visits = Visits(protocol.revisit, protocol.context)
            visits.take(clip)
            clip, truth = clip.to(self.device), truth.to(self.device)
        for sample in range(self.samples):
            fake = yield from model.take(clip, truth, sample)
            if self.save_clips is not None:
                with watch("saving"):
                    path = self.save_clips / f"data_{number * self.samples + sample}.npz"
                    _save(path, clip, truth, fake, protocol.context, sample)
        for row in others:
            if isinstance(row, TrivialRow):
                row.take(truth, clip.id)
            elif isinstance(row, ModelRow):
                with watch("data"):
                    lent = shuffled.lend(clip, self.dataset, self._of_batch(self.givers, number), protocol.context)
                for sample in range(self.samples):
                    yield from row.take(lent, truth, sample)
        yield Part({row.name: row.cut() for row in self.scoring}, digests, _joined(digests), watch.cut(), visits.seen)

    def _read(self, number: int) -> tuple[Clip, Tensor, list[str]]:
        """A batch, its frames as they are scored, and what identifies each clip. On the CPU.

        The truth is made there: a GPU divides by 255 with another rounding.
        """
        clip = stack([self.dataset[i] for i in self._places(number)])
        truth = self.protocol.truth(clip)
        return clip, truth, [digest(*parts) for parts in zip(truth, *_tracks(clip), strict=True)]

    def _places(self, number: int) -> Sequence[int]:
        return self._of_batch(self.protocol.indices, number)

    def _of_batch(self, clips: Sequence[int], number: int) -> Sequence[int]:
        return clips[number * self.batch_size : (number + 1) * self.batch_size]


def _tracks(clip: Clip) -> list[Tensor]:
    return [track for track in (clip.actions, clip.pose) if track is not None]


def _joined(texts: Sequence[str]) -> str:
    return hashlib.sha256("".join(texts).encode()).hexdigest()


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


def _require_room(folder: Path, going_on: bool) -> None:
    """Raises ValueError unless clips can be put into `folder`, among no others but those of an earlier try."""
    if any(folder.glob("data_*.npz")) and not going_on:
        raise ValueError(f"{folder}: already holds data_*.npz files; give another folder, so that clips are not mixed")
    require_writable(folder / "data_0.npz")


def _save(path: Path, clip: Clip, real: Tensor, fake: Tensor, context: int, sample: int) -> None:
    fake = torch.cat([real[:, :context], fake], 1)
    tensors = {"real": real, "fake": fake} | ({} if clip.actions is None else {"actions": clip.actions})
    arrays: dict[str, Any] = {name: tensor.cpu().numpy() for name, tensor in tensors.items()}
    arrays |= {"context": context, "sample": sample, "clip_ids": np.array(clip.id)}
    result.write(path, lambda file: np.savez_compressed(file, **arrays))
