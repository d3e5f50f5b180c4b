"""What is said about the machine."""

import json
import mmap
import sys

import pytest
import torch

from videopred.bench import machine
from videopred.bench.machine import MIB


def test_environment_says_what_explains_a_number(monkeypatch):
    monkeypatch.setattr(machine, "peaks", lambda rounds: {"copy_gbytes": 1.0})
    told = machine.environment(1)
    assert json.loads(json.dumps(told)) == told
    assert told["threads"] == torch.get_num_threads()
    assert told["torch"] == torch.__version__
    assert told["cpu"] and told["platform"] and told["python"] and told["peaks"]


def test_peaks_count_work_over_the_best_time(monkeypatch):
    monkeypatch.setattr(machine, "compare", lambda functions, rounds, title: {name: [2.0, 0.5] for name in functions})
    assert machine.peaks(2, side=10, frames=2, megabytes=1) == {
        "matmul_gflops": pytest.approx(2 * 1000 / 0.5 / 1e9),
        "conv3x3_gflops": pytest.approx(2 * 9 * 64 * 64 * 32 * 32 * 2 / 0.5 / 1e9),
        "copy_gbytes": pytest.approx(2 * MIB / 0.5 / 1e9),
    }


def test_peaks_run():
    assert all(value > 0 for value in machine.peaks(1, side=16, frames=1, megabytes=1).values())


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_resident_memory_sees_a_block():
    before = machine.resident_mib()
    block = mmap.mmap(-1, 64 * MIB)  # malloc might serve memory that is resident already
    for _ in range(64):
        block.write(b"1" * MIB)
    after = machine.resident_mib()
    assert before is not None and after is not None
    assert after - before == pytest.approx(64, rel=0.1)


@pytest.mark.skipif(sys.platform == "win32", reason="has no resource module")
def test_where_there_is_no_proc_the_most_ever_held_is_told(monkeypatch):
    now = machine.resident_mib()
    monkeypatch.setattr(machine, "Path", lambda path: (_ for _ in ()).throw(OSError()))
    most = machine.resident_mib()
    assert now is not None and most is not None and most >= 0.9 * now


def test_where_nothing_tells_it_is_none(monkeypatch):
    monkeypatch.setattr(machine, "Path", lambda path: (_ for _ in ()).throw(OSError()))
    monkeypatch.setitem(sys.modules, "resource", None)
    assert machine.resident_mib() is None
