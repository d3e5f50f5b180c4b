"""A result: one JSON object in full (docs: eval/README.md), and the (clip, sample, frame) arrays in an .npz beside it.

Both files are written in full under other names, and only then renamed, the JSON last: what is there is whole, and a
full disk leaves the old pair.
"""

import json
import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import torch

from videopred import __version__
from videopred.data import whole_file
from videopred.data.whole_file import WholeFile
from videopred.evaluation import schema
from videopred.evaluation.protocol import Protocol
from videopred.metrics import Metric, Score, SetScore


@dataclass(frozen=True)
class Result:
    """`data` is the JSON object; `arrays` maps "row/metric/name" to (clip, sample, frame)."""

    data: dict[str, Any]
    arrays: dict[str, np.ndarray]

    def save(self, path: str | Path) -> Path:
        """Writes `path` (.json) and the .npz beside it, making the folder if need be; returns the path."""
        path = Path(path)
        require_writable(path)
        text = json.dumps(self.data, indent=1, allow_nan=False) + "\n"
        with WholeFile(path) as whole, WholeFile(path.with_suffix(".npz")) as arrays:
            whole.temporary.write_text(text)
            with open(arrays.temporary, "wb") as file:
                np.savez_compressed(file, **cast(dict[str, Any], self.arrays))
        return path


def read(path: str | Path) -> dict[str, Any]:
    """The JSON object of a result file, with all that tables need. Raises ValueError if the file is not one."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=_not_a_number)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not JSON ({error}); give a file that `videopred eval` wrote") from error
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        schema.check(data)
    except ValueError as error:
        raise ValueError(f"{path}: not a result ({error}); give a file that `videopred eval` wrote") from error
    return data


def _not_a_number(word: str) -> Any:
    raise ValueError(f"it holds {word}; what is undefined must be null")


def require_writable(path: Path) -> None:
    """Raises ValueError unless a result can be written to `path`: to be asked before the work, not after it."""
    if path.suffix != ".json":
        raise ValueError(f"{path}: a result's name must end in .json")
    whole_file.require_writable(path)


def write(path: Path, fill: Callable[[BinaryIO], Any]) -> None:
    """A file that appears whole or not at all; `fill` is handed the open file. Raises OSError that names `path`."""
    with WholeFile(path) as whole, open(whole.temporary, "wb") as file:
        fill(file)


def entry(metric: Metric, score: Score, protocol: Protocol) -> dict[str, Any]:
    """A metric of a row as the JSON has it; what is undefined is null."""
    table = _means(metric, score, protocol) | {"better": metric.better, "unit": metric.unit}
    if table["mean"] is None:
        table["reason"] = "undefined at every frame"
    if best := score.best(metric.better):
        samples = next(iter(score.arrays.values())).shape[1]
        table["best_of"] = _means(metric, best, protocol) | _arrays(best) | {"samples": samples}
    table |= {name: int(count) for name, count in score.counts.items()}
    return table | score.extras | _arrays(score)


def group_moments(means: list[float]) -> dict[str, Any]:
    """Mean and standard deviation (1/n, the papers') of a metric's values for groups of clips."""
    return {"group_mean": plain(np.mean(means)), "group_std": plain(np.std(means)) if len(means) > 1 else None}


def undefined(reason: str) -> dict[str, Any]:
    """A metric that could not be computed."""
    return {"mean": None, "stderr": None, "reason": reason}


def _means(metric: Metric, score: Score, protocol: Protocol) -> dict[str, Any]:
    spans = [_used(metric, protocol)] if isinstance(score, SetScore) else protocol.windows
    windows = {}
    for first, last in spans:
        mean, stderr = map(plain, score.window(first, last))
        windows[str(last) if last == first else f"{first}-{last}"] = {"mean": mean, "stderr": stderr}
    mean, stderr = map(plain, score.window(1, protocol.horizon))
    return {"mean": mean, "stderr": stderr, "windows": windows}


def _used(metric: Metric, protocol: Protocol) -> tuple[int, int]:
    """First and last predicted frame that a metric of whole clips looks at; the true context may stand before them."""
    before = protocol.context if getattr(metric, "context", "out") == "in" else 0
    frames = getattr(metric, "frames", 0)
    return 1, frames - before if frames else protocol.horizon


def _arrays(score: Score) -> dict[str, Any]:
    if isinstance(score, SetScore):
        return {"per_frame": [], "per_frame_stderr": [], "per_clip": []}
    arrays = {"per_frame": score.per_frame, "per_frame_stderr": score.per_frame_stderr, "per_clip": score.per_clip}
    return {name: plain(array) for name, array in arrays.items()}


def plain(value: Any) -> Any:
    """Numbers and arrays as JSON takes them: NaN and infinities become None."""
    if np.ndim(value):
        return [plain(item) for item in value]
    return float(value) if np.isfinite(value) else None


def environment(device: torch.device) -> dict[str, Any]:
    """Versions and machine, as far as they may explain a number or a time."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    return {
        "versions": {
            "videopred": __version__,
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "numpy": np.__version__,
        },
        "device": f"{device.type} ({name})",
        "threads": torch.get_num_threads(),
        "platform": platform.platform(),
    }
