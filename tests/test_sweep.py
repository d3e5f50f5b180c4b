"""The order of a sweep, what it does again and what not, and its budgets; training and evaluation are stand-ins."""

import dataclasses
import json

import pytest

from videopred import config
from videopred.sweep import Ablation, Budget, Cell, Failed, Work, check_parameters, slug, sweep

PROTOCOL = {"name": "short", "hash": "p1", "num_clips": 2, "context": 1, "horizon": 30, "seed": 0}


@dataclasses.dataclass(frozen=True)
class Training:
    steps: int = 10
    rate: float = 1.0


@dataclasses.dataclass(frozen=True)
class Run:
    width: int = 4
    name: str = "preset"
    training: Training = dataclasses.field(default_factory=Training)


class Stand:
    """Trains nothing and notes what it was asked to. `stop` makes training end early, as Ctrl-C would."""

    def __init__(self):
        self.trained, self.stop, self.diverge, self.asked = [], None, None, 0

    def work(self, protocol=PROTOCOL) -> Work:
        return Work(self.load, lambda run: 100 * run.width, self.time, self.train, self.evaluate, protocol)

    def time(self, runs):
        self.asked += 1
        return [{"update_ms": 125.0 * run.width, "frame_ms": 1.0} for run in runs]

    def load(self, overrides):
        raw = {"name": "preset"}
        for text in overrides:
            config.override(raw, text)
        return config.from_dict(Run, raw)

    def train(self, run, folder):
        name = folder.name.rpartition("-")[0]
        self.trained.append((name, run.width, run.training.steps))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.toml").write_text(config.dumps(run))
        if name == self.stop:
            raise KeyboardInterrupt
        if name == self.diverge:
            raise Failed("training diverged at step 3")
        lines = [{"step": 4, "loss": 2.0, "ms_per_step": 500.0}, {"step": 5, "validation/psnr": 1.0}]
        lines.append({"step": run.training.steps, "loss": 1.0, "ms_per_step": 250.0})
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return folder

    def evaluate(self, checkpoint):
        def row(name, mean, role):
            cell = {"mean": mean, "stderr": 0.1}
            windows = {"1": cell, "1-20": cell, "1-30": cell}
            return {
                "name": name,
                "role": role,
                "metrics": {"psnr": {"mean": mean, "windows": windows}},
                "parameters": 1,
            }

        rows = [row("model", 20.0, "model"), row("misled", 15.0, "shuffled actions"), row("blank", 10.0, "trivial")]
        return {"protocol": PROTOCOL, "checkpoint": {"hash": "h"}, "environment": {"device": "cpu"}, "rows": rows}


ABLATION = Ablation(
    base="preset",
    protocol="short",
    name="widths",
    cells=(Cell("Four"), Cell("Eight", ("width=8",)), Cell("Two/2", ("width=2",))),
)


@pytest.fixture
def stand():
    return Stand()


@pytest.fixture
def go(stand, tmp_path):
    """Runs a sweep in a folder of its own."""
    return lambda ablation=ABLATION, **kwargs: sweep(
        ablation, stand.work(**kwargs), tmp_path / "runs", tmp_path / "out.json"
    )


def test_cells_are_run_in_order_and_each_is_a_row(go, stand, tmp_path):
    data = go()
    assert stand.trained == [("four", 4, 10), ("eight", 8, 10), ("two-2", 2, 10)]
    assert [(row["name"], row["parameters"]) for row in data["rows"]] == [("Four", 400), ("Eight", 800), ("Two/2", 200)]
    assert data["rows"][1]["overrides"] == ["width=8"] and data["rows"][1]["checkpoint"] == {"hash": "h"}
    assert data["rows"][0]["training"] == {"steps": 10, "seconds": 3.5, "ms_per_step": 375.0, "loss": 1.0}
    assert [row["name"] for row in data["trivial"]] == ["blank"]
    assert (data["protocol"], data["environment"]) == (PROTOCOL, {"device": "cpu"})
    assert data["ablation"] == config.to_dict(ABLATION)
    assert json.loads((tmp_path / "out.json").read_text()) == data


def test_what_is_finished_is_not_run_again(go, stand, tmp_path):
    first = go()
    stand.trained.clear()
    assert go() == first and not stand.trained


def test_a_sweep_that_was_stopped_keeps_its_rows_and_goes_on(go, stand, tmp_path):
    stand.stop = "eight"
    with pytest.raises(KeyboardInterrupt):
        go()
    assert [row["name"] for row in json.loads((tmp_path / "out.json").read_text())["rows"]] == ["Four"]
    stand.stop = None
    stand.trained.clear()
    assert [row["name"] for row in go()["rows"]] == ["Four", "Eight", "Two/2"]
    assert [name for name, *_ in stand.trained] == ["eight", "two-2"]


def test_a_changed_cell_is_run_again_and_a_renamed_or_moved_one_is_not(go, stand):
    go()
    stand.trained.clear()
    four, eight, _ = ABLATION.cells
    cells = (dataclasses.replace(eight, name="8"), four, Cell("Three", ("width=3",)))
    data = go(dataclasses.replace(ABLATION, cells=cells))
    assert [row["name"] for row in data["rows"]] == ["8", "Four", "Three"]
    assert [name for name, *_ in stand.trained] == ["three"]


@pytest.mark.parametrize("change", ["protocol", "overrides"])
def test_another_protocol_or_another_setting_of_all_makes_all_anew(go, stand, change):
    go()
    stand.trained.clear()
    if change == "protocol":
        go(protocol=PROTOCOL | {"hash": "p2"})
    else:
        go(dataclasses.replace(ABLATION, overrides=("training.rate=2.0",)))
    assert len(stand.trained) == 3


def test_a_cell_that_diverges_is_a_row_with_its_reason(go, stand):
    stand.diverge = "four"
    data = go()
    assert data["rows"][0]["failed"] == "training diverged at step 3" and data["rows"][0]["metrics"] == {}
    assert "psnr" in data["rows"][1]["metrics"]
    stand.trained.clear()
    go()
    assert not stand.trained


def test_with_a_budget_of_time_each_cell_makes_the_steps_that_fill_it(go, stand, tmp_path):
    timed = dataclasses.replace(ABLATION, budget=Budget(seconds=20))
    stand.stop = "eight"
    with pytest.raises(KeyboardInterrupt):
        go(timed)
    assert stand.trained == [("four", 4, 40), ("eight", 8, 20)] and stand.asked == 1
    stand.stop = None
    stand.trained.clear()
    path = tmp_path / "out.json"
    path.write_text(path.read_text().replace(": 1000.0", ": 4000.0").replace(": 250.0", ": 500.0"))
    go(timed)
    assert stand.trained == [("eight", 8, 20), ("two-2", 2, 40)]  # what was begun keeps its number
    assert stand.asked == 1  # all were timed together, and the file keeps it
    go(dataclasses.replace(timed, cells=(*timed.cells, Cell("Sixteen", ("width=16",)))))
    assert stand.asked == 2 and stand.trained[2:] == [("sixteen", 16, 10)]


def test_a_result_file_keeps_the_times_from_before_the_first_cell(go, stand, tmp_path):
    stand.stop = "four"
    with pytest.raises(KeyboardInterrupt):
        go(dataclasses.replace(ABLATION, budget=Budget(seconds=20)))
    kept = json.loads((tmp_path / "out.json").read_text())
    assert kept["rows"] == [] and sorted(cost["update_ms"] for cost in kept["costs"].values()) == [250, 500, 1000]


def test_another_time_is_not_filled_by_what_was_trained_before(go, stand):
    go(dataclasses.replace(ABLATION, budget=Budget(seconds=20)))
    stand.trained.clear()
    go(dataclasses.replace(ABLATION, budget=Budget(seconds=60)))
    assert [steps for *_, steps in stand.trained] == [120, 60, 240]


def test_another_protocol_finds_what_was_trained(go, stand, tmp_path):
    go()
    go(protocol=PROTOCOL | {"hash": "p2"})
    assert len(list((tmp_path / "runs").iterdir())) == 3


def test_a_budget_of_parameters_is_checked_before_any_training(go, stand):
    with pytest.raises(config.ConfigError, match=r"cell 'Eight' has 800 parameters: the budget allows 360 to 440"):
        go(dataclasses.replace(ABLATION, budget=Budget(parameters=0.1)))
    assert not stand.trained
    check_parameters(dataclasses.replace(ABLATION, budget=Budget(parameters=0.1)), [400, 440, 360])


def test_a_cell_that_cannot_be_loaded_is_named_before_any_training(go, stand):
    cells = (*ABLATION.cells, Cell("Wrong", ("widht=3",)))
    with pytest.raises(config.ConfigError, match="cell 'Wrong': widht: no such key, did you mean 'width'"):
        go(dataclasses.replace(ABLATION, cells=cells))
    assert not stand.trained


def test_cells_that_are_alike_are_each_a_row_of_their_own_name(go, stand):
    data = go(dataclasses.replace(ABLATION, cells=(Cell("Four"), Cell("Also four", ("width=4",)))))
    assert [(row["name"], row["overrides"]) for row in data["rows"]] == [("Four", []), ("Also four", ["width=4"])]
    assert len(stand.trained) == 1


def test_results_of_another_ablation_are_not_written_over(go, stand, tmp_path):
    go()
    before = (tmp_path / "out.json").read_bytes()
    stand.trained.clear()
    with pytest.raises(ValueError, match="holds the ablation 'widths', this is 'depths'; give another --out"):
        go(dataclasses.replace(ABLATION, name="depths", cells=(Cell("Three", ("width=3",)),)))
    assert (tmp_path / "out.json").read_bytes() == before and not stand.trained


def test_trivial_rows_of_another_protocol_are_not_kept(go, stand):
    go()
    stand.diverge = "four"
    data = go(dataclasses.replace(ABLATION, cells=ABLATION.cells[:1]), protocol=PROTOCOL | {"hash": "p2"})
    assert data["rows"][0]["failed"] and "trivial" not in data


@pytest.mark.parametrize(
    "text", ["{", '{"rows": []}', "[1]", "[" * 100_000, '{"ablation": {}, "protocol": {}, "rows": [1]}']
)
def test_a_file_that_is_something_else_is_left_alone(go, stand, tmp_path, text):
    (tmp_path / "out.json").write_text(text)
    with pytest.raises(ValueError, match=r"out\.json: not .*move it away"):
        go()
    assert (tmp_path / "out.json").read_text() == text and not stand.trained


@pytest.mark.parametrize("names", [[], ["a", "A"], ["3/3", "3-3"]])
def test_cells_must_be_told_apart(names):
    with pytest.raises(ValueError, match="must be at least one, and none of the same name"):
        dataclasses.replace(ABLATION, cells=tuple(map(Cell, names)))


def test_a_name_that_makes_no_folder_is_refused():
    with pytest.raises(ValueError, match="name = 'αβ': must have a letter a-z or a digit"):
        dataclasses.replace(ABLATION, cells=(Cell("αβ"),))


def test_names_become_folders():
    assert slug("1/1/ResNet with a 5x5") == "1-1-resnet-with-a-5x5"
