"""A way to make an object, and what it was given where that was seen."""

from __future__ import annotations

import ast
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import Parameter
from typing import Any

import pytest_evalcheck
from pytest_evalcheck.discovery.inputs import Inputs
from pytest_evalcheck.kinds.metric.record import Metric


@dataclass(frozen=True, kw_only=True)
class Observed:
    """One way to make an object, and the arguments that it was given in an example or in a run."""

    construction: str
    """The source that makes it, such as ``Accuracy(task="binary")``; for a function its name or a partial of it."""
    imports: tuple[str, ...] = ()
    """The lines that the construction needs."""
    setup: tuple[str, ...] = ()
    """Methods that are called without arguments before it is fed, such as ``increment`` of a tracker of epochs."""
    calls: Sequence[Mapping[str, Any]] = ()
    """By parameter: the arguments of each call that feeds the object."""
    one_sample: bool = False
    """True if it is fed with one sample a call; ``calls`` has those of an example as one batch of lists."""
    inputs: tuple[Inputs, ...] = ()
    """Strategies of the rows that a run has given to it."""
    origin: str = ""
    """From where these rows are."""
    described: str = ""
    """The source of its record, with the object as ``made``, where its methods have names of their own."""
    how: str = "called as in a run that was watched"
    """Origin of the construction."""
    label: str = ""
    """Options that were changed, in words."""
    rank: int = 0
    """Its place among the sources of inputs, the surest first."""

    @cached_property
    def call(self) -> ast.Call:
        """The call of its construction; one without arguments where it is a name."""
        node = ast.parse(self.construction, mode="eval").body
        return node if isinstance(node, ast.Call) else ast.Call(node, [], [])

    @property
    def options(self) -> dict[str, Any]:
        """The keyword arguments of its construction that are literals."""
        return _literals((each.arg, each.value) for each in self.call.keywords)

    def given(self, parameters: Sequence[Parameter]) -> dict[str, Any]:
        """The options by name, also those that have their default or are given by position."""
        defaults = {each.name: each.default for each in parameters if each.default is not each.empty}
        placed = zip((each.name for each in parameters), self.call.args, strict=False)
        return {**defaults, **_literals(placed), **self.options}

    def with_options(self, changed: Mapping[str, Any], *, is_class: bool) -> Observed:
        """Return the way with some options changed, in its label, too."""
        name, call = self.construction, ast.parse(self.construction, mode="eval").body
        label = ", ".join(f"{key}={value!r}" for key, value in changed.items())
        if not isinstance(call, ast.Call):
            construction = written(name, changed, is_class=is_class)
        else:
            added = ast.parse(written("f", changed), mode="eval").body
            assert isinstance(added, ast.Call)
            call.keywords = [*(each for each in call.keywords if each.arg not in changed), *added.keywords]
            construction = ast.unparse(call)
        imports = self.imports if is_class else tuple(dict.fromkeys(("from functools import partial", *self.imports)))
        return replace(self, construction=construction, imports=imports, label=label)

    def evaluated(self, source: str, names: Mapping[str, Any]) -> Any:
        """Return the value of a source, with its imports and some names."""
        known: dict[str, Any] = {"ec": pytest_evalcheck}
        exec("\n".join(self.imports), known)
        return eval(source, {**known, **names})

    def make(self) -> Any:
        """Return a new object, or its record where methods or samples are not the usual ones."""
        made = self.evaluated(self.construction, {})
        for method in self.setup_of(made):
            getattr(made, method)()
        if self.described:
            made = eval(self.described, {"ec": pytest_evalcheck, "made": made})
        return Metric.of(made, one_sample=True) if self.one_sample else made

    def setup_of(self, made: Any) -> tuple[str, ...]:
        """Return the methods that are called after it was made; a module of torch is evaluated in its eval mode.

        A metric that is a module has no modes: what is meant is a module whose call is the metric.
        """
        module = (made.source or made) if isinstance(made, Metric) else made
        has_modes = "torch" in sys.modules and isinstance(module, sys.modules["torch"].nn.Module)
        accumulates = any(callable(getattr(module, name, None)) for name in ("update", "compute"))
        return (
            self.setup if accumulates or not has_modes or {"eval", "train"} & {*self.setup} else (*self.setup, "eval")
        )


def written(name: str, given: Mapping[str, Any], *, is_class: bool = True) -> str:
    """Return the source of a call of a class, or of a partial of a function, where anything is given."""
    texts = (
        f"{key}=float({str(value)!r})" if isinstance(value, float) and not math.isfinite(value) else f"{key}={value!r}"
        for key, value in given.items()
    )
    if is_class:
        return f"{name}({', '.join(texts)})"
    return f"partial({', '.join((name, *texts))})" if given else name


def _literals(named: Iterable[tuple[str | None, ast.expr]]) -> dict[str, Any]:
    found = {}
    for name, node in named:
        try:
            found[name or ""] = ast.literal_eval(node)
        except ValueError:  # an object
            continue
    return {name: value for name, value in found.items() if name}
