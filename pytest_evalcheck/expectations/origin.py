"""The origin of an error, as one line of text that two errors with one cause have in common."""

from __future__ import annotations

import dis
import os
import sys
import sysconfig
import traceback
from functools import cache
from pathlib import Path
from types import CodeType

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
    seen = {id(error)}
    while error.__cause__ is not None and id(error.__cause__) not in seen:
        error = error.__cause__
        seen.add(id(error))
    frames = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    name = type(error).__name__
    if not frames:
        return name
    own = [place for place in frames if is_under_test(place[0].co_filename)]
    code, line = (own or frames)[-1]
    return f"{name} at {_short(code.co_filename)}:{line} ({getattr(code, 'co_qualname', code.co_name)})"


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
    return not any(path.is_relative_to(folder) for folder in _standard_library())


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
