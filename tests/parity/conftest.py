"""Golden arrays: every .npz found is offered to the checks of this folder, and a table at the end tells the errors.

$VIDEOPRED_GOLDEN names another folder of files. A check says with `@pytest.mark.golden(takes=...)` which files it
takes, by the arrays that lie in them. See README.md in this folder.
"""

import functools
import os
from pathlib import Path

import numpy as np
import pytest
import torch

FOLDER = Path(os.environ.get("VIDEOPRED_GOLDEN") or Path(__file__).parent / "golden")
UNKNOWN = "no check takes a file with these arrays"
ELSEWHERE = ("metrics", "ssim_psnr")  # files of these names are found and read by test_metrics.py
EXACT, SHORT = 1e-10, 1e-6  # of the largest element, for arrays stored in 64 bits and for those stored in fewer


class Golden:
    """One file. Reading an array gives it as float64, complex128 or int64; `check` compares and keeps the error."""

    def __init__(self, path: Path):
        self.path = path
        self.taken = False
        self.read: set[str] = set()
        self.errors: dict[str, tuple[float, float]] = {}  # array: worst relative error, tolerance
        with np.load(path) as file:
            self.arrays = dict(file)

    def keys(self, prefix: str = "") -> list[str]:
        return [key for key in self.arrays if key.startswith(prefix)]

    def __contains__(self, key: str) -> bool:
        return key in self.arrays

    def __getitem__(self, key: str) -> torch.Tensor:
        self.read.add(key)
        array = self.arrays[key]
        return torch.from_numpy(array.astype({"c": np.complex128, "f": np.float64}.get(array.dtype.kind, np.int64)))

    def check(self, key: str, ours: torch.Tensor, tolerance: float | None = None, least: float = 0.0) -> None:
        """Our array against the file's, relative to the file's largest element, or to `least` where that is larger."""
        stored, want = self.arrays[key], self[key]
        tolerance = tolerance or (EXACT if stored.dtype in (np.float64, np.complex128) else SHORT)
        assert ours.shape == want.shape, f"{key}: {tuple(ours.shape)}, the file has {tuple(want.shape)}"
        size = max(want.abs().max().item(), least) or 1.0
        error = (ours.detach() - want).abs().max().item() / size
        self.errors[key] = max((error, tolerance), self.errors.get(key, (0.0, tolerance)))
        assert error <= tolerance, f"{key}: relative error {error:.1e}, allowed {tolerance:.0e}"

    def option(self, name: str, default):
        """A setting that shapes do not show: a scalar of that name where the file has one."""
        return self.arrays[name].item() if name in self else default

    def summary(self) -> str:
        if not self.errors:
            return "not compared" if self.taken else f"skipped: {UNKNOWN}"
        told = []
        for allowed in sorted({tolerance for _, tolerance in self.errors.values()}):
            errors = [error for error, tolerance in self.errors.values() if tolerance == allowed]
            told.append(f"{len(errors):3d} arrays, worst {max(errors):.1e} (allowed {allowed:.0e})")
        if rest := sorted(self.arrays.keys() - self.read):
            told.append(f"not read: {', '.join(rest[:6])}" + f" and {len(rest) - 6} more" * (len(rest) > 6))
        return "; ".join(told)


@functools.cache
def found() -> dict[str, Golden]:
    paths = [path for path in sorted(FOLDER.rglob("*.npz")) if not path.stem.startswith(ELSEWHERE)]
    if not paths:
        raise pytest.UsageError(f"VIDEOPRED_GOLDEN: {FOLDER} holds no .npz file")
    return {str(path.relative_to(FOLDER)): Golden(path) for path in paths}


def pytest_configure(config):
    config.addinivalue_line("markers", "golden(takes=f): runs on every golden file for which f(file) is true")


def pytest_generate_tests(metafunc):
    if marker := metafunc.definition.get_closest_marker("golden"):
        takes = marker.kwargs["takes"]
        files = {name: file for name, file in found().items() if takes(file)}
        for file in files.values():
            file.taken = True
        metafunc.parametrize("gold", files.values(), ids=files.keys())


def pytest_terminal_summary(terminalreporter):
    if any(file.errors for file in found().values()):
        terminalreporter.section(f"parity with {FOLDER}")
        for name, file in found().items():
            terminalreporter.line(f"{name:<36} {file.summary()}")


@pytest.fixture
def ways():
    """The ways to cut a clip of so many frames: whole, in uneven chunks, frame by frame."""

    def of(length: int) -> list[list[int]]:
        first = max(1, length // 3)
        return [[length], [first, length - first] if length > first else [length], [1] * length]

    return of


@pytest.fixture
def in_pieces():
    """A layer over (b, t, ...) cut in pieces along time, the state carried from one to the next."""

    def of(layer, x: torch.Tensor, state, sizes: list[int]):
        outputs = []
        for piece in x.split(sizes, 1):
            y, state = layer(piece, state)
            outputs.append(y)
        return torch.cat(outputs, 1), state

    return of


@pytest.fixture(params=found())
def known_file(request) -> Golden:
    """Any file that some collected check takes; the others are skipped by name."""
    file = found()[request.param]
    if not file.taken:
        pytest.skip(f"{request.param}: {UNKNOWN}")
    return file
