"""A document with its choices in another order: the lists of choices are, and the right answer moves along."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

from pytest_evalcheck.expectations.failures import NotApplicable


def reordered(
    document: Any,
    order: Sequence[int],
    choices: Callable[[Any], Sequence[str]],
    gold: Callable[[Any], Any],
) -> Any:
    """Return a document whose i-th choice is the choice ``order[i]`` of this one.

    Lists of the texts of the choices are reordered wherever they are, with a list that marks each as right (1) or wrong
    (0), and labels keep their place. The field of the right answer is found by trial: an index, a label, or the number
    of a place counted from 1. Where choices are marked, the answer of a task may be the same index for all documents.

    Raises:
        NotApplicable: where the fields of the document do not hold the choices, or their texts are in the prompt as
            one text.
    """
    before, right = list(choices(document)), gold(document)
    wanted = [before[place] for place in order]
    if not isinstance(document, Mapping) or not isinstance(right, int) or len({*before}) != len(before):
        raise NotApplicable("the choices of this document cannot be reordered: give ec.Task(reordered=...)")
    moved = order.index(right)
    changed = copy.deepcopy(dict(document))
    lists = [(holder, key) for holder, key in _lists(changed) if list(holder[key]) == before]
    marks = [(holder, key) for holder, key in _lists(changed) if _marks(holder[key], len(before))]
    for holder, key in (*lists, *marks):
        holder[key] = [holder[key][place] for place in order]
    for trial in (changed, *_with_answer(changed, right, moved)) if lists else ():
        try:
            if list(choices(trial)) == wanted and gold(trial) == moved:
                return trial
        except Exception:  # a field that holds something else
            continue
    if lists and marks:
        return changed
    raise NotApplicable("no field of this document holds its choices as a list: give ec.Task(reordered=...)")


def _marks(values: Sequence[Any], count: int) -> bool:
    return len(values) == count and {0, 1} == {value if isinstance(value, (int, float)) else None for value in values}


def _lists(part: MutableMapping[str, Any]) -> Iterator[tuple[MutableMapping[str, Any], str]]:
    for key, value in part.items():
        if isinstance(value, list):
            yield part, key
        elif isinstance(value, MutableMapping):
            yield from _lists(value)


def _with_answer(document: dict[str, Any], right: int, moved: int) -> Iterator[dict[str, Any]]:
    labels = [holder[key] for holder, key in _lists(document)]
    for name, value in document.items():
        tables: list[list[Any]] = [
            list(range(100)),
            [str(each) for each in range(100)],
            [str(each) for each in range(1, 101)],
        ]
        tables += [list(range(1, 101)), [*"ABCDEFGHIJ"], [*"abcdefghij"], *labels]
        for table in tables:
            if len(table) > max(right, moved) and table[right] == value and not isinstance(value, bool):
                yield {**document, name: table[moved]}
