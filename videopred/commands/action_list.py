"""What `--actions` says: a list of actions by number or name, a text file of one, or an .npz."""

import difflib
from pathlib import Path
from typing import Any

MOST_ACTIONS = 10**7


def read(text: str, names: tuple[str, ...]) -> Any:
    """int64 (t,), or (n, t) from an .npz, out of what --actions says; `names` of the actions 0, 1, ...

    Raises ValueError that quotes the word that means no action.
    """
    import numpy as np

    from videopred.data.npz import read_actions

    path = Path(text)
    if path.suffix in (".npz", ".txt"):
        if not path.is_file():
            raise ValueError(f"--actions {text}: no such file")
        if path.suffix == ".npz":
            stored = read_actions(path)
            if stored is None or stored.ndim not in (1, 2) or not stored.size:
                raise ValueError(f"--actions {text}: has no `actions` of shape (t,) or (n, t)")
            return stored
        text = path.read_text(errors="replace")
    actions: list[int] = []
    for word in text.replace(",", " ").split():
        action, star, times = word.partition("*")
        if star and not times.isdecimal():
            raise ValueError(f"--actions: {word!r}: after the * must stand how many times, as in {action}*20")
        count = int(times[:12]) if star else 1  # 12 digits are too many already
        if len(actions) + count > MOST_ACTIONS:
            raise ValueError(f"--actions: {word!r}: makes more than {MOST_ACTIONS:,} actions in all; give fewer")
        actions += [_action(action, names)] * count
    if not actions:
        raise ValueError("--actions: there are none; give a list, as in 0,1,2*20")
    return np.array(actions, np.int64)


def _action(word: str, names: tuple[str, ...]) -> int:
    """The number of one action, which may be named; -1 is unknown."""
    if word in names:
        return names.index(word)
    if word == "unknown":
        return -1
    if word.removeprefix("-").isdecimal() and len(word) < 12:
        return int(word)
    if not names:
        raise ValueError(
            f"--actions: {word!r} is not the number of an action, and the actions of this model have no names"
        )
    close = difflib.get_close_matches(word, [*names, "unknown"], n=1)
    meant = f", did you mean {close[0]!r}?" if close else "."
    raise ValueError(f"--actions: {word!r}: no such action{meant} There are {', '.join(names)}, and unknown")
