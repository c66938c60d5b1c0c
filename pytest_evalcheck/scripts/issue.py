"""The text of an issue in Markdown, for the library whose code is at fault."""

from __future__ import annotations

from pytest_evalcheck.scripts.producing import Made, versions


def issue(made: Made) -> str:
    """Versions, what is promised, the script, and what it prints."""
    cell, failure = made.cell, made.cell.failure
    assert failure is not None
    name = cell.class_name.rpartition(".")[2] or cell.target.rpartition("::")[2]
    lines = [f"# {name}: {failure.about}", ""]
    if cell.see:
        lines += [f"Reported before: {cell.see}", ""]
    lines += ["## What happens", ""]
    if failure.expected:
        lines += [f"* expected: `{failure.expected}`", f"* actual: `{failure.actual}`", ""]
    elif failure.detail:
        lines += ["```", failure.detail, "```", ""]
    lines += ["## What is expected", "", failure.promise, ""]
    lines += ["## To reproduce", "", "```python", made.script.rstrip(), "```", "", "It prints", ""]
    lines += ["```", made.output, "```", "", "and ends with exit code 1; without the fault it ends with 0.", ""]
    lines += ["## Versions", "", *(f"* {version}" for version in versions(cell)), ""]
    return "\n".join(lines)
