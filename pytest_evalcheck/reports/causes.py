"""Root causes: which red cells of a report are one mistake, and why they are taken to be.

Two red cells share a cause when one of these holds, in this order:

1. they have the same `Cell.cause`, in one target, or with the same `Cell.signature` in several;
2. they are about the same error, raised at the same line (`Failure.origin`), and show no number that differs;
3. they are the same check of one target on several devices;
4. a more basic check of the same target failed on the same device (`Failure.after`);
5. they are the same upstream fault, or the same failure of the same class; where no class is known, the same values of
   the same comparison.

A cause is what these relations connect. All this is evidence and no proof: a second mistake may stand behind the
first, so that every cell stays listed, with the relation by which it is there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from pytest_evalcheck.reports.severity import rank

_OF_ONE_TARGET = ("timeout", "died", "inputs")
"""Causes that say how a cell ended and not what is wrong: two targets share nothing by them."""
_TRIED = ("", "refused")
"""Causes of cells that tried the property of their check; only between those is one check more basic than another."""


class FailedCell(Protocol):
    """The fields of `results.Cell` that it may share with others; `results` imports this module."""

    @property
    def target(self) -> str: ...
    @property
    def check(self) -> str: ...
    @property
    def code(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def cause(self) -> str: ...
    @property
    def upstream(self) -> str: ...
    @property
    def class_name(self) -> str: ...
    @property
    def signature(self) -> str: ...
    @property
    def severity(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def failure(self) -> Any: ...


Cell = TypeVar("Cell", bound=FailedCell)


@dataclass(frozen=True)
class Cause(Generic[Cell]):
    """The red cells of one root cause, the most basic failure first."""

    cells: tuple[Cell, ...]
    whys: tuple[str, ...]
    """The relation of each cell to the first: ``probably caused by the EC101 failure``; empty for the first."""

    @property
    def first(self) -> Cell:
        """The most basic failure: the one to look at, and to mend."""
        return self.cells[0]

    @property
    def alike(self) -> tuple[Cell, ...]:
        """The cells that fail exactly as the first one does, which is among them: they need no line of their own."""
        return tuple(cell for cell in self.cells if _identity(cell) == _identity(self.first))

    @property
    def others(self) -> Mapping[str, tuple[Cell, ...]]:
        """The other cells, by why they are here."""
        found: dict[str, list[Cell]] = {}
        for cell, why in zip(self.cells, self.whys, strict=True):
            if _identity(cell) != _identity(self.first):
                found.setdefault(why, []).append(cell)
        return {why: tuple(cells) for why, cells in found.items()}


def causes_of(cells: Iterable[Cell]) -> tuple[Cause[Cell], ...]:
    """The root causes of some failed cells, the most severe first, and then that with the most cells."""
    nodes = sorted(cells, key=lambda cell: (cell.target, cell.device, cell.code))
    links: list[dict[int, str]] = [{} for _ in nodes]
    follows: set[int] = set()
    for key, words in _SHARED:
        buckets: dict[tuple[str, ...], list[int]] = {}
        for index, cell in enumerate(nodes):
            if found := key(cell):
                buckets.setdefault(found, []).append(index)
        for first, *rest in buckets.values():
            for other in rest:
                _link(links, first, other, words(nodes[first]))
    failed = {(cell.target, cell.device, cell.code): index for index, cell in enumerate(nodes) if cell.cause in _TRIED}
    for index, cell in enumerate(nodes):
        basic = _basic(cell, nodes, failed)
        if basic is not None:
            follows.add(index)
            _link(links, basic, index, f"probably caused by the {nodes[basic].code} failure")
    causes = [_cause(nodes, links, follows, part) for part in _parts(links)]
    return tuple(sorted(causes, key=lambda cause: (rank(cause.first.severity), -len(cause.cells))))


def repeats(cell: Cell, earlier: Iterable[Cell]) -> tuple[Cell, str] | None:
    """The most basic of the ``earlier`` cells with the cause of this one, and why they share it.

    None where there is none, or where ``cell`` is itself the most basic failure of its cause.
    """
    cause = next(cause for cause in causes_of([*earlier, cell]) if cell in cause.cells)
    return None if cause.first == cell else (cause.first, cause.whys[cause.cells.index(cell)])


def _identity(cell: FailedCell) -> tuple[str, str]:
    # The reason belongs to it, since a view writes it once for all cells that are alike.
    return cell.cause or cell.code, cell.reason


def _cause_in_target(cell: FailedCell) -> tuple[str, ...]:
    return (cell.target, cell.cause) if cell.cause else ()


def _cause_and_signature(cell: FailedCell) -> tuple[str, ...]:
    shared = cell.cause and cell.signature and cell.cause not in _OF_ONE_TARGET
    return (cell.cause, cell.signature) if shared and not _origin(cell) else ()


def _origin(cell: FailedCell) -> tuple[str, ...]:
    origin = cell.failure.origin if cell.failure else ""
    return (origin,) if " at " in origin else ()


def _error_alone(cell: FailedCell) -> tuple[str, ...]:
    """The origin of an error beside which no number differs: with such a number it is another cause."""
    return () if cell.severity == "number" else _origin(cell)


def _check(cell: FailedCell) -> tuple[str, ...]:
    return cell.target, cell.code, cell.check, cell.cause


def _upstream(cell: FailedCell) -> tuple[str, ...]:
    return (cell.upstream,) if cell.upstream else ()


def _values(cell: FailedCell) -> tuple[str, ...]:
    """The two values of a comparison, where no class tells whose failure it is."""
    values = (cell.failure.expected, cell.failure.actual) if cell.failure and not _origin(cell) else ()
    return (cell.signature, *values) if any(values) and cell.signature and not cell.class_name else ()


def _class(cell: FailedCell) -> tuple[str, ...]:
    return (cell.class_name, cell.signature) if cell.class_name and cell.signature else ()


_SHARED: Sequence[tuple[Callable[[FailedCell], tuple[str, ...]], Callable[[FailedCell], str]]] = (
    (_cause_in_target, lambda cell: f"the same cause: {cell.cause}"),
    (_cause_and_signature, lambda cell: f"the same cause: {cell.cause}"),
    (_error_alone, lambda cell: f"the same error: {_origin(cell)[0]}"),
    (_check, lambda _: "the same check on another device"),
    (_upstream, lambda cell: f"the same upstream fault: {cell.upstream}"),
    (_values, lambda _: "the same values of the same comparison"),
    (_class, lambda cell: f"the same failure of the same class: {cell.class_name}"),
)
"""Keys that cells of one cause share (empty where one does not apply), each with its words."""


def _basic(cell: FailedCell, nodes: Sequence[FailedCell], failed: Mapping[tuple[str, str, str], int]) -> int | None:
    """The cell of the first more basic check that failed, unless `_are_apart` tells the two from each other."""
    if cell.failure is None or cell.cause not in _TRIED:
        return None
    for code in cell.failure.after:
        index = failed.get((cell.target, cell.device, code))
        if index is not None and nodes[index] != cell and not _are_apart(cell, nodes[index]):
            return index
    return None


def _are_apart(cell: FailedCell, basic: FailedCell) -> bool:
    """Return whether errors were raised at two lines, one is an error and the other a difference, or numbers differ."""
    one, two = _origin(cell), _origin(basic)
    if one or two:
        return one != two if one and two else bool(one) and _differs(basic)
    names = [_NAME.search(each.signature) for each in (cell, basic) if each.kind == "loop"]
    return len(names) == 2 and all(names) and len({name[1] for name in names if name}) == 2


def _differs(cell: FailedCell) -> bool:
    """Return whether a signature has a kind of difference, such as ``another number``, behind the code and the id."""
    return len(cell.signature.split(": ")) > 2


_NAME = re.compile(r" for ('[^']*')$")
"""The name of a number, at the end of a signature."""


def _link(links: list[dict[int, str]], one: int, two: int, why: str) -> None:
    links[one].setdefault(two, why)
    links[two].setdefault(one, why)


def _parts(links: Sequence[Mapping[int, str]]) -> list[list[int]]:
    """The connected parts of the graph, each in ascending order."""
    seen: set[int] = set()
    parts = []
    for start in range(len(links)):
        if start not in seen:
            part = _walk(links, start)
            seen.update(part)
            parts.append(sorted(part))
    return parts


def _walk(links: Sequence[Mapping[int, str]], start: int) -> dict[int, str]:
    """The cells that are connected with one, each with the relation over which it was reached; nearest first."""
    found = {start: ""}
    queue = [start]
    for index in queue:
        for other, why in links[index].items():
            if other not in found:
                found[other] = why
                queue.append(other)
    return found


def _cause(
    nodes: Sequence[Cell], links: Sequence[Mapping[int, str]], follows: set[int], part: list[int]
) -> Cause[Cell]:
    root = next((index for index in part if index not in follows), part[0])
    row = nodes[root].target, nodes[root].device
    order = sorted(part, key=lambda index: (index != root, (nodes[index].target, nodes[index].device) != row, index))
    whys = _walk(links, root)
    return Cause(tuple(nodes[index] for index in order), tuple(whys[index] for index in order))
