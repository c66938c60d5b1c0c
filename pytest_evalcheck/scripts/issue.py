"""The text of an issue in Markdown, for the library whose code is at fault."""

from __future__ import annotations

from pytest_evalcheck.scripts.producing import Made, versions

_MOST_PRINTED = 4_000
_MOST_SCRIPT = 50_000
"""Characters: GitHub takes an issue of 65,536."""


def issue(made: Made) -> str:
    """Versions, the property, the script, and what it prints."""
    cell, failure = made.cell, made.cell.failure
    assert failure is not None
    lines = [f"# {title(made)}", ""]
    if cell.see:
        lines += [f"Reported before: {cell.see}", ""]
    lines += ["## What happens", ""]
    if failure.expected:
        about = f"{failure.about[:1].upper()}{failure.about[1:]}:"
        lines += [about, "", f"* expected: `{failure.expected}`", f"* actual: `{failure.actual}`", ""]
    elif failure.detail:
        lines += ["```", failure.detail, "```", ""]
    lines += ["## What is expected", "", failure.statement, "", "## To reproduce", ""]
    if len(made.script) <= _MOST_SCRIPT:
        lines += ["```python", made.script.rstrip(), "```", ""]
    else:
        lines += ["Run the attached script.", ""]
    lines += ["It prints", "", "```", _shortened(made.output), "```", ""]
    lines += ["and ends with exit code 1; without the fault it ends with 0.", ""]
    lines += ["## Versions", "", *(f"* {version}" for version in versions(cell)), ""]
    return "\n".join(lines)


def title(made: Made) -> str:
    """One line: what is wrong, and with which values, where these are short."""
    cell, failure = made.cell, made.cell.failure
    assert failure is not None
    name = cell.class_name.rpartition(".")[2] or cell.target.rpartition("::")[2]
    start = f"{name}: {failure.about}"
    whole = f"{start}: {failure.actual}, expected {failure.expected}"
    return whole if failure.expected and len(whole) <= 100 and "\n" not in whole else start


def _shortened(text: str) -> str:
    half = _MOST_PRINTED // 2
    return text if len(text) <= _MOST_PRINTED else f"{text[:half]}\n...\n{text[-half:]}"
