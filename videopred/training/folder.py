"""A run's folder belongs to one configuration for ever."""

from contextlib import suppress
from pathlib import Path

from videopred import config
from videopred.checkpoint import CONFIG, steps
from videopred.training import RunConfig
from videopred.training.checkpoint import replace_file


def claim(folder: Path, run: RunConfig) -> str:
    """Writes the configuration into a new run folder, or checks it against the one there; returns it as TOML text.

    A key that the one there lacks, because it is older, counts as its default. Raises ConfigError, OSError.
    """
    text, path = config.dumps(run), folder / CONFIG
    if not path.exists():
        replace_file(path, text.encode())
        return text
    there = config.parse(path)
    if not there:
        raise config.ConfigError(
            f"{path}: empty; copy the {CONFIG} of the newest step_* folder there, or remove {folder}"
        )
    with suppress(config.ConfigError):  # of another version: what is wrong with it shows in the difference
        there = config.to_dict(config.from_dict(RunConfig, there))
    changed = config.difference(there, config.to_dict(run))
    if changed:
        raise config.ConfigError(
            f"{folder} belongs to another configuration: {'; '.join(changed)}. Give another --out, or the same settings"
            + (
                f"; with another --out, --from {folder} starts a new run from its weights"
                if steps(folder)
                else f". There is no checkpoint in it yet, so {folder} can also be removed"
            )
        )
    return text
