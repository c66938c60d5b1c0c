"""Check whether a sample that ended in an error and was scored is counted rightly: `completed 2`, or `scored 3`."""

import sys
import tempfile

from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import match


def respond(messages, *_):
    if "1" in messages[-1].text:
        raise OSError("no answer")
    output = ModelOutput.from_content("mockllm/model", "29")
    output.usage = ModelUsage()
    return output


dataset = MemoryDataset([Sample(input=f"Question {n}?", target="29") for n in range(3)])
with tempfile.TemporaryDirectory() as folder:
    (log,) = evaluate(
        Task(dataset=dataset, scorer=match(), score_on_error=True),
        model=get_model("mockllm/model", custom_outputs=respond),
        log_dir=folder,
        display="none",
        fail_on_error=False,
    )
counted = {"completed": log.results.completed_samples, "scored": log.results.scores[0].scored_samples}
print(counted)
name, right = sys.argv[1:]
sys.exit(int(counted[name] != int(right)))
