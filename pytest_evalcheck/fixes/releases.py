"""Releases of libraries that the fixes know, and what is said of another one."""

from __future__ import annotations

import importlib.metadata
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

KNOWN = {
    "lm_eval": ("0.4.13", "0.5"),
    "mosaicml": ("0.32", "0.33"),
    "torchtune": ("0.6.1", "0.7"),
    "transformers": ("5", "6"),
}
"""By distribution, the first release that is known and the first that is not."""


@contextmanager
def known_release(library: str, used_by: str) -> Iterator[None]:
    """Import names of a library within the block: of a release that is not known, a sentence says so.

    A name that the release lacks is an ImportError with the sentence; where all names exist, it is a warning.
    """
    first, end = KNOWN[library]
    try:
        version = importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:  # the import says what is missing
        yield
        return
    known = f"{used_by} knows {library} from {first} and before {end}, and {version} is installed"
    try:
        yield
    except ImportError as error:
        raise ImportError(f"{known}, which lacks what it needs: {error}", name=error.name) from error
    if not numbers(first) <= numbers(version) < numbers(end):
        advice = f"its results were not compared there: try the checks that {used_by} is shown by"
        warnings.warn(f"{known}; {advice}", UserWarning, stacklevel=3)


def numbers(version: str) -> tuple[int, ...]:
    """The first three numbers of a version, for comparison."""
    return tuple(map(int, re.findall(r"\d+", version)[:3]))
