from __future__ import annotations

import gc
import sys
import threading
import time
import weakref

import pytest

import pytest_evalcheck.live_objects as live_objects_module
from pytest_evalcheck.live_objects import all_objects, live_objects, made_to_stay, new_objects_only


class Tracked:
    pass


def test_objects_are_found_by_their_type() -> None:
    kept = [Tracked() for _ in range(3)]
    assert {id(item) for item in live_objects(lambda cls: cls is Tracked)} == {id(item) for item in kept}


@pytest.mark.slow
def test_threads_that_build_tuples_go_on() -> None:
    """While a list of all objects lives, CPython cannot resize a tuple that another thread is building."""
    errors: list[BaseException] = []
    stop = threading.Event()

    def build() -> None:
        while not stop.is_set():
            try:
                tuple(time.sleep(0.0005) for _ in range(40))  # like asking the workers of a pool: others run meanwhile
            except SystemError as error:
                errors.append(error)

    thread = threading.Thread(target=build)
    thread.start()
    interval = sys.getswitchinterval()
    try:
        for _ in range(20):
            live_objects(lambda cls: cls is Tracked)
    finally:
        stop.set()
        thread.join()
    assert not errors
    assert sys.getswitchinterval() == interval


def test_the_collector_does_not_start_while_threads_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.11 waits for ever then: both need the lock of the list of threads."""
    list_frames, seen = sys._current_frames, []
    monkeypatch.setattr(sys, "_current_frames", lambda: (seen.append(gc.isenabled()), list_frames())[1])
    live_objects(lambda cls: cls is Tracked)
    assert seen == [False]
    assert gc.isenabled()


def test_the_collector_goes_through_new_objects_alone() -> None:
    old = Tracked()
    with new_objects_only():
        new = Tracked()
        assert gc.get_freeze_count()
        assert live_objects(lambda cls: cls is Tracked) == [new]
        with new_objects_only():
            pass
        assert gc.get_freeze_count(), "the outer one goes on"
        all_objects()
        assert not gc.get_freeze_count()
        assert set(live_objects(lambda cls: cls is Tracked)) == {old, new}
    assert not gc.get_freeze_count()


def test_what_others_have_frozen_stays_frozen() -> None:
    gc.freeze()
    try:
        with new_objects_only():
            all_objects()
        assert gc.get_freeze_count()
    finally:
        gc.unfreeze()


def test_few_objects_that_are_made_to_stay_cost_no_look_at_all_others() -> None:
    with made_to_stay():
        _kept = [Tracked() for _ in range(1000)]
    assert gc.isenabled()
    assert not gc.get_freeze_count()


def test_many_objects_that_are_made_to_stay_are_passed_over() -> None:
    try:
        with made_to_stay():
            _kept = [Tracked() for _ in range(live_objects_module._MANY)]
        assert gc.get_freeze_count()
    finally:
        all_objects()


def test_what_is_made_to_stay_is_passed_over_and_its_garbage_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_objects_module, "_MANY", 0)
    with made_to_stay():
        assert not gc.isenabled()
        kept, garbage = Tracked(), Tracked()
        garbage.itself = garbage  # type: ignore[attr-defined]
        gone = weakref.ref(garbage)
        del garbage
    try:
        assert gc.isenabled()
        assert gone() is None
        assert live_objects(lambda cls: cls is Tracked) == []
        new = Tracked()
        with new_objects_only():
            newer = Tracked()
            assert live_objects(lambda cls: cls is Tracked) == [newer]
        assert set(live_objects(lambda cls: cls is Tracked)) == {kept, new, newer}, "a check lets all be looked at"
        with made_to_stay():
            pass
        assert live_objects(lambda cls: cls is Tracked) == []
    finally:
        all_objects()
    assert not gc.get_freeze_count()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with made_to_stay():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
        all_objects()
