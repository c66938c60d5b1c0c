"""transformers: a `pipeline` over a data set, and the means of the scores of its outputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_evalcheck.kinds.loop.record import BATCH_SIZES, Evaluated, Loop

CLASSES = ("transformers.pipelines.base.Pipeline",)

OPTIONS: dict[str, tuple[Any, ...]] = {
    "batch_size": BATCH_SIZES,
    "source": ("data set", "list", "generator"),
    "workers": (0, 1, 2),
}
"""Options that must not change the outputs: batches, the container of the inputs, processes that prepare them."""
Score = Callable[[Any, Any], Mapping[str, float]]


def record(pipe: Any) -> Loop:
    """The record of a pipeline, for inputs and answers that the collate of the target's inputs returns as two lists."""
    return loop(pipe)


def loop(pipe: Any, score: Score | None = None, *, call_options: Any = None, **fields: Any) -> Loop:
    """The record of a pipeline: it is called on the inputs of all samples, and its outputs keep their order.

    Args:
        pipe: any pipeline. The collate of the target's inputs returns ``(inputs, answers)``, two lists.
        score: ``score(output, answer)`` returns numbers by name, which are averaged over the samples: by default those
            of `default_score`.
        call_options: keywords of every call of the pipeline.
        fields: of `Loop`, added to those of a pipeline or instead of them. ``options`` of a pipeline that takes no
            data set names the containers that it takes as ``source``, the usual one first.
    """
    score = score or default_score
    usual = fields.get("options", OPTIONS).get("source", OPTIONS["source"])[0]

    # One sample a batch is what a pipeline does by itself: one that fails in larger batches can be tried.
    def evaluate(data: Any, batch_size: int = 1, source: str = usual, workers: int = 0) -> Evaluated:
        dataset = _inputs(data)
        one_by_one = (dataset[i] for i in range(len(dataset)))
        inputs = dataset if source == "data set" else one_by_one if source == "generator" else list(one_by_one)
        outputs = list(pipe(inputs, batch_size=batch_size, num_workers=workers, **(call_options or {})))
        answers = [data.collate([data[i]])[1][0] for i in range(min(len(outputs), len(data)))]
        scores = [score(output, answer) for output, answer in zip(outputs, answers, strict=False)]
        numbers = {name: math.fsum(row[name] for row in scores) / len(scores) for name in (scores[0] if scores else ())}
        return Evaluated(numbers, [(i, {"output": plain(output)}) for i, output in enumerate(outputs)])

    return Loop(**{"evaluate": evaluate, "options": OPTIONS, "model": pipe.model, "source": pipe, **fields})


def default_score(output: Any, answer: Any) -> dict[str, float]:
    """The mean of all scores in an output, ``score``, and whether its labels are the answer, ``hit``.

    Where the answer is not a list, it is compared with the first label alone.
    """
    entries = output if isinstance(output, Sequence) else [output]
    keys = ("label", "entity", "entity_group", "generated_text")
    labels: list[Any] = [next((entry[key] for key in keys if key in entry), None) for entry in entries]
    scores = [float(entry["score"]) for entry in entries if "score" in entry]
    predicted = labels if isinstance(answer, (list, tuple)) else (labels or [None])[0]
    hit = float(predicted == (list(answer) if isinstance(answer, tuple) else answer))
    return {"hit": hit, "score": math.fsum(scores) / max(1, len(scores))}


def plain(value: Any) -> Any:
    """The same as numbers, texts, lists and dicts."""
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return value.tolist() if hasattr(value, "tolist") else value


def _inputs(data: Any) -> Any:
    """The inputs of a data set, as a map-style data set."""
    from torch.utils.data import Dataset

    class Inputs(Dataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return len(data)

        def __getitem__(self, index: int) -> Any:
            return data.collate([data[index]])[0][0]

    return Inputs()
