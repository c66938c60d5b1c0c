"""What a cache, or a batch that is meant for one, is refused with."""

from __future__ import annotations


class CacheError(ValueError):
    """A batch, a cache or a model that do not fit each other; the text names which, and what would fit."""


class UnservedModel(CacheError):
    """A model whose layers keep something that these caches do not hold."""


def require_size(value: object, where: str) -> int:
    """Give a size of one or more; `CacheError` for anything else."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise CacheError(f"{where}: expected a whole number of one or more, got {value!r}")
    return value


def require_rows(rows: int, capacity: int) -> None:
    """Refuse a batch that a cache has no rows for, and one without rows."""
    if rows < 1:
        raise CacheError("batch: expected at least one row, got none")
    if rows > capacity:
        raise CacheError(
            f"batch: expected at most {capacity} rows, which is what the cache was made for, got {rows}; "
            "split it (plan_batches does), or make the cache larger"
        )


def require_context(length: int, context: int | None) -> None:
    """Refuse a cache that is longer than what its model can read."""
    if context is not None and length > context:
        raise CacheError(
            f"cache: expected at most {context} positions, which is the model's context, got {length}; "
            f"make it {context} long"
        )
