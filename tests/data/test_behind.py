"""Work behind the caller: in order, in another thread, bounded, its errors heard."""

import threading

import pytest

from videopred.data.behind import behind


def test_all_is_done_in_order_in_another_thread_when_the_block_ends():
    done = []
    with behind(lambda i, j: done.append((i, j, threading.get_ident())), ahead=2) as hand:
        for i in range(50):
            hand(i, -i)
    assert [(i, j) for i, j, _ in done] == [(i, -i) for i in range(50)]
    assert {ident for *_, ident in done} != {threading.get_ident()}


def test_the_caller_waits_when_enough_is_waiting():
    gate, handed = threading.Event(), []

    def caller():
        with behind(lambda i: gate.wait(10), ahead=2) as hand:
            for i in range(9):
                hand(i)
                handed.append(i)

    thread = threading.Thread(target=caller)
    thread.start()
    thread.join(0.2)
    assert thread.is_alive() and len(handed) <= 3  # one at work, two waiting
    gate.set()
    thread.join(10)
    assert handed == list(range(9))


@pytest.mark.parametrize("more", [0, 100])
def test_an_error_reaches_the_caller_as_it_was_and_later_work_is_dropped(more):
    done = []

    def work(i):
        if i == 1:
            raise OSError(28, "No space left on device")
        done.append(i)

    with pytest.raises(OSError, match="No space left") as caught, behind(work, ahead=2) as hand:
        for i in range(2 + more):
            hand(i)
    assert done == [0]
    assert caught.traceback[-1].name == "work"  # where it happened


def test_an_error_of_the_caller_drops_what_waits():
    gate, done = threading.Event(), []
    with pytest.raises(KeyboardInterrupt), behind(lambda i: (gate.wait(10), done.append(i)), ahead=8) as hand:
        for i in range(8):
            hand(i)
        threading.Timer(0.1, gate.set).start()
        raise KeyboardInterrupt
    assert done in ([], [0]) and threading.active_count() <= 2  # the timer may still be ending
