"""The bench file and the table."""

import errno
import json
from pathlib import Path

import pytest

from videopred.bench import report
from videopred.bench.rounds import Row
from videopred.data.whole_file import require_writable

ENVIRONMENT = {
    "cpu": "Abacus",
    "threads": 1,
    "torch": "2.0",
    "peaks": {"matmul_gflops": 100.0, "conv3x3_gflops": 90.0, "copy_gbytes": 10.0},
}
ROWS = [
    Row("fast", "L 4", 1.5, rounds=3, figures={"frames_per_second": 123456.0}),
    Row("slow", "L 4", 12.0, "fast", 8.0, rounds=3),
    Row("absent", "L 8", None, note="not measured: no such thing"),
]


@pytest.fixture
def data():
    return report.to_dict("scan", True, ENVIRONMENT, ROWS)


def test_rows_have_the_keys_that_scripts_read(data):
    assert data["environment"] is ENVIRONMENT
    for row in data["rows"]:
        assert {"name", "shape", "median_ms", "ratio_to", "ratio"} <= row.keys()
    fast, slow, absent = data["rows"]
    assert fast["frames_per_second"] == 123456.0
    assert (slow["ratio_to"], slow["ratio"]) == ("fast", 8.0)
    assert "note" not in slow and absent["note"] == "not measured: no such thing"


def test_the_file_is_the_object(data, tmp_path):
    path = tmp_path / "new" / "bench.json"
    require_writable(path)
    report.save(data, path)
    assert json.loads(path.read_text()) == data
    assert list(path.parent.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file(data, tmp_path, monkeypatch):
    path = tmp_path / "bench.json"
    path.write_text("old")

    def full(self, text):
        self.write_bytes(text.encode()[:100])
        raise OSError(errno.ENOSPC, "No space left on device", str(self))

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space left") as caught:
        report.save(data, path)
    assert caught.value.filename == str(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_nan_is_refused_before_anything_is_written(data, tmp_path):
    data["rows"][0]["ratio"] = float("nan")
    with pytest.raises(ValueError, match="Out of range float"):
        report.save(data, tmp_path / "bench.json")
    assert not list(tmp_path.iterdir())


def test_the_table_has_a_block_for_every_shape(data):
    machine, _, head, fast, slow, _, head2, absent, _, note = report.table(data).splitlines()
    assert machine.startswith("Abacus, 1 thread, torch 2.0; at best matmul 100 GFLOP/s")
    assert head.split() == ["L", "4", "median", "ms", "ratio", "to", "rounds", "frames", "per", "second"]
    assert fast.split() == ["fast", "1.5", "-", "3", "123,456"]
    assert slow.split() == ["slow", "12", "8.00", "fast", "3", "-"]
    assert "frames per second" not in head2 and absent.split() == ["absent", "-", "-", "0"]
    assert note == "note: absent: not measured: no such thing"


def test_roofline_is_the_least_time_over_the_time_taken():
    """2 GFLOP at 100 GFLOP/s take 20 ms, 0.1 GB at 10 GB/s take 10 ms."""
    row = Row("r", "L 4", 60.0, work={"matmul_gflops": 2.0, "copy_gbytes": 0.1})
    (entry,) = report.to_dict("scan", True, ENVIRONMENT, [row])["rows"]
    assert entry["roofline"] == pytest.approx(0.5) and "work" not in entry
