"""The sums of the rows and of the columns of a run of memory, from which old values are recovered.

They say nothing exactly on their own. They say which few old contents are likely, and a digest of the whole says
which of these it was, if any.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

_ROW = 8192
_SHORTEST = 512
_LONGEST = 16 * 1024
_READ_AT_MOST = 2**28  # bytes that are digested to find the old content: 10 ms, or 0.3 s without xxHash


class Sums(NamedTuple):
    """Modulo the size of an element, over rows as long as those of the tensor where that is neither short nor long."""

    lane: int
    width: int
    in_rows: Any
    in_columns: Any

    @classmethod
    def of(cls, memory: memoryview, size: int, row: int) -> Sums | None:
        """Of elements of ``size`` bytes, ``row`` of them to a row of the tensor. None without NumPy."""
        try:
            import numpy  # noqa: F401
        except ImportError:
            return None
        lane = math.gcd(size, 8)
        held = row * size
        if held < _SHORTEST:
            held *= _ROW // held
        elif held > max(_LONGEST, len(memory) // 64):
            held = _ROW
        width = held // lane
        return cls(lane, width, *_added(memory, lane, width))

    def seen(self, memory: memoryview) -> tuple[int, int, int]:
        """The first element of a row that changed, the end of that row, and where the first changed column meets it."""
        rows, columns = self._deltas(memory)
        changed, across = rows.nonzero()[0], columns.nonzero()[0]
        if not len(changed):
            return 0, len(memory) // self.lane, int(across[0]) if len(across) else 0
        start = int(changed[0]) * self.width
        end = min(start + self.width, len(memory) // self.lane)
        return start, end, min(start + (int(across[0]) if len(across) else 0), end - 1)

    def recovered(self, memory: memoryview, row: int, right: Callable[[Any], bool]) -> Any | None:
        """The old content if it can be told, as an array of bytes. That is a copy, for as long as it is needed."""
        import numpy as np

        old = np.frombuffer(memory, f"u{self.lane}").copy()
        tries = max(8, _READ_AT_MOST // len(memory))
        for places, values in itertools.islice(self._candidates(memory, old, row), tries):
            now = old[places].copy()  # a slice alone would be a view
            old[places] = values
            if right(old):
                return old.view("u1")
            old[places] = now
        return None

    def _deltas(self, memory: memoryview) -> tuple[Any, Any]:
        """By how much the sums grew."""
        rows, columns = _added(memory, self.lane, self.width)
        return rows - self.in_rows, columns - self.in_columns

    def _candidates(self, memory: memoryview, now: Any, row: int) -> Iterator[tuple[Any, Any]]:
        """Places, as indices or a slice, and what may have been there."""
        by_row, by_column = self._deltas(memory)
        if len(now) % self.width == 0:
            grid = now.reshape(-1, self.width)
            yield from self._moved(grid, by_row, by_column)
            if row == self.width:
                yield from self._shifted(grid)
        rows, columns = by_row.nonzero()[0].tolist(), by_column.nonzero()[0].tolist()
        for pairs in _pairings(rows, columns, by_row.tolist(), by_column.tolist()):
            places = [r * self.width + c for r, c, _ in pairs]
            if max(places) < len(now):
                yield places, now[places] - _like(now, [delta for _, _, delta in pairs])

    def _moved(self, grid: Any, by_row: Any, by_column: Any) -> Iterator[tuple[Any, Any]]:
        """Rows, or columns, that changed places; those of equal sums kept their order, or all were turned around."""
        for sums, grown, axis in ((self.in_rows, by_row, 0), (self.in_columns, by_column, 1)):
            now, last = sums + grown, len(sums) - 1
            old = sums.argsort(kind="stable")
            for new in (now.argsort(kind="stable"), last - now[::-1].argsort(kind="stable")):
                if grown.any() and (sums[old] == now[new]).all():
                    where = old.copy()
                    where[old] = new
                    yield slice(None), grid.take(where, axis).reshape(-1)

    def _shifted(self, grid: Any) -> Iterator[tuple[Any, Any]]:
        """Rows that were shifted by one in place, as labels are; the value that fell out is what lacks in the sum."""
        for kept, source, lost in ((slice(1, None), slice(None, -1), 0), (slice(None, -1), slice(1, None), -1)):
            old = grid.copy()
            old[:, kept] = grid[:, source]
            old[:, lost] = self.in_rows - old[:, kept].sum(1, dtype=old.dtype)
            yield slice(None), old.reshape(-1)


def _pairings(
    rows: list[int], columns: list[int], by_row: list[int], by_column: list[int]
) -> Iterator[list[tuple[int, int, int]]]:
    """Which places may have changed by how much: a row and a column that changed by the same met there."""
    row_sums, column_sums = Counter(by_row[r] for r in rows), Counter(by_column[c] for c in columns)
    if len(rows) <= 1 or len(columns) <= 1:
        yield from _lined(rows, columns, by_row, by_column)
        return
    shared = row_sums & column_sums
    left_rows, left_columns = _left(rows, by_row, shared), _left(columns, by_column, shared)
    if min(len(left_rows), len(left_columns)) > 1 or bool(left_rows) is not bool(left_columns):
        return
    rest = next(_lined(left_rows, left_columns, by_row, by_column), [])
    groups = []
    for delta, count in shared.items():
        of_row = [r for r in rows if by_row[r] == delta][:count]
        of_column = [c for c in columns if by_column[c] == delta][:count]
        groups.append(
            [[(r, c, delta) for r, c in zip(of_row, order, strict=True)] for order in itertools.permutations(of_column)]
            if count <= 5
            else [[(r, c, delta) for r, c in zip(of_row, of_column, strict=True)]]
        )
    for chosen in itertools.product(*groups):
        yield [*rest, *itertools.chain.from_iterable(chosen)]


def _lined(
    rows: list[int], columns: list[int], by_row: list[int], by_column: list[int]
) -> Iterator[list[tuple[int, int, int]]]:
    """All in one row, or all in one column; where its sum is as it was, in any."""
    if columns and len(rows) <= 1:
        for r in rows or range(len(by_row)):
            yield [(r, c, by_column[c]) for c in columns]
    if rows and len(columns) <= 1:
        for c in columns or range(len(by_column)):
            yield [(r, c, by_row[r]) for r in rows]


def _left(lines: list[int], by: list[int], shared: Counter[int]) -> list[int]:
    taken = Counter(shared)
    left = []
    for line in lines:
        if taken[by[line]] > 0:
            taken[by[line]] -= 1
        else:
            left.append(line)
    return left


def _like(now: Any, values: list[int]) -> Any:
    import numpy as np

    return np.array(values, dtype=now.dtype)


def _added(memory: memoryview, lane: int, width: int) -> tuple[Any, Any]:
    import numpy as np

    kind = f"u{lane}"
    flat = np.frombuffer(memory, kind)
    rest = len(flat) % width
    grid = flat[: len(flat) - rest].reshape(-1, width)
    rows, columns = np.add.reduce(grid, 1, kind), np.add.reduce(grid, 0, kind)
    if rest:
        columns[:rest] += flat[-rest:]
        rows = np.append(rows, np.add.reduce(flat[-rest:], 0, kind))
    return rows, columns
