"""Measure what learning from runs reaches: the tests of drawn projects are watched, and their code is then tried.

``python benchmarks/learning.py --sdists FOLDER --work FOLDER`` takes each source distribution that has tests: it is
installed as `firstsight` installs, its tests run in the sandbox with ``--evalcheck-learn``, and its public evaluation
code is tried by words alone, with the examples of docstrings, and with what was learned. A row for each project is kept
in ``--work``, the first outcome of a commit; ``--table`` prints the figures. ``--cost`` runs the tests with and without
the watch and prints the CPU ratio. ``--smoke`` takes a project of two functions.

Evaluation code is what is public in the package, no exception, record or abstract class, with a word of evaluation or
of a metric in its own name or in the last part of the name of its module. The rule was written before the first run.
"""

from __future__ import annotations

import argparse
import dataclasses
import enum
import inspect
import json
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import textwrap
import time
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
from firstsight.draw import EVALUATION
from firstsight.run import Runner

MODES = ("words", "docstrings", "learned")
LIMIT = 300
"""Seconds for the tests of a project, and for each way to infer."""
PER_NAME = 40
_METRIC = re.compile(
    r"accuracy|precision|recall|f1|f_?beta|auc|roc|loss|error|rmse|mae|mse|bleu|rouge|wer|ndcg|mrr|map|dice|iou|jaccard"
    r"|similarity|distance|divergence|correlation|kappa|calibration|coverage|faithful|relevan|exact_?match|perplexity"
    r"|toxic|bias|fairness|judge|grade|rank|entropy|silhouette|purity|confusion"
)
_INNER = ("tests", "test", "testing", "conftest", "benchmarks", "examples", "cli", "__main__")


def main() -> None:
    """Run the projects that have no row, or print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sdists", type=Path, help="a folder of source distributions")
    parser.add_argument("--work", type=Path, help="where projects are installed and rows are kept")
    parser.add_argument("--table", action="store_true", help="print the figures of the rows")
    parser.add_argument("--cost", action="store_true", help="the CPU ratio of watching the tests of each project")
    parser.add_argument("--here", action="store_true", help="nothing is installed: the sources, in this environment")
    parser.add_argument("--smoke", action="store_true", help="a project of two functions")
    parser.add_argument("--one", nargs=2, metavar=("MODE", "PACKAGE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(reached(*given.one)))
        return
    if given.smoke:
        smoke()
        return
    work = given.work.resolve()
    if given.table:
        print("\n".join(table(rows_of(work))))
        return
    for sdist in sorted(given.sdists.iterdir()):
        path = work / "rows" / f"{sdist.name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not given.cost:
            continue
        row = (cost if given.cost else project)(sdist, work, here=given.here)
        if row is None:
            continue
        print(json.dumps({key: value for key, value in row.items() if key != "reasons"}), flush=True)
        if not given.cost:
            path.write_text(json.dumps(row, indent=1), encoding="utf-8")


def rows_of(work: Path) -> list[dict[str, Any]]:
    """Return the rows that were kept."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted((work / "rows").glob("*.json"))]


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the figures, a line each."""
    names = {row["project"] for row in rows}
    yield f"{len(names)} projects with tests"
    for row in rows:
        shares = "  ".join(f"{mode} {row['reached'].get(mode, 0)}" for mode in MODES)
        yield f"  {row['project']:<36}{row['code']:>5} names  {shares}  called by tests {row['called']}  {row['note']}"
    code = sum(row["code"] for row in rows)
    called = sum(row["called"] for row in rows)
    for mode in MODES:
        count = sum(row["reached"].get(mode, 0) for row in rows)
        here = sum(row["reached_of_called"].get(mode, 0) for row in rows)
        decided = sum(row["decided"].get(mode, 0) for row in rows)
        share, of_called = count / max(1, code), here / max(1, called)
        yield f"{mode}: {count} of {code} tried ({share:.0%}), {decided} declared no function of samples"
        yield f"  of those that tests call: {here} of {called} ({of_called:.0%})"


def project(sdist: Path, work: Path, *, here: bool) -> dict[str, Any] | None:
    """Learn from the tests of one project and try its code; None where it has no tests."""
    folder = unpacked(sdist, work)
    tests = tests_of(folder)
    if not tests:
        return None
    name, version = re.fullmatch(r"(.+)-([^-]+?)\.(?:tar\.\w+|zip)", sdist.name).groups()  # type: ignore[union-attr]
    venv, why = Path(sys.prefix), ""
    if not here:
        venv = work / "venvs" / name
        venv.parent.mkdir(parents=True, exist_ok=True)
        _, why = Runner(Path(__file__).parent.parent, work, work).install(name.replace("_", "-"), version, venv)
    row: dict[str, Any] = {"project": name, "note": why, "code": 0, "called": 0, "tests": len(tests)}
    row |= {"reached": {}, "reached_of_called": {}, "decided": {}, "seconds": {}, "reasons": {}}
    if why:
        return row
    package = package_in(folder)
    if not package:
        return row | {"note": "no import package"}
    output, seconds = sandboxed(
        folder,
        venv,
        f"python -m pytest -q --continue-on-collection-errors --evalcheck-learn={package} {' '.join(tests)}",
    )
    row["learned"] = " ".join(line for line in output.splitlines() if line.startswith("evalcheck: "))[:400]
    row["seconds"]["tests"] = round(seconds)
    row["note"] = output.strip().splitlines()[-1][:160] if output.strip() else ""
    for mode in MODES:
        command = f"python {Path(__file__).resolve()} --one {mode} {package}"
        text, seconds = sandboxed(folder, venv, command)
        last = text.strip().splitlines()[-1] if text.strip() else ""
        found = (
            json.loads(last)
            if last.startswith("{")
            else {"code": [], "called": [], "tried": {}, "why": {}, "decided": {}}
        )
        wanted, called = {*found["code"]}, {*found["called"]}
        tried = {*found["tried"]} & wanted
        row["code"], row["called"] = max(row["code"], len(wanted)), max(row["called"], len(called))
        row["reached"][mode], row["reached_of_called"][mode] = len(tried), len(tried & called)
        row["decided"][mode] = len({*found["decided"]} & wanted)
        row["seconds"][mode] = round(seconds)
        row["reasons"][mode] = {
            "tried": found["tried"],
            "why": found["why"],
            "decided": found["decided"],
            "end": last[:300] if not found["code"] else "",
        }
    return row


def reached(mode: str, package: str) -> dict[str, Any]:
    """Try the evaluation code of a package that can be imported here; return names, each with its targets or reason."""
    from pytest_evalcheck.discovery import learned, proposals
    from pytest_evalcheck.discovery.candidates import find
    from pytest_evalcheck.discovery.requests import Request
    from pytest_evalcheck.learning import corpus

    seen = {name.replace(":", ".") for name, each in corpus.nearest().entries.items() if each.calls or each.objects}
    code = evaluation_code(package)
    if mode != "learned":
        os.environ[corpus.PLACE] = os.devnull
    if mode == "words":
        vars(proposals)["observe"] = lambda *_: ([], "")
    found = find(Request.parse(package))
    candidates = [*found.candidates, *found.functions]
    result: dict[str, Any] = {
        "code": sorted(code),
        "called": sorted(code & seen),
        "tried": {},
        "why": dict(found.left),
        "decided": {},
    }
    end = time.monotonic() + LIMIT - 20
    for each in candidates:
        name = each.origin or str(each)
        if name not in code:
            continue
        limit = min(PER_NAME, end - time.monotonic())
        proposed = in_a_fork(lambda each=each: proposals.propose(each), limit) if limit > 1 else "the time limit"
        if isinstance(proposed, str):
            result["why"][name] = proposed
        elif proposed.targets:
            result["tried"][name] = [f"{target.kind}: {target.inputs}" for target in proposed.targets]
        elif proposed.decided:
            result["decided"][name] = proposed.decided
        else:
            result["why"][name] = proposed.why
    learned.read()
    return result


def in_a_fork(task: Any, seconds: float) -> Any:
    """Return the result of a task in a forked process, or why there is none."""
    ours, theirs = multiprocessing.Pipe()

    def run() -> None:
        try:
            theirs.send(task())
        except Exception as error:
            theirs.send(f"looking at it raised {type(error).__name__}: {error}"[:300])

    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    theirs.close()
    try:
        return ours.recv() if ours.poll(seconds) else "it took too long"
    except EOFError:
        return "it ended its process"
    finally:
        process.kill()
        process.join()


def evaluation_code(package: str) -> set[str]:
    """Return the public evaluation code of a package, as ``module.Name`` of where it is defined."""
    from pytest_evalcheck.discovery import candidates

    module = __import__(package)
    found = set()
    for home in candidates._modules(module, {}):
        for name, value in candidates._public(home, package):
            origin = f"{value.__module__}.{value.__qualname__}"
            parts = origin.split(".")[1:]
            if any(part in _INNER for part in parts[:-1]) or "<" in origin or name.startswith("_"):
                continue
            words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", " ".join(parts[-2:]))
            if (EVALUATION.search(words) or _METRIC.search(words.lower())) and not _is_record(value):
                found.add(origin)
    return found


def _is_record(value: Any) -> bool:
    if not inspect.isclass(value):
        return inspect.iscoroutinefunction(value)
    plain = dataclasses.is_dataclass(value) and not any(
        inspect.isfunction(each) and not name.startswith("_") for name, each in vars(value).items()
    )
    fields = any("pydantic" in base.__module__ for base in value.__mro__) or hasattr(value, "__total__")
    return plain or fields or issubclass(value, (BaseException, enum.Enum)) or inspect.isabstract(value)


def sandboxed(folder: Path, venv: Path, command: str, *, plugin: bool = True) -> tuple[str, float]:
    """Run a command in the folder of a project, without a network; return its output and the seconds of its CPU."""
    code = Path(__file__).resolve().parent.parent
    variables = {
        "PATH": f"{venv}/bin:/usr/bin:/bin",
        "HOME": "/tmp",
        "PYTHONPATH": f"{code}:{folder / 'src'}:{folder}" if plugin else f"{folder / 'src'}:{folder}",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "PYTEST_ADDOPTS": "-p no:cacheprovider -p no:randomly -o addopts=",
    }
    sandbox = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
    sandbox += ["--bind", str(folder), str(folder), "--chdir", str(folder)]
    sandbox += ["--unshare-all", "--die-with-parent", "--new-session", "--clearenv"]
    sandbox += [word for name, value in variables.items() for word in ("--setenv", name, value)]
    words = [*sandbox, "bash", "-c", f"time timeout -s INT -k 10 {LIMIT} {command}"]
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as out, tempfile.TemporaryFile("w+") as err:
        subprocess.run(words, stdout=out, stderr=err, check=False)
        out.seek(0)
        err.seek(0)
        spent = sum(int(m) * 60 + float(s) for m, s in re.findall(r"^(?:user|sys)\s+(\d+)m([\d.]+)s", err.read(), re.M))
        return out.read(), spent


def unpacked(sdist: Path, work: Path) -> Path:
    """Return the folder of an unpacked source distribution."""
    folder = work / "projects" / sdist.name.removesuffix(".tar.gz").removesuffix(".zip")
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as name:
            if sdist.suffix == ".zip":
                zipfile.ZipFile(sdist).extractall(name)
            else:
                with tarfile.open(sdist) as archive:
                    archive.extractall(name, filter="data")
            shutil.move(next(Path(name).iterdir()), folder)
    return folder


def tests_of(folder: Path) -> list[str]:
    """Return the test files of a project."""
    found = (path for pattern in ("test_*.py", "*_test.py") for path in folder.rglob(pattern))
    return sorted({str(path.relative_to(folder)) for path in found if "site-packages" not in path.parts})


def package_in(folder: Path) -> str:
    """Return the package of a source folder, the one with most modules."""
    counts = {
        path.parent.name: sum(1 for _ in path.parent.rglob("*.py"))
        for home in (folder / "src", folder)
        for path in home.glob("*/__init__.py")
        if path.parent.name.isidentifier() and path.parent.name not in (*_INNER, "docs")
    }
    return max(counts, key=lambda name: counts[name], default="")


def cost(sdist: Path, work: Path, *, here: bool) -> Mapping[str, Any] | None:
    """Return the CPU seconds of the tests of a project without and with the watch."""
    folder = unpacked(sdist, work)
    tests = tests_of(folder)
    name = sdist.name.rpartition("-")[0]
    venv = Path(sys.prefix) if here else work / "venvs" / name
    if not tests or not venv.exists():
        return None
    package = package_in(folder)
    common = f"python -m pytest -q --continue-on-collection-errors {' '.join(tests)}"
    _, before = sandboxed(folder, venv, common)
    _, after = sandboxed(folder, venv, f"{common} --evalcheck-learn={package}")
    return {
        "project": name,
        "before": round(before, 1),
        "watched": round(after, 1),
        "ratio": round(after / before, 2) if before else 0,
    }


def smoke() -> None:
    """Learn from a test of two functions, and print how many are tried."""
    from pytest_evalcheck.learning import corpus
    from pytest_evalcheck.learning.watching import Watcher

    with tempfile.TemporaryDirectory() as name:
        Path(name, "smoke_metrics.py").write_text(
            textwrap.dedent("""
            def share_accuracy(inp, targ):
                return sum(a == b for a, b in zip(inp, targ)) / len(targ)

            def gap_error(inp, targ):
                return sum(abs(a - b) for a, b in zip(inp, targ)) / len(targ)
            """)
        )
        sys.path.insert(0, name)
        smoke_metrics: Any = __import__("smoke_metrics")

        watcher = Watcher(["smoke_metrics"], lambda: "smoke")
        with watcher.watch():
            smoke_metrics.share_accuracy([1, 0, 1], [1, 1, 1])
            smoke_metrics.gap_error([1.0, 0.5], [0.25, 1.0])
        os.environ[corpus.PLACE] = str(Path(name, corpus.FOLDER))
        corpus.write(watcher.seen, Path(name, corpus.FOLDER), ["smoke_metrics"])
        found = reached("learned", "smoke_metrics")
        print(f"{len(found['tried'])} of {len(found['code'])} names tried")


if __name__ == "__main__":
    main()
