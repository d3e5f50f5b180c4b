"""Both ways of reading give whole batches of clips that were not read before."""

import pytest
import torch

from videopred.bench import data as bench
from videopred.clip import Clip


class Counted:
    def __init__(self):
        self.read = []

    def __len__(self):
        return 1000

    def __getitem__(self, index):
        self.read.append(index)
        return Clip(frames=torch.zeros(5, 4, 6, 1, dtype=torch.uint8), id=str(index))


def test_rates_follow_from_times(monkeypatch):
    seen = {}

    def compare(functions, rounds, title):
        for name, function in functions.items():
            before = len(dataset.read)
            function()
            function()
            seen[name] = dataset.read[before:]
        return {"generator": [0.1, 0.2, 0.3], "loader": [0.4, 0.4, 0.4]}

    dataset = Counted()
    monkeypatch.setattr(bench, "compare", compare)
    generator, loader = bench.measure("tiny", dataset, 5, 3, batch=2)
    assert seen["generator"] == [0, 1, 2, 3]
    assert len(set(seen["loader"])) == 4
    assert generator.shape == "tiny: 2 clips of 5 frames, 4x6x1"
    assert generator.figures["frames_per_second"] == pytest.approx(10 / 0.2)
    assert loader.figures["frames_per_second"] == pytest.approx(10 / 0.4)
    assert (loader.ratio_to, loader.ratio) == ("generator", pytest.approx(2.0))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_recipes_and_files_are_read(monkeypatch):
    monkeypatch.setattr(bench, "RECIPES", (("moving-mnist-small", 3),))
    for name, value in (("BATCH", 1), ("RECORDINGS", 2), ("LENGTH", 5), ("WINDOW", 3), ("CALL", 1)):
        monkeypatch.setattr(bench, name, value)
    rows = list(bench.rows(True, None))
    files = ["generator", "0 workers", "1 workers", "2 workers"]
    assert [row.name for row in rows] == ["generator", "loader", *files, *files]
    assert all(row.figures["frames_per_second"] > 0 for row in rows)
