"""Cases as text: valid Python for readers, JSON for programs, and a short blob for a replay."""

from __future__ import annotations

import base64
import binascii
import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any


class InvalidBlob(ValueError):
    """A text is not a replay blob of this suite."""


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
    """Return whether a value is made of numbers, text, None, tuples, lists and dicts alone."""
    if isinstance(value, (tuple, list)):
        return all(map(is_plain, value))
    if isinstance(value, dict):
        return all(is_plain(k) and is_plain(v) for k, v in value.items())
    return value is None or type(value) in (bool, int, float, str, bytes)


def case_fields(case: Any) -> dict[str, Any]:
    """The fields of a case by name; a mapping of fields stays as it is."""
    if isinstance(case, Mapping):
        return dict(case)
    return {f.name: getattr(case, f.name) for f in fields(case)}


def case_literal(case: Any) -> list[str]:
    """A case as keyword arguments, one a line: ``samples=[(0, 1)]``, ``batches=[[0]]``."""
    return [f"{name}={literal(value)}" for name, value in case_fields(case).items()]


def to_plain_json(value: Any) -> Any:
    """A plain value as JSON types. What JSON lacks is an object with one key.

    ``{"tuple": [...]}``, ``{"dict": [[key, value], ...]}``, ``{"float": "nan"}`` and ``{"bytes": "00ff"}``.
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, tuple):
        return {"tuple": [to_plain_json(item) for item in value]}
    if isinstance(value, list):
        return [to_plain_json(item) for item in value]
    if isinstance(value, dict):
        return {"dict": [[to_plain_json(key), to_plain_json(item)] for key, item in value.items()]}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    return value


def from_plain_json(value: Any) -> Any:
    """The value that `to_plain_json` wrote.

    Raises:
        ValueError: when an object has another key.
    """
    if isinstance(value, list):
        return [from_plain_json(item) for item in value]
    if not isinstance(value, dict):
        return value
    ((tag, inner),) = value.items()
    if tag == "float":
        return float(inner)
    if tag == "tuple":
        return tuple(from_plain_json(item) for item in inner)
    if tag == "dict":
        return {from_plain_json(key): from_plain_json(item) for key, item in inner}
    if tag == "bytes":
        return bytes.fromhex(inner)
    raise ValueError(f"unknown tag {tag!r}; expected float, tuple, dict or bytes")


def encode_case(code: str, case: Any) -> str:
    """A case of a check as text that a shell takes unquoted."""
    data = json.dumps([code, to_plain_json(case_fields(case))], separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(zlib.compress(data, 9)).decode().rstrip("=")


def decode_case(blob: str) -> tuple[str, dict[str, Any]]:
    """The code of the check and the fields of its case.

    Raises:
        InvalidBlob: when the text is no blob, or cut off.
    """
    try:
        padded = blob + "=" * (-len(blob) % 4)
        code, encoded = json.loads(zlib.decompress(base64.b64decode(padded.encode(), altchars=b"-_", validate=True)))
        decoded = from_plain_json(encoded)
        if not isinstance(code, str) or not isinstance(decoded, dict):
            raise ValueError
    except (ValueError, TypeError, KeyError, binascii.Error, zlib.error) as error:
        raise InvalidBlob(
            f"{blob[:40]!r} is not a replay blob; expected the complete text after --evalcheck-replay= in a failure"
        ) from error
    return code, decoded
