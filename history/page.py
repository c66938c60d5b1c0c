"""``docs/history.md``: the outcomes of ``history/results`` as tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from history.entries import ROOT, Entry, Library
from history.outcomes import OUTCOMES, REFERENCES

PAGE = ROOT / "docs" / "history.md"

_INTRODUCTION = """# Released fixes

What changelogs say was mended in a number that an evaluation reports, and whether today's suite finds it in the release
before. The list (`history/*.toml`) is written before the suite runs; each entry predicts the check that finds it.
`nox -s history` installs both releases, runs the suite on both at quick effort on the CPU, and writes this page;
[history/README.md](../history/README.md) says how an entry is added and counted.

* **caught**: a case fails on the release before, and passes on the release after;
* **caught, still failing**: a predicted check is red, and the same cases fail on both;
* **missed**: no check shows it, and a stand-alone script does;
* **cannot run**: a release does not install or does not import beside the README's environment;
* **not reproduced**: the stand-alone script does not show what the changelog says. Such entries are not counted.

The share is that of *caught* among what runs: caught, caught and still failing, and missed.
"""


def write(known: Mapping[str, Library], results: Mapping[str, Any]) -> None:
    """Write the page."""
    PAGE.write_text(text(known, results), encoding="utf-8")


def text(known: Mapping[str, Library], results: Mapping[str, Any]) -> str:
    """The page."""
    parts = [_INTRODUCTION, _summary(known, results), _splits(known, results)]
    parts += [_library_section(library, results) for library in known.values()]
    return "\n".join(parts)


def _summary(known: Mapping[str, Library], results: Mapping[str, Any]) -> str:
    rows = ["library", *OUTCOMES, "not run yet", "caught at the first run", "caught now"]
    lines = [_row(rows), _row(["---"] * len(rows))]
    for name, entries in [*((lib.name, lib.entries) for lib in known.values()), ("all", _all(known))]:
        counts = [str(sum(_outcome(entry, results) == outcome for entry in entries)) for outcome in OUTCOMES]
        untried = str(sum(entry.id not in results for entry in entries))
        lines.append(
            _row([name, *counts, untried, _share(entries, results, "first"), _share(entries, results, "outcome")])
        )
    return "\n".join([*lines, ""])


def _splits(known: Mapping[str, Library], results: Mapping[str, Any]) -> str:
    caught = [entry for entry in _all(known) if _outcome(entry, results) == "caught"]
    codes = {entry.id: set(results[entry.id]["codes"]) for entry in caught}
    alone = sum(codes[entry.id] <= REFERENCES for entry in caught)
    predicted = sum(bool(codes[entry.id] & set(entry.checks)) for entry in caught)
    missed = [entry for entry in _all(known) if _outcome(entry, results) in ("missed", "caught, still failing")]
    uncovered = sum(not entry.checks for entry in missed)
    return "\n".join(
        [
            f"Of {len(caught)} that are caught, {len(caught) - alone} are found by comparing the code with itself, "
            f"and {alone} by a reference alone ({', '.join(sorted(REFERENCES))}). In {predicted} a check that was "
            f"predicted finds it, in {len(caught) - predicted} another one.",
            f"Of {len(missed)} others that run, {uncovered} are covered by no check.",
            "",
        ]
    )


def _library_section(library: Library, results: Mapping[str, Any]) -> str:
    lines = [f"## {library.name}", "", _row(["fixed in", "what was wrong", "outcome", "shown by, or why not"])]
    lines.append(_row(["---"] * 4))
    for entry in library.entries:
        result = results.get(entry.id, {})
        outcome = result.get("outcome", "not run yet")
        if outcome == "missed" and result.get("first") == "caught":
            outcome = "missed (caught at first)"
        elif outcome == "caught" and result.get("first") != "caught":
            outcome = f"caught ({result['first']} at first)"
        if outcome.startswith("caught"):
            why = ", ".join(result.get("codes", ()))
        elif outcome == "not reproduced":
            why = ""
        else:
            why = entry.missed or (entry.why if not entry.checks else "") or result.get("why", "")
        fixed = f"[{entry.after}]({entry.source})"
        lines.append(_row([fixed, entry.what, outcome, why]))
    return "\n".join([*lines, ""])


def _all(known: Mapping[str, Library]) -> list[Entry]:
    return [entry for library in known.values() for entry in library.entries]


def _outcome(entry: Entry, results: Mapping[str, Any], key: str = "outcome") -> str:
    return str(results.get(entry.id, {}).get(key, ""))


def _share(entries: Sequence[Entry], results: Mapping[str, Any], key: str) -> str:
    # An entry that is found not to be reproduced, or not to run, was never one of those that count.
    runs = [entry for entry in entries if _outcome(entry, results) in ("caught", "caught, still failing", "missed")]
    caught = sum(_outcome(entry, results, key) == "caught" for entry in runs)
    return f"{caught} of {len(runs)} ({caught / len(runs):.0%})" if runs else "-"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    from history.entries import libraries
    from history.run import read_results

    write(libraries(), read_results())
