"""Models of lm-evaluation-harness that give the responses which were drawn, alone or as ranks of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from threading import Barrier, Thread
from typing import Any

from lm_eval.api.model import LM

_TIMEOUT = 20.0
"""Seconds that a rank waits for the others."""


class Scripted(LM):  # type: ignore[misc]
    """A model that has one list of responses a document: one a choice, or one a repeat of a generation.

    What another model says, one with a name, is told from it by a mark, and so is what it says with another
    ``max_gen_toks`` than the usual one.
    """

    def __init__(
        self, responses: Sequence[Sequence[Any]], documents: Sequence[Any], usual: int | None, name: str = ""
    ) -> None:
        super().__init__()
        self._responses, self._documents, self._usual, self._name = responses, documents, usual, name
        self._asked: Counter[int] = Counter()

    def generate_until(self, requests: Any) -> list[Any]:
        return [self._repeat(request) for request in requests]

    def loglikelihood(self, requests: Any) -> list[Any]:
        return [self._marked(self._own(request, request.idx), request) for request in requests]

    def loglikelihood_rolling(self, requests: Any) -> list[Any]:
        return [self._marked(self._own(request, 0), request) for request in requests]

    def _repeat(self, request: Any) -> Any:
        self._asked[id(request)] += 1  # the same object comes once a repeat
        return self._marked(self._own(request, self._asked[id(request)] - 1), request)

    def _own(self, request: Any, place: int) -> Any:
        own = self._responses[self._place(request)]
        wanted = max(request.idx + 1, request.repeats)
        if len(own) < wanted:
            raise ValueError(
                f"the task asks for {wanted} responses to {request.doc!r}, which was drawn with {len(own)}: "
                "draw as many as the task has choices or repeats"
            )
        return own[place % len(own)]  # a rank is also asked again, to be as busy as the others

    def _place(self, request: Any) -> int:
        if request.doc_id < len(self._documents) and self._documents[request.doc_id] == request.doc:
            return int(request.doc_id)
        raise LookupError(
            f"the model is asked about {request.doc!r}, which is not document {request.doc_id} of this run"
        )

    def _marked(self, response: Any, request: Any) -> Any:
        marks = [f"by {self._name}"] * bool(self._name)
        if request.request_type == "generate_until":
            limit = request.args[1].get("max_gen_toks")
            marks += [f"in {limit} tokens"] * (limit != self._usual)
        if isinstance(response, str):
            return " ".join([response, *marks])
        if isinstance(response, tuple):
            return (response[0] - len(marks), *response[1:])
        return response if response is None else response - len(marks)


class Rank(Scripted):
    """One of several processes of a run, here a thread."""

    def __init__(self, rank: int, group: Group, *script: Any) -> None:
        super().__init__(*script)
        self._rank, self._world_size, self._group, self._device = rank, group.size, group, "cpu"

    def all_gather(self, tensor: Any) -> Any:
        import torch

        return torch.stack(self._group.exchange(self._rank, tensor))

    def gather_object(self, obj: Any, dst: int = 0) -> Any:
        gathered = self._group.exchange(self._rank, obj)
        return gathered if self._rank == dst else None

    def barrier(self) -> None:
        self._group.exchange(self._rank, None)


class Group:
    """Ranks that call the same collectives in the same order, or fail."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._barrier = Barrier(size, timeout=_TIMEOUT)
        self._slots: list[Any] = [None] * size

    def exchange(self, rank: int, value: Any) -> list[Any]:
        self._slots[rank] = value
        self._barrier.wait()
        found = list(self._slots)
        self._barrier.wait()  # nobody goes on to the next exchange before all have read this one
        return found

    def run(self, work: Callable[[int], Any]) -> Any:
        """What rank 0 gives; or the first error, which real processes would wait for in vain."""
        made: dict[int, Any] = {}
        errors: list[Exception] = []

        def one(rank: int) -> None:
            try:
                made[rank] = work(rank)
            except Exception as error:  # handed to the caller's thread below
                errors.append(error)
                self._barrier.abort()

        threads = [Thread(target=one, args=(rank,), daemon=True) for rank in range(self.size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return made[0]
