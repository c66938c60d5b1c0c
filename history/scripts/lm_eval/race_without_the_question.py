"""Check whether the prompt of race has what stands before the gap of an earlier question."""

import runpy
import sys
from pathlib import Path

import lm_eval

FILE = Path(lm_eval.__file__).parent / "tasks" / "race" / "preprocess_race.py"
PROBLEMS = [
    {"question": "Ada went to  _  .", "options": ["Rome", "bed", "sea", "work"], "answer": "B"},
    {"question": "Why?", "options": ["a", "b", "c", "d"], "answer": "A"},
]
text = runpy.run_path(str(FILE))["doc_to_text"]({"article": "A text.", "problems": repr(PROBLEMS)})
print(repr(text))
sys.exit(int("Ada went to" not in text))
