"""The files that are made: where a clip lies, how it is written, and what says where they all came from."""

import json
import zipfile
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from videopred import __version__
from videopred.clip import Clip
from videopred.config import ConfigError, difference, from_dict, to_dict
from videopred.data.split import SPLITS, Split
from videopred.data.whole_file import WholeFile

MANIFEST = "maker.json"
SHARD = 1000  # clips in a folder


def clip_path(root: Path, split: Split, index: int) -> Path:
    return root / split / str(index // SHARD) / f"{index:06}.npz"


def write_clip(path: Path, clip: Clip) -> int:
    """Writes one clip and gives the size of its file. Raises OSError (ENOSPC) if it cannot."""
    assert clip.frames is not None
    arrays = {"video": clip.frames.numpy()}
    arrays |= {} if clip.actions is None else {"actions": clip.actions.numpy().astype(np.int32)}
    arrays |= {} if clip.pose is None else {"pose": clip.pose.numpy().astype(np.float32)}
    path.parent.mkdir(parents=True, exist_ok=True)
    with WholeFile(path) as file, zipfile.ZipFile(file.temporary, "w") as archive:
        for name, array in arrays.items():
            member = zipfile.ZipInfo(f"{name}.npy")  # dated 1980, always
            with archive.open(member, "w", force_zip64=array.nbytes >= 1 << 31) as content:
                np.lib.format.write_array(content, np.ascontiguousarray(array), allow_pickle=False)
    return path.stat().st_size


def count(root: Path) -> dict[Split, int]:
    return {split: sum(1 for _ in (root / split).glob("*/*.npz")) for split in SPLITS}


def versions(packages: tuple[str, ...]) -> dict[str, str]:
    return {"videopred": __version__} | {name: metadata.version(name) for name in packages}


def claim(root: Path, source: Any, engines: dict[str, str]) -> None:
    """Writes down what the clips of a folder are made by, or compares it with what is there. Raises ConfigError.

    A key that the config there lacks, because it is older, counts as its default.
    """
    path = root / MANIFEST
    if not path.exists():
        there = [split for split in SPLITS if (root / split).exists()]
        if there:
            raise ConfigError(f"{root / there[0]}: exists, and no {MANIFEST} says what made it; give another --out")
        _save(path, {"config": to_dict(source), "versions": engines, "clips": count(root)})
        return
    old = _read(path)
    config = old.get("config", {})
    with suppress(ConfigError):  # of another version: what is wrong with it shows in the difference
        config = to_dict(from_dict(type(source), config))
    changed = difference(config, to_dict(source))
    versions = {**engines, **old.get("versions", {})} | {"videopred": __version__}  # another videopred may go on
    changed += difference(versions, engines)
    if changed:
        raise ConfigError(
            f"{root} holds clips made in another way: {'; '.join(changed)}. Give another --out, or make the same"
        )


def settle(root: Path) -> None:
    """Writes down how many clips there are."""
    _save(root / MANIFEST, _read(root / MANIFEST) | {"clips": count(root)})


def sweep(root: Path) -> None:
    """Removes what processes that were killed left half written."""
    for split in SPLITS:
        for path in (root / split).glob("*/.*.npz.*.tmp"):
            path.unlink(missing_ok=True)


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
        assert isinstance(found, dict)
        return found
    except (ValueError, AssertionError) as error:
        raise ConfigError(f"{path}: damaged; remove {path.parent}, or give another --out") from error


def _save(path: Path, manifest: dict[str, Any]) -> None:
    with WholeFile(path) as file:
        file.temporary.write_text(json.dumps(manifest, indent=2) + "\n")
