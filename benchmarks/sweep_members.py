"""The metrics of a library that a sweep puts into wrappers and collections: found by inference, one by one."""

from __future__ import annotations

import inspect
import pickle
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from pytest_evalcheck.discovery.inputs import Inputs
from pytest_evalcheck.discovery.proposals import Proposal
from pytest_evalcheck.discovery.search import discover
from pytest_evalcheck.strategies import Arguments, SampleStrategy

MODULES = tuple(
    f"torchmetrics.{name}"
    for name in (
        *("aggregation", "audio", "classification", "clustering", "image", "nominal", "regression", "retrieval"),
        *("segmentation", "shape", "text"),
    )
)


@dataclass(frozen=True)
class Member:
    """One configuration of one class."""

    construction: str
    imports: tuple[str, ...]
    source: Inputs
    """Its inputs, as their source says them."""
    setup: tuple[str, ...] = ()
    by_design: frozenset[str] = frozenset()
    """The codes of the checks that do not apply to it by itself."""

    @classmethod
    def of(cls, proposal: Proposal) -> Member:
        """From what was inferred."""
        design = frozenset(proposal.not_applicable)
        return cls(proposal.construction, proposal.imports, proposal.inputs, proposal.setup, design)

    @property
    def cls(self) -> str:
        """The name of its class, or of its function."""
        return str(self.origin.__name__)

    @property
    def origin(self) -> Any:
        """Its class, or the function."""
        return _origin(self)

    def make(self) -> Any:
        """A new object."""
        made = eval(self.construction, _names(self.imports))
        for method in self.setup:
            getattr(made, method)()
        return made

    @property
    def keeps_lists(self) -> bool:
        """Return whether one of its states is a list, to which every batch is appended."""
        return any(isinstance(value, list) for value in getattr(self.make(), "_defaults", {}).values())

    @property
    def inputs(self) -> SampleStrategy:
        """Its samples."""
        return self.source.strategy

    @property
    def value(self) -> Any:
        """Its value for some samples; None where it refuses them."""
        return _value(self, 0)

    @property
    def value_of_more(self) -> Any:
        """Its value for three samples more."""
        return _value(self, 3)


@cache
def _origin(member: Member) -> Any:
    made = member.make()
    function = made.func if isinstance(made, partial) else made
    return function if inspect.isfunction(function) else type(made)


@cache
def _value(member: Member, more: int) -> Any:
    made, inputs = member.make(), member.inputs
    batch = Arguments.of(inputs.collate(inputs.fixed(max(4, inputs.min_samples) + more)))
    try:
        made.update(*batch.args, **batch.kwargs)
        return made.compute()
    except Exception:
        return None


@cache
def _names(imports: tuple[str, ...]) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec("\n".join(imports), names)
    return names


def members(modules: Iterable[str], kept: Path | None = None) -> list[Member]:
    """All configurations of all classes of the modules; they are read from ``kept`` where that file exists."""
    if kept is not None and kept.exists():
        found: list[Member] = pickle.loads(kept.read_bytes())
        return found
    say = lambda text: print(text, file=sys.stderr, flush=True)  # noqa: E731
    proposals = discover([*modules], workers=1, progress=say).proposals
    found = list(dict.fromkeys(map(Member.of, proposals)))
    if kept is not None:
        kept.write_bytes(pickle.dumps(found))
    return found


def one_of_each_class(found: Iterable[Member]) -> list[Member]:
    """The first configuration of each class."""
    return list({member.cls: member for member in reversed(list(found))}.values())[::-1]
