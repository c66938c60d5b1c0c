"""``python -m pytest_evalcheck.scripts.replay WANTED.json OUT.json PYTEST_ARGUMENTS``: replay, and write a script.

WANTED holds the signature of the failure, the id of its upstream fault, whose other signatures do as well, the lines
of the docstring, and the name of a test. OUT gets ``{"scripts": [[script, test, repeats], ...]}``, or ``{"why": ...}``
where there is none.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from pytest_evalcheck.expectations.call_log import watched_by
from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import Compared
from pytest_evalcheck.expectations.signature import signature_of
from pytest_evalcheck.kinds.registry import kind_of
from pytest_evalcheck.scripts.literals import Unwritable, numbers_in
from pytest_evalcheck.scripts.log import CallLog, is_of_package
from pytest_evalcheck.scripts.sources import Pruning, definitions
from pytest_evalcheck.scripts.text import Parts, Verdict, needed, script, test_function
from pytest_evalcheck.upstream import Fault, find


class Recorder:
    """Logs one replay, and writes the script of the failure that has the wanted signature."""

    def __init__(self, wanted: Mapping[str, Any], fault: Fault | None = None) -> None:
        self._wanted, self._fault = wanted, fault
        self.log = CallLog(is_of_package, whole=wanted.get("whole", False))
        self.log.compared = self.failed
        self.scripts: list[tuple[str, str, bool]] = []
        """Scripts and tests, and whether they draw what they draw in every run: the first that shows the failure is the
        one to take, where it is the same in every run."""
        self._flat = False
        self.why = "the replay did not fail in the same way"

    def failed(self, failure: Any) -> None:
        """Write the script of a failure, where it is the wanted one."""
        signature = self._wanted["signature"]
        found = signature_of(signature.partition(":")[0], failure)
        wanted = found == signature or (self._fault is not None and self._fault.shows(found))
        if not wanted or self.log.frozen:
            return
        self.log.frozen = True
        try:
            with watched_by(None):
                self.scripts = list(self._write(failure.compared))
        except Unwritable as why:
            self.why = str(why)
        except Exception as error:  # it must not look like a mistake of the check
            self.why = f"writing it raised {type(error).__name__}: {error}"

    def _write(self, compared: Compared | None) -> Iterator[tuple[str, str, bool]]:
        if compared is None:
            raise Unwritable("the check raises the failure itself")
        verdict, self._flat = self._verdict(compared), _is_flat(compared.expected)
        yielded: set[str] = set()
        for prune in (True, False):
            try:
                plain, drawn = (self._texts(verdict, prune=prune, seeded=seeded) for seeded in (False, True))
            except Unwritable:
                if prune:
                    raise
                return  # it is the longer one
            for one in (plain, drawn):
                if one[0] not in yielded:
                    yielded.add(one[0])
                    yield *one, one == drawn

    def _texts(self, verdict: Verdict, *, prune: bool, seeded: bool) -> tuple[str, str]:
        parts = self._parts(verdict, seeded=seeded, prune=prune)
        return script(parts), test_function(parts, self._wanted["name"], self._wanted["of"])

    def _parts(self, verdict: Verdict, *, seeded: bool, prune: bool) -> Parts:
        log = self.log
        chosen = needed(log.entries, verdict.uses, seeded=seeded)
        # Of ranks that a group has, all that they did.
        groups = {one.ranks[0] for one in chosen if one.ranks}
        last = [one for one in log.entries if one.ranks and one.ranks[0] in groups]
        every = [*chosen, *(one for each in last for one in needed(log.entries, each.uses))]
        for one in every:
            if one.missing:
                raise Unwritable(one.missing)
        text = " ".join(one.text for one in every)
        record = kind_of(self._wanted["kind"]).record
        read = frozenset({one.name for one in fields(record)} & {*re.findall(r"\.(\w+)", text)})
        things = list({id(thing): thing for one in every for thing in one.sources}.values())
        pruning = Pruning(record, read) if prune else None
        defined, imports, modules = definitions(things, log.is_own, log.made, pruning, whole=log.whole)
        environment = _environment(modules) if log.whole else {}
        return Parts(
            self._wanted["title"], defined, frozenset(imports), log.entries, verdict, self._flat, seeded, environment
        )

    def _verdict(self, compared: Compared) -> Verdict:
        tolerance, log = compared.tolerance, self.log
        form, actual, expected = compared.form, compared.actual, compared.expected
        common: dict[str, Any] = {"rtol": tolerance.rtol, "atol": tolerance.atol}
        if form == "unchanged":
            found = log.changed_input()
            if found is None:
                raise Unwritable("an input that is no literal")
            return Verdict("unchanged", *found, **common)
        if form in ("error", "visible", "warned"):
            return Verdict(form, log.find(actual), "", **common)
        if form == "names":
            return Verdict(form, log.find(actual), repr(expected), **common)
        if not form and isinstance(actual, Raised):
            return Verdict("raises", log.find(actual), type(actual.error).__name__, **common)
        if not form:
            raise Unwritable("the check judges by a condition of its own")
        if (raised := _raised_alone(actual, expected)) is not None:
            failed, other = log.find(raised[0]), log.find(raised[1], plain=True)
            if log.function_of(failed) != log.function_of(other):  # mended, that call returns no such value
                return Verdict("returns", failed, "", **common)
        made = log.find(actual)
        wanted = log.find(expected, avoid=numbers_in(made), plain=True)
        return Verdict(form, made, wanted, **common)


def _raised_alone(actual: Any, expected: Any) -> tuple[Raised, Any] | None:
    """Return the first error where a value is expected, and that value; None where there is no such pair."""
    if isinstance(actual, Raised):
        return None if isinstance(expected, Raised) else (actual, expected)
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        pairs = (_raised_alone(actual[key], expected[key]) for key in actual if key in expected)
        return next((pair for pair in pairs if pair), None)
    return None


def _is_flat(value: Any) -> bool:
    """Return whether a value is a number, or a tensor or an array of numbers."""
    dtype = str(getattr(value, "dtype", ""))
    return (isinstance(value, (int, float)) and not isinstance(value, bool)) or (
        hasattr(value, "shape") and any(kind in dtype for kind in ("float", "int"))
    )


def _environment(modules: Sequence[str]) -> dict[str, str]:
    """Return the variables that files of targets set, by which a library may choose its backend."""
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


def main(arguments: list[str]) -> int:
    """Replay, and write OUT."""
    wanted = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    recorder = Recorder(wanted, find(wanted["upstream"]))
    with watched_by(recorder.log):
        # This package is imported already; as a plugin it has no asserts that pytest could rewrite.
        code = pytest.main([*arguments[2:], "-W", "ignore::pytest.PytestAssertRewriteWarning"])
    made = {"scripts": recorder.scripts} if recorder.scripts else {"why": recorder.why, "code": int(code)}
    Path(arguments[1]).write_text(json.dumps(made), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
