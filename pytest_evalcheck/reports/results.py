"""The outcome of one check of one target on one device: the data that every report is a view of.

This module imports nothing heavy, so that reports work wherever cells arrive: in the process that ran them, on the
controller of a distributed run, or from a JSON file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Literal, get_args

from pytest_evalcheck.reports.case_codec import from_plain_json, to_plain_json
from pytest_evalcheck.reports.causes import Cause, causes_of
from pytest_evalcheck.reports.runs import Run

Outcome = Literal["passed", "failed", "known", "incomplete", "not applicable", "not run"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
_TUPLES = ("given", "transfers", "after")
DECLARED = "declared not a function of a set of samples"
"""The beginning of what is said in place of a failure of a property by which inference tells what code is."""
REFUSES = "it refuses rows that nobody said it takes"
"""The beginning of what is said in place of an error of code that nobody has declared to be a metric or a scorer."""
ACCEPTED_NOW, WITHOUT_REASON = UNEXPLAINED = ("accepted now", "accepted, without a reason")
"""The beginnings of the reasons of known failures that nobody has explained."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """The result of the smallest failing case of a cell. Data alone: every view renders it in its own way."""

    about: str
    """The comparison, or the error."""
    expected: str = ""
    actual: str = ""
    detail: str = ""
    untestable: bool = False
    """The target could not be built or used, so that the check was not tried."""
    case: Mapping[str, Any] | None = None
    """The fields of the smallest failing case, as plain Python values; None where no case was drawn."""
    statement: str = ""
    usual_cause: str = ""
    fix: str = ""
    """The fix: an import path, or an instruction."""
    given: tuple[str, ...] = ()
    """Arguments and result of an example call, a line each, with types, dtypes and shapes:
    ``update(preds=int64[3], target=int64[3])``."""
    transfers: tuple[str, ...] = ()
    """One line for each kind of transfer between devices, and of host synchronisation, in that case."""
    traceback: str = ""
    """The traceback of an error that was raised outside of the code under test, or by the check itself."""
    origin: str = ""
    """The error that the failure is about: its type, file, line and function; empty for values that
    differ: ``KeyError at composer/models/huggingface.py:413 (HuggingFaceModel.eval_forward)``."""
    own: str = ""
    """The class or the function that failed, where the target requires a library and its own file defines it."""
    after: tuple[str, ...] = ()
    """The codes of more basic checks. Where one of them failed on the same target and device, this failure is taken
    to follow from it."""
    location: str = ""
    """The file and line of the target."""
    reproduce: str = ""
    """The command that replays the case."""

    def as_json(self) -> dict[str, Any]:
        """The failure as JSON types; `case` keeps tuples, bytes and non-finite numbers by tags."""
        case = _case_as_json(self.case)
        lists = {name: list(getattr(self, name)) for name in _TUPLES}
        return {**vars(self), **lists, "case": case}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Failure:
        """The failure that `as_json` wrote; unknown keys are ignored.

        Raises:
            TypeError: when a required key is missing.
            ValueError: when a value of the case has an unknown tag.
        """
        own = _known(cls, data)
        own["case"] = _case_from_json(own.get("case"))
        return cls(**{**own, **{name: tuple(own.get(name, ())) for name in _TUPLES}})


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One cell of the matrix: target x check x device, with its outcome."""

    target: str
    """The file of the target and its name, as pytest writes it: ``evalcheck_lm.py::accuracy``."""
    kind: str
    check: str
    code: str
    device: str
    outcome: Outcome
    reason: str = ""
    """One line: what failed, why it is not applicable, why it did not run. Empty for a check that passed."""
    cause: str = ""
    """Common words of one root cause, such as ``leak: default dtype``; empty where nothing is shared."""
    see: str = ""
    """The upstream report of a known failure, or empty when there is none."""
    upstream: str = ""
    """The id of the upstream fault that a known failure is, such as ``torchmetrics-compute-cache``; else empty."""
    class_name: str = ""
    """The class of the object that the target describes, or the function, with its module; else empty."""
    signature: str = ""
    """The identity of a failure among others: code, id of the comparison and kind of difference."""
    severity: str = ""
    """The severity of a failure: ``number``, ``error`` or ``cost``; empty where nothing failed."""
    seconds: float = 0.0
    """The wall time of the whole cell."""
    examples: int = 0
    """The number of cases that were tried."""
    planned: int = 0
    """The number of cases that were to be tried at least; 0 where none was."""
    value: str = ""
    """The one value that the target gave in all cases; empty where it gave several, or none was looked at."""
    varies: bool = False
    """The target gave different values."""
    undeclared: bool = False
    """Inference found the target by trial, and nothing declares that it is of its kind."""
    requires: tuple[str, ...] = ()
    """The distributions that the target requires, by name."""
    missing: tuple[str, ...] = ()
    """Needs of a cell that was not run, by the names that ``evalcheck_optional`` takes: distributions,
    kinds of device, or ``skipped``. Empty where nothing can be named."""
    conditions: Mapping[str, int] = field(default_factory=dict)
    """The number of cases that reached each condition of the check."""
    failure: Failure | None = None
    """The failure of a failed or of a known cell; None elsewhere."""
    ledger: Mapping[str, Any] = field(default_factory=dict)
    """Transfers between devices and host synchronisations, on a simulated device: all of them for the smallest input
    of a failure, else the numbers of ``transfers`` and ``syncs`` and the ``bytes`` by direction, of the last case."""
    variants: Sequence[Mapping[str, Any]] = ()
    """The cost of the plain configuration of a loop and of each of its variants, measured in turns and not judged:
    ``name``, ``samples``, ``rounds``, ``speed`` in samples per second, ``speedup``, ``memory`` in bytes, its
    ``memory_ratio``, ``numbers`` and ``drift``. A variant with a budget also has the ``number`` of the budget, its
    ``change`` between ``low`` and ``high``, ``budget`` and ``verdict``."""
    accepted: Sequence[Mapping[str, Any]] = ()
    """The failures that ``--evalcheck-known=accept`` adds to the baseline: the ``signature`` and the ``case`` of each,
    whose fields are as those of `Failure.case`, and the ``values`` that it compares."""
    unaccepted: str = ""
    """A clause: what the check showed when ``--evalcheck-known=accept`` tried it again and did not take its failure."""
    stale: tuple[str, ...] = ()
    """The known failures that do not fail any more, by where they are listed: ``evalcheck-known.toml:12``, or the
    target."""
    file: str = ""
    line: int = 0

    @property
    def unreached(self) -> tuple[str, ...]:
        """The conditions that no case reached, so that the cell shows nothing about them."""
        return tuple(name for name, count in self.conditions.items() if not count) if self.examples else ()

    @property
    def reproduce(self) -> str:
        """The command that replays the failure; empty where nothing failed."""
        return self.failure.reproduce if self.failure else ""

    @property
    def executed(self) -> bool:
        """Return whether the check was tried."""
        return self.outcome in ("passed", "failed", "known")

    def as_json(self) -> dict[str, Any]:
        """A plain dict of this cell, with its unreached conditions, ready for ``json.dumps``."""
        plain = {
            "conditions": dict(self.conditions),
            "ledger": dict(self.ledger),
            "variants": [dict(row) for row in self.variants],
            "requires": list(self.requires),
            "missing": list(self.missing),
            "accepted": [{**entry, "case": _case_as_json(entry["case"])} for entry in self.accepted],
            "stale": list(self.stale),
            "failure": self.failure.as_json() if self.failure else None,
        }
        return {**vars(self), **plain, "unreached": list(self.unreached)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Cell:
        """The cell that `as_json` wrote; unknown keys are ignored.

        Raises:
            TypeError: when a required key is missing.
            ValueError: when a value of the failing case has an unknown tag.
        """
        own = _known(cls, data)
        failure = own.get("failure")
        own["failure"] = Failure.from_json(failure) if failure is not None else None
        own["requires"] = tuple(data.get("requires", ()))
        own["missing"] = tuple(data.get("missing", ()))
        own["accepted"] = tuple({**entry, "case": _case_from_json(entry["case"])} for entry in data.get("accepted", ()))
        own["stale"] = tuple(data.get("stale", ()))
        return cls(**{**own, "variants": tuple(dict(row) for row in data.get("variants", ()))})


def _case_as_json(case: Mapping[str, Any] | None) -> Any:
    return None if case is None else {name: to_plain_json(value) for name, value in case.items()}


def _case_from_json(case: Any) -> dict[str, Any] | None:
    return None if case is None else {name: from_plain_json(value) for name, value in case.items()}


def _known(cls: type, data: Mapping[str, Any]) -> dict[str, Any]:
    return {f.name: data[f.name] for f in fields(cls) if f.name in data}


class VerdictError(AssertionError):
    """A report that is not ok; the message shows every failure, and what was not tried."""


MOST_REASONS = 6
"""The most reasons that stand in the last line of a run."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The verdict on a run. The last line of the screen, the exit code and ``summary.ok`` of JSON are views of it."""

    why: tuple[str, ...]
    """Reasons against it, such as ``3 failed`` or ``2 not run (mosaicml is not installed)``. Empty when it is ok."""
    counts: str
    """``214 passed, 5 known``, and what was not run with consent."""

    @property
    def ok(self) -> bool:
        """Return whether every selected cell was tried, or it is declared why not, and nothing failed."""
        return not self.why

    @property
    def line(self) -> str:
        """``evalcheck: not ok: 3 failed of 1 cause, 1 incomplete``, or ``evalcheck: ok: 214 passed``."""
        return self.naming(MOST_REASONS)

    def naming(self, most: int) -> str:
        """The line with at most so many reasons."""
        return f"evalcheck: ok: {self.counts}" if self.ok else f"evalcheck: not ok: {_first_texts(self.why, most=most)}"


@dataclass(frozen=True)
class Report:
    """The cells of one run, in the order they ran, and what else decides whether the run is ok.

    It has no truth value: ``report.ok`` says whether all is well, ``report.raise_for_failures()`` requires it.
    """

    cells: tuple[Cell, ...]
    problems: tuple[str, ...]
    """Problems of the run beside its cells, a line each: a target that cannot be collected, an option."""
    optional: tuple[str, ...]
    """The names that may be missing here: ``evalcheck_optional``."""
    narrowed: bool
    """The command line chose among the cells, so that a target need not have one that was tried."""
    inferred: Mapping[str, Any] | None
    """Coverage of inferred targets: found, tried, and why skipped."""
    run: Run | None
    """Run metadata; None for a report that was not made by ``pytest --evalcheck``."""
    unchanged: str
    """The number of checks that were skipped because nothing they depend on has changed, as a clause; or empty."""

    def __init__(
        self,
        cells: Iterable[Cell] = (),
        *,
        problems: Iterable[str] = (),
        optional: Iterable[str] = (),
        narrowed: bool = False,
        inferred: Mapping[str, Any] | None = None,
        run: Run | None = None,
        unchanged: str = "",
    ) -> None:
        object.__setattr__(self, "cells", tuple(cells))
        object.__setattr__(self, "problems", tuple(problems))
        object.__setattr__(self, "optional", tuple(optional))
        object.__setattr__(self, "narrowed", narrowed)
        object.__setattr__(self, "inferred", inferred)
        object.__setattr__(self, "run", run)
        object.__setattr__(self, "unchanged", unchanged)

    def __len__(self) -> int:
        return len(self.cells)

    def __iter__(self) -> Iterator[Cell]:
        return iter(self.cells)

    def __bool__(self) -> bool:
        raise TypeError(
            "a report has no truth value; report.ok says whether all is well, report.raise_for_failures() requires it"
        )

    def count(self, outcome: Outcome) -> int:
        """Return the number of cells with this outcome."""
        return len(self.of(outcome))

    def of(self, outcome: Outcome) -> tuple[Cell, ...]:
        """The cells with this outcome."""
        return tuple(cell for cell in self.cells if cell.outcome == outcome)

    @cached_property
    def causes(self) -> tuple[Cause[Cell], ...]:
        """The root causes of the failed cells, that with the most cells first."""
        return causes_of(self.of("failed"))

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets that have a cell, in order of appearance."""
        return tuple(dict.fromkeys(cell.target for cell in self.cells))

    @property
    def parts(self) -> tuple[str, ...]:
        """The reasons why these are not all cells of the project: a shard, a selection, a change; empty for all."""
        chosen = self.run.chosen if self.run else ()
        shard = (f"shard {self.run.shard.text}",) if self.run and self.run.shard else ()
        some = ("some were selected",) if self.narrowed and not chosen else ()
        return (*shard, *chosen, *some, *([self.unchanged] if self.unchanged else []))

    @property
    def untried(self) -> tuple[str, ...]:
        """The targets of which no check was tried: an error, because their green would mean nothing.

        What nobody has declared may turn out to be no metric. A target with a cell that was not run is not among
        them: that cell reports it. None is, where the command line chose among the cells.
        """
        if self.narrowed:
            return ()
        tried = {each.target for each in self.cells if each.outcome != "not applicable" or each.undeclared}
        return tuple(target for target in self.targets if target not in tried)

    @property
    def constant(self) -> dict[str, str]:
        """By target, the one value that it gave in all cases of all checks: a property of it was not tested.

        What nobody has declared is no function of samples then, and in `constant_by_trial`. A target with a failed
        check is not among them: its control has said so, or its failures come first. One with a known failure is not
        either, unless that is a cost: it has cases with another number, or without any.
        """
        return self._one_value(undeclared=False)

    @property
    def constant_by_trial(self) -> dict[str, str]:
        """The same of targets that inference found by trial."""
        return self._one_value(undeclared=True)

    def _one_value(self, *, undeclared: bool) -> dict[str, str]:
        if self.narrowed:
            return {}
        known = (cell for cell in self.of("known") if cell.severity != "cost")
        failed = {cell.target for cell in (*self.of("failed"), *known)}
        values: dict[str, set[str]] = {}
        for cell in self.cells:
            if (cell.value or cell.varies) and cell.target not in failed and cell.undeclared == undeclared:
                values.setdefault(cell.target, set()).update(["", "..."] if cell.varies else [cell.value])
        return {target: next(iter(seen)) for target, seen in values.items() if len(seen) == 1}

    @property
    def ok(self) -> bool:
        """Return whether every selected cell was tried, or it is declared why not, and nothing failed."""
        return self.verdict.ok

    @property
    def verdict(self) -> Verdict:
        """The verdict on the run, with the reasons against it."""
        lacking = [cell for cell in self.of("not run") if not self.excuses(cell)]
        red: tuple[Outcome, ...] = ("failed", "incomplete")
        why = [self._counts([outcome]) for outcome in red if self.count(outcome)]
        why += [f"{len(lacking)} not run ({_reasons(lacking)})"] if lacking else []
        if self.untried:
            why.append(f"no check was tried of {_first_texts(self.untried)}")
        elif not self.unchanged and not any(cell.executed or cell.outcome == "incomplete" for cell in self.cells):
            why.append("nothing was tried")
        if constant := [f"{target} gave {value}" for target, value in self.constant.items()]:
            advice = "samples need right= and wrong=, or answers that can be right"
            why.append(f"{_first_texts(constant)} in all cases of all checks, which tests nothing ({advice})")
        consented = [cell for cell in self.of("not run") if self.excuses(cell)]
        counts = [
            f"{count} {outcome}" for outcome in ("passed", "known", "not applicable") if (count := self.count(outcome))
        ]
        counts += [f"{len(consented)} not run (optional: {_reasons(consented)})"] if consented else []
        counts += [self.unchanged] if self.unchanged else []
        return Verdict(why=(*why, *self.problems), counts=", ".join(counts) or "no check")

    def excuses(self, cell: Cell) -> bool:
        """Return whether a cell was not run with consent: all that it wants may be missing."""
        return bool(cell.missing) and set(cell.missing) <= set(self.optional)

    def raise_for_failures(self) -> None:
        """Require that the report is ok.

        Raises:
            VerdictError: when it is not; the message shows each cause with its failures, and what was not tried.
        """
        if not self.ok:
            raise VerdictError("\n\n".join([self.verdict.line, *self.screens]).rstrip())

    @property
    def screens(self) -> list[str]:
        """The screen of every failure, cause by cause, and what was not tried without consent."""
        from pytest_evalcheck.reports.failure_text import format_failure, format_repeated

        parts = []
        for cause in self.causes:
            first, *others = zip(cause.cells, cause.whys, strict=True)
            parts.append(format_failure(first[0]) or _brief(first[0]))
            parts += [format_repeated(cell, first[0], why) for cell, why in others]
        rest = (*self.of("incomplete"), *(cell for cell in self.of("not run") if not self.excuses(cell)))
        # A target of which nothing was tried: the reasons of its cells say why.
        rest += () if any(cell.executed for cell in self.cells) else self.of("not applicable")
        return [*parts, "\n".join(map(_brief, rest))] if rest else parts

    @property
    def denominator(self) -> str:
        """``12 targets, 214 checks: 198 passed, 9 failed of 2 causes, 5 known, 2 not applicable``."""
        text = f"{plural(len(self.targets), 'target')}, {plural(len(self.cells), 'check')}"
        text = f"{text}: {self.counts}" if self.counts else text
        return f"{text}; {self.unchanged}" if self.unchanged else text

    @property
    def counts(self) -> str:
        """``198 passed, 9 failed of 2 causes``: the outcomes that some cell has."""
        return self._counts(outcome for outcome in OUTCOMES if self.count(outcome))

    def _counts(self, outcomes: Iterable[Outcome]) -> str:
        causes = f" of {plural(len(self.causes), 'cause')}" if self.count("failed") > 1 else ""
        return ", ".join(f"{self.count(one)} {one}{causes if one == 'failed' else ''}" for one in outcomes)


def plural(count: int, noun: str, many: str = "") -> str:
    """``1 cell``, ``2 cells``; ``many`` is the plural where it does not end in that letter."""
    return f"{count} {noun if count == 1 else many or noun + 's'}"


def _first_texts(texts: Iterable[str], separator: str = ", ", most: int = 3) -> str:
    """The first few texts, each once and on one line, and how many more there are."""
    once = list(dict.fromkeys(" ".join(text.split()) for text in texts))
    more = [f"and {len(once) - most} more"] if len(once) > most else []
    return separator.join([*once[:most], *more])


def _reasons(cells: Iterable[Cell]) -> str:
    return _first_texts((cell.reason or "no reason was given" for cell in cells), "; ")


def _brief(cell: Cell) -> str:
    return f"{cell.outcome}: {cell.code} {cell.target} on {cell.device}: {cell.reason}"
