"""Cost of the plugin in a run that does not use it: pytest alone beside pytest with the plugin, in turn.

    python benchmarks/idle.py [--pairs 20] [--smoke]

Printed are the medians of CPU seconds (user and system, of the whole process) and of the differences pair by pair; and
what Hypothesis' own plugin adds, which comes with Hypothesis. The goal is under 5 ms added and no heavy import.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

BARE = ["-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:xdist", "-p", "no:hypothesispytest", "-q"]
WITHOUT = ["-p", "no:pytest_evalcheck"]
HYPOTHESIS = [*WITHOUT, "-p", "_hypothesis_pytestplugin"]
PROBE = """
import json, sys
def pytest_unconfigure(config):
    with open("modules.json", "w") as out:
        json.dump(sorted(sys.modules), out)
"""


def cpu_seconds(folder: Path, *options: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "pytest", *BARE, *options]
    subprocess.run(
        command, cwd=folder, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


def modules(folder: Path, *options: str) -> set[str]:
    import json

    cpu_seconds(folder, *options)
    return set(json.loads((folder / "modules.json").read_text()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--smoke", action="store_true", help="a run of seconds, to check that this works")
    asked = parser.parse_args()
    pairs = 3 if asked.smoke else asked.pairs
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "test_one.py").write_text("def test_one(): pass\n")
        (folder / "conftest.py").write_text(PROBE)
        added = sorted(modules(folder) - modules(folder, *WITHOUT))
        (folder / "conftest.py").unlink()
        cpu_seconds(folder)
        ways = {"pytest alone": WITHOUT, "with pytest-evalcheck": [], "with Hypothesis' plugin": HYPOTHESIS}
        timed = [{way: cpu_seconds(folder, *options) for way, options in ways.items()} for _ in range(pairs)]
    for way in ways:
        print(f"{way:<24} {statistics.median(one[way] for one in timed):8.4f} s CPU (median of {pairs})")
    for way in list(ways)[1:]:
        added_ms = [1000 * (one[way] - one["pytest alone"]) for one in timed]
        low, middle, high = statistics.quantiles(added_ms, n=4)
        print(f"{way}, added, run by run: {middle:+.2f} ms (quartiles {low:+.2f} to {high:+.2f})")
    print(f"modules that pytest-evalcheck adds: {', '.join(added)}")


if __name__ == "__main__":
    main()
