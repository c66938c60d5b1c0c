"""Cost of the example call and the canonical cases: the main job with and without them, side by side, in CPU seconds.

``python benchmarks/canonical_cost.py`` runs the main job at quick effort both ways at once, on two processors. Without
them as many cases are tried: all of them are drawn. ``--every 4`` runs every fourth file, ``--smoke`` one.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from main_job import SMOKE, TARGETS, Job, run


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="one file of targets")
    parser.add_argument("--every", type=int, default=1, help="run every n-th file of targets")
    given = parser.parse_args()
    files = SMOKE if given.smoke else [path.name for path in sorted(TARGETS.glob("evalcheck_*.py"))][:: given.every]
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(2) as pool:

        def job(way: str) -> tuple[Job, int]:
            made = run(Path(name) / f"{way}.json", files, [], {"EVALCHECK_WITHOUT": "" if way == "with" else "1"})
            cells = json.loads(made.report.read_text(encoding="utf-8"))["checks"]
            return made, sum(cell["examples"] for cell in cells)

        (having, cases), (lacking, drawn) = pool.map(job, ("with", "without"))
    print(f"{'plain call and canonical cases':<32} {'CPU s':>8} {'cases':>8}")
    print(f"{'with':<32} {having.cpu:8.0f} {cases:8}")
    print(f"{'without':<32} {lacking.cpu:8.0f} {drawn:8}")
    print(f"they cost {having.cpu / lacking.cpu - 1:.1%} of the CPU")


if __name__ == "__main__":
    main()
