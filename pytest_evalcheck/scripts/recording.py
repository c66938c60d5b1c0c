"""``python -m pytest_evalcheck.scripts.recording WANTED.json OUT.json PYTEST_ARGUMENTS``: replay, and write a script.

WANTED holds the signature of the failure, the lines of the docstring and the name of a test. OUT gets ``{"scripts":
[[script, test], ...]}``, or ``{"why": ...}`` where there is none.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_evalcheck.scripts.literals import Unwritable
from pytest_evalcheck.scripts.rewriting import Importer
from pytest_evalcheck.scripts.slicing import World, needed, worlds
from pytest_evalcheck.scripts.sources import definitions
from pytest_evalcheck.scripts.tape import Step, Tape
from pytest_evalcheck.scripts.text import Parts, Verdict, script, test_function

_PACKAGES = ("pytest_evalcheck.kinds.", "pytest_evalcheck.adapters.")


class Recorder:
    """Watches one replay, and writes the script of the failure that has the wanted signature."""

    def __init__(self, signature: str, title: list[str], name: str) -> None:
        self.tape = Tape()
        self.importer = Importer(self.tape, _PACKAGES)
        self._signature, self._title, self._name = signature, title, name
        self.scripts: list[tuple[str, str]] = []
        """Scripts and tests. The first that shows the failure is the one to take: the next sets random numbers, too."""
        self.why = "the replay did not fail in the same way"
        self._compared: tuple[Any, Any, Any] | None = None

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
        if self.importer in sys.meta_path:
            sys.meta_path.remove(self.importer)
        sys.meta_path.insert(0, self.importer)

    def watch(self) -> None:
        """See what is compared, and which comparison fails."""
        from pytest_evalcheck.expectations import failures
        from pytest_evalcheck.expectations.signature import signature_of

        expect: Any = failures.expect
        equals, holds, report = expect.equals, expect.holds, failures._report

        def watched(method: Callable[..., None], form: str) -> Callable[..., None]:
            def compare(comparison: Any, other: Any = None, **more: Any) -> None:
                stats = failures.current_stats()
                usual = stats.tolerance if stats else failures.Tolerance()
                self._compared = (comparison.actual, other if form == "same" else None, more.get("tolerance") or usual)
                self._form = form
                with self.tape.silent():
                    method(comparison, other, **more)

            return compare

        def reported(failure: Any) -> None:
            if not self.tape.frozen and signature_of(self._signature.partition(":")[0], failure) == self._signature:
                self.tape.frozen = True
                try:
                    self.scripts = self._write()
                except Unwritable as why:
                    self.why = str(why)
            report(failure)

        from pytest_evalcheck.engine.factory import TargetFactory
        from pytest_evalcheck.kinds.common.process_state import SEED

        make = TargetFactory._make

        def made(factory: Any, arguments: Any) -> Any:
            self.tape.seeded(SEED)
            return make(factory, arguments)

        TargetFactory._make = made  # type: ignore[method-assign]
        self._watch_ranks()
        expect.equals, expect.holds = watched(equals, "same"), watched(holds, "holds")
        failures._report = reported

    def _watch_ranks(self) -> None:
        """Note what ranks do: as threads they call together, as processes each makes its calls apart."""
        from pytest_evalcheck.kinds.metric.subject import MetricSubject

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
            last = []
            for batches in shards:
                before = len(self.tape.steps)
                live = metric.fresh().update(*batches)
                if live.failed is None and live.record.synchronised is not None:
                    with suppress(Exception):  # there is no group here
                        self.tape.call(live.record.synchronised)
                last.append(self.tape.steps[-1] if len(self.tape.steps) > before else None)
            with self.tape.silent():
                values = on_processes(metric, shards)
            if all(last):
                errors = [values.error] * len(last) if hasattr(values, "error") else values
                self.tape.apart(last, errors)
            return values

        subject._merge, subject.on_processes = merged, processes

    def _write(self) -> list[tuple[str, str]]:
        assert self._compared is not None
        actual, expected, tolerance = self._compared
        verdict = self._verdict(actual, expected, tolerance)
        steps = needed(self.tape.steps, verdict.uses)
        found = worlds(self.tape.steps, steps)
        all_steps = [*steps, *(step for world in found.values() for rank in world.ranks for step in rank)]
        for step in all_steps:
            if step.missing:
                raise Unwritable(step.missing)
        if not any(not (step.literal or step.seeds) for step in steps):
            raise Unwritable("no call of the library has made the value")
        sources = [thing for step in all_steps for thing in step.sources]
        defined, imports = definitions(sources, self.tape.writer)
        parts = Parts(self._title, defined, frozenset(imports), steps, verdict, found)
        plain = replace(parts, steps=_unseeded(steps), worlds={group: _plain(world) for group, world in found.items()})
        return list(dict.fromkeys((script(one), test_function(one, self._name)) for one in (plain, parts)))

    _form = "same"

    def _verdict(self, actual: Any, expected: Any, tolerance: Any) -> Verdict:
        code = self._signature.partition(":")[0]
        common: dict[str, Any] = {"rtol": tolerance.rtol, "atol": tolerance.atol}
        if self._form == "same":
            made = self._result(actual)
            return Verdict(made, self._result(expected, avoiding=made), **common)
        if code == "EC216":
            return Verdict(self._result(actual), "", form="visible", **common)
        if (changed := self._changed_input()) is not None:
            return Verdict(f"<{changed.number}>", changed.literal, **common)
        raise Unwritable(f"{code} judges by a condition of its own")

    def _changed_input(self) -> Step | None:
        """The last value that was written out and is another now, although no step of the suite has changed it."""
        from pytest_evalcheck.scripts.literals import tensor_text

        for step in reversed(self.tape.steps):
            if step.literal.startswith("torch."):
                with suppress(Unwritable), self.tape.silent():
                    if tensor_text(step.result) != step.literal:
                        return step
        return None

    def _result(self, value: Any, avoiding: str = "") -> str:
        """A compared value as an expression over results, and where it came from none, as it is."""
        from pytest_evalcheck.expectations.comparison import Raised

        if isinstance(value, Raised):
            value = value.error
        known = self.tape.expression(value)
        if known is not None:
            return known
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key!r}: {self._result(part)}" for key, part in value.items()) + "}"
        if isinstance(value, (list, tuple)):
            inside = ", ".join(self._result(part) for part in value)
            return f"[{inside}]" if isinstance(value, list) else f"({inside},)"
        if isinstance(value, (bool, int, float, str, type(None))):
            for step in reversed(self.tape.steps):
                equal = type(step.result) is type(value) and step.result == value and not step.literal
                if equal and step.keeps and f"<{step.number}>" not in avoiding:
                    return f"<{step.number}>"
        if isinstance(value, BaseException):
            raise Unwritable(f"the error {type(value).__name__} came from the suite")
        made = self.tape.writer.text(value, "expected")
        return made.text


def _unseeded(steps: list[Step]) -> list[Step]:
    return [step for step in steps if not step.seeds]


def _plain(world: World) -> World:
    return replace(world, ranks=tuple(map(_unseeded, world.ranks)))


def main(arguments: list[str]) -> int:
    """Replay, and write OUT."""
    wanted = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    recorder = Recorder(wanted["signature"], wanted["title"], wanted["name"])
    recorder.install()
    # This package was imported before pytest could rewrite the asserts of a plugin, which has none.
    quiet = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
    code = pytest.main([*arguments[2:], *quiet], plugins=[recorder])
    made = {"scripts": recorder.scripts} if recorder.scripts else {"why": recorder.why, "code": int(code)}
    Path(arguments[1]).write_text(json.dumps(made), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
