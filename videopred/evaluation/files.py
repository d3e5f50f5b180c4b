"""evaluate_files(): scores clips that somebody predicted, wherever and however, under a protocol.

The protocol says context, horizon, metrics and how frames become uint8; its recipe is not opened. Files hold context
and horizon, as TECO's do, or the horizon alone. Which true clips they are the protocol cannot say, but the hash of the
true frames in the result (`data`) does: two results share a table only if they were scored against the same ones.
"""

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from videopred.clip import to_uint8
from videopred.data.rollout_files import RolloutFiles, Stored
from videopred.evaluation import result
from videopred.evaluation.collect import collect, joined
from videopred.evaluation.parts import Part, digest
from videopred.evaluation.protocol import Protocol
from videopred.evaluation.result import Result
from videopred.evaluation.rows import FREE, Row, TrivialRow, announce, apart
from videopred.evaluation.timing import Stopwatch
from videopred.evaluation.trivial import TRIVIAL

BATCH = 16  # clips that are kept together


class FileRow(Row):
    """The row of what the files predict; a clip with a frame that is not finite is named and left out."""

    def take(self, fake: Tensor, truth: Tensor, clip_id: str, sample: int) -> None:
        self.tally.clip_ids += [clip_id] if clip_id not in self.tally.clip_ids else []
        self.tally.samples = max(self.tally.samples, sample + 1)
        broken = ~fake.isfinite().flatten(1).all(1)
        if broken.any():
            self.tally.failed.setdefault(clip_id, int(broken.nonzero()[0]) + 1)
        else:
            self.score(scored(fake, self.protocol)[None].to(truth.device), truth[None], [clip_id], sample)

    def entry(self) -> dict[str, Any]:
        return super().entry() | FREE


def evaluate_files(
    predictions: str | Path,
    targets: str | Path,
    protocol: Protocol | str,
    *,
    name: str = "",
    progress: bool = False,
    device: torch.device | str = "cpu",
    workers: int = 1,
    keep: str | Path | None = None,
) -> Result:
    """Scores the clips of `predictions` against those of `targets`, the first with the first and so on.

    name          : of the row (default: that of `predictions` without its suffix)
    progress      : a bar on stderr, if that is a terminal, and before it which metrics will not be computed
    device        : where the metrics are computed
    workers, keep : as for `evaluate`

    Raises ValueError, naming the clip, unless both have as many clips of equal size that are long enough, in uint8 or
    in [0, 1], and what files say of their clips (ids, samples, context) fits. Clips that are not finite are left out.
    """
    protocol = Protocol.load(protocol) if isinstance(protocol, str) else protocol
    if protocol.revisit is not None:
        raise ValueError("`revisit` needs the poses of a recipe, which files do not have; give a protocol without it")
    name = apart(name or name_of(Path(predictions)))
    job = Files(Path(predictions), Path(targets), protocol, name, torch.device(device))
    rows = job.rows(Stopwatch(job.device))
    if progress:
        announce(rows[0])
    parts = collect(job, None if keep is None else Path(keep), workers, progress)
    rows = [row for row in rows if any(row.name in part.rows for part in parts)]
    checkpoint = {"name": job.name, "predictions": str(predictions), "targets": str(targets)}
    environment = result.environment(job.device) | {"processes": workers}
    found = joined(rows, parts, protocol, checkpoint, environment)
    own, table = found.data["rows"][0], found.data["protocol"]
    own["warnings"] = job.warnings
    clips = {"num_clips": len(rows[0].tally.clip_ids), "samples": own["samples"], "first_clip": 0, "clips": ()}
    found.data["protocol"] = dataclasses.replace(protocol, **clips).to_dict() | {"data": table["data"]}
    return found


class Files:
    """The batches of clips in files: a job for `collect`."""

    def __init__(self, predictions: Path, targets: Path, protocol: Protocol, name: str, device: torch.device):
        self.protocol, self.name, self.device = protocol, name, device
        self.fakes, self.reals = RolloutFiles(predictions, "fake"), RolloutFiles(targets, "real")
        if len(self.fakes) != len(self.reals):
            counts = f"{predictions} holds {len(self.fakes)} clips, {targets} holds {len(self.reals)}"
            raise ValueError(f"{counts}; must be as many")
        self.ids = _ids(self.fakes, self.reals)
        self.scoring: list[Row] = []

    def __len__(self) -> int:
        return -(-len(self.fakes) // BATCH)

    @property
    def warnings(self) -> list[str]:
        sources = {"predictions": self.fakes.lossy, "targets": self.reals.lossy}
        said = "scores include what its codec lost"
        return [f"{what} are lossy ({file}): {said}" for what, file in sources.items() if file]

    def rows(self, watch: Stopwatch) -> list[Row]:
        names = [name for name in TRIVIAL if name != "mean-image"]  # that one needs the recipe's training clips
        own = FileRow(self.name, self.protocol, "model", watch)
        return [own, *(TrivialRow(name, self.protocol, watch) for name in names)]

    def frames(self, number: int) -> int:
        return len(self._places(number)) * self.protocol.horizon

    def key(self) -> dict[str, Any]:
        return {
            "protocol": self.protocol.hash,
            "name": self.name,
            "predictions": str(self.fakes.path.absolute()),
            "targets": str(self.reals.path.absolute()),
            "clips": hashlib.sha256(json.dumps([self.ids, self.fakes.clips]).encode()).hexdigest(),
            "environment": result.environment(self.device),
        }

    def fingerprint(self, number: int) -> str:
        pairs = [_pair(self.fakes[i], self.reals[i], self.protocol)[:2] for i in self._places(number)]
        return digest(*(frames for pair in pairs for frames in pair))

    def first_sample(self, clip: str) -> tuple[Tensor, Tensor, int]:
        """Of the clip called so: predicted frames, true ones, both uint8 (t, h, w, c), and how many are context.

        Where the targets hold the context, the predicted frames begin with it.
        """
        i = next(i for i, (_, sample) in enumerate(self.fakes.clips) if self.ids[i] == clip and sample == 0)
        predicted, truth, whole = _pair(self.fakes[i], self.reals[i], self.protocol)
        context = self.protocol.context * whole
        return torch.cat([truth[:context], scored(predicted, self.protocol)]), truth, context

    @torch.no_grad()
    def __call__(self, number: int) -> Iterator[int | Part]:
        self.scoring = self.scoring or self.rows(Stopwatch(self.device))
        own, *trivial = self.scoring
        assert isinstance(own, FileRow)
        digests = []
        for i in self._places(number):
            with own.watch("data"):
                fake = self.fakes[i]
                predicted, truth, whole = _pair(fake, self.reals[i], self.protocol)
            digests += [digest(truth)] if fake.sample == 0 else []
            truth = truth.to(self.device)
            own.take(predicted, truth, self.ids[i], fake.sample)
            for row in trivial if whole and fake.sample == 0 else ():
                assert isinstance(row, TrivialRow)
                row.take(truth[None], [self.ids[i]])
            yield self.protocol.horizon
        scored = {row.name: row.cut() for row in self.scoring if row.tally.clip_ids}
        yield Part(scored, digests, self.fingerprint(number), own.watch.cut())

    def _places(self, number: int) -> range:
        return range(number * BATCH, min((number + 1) * BATCH, len(self.fakes)))


def _ids(fakes: RolloutFiles, reals: RolloutFiles) -> list[str]:
    """What the clip of each prediction is called: as its true clip, so that results pair whoever predicted them.

    Clips of one file that does not name them are called by their number, whatever the file is called; results of other
    true clips never meet in a table. Where two clips would get one name, they keep those of the predictions.
    """
    own = f"{reals.path.name}/" if reals.path.is_file() else ""
    pairs = zip(fakes.clips, reals.clips, strict=True)
    true = {fake: real.removeprefix(own) for (fake, sample), (real, _) in pairs if sample == 0}
    apart = len(set(true.values())) == len(true)
    return [true[fake] if apart else fake for fake, _ in fakes.clips]


def scored(frames: Tensor, protocol: Protocol) -> Tensor:
    """Frames (t, h, w, c) in uint8 as they are, in [0, 1] brought to uint8 as the protocol says."""
    if frames.dtype == torch.uint8:
        return frames
    return to_uint8(frames.movedim(-1, -3) * 2 - 1, protocol.quantise)


def _pair(fake: Stored, real: Stored, protocol: Protocol) -> tuple[Tensor, Tensor, bool]:
    """Predicted frames (horizon, h, w, c), true ones in uint8, whether these begin with the context."""
    _require_values(fake, "predictions")
    _require_values(real, "targets")
    if fake.named and real.named and fake.id != real.id:
        raise ValueError(f"predictions say clip {fake.id} where targets say clip {real.id}; must be in the same order")
    if not np.isfinite(real.frames).all():
        raise ValueError(f"clip {real.id}: a value of targets is not finite")
    if fake.frames.shape[1:] != real.frames.shape[1:]:
        sizes = [" x ".join(map(str, x.frames.shape[1:])) for x in (fake, real)]
        raise ValueError(f"clip {fake.id}: predictions are {sizes[0]}, targets are {sizes[1]}; must be equal")
    whole = len(real.frames) != protocol.horizon
    wanted = protocol.frames if whole else protocol.horizon
    if len(real.frames) < wanted or len(fake.frames) not in (len(real.frames), protocol.horizon):
        raise ValueError(
            f"clip {fake.id}: {len(fake.frames)} predicted and {len(real.frames)} true frames; protocol "
            f"{protocol.name!r} needs {protocol.frames} (context {protocol.context}, horizon {protocol.horizon}) or "
            f"the {protocol.horizon} of the horizon alone"
        )
    truth = scored(torch.from_numpy(real.frames), protocol)[:wanted]
    skip = len(fake.frames) > protocol.horizon
    if skip and fake.context not in (None, protocol.context):
        raise ValueError(
            f"clip {fake.id}: was predicted after {fake.context} frames, as its file says (`context`); protocol "
            f"{protocol.name!r} has context {protocol.context}"
        )
    predicted = torch.from_numpy(fake.frames)[protocol.context * skip :][: protocol.horizon]
    return predicted, truth, whole


def name_of(predictions: Path) -> str:
    """What predictions are called: after their file or folder, also if the path is `.` or `..`."""
    return Path(os.path.abspath(predictions)).stem or "files"


def _require_values(clip: Stored, what: str) -> None:
    """Raises ValueError unless frames are uint8, or floating in [0, 1] where they are numbers, gray or RGB."""
    frames = clip.frames
    if frames.shape[-1] not in (1, 3):
        raise ValueError(f"clip {clip.id}: {what} have {frames.shape[-1]} channels; must be 1 or 3")
    if frames.dtype == np.uint8:
        return
    finite = frames[np.isfinite(frames)]
    if finite.size and not (finite.min() >= 0 and finite.max() <= 1):
        low, high = finite.min(), finite.max()
        raise ValueError(f"clip {clip.id}: {what} range over [{low:g}, {high:g}]; must be uint8, or floating in [0, 1]")
