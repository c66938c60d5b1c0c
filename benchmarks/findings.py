"""Count of findings by page: root causes, those with a script, a report upstream, an entry in the registry.

python benchmarks/findings.py
python benchmarks/findings.py --run keras      # run the scripts of one page, and name those that end in an error
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
INDEX = ROOT / "docs" / "findings.md"
PAGES = ROOT / "docs" / "findings"
REGISTRY = ROOT / "pytest_evalcheck" / "upstream"


@dataclass(frozen=True)
class Finding:
    """One root cause, as its page describes it."""

    page: str
    heading: str
    text: str

    @property
    def place(self) -> str:
        """Return where it is, such as ``keras.md#nan-scores-are-ordinary-predictions``."""
        return f"{self.page}#{anchor(self.heading)}"

    @property
    def checks(self) -> set[str]:
        """Return the codes of the checks that show it."""
        (line,) = re.findall(r"^\* Checks?: (.*)$", self.text, re.M)
        return set(re.findall(r"EC\d{3}", line))

    @property
    def script(self) -> str:
        """Its script, or the heading of the finding whose script shows it too; empty for none."""
        blocks = re.findall(r"^```python\n(.*?)^```$", self.text, re.M | re.S)
        shared = re.findall(r"^\* Script: \[[^]]+\]\((#[\w-]+)\)$", self.text, re.M)
        return str((blocks or shared or [""])[0])


@dataclass(frozen=True)
class Row:
    """A row of the index."""

    cells: tuple[str, ...]

    @property
    def title(self) -> str:
        """The text of its link."""
        return re.sub(r"^\[(.*)\]\(.*\)$", r"\1", self.cells[0])

    @property
    def place(self) -> str:
        """Return what it links to, below ``findings/``."""
        return re.sub(r"^\[.*\]\(findings/(.*)\)$", r"\1", self.cells[0])


def anchor(heading: str) -> str:
    """The name by which a heading is linked to."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def findings() -> Iterator[Finding]:
    """Every heading of a page of findings that names a check."""
    for page in sorted(PAGES.glob("*.md")):
        parts = re.split(r"^## (.*)$", page.read_text(encoding="utf-8"), flags=re.M)
        for heading, text in zip(parts[1::2], parts[2::2], strict=True):
            if re.search(r"^\* Checks?: ", text, re.M):
                yield Finding(page.name, heading, text)


def rows() -> list[Row]:
    """The rows of the index."""
    lines = re.findall(r"^\|(.*)$", INDEX.read_text(encoding="utf-8"), re.M)
    return [Row(tuple(cell.strip() for cell in line.rstrip().split("|")[:-1])) for line in lines[2:]]


def registered() -> dict[str, str]:
    """By id of a fault of the registry: its finding."""
    files = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(REGISTRY.glob("*.json"))]
    return {fault["id"]: fault["finding"] for file in files for fault in file["faults"]}


def main() -> None:
    """Print the table, or run scripts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", metavar="PAGE", help="run the scripts of this page, such as keras")
    parser.add_argument("--smoke", action="store_true", help="what it does anyway")
    options = parser.parse_args()
    if options.run:
        sys.exit(_run([each for each in findings() if each.page == f"{options.run}.md"]))
    known, reports = {*registered().values()}, {row.place: row.cells[-1] for row in rows()}
    print(f"{'page':<20} {'root causes':>11} {'script':>7} {'report':>7} {'registry':>9}")
    found = list(findings())
    for page in (*sorted({each.page for each in found}), ""):
        these = [each for each in found if each.page == page or not page]
        reported = sum("none found" not in reports.get(each.place, "none found")[:10] for each in these)
        counts = len(these), sum(bool(each.script) for each in these), reported, sum(e.place in known for e in these)
        print(f"{page or 'all':<20} {counts[0]:>11} {counts[1]:>7} {counts[2]:>7} {counts[3]:>9}")


def _run(chosen: list[Finding]) -> int:
    """Run the scripts in a folder that has those modules which the page shows, and count those that fail."""
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for page in {each.page for each in chosen}:
            text = (PAGES / page).read_text(encoding="utf-8")
            named = re.findall(r"^```python\n# (\w+\.py): (.*?)^```$", text, re.M | re.S)
            shared = re.findall(r"as `(\w+\.py)` beside them:\n\n```python\n(.*?)^```$", text, re.M | re.S)
            for name, source in [*((name, f"# {source}") for name, source in named), *shared]:
                (Path(folder) / name).write_text(source, encoding="utf-8")
        for each in chosen:
            if not each.script or (each.script.startswith("#") and "\n" not in each.script):
                continue
            path = Path(folder) / "script.py"
            path.write_text(each.script, encoding="utf-8")
            done = subprocess.run(
                [sys.executable, "-W", "ignore", str(path)], capture_output=True, text=True, cwd=folder, check=False
            )
            failed += bool(done.returncode)
            last = (done.stderr if done.returncode else done.stdout).strip().splitlines()[-1:]
            print(f"{'error' if done.returncode else 'ran':<6} {each.place}: {' '.join(last)[:100]}", flush=True)
    return min(failed, 1)


if __name__ == "__main__":
    main()
