"""Mutation testing: whether a test fails when a line of the package is changed.

    nox -s mutation [-- --parts checks,fixes] [-- --limit 5] [-- --retry] [-- --table]

The mutations are those of Cosmic Ray's operators, and one of our own: a call whose result is not used is removed. Of
all places, each part of the package has a fixed number, those with the smallest hash of what they say: the set
stays the same when lines move. One process loads the libraries and forks for each mutant; the fork imports a copy of
the repository with one changed file, and runs the tests of that file until one fails, which must pass unchanged.

Results are kept in a file of JSON lines, and a mutant that is in it is not tried again. What survives is judged in
`benchmarks/mutation_survivors.json`. What was not
finished within the CPU seconds is tried again with `--retry`, and more of `--cpu`. Exit code 1: a survivor is not
judged, a mutant is not finished, or less than 95 % of the mutants that are
not equivalent are killed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from mutation_places import PARTS, Mutant, chosen
from mutation_server import GALLERY, ORIGINAL, Server
from mutation_tests import tests_of

ROOT = Path(__file__).parent.parent
JUDGED = Path(__file__).with_name("mutation_survivors.json")
LEAST = 0.95


class Trials:
    """A copy of the repository, in which one file at a time is changed."""

    def __init__(self, copy: Path, cpu: float) -> None:
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, check=True, capture_output=True, text=True,
        )  # fmt: skip
        for name in filter(lambda name: (ROOT / name).is_file(), listed.stdout.splitlines()):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
        self.copy, self.server, self.sound = copy, Server(copy, cpu), dict[str, bool]()
        self.tried = 0

    def passes(self, test: str) -> bool:
        """Return whether a test passes with nothing changed."""
        if test not in self.sound:
            self.sound[test] = not self.server.run([test], set())["failed"]
        return self.sound[test]

    def imports(self, tests: list[str]) -> bool:
        """Return whether these tests can be imported anew with nothing changed."""
        if f"import {tests[0]}" not in self.sound:
            failed = self.server.run(tests[:1], set(), anew=True)["failed"]
            self.sound[f"import {tests[0]}"] = not failed.startswith("import")
        return self.sound[f"import {tests[0]}"]

    def of(self, mutant: Mutant) -> dict[str, Any]:
        """Return which test fails with this mutant; "" for none."""
        file = self.copy / mutant.module
        source, stat = file.read_text(encoding="utf-8"), file.stat()
        self.tried += 1
        seconds, ORIGINAL[file] = 0.0, source
        # Functions that processes call are not seen, and what a decorator is given is seen by who reads it.
        given = mutant.before.lstrip().startswith("@")
        apart = given or mutant.module.startswith("pytest_evalcheck/fixes/scoring/") or not mutant.function
        tests = self.server.related(tests_of(mutant, self.copy), "" if apart else f"{mutant.module} {mutant.function}")
        skipped = {test for test, sound in self.sound.items() if not sound}
        while True:
            mutated = mutant.mutated(source)
            file.write_text(mutated, encoding="utf-8")
            # Compiled files are named by the second and the size of their source.
            os.utime(file, (10**9 + self.tried, 10**9 + self.tried))
            try:
                outcome = self.server.run(tests, skipped, (file, mutated))
            finally:
                file.write_text(source, encoding="utf-8")
                os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
            seconds, killer = seconds + outcome["seconds"], outcome["failed"]
            if killer.startswith("import") and not self.imports(tests):
                raise RuntimeError(f"{killer}, with nothing changed: {tests}")
            if not killer.startswith("tests/") or self.passes(killer):
                return {"killed": killer, **outcome, "seconds": round(seconds, 1)}
            skipped.add(killer)


def results(path: Path) -> dict[str, dict[str, Any]]:
    if not path.exists():
        return {}
    return {one["id"]: one for one in map(json.loads, path.read_text(encoding="utf-8").splitlines())}


def judged() -> dict[str, dict[str, str]]:
    return {one["id"]: one for one in json.loads(JUDGED.read_text(encoding="utf-8"))} if JUDGED.exists() else {}


def table(mutants: list[Mutant], found: dict[str, dict[str, Any]]) -> bool:
    """Print what became of each; whether all survivors are judged and enough are killed."""
    reasons, words = judged(), ("killed", "equivalent", "survived", "not judged", "not finished")
    counts = {part: dict.fromkeys(words, 0) for part in PARTS}
    print("| id | module | line | operator | mutation | outcome |\n| --- | --- | --- | --- | --- | --- |")
    for mutant in mutants:
        if mutant.id not in found:
            continue
        killer, verdict = found[mutant.id]["killed"], reasons.get(mutant.id, {})
        open_end = "not finished" if found[mutant.id].get("unfinished") else "not judged"
        word = "killed" if killer else verdict.get("verdict", open_end)
        counts[mutant.part][word] += 1
        change = f"`{mutant.before}` -> `{mutant.after}`".replace("|", "\\|")
        module = mutant.module.removeprefix("pytest_evalcheck/")
        why = killer.removeprefix("tests/") or verdict.get("reason", "")
        print(f"| {mutant.id} | {module} | {mutant.line} | {mutant.operator} | {change} | {word}: {why} |")
    counts["all"] = {word: sum(count[word] for count in counts.values()) for word in words}
    print("\n| part | mutants | " + " | ".join(words) + " |\n" + "| --- " * (2 + len(words)) + "|")
    for part, count in counts.items():
        print(f"| {part} | {sum(count.values())} | " + " | ".join(str(count[word]) for word in words) + " |")
    total = counts["all"]
    share = total["killed"] / max(1, sum(total.values()) - total["equivalent"])
    minutes = sum(one["seconds"] for one in found.values()) / 60
    print(f"\n{share:.1%} of those that are not equivalent are killed; {minutes:.0f} CPU minutes")
    return not total["not judged"] + total["not finished"] and share >= LEAST


def _try(trials: Trials, mutants: list[Mutant], path: Path, found: dict[str, dict[str, Any]]) -> None:
    """Try these, and add what is found to the file of results."""
    calls = path.with_suffix(".calls.json")
    if calls.exists():
        known = json.loads(calls.read_text(encoding="utf-8"))
        trials.server.calls = {test: (seconds, set(names)) for test, (seconds, names) in known.items()}

    def work() -> None:
        with path.open("a", encoding="utf-8") as file:
            for number, mutant in enumerate(mutants):
                found[mutant.id] = {"id": mutant.id, **trials.of(mutant)}
                print(json.dumps(found[mutant.id]), file=file, flush=True)
                outcome = {word: found[mutant.id].get(word) for word in ("killed", "tests", "unfinished", "seconds")}
                print(f"{outcome}  {mutant}", file=sys.stderr, flush=True)
                if number % 10 == 9 or mutant is mutants[-1]:
                    known = {test: (seconds, sorted(names)) for test, (seconds, names) in trials.server.calls.items()}
                    calls.write_text(json.dumps(known), encoding="utf-8")

    asked_for = dict.fromkeys(test for mutant in mutants for test in tests_of(mutant, ROOT))
    trials.server.serve(list(dict.fromkeys(GALLERY if test.startswith("{") else test for test in asked_for)), work)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(PARTS), help="some of: " + ", ".join(PARTS))
    parser.add_argument("--only", default="", help="ids or modules of the mutants to try, with commas between them")
    parser.add_argument("--limit", type=int, help="only so many of each part")
    parser.add_argument("--retry", action="store_true", help="try survivors that are not judged again")
    parser.add_argument("--cpu", type=float, default=30, help="CPU seconds after which no further test is begun")
    parser.add_argument("--table", action="store_true", help="print what is known, try nothing")
    parser.add_argument("--results", type=Path, default=Path(__file__).with_name("mutation_results.jsonl"))
    asked = parser.parse_args()
    each = [chosen(ROOT, part)[: asked.limit] for part in asked.parts.split(",")]
    # One part after the other in turn: what is known early is about all.
    turns = [(number / len(part), mutant) for part in each for number, mutant in enumerate(part)]
    mutants = [mutant for _, mutant in sorted(turns, key=lambda turn: turn[0])]
    if asked.only:
        mutants = [one for one in mutants if {one.id, one.module} & set(asked.only.split(","))]
    found = results(asked.results)
    if not asked.table:
        again = {id for id, one in found.items() if not one["killed"] and id not in judged()} if asked.retry else set()
        left = [mutant for mutant in mutants if mutant.id not in found or mutant.id in again]
        if left:
            with tempfile.TemporaryDirectory() as folder:
                _try(Trials(Path(folder), asked.cpu), left, asked.results, found)
    sys.exit(not table(mutants, {mutant.id: found[mutant.id] for mutant in mutants if mutant.id in found}))


if __name__ == "__main__":
    main()
