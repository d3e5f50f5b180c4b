"""evaluate_files(): scores clips that somebody predicted, wherever and however, under a protocol.

The protocol says context, horizon, metrics and how frames become uint8; its recipe is not opened. Files hold context
and horizon, as TECO's do, or the horizon alone. Which true clips they are the protocol cannot say, so their hash goes
into that of the result: two results share a table only if they were scored against the same frames.
"""

import dataclasses
import hashlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from videopred.clip import to_uint8
from videopred.data.rollout_files import RolloutFiles, Stored
from videopred.evaluation import result
from videopred.evaluation.protocol import Protocol
from videopred.evaluation.result import Result
from videopred.evaluation.rows import Row, TrivialRow
from videopred.evaluation.trivial import TRIVIAL

FREE = {"parameters": 0, "flops_per_frame": 0, "step_ms": None, "frames_per_second": None}


class FileRow(Row):
    """The row of what the files predict; a clip with a frame that is not finite is named and left out."""

    def take(self, fake: Tensor, truth: Tensor, clip_id: str, sample: int) -> None:
        self.clip_ids += [clip_id] if clip_id not in self.clip_ids else []
        self.samples = max(self.samples, sample + 1)
        broken = ~fake.isfinite().flatten(1).all(1)
        if broken.any():
            self.failed.setdefault(clip_id, int(broken.nonzero()[0]) + 1)
        else:
            self.score(scored(fake, self.protocol)[None], truth[None], [clip_id], sample)

    def entry(self):
        return super().entry() | FREE


@torch.no_grad()
def evaluate_files(
    predictions: str | Path, targets: str | Path, protocol: Protocol | str, *, name: str = "", progress: bool = False
) -> Result:
    """Scores the clips of `predictions` against those of `targets`, the first with the first and so on.

    name : of the row (default: that of `predictions` without its suffix)

    Raises ValueError, naming the clip, unless both have as many clips of equal size that are long enough, in uint8 or
    in [0, 1]. Clips that are not finite are left out.
    """
    protocol = Protocol.load(protocol) if isinstance(protocol, str) else protocol
    if protocol.revisit is not None:
        raise ValueError("`revisit` needs the poses of a recipe, which files do not have; give a protocol without it")
    fakes, reals = RolloutFiles(Path(predictions), "fake"), RolloutFiles(Path(targets), "real")
    if len(fakes) != len(reals):
        raise ValueError(f"{predictions} holds {len(fakes)} clips, {targets} holds {len(reals)}; must be as many")
    row = FileRow(name or Path(predictions).stem, protocol, "model")
    digest, trivial = hashlib.sha256(), None
    pairs = zip(fakes, reals, strict=True)
    for fake, real in tqdm(pairs, total=len(fakes), unit=" clips", desc="eval", disable=None if progress else True):
        predicted, truth, whole = _pair(fake, real, protocol)
        if trivial is None:
            names = [name for name in TRIVIAL if name != "mean-image"] if whole else []
            trivial = [TrivialRow(name, protocol) for name in names]
        row.take(predicted, truth, fake.id, fake.sample)
        if fake.sample == 0:
            digest.update(truth.numpy().tobytes())
            for other in trivial:
                other.take(truth[None], [fake.id])
    rows = [row, *(trivial or [])]
    entries = [each.entry() for each in rows]
    sources = {"predictions": fakes.lossy, "targets": reals.lossy}
    entries[0]["warnings"] = [
        f"{what} are lossy ({file}): scores include what its codec lost" for what, file in sources.items() if file
    ]
    clips = {"num_clips": len(row.clip_ids), "samples": row.samples, "first_clip": 0, "clips": ()}
    table = dataclasses.replace(protocol, **clips).to_dict()
    table["targets"] = digest.hexdigest()[:16]
    table["hash"] = hashlib.sha256(f"{table['hash']} {table['targets']}".encode()).hexdigest()[:16]
    data = {
        "protocol": table,
        "checkpoint": {"name": row.name, "predictions": str(predictions), "targets": str(targets)},
        "environment": result.environment(torch.device("cpu")),
        "rows": entries,
    }
    return Result(data, {key: array for each in rows for key, array in each.arrays.items()})


def scored(frames: Tensor, protocol: Protocol) -> Tensor:
    """Frames (t, h, w, c) in uint8 as they are, in [0, 1] brought to uint8 as the protocol says."""
    if frames.dtype == torch.uint8:
        return frames
    return to_uint8(frames.movedim(-1, -3) * 2 - 1, protocol.quantise)


def _pair(fake: Stored, real: Stored, protocol: Protocol) -> tuple[Tensor, Tensor, bool]:
    """Predicted frames (horizon, h, w, c), true ones in uint8, whether these begin with the context."""
    _require_values(fake, "predictions")
    _require_values(real, "targets")
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
    predicted = torch.from_numpy(fake.frames)[protocol.context * skip :][: protocol.horizon]
    return predicted, truth, whole


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
