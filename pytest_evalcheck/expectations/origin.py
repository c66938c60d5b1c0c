"""The origin of an error, as one line of text that two errors with one cause have in common."""

from __future__ import annotations

import dis
import importlib.util
import linecache
import os
import sys
import sysconfig
import traceback
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from pytest_evalcheck.errors import safe_text

_HERE = Path(__file__).parent.parent
_TENSOR_LIBRARIES = ("torch", "numpy")
_INSTALLED = ("site-packages", "dist-packages")


def place_of(error: BaseException) -> str:
    """``KeyError at composer/models/huggingface.py:413 (HuggingFaceModel.eval_forward)``.

    Of an error that was raised from another one, it is that of the other one: many errors pass through one line that
    only explains them. The place is the innermost frame of the code under test: not of this package (except its fixes,
    which users import), of the standard library, of torch or of numpy. Where all frames are of those, it is the
    innermost one; without any frame there is only the type.
    """
    *_, error = causes_of_error(error)
    frames = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    name = type(error).__name__
    if not frames:
        return name
    own = [place for place in frames if is_under_test(place[0].co_filename)]
    code, line = (own or frames)[-1]
    return f"{name} at {_short(code.co_filename)}:{line} ({getattr(code, 'co_qualname', code.co_name)})"


def causes_of_error(error: BaseException) -> list[BaseException]:
    """Return an error, the one that it was raised from, and so on."""
    found = [error]
    while (cause := found[-1].__cause__) is not None and cause not in found:
        found.append(cause)
    return found


def innermost_arguments(error: BaseException) -> list[Any]:
    """Return what the innermost function of code under test was called with, beside its object."""
    frames = _own_frames(error)
    if not frames:
        return []
    code, values = frames[-1][0].f_code, frames[-1][0].f_locals
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return [values[name] for name in names if name in values]


def raising_line(error: BaseException) -> str:
    """Return the source of the line of the code under test that raised an error; '' where there is none to read."""
    for frame, number in _own_frames(error)[-1:]:
        file = frame.f_code.co_filename
        source = linecache.getline(file, number).strip()
        return f"raised at {_short(file)}:{number}: {source}" if source else ""
    return ""


def raised_by_library(error: BaseException, file: str) -> bool:
    """Return whether the innermost frame of code under test is in another file than this one, that of the target.

    An error without such a frame is of a call that does not fit, or of this package.
    """
    return any(frame.f_code.co_filename != file for frame, _ in _own_frames(error)[-1:])


def _own_frames(error: BaseException) -> list[tuple[FrameType, int]]:
    """The frames of code under test and their lines, of the error that another one was raised from."""
    frames = traceback.walk_tb(causes_of_error(error)[-1].__traceback__)
    return [(frame, line) for frame, line in frames if is_under_test(frame.f_code.co_filename)]


def raised_by_adapter(error: BaseException) -> bool:
    """Return whether a statement of an adapter of this package raised an error with a text."""
    return _raised_in("adapters", error)


def raised_by_check(error: BaseException) -> bool:
    """Return whether a check raised an error, or the one that it was raised from, to see what the code does then."""
    return any(_raised_in("kinds", each) for each in causes_of_error(error))


def _raised_in(folder: str, error: BaseException) -> bool:
    code = raising_code(error)
    return code is not None and Path(code.co_filename).is_relative_to(_HERE / folder)


def missing_import(error: BaseException) -> str:
    """Return the reason if an error is that of an import, or was raised from one, else ''."""
    if not (found := _import_error(error)):
        return ""
    text = safe_text(found, str, most=300).strip().splitlines()
    reason = ": ".join([type(found).__name__, *text[:1]])
    absent = absent_packages(error)
    return f"{reason}. Name what the target needs: requires={absent!r}" if absent else reason


def absent_packages(error: BaseException) -> tuple[str, ...]:
    """Return the name of the package that an import asked for, where it is not installed."""
    found = _import_error(error)
    package = ((found.name if found else "") or "").partition(".")[0]
    try:
        return (package,) if package and importlib.util.find_spec(package) is None else ()
    except (ImportError, ValueError):
        return ()


def _import_error(error: BaseException) -> ImportError | None:
    return next((each for each in causes_of_error(error) if isinstance(each, ImportError)), None)


def callers_line(error: BaseException) -> str:
    """Return the line of the user's own code from which an installed library raised an error; else ''."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_under_test(frame.filename)]
    own = [frame for frame in frames if not _installed(Path(frame.filename))]
    if not own or own[-1] is frames[-1]:
        return ""
    return f"called at {_short(own[-1].filename)}:{own[-1].lineno}: {own[-1].line}"


def raised_on_purpose(error: BaseException) -> bool:
    """Return whether code under test raised an error by a ``raise`` or an ``assert`` of its own, with a text.

    An error of an operator, such as of two shapes that do not fit, comes out of a call that its innermost frame makes,
    or out of torch or numpy.
    """
    code = raising_code(error)
    return code is not None and is_under_test(code.co_filename)


def raising_code(error: BaseException) -> CodeType | None:
    """The code whose ``raise`` or ``assert`` raised an error with a text; None for one of an operator or of C code.

    The bytecode of the innermost frame says which it was, for code without sources too.
    """
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None or not safe_text(error, str).strip():
        return None
    code = last.tb_frame.f_code
    return code if dis.opname[code.co_code[last.tb_lasti]] == "RAISE_VARARGS" else None


@cache
def is_under_test(file: str) -> bool:
    """Return whether a file is neither of the standard library, of a library of tensors, nor of this one."""
    path = Path(file)
    if file.startswith("<"):
        return False
    if path.is_relative_to(_HERE):
        return path.is_relative_to(_HERE / "fixes")
    installed = _installed(path)
    if installed:
        return installed[0] not in _TENSOR_LIBRARIES
    return not is_standard(file)


@cache
def is_standard(file: str) -> bool:
    """Return whether a file is of the standard library."""
    path = Path(file)
    return not _installed(path) and any(path.is_relative_to(folder) for folder in _standard_library())


@cache
def _standard_library() -> tuple[str, ...]:
    return tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib")} - {sys.prefix})


def _installed(path: Path) -> tuple[str, ...]:
    """The parts of a path below the folder of installed distributions; empty for other files."""
    for index, part in enumerate(path.parts):
        if part in _INSTALLED:
            return path.parts[index + 1 :]
    return ()


@cache
def _short(file: str) -> str:
    installed = _installed(Path(file))
    if installed:
        return "/".join(installed)
    try:
        shorter = os.path.relpath(file)
    except ValueError:  # another drive
        return file
    return file if shorter.startswith("..") else shorter.replace(os.sep, "/")
