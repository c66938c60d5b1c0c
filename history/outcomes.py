"""Comparison of two reports of one entry: a pure function of both, and of what the stand-alone script shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

Outcome = Literal["caught", "caught, still failing", "missed", "cannot run", "not reproduced"]
OUTCOMES: tuple[Outcome, ...] = ("caught", "caught, still failing", "missed", "cannot run", "not reproduced")
REFERENCES = frozenset({"EC217", "EC410"})
"""The checks that compare with a number from elsewhere; all others compare the code with itself."""

Report = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Ran:
    """One run of the suite over one release."""

    cells: Sequence[Mapping[str, Any]] = ()
    """The checks of the JSON report."""
    cases: Sequence[Mapping[str, Any]] = ()
    """Each case that was tried, with the signatures of what failed in it (see ``any_release``)."""
    trouble: str = ""
    """The reason why there is no report."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The outcome of one entry."""

    outcome: Outcome
    why: str = ""
    """One line: the cell that shows it, or what is in the way."""
    codes: tuple[str, ...] = ()
    """The checks that are broken before and not after."""
    cells: tuple[str, ...] = ()
    """The lines that they reported."""

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


def classify(checks: Sequence[str], before: Ran, after: Ran, shown: tuple[int, int] | None) -> Verdict:
    """The outcome of an entry.

    ``shown`` has the exit codes of the stand-alone script on both releases, or None where the entry has none. A cell
    shows the fault where one of its cases fails before, and passes after, or fails in less.
    """
    if shown is not None and shown != (1, 0):
        if 2 in shown:
            release = "before" if shown[0] == 2 else "after"
            return Verdict(outcome="cannot run", why=f"the script does not run on the release {release}")
        return Verdict(outcome="not reproduced", why=f"the script exits with {shown[0]} before and {shown[1]} after")
    if before.trouble and shown is None:
        return Verdict(outcome="cannot run", why=f"before: {before.trouble}")
    failed, tried = _failed(before), _tried(after)
    mended = [key for key in failed if _is_mended(failed[key], tried.get(key), _outcome(after, key))]
    if mended:
        cells = _lines(before, mended)
        return Verdict(outcome="caught", why=cells[0], codes=_codes(mended), cells=tuple(cells[:_MOST]))
    kept = {_key(cell) for cell in after.cells if cell["outcome"] == "passed"}
    # Such an error counts only with the script: a target of today may use what an older release lacks.
    told, untried = _stopped(before)
    if shown == (1, 0) and (stopped := [key for key in (*told, *untried) if key in kept]):
        cells = _lines(before, told)
        return Verdict(outcome="caught", why=cells[0], codes=_codes(stopped), cells=tuple(cells[:_MOST]))
    still = [key for key in failed if key[1] in checks]
    if still:
        cells = _lines(before, still)
        lost = after.trouble or "the same cases fail after, too"
        if not any(key in tried for key in still) and not after.trouble:
            lost = "it is not tried after"
        why = f"{cells[0]}: {lost}"
        return Verdict(outcome="caught, still failing", why=why, codes=_codes(still), cells=tuple(cells[:_MOST]))
    if not any(cell["outcome"] in ("passed", "known", "not applicable") for cell in before.cells):
        why = before.trouble or _first_reason(before.cells)
        return Verdict(outcome="cannot run" if shown is None else "missed", why=f"nothing is tried before: {why}")
    return Verdict(outcome="missed", why="" if shown is not None else "no script has shown the fault yet")


_MOST = 6
Key = tuple[str, str, str]


def _key(cell: Mapping[str, Any]) -> Key:
    return str(cell["target"]).rpartition("::")[2], str(cell["code"]), str(cell["device"])


Cases = Mapping[str, frozenset[str]]
"""By case: the signatures of what failed in it."""


def _failed(ran: Ran) -> dict[Key, Cases]:
    """The cells in which a case has failed, with these cases."""
    told = {key: {case: what for case, what in cases.items() if what} for key, cases in _tried(ran).items()}
    return {key: cases for key, cases in told.items() if cases}


def _stopped(ran: Ran) -> tuple[list[Key], list[Key]]:
    """The cells that say that nothing could be tried, and those that were not run for it.

    That is, since an ordinary batch or the factory raises an error, which the first check of a target reports. An error
    of an import is that of a name that a release lacks, and no fault of it.
    """
    told = [_key(cell) for cell in ran.cells if cell["outcome"] == "failed" and _is_error_of_target(cell)]
    targets = {(target, device) for target, _, device in told}
    not_run = [_key(cell) for cell in ran.cells if cell["outcome"] == "not run"]
    return told, [key for key in not_run if (key[0], key[2]) in targets]


def _is_error_of_target(cell: Mapping[str, Any]) -> bool:
    raised = (cell["failure"] or {}).get("origin", "").partition(" ")[0]
    return cell["cause"] in ("target error", "factory") and raised not in ("", "ImportError", "ModuleNotFoundError")


def _tried(ran: Ran) -> dict[Key, Cases]:
    """The cells of which a case was tried, with all their cases."""
    found: dict[Key, dict[str, frozenset[str]]] = {}
    for line in ran.cases:
        found.setdefault(_key(line), {})[line["case"]] = frozenset(line["failed"])
    return dict(found)


def _is_mended(failed: Cases, after: Cases | None, outcome: str) -> bool:
    """Return whether a case that failed passes after, or fails in less."""
    if after is None:
        return False
    common = [case for case in failed if case in after]
    # The inputs of an inferred target are those of its docstring: where that has changed, so have all cases.
    return any(after[case] < failed[case] for case in common) if common else outcome == "passed"


def _outcome(ran: Ran, key: Key) -> str:
    return next((str(cell["outcome"]) for cell in ran.cells if _key(cell) == key), "")


def _lines(ran: Ran, keys: Sequence[Key]) -> list[str]:
    told = sorted((cell for cell in ran.cells if _key(cell) in keys), key=lambda cell: str(cell["code"]))
    about = [str((cell.get("failure") or {}).get("about") or cell["reason"]) for cell in told]
    return [f"{cell['code']} {_key(cell)[0]}: {text}" for cell, text in zip(told, about, strict=True)]


def _codes(keys: Sequence[Key]) -> tuple[str, ...]:
    return tuple(sorted({code for _, code, _ in keys}))


def _first_reason(cells: Sequence[Mapping[str, Any]]) -> str:
    return next((str(cell["reason"]) for cell in cells if cell["reason"]), "no check")
