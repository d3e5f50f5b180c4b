"""Turns, medians and ratios, on functions whose duration is known because the clock is ours."""

import gc

import pytest

from videopred.bench import rounds


class Machine:
    """A clock that its functions advance; `slowness` is what a round costs them all."""

    def __init__(self, monkeypatch):
        self.now, self.calls, self.slowness = 0.0, [], 1.0
        monkeypatch.setattr(rounds.time, "perf_counter", lambda: self.now)

    def function(self, name: str, *durations: float):
        def run():
            own = sum(call == name for call in self.calls)
            self.calls.append(name)
            self.now += durations[own % len(durations)] * self.slowness

        return run


@pytest.fixture
def machine(monkeypatch):
    return Machine(monkeypatch)


def test_the_second_call_of_a_turn_is_timed_and_warm_up_is_not(machine):
    turns = [9.0, 5.0] * rounds.WARMUP + [7.0, 1.0, 7.0, 2.0, 7.0, 3.0]
    assert rounds.compare({"a": machine.function("a", *turns)}, 3) == {"a": pytest.approx([1.0, 2.0, 3.0])}


def test_functions_take_turns_and_every_other_round_runs_backward(machine):
    rounds.compare({name: machine.function(name, 1.0) for name in "abc"}, 2)
    turns = "".join(machine.calls[::2])
    assert machine.calls[::2] == machine.calls[1::2]
    assert turns[-6:] in ("abccba", "cbaabc")


def test_a_ratio_does_not_see_a_machine_that_changes_speed():
    speeds = [1.0, 10.0, 1.0, 1.0, 10.0, 10.0, 3.0]
    seconds = {"a": [3 * s for s in speeds], "b": [2 * s for s in speeds]}
    assert rounds.ratio(seconds["a"], seconds["b"]) == pytest.approx(1.5)


def test_a_ratio_is_the_median_of_ratios_not_the_ratio_of_medians():
    mine, its = [1.0, 4.0, 9.0], [1.0, 8.0, 3.0]  # ratios 1, 0.5, 3; medians 4 and 3
    assert rounds.ratio(mine, its) == 1.0
    assert rounds.median_ms(mine) == 4000.0


def test_rows_compare_with_the_one_that_is_named():
    a, b = rounds.to_rows({"a": [0.002, 0.004, 0.006], "b": [0.001, 0.001, 0.001]}, "L 4", "b")
    assert (a.name, a.shape, a.rounds, a.ratio_to) == ("a", "L 4", 3, "b")
    assert (a.median_ms, a.ratio) == (pytest.approx(4.0), pytest.approx(4.0))
    assert (b.name, b.median_ms, b.ratio_to, b.ratio) == ("b", pytest.approx(1.0), None, None)


def test_no_garbage_is_collected_meanwhile_and_it_is_after_an_error():
    seen = []

    def fail():
        seen.append(gc.isenabled())
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        rounds.compare({"a": fail}, 1)
    assert seen == [False]
    assert gc.isenabled()
