"""A batch that failed half way and is tried again counts once in every metric."""

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
    """Restore the state of these metrics, accumulators, lists and dicts where an exception leaves the block.

    For what is restored see `pytest_evalcheck.fixes.loops.state_snapshot.preserve`. The exception is raised again.

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
    restore = preserve(accumulators)
    try:
        yield
    except BaseException:
        restore()
        raise


def retry_in_parts(
    work: Callable[[Any], Result],
    batch: Any,
    *accumulators: Any,
    on: type[BaseException] | Errors = torch.OutOfMemoryError,
    split: Callable[[Any, int], Sequence[Any]] | None = None,
    tries: int = 8,
) -> list[Result]:
    """Call ``work`` on a batch until it succeeds, and return the results of the parts (EC507).

    ``work`` is called with the whole batch; where it raises one of ``on``, the accumulators are restored, and it is
    called with the batch in 2, 4, ... parts, made by `split_batch` or your ``split(batch, parts)``, at last with one
    row per part. A failure in a later part also restores the updates of earlier parts. After ``tries``, or when rows
    cannot be split further, the last error is raised; any other error is raised at once. In both cases the
    accumulators are as before.

    `transactional` restores the accumulators around a retry of your own.

    Symptom: a batch that ran out of memory half way and was tried again counts twice.

    Before::

        def add(batch, mean):
            try:
                for part in halves(batch):
                    mean.update(losses(model, part))
            except torch.OutOfMemoryError:
                add(batch, mean)

    After::

        from pytest_evalcheck.fixes.loops import retry_in_parts

        def add(batch, mean):
            retry_in_parts(lambda part: mean.update(losses(model, part)), batch, mean)

    Costs: a copy of the state for each batch; lists that predictions are appended to are not copied.

    Limits: a state outside of the attributes, such as a file, is not restored.

    Target: ec.loop(inputs=es.tabular(features=2, classes=3)) with loop(model, adding(model, add), retries=True)

    Shown by: EC507.
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
    """Cut a batch into at most this many parts of whole rows, in order; keys and types of containers stay.

    Tensors with a first dimension, lists and tuples are cut where they are as long as the batch; everything else is in
    every part. A named tuple or a tuple of tensors is a batch of fields, a list is a batch of rows.
    """
    rows = _rows(batch)
    size = -(-rows // min(parts, rows)) if rows else 1
    return [cut_rows(batch, rows, start, start + size) for start in range(0, max(rows, 1), size)]


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


def cut_rows(value: Any, rows: int, start: int, stop: int) -> Any:
    """Return a batch of ``rows`` rows with the rows from ``start`` to ``stop`` alone."""
    if isinstance(value, Tensor):
        return value[start:stop] if value.dim() and len(value) == rows else value
    if isinstance(value, Mapping):
        cut = {name: cut_rows(each, rows, start, stop) for name, each in value.items()}
        return cut if type(value) is dict else type(value)(cut)  # type: ignore[call-arg]
    if isinstance(value, list):
        return value[start:stop] if len(value) == rows else value
    if isinstance(value, tuple) and any(isinstance(each, Tensor | Mapping) for each in value):
        cuts = [cut_rows(each, rows, start, stop) for each in value]
        return type(value)(*cuts) if hasattr(value, "_fields") else type(value)(cuts)
    return value[start:stop] if isinstance(value, tuple) and len(value) == rows else value
