"""What a check does with loops, as the steps of a script: loops are made, data are evaluated, results are compared.

A loop of a library calls back into the code around it, so that its calls are no straight line. Its script defines the
factory of the target, and what that names, as their source.
"""

from __future__ import annotations

import ast
import functools
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_evalcheck.reports.case_codec import is_plain, literal
from pytest_evalcheck.scripts.callables import names_beside
from pytest_evalcheck.scripts.literals import Unwritable, numbers_in
from pytest_evalcheck.scripts.rewriting import is_of_targets
from pytest_evalcheck.scripts.sources import Definitions, Pruning
from pytest_evalcheck.scripts.tape import Step
from pytest_evalcheck.scripts.text import Parts, Verdict

_FROZEN = "some submodules are frozen"
_STATES = {
    "modes": "{{name: module.training for name, module in {}.model.named_modules()}}",
    "requires_grad": "{{name: one.requires_grad for name, one in {}.model.named_parameters()}}",
    "parameters": "{{name: one.detach().clone() for name, one in {}.model.named_parameters()}}",
    "gradients": "{{name: one.grad is not None and one.grad.clone() for name, one in {}.model.named_parameters()}}",
    "buffers": "{{name: one.clone() for name, one in {}.model.named_buffers()}}",
    "random numbers": "next_random_numbers()",
    "the optimizer": "copy.deepcopy({}.optimizer.state_dict())",
}
"""By the kind of state that an evaluation has to leave as it was: how it is read of a loop."""


@dataclass
class _Event:
    """Something that a check did with a loop."""

    text: str
    """Its expression; loops and data stand in it as ``<number>``, a function that reads its result as ``@read``."""
    loop: int | None
    """The number of the loop that it may have changed."""
    number: int
    result: Any = None
    hint: str = "result"
    read: str = ""
    """How its result is read: as ``numbers``, or ``evaluated``, with the records."""
    keeps: bool = True

    def reads(self, how: str) -> None:
        """Note how its result is read.

        Raises:
            Unwritable: where it was read in another way.
        """
        if self.read not in ("", how):
            raise Unwritable("one result, with its records and without them")
        self.read = how


@dataclass
class LoopRecorder:
    """Notes what a check does with loops, and writes the comparison that fails."""

    events: list[_Event] = field(default_factory=list)
    _silent: int = 0
    _loops: dict[int, int] = field(default_factory=dict)
    _alive: list[Any] = field(default_factory=list)
    _data: dict[Any, int] = field(default_factory=dict)
    _collates: list[Any] = field(default_factory=list)
    _factory: Any = None
    _adapter: Any = None
    """The function that makes a record of what the factory returns; None where that is one."""
    _arguments: tuple[str, ...] = ()
    _inside: list[str] | None = None
    """The texts of evaluations in the middle of a training, while it runs."""
    _interruption: tuple[int, int, Mapping[str, Any]] | None = None

    # Watching.

    def watch(self) -> None:
        """See what checks do."""
        from pytest_evalcheck.adapters.lookup import adapter_for
        from pytest_evalcheck.engine.factory import TargetFactory
        from pytest_evalcheck.expectations.comparison import Raised
        from pytest_evalcheck.kinds.loop.subject import LoopRun, LoopSubject

        factories: Any = TargetFactory
        subject: Any = LoopSubject
        runs: Any = LoopRun
        make, exact, attempt, fresh = factories._make, subject.exact, runs.attempt, subject.fresh
        samples, state = names_beside("EC511"), names_beside("EC504")
        train, interrupt, over_processes = state["train"], state["interrupt"], samples["over_processes"]

        def made(factory: Any, arguments: Any) -> Any:
            thing = make(factory, arguments)
            self._factory = factory._target.factory
            self._arguments = tuple(f"{name}={value!r}" for name, value in arguments.items())
            self._adapter = adapter_for("loop", thing)
            return thing

        def freshly(loop: Any) -> Any:
            run = fresh(loop)
            if not self._silent:
                self._new_loop(run)
            return run

        def attempted(run: Any, where: str, function: Any, *args: Any, reseed: bool = True, **config: Any) -> Any:
            with self._quiet():
                result = attempt(run, where, function, *args, reseed=reseed, **config)
            self._attempted(run, function, args, config, result, reseed)
            return result

        def exactly(loop: Any, rows: Any) -> Any:
            number = self._new_loop(None)
            with self._quiet():
                result = exact(loop, rows)
            if loop.record.exact is not None:
                self._note(f"<{number}>.exact({self._data_of(loop.data(rows))})", number, dict(result or {}), "exact")
            return result

        def trained(loop: Any, rows: Any, modes: str, between: Any) -> Any:
            self._inside = []
            outcome = train(loop, rows, modes, between)
            inside, self._inside = self._inside, None
            number = max(self._loops.values())  # that of the loop which was trained
            self._note_modes(loop, number, modes)
            middle = inside[0] if inside else "None"
            text = f"trained(<{number}>.train, {self._data_of(loop.data(rows))}, lambda: {middle})"
            self._note(text, number, outcome, "outcome")
            return outcome

        def interrupted(loop: Any, data: Any, modes: str, batch_size: int, metric: Any = None) -> Any:
            with self._quiet():
                found = interrupt(loop, data, modes, batch_size, metric)
            number = self._new_loop(None)
            self._note_modes(loop, number, modes)
            self._note("seed()", number, None, keeps=False)
            resume = f"<{number}>.resume()" if loop.record.resume is not None else ""
            self._note(resume, number, None, keeps=False)
            first = self._note("", number, None, "before")
            own = "evaluate" if metric is None else f"scored_with, {self._argument(metric)}"
            call = f"in_training(<{number}>.{own}, {self._data_of(data)}{_size(loop, batch_size)})"
            self._note(call, number, found.result, keeps=False)
            self._note(resume, number, None, keeps=False)
            last = self._note("", number, None, "after")
            self._interruption = (first.number, last.number, found.changes)
            return found

        def processes(loop: Any, rows: Any, ranks: int, batch_size: int) -> Any:
            with self._quiet():
                results = over_processes(loop, rows, ranks, batch_size)
            data, option = self._data_of(loop.data(rows)), _size(loop, batch_size)
            limit = "" if isinstance(results, Raised) else ", seconds=60.0"
            text = f"on_ranks(lambda rank: @read(new(@factory).on_rank, {data}{option}), {ranks}{limit})"
            self._note(text, None, results, "ranks")
            return results

        factories._make, subject.exact, runs.attempt, subject.fresh = made, exactly, attempted, freshly
        state["train"], state["interrupt"], samples["over_processes"] = trained, interrupted, processes

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        self._silent += 1
        try:
            yield
        finally:
            self._silent -= 1

    def _note(self, text: str, loop: int | None, result: Any, hint: str = "result", *, keeps: bool = True) -> _Event:
        event = _Event(text, loop, len(self.events), result, hint, keeps=keeps)
        self.events.append(event)
        return event

    def _note_modes(self, loop: Any, number: int, modes: str) -> None:
        if loop.record.model is not None:
            self._note(f"set_modes(<{number}>.model, {_MODES[modes]})", number, None, keeps=False)

    def _new_loop(self, run: Any) -> int:
        number = self._note("new(@factory)", None, None, "loop").number
        self._alive.append(run)
        self._loops[id(run) if run is not None else -number] = number
        return number

    def _data_of(self, data: Any) -> str:
        """Data as an expression: a step for the samples, of which one may be unreadable."""
        from pytest_evalcheck.kinds.loop.subject import NotedCollate

        # The plain call, whose result may be the expected one, notes what its collate returns.
        function = data.collate.collate if isinstance(data.collate, NotedCollate) else data.collate
        collate = next((i for i, known in enumerate(self._collates) if known is function), len(self._collates))
        if collate == len(self._collates):
            self._collates.append(function)
        key = (literal(list(data.samples)), collate)
        if key not in self._data:
            event = self._note(f"@data({key[0]}, @collate{collate}@)", None, None, "data")
            self._data[key] = event.number
        number = f"<{self._data[key]}>"
        return number if data.broken is None else f"{number}.failing({data.broken})"

    def _attempted(self, run: Any, function: Any, args: Any, config: Any, result: Any, reseed: bool) -> None:
        number = self._loops.get(id(run))
        if self._silent or number is None:
            return
        given: list[str] = []
        while not (name := next((one for one in _CALLED if getattr(run.record, one) == function), "")):
            if not isinstance(function, functools.partial):
                break
            # Of a variant, or with a metric function.
            given += [self._argument(one) for one in function.args]
            config = {**function.keywords, **config}
            function = function.func
        if not name:
            self._note("?a call that is none of the record", number, result)
            return
        size = run.nearest_batch_size(config["batch_size"]) if "batch_size" in config else None
        options = {key: value for key, value in config.items() if key != "batch_size"}
        options |= {} if size is None else {"batch_size": size}
        parts = [
            *given,
            *map(self._argument, args),
            *(f"{key}={self._argument(value)}" for key, value in options.items()),
        ]
        read = {"evaluators": "several", "over_ranks": "of_ranks"}.get(name, "@read")
        text = f"{read if reseed else 'in_training'}(<{number}>.{name}, {', '.join(parts)})"
        if self._inside is not None and not reseed:
            self._inside.append(text)
            return
        self._note(text, number, result)

    def _argument(self, value: Any) -> str:
        from pytest_evalcheck.kinds.common.failing_metric import FailingMetric
        from pytest_evalcheck.kinds.loop.record import LoopData

        if isinstance(value, LoopData):
            return self._data_of(value)
        if isinstance(value, FailingMetric):
            return f"failing({value._kind})"
        if isinstance(value, Mapping):
            return "{" + ", ".join(f"{name!r}: {self._argument(part)}" for name, part in value.items()) + "}"
        return literal(value) if is_plain(value) else "?" + f"an object of type {type(value).__qualname__}"

    # Writing.

    def parts(
        self, title: Sequence[str], code: str, form: str, actual: Any, expected: Any, about: str, tolerance: Any
    ) -> Iterator[Parts]:
        """A script without what it does not read of records, and one with all of it.

        Raises:
            Unwritable: where a value came from nothing that was noted, or has no form as source.
        """
        verdict = self._verdict(code, form, actual, expected, about, tolerance)
        yield self._parts(title, verdict, prune=True)
        with suppress(Unwritable):  # it is the longer one
            yield self._parts(title, verdict, prune=False)

    def _verdict(self, code: str, form: str, actual: Any, expected: Any, about: str, tolerance: Any) -> Verdict:
        common: dict[str, Any] = {"rtol": tolerance.rtol, "atol": tolerance.atol}
        if form == "same":
            path, actual, expected = _differing(actual, expected, tolerance)
            try:
                wanted = self._found(expected)
            except Unwritable:
                if path or not is_plain(expected):
                    raise
                wanted = literal(expected)  # of a reference
            got = self._found(actual, avoiding=numbers_in(wanted), last=True)
            errors = any(_has_errors(one) for one in (actual, expected))
            return Verdict(got + path, wanted + path, no_errors=not errors, **common)
        return self._own_condition(code, actual, about, common)

    def _own_condition(self, code: str, actual: Any, about: str, common: dict[str, Any]) -> Verdict:
        if code == "EC505" and self._interruption is not None:
            before, after, changes = self._interruption
            kind = next((kind for kind, lines in changes.items() if lines and lines[0] in about), "")
            if kind not in _STATES:
                raise Unwritable(f"the state of {kind or 'training'}")
            for place in (before, after):
                self.events[place].text = _STATES[kind].format(f"<{self.events[place].loop}>")
            changed = (
                f"{{name: <{after}>[name] for name in <{before}> if not same(<{after}>[name], <{before}>[name], 0, 0)}}"
            )
            if kind in ("modes", "requires_grad", "parameters", "gradients", "buffers"):
                return Verdict(changed, "{}", **common)
            return Verdict(f"<{after}>", f"<{before}>", **common)
        if code == "EC513":
            return Verdict(
                self._found(actual, last=True),
                about.partition(" raises ")[2].partition(",")[0],
                form="passed on",
                **common,
            )
        if code == "EC508":
            return Verdict(self._found(actual, last=True), "", form="visible", **common)
        if code == "EC512":
            first = self._found(actual)
            second = self._found(actual, avoiding=numbers_in(first), last=True)
            return Verdict(second, first, form="different", **common)
        if code == "EC502" and isinstance(actual, list):
            event = next((e for e in reversed(self.events) if _ids(e.result) == actual), None)
            if event is not None:
                event.reads("evaluated")
                count = about.split()[0]
                return Verdict(f"[i for i, _ in <{event.number}>['records']]", f"list(range({count}))", **common)
        raise Unwritable(f"{code} judges by a condition of its own")

    def _found(self, value: Any, *, avoiding: frozenset[int] = frozenset(), last: bool = False) -> str:
        """A compared value as an expression over results: of the first that has it, or of the last."""
        events = [event for event in self.events if event.number not in avoiding and event.keeps and event.text]
        for event in reversed(events) if last else events:
            for text, read, candidate in _candidates(event):
                if (
                    candidate is value
                    or event.result is value
                    or (not _has_errors(value) and repr(candidate) == repr(value))
                ):
                    event.reads(read)
                    return text
                if _is_part(value, candidate):
                    event.reads(read)
                    return "{" + ", ".join(f"{name!r}: {text}[{name!r}]" for name in value) + "}"
        if isinstance(value, Mapping) and value and all(isinstance(name, str) for name in value):
            parts = {name: self._found(part, avoiding=avoiding, last=last) for name, part in value.items()}
            return "{" + ", ".join(f"{name!r}: {text}" for name, text in parts.items()) + "}"
        if isinstance(value, list) and value:
            return f"[{', '.join(self._found(part, avoiding=avoiding, last=last) for part in value)}]"
        raise Unwritable(f"a value of type {type(value).__qualname__} that no evaluation returned")

    def _parts(self, title: Sequence[str], verdict: Verdict, *, prune: bool) -> Parts:
        from pytest_evalcheck.kinds.loop.record import Loop, LoopData

        chosen = self._needed(verdict.uses)
        texts = [event.text.replace("@read", event.read or "numbers") for event in chosen]
        if problem := next((text for text in texts if "?" in text and not text.startswith("@data")), ""):
            raise Unwritable(problem.partition("?")[2])
        read = frozenset({"evaluate"} | {name for name in _FIELDS for text in texts if re.search(rf"\.{name}\b", text)})
        found = Definitions(is_own, pruning=Pruning(Loop, read) if prune else None)
        factory = found.add(self._factory, undecorated=True) if _is_plain_function(self._factory) else None
        factory = factory or found.constant("factory", self._factory)
        if self._adapter is not None:
            found.note(".record")
            made = f"{found.add(self._adapter)}({factory}({', '.join(self._arguments)}))"
            factory = f"lambda: {made}"
        elif self._arguments:
            factory = f"lambda: {factory}({', '.join(self._arguments)})"
        data = found.add(LoopData)
        collates = {
            f"@collate{i}@": found.constant("collate", one)
            for i, one in enumerate(self._collates)
            if any(f"@collate{i}@" in text for text in texts)
        }
        for i, text in enumerate(texts):
            for name, written in {"@factory": factory, "@data": data, **collates}.items():
                text = text.replace(name, written)
            texts[i] = text
            found.note(text)
        blocks, texts = found.finish(*texts)
        steps = [
            Step(
                text,
                numbers_in(text),
                keeps=event.keeps,
                hint=event.hint,
                number=event.number,
            )
            for event, text in zip(chosen, texts, strict=True)
        ]
        imports = frozenset({*found.imports, *({"import copy"} if any("copy." in text for text in texts) else ())})
        return Parts(title, blocks, imports, steps, verdict, environment=environment(found.modules))

    def _needed(self, wanted: frozenset[int]) -> list[_Event]:
        """The events on which results depend: loops, data, and all that was done before with the same loops."""
        needed = {*wanted}
        while True:
            before = len(needed)
            for event in self.events:
                if event.number in needed:
                    needed |= numbers_in(event.text)
                    if event.loop is not None:
                        same = (one for one in self.events[: event.number] if one.loop == event.loop and one.text)
                        needed |= {event.loop, *(one.number for one in same)}
            if len(needed) == before:
                chosen = [event for event in self.events if event.number in needed and event.text]
                return sorted(chosen, key=lambda event: (event.hint != "data", event.number))


_CALLED = ("evaluate", "evaluators", "over_ranks", "scored_with")
_FIELDS = (*_CALLED, "on_rank", "exact", "train", "resume", "model", "optimizer")


def _size(loop: Any, wanted: int) -> str:
    """The size of batches as one more argument; nothing where a loop takes none."""
    size = loop.nearest_batch_size(wanted)
    return "" if size is None else f", batch_size={size}"


_MODES = {
    "every submodule evaluates": "lambda index: False",
    "every submodule trains": "lambda index: True",
    _FROZEN: "lambda index: index % 2 == 0",
}


def _candidates(event: _Event) -> Iterator[tuple[str, str, Any]]:
    """What a check may compare of a result: how it is written, how the result is read for it, and its value."""
    from pytest_evalcheck.expectations.comparison import Raised

    me, result = f"<{event.number}>", event.result
    if isinstance(result, Raised):
        yield me, "numbers", result
        return
    if event.hint == "ranks" and isinstance(result, Mapping):
        yield from ((f"{me}[{rank}]", "numbers", dict(one.numbers)) for rank, one in result.items())
        return
    if event.hint in ("outcome", "exact"):
        yield me, "numbers", result
        return
    if event.text.startswith(("several", "of_ranks")):
        parts = result if isinstance(result, Mapping) else dict(enumerate(result))
        if parts:
            for name, part in parts.items():
                yield from (
                    (f"{me}[{name!r}]", read, one) for _, read, one in _of_evaluation(part) if read == "numbers"
                )
        return
    yield from ((me + rest, read, one) for rest, read, one in _of_evaluation(result))


def _of_evaluation(result: Any) -> Iterator[tuple[str, str, Any]]:
    from pytest_evalcheck.kinds.loop.record import Evaluated
    from pytest_evalcheck.kinds.loop.subject import comparable, read_result

    try:
        evaluated = read_result(result, some=False)
    except Exception:  # it is no evaluation
        return
    numbers = dict(evaluated.numbers)
    yield "", "numbers", numbers
    if evaluated.records is None:
        return
    yield "", "evaluated", comparable(Evaluated(numbers, evaluated.records))
    records = list(evaluated.records)
    yield "['records']", "evaluated", records
    for place, (_, fields) in enumerate(sorted(records, key=lambda record: record[0])):
        yield f"['records'][{place}][1]", "evaluated", fields


def _is_part(value: Any, candidate: Any) -> bool:
    """Whether a value is some of the numbers of another one."""
    both = isinstance(value, Mapping) and isinstance(candidate, Mapping) and bool(value)
    return both and all(name in candidate and repr(candidate[name]) == repr(part) for name, part in value.items())


def _ids(result: Any) -> Any:
    try:
        return [i for i, _ in result.records]
    except (AttributeError, TypeError):
        return None


def _has_errors(value: Any) -> bool:
    return hasattr(value, "error")


def _differing(actual: Any, expected: Any, tolerance: Any) -> tuple[str, Any, Any]:
    """What of two values differs: an index that both have, for an outcome of training; the numbers without records."""
    from pytest_evalcheck.expectations.comparison import difference

    both = isinstance(actual, Mapping) and isinstance(expected, Mapping) and actual.keys() == expected.keys()
    if both and "losses" in actual and difference(actual["losses"], expected["losses"], tolerance) is not None:
        return "['losses']", actual, expected
    one, other = _numbers_alone(actual), _numbers_alone(expected)
    return ("", one, other) if difference(one, other, tolerance) is not None else ("", actual, expected)


def _numbers_alone(result: Any) -> Any:
    """Results without their records."""
    if isinstance(result, list):
        return [_numbers_alone(part) for part in result]
    if isinstance(result, Mapping) and result.keys() == {"numbers", "records"}:
        return result["numbers"]
    return {name: _numbers_alone(part) for name, part in result.items()} if isinstance(result, Mapping) else result


def is_own(module: str) -> bool:
    """Whether a module is the suite's, or a file of targets or one that helps them: a script cannot import it."""
    if module.partition(".")[0] == "pytest_evalcheck":
        return True
    origin = getattr(sys.modules.get(module), "__file__", None)
    return bool(origin) and is_of_targets(Path(str(origin)))


def environment(modules: Sequence[str]) -> dict[str, str]:
    """The variables that files of targets set when they are imported, by which a library may choose its backend."""
    found: dict[str, str] = {}
    for name in modules:
        for line in ast.parse(inspect.getsource(sys.modules[name])).body:
            match line:
                case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Attribute(attr="environ")), args=[key, *_])):
                    pass
                case ast.Assign(targets=[ast.Subscript(value=ast.Attribute(attr="environ"), slice=key)]):
                    pass
                case _:
                    continue
            if isinstance(key, ast.Constant) and key.value in os.environ:
                found[str(key.value)] = os.environ[str(key.value)]
    return found


def _is_plain_function(factory: Callable[..., Any]) -> bool:
    return inspect.isfunction(factory) and "<locals>" not in factory.__qualname__ and factory.__name__ != "<lambda>"
