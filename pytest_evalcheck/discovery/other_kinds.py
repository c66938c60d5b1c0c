"""Wrappers, decoders, loops and scorers among what runs have called, decided by a trial with the observed calls."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest_evalcheck
from pytest_evalcheck.discovery.control import written_into
from pytest_evalcheck.discovery.inputs import EC, ES, Inputs
from pytest_evalcheck.discovery.learned import construction_of, constructions, how_called, is_model, own_name
from pytest_evalcheck.discovery.of_the_call import is_number, named_leaves, names_of_the_call
from pytest_evalcheck.errors import UsageError
from pytest_evalcheck.expectations.comparison import EXACT, Tolerance, difference
from pytest_evalcheck.guard.mutation_guard import Snapshot
from pytest_evalcheck.kinds.common.process_state import isolated_process, other_clock, same_random_numbers
from pytest_evalcheck.kinds.loop.record import LoopData
from pytest_evalcheck.learning.streams import batches_of, calls_of, streams_seen
from pytest_evalcheck.learning.values import is_array
from pytest_evalcheck.learning.watching import Call, Seen

_ROWS = 6
"""Number of samples of a trial."""
_MANY = 32
"""Number of documents of one: a single row may be random, or end the process."""


@dataclass(frozen=True, kw_only=True)
class OfKind:
    """A target of another kind than a metric, as source of its parts."""

    kind: str
    construction: str
    imports: tuple[str, ...]
    described: str
    """The source of the record, with what was constructed as ``made``."""
    inputs: Inputs
    origin: str


def found(thing: Any, entry: Seen | None) -> list[OfKind]:
    """Return the targets of a class or a function that was called in runs, those that pass a trial."""
    if entry is None:
        return []
    tried = (_tried(thing, each) for each in _ways(thing, entry))
    return [*itertools.islice(filter(None, tried), 1)]


def _ways(thing: Any, entry: Seen) -> Iterator[OfKind]:
    package = entry.module.partition(".")[0]
    if not entry.is_class:
        yield from _targets_from_calls(thing, entry, "", 0, entry.name, (), package)
        return
    for number, construction, imports, alike in constructions(entry):
        calls = [call for each in alike for call in each.calls]
        yield from (
            OfKind(construction=construction, imports=(*imports, *more), described=described, inputs=inputs, **_DECODED)
            for call in calls
            for described, inputs, more in _decoders(call, package)
        )
        for method in dict.fromkeys(call.method for call in calls):
            yield from _targets_from_calls(thing, entry, method, number, construction, imports, package)


def _targets_from_calls(
    thing: Any, entry: Seen, method: str, made: int, construction: str, imports: tuple[str, ...], package: str
) -> Iterator[OfKind]:
    name = f"{entry.module}:{entry.name}" + (f".{method}" if method else "")
    calls = calls_of(entry, method, made)
    called = f"made.{method}" if method not in ("", "forward", "__call__") else "made"
    about = {key: value for key, value in (("made", made), ("types", entry.types)) if value}
    rows = partial(EC.learned, name, **about)
    origin = f"{how_called(calls[0][0])}; inputs made of rows of {calls[0][0]}" if calls else ""
    of_this = partial(OfKind, imports=imports, construction=construction, origin=origin)
    awaited = inspect.iscoroutinefunction(getattr(thing, method, None) if method else thing)
    given = [] if awaited else [pair for _, arguments in calls for pair in arguments.items()]
    for loader in dict.fromkeys(key for key, value in given if batches_of(value)):
        try:
            rest, more = construction_of("", {k: v for k, v in calls[0][1].items() if k != loader}, package)
        except UsageError:
            continue
        others = f", {rest[1:-1]}" if rest[1:-1] else ""
        whole = called.replace("made", construction, 1)
        call = f"made({loader}=data.loader(batch_size))"
        for value in (call, f"{{'value': {call}}}"):
            yield of_this(
                kind="loop",
                construction=f"partial({whole}{others})" if others else whole,
                imports=(*imports, *more, *(["from functools import partial"] if others else [])),
                described=f"ec.Loop(evaluate=lambda data, batch_size=2: {value})",
                inputs=rows(loader=loader),
            )
    for number, stream in enumerate(streams_seen(entry, name, made)[:2]):
        group = {"group": number} if number else {}
        if entry.is_class and not (stream.fixed or awaited):
            named = isinstance(stream.batch([]), Mapping)
            forward = f"lambda batch: {called}({'**' if named else '*'}batch)"
            described = f"ec.Wrapper(forward={forward}, model=made)"
            for changes in _CHANGES:
                yield of_this(kind="wrapper", described=described, inputs=rows(**group, **changes))
    for number, stream in enumerate(streams_seen(entry, name, made, one_sample=True)[:2]):
        group = {"group": number} if number else {}
        try:
            rest, more = construction_of("", stream.options, package)
        except UsageError:
            continue
        others = f", {rest[1:-1]}" if rest[1:-1] else ""
        first = stream.columns[0].path[0]
        begins = first == stream.order[0][0] or first.isdigit()
        by_name = "" if begins and first not in stream.by_name else f"{first}="  # an option may come before it
        scored = f"{called}({by_name}responses[0], **document{others})"
        if awaited:
            scored, more = f"asyncio.run({scored})", (*more, "import asyncio")
        described = f"{_SCORER}{_with_patches(entry, scored)})"
        for changes in _CHANGES:
            inputs = rows(documents=True, **group, **changes)
            yield of_this(
                kind="scorer",
                construction=_with_patches(entry, construction) if method else construction,
                described=described,
                inputs=inputs,
                imports=(*imports, *more),
            )


def _with_patches(entry: Seen, source: str) -> str:
    """Return the source of a call with the replies of what tests have patched while calls of an entry ran."""
    return f"ec.replaced('{entry.module}:{entry.name}', lambda: {source})" if entry.patches else source


_SCORER = "ec.Scorer.of(lambda responses, document: "
_CHANGES: tuple[dict[str, Any], ...] = ({}, {"changes": False})
"""Options of inputs: rows with changes, or as they were seen, where its arguments follow from each other."""
_DECODED: dict[str, Any] = {
    "kind": "decoder",
    "origin": "called as in a run that was watched; prompts of as many tokens as its logits have",
}


def _decoders(call: Call, package: str) -> Iterator[tuple[str, Inputs, tuple[str, ...]]]:
    """Yield records of a step with a cache: one argument has ids, one is an object of the package, logits come back."""
    given = call.arguments
    ids = [name for name, value in given.items() if is_array(value) and "int" in value["dtype"]]
    caches = [name for name, value in given.items() if isinstance(value, dict) and "made" in value]
    logits = call.returned
    if isinstance(logits, dict) and "tuple" in logits:
        logits = next(iter(logits["tuple"]), None)
    if len(ids) != 1 or len(caches) != 1 or not is_array(logits) or "float" not in logits["dtype"]:
        return
    shape = tuple(given[ids[0]]["shape"])
    if len(shape) != 2 or tuple(logits["shape"][:2]) != shape or len(logits["shape"]) != 3:
        return
    arguments = given[caches[0]]["arguments"]
    rows = next((key for key, value in arguments.items() if type(value) is int and value == shape[0]), "")
    try:
        rest, more = construction_of("", {k: v for k, v in given.items() if k not in (*ids, *caches)}, package)
        module, name = own_name(given[caches[0]]["made"], package)
        cache, of_cache = construction_of(name, arguments, package)
    except UsageError:
        return
    cache = cache.replace(f"{rows}={shape[0]}", f"{rows}=rows", 1) if rows else cache
    others = f", {rest[1:-1]}" if rest[1:-1] else ""
    called = f"made.{call.method}" if call.method not in ("forward", "__call__") else "made"
    step = f"lambda ids, cache, mask, positions: {called}({ids[0]}=ids, {caches[0]}=cache{others})"
    for first in ("None", f"(lambda rows: {cache})(len(ids))"):
        full = f"lambda ids, mask, positions: {called}({ids[0]}=ids, {caches[0]}={first}{others})"
        described = f"ec.Decoder(made, make_cache=lambda rows: {cache}, step={step}, full={full}, sides=())"
        yield described, ES.prompts(vocab=logits["shape"][2]), (*more, *of_cache, f"from {module} import {name}")


def _is_decoder(make: Callable[[], Any], _: Any) -> bool:
    """Return whether steps with a cache give logits, those of a first piece as without one."""
    import torch

    record, model = make()
    if hasattr(model, "eval"):
        model.eval()
    ids = torch.tensor([[1, 2, 3, 1, 0], [2, 0, 1, 3, 3]])
    positions = torch.arange(5).expand(2, 5)
    mask = torch.ones_like(ids)
    with torch.no_grad():
        whole = record.full(ids, mask, positions)
        cache = record.make_cache(2)
        for start, end in ((0, 3), (3, 4), (4, 5)):
            result = record.step(ids[:, start:end], cache, mask[:, :end], positions[:, start:end])
            logits, cache = result if isinstance(result, tuple) else (result, cache)
            if logits.shape != whole[:, start:end].shape:
                return False
            if start == 0 and not torch.allclose(logits, whole[:, :end], rtol=1e-3, atol=1e-3):
                return False
    return True


class _OfTheCall(Exception):
    """The results of a scorer have something by these names that is no score of a document."""


def _tried(thing: Any, way: OfKind) -> OfKind | None:
    """Return a way that passes its trial, without what is of the call alone; None where it does not."""
    trial = {"wrapper": _is_wrapper, "decoder": _is_decoder, "loop": _is_loop, "scorer": _is_scorer}[way.kind]
    names: dict[str, Any] = {"ec": pytest_evalcheck}
    with isolated_process(), same_random_numbers():
        try:
            exec("\n".join((f"from {thing.__module__} import {thing.__name__}", *way.imports)), names)
            inputs = way.inputs.strategy

            def record() -> Any:
                with same_random_numbers():
                    made = eval(way.construction, names)
                    return eval(way.described, {**names, "made": made}), made

            return way if trial(record, inputs) else None
        except _OfTheCall as found:
            left = ", ".join(map(repr, found.args))
        except (Exception, SystemExit):  # what it needs was not seen, or it is a command
            return None
    scored = way.described.removeprefix(_SCORER).removesuffix(")")
    return _tried(thing, replace(way, described=f"{_SCORER}ec.leave_out({scored}, {left}))"))


def _is_wrapper(make: Callable[[], Any], inputs: Any) -> bool:
    """Return whether a model gives an entry for each row, in two sizes of batches, and the same twice."""
    import torch

    (record, made) = make()
    if not is_model(made):
        return False
    made.eval()
    with torch.no_grad():
        for size in (3, 2):
            batch = inputs.collate(inputs.fixed(size))
            outputs = record.forward(batch)
            if not _has_rows(outputs, size) or difference(outputs, record.forward(batch), Tolerance()) is not None:
                return False
    return True


def _has_rows(outputs: Any, count: int) -> bool:
    parts = outputs.values() if isinstance(outputs, Mapping) else outputs if isinstance(outputs, tuple) else [outputs]
    return any(getattr(part, "shape", ())[:1] == (count,) for part in parts)


def _is_loop(make: Callable[[], Any], inputs: Any) -> bool:
    """Return whether a loop gives finite numbers by name, the same twice, and others for other data."""
    values = []
    rows = inputs.fixed(4 * _ROWS)
    for part in (rows[:_ROWS], rows[:_ROWS], rows[_ROWS:], rows[: 2 * _ROWS], rows[1:_ROWS]):
        numbers = make()[0].evaluate(LoopData(part, inputs.collate), batch_size=2)
        if not isinstance(numbers, Mapping) or not any(map(is_number, numbers.values())):
            return False
        values.append({name: float(each) for name, each in numbers.items() if is_number(each)})
    first, again, *others = values
    same = difference(first, again, Tolerance()) is None
    return same and any(difference(first, other, Tolerance()) is not None for other in others)


def _is_scorer(make: Callable[[], Any], inputs: Any) -> bool:
    """Return whether documents have scores or answers, the same twice, that are not all the same."""
    rows = inputs.fixed(_MANY)
    (record, _), (other, _) = make(), make()
    given = inputs.collate(rows)
    written = Snapshot(given)
    first = [*record.score(*given)]
    if written_into(written):
        return False
    again = [*record.score(*inputs.collate(rows))]
    with other_clock():
        second = [*other.score(*inputs.collate(rows))]
    if names := names_of_the_call(first, second):
        raise _OfTheCall(*names)
    if difference(first, again, Tolerance()) is not None or difference(first, second, EXACT) is not None:
        return False
    leaves = [[*_leaves(each)] for each in first]
    if len(rows[0]) > 1:  # an empty list of failures is an answer, too
        empty = (isinstance(value, (list, tuple)) and not value for value in first)
        scored = all(none or any(map(_is_score_or_text, each)) for none, each in zip(empty, leaves, strict=True))
    elif isinstance(rows[0][0], dict) and len(rows[0][0].get("fields", ())) > 1:  # a case has its response in a field
        scored = all(any(map(_is_score, each)) for each in leaves)
    else:  # a response alone is measured by numbers, and changed by anything else
        scored = all(map(_is_score, itertools.chain(*leaves))) or _are_measured(record, inputs, rows, leaves)
    return scored and any(difference(first[0], each, Tolerance()) is not None for each in first[1:])


def _are_measured(record: Any, inputs: Any, rows: Sequence[Any], leaves: Sequence[Any]) -> bool:
    """Return whether responses have other numbers, beside what else a result has, and any text has some.

    What finds a record by its name knows no other text.
    """
    texts = [(f"{row[0]} x",) for row in rows if isinstance(row[0], str)]
    others = record.score(*inputs.collate(texts))
    numbers = [[*filter(_is_score, each)] for each in (*leaves, *map(_leaves, others))]
    return all(numbers) and any(difference(numbers[0], each, Tolerance()) is not None for each in numbers[1:])


def _leaves(value: Any) -> Iterator[Any]:
    """Yield what is in a result: in its containers, and in the fields of its objects."""
    return (leaf for _, leaf in named_leaves(value))


def _is_score(value: Any) -> bool:
    return isinstance(value, (bool, int, float)) or getattr(getattr(value, "dtype", None), "kind", "") in (*"fiub",)


def _is_score_or_text(value: Any) -> bool:
    return isinstance(value, str) or _is_score(value)
