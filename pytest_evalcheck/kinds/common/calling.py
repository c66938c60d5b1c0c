"""Calling the code under test: its errors are results, what is not its business passes through."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

from hypothesis.errors import HypothesisException

from pytest_evalcheck.errors import safe_text
from pytest_evalcheck.expectations.call_log import called
from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import CheckFailure, NotApplicable, NotCheckable, NotImportable, TargetError
from pytest_evalcheck.expectations.origin import is_standard, is_under_test, missing_import, raising_code
from pytest_evalcheck.kinds.common.call_facts import note_call, note_result
from pytest_evalcheck.kinds.common.forked_process import end_forked_process


def attempt(where: str, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result of a call into the target, or `Raised`.

    ``SystemExit`` is no refusal: code that ends the process takes the whole evaluation with it.
    """
    note_call(where, call, args, kwargs)
    try:
        result = called(call, *args, **kwargs)
    except (HypothesisException, NotApplicable, CheckFailure):
        raise
    except SystemExit as error:
        raise TargetError(
            f"{where} tried to end the process",
            actual=f"SystemExit({error.code!r})",
            expected="a result or an error",
            cause="exit",
        ) from error
    except BaseException as error:
        if not isinstance(error, Exception) and not _is_panic(error):
            raise
        pass_on_what_cannot_be_simulated(error)
        if why := missing_import(error):
            raise NotImportable(why) from error
        result = Raised(error, where)
    finally:
        end_forked_process()
    note_result(result)
    return result


def _is_panic(error: BaseException) -> bool:
    """Return whether a Rust extension has panicked, for which PyO3 raises what is no `Exception`."""
    return type(error).__module__ == "pyo3_runtime"


def is_clear_refusal(error: BaseException) -> bool:
    """Return whether an error was raised on purpose, with a text: by a ``raise`` of any code, not by an operator.

    A lookup, an attribute or an assertion that fails is a mistake of the code, whoever raises its error; so is an
    argument of another type, and a division by 0, where Python's own code or a library below raises it. Code under test
    that raises a ``TypeError`` or a ``ZeroDivisionError`` itself says why. A ``ValueError`` is about a value, whatever
    else it is: libraries have errors that are a ``TypeError``, too. A compiled validator raises a class of its own.
    """
    code = raising_code(error)
    if code is None or _is_panic(error):
        return isinstance(error, ValueError) and bool(safe_text(error, str).strip()) and _is_of_library(type(error))
    if isinstance(error, ValueError):
        return True
    if isinstance(error, (ArithmeticError, TypeError)):
        return is_under_test(code.co_filename)
    mistakes = (AssertionError, AttributeError, LookupError, NameError)
    return not isinstance(error, mistakes) and not is_standard(code.co_filename)


def _is_of_library(error: type) -> bool:
    """Return whether a library other than Python's own and those of tensors defines a class."""
    file = getattr(sys.modules.get(error.__module__), "__file__", None)
    return file is not None and is_under_test(file)


def pass_on_what_cannot_be_simulated(error: BaseException) -> None:
    """Nothing can be said of code that needs what a simulated device is not.

    Raises:
        NotCheckable: where the simulation refused.
    """
    errors = sys.modules.get("pytest_evalcheck.devices.errors")  # it imports torch, and collecting must not
    if errors is not None and isinstance(error, errors.CannotSimulate):
        raise NotCheckable(f"not checkable here: {error}") from error


def format_exception_location(error: BaseException, file: str) -> str:
    """The error on one line with the innermost line of the user's file, or else of any file."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename == file] or list(frames)
    # Without the notes, in which Hypothesis prints its own view of the case.
    message = safe_text(error, str, most=2000).strip().splitlines()
    text = ": ".join([type(error).__name__, *message[:1]])[:300]
    return f"{text}  ({relative(own[-1].filename)}:{own[-1].lineno})" if own else text


def relative(path: str) -> str:
    """A path from the working folder, where that is shorter."""
    try:
        shorter = os.path.relpath(path)
    except ValueError:  # another drive
        return path
    return shorter if not shorter.startswith("..") else path


def describe(made: Any) -> str:
    """Describe what a factory returned."""
    if made is None:
        return "None (does it end without `return`?)"
    if isinstance(made, type):
        return f"the class {made.__name__}, not an instance of it"
    return f"an object of type {type(made).__module__}.{type(made).__qualname__}"
