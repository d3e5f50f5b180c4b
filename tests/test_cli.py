"""The command line: what goes to stdout, and whose fault an error is."""

import errno
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch

import videopred
from videopred import cli, clip, config, saved
from videopred.commands import list as list_command


def run(*words: str, code: int = 0) -> subprocess.CompletedProcess:
    done = subprocess.run([sys.executable, "-m", "videopred", *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    return done


QUICK = [["--help"], ["--version"], ["list"], ["list", "presets"], ["bench"], ["trian"], ["train", "x"], ["sweep", "x"]]


@pytest.mark.parametrize("words", QUICK, ids=" ".join)
def test_answers_without_importing_torch(words):
    code = (
        "import sys; from videopred import cli\n"
        f"try: cli.main({words})\n"
        "except SystemExit: pass\n"
        "slow = {'torch', 'numpy', 'av', 'PIL', 'tqdm'} & sys.modules.keys()\n"
        "assert not slow, slow"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_name_that_is_not_text_is_printed_all_the_same(tmp_path):
    """A strict stdout, as Python makes one for a UTF-8 locale, refuses the bytes of such a name."""
    code = "import sys; from videopred import cli, commands; import videopred.commands.list as l\n"
    code += "l.run = lambda args: print('a\\udcff.mp4') or 0\nsys.exit(cli.main(['list', 'presets']))"
    strict = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=strict)
    assert (done.returncode, done.stdout) == (0, "a\\udcff.mp4\n"), done.stderr


def test_help_names_every_command():
    text = run("--help").stdout
    assert all(f"\n    {command} " in text for command in cli.COMMANDS)


def test_version():
    assert run("--version").stdout == f"videopred {videopred.__version__}\n"


@pytest.mark.parametrize("words", [["trian"], [], ["list", "colours"], ["show", "--fast", "debug"]])
def test_a_wrong_command_line_is_one_line_and_2(words, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(words)
    out, err = capsys.readouterr()
    assert (stop.value.code, out) == (2, "")
    assert err.startswith("videopred: error: ")
    assert err.count("\n") == 1


def test_an_option_that_is_not_there_leads_to_the_help_of_its_command(capsys):
    with pytest.raises(SystemExit):
        cli.parse(["eval", "a", "b", "--horizon", "5"])
    assert "unrecognized arguments: --horizon 5 (see videopred eval --help)" in capsys.readouterr().err


def test_overrides_may_stand_anywhere():
    args = cli.parse(["train", "debug", "a=1", "--out", "x", "b.c=2", "d=3"])
    assert (args.out is not None, args.overrides) == (True, ["a=1", "b.c=2", "d=3"])


def inside(code: str):
    """A function of videopred's that runs `code`."""
    return lambda args: exec(code, {"__name__": "videopred.anything"})


def in_torch(args):
    torch.nn.Conv2d(3, 3, 3, padding_mode="upside down")


def carrying(args):
    class Diverged(RuntimeError):
        exit_code = 3

    raise Diverged("loss is nan at step 7;\nthe last good checkpoint is step 5")


def raising(error):
    def run(args):
        raise error

    return run


UNREADABLE = PermissionError(errno.EACCES, "Permission denied", "a.mp4")
FULL = OSError(errno.ENOSPC, "No space left on device", "a.npz")
CHAINED = "try: int('x')\nexcept ValueError as error: raise ValueError('y') from error"

ERRORS = {
    "config": (lambda args: config.find("presets", "debgu"), 2, "debgu: no such name in presets"),
    "our ValueError": (lambda args: clip.Clip(tokens=torch.zeros(1)).pixels(), 2, "this clip holds tokens"),
    "our ValueError, on many lines": (inside("raise ValueError('a\\nb')"), 2, "a b"),
    "our ValueError from another's": (inside(CHAINED), 2, "y"),
    "our FileNotFoundError": (inside("raise FileNotFoundError('x: missing')"), 2, "x: missing"),
    "no such file": (lambda args: Path("absent.npz").read_bytes(), 2, "absent.npz: No such file or directory"),
    "no permission": (raising(UNREADABLE), 2, "a.mp4: Permission denied"),
    "disk full": (raising(FULL), 3, "a.npz: No space left on device"),
    "disk full, safetensors": (raising(RuntimeError('I/O error: "No space left on device"')), 3, "I/O error"),
    "memory": (raising(MemoryError()), 3, "out of memory"),
    "GPU memory": (raising(torch.OutOfMemoryError("CUDA out of memory. Tried 2 GiB")), 3, "out of memory: CUDA"),
    "carries its status": (carrying, 3, "loss is nan at step 7; the last good checkpoint is step 5"),
    "interrupted": (raising(KeyboardInterrupt()), 130, "interrupted"),
    "ValueError of a call in our code": (inside("int('x')"), 1, None),
    "ValueError inside torch": (in_torch, 1, None),
    "our assertion": (inside("assert False"), 1, None),
    "anything else": (inside("{}['x']"), 1, None),
    "a broken pipe that is not stdout": (raising(BrokenPipeError(errno.EPIPE, "Broken pipe")), 1, None),
}


@pytest.mark.parametrize(("function", "code", "line"), ERRORS.values(), ids=ERRORS)
def test_whose_fault_it_is(function, code, line, monkeypatch, capfd):
    monkeypatch.setattr(list_command, "run", function)
    assert cli.main(["list", "presets"]) == code
    out, err = capfd.readouterr()
    assert out == ""
    if code == 1:
        assert "Traceback (most recent call last)" in err
        assert "Please report it" in err
        assert err.endswith("what was run: videopred list presets\n")
    else:
        assert err.startswith(f"videopred: {'' if code == 130 else 'error: '}{line}")
        assert err.count("\n") == 1


@pytest.mark.parametrize("command", ["list dynamics", "--help"])
@pytest.mark.parametrize("buffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_a_reader_that_leaves_is_no_error(command, buffered):
    line = f"{sys.executable} -m videopred {command} | true; exit ${{PIPESTATUS[0]}}"
    environment = os.environ | {"PYTHONUNBUFFERED": buffered}
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=120, env=environment)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("buffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_a_full_disk_behind_stdout_is_one_line_and_3(buffered):
    line = f"{sys.executable} -m videopred list presets > /dev/full"
    environment = os.environ | {"PYTHONUNBUFFERED": buffered}
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=120, env=environment)
    assert (done.returncode, done.stderr) == (3, "videopred: error: [Errno 28] No space left on device\n")


@pytest.mark.parametrize("what", [*list_command.UNIONS, *config.FOLDERS])
def test_list_describes_every_choice(what, capsys):
    assert cli.main(["list", what]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines
    for line in lines:
        name, _, text = line.partition("  ")
        assert name and len(text.split()) > 2, f"{what}: {line!r} says nothing"


def test_list_gives_kinds_as_a_config_names_them(capsys):
    cli.main(["list", "spatial"])
    assert {"resnet", "half_glu"} <= {line.split()[0] for line in capsys.readouterr().out.splitlines()}


def test_show_gives_toml_that_is_the_config_in_full(capsys, empty_folder):
    assert cli.main(["show", "debug"]) == 0
    text = capsys.readouterr().out
    from videopred.training import RunConfig

    run = config.load(RunConfig, "presets", "debug")
    assert config.from_dict(RunConfig, tomllib.loads(text)) == run
    (empty_folder / "again.toml").write_text(text)
    assert cli.main(["show", "again.toml"]) == 0
    assert capsys.readouterr().out == text


def test_show_says_what_every_part_is_and_costs(capsys):
    from videopred.training import RunConfig

    cli.main(["show", "debug"])
    parts, states = (
        {name: [int(word.replace(",", "")) for word in words] for name, *words in map(_cells, table.splitlines()[1:])}
        for table in capsys.readouterr().out.partition("# part ")[2].split("\n#\n")
    )
    run = config.load(RunConfig, "presets", "debug")
    total = sum(p.numel() for p in run.predictor.build(run.recipe.format).parameters())
    assert parts["total"][0] == total
    for table in parts, states:
        sums = table.pop("total")
        assert sums == [sum(column) for column in zip(*table.values(), strict=True)]
    assert {"stack.dynamics", "stack.spatial", "codec.encoder", "codec.decoder"} <= parts.keys()
    assert parts["mix"] == [16 * 16 + 16, 2 * 16 * 16 * 64]  # 16 channels to 16, 8x8 pixels
    assert states == {"newest frame": [4 * 32 * 32], "layer 0": [4 * 8 * 64], "layer 1": [4 * 8 * 64]}


def test_show_of_a_tokenizer_counts_the_way_to_tokens_and_back(capsys):
    """The codec alone, as it ships: no critic, no state."""
    assert cli.main(["show", "doom-maze-vq-small"]) == 0
    out = capsys.readouterr().out
    (total,) = (_cells(line) for line in out.splitlines() if line.startswith("# total"))
    assert total[1:] == ["186,368", "115,343,360"] and "bytes" not in out and "# critic" not in out


def test_show_tells_how_often_a_prior_is_called(capsys):
    cli.main(["show", "doom-maze-teco-small"])
    shown = capsys.readouterr().out
    assert "# calls of the prior per frame: 12" in shown
    flops = {_cells(line)[0]: _cells(line)[-1] for line in shown.splitlines() if line.startswith("# ")}
    assert int(flops["prior"].replace(",", "")) > int(flops["codec.decoder"].replace(",", "")) > 0


def _cells(line: str) -> list[str]:
    return [cell for cell in line.lstrip("# ").split("  ") if cell]


def test_show_of_nothing_says_what_there_is(capsys):
    assert cli.main(["show", "debgu"]) == 2
    assert "debgu: neither a preset nor a checkpoint, did you mean 'debug'?" in capsys.readouterr().err


def test_show_says_what_a_zero_stands_for(capsys):
    cli.main(["show", "doom-maze-small"])
    shown = capsys.readouterr().out
    assert "num_actions = 0  # 0: as many as the recipe has, 3\n" in shown
    assert tomllib.loads(shown)["predictor"]["actions"]["num_actions"] == 0


def test_list_alone_tells_every_kind(capsys):
    assert cli.main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [*list_command.UNIONS, *config.FOLDERS, "checkpoints"]
    assert all(len(line.split()) > 2 for line in lines)


def test_list_checkpoints_gives_what_a_command_takes(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(saved, "SHIPPED", tmp_path / "shipped")
    monkeypatch.chdir(tmp_path)
    runs = ("checkpoints/runs/mine/step_00000007", "checkpoints/runs/both/step_00000009", "checkpoints/runs/none")
    for name in ("shipped/both", *runs):
        (tmp_path / name).mkdir(parents=True)
        if not name.endswith("none"):
            (tmp_path / name / "model.safetensors").touch()
    (tmp_path / "shipped/both/card.json").write_text('{"step": 4000}')
    assert cli.main(["list", "checkpoints"]) == 0
    told = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    assert told == [
        ["both", "shipped, step 4000"],
        ["checkpoints/runs/both", "checkpoints/runs/both, step 9"],
        ["mine", "checkpoints/runs/mine, step 7"],
    ]
    assert all(saved.resolve(name) for name, _ in told)


def test_the_public_names_stay_what_they_are():
    code = (
        "import videopred, sys; assert 'torch' not in sys.modules\n"
        "import videopred.rollout, videopred.evaluation\n"
        "assert callable(videopred.rollout) and callable(videopred.evaluate) and callable(videopred.load)\n"
        "from videopred.rollout import rollout; assert rollout is videopred.rollout\n"
        "assert set(videopred.__all__) == {'Clip', 'evaluate', 'load', 'rollout', '__version__'}\n"
        "assert not hasattr(videopred, 'absent')"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
