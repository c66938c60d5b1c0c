"""Rows that fill a batch up, and their removal: right also where none were added."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from pytest_evalcheck.fixes.caches.errors import CacheError, require_size


def pad_batch(rows: Tensor, size: int, fill: int | float | bool) -> Tensor:
    """Fill a batch up with rows of a stop token, so that what must have a fixed size gets it.

    ``rows`` is (n, ...); the result is (size, ...), its first n rows those of ``rows``, the others ``fill``
    throughout. Fill ids with a stop token, so that the added rows stop at once, and an attention mask with 1: rows
    in which nothing is real have no attention. A batch that has the size comes back as it is, the same tensor.

    `CacheError` for more rows than ``size``, for a tensor without rows, and for a fill that the dtype cannot hold.
    """
    require_size(size, "size")
    if not isinstance(rows, Tensor) or not rows.dim():
        raise CacheError(f"rows: expected a tensor of one dimension or more, got {_described(rows)}")
    added = size - len(rows)
    if added < 0:
        raise CacheError(f"rows: expected at most {size}, the size to fill up to, got {len(rows)}")
    if not added:
        return rows
    filler = torch.full((added, *rows.shape[1:]), _held(fill, rows.dtype), dtype=rows.dtype, device=rows.device)
    return torch.cat([rows, filler])


def trim(results: Any, rows: int) -> Any:
    """Keep what belongs to the first ``rows`` rows, whether any were added or not.

    Of a tensor, a list or a tuple the first ``rows`` entries; of a mapping those of every value; of a tuple of tensors,
    as models return them, those of every element. ``results[:-added]``, which one writes first,
    loses everything where ``added`` is 0.

    `CacheError` where there are fewer entries than rows.
    """
    if not isinstance(rows, int) or isinstance(rows, bool) or rows < 0:
        raise CacheError(f"rows: expected a whole number of zero or more, got {rows!r}")
    if isinstance(results, Mapping):
        return {name: trim(value, rows) for name, value in results.items()}
    if isinstance(results, tuple) and any(isinstance(each, Tensor) for each in results):
        kept = [trim(each, rows) for each in results]
        return type(results)(*kept) if hasattr(results, "_fields") else tuple(kept)
    if not (isinstance(results, list | tuple) or (isinstance(results, Tensor) and results.dim())):
        raise CacheError(f"results: expected a tensor, a list, a tuple or a mapping of them, got {_described(results)}")
    if len(results) < rows:
        raise CacheError(f"results: expected {rows} rows or more, got {len(results)}")
    return results[:rows]


def _held(fill: Any, dtype: torch.dtype) -> Any:
    if isinstance(fill, Tensor):
        fill = fill.item()
    if dtype != torch.bool and not dtype.is_floating_point and not dtype.is_complex:
        bounds = torch.iinfo(dtype)
        if not isinstance(fill, int) or not bounds.min <= fill <= bounds.max:
            raise CacheError(f"fill: expected an integer that {dtype} can hold, got {fill!r}")
    return fill


def _described(value: object) -> str:
    return "a tensor without dimensions" if isinstance(value, Tensor) else type(value).__name__
