"""What the plugin costs a run that does not use it: pytest alone beside pytest with the plugin, in turn.

    python benchmarks/idle.py [--pairs 20] [--smoke]

Printed are the medians of CPU seconds (user and system, of the whole process) and of the differences pair by pair.
The goal is under 5 ms added and no heavy import.
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
        timed = [(cpu_seconds(folder), cpu_seconds(folder, *WITHOUT)) for _ in range(pairs)]
    with_it, without = (statistics.median(column) for column in zip(*timed, strict=True))
    differences = [1000 * (a - b) for a, b in timed]
    low, high = (statistics.quantiles(differences, n=4)[i] for i in (0, 2))
    print(f"pytest alone            {without:8.4f} s CPU (median of {pairs})")
    print(f"with pytest-evalcheck   {with_it:8.4f} s CPU")
    print(f"added, pair by pair     {statistics.median(differences):+8.2f} ms (quartiles {low:+.2f} to {high:+.2f})")
    print(f"modules added           {', '.join(added)}")


if __name__ == "__main__":
    main()
