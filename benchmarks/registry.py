"""Try the entries of a library in the registry on another release, and prepare the commit that follows.

    python benchmarks/registry.py PYTHON LIBRARY [--files evalcheck_*.py] [--by ID=owner/repository#1] [--workers 2]

PYTHON is the interpreter of an environment with the other release (`nox -s registry` makes one with the newest). Three
things are tried in both environments: the targets of fixtures/targets and the tests of faults in tests/upstream, which
show known failures, and the regression tests of patches, which fail where the fault is there. An entry that is shown as
before is widened: `versions` takes the release in. One of which nothing is shown any more, and of which nothing else is
wrong, is closed: `mended` is the release, and `mended_by` the change that `--by` names. All others are printed, and
left. The file of the registry and a message are staged; nothing is committed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import textwrap
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from packaging.specifiers import SpecifierSet
from packaging.version import Version

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

from patches import cells, files_about, sweep_cells  # noqa: E402

from pytest_evalcheck import upstream  # noqa: E402
from pytest_evalcheck.fixes.patches import applying  # noqa: E402

MESSAGE = ROOT / "build" / "registry.txt"


@dataclass(frozen=True)
class Seen:
    """The evidence about one entry: what showed it in the verified release, and what of that does so in the other."""

    before: frozenset[str]
    after: frozenset[str]
    other: frozenset[str] = frozenset()
    """Keys of `before` that have another outcome than passed in the other release: an error, another fault, not run."""

    @property
    def verdict(self) -> str:
        """``as before``, ``mended``, ``to be read`` or ``not seen``.

        One that is partly shown is still there. One that is not, beside other outcomes, cannot be decided by a program.
        """
        if not self.before and not self.after:
            return "not seen"
        if self.after:
            return "as before"
        return "to be read" if self.other else "mended"


def judge(
    before: Mapping[str, tuple[str, str]], after: Mapping[str, tuple[str, str]], ids: list[str]
) -> dict[str, Seen]:
    """Compare two runs, each a mapping from a check or a test to its outcome and the id of its known fault."""
    found = {}
    for name in ids:
        shown = {key for key, (outcome, fault) in before.items() if outcome == "known" and fault == name}
        now = {key for key, (outcome, fault) in after.items() if outcome == "known" and fault == name}
        other = {key for key in shown - now if after.get(key, ("gone", ""))[0] != "passed"}
        found[name] = Seen(frozenset(shown), frozenset(now), frozenset(other))
    return found


def widened(versions: str, release: str) -> str:
    """Return the specifier that takes a release in: ``==1.9.*`` and 1.10.2 give ``>=1.9,<1.11``.

    The end is the next release, of the length that the end in the specifier has.
    """
    if SpecifierSet(versions).contains(release, prereleases=True):
        return versions
    named = {one.operator: one.version.removesuffix(".*") for one in SpecifierSet(versions)}
    first = named.get(">=") or named["=="]
    end = named.get("<") or _next(first, len(first.split(".")))
    beyond = _next(release, len(end.split(".")))
    return f">={min(first, release, key=Version)},<{max(end, beyond, key=Version)}"


def _next(release: str, length: int) -> str:
    *head, last = Version(release).release[:length]
    return ".".join(map(str, (*head, last + 1)))


def updated(data: dict[str, Any], verdicts: Mapping[str, str], release: str, by: Mapping[str, str]) -> dict[str, Any]:
    """Return the data of a file with its entries widened and closed; a range that most have is that of the file."""
    entries = []
    for entry in data["faults"]:
        versions, verdict = entry.get("versions", data["versions"]), verdicts.get(entry["id"])
        versions = widened(versions, release) if verdict == "as before" else versions
        closed = {"mended": release} if verdict == "mended" else {}
        closed |= {"mended_by": by[entry["id"]]} if entry["id"] in by else {}
        entries.append((versions, entry | closed))
    ranges = [versions for versions, _ in entries]
    common = max(dict.fromkeys(ranges), key=ranges.count, default=data["versions"])
    faults = []
    for versions, entry in entries:
        rest = {name: value for name, value in entry.items() if name != "versions"}
        at = list(rest)[:1]
        own = {} if versions == common else {"versions": versions}
        faults.append({**{name: rest[name] for name in at}, **own, **rest})
    return {**data, "versions": common, "faults": faults}


def shown_by_targets(python: str, files: list[Path], ids: list[str], workers: int) -> dict[str, tuple[str, str]]:
    """Run the checks of the entries on the files of targets that name them, and on those targets of sweeps."""
    codes = sorted({code for name in ids if (fault := upstream.find(name)) for code in fault.codes})
    found = cells(files, codes, "cpu", workers, patched=False, python=python)
    found |= sweep_cells(ids, codes, workers, python=python)
    return {" ".join(key): (cell["outcome"], cell["fault"]) for key, cell in found.items()}


def shown_by_tests(python: str, ids: list[str]) -> dict[str, tuple[str, str]]:
    """Run the tests of tests/upstream that name an entry; one that passes has shown it."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        tests = sorted(str(path) for path in (ROOT / "tests" / "upstream").glob("test_faults_of_*.py"))
        command = [python, "-W", "ignore", "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
        subprocess.run([*command, "-k", " or ".join(ids), *tests], cwd=ROOT, capture_output=True, check=False)
        ran = list(ElementTree.parse(report).iter("testcase")) if report.exists() else []
    found: dict[str, tuple[str, str]] = {}
    for case in ran:
        named = str(case.get("name")).partition("[")[2].rstrip("]")
        fault = max((name for name in ids if named.startswith(name)), key=len, default="")
        bad = case.find("failure") is not None or case.find("error") is not None
        outcome = "not run" if case.find("skipped") is not None else "other" if bad else "known"
        if fault:
            found[f"tests/upstream {named}"] = (outcome, fault if outcome == "known" else "")
    return found


def shown_by_regressions(python: str, library: str) -> dict[str, tuple[str, str]]:
    """Run the regression tests of the patches without them; one that fails shows what the patch mends."""
    found: dict[str, tuple[str, str]] = {}
    for patch in next((one.patches for one in applying.all_libraries() if one.name == library), ()):
        ended = subprocess.run(
            [python, "-W", "ignore", "-c", textwrap.dedent(patch.test)], capture_output=True, check=False
        )
        for name in patch.mends:
            found[f"regression test of {name}"] = ("known", name) if ended.returncode else ("passed", "")
    return found


def release_in(python: str, library: str) -> str:
    """Return the release of a library that an interpreter imports."""
    find = f"import importlib.metadata as m; print(m.version({library!r}))"
    return subprocess.run([python, "-c", find], capture_output=True, text=True, check=True).stdout.strip()


def message(library: str, release: str, seen: Mapping[str, Seen]) -> str:
    """Write the message of the commit."""
    by: dict[str, list[str]] = defaultdict(list)
    for name, one in seen.items():
        by[one.verdict].append(name)
    lines = [f"Registry: {library} {release} was tried", ""]
    for verdict, says in (("as before", "is there"), ("mended", "is mended"), ("to be read", "is not decided")):
        lines += [f"{name}: {says}" for name in by[verdict]]
    return "\n".join([*lines, f"{len(by['not seen'])} entries were not seen in either release."]) + "\n"


def main() -> int:
    """Try the entries of one library."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("python")
    parser.add_argument("library")
    parser.add_argument("--files", default="evalcheck_*.py", metavar="PATTERN", help="files of fixtures/targets")
    parser.add_argument("--by", action="append", default=[], metavar="ID=CHANGE", help="what mended an entry")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    path = upstream.FOLDER / f"{given.library}.json"
    if not path.exists():
        known = sorted(one.stem for one in upstream.FOLDER.glob("*.json"))
        parser.error(f"the registry has no library {given.library!r}; it has {', '.join(known)}")
    ids = [fault.id for fault in upstream.read_faults(path)]
    by = dict(one.partition("=")[::2] for one in given.by)
    if unknown := [name for name in by if name not in ids]:
        parser.error(f"the registry has no {unknown[0]!r}{upstream.nearest_id(unknown[0])}")
    old, new = (release_in(python, given.library) for python in (sys.executable, given.python))
    if old == new:
        print(f"{given.library} {new} is what this environment has: nothing to try")
        return 0
    files = files_about(ids, given.files)
    before, after = (
        shown_by_targets(python, files, ids, given.workers)
        | shown_by_tests(python, ids)
        | shown_by_regressions(python, given.library)
        for python in (sys.executable, given.python)
    )
    seen = judge(before, after, ids)
    print(f"{given.library} {new}, beside {old}: {len(files)} files of targets")
    for name, one in sorted(seen.items(), key=lambda item: item[1].verdict):
        print(f"  {one.verdict:10} {len(one.before):4} showed it, {len(one.after):4} do  {name}")
        for key in sorted(one.other):
            print(f"             {' '.join(after.get(key, ('gone', '')))}: {key}")
    new_red = [
        key for key, (outcome, _) in after.items() if outcome == "failed" and before.get(key, ("", ""))[0] != "failed"
    ]
    for key in new_red:
        print(f"  red there  {before.get(key, ('gone', ''))[0]} -> failed: {key}")
    data = json.loads(path.read_text(encoding="utf-8"))
    changed = updated(data, {name: one.verdict for name, one in seen.items()}, new, by)
    if changed != data:
        path.write_text(json.dumps(changed, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        MESSAGE.parent.mkdir(exist_ok=True)
        MESSAGE.write_text(message(given.library, new, seen), encoding="utf-8")
        subprocess.run(["git", "add", str(path)], cwd=ROOT, check=True)
        print(f"{path.relative_to(ROOT)} is staged: git commit -F {MESSAGE.relative_to(ROOT)}")
    mended = [name for name, one in seen.items() if one.verdict == "mended" and name not in by]
    for name in mended:
        print(f"  find the change that mended it, and name it with --by {name}=owner/repository#number")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
