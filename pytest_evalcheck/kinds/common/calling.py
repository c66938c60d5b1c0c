"""Calling the code under test: its errors are results, what is not its business passes through."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from hypothesis.errors import HypothesisException

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import CheckFailure, NotApplicable, NotCheckable


class TargetError(CheckFailure):
    """The target could not be built or used at all. A known failure never covers it."""

    fault = True


def attempt(where: str, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result of a call into the target, or `Raised`.

    ``SystemExit`` is no refusal: code that ends the process takes the whole evaluation with it.
    """
    try:
        return call(*args, **kwargs)
    except (HypothesisException, NotApplicable, CheckFailure):
        raise
    except SystemExit as error:
        raise TargetError(
            f"{where} tried to end the process",
            actual=f"SystemExit({error.code!r})",
            expected="a result or an error",
            cause="exit",
        ) from error
    except Exception as error:
        pass_on_what_cannot_be_simulated(error)
        return Raised(error, where)


def pass_on_what_cannot_be_simulated(error: BaseException) -> None:
    """Nothing can be said of code that needs what a simulated device is not.

    Raises:
        NotCheckable: where the simulation refused.
    """
    errors = sys.modules.get("pytest_evalcheck.devices.errors")  # it imports torch, and collecting must not
    if errors is not None and isinstance(error, errors.CannotSimulate):
        raise NotCheckable(f"not checkable here: {error}") from error
