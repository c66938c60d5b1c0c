"""What a failure has in common with others of the same root cause."""

from __future__ import annotations

import re

from pytest_evalcheck.expectations.failures import CheckFailure


def signature_of(code: str, failure: CheckFailure) -> str:
    """What a failure of a check has in common with others of the same root cause, over all cases that show it.

    It holds the code, what was compared, and what kinds of values differ or which function raised which error. Numbers,
    indices, NaN and infinity, and names of dtypes stand in it as ``#``.

    >>> signature_of("EC202", CheckFailure("the value after 3 batches", contrast="NaN"))
    'EC202: the value after # batches: NaN'
    """
    return ": ".join(part for part in (code, without_numbers(failure.topic), failure.contrast) if part)


def without_numbers(text: str) -> str:
    """A text in which numbers, indices and names of dtypes are ``#``, and so are lists of them."""
    text = _NUMBER.sub("#", " ".join(text.split()))
    while (shorter := _SEVERAL.sub("#", text)) != text:
        text = shorter
    return text


_NUMBER = re.compile(
    r"(?<![\w#])(?:torch\.)?"
    r"(?:b?float\d+|u?int\d+|complex\d+|[-+]?(?:nan|inf(?:inity)?|\d[\d_]*(?:\.\d+)?(?:e[-+]?\d+)?))(?!\w)"
)
_SEVERAL = re.compile(r"[\[(]#(?:, #)*,?[\])]|\[\]|#, #")
