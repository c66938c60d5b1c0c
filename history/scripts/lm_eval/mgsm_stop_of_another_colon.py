"""Check whether a question of mgsm in Chinese begins with a stop sequence of the task."""

import sys
from pathlib import Path

import lm_eval
import yaml

path = Path(lm_eval.__file__).parent / "tasks" / "mgsm" / "direct" / "mgsm_direct_zh.yaml"
stops = yaml.safe_load(path.read_text(encoding="utf-8"))["generation_kwargs"]["until"]
question = "\u95ee\u9898\uff1a\u7f57\u6770\u6709 5 \u4e2a\u7f51\u7403\u3002"  # as the data set has it
print(stops)
sys.exit(int(not any(question.startswith(stop) for stop in stops)))
