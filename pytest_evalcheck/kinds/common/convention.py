"""Ways to call a target: what else the documentation of a library allows, beside the way of its record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from pytest_evalcheck.errors import nearest, safe_text
from pytest_evalcheck.expectations.failures import NotApplicable

Record = TypeVar("Record")


@dataclass(frozen=True, init=False)
class Convention:
    """Another legal way to call what a record describes: some of its fields, and the sentence that makes it legal.

    >>> Convention("The arguments have public names.", update=lambda preds: None).changes.keys()
    dict_keys(['update'])
    """

    documented: str
    """The sentence of the documentation that says so, or says that it is not supported."""
    supported: bool
    """True if it may be used. One that is documented as unsupported is not tried."""
    changes: Mapping[str, Any]
    """The fields of the record that are others in this way."""

    def __init__(self, documented: str, /, *, supported: bool = True, **changes: Any) -> None:
        """``changes`` are fields of the record; without ``supported`` there are none.

        Raises:
            TypeError: where the sentence is missing, or where nothing is changed though it is supported.
        """
        if not isinstance(documented, str) or not documented.strip():
            raise TypeError(f"{safe_text(documented)}; expected the sentence of the documentation that allows it")
        if supported == (not changes):
            expected = "the fields of the record that it changes" if supported else "none: it is not supported"
            raise TypeError(f"{', '.join(changes) or 'no fields'}; expected {expected}")
        object.__setattr__(self, "documented", documented)
        object.__setattr__(self, "supported", supported)
        object.__setattr__(self, "changes", changes)


def require_conventions(record: Any) -> None:
    """Look whether the conventions of a record are ones.

    Raises:
        TypeError: where one is no `Convention`, or changes what is no field of the record.
    """
    names = [each.name for each in fields(record) if each.name != "conventions"]
    for name, convention in dict(record.conventions).items():
        if not isinstance(convention, Convention):
            raise TypeError(f"conventions has {name!r}: {safe_text(convention)}; expected an ec.Convention")
        for changed in convention.changes:
            if changed not in names:
                raise TypeError(
                    f"the convention {name!r} changes {changed!r}, which is not a field{nearest(changed, names)}"
                )


def supported(record: Any) -> dict[str, Convention]:
    """Return the conventions of a record that may be used, by name."""
    return {name: each for name, each in record.conventions.items() if each.supported}


def with_convention(record: Record, name: str) -> Record:
    """The record as it is called by one of its conventions; the empty name is its own way."""
    if not name:
        return record
    return replace(record, conventions={}, **record.conventions[name].changes)  # type: ignore[type-var, attr-defined]


def rotated_conventions(record: Any, first: int) -> Iterator[tuple[str, str]]:
    """The names of all conventions of a record and their sentences, from one of them on.

    Cases begin with different ones, so that one that fails does not hide the others.

    Raises:
        NotApplicable: where there are none.
    """
    known = [(name, f"allowed by: {each.documented}") for name, each in supported(record).items()]
    if not known:
        raise NotApplicable("no other way to call it is described")
    start = first % len(known)
    yield from (*known[start:], *known[:start])
