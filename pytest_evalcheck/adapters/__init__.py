"""Objects of known libraries become records, without importing a library that is not imported already."""

from __future__ import annotations

import importlib
import inspect
import sys
from typing import Any

from pytest_evalcheck.adapters.lookup import adapter_for, adapter_of
from pytest_evalcheck.adapters.protocols import metric as metric_protocols
from pytest_evalcheck.errors import nearest_word
from pytest_evalcheck.expectations.call_log import called
from pytest_evalcheck.expectations.failures import TargetError
from pytest_evalcheck.kinds.common.calling import describe
from pytest_evalcheck.kinds.common.kind import KindSpec
from pytest_evalcheck.kinds.registry import kind_of

_PROTOCOLS = {"metric": metric_protocols}


def record(kind: str, made: Any) -> Any:
    """The record of what the factory of a target of this kind returned.

    Raises:
        TargetError: when it is neither a record, nor an object of a library that is known, nor one whose methods tell
            what it is.
    """
    spec = kind_of(kind)
    known, is_record = made, isinstance(made, spec.record)
    if is_record:
        known = spec.wrapped(made) if spec.wrapped else None
        if known is None:
            return made
    adapt = adapter_for(kind, known)
    if adapt is not None:
        return called(adapt, made)
    if is_record and spec.incomplete:
        raise spec.incomplete(made)
    protocols = _protocols(spec)
    if protocols is not None and protocols.recognises(made):
        return called(protocols.record, made)
    raise TargetError(
        f"the factory returned {describe(made)}",
        expected=spec.expected,
        actual=repr(made)[:120],
        detail=_hint(spec, made),
        cause="factory",
    )


def by_design(kind: str, made: Any) -> dict[str, str]:
    """By code: what the documentation of a library says that this object does otherwise; empty for an unknown one."""
    adapt = adapter_for(kind, made)
    look = getattr(sys.modules.get(getattr(adapt, "__module__", "")), "by_design", None)
    return dict(look(made)) if look is not None else {}


def _protocols(spec: KindSpec) -> Any:
    """The module that describes objects of a kind by their methods; None where there is none."""
    return importlib.import_module(spec.protocols) if spec.protocols else _PROTOCOLS.get(spec.name)


def _hint(spec: KindSpec, made: Any) -> str:
    names = [name for name in dir(made) if not name.startswith("_")]
    methods = [name for name in names if callable(inspect.getattr_static(made, name, None))]
    missing = [name for name in spec.methods if name not in methods]
    if not missing:
        return spec.complete_hint
    near = {name: nearest_word(name, methods, cutoff=0.6) for name in missing}
    likely = [f"{match}() for {name}" for name, match in near.items() if match]
    return f"Describe it: {spec.partial_hint}" + (f", perhaps with {', '.join(likely)}." if likely else ".")


def recognised(kind: str, thing: Any) -> bool:
    """Return whether objects of a class, or a function, become records of this kind: by an adapter, or by a protocol.

    Nothing is called.
    """
    if isinstance(thing, type) and any(adapter_of(kind, base) for base in thing.__mro__):
        return True
    protocols = _protocols(kind_of(kind))
    if protocols is None:
        return False
    look = protocols.protocol_of if isinstance(thing, type) else protocols.protocol_of_function
    return look(thing) is not None
