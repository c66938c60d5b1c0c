"""Cases as text: valid Python for people, and a short blob for a replay."""

from __future__ import annotations

import base64
import binascii
import json
import math
import zlib
from dataclasses import fields
from typing import Any


class InvalidBlob(ValueError):
    """A replay blob does not say what this suite can replay."""


def literal(value: Any) -> str:
    """A plain value as valid Python; ``nan`` and ``inf`` are written as calls of ``float``."""
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, tuple):
        return "(" + ", ".join(map(literal, value)) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, list):
        return "[" + ", ".join(map(literal, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(k)}: {literal(v)}" for k, v in value.items()) + "}"
    return repr(value)


def is_plain(value: Any) -> bool:
    """Whether a value is made of numbers, text, None, tuples, lists and dicts alone."""
    if isinstance(value, (tuple, list)):
        return all(map(is_plain, value))
    if isinstance(value, dict):
        return all(is_plain(k) and is_plain(v) for k, v in value.items())
    return value is None or type(value) in (bool, int, float, str, bytes)


def case_fields(case: Any) -> dict[str, Any]:
    """The fields of a case by name."""
    return {f.name: getattr(case, f.name) for f in fields(case)}


def case_literal(case: Any) -> list[str]:
    """A case as keyword arguments, one a line: ``samples=[(0, 1)]``, ``batches=[[0]]``."""
    return [f"{name}={literal(value)}" for name, value in case_fields(case).items()]


def encode_case(code: str, case: Any) -> str:
    """A case of a check as text that a shell takes unquoted."""
    data = json.dumps([code, _encode(case_fields(case))], separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(zlib.compress(data, 9)).decode().rstrip("=")


def decode_case(blob: str) -> tuple[str, dict[str, Any]]:
    """The code of the check and the fields of its case.

    Raises:
        InvalidBlob: when the text is no blob, or cut off.
    """
    try:
        padded = blob + "=" * (-len(blob) % 4)
        code, encoded = json.loads(zlib.decompress(base64.b64decode(padded.encode(), altchars=b"-_", validate=True)))
        decoded = _decode(encoded)
        if not isinstance(code, str) or not isinstance(decoded, dict):
            raise ValueError
    except (ValueError, TypeError, KeyError, binascii.Error, zlib.error) as error:
        raise InvalidBlob(
            f"{blob[:40]!r} is no replay blob; expected the text behind --evalcheck-replay= of a failure, copied whole"
        ) from error
    return code, decoded


def _encode(value: Any) -> Any:
    if isinstance(value, float):
        return {"f": str(value)} if not math.isfinite(value) else value
    if isinstance(value, tuple):
        return {"t": [_encode(v) for v in value]}
    if isinstance(value, list):
        return [_encode(v) for v in value]
    if isinstance(value, dict):
        return {"d": [[_encode(k), _encode(v)] for k, v in value.items()]}
    if isinstance(value, bytes):
        return {"b": value.hex()}
    return value


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(v) for v in value]
    if isinstance(value, dict):
        ((kind, inner),) = value.items()
        if kind == "f":
            return float(inner)
        if kind == "t":
            return tuple(_decode(v) for v in inner)
        if kind == "d":
            return {_decode(k): _decode(v) for k, v in inner}
        if kind == "b":
            return bytes.fromhex(inner)
        raise ValueError(kind)
    return value
