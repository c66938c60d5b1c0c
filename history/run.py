"""Run today's suite over released fixes: ``nox -s history -- [LIBRARY ...] [--only ID] [--smoke]``.

Each entry of ``history/<library>.toml`` runs over the release before and the one after, installed without what they
require into a folder that is put before the environment. The outcomes are in ``history/results/<library>.json`` and
``docs/history.md``.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from history import page
from history.any_release import CASES
from history.entries import ROOT, Entry, EntryError, Library, libraries
from history.outcomes import Ran, Verdict, classify

RESULTS = ROOT / "history" / "results"
LIMIT = 420.0
"""Seconds of one run of pytest, against hangs."""
SCRIPT_LIMIT = 180.0
PROCESSES = frozenset({"EC221", "EC511"})
"""The checks that start processes: they run where an entry predicts them."""
QUIET = {
    "OMP_NUM_THREADS": "1",
    "KERAS_BACKEND": "torch",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "DISABLE_MULTIPROC": "1",
    "PYTHONHASHSEED": "0",
    # Their defaults, which the Trainer of transformers before 4.54 sets.
    "ACCELERATE_MIXED_PRECISION": "no",
    "ACCELERATE_USE_IPEX": "false",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the entries that were asked for, and write the outcomes."""
    parser = argparse.ArgumentParser(prog="nox -s history --", description=__doc__)
    parser.add_argument("library", nargs="*", help="all by default")
    parser.add_argument("--only", action="append", default=[], metavar="ID", help="entries; all by default")
    parser.add_argument("--new", action="store_true", help="entries whose outcome is not known, or that have changed")
    parser.add_argument("--predicted", action="store_true", help="no other checks than those that were predicted")
    parser.add_argument("--scripts", action="store_true", help="the stand-alone scripts alone; nothing is written")
    parser.add_argument("--smoke", action="store_true", help="one entry, its check alone; nothing is written")
    parser.add_argument("--folder", type=Path, help="where releases are installed; they are kept")
    asked = parser.parse_args(arguments)
    try:
        known = libraries()
        chosen = list(_chosen(known, asked.library, asked.only))
    except EntryError as error:
        parser.error(str(error))
    results = read_results()
    if asked.new:
        chosen = [(lib, entry) for lib, entry in chosen if results.get(entry.id, {}).get("digest") != entry.digest]
    with tempfile.TemporaryDirectory() as made:
        runs = Runs((asked.folder or Path(made)).resolve())
        for library, entry in chosen[:1] if asked.smoke else chosen:
            if asked.scripts:
                print(f"{entry.id}: the script exits with {runs.shown(library, entry)}", flush=True)
                continue
            wanted = [other for lib, other in chosen if lib is library and other.targets]
            alone = asked.smoke or asked.predicted
            verdict, shown = runs.tried(library, entry, [entry] if asked.smoke else wanted, predicted=alone)
            print(f"{entry.id}: {verdict.outcome}: {verdict.why}", flush=True)
            if not asked.smoke:
                record(entry, verdict, shown)
    if not (asked.smoke or asked.scripts):
        page.write(known, read_results())


def read_results() -> dict[str, Any]:
    """The outcomes by the id of an entry."""
    found: dict[str, Any] = {}
    for path in sorted(RESULTS.glob("*.json")):
        found |= json.loads(path.read_text(encoding="utf-8"))
    return found


def record(entry: Entry, verdict: Verdict, shown: tuple[int, int] | None) -> None:
    """Write one outcome. The first one that an entry had stays beside it."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{entry.library}.json"
    with path.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # entries of one library may run at the same time
        _write(path, entry, verdict, shown)


def _write(path: Path, entry: Entry, verdict: Verdict, shown: tuple[int, int] | None) -> None:
    text = path.read_text(encoding="utf-8")
    results = json.loads(text) if text else {}
    first = results.get(entry.id, {}).get("first", verdict.outcome)
    found = {name: _without_paths(value) for name, value in verdict.as_dict().items()}
    told = {**found, "script": list(shown) if shown else None, "digest": entry.digest}
    results[entry.id] = {"first": first, **told}
    text = json.dumps(dict(sorted(results.items())), indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def _without_paths(value: Any) -> Any:
    """The same text, or texts, without the folders of this machine, which error messages name."""
    if isinstance(value, list):
        return [_without_paths(each) for each in value]
    return _FOLDERS.sub("", value) if isinstance(value, str) else value


_FOLDERS = re.compile(r" ?\(/[^\s)]+\)|(?<![\w./:])/(?:[\w.=+-]+/)+")


def _chosen(known: dict[str, Library], names: Sequence[str], ids: Sequence[str]) -> Iterable[tuple[Library, Entry]]:
    if unknown := [name for name in names if name not in known]:
        raise EntryError(f"no entries are of {', '.join(unknown)}; there are {', '.join(known)}")
    every = [(library, entry) for library in known.values() for entry in library.entries]
    if unknown := [name for name in ids if name not in {entry.id for _, entry in every}]:
        raise EntryError(f"no entry has the id {', '.join(unknown)}")
    for library, entry in every:
        if (not names or library.name in names) and (not ids or entry.id in ids):
            yield library, entry


class Runs:
    """Runs of the suite over releases, which are installed into ``folder``.

    Importing a library takes longer than its cells: all entries that are about one release share a run.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cells: dict[str, Ran] = {}

    def tried(
        self, library: Library, entry: Entry, wanted: Sequence[Entry], *, predicted: bool
    ) -> tuple[Verdict, tuple[int, int] | None]:
        """The outcome of an entry, and the exit codes of its script; ``wanted`` are all entries that will be tried."""
        try:
            shown = self.shown(library, entry)
            if shown not in (None, (1, 0)) or not entry.targets:
                return classify(entry.checks, Ran(), Ran(), shown), shown
            # The checks that were predicted first: where they show it, no other one is needed.
            verdict = None
            if entry.checks:
                before, after = (self._entry_run(library, entry, each, wanted) for each in (entry.before, entry.after))
                verdict = classify(entry.checks, before, after, shown)
            if not predicted and (verdict is None or verdict.outcome != "caught"):
                verdict = self._by_all_checks(library, entry, shown)
            return verdict or classify(entry.checks, Ran(), Ran(), shown), shown
        except subprocess.CalledProcessError as error:
            why = (error.stderr or error.stdout or "").strip().splitlines()
            return Verdict(outcome="cannot run", why=f"not installed: {why[-1] if why else error}"), None

    def shown(self, library: Library, entry: Entry) -> tuple[int, int] | None:
        """The exit codes of the script on both releases; 2 where it ends otherwise than it says. None without one."""
        if not entry.script:
            return None
        codes = []
        script, *arguments = entry.script.split()
        for release in (entry.before, entry.after):
            place = self._install(library, entry, release)
            command = [sys.executable, "-W", "ignore", str(ROOT / "history" / script), *arguments]
            code, text = _called(command, {"PYTHONPATH": str(place)}, SCRIPT_LIMIT)
            ended = code in (0, 1) and "Traceback (most recent call last)" not in text
            codes.append(code if ended else 2)
            if not ended:
                last = text.strip().splitlines()[-1] if text.strip() else f"exit code {code}"
                print(f"  {release}: {last}", flush=True)
        return codes[0], codes[1]

    def _by_all_checks(self, library: Library, entry: Entry, shown: tuple[int, int] | None) -> Verdict:
        before = self._suite(library, [entry], entry.before, ())
        red = {cell["code"] for cell in before.cells if cell["outcome"] in ("failed", "known")}
        # What is kept before says nothing about the fault, so that it is not run again.
        after = self._suite(library, [entry], entry.after, sorted(red)) if red else Ran()
        return classify(entry.checks, before, after, shown)

    def _entry_run(self, library: Library, entry: Entry, release: str, wanted: Sequence[Entry]) -> Ran:
        """The cells of an entry in the run of all that are about this release, with the checks that they predict."""
        place = self._install(library, entry, release)
        together = [
            other
            for other in wanted
            if release in (other.before, other.after) and self._place(library, other, release) == place
        ]
        key = f"{place} {','.join(other.id for other in together)}"
        if key not in self._cells:
            codes = sorted({code for other in together for code in other.checks})
            self._cells[key] = self._suite(library, together, release, codes)
        ran = self._cells[key]
        if ran.trouble and len(together) > 1:  # one target that cannot be inferred ends the run of all
            return self._entry_run(library, entry, release, [entry])
        cells = [cell for cell in ran.cells if _is_of(cell, entry)]
        names = {cell["target"] for cell in cells}
        cases = [case for case in ran.cases if case["target"] in names]
        return Ran(cells=cells, cases=cases, trouble=ran.trouble)

    def _place(self, library: Library, entry: Entry, release: str) -> Path:
        tail = "".join(f"+{need}" for need in library.needs(entry, release))
        name = f"{library.name}-{release}{tail}"
        return self._folder / "".join(c if c.isalnum() or c in ".+=" else "_" for c in name)

    def _install(self, library: Library, entry: Entry, release: str) -> Path:
        """A folder with the release, and with what it needs beside the README's environment."""
        place = self._place(library, entry, release)
        if not place.exists():
            made = place.with_name(f"{place.name}.{os.getpid()}")
            pip = [sys.executable, "-m", "pip", "install", "-q", "--no-compile", "--no-deps", "--target", str(made)]
            needs = library.needs(entry, release)
            subprocess.run([*pip, f"{library.name}=={release}", *needs], check=True, capture_output=True, text=True)
            made.rename(place)
        return place

    def _suite(self, library: Library, entries: Sequence[Entry], release: str, codes: Sequence[str]) -> Ran:
        """The cells of one run over a release; of all checks where no code is given."""
        place = self._install(library, entries[0], release)
        with tempfile.TemporaryDirectory() as made:
            report, cases = Path(made) / "report.json", Path(made) / "cases.jsonl"
            command = [sys.executable, "-W", "ignore", "-m", "pytest", "-W", "ignore", "-q", "-p", "no:cacheprovider"]
            command += ["-p", "history.any_release", "--evalcheck", "--evalcheck-effort=quick"]
            command += ["--evalcheck-device=cpu", f"--evalcheck-report=json={report}"]
            command += [f"--evalcheck-select={','.join(codes)}"] if codes else []
            command += ["-m", "distributed or not distributed"] if not PROCESSES.isdisjoint(codes) else []
            for target in dict.fromkeys(target for entry in entries for target in entry.targets):
                command += [target] if _is_of_a_file(target) else ["--evalcheck-target", target]
            environment = {"PYTHONPATH": f"{place}{os.pathsep}{ROOT}", CASES: str(cases)}
            code, text = _called(command, environment, LIMIT * (1 + len(entries) / 4))
            if not report.exists():
                lines = [line for line in text.strip().splitlines() if line.strip()]
                return Ran(trouble=(lines[-1] if lines else f"exit code {code}")[:300])
            lines = cases.read_text(encoding="utf-8").splitlines() if cases.exists() else []
            cells = json.loads(report.read_text(encoding="utf-8"))["checks"]
            return Ran(cells=cells, cases=[json.loads(line) for line in lines])


def _is_of(cell: Mapping[str, Any], entry: Entry) -> bool:
    """Return whether a cell is of one of the targets of an entry: by the id of a file, or by what is called."""
    file, _, name = str(cell["target"]).rpartition("::")
    files = {target.partition("::")[0].rpartition("/")[2] for target in entry.targets if _is_of_a_file(target)}
    if Path(file).name in files:
        return any(target.endswith(f"{Path(file).name}::{name}") for target in entry.targets)
    called = [target.partition(":")[2].partition("(")[0] for target in entry.targets if "::" not in target]
    if cell["class_name"]:
        return str(cell["class_name"]).rpartition(".")[2] in called
    # A cell that does not apply has built nothing: an inferred target is named after its class.
    return any(name.replace("_", "").startswith(each.replace("_", "").lower()) for each in called)


def _is_of_a_file(target: str) -> bool:
    return ".py::" in target


def _called(command: Sequence[str], environment: dict[str, str], limit: float) -> tuple[int, str]:
    """The exit code and what was printed; -1 after the limit, when all processes of the command are ended."""
    env = {**os.environ, **QUIET, **environment}
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out:
        process = subprocess.Popen(
            command, cwd=ROOT, env=env, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            code = -1
        out.seek(0)
        return code, f"{out.read()}\nno end within {limit:g} s" if code == -1 else out.read()


if __name__ == "__main__":
    main()
