"""The record of a whole evaluation: the data that a loop evaluates, what it returns, and the loop as callables."""

from __future__ import annotations

import copy
import functools
import inspect
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_evalcheck.expectations.failures import NotApplicable
from pytest_evalcheck.kinds.common.intervals import Interval, require_intervals
from pytest_evalcheck.kinds.common.tensors import cast_floats
from pytest_evalcheck.strategies.samples import Sample

Numbers = Mapping[str, float]
Record = tuple[int, Mapping[str, Any]]
"""The id of a sample and its fields by name: its loss, its prediction, its label."""
Score = Callable[[Any, Any], Any]
"""``score(outputs, batch)`` returns a number per sample, as a tensor ``[rows]``, or ``(sums, counts)``, both
``[rows]``."""

BATCH_SIZES = (1, 2, 3, 4, 7, 64)
OPTIONS: dict[str, tuple[Any, ...]] = {
    "batch_size": BATCH_SIZES,
    "workers": (0, 1, 2),
    "num_workers": (0, 1, 2),
    "prefetch": (None, 1, 4),
    "prefetch_factor": (None, 1, 4),
    "pin_memory": (False, True),
    "iterable": (False, True),
    "sorted": (False, True),
    "persistent_workers": (False, True),
}
"""Values by the name of a parameter of ``evaluate`` that must not change the numbers. The first is the default."""
_CALLABLES = (
    "evaluate",
    "exact",
    "over_ranks",
    "on_rank",
    "train",
    "resume",
    "evaluate_part",
    "scored_with",
    "evaluators",
)
_NEED_WORKERS = ("prefetch", "prefetch_factor", "persistent_workers")


class SampleError(RuntimeError):
    """A sample could not be read, as from a corrupt file or over a lost connection."""


@dataclass(frozen=True)
class LoopData(Sequence[Any]):
    """Samples with their collate: ``data.loader(batch_size)`` is a torch ``DataLoader`` of their batches.

    ``data[i]`` is a sample as the inputs of the target draw it, and ``i`` its id. It is a map-style data set for torch,
    and can be pickled where its collate can.

    >>> data = LoopData([(1, (0.5,)), (0, (2.0,))], collate=list)
    >>> len(data), data[1], list(data.ids)
    (2, (0, (2.0,)), [0, 1])
    >>> data.failing(1)[1]
    Traceback (most recent call last):
      ...
    pytest_evalcheck.kinds.loop.record.SampleError: sample 1 of 2 cannot be read
    """

    samples: Sequence[Sample]
    collate: Callable[[Sequence[Sample]], Any]
    """Converts some samples into a batch, as the inputs of the target do."""
    broken: int | None = None
    """The index of a sample that cannot be read; None where all can."""

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        i = index.__index__()
        if not -len(self) <= i < len(self):
            raise IndexError(f"sample {i} of {len(self)}")
        i %= len(self)
        if i == self.broken:
            raise SampleError(f"sample {i} of {len(self)} cannot be read")
        return self.samples[i]

    def __iter__(self) -> Iterator[Sample]:
        return (self[i] for i in range(len(self)))

    @property
    def ids(self) -> range:
        """The ids of the samples in records: their indices in the data."""
        return range(len(self))

    def loader(self, batch_size: int = 2, *, workers: int = 0, iterable: bool = False, **options: Any) -> Any:
        """A new torch ``DataLoader`` of batches, as the collate creates them, in the order of the samples.

        Args:
            batch_size: how many samples a batch has; the last one may have fewer.
            workers: how many processes read the samples.
            iterable: whether it reads `stream`, which has no length.
            options: more arguments of ``DataLoader``, such as ``shuffle`` or ``pin_memory``.
        """
        from torch.utils.data import DataLoader

        source = self.stream() if iterable else self
        given = {"num_workers": workers, "collate_fn": self.collate, **options}
        return DataLoader(source, batch_size, **given)

    def stream(self, *, ids: bool = False) -> Any:
        """The same samples as a torch ``IterableDataset``, which has no length; each worker reads its own shard.

        With ``ids`` it yields ``(id, sample)``.
        """
        return _stream(self, ids)

    def failing(self, at: int) -> LoopData:
        """The same data, in which reading sample ``at`` raises `SampleError`."""
        return replace(self, broken=range(len(self))[at])


def _stream(data: LoopData, ids: bool) -> Any:
    return _stream_type()(data, ids)


@functools.cache
def _stream_type() -> Any:
    """The type of streams. A function defines it, since its base class needs torch."""
    from torch.utils.data import IterableDataset, get_worker_info

    class Stream(IterableDataset[Any]):  # type: ignore[misc]
        def __init__(self, data: LoopData, ids: bool) -> None:
            self.data, self.ids = data, ids

        def __iter__(self) -> Iterator[Any]:
            worker = get_worker_info()
            first, step = (worker.id, worker.num_workers) if worker else (0, 1)
            for i in range(first, len(self.data), step):
                yield (i, self.data[i]) if self.ids else self.data[i]

        def __reduce__(self) -> Any:  # pickle finds the function by its name, but not a class inside it
            return _stream, (self.data, self.ids)

    return Stream


@dataclass(frozen=True)
class Evaluated:
    """The numbers of one evaluation and, where a loop offers them, a record of every sample that it counted."""

    numbers: Mapping[str, Any]
    """Numbers by name; a tensor or an array of no dimension is one too."""
    records: Iterable[Record] | None = None
    """``(id, {name: value})`` of every sample that was counted, in the loop's order, as often as it was counted. The id
    is the index of the sample in the data. None where the loop offers no records."""


@dataclass(frozen=True, kw_only=True)
class Loop:
    """A whole evaluation of a data set, as callables. Only ``evaluate`` is needed.

    Checks of what is left out are reported as not applicable, e.g. EC507 without ``retries``.
    """

    evaluate: Callable[..., Any]
    """``evaluate(data, batch_size=2, **options)`` evaluates a `LoopData` and returns an `Evaluated`, or a mapping of
    numbers by name."""
    options: Mapping[str, Sequence[Any]] | None = None
    """Values by the name of a keyword of ``evaluate`` that must not change the numbers, the default first. None:
    those of `OPTIONS` that the signature of ``evaluate`` names."""
    exact: Callable[[LoopData], Numbers] | None = None
    """``exact(data)`` returns the correct numbers: one sample at a time in float64, without the framework. It need not
    name all of them. The ``reference`` of the target does the same where no model is needed."""
    over_ranks: Callable[..., Sequence[Any]] | None = None
    """``over_ranks(data, ranks, batch_size=2)`` evaluates over that many ranks in this process and returns the result
    of each rank; None for a rank that reports nothing."""
    on_rank: Callable[..., Any] | None = None
    """``on_rank(data, batch_size=2)``, called in every process of a ``torch.distributed`` group, returns the result of
    this rank; None where it reports nothing."""
    train: Callable[[LoopData, Callable[[], None]], Any] | None = None
    """``train(data, between)`` trains for a few steps, calls ``between()`` once in the middle, and returns the outcome
    of training: losses, the order of samples, parameters."""
    resume: Callable[[], Any] | None = None
    """``resume()`` does what training does by itself before the next step after an evaluation: ``model.train``, or a
    function that also clears gradients. What it puts right is no fault of the evaluation; without ``train`` alone."""
    model: Any = None
    """The ``torch.nn.Module`` that is evaluated; its modes, parameters, buffers, gradients and outputs are watched."""
    optimizer: Any = None
    """An evaluation must not change its state."""
    retries: bool = False
    """True if a batch is evaluated again, perhaps in parts, after an out-of-memory error."""
    evaluate_part: Callable[..., Any] | None = None
    """``evaluate_part(data, state, batches, batch_size=2, **options)`` evaluates from a saved state, in a new process.

    ``state`` is None at the beginning. It stops after so many batches, and returns the new state, which can be pickled;
    with ``batches=None`` it goes on to the end, and returns the result of the whole evaluation."""
    scored_with: Callable[..., Any] | None = None
    """``scored_with(function, data, batch_size=2)`` evaluates with ``function`` in place of the loop's metric function:
    it is called with whatever the loop gives its own, and returns a number."""
    buffers: int | None = None
    """Number of buffers that the fastest loader fills in turn: a batch is overwritten when so many others were
    read. None where every batch has memory of its own."""
    evaluators: Callable[..., Mapping[str, Any]] | None = None
    """``evaluators({"first": data, "second": other}, order=("second", "first"), batch_size=2)`` returns the results of
    several evaluations in one run, by name."""
    agree: Mapping[str, Callable[[Numbers], float]] = field(default_factory=dict)
    """Functions by the name of a number: each computes the same quantity from others of these numbers."""
    intervals: Sequence[Interval] = ()
    """Numbers that have an error or an interval among the numbers."""
    variants: Mapping[str, Any] = field(default_factory=dict)
    """Optimised configurations that need this object; others are a keyword of the decorator."""
    source: Any = None
    """The object behind the callables."""

    def __post_init__(self) -> None:
        require_intervals(self)
        for name in _CALLABLES:
            value = getattr(self, name)
            if not callable(value) and (value is not None or name == "evaluate"):
                raise TypeError(f"{name}={value!r}; expected a function")
        for name, values in (self.options or {}).items():
            if isinstance(values, str) or not isinstance(values, Sequence) or not values:
                raise TypeError(f"options[{name!r}]={values!r}; expected a list of values, the default first")
        for name, function in self.agree.items():
            if not callable(function):
                raise TypeError(f"agree[{name!r}]={function!r}; expected a function of the numbers by name")
        if self.buffers is not None and (isinstance(self.buffers, bool) or self.buffers < 1):
            raise TypeError(f"buffers={self.buffers!r}; expected a number of at least 1, or None")
        if self.model is not None and not callable(getattr(self.model, "named_modules", None)):
            raise TypeError(f"model is {type(self.model).__name__}; expected a torch.nn.Module")

    @property
    def offered(self) -> dict[str, tuple[Any, ...]]:
        """The options by name, with their values."""
        if self.options is not None:
            return {name: tuple(values) for name, values in self.options.items()}
        try:
            parameters = inspect.signature(self.evaluate).parameters
        except (TypeError, ValueError):  # some callables have none
            return {}
        return {name: OPTIONS[name] for name in parameters if name in OPTIONS}

    def keywords(self, name: str, value: Any) -> dict[str, Any]:
        """The keywords that set one option, with the number of workers that torch's loader requires for it."""
        if name in _NEED_WORKERS and value:
            workers = next((option for option in ("workers", "num_workers") if option in self.offered), None)
            return {name: value, workers: 1} if workers else {}
        return {name: value}

    @classmethod
    def of(
        cls,
        model: Any,
        *,
        loss: Score | None = None,
        metrics: Mapping[str, Score] | None = None,
        forward: Callable[[Any, Any], Any] | None = None,
        **more: Any,
    ) -> Loop:
        """The record of a bare ``torch.nn.Module``, evaluated by the reference loop of this module.

        ``loss(outputs, batch)``, and each of ``metrics`` by its name, returns a number per sample as a tensor
        ``[rows]``, or ``(sums, counts)``, both ``[rows]``, where a sample counts as often as it has tokens.
        ``forward(model, batch)`` returns the outputs; by default the model is called with those fields of a batch that
        its ``forward`` names.
        """
        scores = {**({} if loss is None else {"loss": loss}), **(metrics or {})}
        if not scores or not all(map(callable, scores.values())):
            raise TypeError(f"loss={loss!r}, metrics={metrics!r}; expected functions of outputs and a batch")
        loop = ReferenceLoop(model, scores, forward or call_model)
        return cls(**{"evaluate": loop.evaluate, "exact": loop.exact, "model": model, "source": model, **more})

    @classmethod
    def from_stream(cls, make: Callable[..., Any], *, ids: Callable[[Any], Iterable[int]] = list, **more: Any) -> Loop:
        """The record of a stream of data whose place can be saved: ``state_dict()`` and ``load_state_dict(state)``.

        ``make(data, batch_size=2, **options)`` returns a new stream of batches, such as a ``StatefulDataLoader``;
        options are those of `OPTIONS` that it names. ``ids(batch)`` returns the ids of the samples of a batch. The
        numbers are how many samples came, and a checksum of them.
        """
        stream = SavedStream(make, ids)
        names = [name for name in inspect.signature(make).parameters if name in OPTIONS]
        options = {name: OPTIONS[name] for name in names}
        known = {"evaluate": stream.evaluate, "evaluate_part": stream.evaluate_part, "options": options, "source": make}
        return cls(**{**known, "exact": lambda data: stream.numbers(data, data.ids), **more})

    def contents(self) -> dict[str, Any]:
        """Return what nobody may change in a loop that is only copied."""
        return dict(getattr(self.source, "__dict__", {}))


@dataclass(frozen=True)
class SavedStream:
    """A stream of batches that is read to its end, or in parts by its state."""

    make: Callable[..., Any]
    ids: Callable[[Any], Iterable[int]]

    def evaluate(self, data: LoopData, **options: Any) -> Evaluated:
        """The numbers and ids of all samples that come."""
        found = [int(sample) for batch in self.make(data, **options) for sample in self.ids(batch)]
        return self.result(data, found)

    def evaluate_part(self, data: LoopData, state: Any, batches: int | None, **options: Any) -> Any:
        """Go on from a state: the ids so far, that of the stream, and whether the stream has ended."""
        found, saved, ended = state or ([], None, False)
        if not ended:
            stream = self.make(data, **options)
            if not all(callable(getattr(stream, name, None)) for name in ("state_dict", "load_state_dict")):
                raise NotApplicable(
                    f"the stream is of type {type(stream).__name__}, which has no state_dict() and load_state_dict(): "
                    "nothing can be resumed; torch's DataLoader has none, torchdata's StatefulDataLoader has both"
                )
            if saved is not None:
                stream.load_state_dict(saved)
            iterator, left = iter(stream) if batches != 0 else iter(()), batches
            while left != 0 and not ended:
                batch = next(iterator, _END)
                ended = batch is _END
                found = found if ended else [*found, *map(int, self.ids(batch))]
                left = None if left is None else left - 1
            saved = stream.state_dict()
        return self.result(data, found) if batches is None else (found, saved, ended)

    def result(self, data: LoopData, found: Sequence[int]) -> Evaluated:
        """The numbers of the samples with these ids, and the ids as records."""
        return Evaluated(self.numbers(data, found), [(sample, {}) for sample in found])

    @staticmethod
    def numbers(data: LoopData, found: Iterable[int]) -> Numbers:
        """The number of samples, and a checksum of them in any order."""
        sums = [zlib.crc32(repr(data.samples[i]).encode()) if i in data.ids else 0 for i in found]
        return {"samples": len(sums), "checksum": sum(sums)}


_END = object()


@dataclass(frozen=True)
class ReferenceLoop:
    """A loop over a bare module in one pass, with sums and counts, which restores the modes of the model."""

    model: Any
    scores: Mapping[str, Score]
    forward: Callable[[Any, Any], Any]
    """``forward(model, batch)`` returns the outputs."""

    def evaluate(self, data: LoopData, batch_size: int = 2, workers: int = 0, pin_memory: bool = False) -> Evaluated:
        """The mean of every score over all that counts, and the share of every sample in it."""
        import torch
        from torch.utils.data import DataLoader

        # With a generator of its own the loader draws no seed from the one that training uses.
        loader = DataLoader(
            data,
            batch_size=batch_size,
            num_workers=workers,
            pin_memory=pin_memory,
            collate_fn=data.collate,
            generator=torch.Generator(),
        )
        records: list[dict[str, float]] = []
        sums, counts = dict.fromkeys(self.scores, 0.0), dict.fromkeys(self.scores, 0.0)
        with evaluating(self.model):
            for batch in loader:
                outputs, columns = self.forward(self.model, batch), {}
                for name, score in self.scores.items():
                    result = score(outputs, batch)
                    pair = result if isinstance(result, tuple) else (result, [1.0] * len(result))
                    added, counted = ([float(value) for value in column] for column in pair)
                    sums[name] += sum(added)
                    counts[name] += sum(counted)
                    columns[name] = [a / c if c else 0.0 for a, c in zip(added, counted, strict=True)]
                records += [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        numbers = {name: sums[name] / counts[name] if counts[name] else float("nan") for name in sums}
        return Evaluated(numbers, list(enumerate(records)))

    def exact(self, data: LoopData) -> Numbers:
        """The same numbers one sample at a time, in float64."""
        import torch

        double = replace(self, model=copy.deepcopy(self.model).double())
        doubled = replace(data, collate=lambda rows: cast_floats(data.collate(rows), torch.float64))
        return dict(double.evaluate(doubled, batch_size=1).numbers)


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Set every submodule to eval mode, without gradients, and restore the mode of each afterwards."""
    import torch

    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode


def call_model(model: Any, batch: Any) -> Any:
    """The outputs for a batch; of a mapping the model is called with the fields that its ``forward`` names."""
    if not isinstance(batch, Mapping):
        return model(*batch)
    parameters = inspect.signature(model.forward).parameters
    every = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    return model(**{name: value for name, value in batch.items() if every or name in parameters})
