"""Calling the factory of a target: afresh for every example, or once a cell."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any

import pytest
from hypothesis.errors import HypothesisException

from pytest_evalcheck import adapters
from pytest_evalcheck.engine.timeout import CellTimeout
from pytest_evalcheck.expectations.call_log import called
from pytest_evalcheck.expectations.failures import TargetError
from pytest_evalcheck.expectations.origin import place_of
from pytest_evalcheck.fixes.patches.applying import apply_to_imported
from pytest_evalcheck.guard import Snapshot
from pytest_evalcheck.kinds.common.calling import format_exception_location, pass_on_what_cannot_be_simulated
from pytest_evalcheck.kinds.common.process_state import same_random_numbers
from pytest_evalcheck.kinds.registry import kind_of
from pytest_evalcheck.targets.target import Target


class TargetFactory:
    """Objects that one cell builds of its target."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._pristine: dict[Any, Any] = {}
        """By the device that it was built on."""
        self._last: Any = None
        self.adapted: Any = None
        """The object of a library that an adapter has described last; None for a record that its author has written."""
        self._record: Any = None
        self.changed: frozenset[str] = frozenset()
        """The callables of its record that the author has replaced."""

    def record(self, arguments: Mapping[str, Any]) -> Any:
        """A new record. A target that is built once a cell is copied, and its original never used."""
        kind = self._target.kind
        if self._target.fresh == "example":
            return self._adapt(self._another(arguments))
        device = arguments.get("device")
        if device not in self._pristine:
            self._pristine[device] = self._make(arguments)
        pristine = self._pristine[device]
        spec = kind_of(kind)
        if not spec.copyable and isinstance(pristine, spec.record):
            raise TargetError(
                "a record of callables cannot be copied: its callables would go on to use the model of the original",
                actual=f'fresh="check" and an ec.{type(pristine).__name__}',
                expected='the model itself, or fresh="example"',
                cause="factory",
            )
        return self._adapt(called(copy.deepcopy, pristine))

    @property
    def class_name(self) -> str:
        """The class of the object of a library, or the function itself, with its module; empty without one."""
        return "" if self.adapted is None else f"{self._described.__module__}.{self._described.__qualname__}"

    @property
    def is_declared(self) -> bool:
        """Return whether an adapter or a protocol tells by its class, methods or parameters of what kind it is.

        Of a function whose rows are values of types it does not tell what else than predictions and targets has rows.
        """
        known = self.adapted is not None and adapters.recognised(self._target.kind, self._described)
        return known and not (self._target.inputs.is_guessed and self._takes_more)

    @property
    def _takes_more(self) -> bool:
        """Return whether a function requires more than two arguments."""
        if isinstance(self._described, type):
            return False
        parameters = inspect.signature(self._described).parameters.values()
        named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        return sum(each.default is each.empty and each.kind in named for each in parameters) > 2

    @property
    def takes_device(self) -> bool:
        """Return whether what is made can be on a device, by `.to` or an argument. True where nothing is known."""
        if self.adapted is None or hasattr(self.adapted, "to"):
            return True
        try:
            return "device" in inspect.signature(self._described).parameters
        except (TypeError, ValueError):  # in C
            return False

    @property
    def place(self) -> tuple[str, int] | None:
        """The file and the line of that class or function, or of the one that a factory which has not run names.

        None where there is no source.
        """
        try:
            return _source_of(inspect.unwrap(self._named if self.adapted is None else self._described))
        except (AttributeError, TypeError, OSError):
            return None

    @property
    def _named(self) -> Any:
        factory: Any = self._target.factory
        named = (factory.__globals__.get(name) for name in factory.__code__.co_names)
        return next((each for each in named if isinstance(each, type) or inspect.isroutine(each)), None)

    @property
    def own_code(self) -> str:
        """The class or the function under test that the file of the target defines; empty for one of a library."""
        parts = getattr(self._record, "__dict__", {}).values() if self.adapted is None else (self._described,)
        for part in parts:
            if not (inspect.isroutine(part) or inspect.isclass(part)):
                continue
            made = inspect.unwrap(getattr(part, "__func__", part))
            try:
                own = inspect.getsourcefile(made) == self._target.file
            except TypeError:  # it is written in C
                continue
            if own and not made.__name__.startswith("<"):
                return str(made.__qualname__.rpartition("<locals>.")[2])
        return ""

    @property
    def _described(self) -> Any:
        made = self.adapted
        while isinstance(made, partial):
            made = made.func
        return made if inspect.isroutine(made) else type(made)

    def _another(self, arguments: Mapping[str, Any]) -> Any:
        made = self._make(arguments)
        keeps_nothing = made is None or inspect.isroutine(made) or isinstance(made, partial)
        if keeps_nothing or not kind_of(self._target.kind).accumulates:
            return made
        if made is self._last:
            raise TargetError(
                "the factory returns the same object every time",
                actual=f"the same {type(made).__name__} for every example, with the data of the example before",
                expected="a new one: create it inside the factory",
                cause="factory",
            )
        self._last = made
        return made

    def _adapt(self, made: Any) -> Any:
        spec = kind_of(self._target.kind)
        self.adapted = made
        if isinstance(made, spec.record):
            self.adapted = spec.wrapped(made) if spec.wrapped else getattr(made, "stock", None)
            self.changed = getattr(made, "changed", frozenset())
        self._record = adapters.record(self._target.kind, made)
        return self._record

    def snapshot(self) -> Snapshot | None:
        """Return a snapshot of the original, where the target is built once a cell and was built already."""
        if not self._pristine:
            return None
        records = {device: adapters.record(self._target.kind, made) for device, made in self._pristine.items()}
        states = {device: made.contents() for device, made in records.items()}
        return Snapshot(states if len(states) > 1 else next(iter(states.values())), "state")

    def _make(self, arguments: Mapping[str, Any]) -> Any:
        try:
            apply_to_imported()
            with same_random_numbers():  # weights that are drawn are the same in every object, and in a replay
                made = called(self._target.factory, **arguments)
            if not apply_to_imported():
                return made
            with same_random_numbers():  # the factory itself has imported what is patched now
                return called(self._target.factory, **arguments)
        except (KeyboardInterrupt, CellTimeout, pytest.skip.Exception, HypothesisException):
            raise
        except BaseException as error:
            pass_on_what_cannot_be_simulated(error)
            raise TargetError(
                "the factory raised an error",
                actual=format_exception_location(error, self._target.file),
                expected="no error",
                detail=self._remedy(error),
                cause="factory",
                origin=place_of(error),
            ) from error

    def _remedy(self, error: BaseException) -> str:
        if isinstance(error, ModuleNotFoundError) and error.name:
            return f"Where it may be missing, name what the target needs: requires=({error.name.partition('.')[0]!r},)."
        if "device" not in self._target.arguments and re.search(r"\b(cuda|nvidia|mps|xpu)\b", str(error), re.I):
            return "A factory with the argument device is given the device of the run: `def target(device): ...`."
        return ""


@lru_cache(maxsize=16)  # each check of a target asks, and a file is parsed for the line of a class
def _source_of(made: Any) -> tuple[str, int] | None:
    file = inspect.getsourcefile(made)
    return (file, max(1, inspect.getsourcelines(made)[1])) if file else None
