"""Run today's suite over released fixes: ``nox -s history -- [LIBRARY ...] [--only ID] [--smoke]``.

Each entry of ``history/<library>.toml`` runs over the release before and the one after, installed without what they
require into a folder that is put before the environment. The outcomes are in ``history/results/<library>.json`` and
``docs/history.md``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from history import page
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
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the entries that were asked for, and write the outcomes."""
    parser = argparse.ArgumentParser(prog="nox -s history --", description=__doc__)
    parser.add_argument("library", nargs="*", help="all by default")
    parser.add_argument("--only", action="append", default=[], metavar="ID", help="entries; all by default")
    parser.add_argument("--new", action="store_true", help="entries whose outcome is not known, or that have changed")
    parser.add_argument("--scripts", action="store_true", help="the stand-alone scripts alone; nothing is written")
    parser.add_argument("--smoke", action="store_true", help="one entry, its promise alone; nothing is written")
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
        folder = (asked.folder or Path(made)).resolve()
        for library, entry in chosen[:1] if asked.smoke else chosen:
            started = time.monotonic()
            if asked.scripts:
                print(f"{entry.id}: the script exits with {_shown(library, entry, folder)}", flush=True)
                continue
            verdict, shown = _tried(library, entry, folder, smoke=asked.smoke)
            print(f"{entry.id}: {verdict.outcome}: {verdict.why} ({time.monotonic() - started:.0f} s)", flush=True)
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
    path = RESULTS / f"{entry.library}.json"
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    first = results.get(entry.id, {}).get("first", verdict.outcome)
    found = {name: _without_paths(value) for name, value in verdict.as_dict().items()}
    told = {**found, "script": list(shown) if shown else None, "digest": entry.digest}
    results[entry.id] = {"first": first, **told}
    path.parent.mkdir(exist_ok=True)
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


def _tried(library: Library, entry: Entry, folder: Path, *, smoke: bool) -> tuple[Verdict, tuple[int, int] | None]:
    try:
        shown = _shown(library, entry, folder)
        if shown not in (None, (1, 0)) or not entry.targets:
            return classify(entry.promise, Ran(), Ran(), shown), shown
        # The checks that were predicted first: where they show it, no other one is needed.
        verdict = _of_both(library, entry, folder, shown, entry.promise) if entry.promise else None
        if not smoke and (verdict is None or verdict.outcome != "caught"):
            verdict = _of_both(library, entry, folder, shown, ())
        return verdict or classify(entry.promise, Ran(), Ran(), shown), shown
    except subprocess.CalledProcessError as error:
        why = (error.stderr or error.stdout or "").strip().splitlines()
        return Verdict(outcome="cannot run", why=f"not installed: {why[-1] if why else error}"), None


def _of_both(
    library: Library, entry: Entry, folder: Path, shown: tuple[int, int] | None, codes: Sequence[str]
) -> Verdict:
    """The outcome by these checks; by all of them where none is named."""
    before = _suite(library, entry, entry.before, folder, codes)
    red = {cell["code"] for cell in before.cells if cell["outcome"] in ("broken", "known")}
    # What is kept before says nothing about the fault, so that it is not run again.
    after = _suite(library, entry, entry.after, folder, sorted(red)) if red else Ran()
    return classify(entry.promise, before, after, shown)


def _install(library: Library, entry: Entry, release: str, folder: Path) -> Path:
    """A folder with the release, and with what it needs beside the README's environment."""
    needs = library.needs(entry, release)
    tail = "".join(f"+{need}" for need in needs)
    place = folder / "".join(c if c.isalnum() or c in ".+=" else "_" for c in f"{library.name}-{release}{tail}")
    if not place.exists():
        made = place.with_name(f"{place.name}.part")
        pip = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "-q",
            "--no-compile",
            "--no-deps",
            "--upgrade",
            "--target",
            str(made),
        ]
        subprocess.run([*pip, f"{library.name}=={release}", *needs], check=True, capture_output=True, text=True)
        made.rename(place)
    return place


def _shown(library: Library, entry: Entry, folder: Path) -> tuple[int, int] | None:
    """The exit codes of the script on both releases; 2 where it ends otherwise than it says."""
    if not entry.script:
        return None
    codes = []
    for release in (entry.before, entry.after):
        place = _install(library, entry, release, folder)
        command = [sys.executable, "-W", "ignore", str(ROOT / "history" / entry.script)]
        code, text = _called(command, {"PYTHONPATH": str(place)}, SCRIPT_LIMIT)
        ended = code in (0, 1) and "Traceback (most recent call last)" not in text
        codes.append(code if ended else 2)
        if not ended:
            print(f"  {release}: {text.strip().splitlines()[-1] if text.strip() else f'exit code {code}'}", flush=True)
    return codes[0], codes[1]


def _suite(library: Library, entry: Entry, release: str, folder: Path, codes: Sequence[str]) -> Ran:
    """The cells of one run over a release."""
    place = _install(library, entry, release, folder)
    with tempfile.TemporaryDirectory() as made:
        report = Path(made) / "report.json"
        command = [sys.executable, "-W", "ignore", "-m", "pytest", "-W", "ignore", "-q", "-p", "no:cacheprovider"]
        command += ["-p", "history.any_release", "--evalcheck", "--evalcheck-effort=quick", "--evalcheck-device=cpu"]
        command += [f"--evalcheck-report=json={report}", *([f"--evalcheck-select={','.join(codes)}"] if codes else [])]
        if not PROCESSES.isdisjoint(codes):
            command += ["-m", "distributed or not distributed"]
        for target in entry.targets:
            command += [target] if target.startswith("fixtures/") else ["--evalcheck-target", target]
        code, text = _called(command, {"PYTHONPATH": f"{place}{os.pathsep}{ROOT}"}, LIMIT)
        if not report.exists():
            lines = [line for line in text.strip().splitlines() if line.strip()]
            return Ran(trouble=(lines[-1] if lines else f"exit code {code}")[:300])
        return Ran(cells=json.loads(report.read_text(encoding="utf-8"))["cells"])


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
