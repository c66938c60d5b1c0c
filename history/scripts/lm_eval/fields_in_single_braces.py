"""Check whether the prompt of a task of afrixnli has the premise of a document."""

import sys
from pathlib import Path

import lm_eval
from lm_eval.utils import apply_template

FILE = Path(lm_eval.__file__).parent / "tasks" / "afrixnli" / "direct" / "prompt_1" / "afrixnli_amh.yaml"
text = FILE.read_text(encoding="utf-8")
found = apply_template(text, {"premise": "The cat sleeps.", "hypothesis": "An animal rests."})
print("The cat sleeps." in found)
sys.exit(int("The cat sleeps." not in found))
