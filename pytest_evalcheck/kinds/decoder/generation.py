"""What whole generations must give, and what they read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.kinds.decoder.calls import Calls, Ids


def greedy(calls: Calls, prompts: Ids, found: Any, count: int, atol: float) -> Any:
    """What a greedy generation of ``count`` tokens gives without a cache, or the error.

    Where two logits lie within ``atol``, the token that was ``found`` is right. Rows that were found may be shorter.
    None where there is not one for each prompt.
    """
    if found is None or (not isinstance(found, Raised) and len(found) != len(prompts)):
        return None
    told: Ids = [[] for _ in prompts] if isinstance(found, Raised) else found
    rows = [_greedy(calls, list(prompt), row, count, atol) for prompt, row in zip(prompts, told, strict=True)]
    return next((row for row in rows if isinstance(row, Raised)), rows)


def _greedy(calls: Calls, prompt: list[int], found: Sequence[int], count: int, atol: float) -> Any:
    wanted = len(found) if 0 < len(found) < count else count
    made: list[int] = []
    while len(made) < wanted:
        # As long as it is what was found, these ids are the same, and their logits are kept: one forward for all.
        logits = calls.full([[*prompt, *made, *found[len(made) : wanted - 1]]])
        if isinstance(logits, Raised):
            return logits
        scores = logits[0][len(prompt) + len(made) - 1].clone()
        scores[list(calls.record.suppressed)] = float("-inf")
        given = found[len(made)] if len(made) < len(found) else -1
        near = 0 <= given < len(scores) and bool(scores[given] >= scores.max() - atol)
        made.append(given if near else int(scores.argmax()))
    return made


def ended(tokens: Sequence[int], stop: Collection[int], *, only_last: bool = False) -> list[int]:
    """The tokens before the first stop token; with ``only_last`` nothing is taken away but a stop token at the end."""
    ends = [place for place, token in enumerate(tokens) if token in stop]
    end = ends[0] if ends and (not only_last or ends[0] == len(tokens) - 1) else len(tokens)
    return list(tokens[:end])


@contextmanager
def reading(model: Any) -> Iterator[list[int]]:
    """How many ids of a row each forward within reads, as the first embedding of the model sees them."""
    import torch

    read: list[int] = []
    modules = model.modules() if hasattr(model, "modules") else ()
    tables = [module for module in modules if isinstance(module, torch.nn.Embedding)]

    def see(_: Any, inputs: tuple[Any, ...]) -> None:
        read.append(inputs[0].shape[-1] if inputs[0].dim() else 1)

    hook = tables[0].register_forward_pre_hook(see) if tables else None
    try:
        yield read
    finally:
        if hook:
            hook.remove()
