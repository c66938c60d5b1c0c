"""Write docs/checks from the docstrings of the checks and what they print on their planted bugs.

python docs/make_checks.py [CODE ...]    with codes, only the bugs of these checks are tried again
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from hypothesis import settings  # noqa: E402

import pytest_evalcheck as ec  # noqa: E402
from fixtures.gallery.table import SPECIMENS, Specimen  # noqa: E402
from pytest_evalcheck.engine.effort import EFFORTS  # noqa: E402
from pytest_evalcheck.kinds.common.check import Check  # noqa: E402
from pytest_evalcheck.kinds.registry import shipped  # noqa: E402
from pytest_evalcheck.reports.failure_text import format_failure  # noqa: E402

FOLDER = ROOT / "docs" / "checks"
PROFILE = settings(derandomize=True, database=None)
"""With the limits of time out of the way below: a page says the same whatever else the machine does."""


def shown() -> dict[str, Specimen]:
    """The planted bug of each page, by the code of the check."""
    return {specimen.code: specimen for specimen in reversed(SPECIMENS)}


def cells(specimen: Specimen) -> tuple[ec.Cell, ...]:
    """The cells of the check on its planted bug, with draws and a smallest input that are the same everywhere."""
    settings.register_profile("docs", PROFILE)
    before = settings.get_current_profile_name()
    settings.load_profile("docs")
    try:
        with patch.dict(EFFORTS, normal=replace(EFFORTS["normal"], shrink_seconds=300)):
            return tuple(ec.run(specimen.bug, "auto", select=specimen.code, timeout=500).cells)
    finally:
        settings.load_profile(before)


def failure(tried: Sequence[ec.Cell]) -> str:
    """Return what the check prints when it catches the bug, without what its page has anyway."""
    cell = next((one for one in tried if one.outcome == "failed"), tried[0])
    assert cell.outcome == "failed", f"{cell.code} does not catch {cell.target}: {cell.reason}"
    return shortened(format_failure(cell))


def shortened(text: str) -> str:
    """A failure without what its page says beside it, what other checks print too, and where the bug stands."""
    headline, *parts = text.split("\n\n")
    kept = [re.sub(r"^EC\d{3} \w+.*\n", "", headline)]
    kept += [part for part in parts[1:] if not part.startswith("in an example call")]
    lines = (
        line
        for line in "\n\n".join(kept).splitlines()
        if not re.match(r"(usual cause|fix|target|reproduce|severity) ", line)
    )
    return "\n".join(re.sub(r"\.py:\d+", ".py", line) for line in lines).rstrip()


def written_failure(code: str) -> str:
    """The failure that the page of a check has."""
    return (FOLDER / f"{code}.md").read_text(encoding="utf-8").partition("```text\n")[2].rpartition("\n```\n")[0]


def page(made: Check, printed: str) -> str:
    """The page of one check, with what it prints."""
    lines = [f"# {made.code} {made.name}", "", made.statement, ""]
    if made.more:
        lines += [made.more, ""]
    for title, text in (("Why", made.rationale), ("Usual cause", made.usual_cause), ("Fix", made.fix)):
        if text:
            lines += [f"**{title}.** {text[0].upper() if title != 'Fix' else text[0]}{text[1:]}", ""]
    if made.conditions:
        lines += ["**Cases reach:** " + ", ".join(made.conditions) + ".", ""]
    if made.needs:
        lines += ["**Needs** samples with: " + ", ".join(f"`{need}`" for need in made.needs) + ".", ""]
    if made.marks:
        lines += ["**Runs** only when asked for: " + ", ".join(f"`-m {mark}`" for mark in made.marks) + ".", ""]
    if made.since != "0.1":
        lines += [f"Since {made.since}.", ""]
    lines += ["On a planted bug:", "", "```text", printed, "```", ""]
    return "\n".join(lines)


def index() -> str:
    """The list of all checks."""
    rows = [f"| [{made.code}]({made.code}.md) | {made.statement} |" for made in shipped()]
    head = [
        "# Checks",
        "",
        "One page per check, from its docstring: its property, why it matters, the usual cause, a fix, and a",
        "failure. `docs/make_checks.py` writes them. `pytest --evalcheck-explain EC203` prints the same.",
        "",
    ]
    return "\n".join([*head, "| code | property |", "| --- | --- |", *rows, ""])


def pages(failure_of: Callable[[str], str]) -> dict[str, str]:
    """Every file of the folder by name, with the failure of each code."""
    return {"README.md": index(), **{f"{made.code}.md": page(made, failure_of(made.code)) for made in shipped()}}


if __name__ == "__main__":
    specimens = shown()
    again = sys.argv[1:] or specimens
    made = pages(lambda code: failure(cells(specimens[code])) if code in again else written_failure(code))
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.md"):
        old.unlink()
    for name, text in made.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
