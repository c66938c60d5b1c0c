"""The verdicts of the main job depend on nothing but the code: three orders, two workers, a busy machine.

``python benchmarks/verdicts.py`` runs the main job at quick effort five times, two of them at once, and compares the
outcome of every target, check and device with that of the first run; it exits 1 where one differs. ``--keep FOLDER``
keeps the reports, and takes those that it finds there. ``--smoke`` runs one file.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

from compare_outcomes import differences, outcomes
from main_job import SMOKE, busy_loops, run

WAYS: dict[str, tuple[list[str], str]] = {
    "as collected": ([], ""),
    "reversed": ([], "reversed"),
    "shuffled": ([], "1"),
    "two workers": (["-n", "2"], ""),
    "under load": (["-n", "2"], ""),
}


def main() -> int:
    """Print the comparison and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="one file of targets")
    parser.add_argument("--keep", type=Path, help="a folder for the reports")
    given = parser.parse_args()
    files = SMOKE if given.smoke else ()

    with tempfile.TemporaryDirectory() as name:
        folder = given.keep or Path(name)
        folder.mkdir(parents=True, exist_ok=True)

        def report(way: str) -> Path:
            options, order = WAYS[way]
            path = folder.resolve() / f"{way.replace(' ', '_')}.json"
            if not path.exists():
                with busy_loops(2) if way == "under load" else nullcontext():
                    job = run(path, files, options, {"EVALCHECK_ORDER": order})
                print(f"{way}: {job.wall:.0f} s, {job.cpu:.0f} s of CPU", flush=True)
            return path

        with ThreadPoolExecutor(2) as pool:
            found = {way: outcomes(path) for way, path in zip(WAYS, pool.map(report, WAYS), strict=True)}
    first, *others = WAYS
    print(f"\n{'run':<14} {'checks':>6} {'differ':>7}   from the run in the order in which checks are collected")
    different = 0
    for way in others:
        lines = differences(found[first], found[way])
        different += len(lines)
        print(f"{way:<14} {len(found[way]):>6} {len(lines):>7}")
        print("".join(f"    {line}\n" for line in lines), end="")
    return 1 if different or not found[first] else 0


if __name__ == "__main__":
    sys.exit(main())
