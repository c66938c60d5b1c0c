"""Check whether a comma at the end of a text of choices makes a choice without a text."""

import json
import sys
import tempfile
from pathlib import Path

from inspect_ai.dataset import FieldSpec, json_dataset

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "rows.jsonl"
    path.write_text(json.dumps({"input": "Who?", "choices": "Ada, Boris, Clara,", "target": "A"}))
    (sample,) = json_dataset(str(path), FieldSpec(choices="choices"))
print(sample.choices)
sys.exit(int("" in sample.choices))
