"""A strategy of samples that writes its own source, as a file of targets has it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import pytest_evalcheck
from pytest_evalcheck import strategies as es
from pytest_evalcheck.discovery.schemas import Schema
from pytest_evalcheck.strategies.samples import Arguments, SampleStrategy

_HOMES = {"es": es, "ec": pytest_evalcheck}


@dataclass(frozen=True, repr=False)
class Inputs:
    """A call of a function of ``es`` or ``ec``, or of a method of what came before it.

    >>> ES.binary(of="labels").as_numpy()
    es.binary(of="labels").as_numpy()

    Two of the same source are equal, and share one strategy and its samples.
    """

    source: str
    before: Inputs | None = field(default=None, compare=False)
    name: str = field(default="", compare=False)
    args: tuple[Any, ...] = field(default=(), compare=False)
    options: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def __getattr__(self, name: str) -> Callable[..., Inputs]:
        if name.startswith("_"):
            raise AttributeError(name)
        return partial(self._called, name)

    def _called(self, name: str, /, *args: Any, **options: Any) -> Inputs:
        given = ", ".join([*map(repr, args), *(f"{key}={_written(value)}" for key, value in options.items())])
        return Inputs(f"{self.source}.{name}({given})", self, name, args, options)

    def __repr__(self) -> str:
        return self.source

    @property
    def strategy(self) -> SampleStrategy:
        """The strategy.

        Raises:
            Exception: what the function or the method raises.
        """
        return _made(self)  # type: ignore[no-any-return]

    @property
    def collated(self) -> tuple[Schema, ...]:
        """The schemas of the arguments that it collates; empty if that raises."""
        return _collated(self)

    @property
    def has_tensors(self) -> bool:
        """Return whether it collates tensors, which a library without torch takes as arrays."""
        return any(each.container == "tensor" for each in self.collated)

    def ignoring(self, label: Any) -> Inputs:
        """Return it with another ignored label; with none where that is no whole number, or its function takes none.

        >>> ES.binary(of="labels", ignore_index=-100).as_numpy().ignoring(-1)
        es.binary(of="labels", ignore_index=-1).as_numpy()
        """
        if self.before is None:
            return self
        options = {name: value for name, value in self.options.items() if name != "ignore_index"}
        takes_one = self.before is ES and "ignore_index" in inspect.signature(getattr(es, self.name)).parameters
        if takes_one and isinstance(label, int):
            options["ignore_index"] = label
        return self.before.ignoring(label)._called(self.name, *self.args, **options)


ES, EC = Inputs("es"), Inputs("ec")
"""Homes of functions that make strategies: an attribute of one is such a function, and gives `Inputs`."""


def no_ties(inputs: Inputs) -> Inputs:
    """Return inputs whose scores are unique: a tie of candidates has no right order."""
    return inputs.replace(distinct=_First())


class _First:
    def __call__(self, sample: Any) -> Any:
        return sample[0]

    def __repr__(self) -> str:
        return "lambda sample: sample[0]"


def _written(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) and value.isidentifier() else repr(value)


@cache
def _made(inputs: Inputs) -> Any:
    if inputs.before is None:
        return _HOMES[inputs.source]
    args = [_with_strategies(each) for each in inputs.args]
    return getattr(_made(inputs.before), inputs.name)(*args, **inputs.options)


def _with_strategies(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_strategies(each) for name, each in value.items()}
    return value.strategy if isinstance(value, Inputs) else value


@cache
def _collated(inputs: Inputs) -> tuple[Schema, ...]:
    try:
        strategy = inputs.strategy
        collated = Arguments.of(strategy.collate(strategy.fixed(max(3, strategy.min_samples))))
    except Exception:
        return ()
    return tuple(Schema.of(value) for value in (*collated.args, *collated.kwargs.values()))
