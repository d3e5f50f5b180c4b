"""How far a command has come: without a terminal in lines, a few of them."""

import pytest

from videopred.commands import progress


@pytest.mark.parametrize(("every", "lines"), [(1e9, 0), (2.5, 3)])
def test_without_a_terminal_there_is_a_line_now_and_then(every, lines, monkeypatch, capsys):
    """A second for each of ten: lines after 3, 6 and 9."""
    now = iter(range(100))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
    monkeypatch.setattr(progress, "EVERY", every)
    assert list(progress.told(iter("abcdefghij"), 10, "rollout", "frames")) == list("abcdefghij")
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", lines)
    assert not lines or err.splitlines()[1] == "rollout 6/10 frames 00:04 left"


def test_the_last_one_is_not_told(monkeypatch, capsys):
    monkeypatch.setattr(progress, "EVERY", 0)
    list(progress.told(range(3), 3, "rollout", "frames"))
    assert [line.split()[1] for line in capsys.readouterr().err.splitlines()] == ["1/3", "2/3"]
