"""transformers: a `pipeline` over a data set, and the mean of what its outputs are worth."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_evalcheck.kinds.loop.record import BATCH_SIZES, Evaluated, Loop

OPTIONS: dict[str, tuple[Any, ...]] = {
    "batch_size": BATCH_SIZES,
    "source": ("data set", "list", "generator"),
    "workers": (0, 1, 2),
}
"""What may not change the outputs: batches, what holds the inputs, processes that prepare them."""


def record(pipe: Any) -> Loop:
    """The record of a pipeline whose inputs and answers the collate of the target's inputs gives as two lists."""
    return loop(pipe)


def loop(
    pipe: Any, worth: Callable[[Any, Any], Mapping[str, float]] | None = None, *, calling: Any = None, **fields: Any
) -> Loop:
    """The record of a pipeline: it is called on the inputs of all samples, and its outputs keep their order.

    Args:
        pipe: any pipeline. The collate of the target's inputs gives ``(inputs, answers)``, two lists.
        worth: ``worth(output, answer)``, numbers by name, which are averaged over the samples: by default the mean of
            all scores that are in the output (``score``), and whether its labels are the answer (``hit``; its first one
            where the answer is no list).
        calling: what every call of the pipeline is given, by name.
        fields: of `Loop`, beside or instead of what is known of a pipeline.
    """
    run = _Run(pipe, worth or scored, dict(calling or {}))
    return Loop(**{"evaluate": run, "options": OPTIONS, "model": pipe.model, "source": pipe, **fields})


@dataclass(frozen=True)
class _Run:
    pipe: Any
    worth: Callable[[Any, Any], Mapping[str, float]]
    calling: dict[str, Any]

    def __call__(self, data: Any, batch_size: int = 2, source: str = "data set", workers: int = 0) -> Evaluated:
        inputs = _inputs(data)
        if source != "data set":
            inputs = _one_by_one(inputs) if source == "generator" else list(_one_by_one(inputs))
        outputs = list(self.pipe(inputs, batch_size=batch_size, num_workers=workers, **self.calling))
        places = range(min(len(outputs), len(data)))
        answers = [data.collate([data[place]])[1][0] for place in places]
        worth = [self.worth(outputs[place], answers[place]) for place in places]
        numbers = {name: math.fsum(one[name] for one in worth) / len(worth) for name in (worth[0] if worth else ())}
        return Evaluated(numbers, [(place, {"output": plain(output)}) for place, output in enumerate(outputs)])


def scored(output: Any, answer: Any) -> dict[str, float]:
    """``score``: the mean of the scores in an output. ``hit``: whether its labels, or its first one, are the answer."""
    entries = output if isinstance(output, Sequence) else [output]
    texts = [one.get("label", one.get("entity", one.get("entity_group", one.get("generated_text")))) for one in entries]
    scores = [float(one["score"]) for one in entries if "score" in one]
    found: Any = texts if isinstance(answer, (list, tuple)) else (texts or [None])[0]
    hit = float(found == (list(answer) if isinstance(answer, tuple) else answer))
    return {"hit": hit, "score": math.fsum(scores) / max(1, len(scores))}


def plain(value: Any) -> Any:
    """The same as numbers, texts, lists and dicts."""
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return value.item() if hasattr(value, "item") else value


def _inputs(data: Any) -> Any:
    """The inputs of a data set, as one that is read by place."""
    from torch.utils.data import Dataset

    class Inputs(Dataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return len(data)

        def __getitem__(self, place: int) -> Any:
            return data.collate([data[place]])[0][0]

    return Inputs()


def _one_by_one(inputs: Any) -> Iterator[Any]:
    for place in range(len(inputs)):
        yield inputs[place]
