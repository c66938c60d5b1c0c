"""Measure what learning from runs reaches: the tests of drawn projects are watched, and their code is then tried.

``python benchmarks/learning.py --sdists FOLDER --work FOLDER`` takes the projects of ``learned/drawn.tsv`` in the
order in which ``--draw INDEX --seed N`` has drawn them (with ``--metrics`` by words of metrics), if their source
distribution has tests: FOLDER has these, downloaded by a client that builds nothing, since a build runs foreign code
outside of the sandbox. Each is installed as `firstsight` installs, with its extras and dependency groups for tests.
Its tests run in the sandbox with ``--evalcheck-learn``, and its public evaluation code is tried by words alone, with
the examples of docstrings, and with what was learned. Then the checks run on what was learned, at quick effort.
``learned/outcomes.tsv`` has a row for each project and commit, the first outcome, and ``learned/red.tsv`` a row for
each failed check, with a verdict by hand as in `firstsight`; ``--work`` keeps the reasons, and ``learned/missed.tsv``
says of a sample of what tests call and is not tried whether it evaluates at all. ``--table`` prints the figures.
``--cost`` runs the tests with and without the watch and prints the CPU ratio. ``--smoke`` takes a project of two
functions.

Evaluation code is what is public in the package, no exception, record or abstract class, with a word of evaluation or
of a metric in its own name or in the last part of the name of its module. The rule was written before the first run.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import enum
import importlib
import inspect
import json
import math
import multiprocessing
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import textwrap
import time
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
from firstsight import draw
from firstsight.draw import EVALUATION
from firstsight.run import NUMBERS, RED_COLUMNS, Runner, append, read, red_rows, wilson

FOLDER = Path(__file__).parent / "learned"
DRAWN = FOLDER / "drawn.tsv"
OUTCOMES = FOLDER / "outcomes.tsv"
RED = FOLDER / "red.tsv"
MISSED = FOLDER / "missed.tsv"
REACH = ("code", "called", "words", "docstrings", "learned", "decided")
CALLED = ("words of called", "docstrings of called", "learned of called")
CHECKS = ("targets", *NUMBERS)
COLUMNS = ("package", "version", "run", "tests", *REACH, *CALLED, *CHECKS, "seconds", "note")
FOR_TESTS = ("test", "tests", "testing", "dev")
"""Extras and dependency groups that a project's own tests need."""
MODES = ("words", "docstrings", "learned")
LIMIT = 300
"""CPU seconds for the tests of a project, for each way to infer, and for the checks."""
PER_NAME = 40
BUSY = 8
"""A limit of the clock is as many times that of the CPU: what is reached must not depend on how busy a machine is."""
_METRIC = re.compile(
    r"accuracy|precision|recall|f1|f_?beta|auc|roc|loss|error|rmse|mae|mse|bleu|rouge|wer|ndcg|mrr|map|dice|iou|jaccard"
    r"|similarity|distance|divergence|correlation|kappa|calibration|coverage|faithful|relevan|exact_?match|perplexity"
    r"|toxic|bias|fairness|judge|grade|rank|entropy|silhouette|purity|confusion"
)
_INNER = ("tests", "test", "testing", "conftest", "benchmarks", "examples", "cli", "__main__")


def main() -> None:
    """Run the projects that have no row, or print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draw", type=Path, metavar="INDEX", help="draw projects, or more of them")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--metrics", action="store_true", help="draw by words of metrics, and no word of evaluation")
    parser.add_argument("--sdists", type=Path, help="a folder of source distributions")
    parser.add_argument("--work", type=Path, help="where projects are installed and rows are kept")
    parser.add_argument("--table", action="store_true", help="print the figures of the rows")
    parser.add_argument("--cost", action="store_true", help="the CPU ratio of watching the tests of each project")
    parser.add_argument("--smoke", action="store_true", help="a project of two functions")
    parser.add_argument("--one", nargs=2, metavar=("MODE", "PACKAGE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(reached(*given.one)))
        return
    if given.smoke:
        smoke()
        return
    if given.draw:
        print(drawn_from(given.draw, given.seed, given.metrics))
        return
    if given.table:
        print("\n".join(table()))
        return
    work = given.work.resolve()
    run = Runner(Path(__file__).parent.parent, work, work).revision()
    for row in read(DRAWN):
        stem = re.sub("[-_.]+", "[-_.]", re.escape(row["package"]).replace("\\-", "-"))
        pattern = re.compile(rf"{stem}-{re.escape(row['version'])}\.(tar\.\w+|zip)", re.IGNORECASE)
        sdist = next((path for path in given.sdists.iterdir() if pattern.fullmatch(path.name)), None)
        done = any((each["package"], each["run"]) == (row["package"], run) for each in read(OUTCOMES, COLUMNS))
        if sdist is None or (done and not given.cost):
            continue
        if given.cost:
            print(json.dumps(cost(row["package"], sdist, work)), flush=True)
            continue
        outcome = project(row["package"], row["version"], run, sdist, work)
        if outcome is not None:
            append(OUTCOMES, COLUMNS, [outcome])
            print("  ".join(str(outcome.get(name, "")) for name in COLUMNS), flush=True)


def drawn_from(index: Path, seed: int, metrics: bool) -> str:
    """Add projects to the list in the order in which they are run, by the rules of `firstsight`.

    Those of an earlier draw stay, and are not drawn again: their names are in this repository. All packages with a
    word of evaluation are drawn since the fifteenth draw; ``metrics`` takes those with a word of a metric, and none of
    evaluation.
    """
    known = draw.repository_words() | {draw._normal(row["package"]) for row in read(draw.DRAWN)}
    words = (re.compile(rf"\b({_METRIC.pattern})\b", re.IGNORECASE), draw.EVALUATION) if metrics else ()
    packages = list(draw.eligible(index, known, *words))
    drawn = draw.draw(packages, seed)
    FOLDER.mkdir(exist_ok=True)
    append(DRAWN, ("package", "version"), [{"package": row["name"], "version": row["version"]} for row in drawn])
    return f"{len(drawn)} of {len(packages)} packages were drawn with the seed {seed}"


def table() -> Iterator[str]:
    """Yield the figures of each run, a line each."""
    rows, red = read(OUTCOMES, COLUMNS), read(RED, RED_COLUMNS)
    for run in dict.fromkeys(row["run"] for row in rows):
        here = [row for row in rows if row["run"] == run]
        with_code = [row for row in here if int(row["code"] or 0)]
        yield f"{run}: {len(here)} projects with tests, {len(with_code)} with evaluation code that can be imported"

        def total(name: str, rows: Sequence[Mapping[str, str]] = with_code) -> int:
            return sum(int(row[name] or 0) for row in rows)

        for mode in MODES:
            share, of_called = total(mode) / max(1, total("code")), total(f"{mode} of called") / max(1, total("called"))
            yield f"  {mode}: {total(mode)} of {total('code')} names tried ({share:.0%})"
            yield f"    of those that tests call: {total(f'{mode} of called')} of {total('called')} ({of_called:.0%})"
        if missed := [row for row in read(MISSED) if row["run"] == run]:
            evaluate = [row for row in missed if row["evaluates"] == "yes"]
            fake = sum("fake judge" in row["reason"] for row in evaluate)
            shown = f"{len(evaluate)} evaluate, {fake} with a fake judge"
            yield f"    of {len(missed)} missed ones that were judged: {shown}"
        yield f"  {total('decided')} names declared no function of a set of samples"
        yield f"  {total('targets')} targets: {', '.join(f'{total(name)} {name}' for name in NUMBERS)}"
        failed = [each for each in red if each["run"] == run]
        verdicts = Counter(each["verdict"] or "not judged" for each in failed)
        judged = len(failed) - verdicts["not judged"]
        low, high = wilson(verdicts["ours"], judged)
        counted = ", ".join(f"{count} {name}" for name, count in verdicts.most_common()) or "none"
        yield f"  {len(failed)} failed checks of {len({each['package'] for each in failed})} projects: {counted}"
        if judged:
            share = 100 * verdicts["ours"] / judged
            yield f"  ours per 100 failed checks: {share:.0f} (95 % interval {100 * low:.0f} to {100 * high:.0f})"
    yield "failed checks of all runs by property"
    for code in sorted({each["code"] for each in red}):
        counts = Counter(each["verdict"] or "not judged" for each in red if each["code"] == code)
        yield f"  {code}: {', '.join(f'{count} {name}' for name, count in counts.most_common())}"


def project(name: str, version: str, run: str, sdist: Path, work: Path) -> dict[str, Any] | None:
    """Learn from the tests of one project and try its code; None where it has no tests."""
    folder = unpacked(sdist, work)
    tests = tests_of(folder)
    if not tests:
        return None
    venv = work / "venvs" / name
    row: dict[str, Any] = {"package": name, "version": version, "run": run, "tests": len(tests)}
    why = install(name, version, folder, venv, Runner(Path(__file__).parent.parent, work, work))
    package = package_in(folder)
    if why or not package:
        return row | {"note": f"not installed: {why}" if why else "no import package"}
    shutil.rmtree(folder / "evalcheck-corpus", ignore_errors=True)
    output, spent = sandboxed(
        folder,
        venv,
        f"python -m pytest -q --continue-on-collection-errors --evalcheck-learn={package} {' '.join(tests)}",
    )
    kept = work / "kept" / f"{name}.{run}"
    kept.parent.mkdir(parents=True, exist_ok=True)
    Path(f"{kept}.tests.txt").write_text(output, encoding="utf-8")
    row["note"] = output.strip().splitlines()[-1][:160] if output.strip() else ""
    reasons = {}
    for mode in MODES:
        text, seconds = sandboxed(folder, venv, f"python {Path(__file__).resolve()} --one {mode} {package}")
        spent += seconds
        last = text.strip().splitlines()[-1] if text.strip() else ""
        nothing: dict[str, Any] = {"code": [], "called": [], "tried": {}, "why": {}, "decided": {}, "end": last[:300]}
        found = json.loads(last) if last.startswith("{") else nothing
        wanted, called = {*found["code"]}, {*found["called"]}
        tried = {*found["tried"]} & wanted
        row["code"], row["called"] = max(row.get("code", 0), len(wanted)), max(row.get("called", 0), len(called))
        row[mode], row[f"{mode} of called"] = len(tried), len(tried & called)
        row["decided"] = len({*found["decided"]} & wanted)
        reasons[mode] = found
    Path(f"{kept}.reasons.json").write_text(json.dumps(reasons, indent=1), encoding="utf-8")
    report = folder / "evalcheck-report.json"
    report.unlink(missing_ok=True)
    command = f"python -m pytest -q --evalcheck-target={package} --evalcheck-effort=quick --evalcheck-device=cpu"
    output, seconds = sandboxed(folder, venv, f"{command} --evalcheck-report=json={report}")
    Path(f"{kept}.checks.txt").write_text(output, encoding="utf-8")
    if report.exists():
        loaded = json.loads(report.read_text(encoding="utf-8"))
        shutil.copy(report, f"{kept}.report.json")
        row |= {each: loaded["summary"][each] for each in CHECKS}
        append(RED, RED_COLUMNS, [*red_rows(name, run, loaded)])
    row["seconds"] = round(spent + seconds)
    return row


def install(name: str, version: str, folder: Path, venv: Path, runner: Runner) -> str:
    """Install a project with what its tests need, else alone; return why it cannot be."""
    file, toml = folder / "pyproject.toml", importlib.import_module("tomllib")  # from Python 3.11 on
    groups = toml.loads(file.read_text(encoding="utf-8")).get("dependency-groups", {}) if file.exists() else {}
    needed = [each for group in FOR_TESTS for each in groups.get(group, ()) if isinstance(each, str)]
    _, why = runner.install(f"{name}[{','.join(FOR_TESTS)}]", version, venv, needed)
    if why:
        shutil.rmtree(venv)
        _, why = runner.install(name, version, venv)
    return why


def reached(mode: str, package: str) -> dict[str, Any]:
    """Try the evaluation code of a package that can be imported here; return names, each with its targets or reason."""
    from pytest_evalcheck.discovery import learned, proposals, search
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
    for each in candidates:
        name = each.origin or str(each)
        if name not in code:
            continue
        limit = min(PER_NAME, LIMIT - 20 - sum(os.times()[:4]))
        look = partial(search.look, each, few=False)
        proposed = in_a_fork(look, limit) if limit > 1 else "the time limit"
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


def in_a_fork(task: Any, seconds: float, busy: float = BUSY) -> Any:
    """Return the result of a task in a forked process, or why there is none.

    It has so many seconds of CPU time, and ``busy`` times as many of the clock; processes that it starts end with it.
    """
    ours, theirs = multiprocessing.Pipe()

    def run() -> None:
        os.setsid()
        spent = math.ceil(seconds + time.process_time())
        resource.setrlimit(resource.RLIMIT_CPU, (spent, spent + 5))
        try:
            theirs.send(task())
        except Exception as error:
            theirs.send(f"looking at it raised {type(error).__name__}: {error}"[:300])

    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    theirs.close()
    try:
        return ours.recv() if ours.poll(busy * seconds) else "it took too long"
    except EOFError:
        process.join()
        return "the limit of CPU time" if process.exitcode == -signal.SIGXCPU else "it ended its process"
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid or 0, signal.SIGKILL)
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
    words = [*sandbox, "bash", "-c", f"ulimit -t {LIMIT}; time timeout -s INT -k 10 {BUSY * LIMIT} {command}"]
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


def cost(name: str, sdist: Path, work: Path) -> Mapping[str, Any] | None:
    """Return the CPU seconds of the tests of a project without and with the watch; None where it was not installed."""
    folder, venv = unpacked(sdist, work), work / "venvs" / name
    tests, package = tests_of(folder), package_in(folder)
    if not tests or not (venv / "tried.txt").exists() or (venv / "tried.txt").read_text(encoding="utf-8"):
        return None
    common = f"python -m pytest -q --continue-on-collection-errors {' '.join(tests)}"
    _, before = sandboxed(folder, venv, common)
    _, after = sandboxed(folder, venv, f"{common} --evalcheck-learn={package}")
    ratio = round(after / before, 2) if before else 0
    return {"package": name, "before": round(before, 1), "watched": round(after, 1), "ratio": ratio}


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
