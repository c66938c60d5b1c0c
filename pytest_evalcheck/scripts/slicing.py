"""The steps that a value depends on, by reading them or by what they changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_evalcheck.scripts.literals import Unwritable
from pytest_evalcheck.scripts.tape import Step


@dataclass(frozen=True)
class World:
    """What the processes of one group do: for each rank its steps, the last of which gives its result."""

    ranks: tuple[list[Step], ...]
    last: tuple[Step, ...]


def needed(
    steps: Sequence[Step],
    wanted: Iterable[int],
    *,
    whole: bool = False,
    changed: bool = False,
    rank: tuple[int, int] | None = None,
) -> list[Step]:
    """The steps that must run so that the results of ``wanted`` come out as they did, in their order.

    A step is among them that made a value which is needed, or that may have changed one. What another step holds on
    to, such as the members of a collection, is needed with it, and so is all that changes it later. What ranks call
    together comes from their processes: what it needs is left out, unless the ``whole`` is asked for. With ``changed``
    the wanted value is one that later steps have changed. What a ``rank`` has changed in a process of its own is not
    changed in others.
    """
    values = set(wanted)
    # What comes after the last of them was not computed from it.
    last = len(steps) if changed else max(values, default=-1)
    kept = [
        step
        for step in steps[: last + 1]
        if (whole or step.world is None or step.number in values)
        and (step.rank in (None, rank) or not step.changes or step.world is not None)
    ]
    while True:
        before = len(values)
        for step in reversed(kept):
            if step.number in values or step.changes & values or step.always:
                if whole or step.world is None:
                    values |= step.uses
                values |= {step.number} if step.keeps else set()
        if len(values) == before:
            break
    kept = [step for step in kept if step.number in values or step.changes & values or step.always or step.seeds]
    # The generators are set before each factory; what is set again at once, or in the end, is not used.
    return [step for index, step in enumerate(kept) if not (step.seeds and _is_unused(step, kept[index + 1 :]))]


def with_worlds(steps: Sequence[Step], found: Mapping[int, World]) -> list[Step]:
    """All steps of a script: those of its own, and those of its ranks, the last of which stand among the former too."""
    own = [step for step in steps if step.world is None]
    return [*own, *(step for world in found.values() for rank in world.ranks for step in rank)]


def worlds(steps: Sequence[Step], main: Sequence[Step]) -> dict[int, World]:
    """By number, the groups of processes whose results the steps of a script use.

    Raises:
        Unwritable: where results of two calls of one group are used: a process has one result.
    """
    found = {}
    for group in sorted({step.world[0] for step in main if step.world}):
        # The ranks of one call follow each other, rank 0 first.
        firsts = {step.number - step.world[1] for step in main if step.world and step.world[0] == group}
        if len(firsts) > 1:
            raise Unwritable("results of several calls of the same processes")
        (first,) = firsts
        last = [step for rank, step in enumerate(steps[first:]) if step.world == (group, rank)]
        ranks = tuple(needed(steps, {step.number}, whole=True, rank=step.rank) for step in last)
        found[group] = World(ranks, tuple(last))
    return found


def _is_unused(seed: Step, following: Sequence[Step]) -> bool:
    other = next((step for step in following if not step.seeds or step.text == seed.text), None)
    return other is None or other.seeds
