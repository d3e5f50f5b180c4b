"""Measures the memory that FVD's network needs for one clip: `make fvd-memory`.

Weights are random, as memory and time do not depend on them. Each length has a process of its own, whose peak is that
of the process less what it held before; the clip itself counts.
"""

import argparse
import json
import multiprocessing
import resource
import time
from pathlib import Path

import torch

from videopred.evaluation.result import environment
from videopred.metrics.features import Network
from videopred.metrics.fvd import _Whole
from videopred.metrics.i3d import I3D

MIB = 1024  # of the KiB that Linux counts in


def measure(frames: int, side: int) -> dict[str, float]:
    network = Network(_Whole(I3D()), {})
    before = _peak()
    started = time.perf_counter()
    clip = torch.randint(0, 256, (frames, side, side, 3), dtype=torch.uint8)
    assert network(clip).isfinite().all()
    seconds = time.perf_counter() - started
    return {"frames": frames, "side": side, "peak_mib": round(_peak() - before), "seconds": round(seconds, 1)}


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MIB


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, nargs="+", default=[16, 300, 1300], help="lengths of clips")
    parser.add_argument("--side", type=int, default=64, help="pixels of a frame's side")
    parser.add_argument("--out", type=Path, help="also write the numbers there, as JSON")
    args = parser.parse_args()
    rows = []
    for frames in args.frames:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            rows.append(pool.apply(measure, (frames, args.side)))
        print(f"{frames:6,} frames: {rows[-1]['peak_mib']:6,} MiB, {rows[-1]['seconds']:.1f} s", flush=True)
    if args.out is not None:
        found = {"environment": environment(torch.device("cpu")), "rows": rows}
        args.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
