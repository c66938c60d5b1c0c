from __future__ import annotations

import gc
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pytest_evalcheck.engine import timeout
from pytest_evalcheck.engine.timeout import CellTimeout, time_limit

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no alarms on this platform")


class Restored:
    def __init__(self, seconds: float) -> None:
        self.seconds, self.restored = seconds, False

    def __enter__(self) -> None:
        pass

    def __exit__(self, *raised: object) -> None:
        time.sleep(self.seconds)
        self.restored = True


def alarm() -> tuple[Any, float]:
    return signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)[0]


@pytest.fixture(autouse=True)
def nothing_is_left_of_a_limit() -> Iterator[None]:
    before = alarm()
    yield
    assert alarm() == before


def test_code_that_does_not_end_is_ended() -> None:
    with pytest.raises(CellTimeout), time_limit(0.1):
        time.sleep(30)


def test_code_that_swallows_the_first_error_gets_another() -> None:
    def stubborn() -> None:
        try:
            time.sleep(30)
        except BaseException:
            time.sleep(30)

    with pytest.raises(CellTimeout), time_limit(0.1):
        stubborn()


def test_what_is_being_restored_is_not_interrupted() -> None:
    resource = Restored(1.5)
    with pytest.raises(CellTimeout), time_limit(0.1), resource:
        time.sleep(30)
    assert resource.restored


@pytest.mark.parametrize("place", ["finalizer", "collector"])
def test_an_alarm_where_python_drops_errors_comes_again_at_once(
    place: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeout, "_AGAIN", 60.0)

    class Finalized:
        def __del__(self) -> None:
            time.sleep(0.1)

    def slow(phase: str, info: dict[str, int]) -> None:
        time.sleep(0.1)

    def reached() -> None:
        if place == "finalizer":
            Finalized()
        else:
            gc.callbacks.append(slow)
            request.addfinalizer(lambda: gc.callbacks.remove(slow))
            gc.collect(0)
        time.sleep(30)

    with pytest.raises(CellTimeout), time_limit(0.05):
        reached()


def test_an_exit_around_the_limit_is_no_reason_to_wait() -> None:
    class Outer:
        def __enter__(self) -> None:
            pass

        def __exit__(self, *raised: object) -> None:
            with pytest.raises(CellTimeout), time_limit(0.05):
                time.sleep(30)

    started = time.monotonic()
    with Outer():
        pass
    assert time.monotonic() - started < 0.9


def test_no_alarm_leaves_a_timer_behind_wherever_it_comes() -> None:
    ended = 0
    for step in range(4000):
        try:
            with time_limit(1e-9 + step * 1e-7):
                for _ in range(step % 50):
                    pass
        except CellTimeout:
            ended += 1
        assert alarm() == (signal.SIG_DFL, 0.0), step
    with pytest.raises(CellTimeout), time_limit(1e-9):
        time.sleep(30)


@pytest.mark.parametrize("delay", range(1, 400, 7))
def test_an_alarm_at_the_border_of_the_block_is_the_limit_or_nothing(
    delay: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeout, "_SHORTEST", delay * 1e-6)
    for _ in range(20):
        try:
            with time_limit(1e-9):
                pass
        except CellTimeout:
            pass
        assert alarm() == (signal.SIG_DFL, 0.0)


@pytest.mark.parametrize("seconds", [1e9, 1e18, 1e300, float("inf"), None, 0])
def test_a_long_limit_is_a_long_limit(seconds: float | None) -> None:
    with time_limit(seconds):
        time.sleep(0.01)


@pytest.mark.parametrize("seconds", [-1.0, float("nan")])
def test_what_is_no_time_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="expected seconds"):
        time_limit(seconds)


def test_a_limit_that_is_extended_counts_anew() -> None:
    def extends() -> None:
        with time_limit(0.2) as limit:
            time.sleep(0.1)
            limit.extend(0.5)
            time.sleep(30)

    started = time.monotonic()
    with pytest.raises(CellTimeout):
        extends()
    assert 0.6 <= time.monotonic() - started < 5


def test_a_limit_can_start_and_end_in_its_block() -> None:
    def starts_late() -> None:
        with time_limit(None) as limit:
            limit.extend(0.1)
            time.sleep(30)

    with pytest.raises(CellTimeout):
        starts_late()
    with time_limit(0.1) as limit:
        limit.extend(None)
        time.sleep(0.3)


def test_the_outer_limit_goes_on_after_the_inner_one() -> None:
    def nested() -> None:
        with time_limit(0.3):
            with time_limit(20):
                time.sleep(0.1)
            time.sleep(30)

    started = time.monotonic()
    with pytest.raises(CellTimeout):
        nested()
    assert 0.25 <= time.monotonic() - started < 5


def test_the_outer_limit_ends_the_inner_block() -> None:
    started = time.monotonic()
    with pytest.raises(CellTimeout), time_limit(0.2), time_limit(20):
        time.sleep(30)
    assert time.monotonic() - started < 5


@contextmanager
def alarm_of_others(seconds: float) -> Iterator[list[int]]:
    """The list of the alarms that have come: one is due after these seconds."""
    rung: list[int] = []
    previous = signal.signal(signal.SIGALRM, lambda number, _: rung.append(number))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield rung
    finally:
        signal.signal(signal.SIGALRM, previous)


def test_a_timer_of_others_goes_on() -> None:
    with alarm_of_others(0.2) as rung:
        with pytest.raises(CellTimeout), time_limit(0.05):
            time.sleep(30)
        assert not rung
        time.sleep(0.4)
        assert rung == [signal.SIGALRM]


def test_a_timer_of_others_that_ended_the_block_does_not_come_again() -> None:
    with alarm_of_others(0.1) as rung:
        with pytest.raises(CellTimeout), time_limit(20):
            time.sleep(30)
        time.sleep(0.1)
        assert not rung


@pytest.mark.parametrize(
    ("take", "says"),
    [
        (lambda: signal.signal(signal.SIGALRM, signal.SIG_IGN), "it took SIGALRM for itself"),
        (lambda: signal.alarm(0), "it changed the timer of SIGALRM"),
        (lambda: signal.setitimer(signal.ITIMER_REAL, 100), "it changed the timer of SIGALRM"),
        (lambda: signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM}), "it blocked SIGALRM"),
    ],
    ids=["handler", "alarm", "timer", "mask"],
)
def test_code_that_takes_the_alarm_is_noticed_and_it_is_restored(take: Any, says: str) -> None:
    with time_limit(50) as limit:
        take()
    assert limit.disturbed == says

    def repairs() -> None:
        with time_limit(0.1) as limit:
            take()
            assert limit.repair() == says
            time.sleep(30)

    with pytest.raises(CellTimeout):
        repairs()
    assert signal.SIGALRM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_watchers_learn_what_limit_is_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float | None] = []
    monkeypatch.setattr(timeout, "watchers", [seen.append])
    with time_limit(5) as limit:
        limit.extend(7)
    assert seen == [5, 7, None]
