"""Calling a decoder: tensors are made new for every call, errors are results, and what is no answer is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pytest_evalcheck.expectations.comparison import Raised, show
from pytest_evalcheck.guard import Snapshot
from pytest_evalcheck.kinds.common.calling import TargetError, attempt
from pytest_evalcheck.kinds.decoder.record import Decoder

Ids = Sequence[Sequence[int]]
"""Rows of ids, of one length unless said otherwise."""


class Calls:
    """The callables of one record."""

    def __init__(self, record: Decoder, device: str) -> None:
        self.record, self.device = record, device
        self.watching = False
        """Whether `changes` are looked for, which takes as long as a call."""
        self.changes: list[str] = []
        """What calls changed of what they were given."""
        self._logits_of: dict[Any, Any] = {}
        if hasattr(record.model, "eval"):
            record.model.eval()  # as every evaluation does first

    def make_cache(self, rows: int) -> Any:
        """A new cache, or the error.

        Raises:
            TargetError: where it is None.
        """
        made = self._call("make_cache", self.record.make_cache, rows)
        if made is None:
            raise TargetError(
                "make_cache() gave None, which stands for no cache",
                expected="a cache, or any handle to one that is kept in the model",
                actual="None",
                cause="cache",
            )
        return made

    def full(self, ids: Ids) -> Any:
        """The logits ``[rows, n, vocab]`` of rows of one length without a cache, kept by their ids; or the error."""
        key = tuple(map(tuple, ids))
        if key not in self._logits_of:
            run = self.record.full or self._step_without_a_cache
            masks, positions = [[1] * len(row) for row in ids], [list(range(len(row))) for row in ids]
            self._logits_of[key] = self._logits("full", run, ids, masks, positions)
        return self._logits_of[key]

    def step(self, cache: Any, ids: Ids, masks: Ids, positions: Ids) -> tuple[Any, Any]:
        """The logits of new ids ``[rows, n, vocab]`` or the error, and the cache that holds them."""
        step, after = self.record.step, cache
        assert step is not None

        def run(ids: Any, masks: Any, positions: Any) -> Any:
            nonlocal after
            made = step(ids, cache, masks, positions)
            if isinstance(made, tuple) and len(made) == 2:
                made, after = made
            return made

        return self._logits("step", run, ids, masks, positions), after

    def generate(self, prompts: Ids, cache: Any, count: int, stop: tuple[int, ...] = ()) -> Any:
        """Of each prompt the new tokens as a list, or the error.

        Raises:
            TargetError: where they are no lists of ids.
        """
        assert self.record.generate is not None
        given = [list(row) for row in prompts]
        made = self._call("generate", self.record.generate, given, cache, count, stop, watched={"prompts": given})
        if isinstance(made, Raised):
            return made
        try:
            rows = [[int(token) for token in row] for row in made]
        except (TypeError, ValueError) as error:
            raise TargetError(
                "generate() gave no tokens",
                expected="one list of new ids a prompt",
                actual=f"{type(made).__name__}: {show(made)}",
                cause="tokens",
            ) from error
        return rows

    def operate(self, name: str, cache: Any, *arguments: Any) -> Any:
        """The cache after one of its operations, or the error. Lists become tensors."""
        given = [self.ints(argument) if isinstance(argument, list) else argument for argument in arguments]
        made = self._call(name, self.record.operations[name], cache, *given)
        return cache if made is None else made

    def ints(self, rows: Any) -> Any:
        """An int64 tensor on the device."""
        import torch

        return torch.tensor(rows, dtype=torch.int64, device=self.device)

    def _step_without_a_cache(self, ids: Any, mask: Any, positions: Any) -> Any:
        assert self.record.step is not None
        made = self.record.step(ids, None, mask, positions)
        return made[0] if isinstance(made, tuple) and len(made) == 2 else made

    def _logits(self, where: str, run: Callable[..., Any], ids: Ids, masks: Ids, positions: Ids) -> Any:
        import torch

        given = {"ids": self.ints(ids), "mask": self.ints(masks), "positions": self.ints(positions)}
        logits = self._call(where, run, *given.values(), watched=given)
        if isinstance(logits, Raised):
            return logits
        wanted = f"[{len(ids)}, {len(ids[0])}, vocabulary]"
        if not (isinstance(logits, torch.Tensor) and logits.is_floating_point() and logits.dim() == 3) or (
            tuple(logits.shape[:2]) != (len(ids), len(ids[0]))
        ):
            shape = f"a tensor of shape {list(logits.shape)} and {logits.dtype}" if hasattr(logits, "shape") else ""
            raise TargetError(
                f"{where}() gave no logits of the ids",
                expected=f"a floating tensor of shape {wanted}",
                actual=shape or f"{type(logits).__name__}: {show(logits)}",
                cause="logits",
            )
        return logits.detach().clone()  # which the next call may write into

    def _call(self, where: str, call: Callable[..., Any], *arguments: Any, watched: Any = None) -> Any:
        import torch

        before = Snapshot(watched, where) if self.watching and watched else None
        with torch.no_grad():
            made = attempt(where, call, *arguments)
        self.changes += before.changes() if before else []
        return made
