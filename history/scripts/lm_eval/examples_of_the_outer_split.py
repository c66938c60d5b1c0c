"""Check whether examples are of the split that fewshot_config names."""

import sys

from datasets import Dataset
from lm_eval.api.task import ConfigurableTask

rows = {name: [{"q": f"{name} {n}", "a": f"a{n}"} for n in range(6)] for name in ("train", "valid")}
made = ConfigurableTask(
    config={
        "task": "t",
        "custom_dataset": lambda **_: {name: Dataset.from_list(own) for name, own in rows.items()},
        "validation_split": "valid",
        "fewshot_split": "valid",
        "fewshot_config": {"sampler": "first_n", "split": "train"},
        "output_type": "generate_until",
        "doc_to_text": "{{q}}",
        "doc_to_target": "{{a}}",
        "num_fewshot": 2,
    }
)
made.set_fewshot_seed(1234)
made.build_all_requests()
prompt = made.instances[3].args[0]
print(repr(prompt))
sys.exit(int("train 0" not in prompt))
