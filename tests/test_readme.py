"""The commands that our pages show exist, with the options that they show; and the pages' links lead somewhere.

Read are lines of ```bash blocks; a block whose commands are not meant to be run as they stand is ```text.
"""

import re
import shlex
from pathlib import Path

import pytest

from videopred import cli

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *(ROOT / folder / "README.md" for folder in ("checkpoints", "datasets", "eval"))]
PAGES = [page for page in PAGES if page.is_file()]


def commands(page: Path) -> list[list[str]]:
    """Words of each command, without what follows a pipe or a redirection."""
    found = []
    for block in re.findall(r"^```bash\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line.removeprefix("$ "), comments=True)
            end = next((i for i, word in enumerate(words) if word in ("|", ">", "2>", "&&", ";")), len(words))
            if words:
                found.append(words[:end])
    return found


def links(page: Path) -> list[str]:
    targets = re.findall(r"\]\(([^)\s#]+)|<img [^>]*src=\"([^\"]+)\"", page.read_text())
    return [target for pair in targets for target in pair if target and "://" not in target]


def cases(read) -> list:
    """(page, what `read` finds on it) of all pages."""
    return [pytest.param(page, found, id=f"{page.parent.name}: {found}") for page in PAGES for found in read(page)]


@pytest.mark.parametrize(("page", "words"), cases(commands))
def test_a_command_is_understood(page, words):
    if words[0] == "videopred" and words[1] not in ("--help", "--version"):
        cli.parse(words[1:])
    if words[0] == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert set(words[1:2]) <= set(targets)


@pytest.mark.parametrize(("page", "target"), cases(links))
def test_a_link_leads_somewhere(page, target):
    assert (page.parent / target).exists()


def test_the_readme_shows_the_three_commands():
    shown = {words[1] for words in commands(ROOT / "README.md") if words[0] == "videopred"}
    assert {"train", "rollout", "eval"} <= shown
