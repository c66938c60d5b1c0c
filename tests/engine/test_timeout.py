from __future__ import annotations

import time

import pytest

from pytest_evalcheck.engine.timeout import CellTimeout, time_limit


class Lender:
    def __init__(self, seconds: float) -> None:
        self.seconds, self.given_back = seconds, False

    def __enter__(self) -> None:
        pass

    def __exit__(self, *raised: object) -> None:
        time.sleep(self.seconds)
        self.given_back = True


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


def test_what_is_being_given_back_is_not_interrupted() -> None:
    lender = Lender(1.5)
    with pytest.raises(CellTimeout), time_limit(0.1), lender:
        time.sleep(30)
    assert lender.given_back


def test_nothing_is_left_of_a_limit() -> None:
    with time_limit(0.2):
        pass
    time.sleep(0.4)
