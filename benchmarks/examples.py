"""The forms of `examples/`: which of their checks fail and pass, and the lines of each.

    python benchmarks/examples.py

It runs ``pytest --evalcheck examples`` once. The lines of a faulty form are all lines of code of its file but those of
the mended form. The lines of a mended form are those that differ from the faulty one. It ends with 1 unless each faulty
form is red and each mended form is green.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "examples"
FORMS = ("faulty", "mended")


@dataclass(frozen=True)
class Run:
    """The screen of a run, and the outcomes of the checks by the id of the form."""

    screen: str
    outcomes: dict[str, Counter[str]]


def files() -> list[Path]:
    """Return the files of the examples."""
    return sorted(FOLDER.glob("evalcheck_*.py"))


def form_id(path: Path, form: str) -> str:
    """Return the id of a form, as a report has it."""
    return f"{path.relative_to(ROOT)}::{form}"


def run(*options: str) -> Run:
    """Run the examples, each in the order of its file."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = [sys.executable, "-m", "pytest", "--evalcheck", "examples", f"--evalcheck-report=json={report}"]
        environment = {**os.environ, "COLUMNS": "120", "PYTHONPATH": str(ROOT)}
        # Another plugin may change the order, and with it which of two failures of one cause is printed in full.
        done = subprocess.run(
            [*command, "-p", "no:randomly", "-p", "no:cacheprovider", *options],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
        )
        if not report.exists():
            raise RuntimeError(f"no report was written:\n{done.stdout}\n{done.stderr}")
        checks = json.loads(report.read_text(encoding="utf-8"))["checks"]
    outcomes: dict[str, Counter[str]] = {}
    for check in checks:
        outcomes.setdefault(check["target"], Counter())[check["outcome"]] += 1
    return Run(done.stdout, outcomes)


def is_as_expected(form: str, outcomes: Counter[str]) -> bool:
    """Return whether a faulty form has a failure, or a mended one nothing but passed checks, and others ruled out."""
    if form == "faulty":
        return outcomes["failed"] > 0
    return outcomes["passed"] > 0 and set(outcomes) <= {"passed", "not applicable"}


def screen_lines(path: Path) -> list[str]:
    """Return the lines of the screen in the comment between the two forms."""
    comment = path.read_text(encoding="utf-8").split("def faulty", 1)[1].split("def mended", 1)[0]
    return [line[1:].strip() for line in comment.splitlines() if line.startswith("#")]


def functions(path: Path) -> dict[str, list[str]]:
    """Return the lines of the body of each form."""
    source = path.read_text(encoding="utf-8")
    bodies = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name in FORMS:
            lines = source.splitlines()[node.body[0].lineno - 1 : node.end_lineno]
            bodies[node.name] = [line.strip() for line in lines if line.strip()]
    return bodies


def changed_lines(path: Path) -> list[str]:
    """Return the lines of the mended form that the faulty one has not."""
    bodies = functions(path)
    return [line for line in bodies["mended"] if line not in bodies["faulty"]]


def faulty_lines(path: Path) -> int:
    """Return the number of lines of code of a file without its mended form, comments and docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tree.body = [each for each in tree.body if getattr(each, "name", "") != "mended"]
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            del body[0]
    # Written anew, a statement is one line, however it is wrapped in the file.
    return sum(bool(line.strip()) for line in ast.unparse(tree).splitlines())


def main() -> int:
    """Print the table."""
    done, wrong = run(), 0
    print(f"{'form':<50} {'failed':>6} {'passed':>6} {'lines':>5}")
    for path in files():
        for form in FORMS:
            outcomes = done.outcomes.get(form_id(path, form), Counter())
            lines = faulty_lines(path) if form == "faulty" else len(changed_lines(path))
            mark = "" if is_as_expected(form, outcomes) else "  not as expected"
            wrong += bool(mark)
            print(f"{path.name + '::' + form:<50} {outcomes['failed']:>6} {outcomes['passed']:>6} {lines:>5}{mark}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
