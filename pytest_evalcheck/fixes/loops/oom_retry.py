"""A batch that failed half way and is tried again counts once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor

from pytest_evalcheck.fixes.loops.state_snapshot import preserve

Result = TypeVar("Result")
Errors = tuple[type[BaseException], ...]


@contextmanager
def transactional(*accumulators: Any) -> Iterator[None]:
    """Take back whatever these metrics, accumulators, lists and dicts were told within, where an exception leaves.

    What is kept is said at `pytest_evalcheck.fixes.loops.state_snapshot.preserve`. The exception goes on.

    >>> seen, hits = [], {"n": 0}
    >>> try:
    ...     with transactional(seen, hits):
    ...         seen.append(1)
    ...         hits["n"] += 1
    ...         raise MemoryError
    ... except MemoryError:
    ...     print(seen, hits)
    [] {'n': 0}
    """
    put_back = preserve(accumulators)
    try:
        yield
    except BaseException:
        put_back()
        raise


def retry_in_parts(
    work: Callable[[Any], Result],
    batch: Any,
    *accumulators: Any,
    on: type[BaseException] | Errors = torch.OutOfMemoryError,
    split: Callable[[Any, int], Sequence[Any]] | None = None,
    tries: int = 8,
) -> list[Result]:
    """Work on a batch until it succeeds, and return what the parts gave; accumulators count it once (EC507).

    ``work`` is called with the whole batch; where it raises one of ``on``, the accumulators are put back, and it is
    called with the batch in 2, 4, ... parts, which `split_batch` or your ``split(batch, parts)`` makes, each row a part at
    last. A failure in a later part takes the earlier parts back too. After ``tries``, or when rows cannot be split
    further, the last error is raised; any other error is raised at once. Either way the accumulators are as before.
    """
    if not callable(work):
        raise TypeError(f"work: expected a function of a batch, got {type(work).__name__}")
    errors = on if isinstance(on, tuple) else (on,)
    if not errors or not all(isinstance(one, type) and issubclass(one, BaseException) for one in errors):
        raise TypeError(f"on: expected classes of exceptions, got {on!r}")
    if isinstance(tries, bool) or not isinstance(tries, int) or tries < 1:
        raise ValueError(f"tries: expected a whole number of 1 or more, got {tries!r}")
    before = 0
    for attempt in range(tries):
        parts = [batch] if not attempt else list((split or split_batch)(batch, 2**attempt))
        last = attempt == tries - 1
        try:
            with transactional(*accumulators):
                return [work(part) for part in parts]
        except errors:
            if last or (split is None and (len(parts) <= before or _rows(batch) <= len(parts))):
                raise
        before = len(parts)
    raise AssertionError("unreachable")


def split_batch(batch: Any, parts: int) -> list[Any]:
    """Cut a batch into at most this many parts of whole rows, in order; keys and kinds of containers stay.

    Tensors with a first dimension, lists and tuples are rows where they are as long as the batch; all else goes to
    every part. A named tuple or a tuple of tensors is a batch of fields, a list that is the batch itself one of rows.
    """
    rows = _rows(batch)
    size = -(-rows // min(parts, rows)) if rows else 1
    return [_cut(batch, rows, start, start + size) for start in range(0, max(rows, 1), size)]


def _rows(batch: Any) -> int:
    if isinstance(batch, Tensor):
        if not batch.dim():
            raise ValueError("batch: expected rows, got a tensor of shape (); give split=")
        return len(batch)
    if isinstance(batch, list):
        return len(batch)
    fields = list(batch.values()) if isinstance(batch, Mapping) else list(batch) if isinstance(batch, tuple) else []
    lengths = {_rows(each) for each in fields if isinstance(each, Mapping) or (isinstance(each, Tensor) and each.dim())}
    if len(lengths) != 1:
        raise ValueError(
            f"batch: expected tensors of one number of rows, got {sorted(lengths) or type(batch).__name__}; give split="
        )
    return lengths.pop()


def _cut(value: Any, rows: int, start: int, stop: int) -> Any:
    if isinstance(value, Tensor):
        return value[start:stop] if value.dim() and len(value) == rows else value
    if isinstance(value, Mapping):
        cut = {name: _cut(each, rows, start, stop) for name, each in value.items()}
        return cut if type(value) is dict else type(value)(cut)  # type: ignore[call-arg]
    if isinstance(value, list):
        return value[start:stop] if len(value) == rows else value
    if isinstance(value, tuple) and any(isinstance(each, Tensor | Mapping) for each in value):
        cuts = [_cut(each, rows, start, stop) for each in value]
        return type(value)(*cuts) if hasattr(value, "_fields") else type(value)(cuts)
    return value[start:stop] if isinstance(value, tuple) and len(value) == rows else value
