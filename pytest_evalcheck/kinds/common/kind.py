"""Kinds of target: one frozen record for everything that differs from kind to kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_evalcheck.expectations.comparison import Tolerance
from pytest_evalcheck.expectations.failures import TargetError
from pytest_evalcheck.kinds.common.subject import Subject
from pytest_evalcheck.strategies.samples import SampleStrategy


@dataclass(frozen=True, kw_only=True)
class KindOption:
    """A keyword that the targets of one kind take beside the common ones; its value becomes a field of the subject."""

    default: Any = None
    read: Callable[[Any, list[str]], Any] = lambda value, problems: value  # noqa: ARG005
    """From what the user gave, or the default, to the value; what is wrong with it is appended to the list."""


@dataclass(frozen=True, kw_only=True)
class KindSpec:
    """A kind of target: what its factories return, and what its checks are called with."""

    name: str
    record: type
    """Record of a target of this kind, such as ``ec.Metric``. Objects of libraries become one by an adapter."""
    subject: type[Subject]
    """Class of the subject that checks receive; its ``kind`` is the name of this kind."""
    checks: tuple[str, ...] = ()
    """The modules that hold its checks."""
    example: str
    """An example of ``inputs``, as source: ``multiclass(classes=5)``."""
    expected: str
    """Objects that a factory may return, for error messages."""
    methods: tuple[str, ...] = ()
    """The methods by which an object of another type may be described."""
    complete_hint: str = ""
    """Text for an object that has all these methods."""
    partial_hint: str = ""
    """Text for an object that has not."""
    adapters: Mapping[str, str] = field(default_factory=dict)
    """From the qualified name of a class to the module whose ``record(made)`` describes its objects."""
    protocols: str = ""
    """The module that describes objects of other classes by their methods: ``recognises(made)``, ``record(made)``."""
    tolerance: Tolerance = field(default_factory=Tolerance)
    accumulates: bool = False
    """True if its objects hold what they were fed with, so that each of them must be a new one."""
    copyable: bool = True
    """True if a record can be copied. One of callables around a model cannot: its copy would use the original."""
    inputs: SampleStrategy | None = None
    """The samples of a target that names none; None where a target must name them."""
    options: Mapping[str, KindOption] = field(default_factory=dict)
    wrapped: Callable[[Any], Any] | None = None
    """The object of a library that a record which is not complete stands for; None where the record is complete."""
    incomplete: Callable[[Any], TargetError] | None = None
    """The error for a record that is not complete and whose object no adapter knows."""


@dataclass(frozen=True, kw_only=True)
class Adapter:
    """Adapter from objects of a library to records of a kind."""

    kind: str
    cls: str
    """The qualified name of their class, such as ``torchmetrics.metric.Metric``; subclasses are included."""
    record: Callable[[Any], Any]
    """From the object to the record."""
