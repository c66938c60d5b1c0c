"""What ``--evalcheck-explain`` prints."""

from __future__ import annotations

import pytest

from pytest_evalcheck.errors import nearest
from pytest_evalcheck.kinds.common.check import explain
from pytest_evalcheck.kinds.registry import shipped


def explanation(word: str) -> str:
    """The documentation of the checks whose code or name begins with ``word``.

    Raises:
        pytest.UsageError: when there is none, with the nearest.
    """
    found = [made for made in shipped() if made.code.startswith(word.upper()) or made.name.startswith(word)]
    if not found:
        known = [text for made in shipped() for text in (made.code, made.name)]
        raise pytest.UsageError(f"no check has a code or name that begins with {word!r}{nearest(word.upper(), known)}")
    return "\n\n\n".join(explain(made) for made in found)
