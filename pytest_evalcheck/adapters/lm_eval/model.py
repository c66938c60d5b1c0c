"""Models of lm-evaluation-harness that return the drawn responses, alone or as ranks of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from threading import Barrier, Thread
from typing import Any

from lm_eval.api.model import LM

_TIMEOUT = 20.0
"""Number of seconds a rank waits for the others."""


class ScriptedLM(LM):  # type: ignore[misc]
    """A model with one list of responses per document: one per choice, or one per repeat of a generation.

    Responses of a model with a ``name``, and responses with another ``max_gen_toks`` than the usual one, are marked.
    """

    def __init__(
        self, responses: Sequence[Sequence[Any]], documents: Sequence[Any], usual: int | None, name: str = ""
    ) -> None:
        super().__init__()
        self._responses, self._documents, self._usual, self._name = responses, documents, usual, name
        self._calls: Counter[int] = Counter()

    def generate_until(self, requests: Any) -> list[Any]:
        return [self._repeat(request) for request in requests]

    def loglikelihood(self, requests: Any) -> list[Any]:
        return [self._marked(self._response_of(request, request.idx), request) for request in requests]

    def loglikelihood_rolling(self, requests: Any) -> list[Any]:
        return [self._marked(self._response_of(request, 0), request) for request in requests]

    def _repeat(self, request: Any) -> Any:
        self._calls[id(request)] += 1  # the same object comes once per repeat
        return self._marked(self._response_of(request, self._calls[id(request)] - 1), request)

    def _response_of(self, request: Any, index: int) -> Any:
        own = self._responses[self._document(request)]
        wanted = max(request.idx + 1, request.repeats)
        if len(own) < wanted:
            raise ValueError(
                f"the task asks for {wanted} responses to {request.doc!r}, which was drawn with {len(own)}: "
                "draw as many as the task has choices or repeats"
            )
        return own[index % len(own)]  # a rank with fewer requests repeats some of them

    def _document(self, request: Any) -> int:
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


class RankLM(ScriptedLM):
    """A rank of a run, which is a thread here and a process in lm-eval."""

    def __init__(self, rank: int, group: RankGroup, *script: Any) -> None:
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


class RankGroup:
    """Ranks that call the same collectives in the same order, or fail."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._barrier = Barrier(size, timeout=_TIMEOUT)
        self._slots: list[Any] = [None] * size

    def exchange(self, rank: int, value: Any) -> list[Any]:
        self._slots[rank] = value
        self._barrier.wait()
        values = list(self._slots)
        self._barrier.wait()  # no rank starts the next exchange before all have read this one
        return values

    def run(self, work: Callable[[int], Any]) -> Any:
        """The result of rank 0; or the first error of any rank, where real processes would hang."""
        results: dict[int, Any] = {}
        errors: list[Exception] = []

        def run_rank(rank: int) -> None:
            try:
                results[rank] = work(rank)
            except Exception as error:  # raised in the caller's thread below
                errors.append(error)
                self._barrier.abort()

        threads = [Thread(target=run_rank, args=(rank,), daemon=True) for rank in range(self.size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return results[0]


class ProcessGroup:
    """Ranks that are the processes of a group of torch, in place of threads: so they are in a script of a failure."""

    def __init__(self, size: int) -> None:
        self.size = size

    def exchange(self, rank: int, value: Any) -> list[Any]:
        import torch.distributed

        del rank
        values: list[Any] = [None] * self.size
        torch.distributed.all_gather_object(values, value)
        return values
