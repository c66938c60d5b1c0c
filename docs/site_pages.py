"""Additions of the site to the pages of docs/, from the repository: libraries, findings of a check, words.

It imports nothing that is not in Python: the tests of the project read it without the packages of the site.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
import findings  # noqa: E402

LIBRARIES = {
    "composer": "Composer",
    "ignite": "ignite",
    "imblearn": "imbalanced-learn",
    "lm_eval": "lm-evaluation-harness",
    "lightning": "Lightning",
    "mapie": "MAPIE",
    "monai": "MONAI",
    "mosaicml": "Composer",
    "pytorch-ignite": "ignite",
    "pytorch_forecasting": "pytorch-forecasting",
    "sklearn": "scikit-learn",
}
"""Usual name of a library, by the name of its distribution or module, where that is another."""

EVERYDAY = {
    "batch", "budget", "case", "check", "device", "document", "effort", "failure", "inputs", "kind", "planned",
    "prompt", "rank", "response", "sample", "transfer",
}  # fmt: skip
"""Words of the glossary that mean what they mean elsewhere: no link explains more."""


def with_libraries(markdown: str) -> str:
    """The index of findings, with a column that says which library each is of."""
    libraries = _libraries()
    lines = ["| library | finding | checks | upstream report |", "| --- | --- | --- | --- |"]
    for row in findings.rows():
        finding, checks, report = row.cells
        checks = re.sub(r"EC\d{3}", lambda code: f"[{code[0]}](checks/{code[0]}.md)", checks)
        lines.append(f"| {', '.join(libraries[row.place])} | {finding} | {checks} | {report} |")
    before = markdown[: markdown.index("\n| finding |")]
    return before + "\n" + "\n".join(lines) + "\n"


def _libraries() -> dict[str, list[str]]:
    """By place of a finding: its libraries, as the registry, the entry, the script or the page names them."""
    registered: dict[str, set[str]] = {}
    for path in findings.REGISTRY.glob("*.json"):
        for fault in json.loads(path.read_text(encoding="utf-8"))["faults"]:
            registered.setdefault(fault["finding"], set()).add(path.stem)
    known = {*(path.stem for path in findings.REGISTRY.glob("*.json")), *LIBRARIES} - {"torch"}
    answer = {}
    for each in findings.findings():
        named = re.findall(r"^\* (?:Library|Version): (\w+)", each.text, re.M)
        alone = {Path(each.page).stem} & known
        about = set(re.findall(r"^(\w+): ", each.heading)) & known
        imported = set(re.findall(r"^(?:from|import) (\w+)", each.script, re.M)) & known
        names = registered.get(each.place) or {*named} or alone or about or imported
        if not names:
            raise ValueError(
                f"docs/findings/{each.place} names no library: expected one in its registry entry or script"
            )
        answer[each.place] = sorted({LIBRARIES.get(name, name) for name in names})
    return answer


def found(code: str) -> str:
    """The findings of a check, as a section of its page."""
    rows = [row.cells[0] for row in findings.rows() if code in row.cells[1]]
    if not rows:
        return ""
    links = "".join(f"* {link.replace('](findings/', '](../findings/')}\n" for link in rows)
    return f"\n## What it found in released libraries\n\n{links}"


def meanings() -> dict[str, str]:
    """By word of the glossary: what it means, in plain text."""
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\*\*.+?) \| (.*?) \|", text, re.M)
    words = {
        word: re.sub(r"[`*]|\[(.*?)\]\(.*?\)", r"\1", means)
        for row, means in rows
        for word in re.findall(r"\*\*(.+?)\*\*", row)
    }
    return {word: means for word, means in words.items() if word not in EVERYDAY}
