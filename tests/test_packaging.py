"""What is installed: `videopred` alone at the top level, yet every shipped name resolves in an empty folder."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HELD = [
    ("videopred", "", "**/*.*"),
    ("datasets", "recipes/", "*.toml"),
    ("datasets/makers", "recipes/makers/", "*.toml"),
    ("eval/protocols", "protocols/", "*.toml"),
]
HELD += [("eval/ablations", "ablations/", "*.toml")]


def python(code: str, *places: Path, cwd: Path) -> str:
    """What `code` prints, run in `cwd` with site folders `places` before everything else."""
    first = "import site, sys; old = sys.path[:]\n"
    first += "".join(f"site.addsitedir({str(place)!r})\n" for place in places)
    first += "sys.path[:] = [place for place in sys.path if place not in old] + old\n"
    command = [sys.executable, "-I", "-c", first + code]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    build = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run([sys.executable, "-m", "pip", *build], check=True, timeout=120)
    [path] = folder.glob("videopred-*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed")
    install = ["install", "--quiet", "--no-deps", "--no-index", "--target", str(folder), str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", *install], check=True, timeout=120)
    return folder


def test_the_wheel_holds_videopred_alone_and_all_of_it(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"videopred"}
    held = {name.removeprefix("videopred/") for name in names}
    for folder, inside, pattern in HELD:
        files = [path for path in (ROOT / folder).glob(pattern) if "__pycache__" not in path.parts]
        assert files, folder
        assert {inside + str(path.relative_to(ROOT / folder)) for path in files} <= held
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_every_shipped_name_resolves_in_an_empty_folder(installed, empty_folder):
    code = """
import videopred
from videopred import config
from videopred.data import Recipe
from videopred.evaluation import Protocol
from videopred.sweep import Ablation
from videopred.training import RunConfig
assert videopred.__file__.startswith(PLACE), videopred.__file__
for folder, cls in ("presets", RunConfig), ("recipes", Recipe), ("protocols", Protocol), \
        ("ablations", Ablation):
    for name in config.shipped(folder):
        assert config.load(cls, folder, name).name == name
    print(folder, *config.shipped(folder))
clip = config.load(Recipe, "recipes", "moving-mnist").build("test", 3)[17]
assert clip.frames.float().std() > 10
try:
    videopred.load("moving-mnist-small")
except FileNotFoundError as error:
    print(error)
"""
    *lines, message = python(code.replace("PLACE", repr(str(installed))), installed, cwd=empty_folder).splitlines()
    expected = {"presets": "videopred/configs", "recipes": "datasets", "protocols": "eval/protocols"}
    expected |= {"ablations": "eval/ablations"}
    for line, (folder, source) in zip(lines, expected.items(), strict=True):
        assert line.split() == [folder, *sorted(path.stem for path in (ROOT / source).glob("*.toml"))]
    assert "moving-mnist-small: no such checkpoint" in message
    assert "source repository" in message
    assert list(empty_folder.iterdir()) == []


def test_the_command_is_installed(installed):
    assert "from videopred.cli import main" in (installed / "bin" / "videopred").read_text()


def test_an_editable_install_exposes_videopred_alone(tmp_path, empty_folder):
    build = f"from hatchling.build import build_editable; build_editable({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=ROOT, check=True, stdout=subprocess.DEVNULL, timeout=60)
    [path] = tmp_path.glob("*.whl")
    zipfile.ZipFile(path).extractall(tmp_path / "site")
    code = """
import importlib.util as util, videopred
print(videopred.__file__)
for name in "datasets", "eval", "checkpoints", "tests":
    spec = util.find_spec(name)
    for place in (spec.submodule_search_locations or [spec.origin] if spec else []):
        print(name, place)
"""
    first, *others = python(code, tmp_path / "site", cwd=empty_folder).splitlines()
    assert Path(first) == ROOT / "videopred" / "__init__.py"
    assert not [line for line in others if str(ROOT) in line.split(maxsplit=1)[1]]
