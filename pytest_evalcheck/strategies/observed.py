"""Samples like those of an example: its own rows in new combinations, or arrays of its shapes and ranges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from pytest_evalcheck.strategies.samples import Sample, SampleStrategy

_DTYPES = ("float32", "float64", "int64", "bool")
_SEEDS = 8
"""Number of different arrays that are drawn: few enough that equal ones meet in one batch."""


def rows(*columns: Sequence[Any], dtypes: Sequence[str | None], mixed: bool = True) -> SampleStrategy:
    """The rows of an example, one column for each argument of ``update``, in new combinations.

    A dtype makes a tensor of a column, (N, ...) for N rows; None gives the rows as a list. ``mixed`` draws each column
    by itself, so that every prediction meets every target; without it only the rows of the example are drawn. Where
    the first two columns have the same dtype, a right prediction is the target.

    Raises:
        ValueError: where the columns have unequal lengths or one row alone, or a dtype is not known.

    >>> from pytest_evalcheck import strategies as es
    >>> es.rows([0.25, 0.75], [0, 1], dtypes=("float32", "int64")).collate([(0.75, 0)])
    (tensor([0.7500]), tensor([0]))
    """
    lengths = {len(column) for column in columns}
    if len(lengths) != 1 or lengths <= {0, 1}:
        raise ValueError(f"columns of {sorted(lengths)} rows; expected columns of one length, two rows or more")
    _check_dtypes(dtypes, len(columns))
    whole = [tuple(_plain(column[i]) for column in columns) for i in range(len(columns[0]))]
    apart = st.tuples(*(st.sampled_from([_plain(row) for row in column]) for column in columns))
    same = len(columns) > 1 and dtypes[0] == dtypes[1] and _shape(columns[0][0]) == _shape(columns[1][0])
    return SampleStrategy(
        name="rows of an example",
        sample=apart if mixed else st.sampled_from(whole),
        collate=lambda samples: tuple(
            _column([sample[i] for sample in samples], dtype, columns[i][0]) for i, dtype in enumerate(dtypes)
        ),
        right=(lambda sample: (sample[1], *sample[1:])) if same and mixed else None,
    )


def arrays(
    *shapes: tuple[int, ...],
    dtypes: Sequence[str],
    ranges: Sequence[tuple[float, float]],
) -> SampleStrategy:
    """Arrays of these shapes, (N, *shape) for each argument of ``update``, drawn by small seeds.

    A sample holds a seed for each argument, so that large arrays are cheap to draw and short to show. Numbers are
    uniform in the range; whole numbers include both ends. Where the first two arguments have the same shape, dtype and
    range, a right prediction is the target, and a wrong one is the array of another seed.

    Raises:
        ValueError: where there are not as many dtypes and ranges as shapes, or a dtype is not known.

    >>> from pytest_evalcheck import strategies as es
    >>> images = es.arrays((3, 16, 16), (3, 16, 16), dtypes=("float32",) * 2, ranges=((0, 1),) * 2)
    >>> [image.shape for image in images.collate([(0, 1), (2, 2)])]
    [torch.Size([2, 3, 16, 16]), torch.Size([2, 3, 16, 16])]
    """
    _check_dtypes(dtypes, len(shapes))
    if len(ranges) != len(shapes):
        raise ValueError(f"{len(ranges)} ranges for {len(shapes)} shapes; expected one for each")
    seed = st.integers(0, _SEEDS - 1)
    alike = len(shapes) > 1 and (shapes[0], dtypes[0], ranges[0]) == (shapes[1], dtypes[1], ranges[1])

    def collate(samples: Sequence[Sample]) -> tuple[Any, ...]:
        return tuple(
            _stacked([_array(sample[i], shape, dtype, span) for sample in samples], shape, dtype)
            for i, (shape, dtype, span) in enumerate(zip(shapes, dtypes, ranges, strict=True))
        )

    return SampleStrategy(
        name="arrays",
        sample=st.tuples(*[seed] * len(shapes)),
        collate=collate,
        right=(lambda sample: (sample[1], *sample[1:])) if alike else None,
        wrong=(lambda sample: ((sample[1] + 1) % _SEEDS, *sample[1:])) if alike else None,
        contrast=tuple((i,) * len(shapes) for i in range(4)) if alike else (),
    )


def _array(seed: int, shape: tuple[int, ...], dtype: str, span: tuple[float, float]) -> Any:
    import torch

    generator = torch.Generator().manual_seed(seed)
    low, high = span
    if dtype.startswith("float"):
        return low + (high - low) * torch.rand(shape, generator=generator, dtype=getattr(torch, dtype))
    return torch.randint(int(low), int(high) + 1, shape, generator=generator).to(getattr(torch, dtype))


def _stacked(made: Sequence[Any], shape: tuple[int, ...], dtype: str) -> Any:
    import torch

    return torch.stack(list(made)) if made else torch.zeros((0, *shape), dtype=getattr(torch, dtype))


def _column(values: Sequence[Any], dtype: str | None, like: Any) -> Any:
    if dtype is None:
        return [_unfrozen(value) for value in values]
    import torch

    made = torch.tensor(values, dtype=getattr(torch, dtype))
    return made if values else made.reshape(0, *_shape(like))


def _shape(row: Any) -> tuple[int, ...]:
    return (len(row), *(_shape(row[0]) if len(row) else ())) if isinstance(row, (list, tuple)) else ()


def _plain(row: Any) -> Sample:
    return tuple(map(_plain, row)) if isinstance(row, (list, tuple)) else row


def _unfrozen(row: Sample) -> Any:
    if isinstance(row, dict):
        return dict(row)
    return [_unfrozen(part) for part in row] if isinstance(row, tuple) else row


def _check_dtypes(dtypes: Sequence[str | None], count: int) -> None:
    unknown = [dtype for dtype in dtypes if dtype is not None and dtype not in _DTYPES]
    if unknown or len(dtypes) != count:
        raise ValueError(
            f"dtypes={tuple(dtypes)!r} for {count} arguments; expected one for each, of {', '.join(_DTYPES)} or None"
        )
