"""Cost of collecting: CPU seconds of a whole process for the short run, the main job, and every cell there is.

    python benchmarks/collecting.py [--turns 5] [--smoke]

The goal is 5 s of CPU for 12,000 cells, and nothing imported that no selected target needs: torch is not.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RUNS = {
    "short run": "",
    "main job": "full or not full",
    "every check": "full or not full or sweep or distributed",
}
HEAVY = ("torch", "transformers", "torchmetrics", "keras", "lightning", "scipy", "sklearn", "pandas")
PROGRAM = f"""
import sys, pytest
code = pytest.main(sys.argv[1:])
print("imported", *(name for name in {HEAVY} if name in sys.modules), file=sys.stderr)
sys.exit(code)
"""


def collect(arguments: list[str]) -> tuple[int, float, str]:
    """Return how many cells, CPU seconds, and which heavy libraries were imported."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", PROGRAM, "--collect-only", "-q", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cells = sum("::" in line for line in done.stdout.splitlines())
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cells, seconds, done.stderr.rpartition("imported")[2].strip()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--smoke", action="store_true", help="once, and only the short run")
    asked = parser.parse_args()
    ways = {name: ["--evalcheck", "-m", marks] for name, marks in RUNS.items()}
    if asked.smoke:
        ways = {"short run": ways["short run"]}
    print(f"{'':<12} {'cells':>6} {'CPU s':>6} {'for 12,000':>10}  imported")
    for name, arguments in ways.items():
        turns = [collect(arguments) for _ in range(1 if asked.smoke else asked.turns + 1)][-asked.turns :]
        cells, _, imported = turns[-1]
        seconds = statistics.median(turn[1] for turn in turns)
        scaled = f"{seconds * 12_000 / cells:.2f}" if cells > 12_000 else ""  # starting costs the same for a few
        print(f"{name:<12} {cells:6} {seconds:6.2f} {scaled:>10}  {imported or 'none of these'}")
    print(f"looked for: {', '.join(HEAVY)}")


if __name__ == "__main__":
    main()
