"""Run drawn packages once each: ``python -m firstsight.run --half 1 --reports FOLDER``. ``--table`` prints figures.

README.md has the rules. A package is installed into a venv of its own that sees the environment of this command, and
runs in a sandbox (bwrap): no network, no environment variables, and one folder that it can write.
"""

from __future__ import annotations

import argparse
import ast
import csv
import json
import math
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from firstsight.draw import DRAWN, EVALUATION, FOLDER

OUTCOMES = FOLDER / "outcomes.tsv"
RED = FOLDER / "red.tsv"
SECONDS = 300
"""Limit of an installation, and of all runs of one package."""
MODULES = 3
"""The most modules that are asked for where the package itself gives no target."""
HELD = ("torch", "pytest", "hypothesis")
"""Distributions that keep the version of this environment."""
NUMBERS = ("passed", "failed", "known", "not applicable", "not run", "incomplete")
COLUMNS = ("package", "version", "half", "run", "requests", "ended", "seconds", "metrics", "targets", *NUMBERS, "note")
RED_COLUMNS = ("package", "run", "target", "code", "comparison", "kind", "message", "verdict", "reason")
VERDICTS = ("number", "error", "cost", "design", "ours")
ENDINGS = ("tried", "time limit", "error of the run", "none could be tried", "no metric found", "not imported")
"""From the one that says most of a package to the one that says least."""
_NO_METRICS = {"docs", "test", "tests", "testing", "conftest", "benchmarks", "examples", "setup"}


def read(path: Path, columns: Sequence[str] = ()) -> list[dict[str, str]]:
    """Return the rows of a table; none if it is not there.

    Raises:
        ValueError: where the table has other columns.
    """
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        table = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        if columns and tuple(table.fieldnames or ()) != tuple(columns):
            raise ValueError(f"{path} has the columns {table.fieldnames}; expected {columns}")
        return list(table)


def append(path: Path, columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> None:
    """Append rows to a table, which is made where it is not there."""
    lines = [] if path.exists() else ["\t".join(columns)]
    lines += ["\t".join(" ".join(str(row.get(column, "")).split()) for column in columns) for row in rows]
    with path.open("a", encoding="utf-8") as file:
        file.write("".join(f"{line}\n" for line in lines))


def has_evaluation(text: str) -> bool:
    """Return whether a name or a source has a word of evaluation; parts of names are words."""
    return bool(EVALUATION.search(re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", text)))


def count_evaluation(source: str) -> int:
    """Return how many public classes and functions of a source have a word of evaluation, in name or source."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):
        return 0
    named = [each for each in body if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))]
    public = [each for each in named if not each.name.startswith("_")]
    return sum(has_evaluation(f"{each.name} {ast.get_source_segment(source, each)}") for each in public)


def choose_requests(site: Path, files: Sequence[str]) -> list[str]:
    """Return the package of these files, then up to `MODULES` of its modules with the most evaluation code."""
    counts: dict[str, int] = {}
    for name in files:
        parts = Path(name).with_suffix("").parts
        if not name.endswith(".py") or any(not part.isidentifier() or part in _NO_METRICS for part in parts):
            continue
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if parts and not any(part.startswith("_") for part in parts):
            counts[".".join(parts)] = count_evaluation((site / name).read_text(encoding="utf-8", errors="ignore"))
    if not counts:
        return []
    tops = Counter(module.partition(".")[0] for module in counts)
    package = min(tops, key=lambda top: (-tops[top], top))
    inside = [module for module in counts if module.startswith(f"{package}.") and counts[module]]
    return [package, *sorted(inside, key=lambda module: (-counts[module], module))[:MODULES]]


@dataclass
class Result:
    """How the run of one request ended, and its report."""

    ended: str
    note: str = ""
    report: dict[str, Any] = field(default_factory=dict)


def classify(code: int, output: str, report: dict[str, Any]) -> Result:
    """Return how a run ended; ``code`` is that of the `timeout` command: 124 and 137 are its limit."""
    errors = [line.removeprefix("ERROR: ") for line in output.splitlines() if line.startswith("ERROR: ")]
    note = _without_folders(errors[0])[:200] if errors else ""
    limit = code in (124, 137)
    if report.get("checks"):
        return Result("tried", "time limit" if limit else note if code not in (0, 1) else "", report)
    if limit:
        return Result("time limit", "before the first check ended")
    for words, ended in (
        ("no metric was found", "no metric found"),
        ("could be tried", "none could be tried"),
        ("importing ", "not imported"),
        ("cannot be imported", "not imported"),
        ("there is no module", "not imported"),
    ):
        if words in note:
            return Result(ended, note)
    return Result("error of the run", note or " ".join(output.splitlines()[-1:])[:200])


@dataclass(frozen=True)
class Runner:
    """Installs and runs packages with the code of one checkout."""

    code: Path
    reports: Path
    venvs: Path

    def revision(self) -> str:
        """Return the commit of the checkout.

        Raises:
            ValueError: where its code was changed.
        """
        changed = self._git("status", "--porcelain", "--", "pytest_evalcheck")
        if changed:
            raise ValueError(f"{self.code} has changes that no commit has: {changed.split()[-1]}")
        return self._git("rev-parse", "--short=8", "HEAD")

    def _git(self, *words: str) -> str:
        command = ["git", "-C", str(self.code), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def install(self, name: str, version: str, venv: Path, more: Sequence[str] = ()) -> tuple[Path, str]:
        """Return the folder of packages of a venv, and why these cannot be installed there, or nothing."""
        tried = venv / "tried.txt"
        if tried.exists():
            return next(venv.glob("lib/python*/site-packages")), tried.read_text(encoding="utf-8")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
        site = next(venv.glob("lib/python*/site-packages"))
        (site / "environment.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
        held = venv / "held.txt"
        held.write_text("".join(f"{each}=={metadata.version(each)}\n" for each in HELD), encoding="utf-8")
        command = [sys.executable, "-m", "pip", "--python", str(venv / "bin" / "python"), "install", "-q"]
        command += [
            "--no-input",
            "--prefer-binary",
            "--only-binary=:all:",
            "-c",
            str(held),
            f"{name}=={version}",
            *more,
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
            errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            why = "" if done.returncode == 0 else " ".join((errors or [done.stderr])[-1].split())[:200]
        except subprocess.TimeoutExpired:
            why = f"installing took longer than {SECONDS} s"
        tried.write_text(why, encoding="utf-8")
        return site, why

    def request(self, module: str, venv: Path, seconds: float) -> Result:
        """Run the checks of one module in the sandbox."""
        with tempfile.TemporaryDirectory() as work:
            report = Path(work, "report.json")
            variables = {
                "PATH": f"{venv}/bin:/usr/bin:/bin",
                "HOME": work,
                "PYTHONPATH": str(self.code),
                "OMP_NUM_THREADS": "1",
                "HF_HUB_OFFLINE": "1",
                "KERAS_BACKEND": "torch",
            }
            sandbox = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
            sandbox += ["--ro-bind", str(venv), str(venv), "--bind", work, work, "--chdir", work]
            sandbox += ["--unshare-all", "--die-with-parent", "--new-session", "--clearenv"]
            sandbox += [word for name, value in variables.items() for word in ("--setenv", name, value)]
            command = [*sandbox, "timeout", "-s", "INT", "-k", "20", f"{seconds:.0f}"]
            command += ["python", "-m", "pytest", "-q", "--evalcheck-target", module, "--evalcheck-effort=quick"]
            command += ["--evalcheck-device=cpu", f"--evalcheck-report=json={report}"]
            with Path(work, "output.txt").open("w+", encoding="utf-8", errors="replace") as file:
                code = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, check=False).returncode
                file.seek(0)
                output = file.read()
            kept = self.reports / f"{venv.name}.{module}.{self.revision()}"
            Path(f"{kept}.txt").write_text(output, encoding="utf-8")
            loaded = {}
            if report.exists():
                text = report.read_text(encoding="utf-8")
                Path(f"{kept}.json").write_text(text, encoding="utf-8")
                loaded = json.loads(text)
        return classify(code, output, loaded)

    def package(self, drawn: dict[str, str]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Run one package; return its row, and a row for each check that failed."""
        name, version = drawn["package"], drawn["version"]
        row: dict[str, Any] = {**drawn, "run": self.revision()}
        venv = self.venvs / name
        site, why = self.install(name, version, venv)
        results: list[Result] = []
        requests: list[str] = []
        spent = 0.0
        if not why:
            found = next(iter(metadata.distributions(name=name, path=[str(site)])))
            requests = choose_requests(site, [str(file) for file in found.files or ()])
        for module in requests:
            began = time.monotonic()
            results.append(self.request(module, venv, SECONDS - spent))
            spent += time.monotonic() - began
            if results[-1].ended == "tried" or spent > SECONDS - 10:
                break
        shutil.rmtree(venv)
        if why:
            return {**row, "ended": "not installed", "note": why}, []
        if not results:
            return {**row, "ended": "no module", "note": "it has no public module"}, []
        result = min(results, key=lambda each: ENDINGS.index(each.ended))
        report = result.report
        row |= {"requests": " ".join(requests[: len(results)]), "seconds": f"{spent:.0f}", "ended": result.ended}
        row |= {name: report["summary"][name] for name in NUMBERS if report}
        if report:
            row |= {"targets": report["summary"]["targets"], "metrics": report["inferred"]["metrics"]}
        row["note"] = result.note or "; ".join(dict.fromkeys(each.note for each in results if each.note))[:400]
        return row, [*red_rows(name, row["run"], report)]


def red_rows(package: str, run: str, report: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a row, without a verdict, for each check of a report that failed."""
    for check in report.get("checks", ()):
        if check["outcome"] == "failed":
            _, comparison, kind = [*check["signature"].split(": ", 2), "", ""][:3]
            failure = check["failure"] or {"about": check["reason"], "expected": "", "actual": ""}
            values = f": expected {failure['expected']}, got {failure['actual']}" if failure["expected"] else ""
            found = {"package": package, "run": run, "comparison": comparison, "kind": kind}
            message = _without_folders(f"{failure['about']}{values}")[:300]
            yield {**found, "target": check["target"], "code": check["code"], "message": message}


def _without_folders(text: str) -> str:
    """Return a text whose files are named without their folders, which are those of one machine."""
    return re.sub(r"(?<![\w:/])/(?:[\w.+-]+/)+", "", text)


def wilson(hits: int, total: int) -> tuple[float, float]:
    """Return the 95 % interval of a share by Wilson's method."""
    if not total:
        return 0.0, 1.0
    z = 1.959964
    share, weight = hits / total, z * z / total
    middle, half = share + weight / 2, z * math.sqrt(share * (1 - share) / total + weight / total / 4)
    return max(0.0, (middle - half) / (1 + weight)), min(1.0, (middle + half) / (1 + weight))


def table() -> Iterator[str]:
    """Yield the figures, a line each, for each run of each half."""
    rows, red = read(OUTCOMES, COLUMNS), read(RED, RED_COLUMNS)
    for half, run in dict.fromkeys((row["half"], row["run"]) for row in rows):
        here = [row for row in rows if (row["half"], row["run"]) == (half, run)]
        packages = {row["package"] for row in here}
        failed = [each for each in red if each["run"] == run and each["package"] in packages]
        ended = Counter(row["ended"] for row in here)
        yield f"half {half}, {run}: {len(here)} packages: {_counts(ended)}"
        totals = {name: sum(int(row[name] or 0) for row in here) for name in ("targets", *NUMBERS)}
        yield f"  {totals.pop('targets')} targets: {', '.join(f'{number} {name}' for name, number in totals.items())}"
        verdicts = Counter(each["verdict"] or "not judged" for each in failed)
        owners = {each["package"] for each in failed}
        yield f"  {len(failed)} failed checks of {len(owners)} packages: {_counts(verdicts)}"
        judged = len(failed) - verdicts["not judged"]
        low, high = wilson(verdicts["ours"], judged)
        share = f"{100 * verdicts['ours'] / judged:.0f}" if judged else "-"
        yield f"  ours per 100 failed checks: {share} (95 % interval {100 * low:.0f} to {100 * high:.0f})"
        for kind, count in sorted(Counter((each["code"], each["kind"]) for each in failed).items()):
            of_kind = Counter(
                each["verdict"] or "not judged" for each in failed if (each["code"], each["kind"]) == kind
            )
            yield f"    {', '.join(filter(None, kind))}: {count}: {_counts(of_kind)}"


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counter.most_common()) or "none"


def main() -> None:
    """Run packages that have no row of this run, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="*", help="drawn packages (default: all of the half)")
    parser.add_argument("--half", choices=("1", "2"))
    parser.add_argument("--code", type=Path, default=FOLDER.parent, help="the checkout whose checks run")
    parser.add_argument("--reports", type=Path, help="a folder for the JSON reports and the output of the runs")
    parser.add_argument("--venvs", type=Path, help="where packages are installed (default: a folder of --reports)")
    parser.add_argument("--install", action="store_true", help="install the packages for a later run")
    parser.add_argument("--table", action="store_true", help="print the figures")
    given = parser.parse_args()
    if given.table:
        print("\n".join(table()))
        return
    if given.half is None or given.reports is None:
        parser.error("--half and --reports are needed, or --table")
    drawn = {row["package"]: row for row in read(DRAWN) if row["half"] == given.half}
    unknown = [name for name in given.packages if name not in drawn]
    if unknown:
        parser.error(f"{unknown[0]} is no package of half {given.half}; expected one of {', '.join(drawn)}")
    given.venvs = given.venvs or given.reports / "venvs"
    given.venvs.mkdir(parents=True, exist_ok=True)
    given.reports.mkdir(parents=True, exist_ok=True)
    runner = Runner(given.code.resolve(), given.reports.resolve(), given.venvs.resolve())
    run = runner.revision()
    for name in given.packages or drawn:
        if any((row["package"], row["run"]) == (name, run) for row in read(OUTCOMES, COLUMNS)):
            print(f"{name}: run by {run} before; its first outcome is kept", flush=True)
            continue
        if given.install:
            why = runner.install(name, drawn[name]["version"], runner.venvs / name)[1]
            print(f"{name}: {why or 'installed'}", flush=True)
            continue
        row, red = runner.package(drawn[name])
        append(RED, RED_COLUMNS, red)
        append(OUTCOMES, COLUMNS, [row])
        print(f"{name}: {row['ended']}, {row.get('targets', 0)} targets, {len(red)} failed {row['note']}", flush=True)


if __name__ == "__main__":
    main()
