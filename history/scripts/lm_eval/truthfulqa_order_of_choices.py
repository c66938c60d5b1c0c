"""Check whether a right choice behind a wrong one counts as right."""

import runpy
import sys
from pathlib import Path

import lm_eval

FILE = Path(lm_eval.__file__).parent / "tasks" / "truthfulqa" / "utils.py"
document = {"mc2_targets": {"choices": ["wrong", "right"], "labels": [0, 1]}}
results = [(-50.0, False), (-0.1, True)]
value = float(runpy.run_path(str(FILE))["process_results_mc2"](document, results)["acc"])
print(value)
sys.exit(int(value < 0.5))
