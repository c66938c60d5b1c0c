"""Check which of two lines with an answer multiple_choice takes."""

import sys
import tempfile

from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import choice
from inspect_ai.solver import multiple_choice


def respond(*_):
    output = ModelOutput.from_content("mockllm/model", "ANSWER: B\n\nNo, that is wrong.\n\nANSWER: A")
    output.usage = ModelUsage()
    return output


dataset = MemoryDataset([Sample(input="Who?", choices=["Ada", "Boris", "Clara"], target="A")])
with tempfile.TemporaryDirectory() as folder:
    (log,) = evaluate(
        Task(dataset=dataset, solver=multiple_choice(), scorer=choice()),
        model=get_model("mockllm/model", custom_outputs=respond),
        log_dir=folder,
        display="none",
    )
print(log.results.scores[0].metrics["accuracy"].value)
sys.exit(int(log.results.scores[0].metrics["accuracy"].value != 1))
