"""Where an error was raised, as one line of text: what two errors with one cause have in common."""

from __future__ import annotations

import os
import sys
import sysconfig
import traceback
from functools import cache
from pathlib import Path

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
    own = [place for place in frames if _is_under_test(place[0].co_filename)]
    code, line = (own or frames)[-1]
    return f"{name} at {_short(code.co_filename)}:{line} ({getattr(code, 'co_qualname', code.co_name)})"


@cache
def _is_under_test(file: str) -> bool:
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
