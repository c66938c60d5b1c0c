"""``python -m pytest_evalcheck.scripts.recording WANTED.json OUT.json PYTEST_ARGUMENTS``: replay, and write a script.

WANTED holds the signature of the failure, the id of its upstream fault, whose other signatures do as well, the lines
of the docstring, and the name of a test. OUT gets ``{"scripts": [[script, test, repeats], ...]}``, or ``{"why": ...}``
where there is none.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
import itertools
import json
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_evalcheck.reports.case_codec import is_plain, literal
from pytest_evalcheck.scripts.callables import names_beside
from pytest_evalcheck.scripts.literals import MOST_NUMBERS, Unwritable, numbers_in, value_text
from pytest_evalcheck.scripts.loops import LoopRecorder
from pytest_evalcheck.scripts.rewriting import Importer
from pytest_evalcheck.scripts.slicing import World, needed, with_worlds, worlds
from pytest_evalcheck.scripts.sources import definitions
from pytest_evalcheck.scripts.tape import Step, Tape
from pytest_evalcheck.scripts.text import Parts, Verdict, script, test_function
from pytest_evalcheck.upstream import Fault, find

_PACKAGES = ("pytest_evalcheck.kinds.", "pytest_evalcheck.adapters.")
_TOLD = {"EC216": "visible", "EC225": "warned"}
"""Checks that require a NaN, an error or a warning, by which warnings count."""


class Recorder:
    """Watches one replay, and writes the script of the failure that has the wanted signature."""

    def __init__(self, wanted: Mapping[str, Any], fault: Fault | None = None) -> None:
        self.tape = Tape()
        self.loops = LoopRecorder() if wanted["kind"] == "loop" else None
        self.importer = Importer(self.tape, _PACKAGES)
        self.importer.watchers["pytest_evalcheck.adapters.lm_eval.model"] = self._watch_rank_threads
        self._signature, self._title, self._fault = wanted["signature"], wanted["title"], fault
        self._name, self._of = wanted["name"], wanted["of"]
        self.scripts: list[tuple[str, str, bool]] = []
        """Scripts and tests, and whether they draw what they draw in every run: the first that shows the failure is the
        one to take, where it is the same in every run."""
        self.why = "the replay did not fail in the same way"
        self._compared: tuple[str, Any, Any, Any] | None = None
        """Of the last comparison: its form, both values, and the tolerance."""
        self._malformed: Any = None
        self._about = ""
        self._states: Any = ()
        """The states of a metric before it took another dtype, and after it."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self) -> None:
        """Come before pytest's own rewriting of asserts, which takes this package and the files on the command line."""
        self.install()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Come before it again: it puts itself first where a session begins."""
        self.install()
        self.watch()

    def install(self) -> None:
        """Rewrite what is imported from now on."""
        if self.loops is not None:
            return  # a script of a loop is no list of calls
        if self.importer in sys.meta_path:
            sys.meta_path.remove(self.importer)
        sys.meta_path.insert(0, self.importer)

    def watch(self) -> None:
        """See what is compared, and which comparison fails."""
        from pytest_evalcheck.expectations import failures
        from pytest_evalcheck.expectations.comparison import Tolerance
        from pytest_evalcheck.expectations.signature import signature_of

        expect: Any = failures.expect
        equals, holds, report = expect.equals, expect.holds, failures._report

        def watched(method: Callable[..., None], form: str) -> Callable[..., None]:
            def compare(comparison: Any, other: Any = None, **more: Any) -> None:
                stats = failures.current_stats()
                usual = stats.tolerance if stats else Tolerance()
                self._compared = (form, comparison.actual, other, more.get("tolerance") or usual)
                self._about = str(more.get("about", ""))
                with self.tape.silent():
                    method(comparison, other, **more)

            return compare

        def reported(failure: Any) -> None:
            found = signature_of(self._signature.partition(":")[0], failure)
            wanted = found == self._signature or (self._fault is not None and self._fault.shows(found))
            if wanted and not self.tape.frozen:
                self.tape.frozen = True
                try:
                    self.scripts = self._write()
                except Unwritable as why:
                    self.why = str(why)
                except Exception as error:  # it must not look like a mistake of the check
                    self.why = f"writing it raised {type(error).__name__}: {error}"
            report(failure)

        expect.equals, expect.holds = watched(equals, "same"), watched(holds, "holds")
        failures._report = reported
        if self.loops is not None:
            self.loops.watch()
        else:
            self._watch_calls()

    def _watch_calls(self) -> None:
        from pytest_evalcheck.engine.factory import TargetFactory
        from pytest_evalcheck.kinds.common.process_state import SEED

        factories: Any = TargetFactory
        make = factories._make

        def made(factory: Any, arguments: Any) -> Any:
            self.tape.seeded(SEED)
            return make(factory, arguments)

        factories._make = made
        # A target that is made once a cell is copied by the suite.
        vars(sys.modules[TargetFactory.__module__])["copy"] = SimpleNamespace(
            deepcopy=lambda value: self.tape.call(copy.deepcopy, value)
        )
        self._watch_ranks()

    def _watch_ranks(self) -> None:
        """Note what ranks do: as threads they call together, as processes each makes its calls apart."""
        from pytest_evalcheck.kinds.common.tensors import count_elements
        from pytest_evalcheck.kinds.metric.subject import MetricSubject
        from pytest_evalcheck.kinds.wrapper.malformed import MalformedBatch

        subject: Any = MetricSubject
        merge, on_processes = subject._merge, subject.on_processes

        def merged(metric: Any, method: str, ranks: Any) -> Any:
            records = [rank.record for rank in ranks]
            if method not in records[0].collective or any(rank.failed for rank in ranks):
                return merge(metric, method, ranks)
            with self.tape.silent():
                value = merge(metric, method, ranks)
            self.tape.together([record.compute for record in records], getattr(value, "error", value))
            return value

        def processes(metric: Any, shards: Any) -> Any:
            last: list[Step] = []
            for batches in shards:
                before = len(self.tape.steps)
                live = metric.fresh().update(*batches)
                if live.failed is None and live.record.synchronised is not None:
                    with suppress(Exception):  # there is no group here
                        self.tape.call(live.record.synchronised)
                last += self.tape.steps[-1:] if len(self.tape.steps) > before else []
            with self.tape.silent():
                values = on_processes(metric, shards)
            if len(last) == len(shards):
                errors = [values.error] * len(last) if hasattr(values, "error") else values
                self.tape.apart(last, errors)
            return values

        reference = subject.expected

        def expected(metric: Any, samples: Any) -> Any:
            with self.tape.silent():  # what the reference gives is written as it is
                return reference(metric, samples)

        malformed: Any = MalformedBatch
        problem = malformed.problem

        def judged(batch: Any, actual: Any, good: Any, tolerance: Any) -> str:
            self._malformed = (batch, actual, good)
            return str(problem(batch, actual, good, tolerance))

        malformed.problem = judged
        bulk = subject.bulk_batches

        def in_bulk(metric: Any, size: Any, rows: int) -> Any:
            with self.tape.silent():
                batches = list(bulk(metric, size, rows))
            values = (value for batch in batches for value in (*batch.args, *batch.kwargs.values()))
            if max(map(count_elements, values), default=0) > MOST_NUMBERS:
                with suppress(Unwritable):
                    batches = self._drawn(metric, size, rows)
            yield from batches

        subject.bulk_batches = in_bulk
        precision = names_beside("EC212")
        changed = precision["_changed_dtypes"]

        def changed_dtypes(before: Any, after: Any) -> Any:
            found = changed(before, after)
            self._states = (before, after) if found else self._states
            return found

        changed_dtypes.__module__ = changed.__module__  # a call of the suite, for the tape
        precision["_changed_dtypes"] = changed_dtypes
        subject._merge, subject.on_processes, subject.expected = merged, processes, expected

    def _watch_rank_threads(self, module: Any) -> None:
        """Note what ranks of a run of lm-evaluation-harness do; in a script they are processes, as they really are."""
        group, runs = module.RankGroup, itertools.count()
        run = group.run

        def ran(ranks: Any, work: Callable[[int], Any]) -> Any:
            number = next(runs)
            outcomes: list[Any] = [None] * ranks.size
            self.tape.made_by(ranks, module.ProcessGroup, ranks.size)

            def on_rank(rank: int) -> Any:
                with self.tape.on_rank(number, rank):
                    try:
                        outcomes[rank] = work(rank)
                    except Exception as error:
                        outcomes[rank] = error
                        raise
                return outcomes[rank]

            on_rank.__module__ = module.__name__  # a call of the suite, for the tape
            try:
                return run(ranks, on_rank)
            finally:
                self.tape.threads_ended(number, outcomes, "samples")

        group.run = ran

    def _drawn(self, metric: Any, size: Any, rows: int) -> list[Any]:
        """The batches of a distribution, which are too long to be written out, by the code that draws them."""
        from pytest_evalcheck.strategies.samples import Arguments

        drawn, _ = self.tape.called(metric.inputs.bulk, size, hint="rows")
        batches = []
        for start in range(0, len(drawn), rows):
            part = self.tape.item(drawn, slice(start, start + rows))
            collated, text = self.tape.called(metric.inputs.collate, part, hint="batch")
            batches.append(made := Arguments.of(collated))
            for place, value in (*enumerate(made.args), *made.kwargs.items()):
                self.tape.keep(value, f"{text}[{place!r}]")
        return batches

    def _write(self) -> list[tuple[str, str, bool]]:
        assert self._compared is not None
        if self.loops is not None:
            code, (form, actual, expected, tolerance) = self._signature.partition(":")[0], self._compared
            variants = self.loops.parts(self._title, code, form, actual, expected, self._about, tolerance)
            return list(
                dict.fromkeys((script(one), test_function(one, self._name, self._of), True) for one in variants)
            )
        verdict = self._verdict(*self._compared)
        steps = needed(self.tape.steps, verdict.uses, changed=verdict.changed)
        found = worlds(self.tape.steps, steps)
        all_steps = with_worlds(steps, found)
        for step in all_steps:
            if step.missing:
                raise Unwritable(step.missing)
        own = needed(self.tape.steps, numbers_in(verdict.actual), changed=verdict.changed)
        if not any(step.library for step in own):
            raise Unwritable("no call of the library has made the value")
        sources = [thing for step in all_steps for thing in step.sources]
        defined, imports = definitions(sources, self._is_own, self.tape.made)
        parts = Parts(
            self._title,
            defined,
            frozenset(imports),
            steps,
            verdict,
            found,
            self.tape.without_gradients,
            self.tape.environment,
        )
        plain = replace(parts, steps=_unseeded(steps), worlds={group: _plain(world) for group, world in found.items()})
        both = [(script(one), test_function(one, self._name, self._of)) for one in (plain, parts)]
        return [(*one, one == both[1]) for one in dict.fromkeys(both)]

    def _is_own(self, module: str) -> bool:
        return module in self.tape.rewritten or module.startswith("pytest_evalcheck")

    def _verdict(self, form: str, actual: Any, expected: Any, tolerance: Any) -> Verdict:
        code = self._signature.partition(":")[0]
        common: dict[str, Any] = {"rtol": tolerance.rtol, "atol": tolerance.atol}
        if form == "same":
            made = self._result(actual)
            wanted = self._result(expected, avoiding=made)
            if _decides_by_itself(self._with_constants(made), self._with_constants(wanted)):
                raise Unwritable("a number among the actual values that no call of the library has returned")
            return Verdict(made, wanted, flat=_is_flat(expected), **common)
        if code in _TOLD:
            return Verdict(self._result(actual), "", form=_TOLD[code], **common)
        if code == "EC110" and self._malformed:
            return self._of_malformed(**common)
        if code == "EC406" and self._about.startswith("a number that one document lacks"):
            # The check fails where it is the number of the other documents.
            number = actual["largest"]
            return Verdict(self._result(number), literal(number), form="noticed", **common)
        if code == "EC227" and "takes a value that does not exist" in self._about:
            # The check fails where the option is not refused.
            return Verdict(self._result(actual), "", form="refused", **common)
        if code == "EC241":
            # The check fails where a batch with more references has the result of its pairs, and is not refused.
            made = self._result(actual[-1])
            return Verdict(made, self._result(actual[0], avoiding=made), form="counted", **common)
        if code == "EC228":
            # The check fails where the values of an option, the first and the last one, have the same result.
            made = self._result(actual[-1])
            return Verdict(made, self._result(actual[0], avoiding=made), form="noticed", **common)
        if isinstance(getattr(actual, "error", None), BaseException):
            return Verdict(self._result(actual), type(actual.error).__name__, form="raises", **common)
        if code == "EC212" and self._states:
            return Verdict(*self._states_by_dtype(), changed=True, **common)
        if (changed := self._changed_input()) is not None:
            if changed.keys:
                keys = f"list(<{changed.number}>)"
                return Verdict(keys, repr(list(changed.keys)), changed=True, **common)
            return Verdict(f"<{changed.number}>", changed.literal, changed=True, **common)
        raise Unwritable(f"{code} judges by a condition of its own")

    def _with_constants(self, text: str) -> str:
        """An expression with the text of values that are written out, where no call of the library may change them."""
        changed = {number for step in self.tape.steps if step.library for number in step.changes}

        def written(found: re.Match[str]) -> str:
            step = self.tape.steps[int(found[1])]
            return repr(step.literal) if step.literal and step.number not in changed else found[0]

        return re.sub(r"<(\d+)>", written, text)

    def _of_malformed(self, **common: Any) -> Verdict:
        """Of a malformed batch: an error must name what is missing, and others must be refused, or scored alike."""
        batch, actual, good = self._malformed
        errors = [value for value in actual.values() if hasattr(value, "error")]
        if batch.fault == "missing":
            unnamed = next(value for value in errors if batch.field not in str(value.error))
            return Verdict(self._result(unnamed), batch.field, form="named", **common)
        made = self._result(dict(actual))
        if batch.fault == "of another length":
            return Verdict(made, "", form="refused", **common)
        return Verdict(made, self._result(dict(good), avoiding=made), **common)

    def _states_by_dtype(self) -> tuple[str, str]:
        """The dtypes of the states that have another one than before, and what they were."""
        before, now = self._states
        names = [
            name
            for name, value in now.items()
            if getattr(value, "dtype", None) != getattr(before.get(name), "dtype", None)
        ]
        places = {name: self.tape.expression(now[name]) for name in names}
        if not all(places.values()):
            raise Unwritable("the state of a metric, which no step has read")
        actual = ", ".join(f"{name!r}: str({place}.dtype)" for name, place in places.items())
        expected = ", ".join(f"{name!r}: {str(before[name].dtype)!r}" for name in names)
        return f"{{{actual}}}", f"{{{expected}}}"

    def _changed_input(self) -> Step | None:
        """The last value that was written out and is another now, although no step of the suite has changed it."""
        for step in reversed(self.tape.steps):
            if step.keys and tuple(step.result) != step.keys:
                return step
            if step.literal:
                with suppress(Unwritable):
                    if value_text(step.result) != step.literal:
                        return step
        return None

    def _alike(self, value: Any, avoiding: str) -> str:
        """The last result of a call with the same numbers: the suite may have copied it number by number."""
        import torch

        for step in reversed(self.tape.steps):
            made = step.result
            if step.literal or not step.keeps or f"<{step.number}>" in avoiding or step.missing:
                continue
            if isinstance(value, torch.Tensor) and isinstance(made, torch.Tensor):
                if made.shape == value.shape and torch.equal(made.detach(), value.detach().to(made.dtype)):
                    return f"<{step.number}>"
                if made.shape[1:] == value.shape and made.dim() > 1:
                    for index, row in enumerate(made.detach()):
                        if torch.equal(row, value.detach().to(made.dtype)):
                            return f"<{step.number}>[{index}]"
            elif isinstance(value, (list, float)) and hasattr(made, "tolist") and made.tolist() == value:
                return f"<{step.number}>.tolist()"
        return ""

    def _result(self, value: Any, avoiding: str = "") -> str:
        """A compared value as an expression over results, and where it came from none, as it is."""
        from pytest_evalcheck.expectations.comparison import Raised

        if isinstance(value, Raised):
            value = value.error
        known = self.tape.expression(value)
        if known is not None and dataclasses.is_dataclass(value):
            named = [field.name for field in dataclasses.fields(value)]
            return "{" + ", ".join(f"{name!r}: {known}.{name}" for name in named) + "}"
        if known is not None:
            return known
        if isinstance(value, str):
            value = str(value)
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key!r}: {self._result(part, avoiding)}" for key, part in value.items()) + "}"
        if isinstance(value, list) and value and is_plain(value):
            same = (text for made, text in self.tape.lists() if is_plain(made) and made == value)
            if text := next((text for text in same if not avoiding or text not in avoiding), ""):
                return text
        if isinstance(value, (list, tuple)):
            inside = ", ".join(self._result(part, avoiding) for part in value)
            return f"[{inside}]" if isinstance(value, list) else f"({inside},)"
        if isinstance(value, (bool, int, float, str, type(None))):
            for step in reversed(self.tape.steps):
                equal = type(step.result) is type(value) and step.result == value and not step.literal
                if equal and step.keeps and f"<{step.number}>" not in avoiding:
                    return f"<{step.number}>"
        alike = self._alike(value, avoiding)
        if alike:
            return alike
        if isinstance(value, BaseException):
            raise Unwritable(f"the error {type(value).__name__} came from the suite")
        made = self.tape.writer.text(value, "expected")
        return made.text


def _decides_by_itself(actual: str, expected: str) -> bool:
    """Whether an actual value holds a number or a text, no index, that the expected one has not in the same place.

    A comparison that fails by it fails without the fault, too.
    """
    trees = (ast.parse(re.sub(r"<(\d+)>", r"_\1", text), mode="eval").body for text in (actual, expected))
    return _differ_by_constants(*trees)


def _differ_by_constants(actual: ast.AST, expected: ast.AST | None) -> bool:
    if expected is not None and ast.dump(actual) == ast.dump(expected):
        return False
    match actual:
        case ast.Constant(value=value):
            return value is not None and not isinstance(value, bool)
        case ast.Subscript(value=value):
            return _differ_by_constants(value, None)
        case ast.Call():
            return False
        case ast.Dict(keys=keys, values=values):
            others: dict[str, ast.AST] = {}
            if isinstance(expected, ast.Dict):
                others = {ast.dump(key): v for key, v in zip(expected.keys, expected.values, strict=True) if key}
            return any(
                _differ_by_constants(value, others.get(ast.dump(key)) if key else None)
                for key, value in zip(keys, values, strict=True)
            )
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            there: list[ast.expr] = getattr(expected, "elts", []) if isinstance(expected, type(actual)) else []
            others_in_order = there if len(there) == len(parts) else [None] * len(parts)
            return any(map(_differ_by_constants, parts, others_in_order))
    return any(_differ_by_constants(child, None) for child in ast.iter_child_nodes(actual))


def _is_flat(value: Any) -> bool:
    """Whether a value is a number, or a tensor or an array of numbers."""
    dtype = str(getattr(value, "dtype", ""))
    return (isinstance(value, (int, float)) and not isinstance(value, bool)) or (
        hasattr(value, "shape") and any(kind in dtype for kind in ("float", "int"))
    )


def _unseeded(steps: list[Step]) -> list[Step]:
    return [step for step in steps if not step.seeds]


def _plain(world: World) -> World:
    return replace(world, ranks=tuple(map(_unseeded, world.ranks)))


def main(arguments: list[str]) -> int:
    """Replay, and write OUT."""
    wanted = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    recorder = Recorder(wanted, find(wanted["upstream"]))
    recorder.install()
    # This package was imported before pytest could rewrite the asserts of a plugin, which has none.
    quiet = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
    code = pytest.main([*arguments[2:], *quiet], plugins=[recorder])
    made = {"scripts": recorder.scripts} if recorder.scripts else {"why": recorder.why, "code": int(code)}
    Path(arguments[1]).write_text(json.dumps(made), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
