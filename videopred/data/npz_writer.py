"""Rollouts as arrays, in the layout in which TECO's code writes them, so that other people's metrics read them."""

import contextlib
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from videopred.data.drawing import Layout
from videopred.data.whole_file import WholeFile


class NpzWriter(WholeFile):
    """An .npz with a row for every clip and sample.

    real, fake  : uint8 (n * samples, t, h, w, c), sample after sample of clip after clip; `real` is repeated for every
                  sample and may be shorter than `fake`, `real_frames` says how long it is
    actions     : int64 (n * samples, t), where there are any
    context     : number of true frames at the start of `fake`; clip_ids, sample: what each row is

    Time comes second, so frames first go, as they come, to files without a name beside the path.
    """

    def __init__(self, path: Path, layout: Layout, actions: np.ndarray | None = None):
        super().__init__(path)
        self.layout, self.actions = layout, actions
        self.spools = {name: tempfile.TemporaryFile(dir=path.parent) for name in ("real", "fake")}  # noqa: SIM115

    def write(self, real: np.ndarray | None, fake: np.ndarray) -> None:
        if real is not None:
            self.spools["real"].write(real.tobytes())
        self.spools["fake"].write(fake.tobytes())

    def finish(self) -> None:
        layout, samples = self.layout, self.layout.samples
        n = len(layout.clips)
        arrays: dict[str, Any] = {} if self.actions is None else {"actions": self.actions.repeat(samples, 0)}
        with zipfile.ZipFile(self.temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            arrays["real_frames"] = self._member(archive, "real", np.arange(n).repeat(samples), n)
            self._member(archive, "fake", np.arange(n * samples), n * samples)
            arrays["context"] = layout.context
            arrays["clip_ids"] = np.repeat(np.array(layout.clips), samples)
            arrays["sample"] = np.tile(np.arange(samples), n)
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                    np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)

    def release(self) -> None:
        for spool in self.spools.values():
            with contextlib.suppress(OSError):  # it may still hold what a full disk did not take
                spool.close()

    def _member(self, archive: zipfile.ZipFile, name: str, rows: np.ndarray, stride: int) -> int:
        """Copies a spool, where every time step has `stride` frames, row by row; gives the number of time steps."""
        format, spool = self.layout.format, self.spools[name]
        frame = (format.height, format.width, format.channels)
        size = int(np.prod(frame))
        times = spool.seek(0, os.SEEK_END) // (size * stride)
        header = {"descr": "|u1", "fortran_order": False, "shape": (len(rows), times, *frame)}
        with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
            np.lib.format.write_array_header_1_0(file, header)
            for row in rows.tolist():
                for time in range(times):
                    spool.seek((time * stride + row) * size)
                    file.write(spool.read(size))
        return times
