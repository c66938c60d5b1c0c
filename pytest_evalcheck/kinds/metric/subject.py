"""Subject of metrics: builds metrics and feeds them."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar

from pytest_evalcheck.expectations.call_log import OnEveryRank, called, pickled
from pytest_evalcheck.expectations.comparison import ABOUT_NONFINITE, EXACT, Raised, difference
from pytest_evalcheck.expectations.failures import NotApplicable, TargetError, note_value
from pytest_evalcheck.kinds.common.calling import attempt, is_clear_refusal
from pytest_evalcheck.kinds.common.combinations import annotations_of, listed_values
from pytest_evalcheck.kinds.common.process_ranks import on_processes
from pytest_evalcheck.kinds.common.subject import EstimatingSubject, Rows
from pytest_evalcheck.kinds.common.tensors import count_rows, detached, place
from pytest_evalcheck.kinds.device.subject import DeviceRun, DeviceSubject, Ending
from pytest_evalcheck.kinds.metric.cases import Long
from pytest_evalcheck.kinds.metric.declared import Undefined
from pytest_evalcheck.kinds.metric.record import Metric
from pytest_evalcheck.strategies.samples import Arguments, Bulk, Sample

_CONVERSIONS = {
    "long": "`.long()`, which gives int64",
    "float": "`.float()`, which gives float32",
    "tolist": "`.tolist()`",
    "numpy": "`.numpy()`",
}
"""Methods of tensors by which the arguments of a call may become what it takes."""
_ABOUT_CODE = (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ImportWarning, ResourceWarning)
"""Warnings that are about code, and not about data."""
_ORDINALS = ("first", "second", "third", "fourth", *["last"] * 8)


def _converted_like(value: Any, numbers: Sequence[float]) -> Any:
    """Numbers as a list, an array or a tensor, as ``value`` is one."""
    if hasattr(value, "new_tensor"):
        import torch

        return torch.tensor(numbers, dtype=torch.float32, device=value.device)
    if type(value).__module__ == "numpy":
        import numpy

        return numpy.array(numbers, dtype=numpy.float32)
    return [float(number) for number in numbers]


class LiveMetric:
    """One metric that is being fed. After an error its value is that error."""

    def __init__(self, record: Metric, subject: MetricSubject) -> None:
        self.record, self._subject = record, subject
        self.failed: Raised | None = None

    def update(self, *batches: Rows | Arguments) -> LiveMetric:
        """Feed batches, as samples or collated, up to the first error."""
        for batch in batches:
            if self.failed is None:
                self.failed = self.try_update(batch if isinstance(batch, Arguments) else self._subject.arguments(batch))
        return self

    def try_update(self, batch: Arguments) -> Raised | None:
        """Feed collated arguments; returns the error if they are refused, and does not record it."""
        result = attempt("update", self.record.update, *batch.args, **batch.kwargs)
        return result if isinstance(result, Raised) else None

    def take(self, batch: Arguments) -> Raised | None:
        """Feed collated arguments; the error if they are refused."""
        return self.try_update(batch)

    def endings(self, batch: Any, outputs: Any) -> Iterator[Ending]:
        """Return the one step after the batches: the value."""
        del batch, outputs
        yield Ending("compute()", self.record.compute)

    def forward(self, batch: Rows) -> Any:
        """Feed one batch and return its own value, or the first error."""
        if self.failed is not None:
            return self.failed
        result = self.try_forward(self._subject.arguments(batch))
        if isinstance(result, Raised):
            self.failed = result
        return result

    def try_forward(self, batch: Arguments) -> Any:
        """Feed collated arguments through ``forward``; returns its value or the error, and does not record that."""
        value = attempt("forward", self._required("forward"), *batch.args, **batch.kwargs)
        note_value(value)
        return value

    def compute(self) -> Any:
        """The value, or the first error."""
        value = self.failed or attempt("compute", self.record.compute)
        note_value(value)
        return value

    def reset(self) -> None:
        """Reset the metric, and drop a recorded error."""
        result = attempt("reset", self._required("reset"))
        self.failed = result if isinstance(result, Raised) else None

    def forget(self) -> None:
        """Drop the cache of ``compute``, where there is one."""
        if self.record.forget is not None:
            called(self.record.forget)

    def copy_by(self, method: str) -> LiveMetric:
        """A copy that continues from here; by ``state_dict``, a new metric that has loaded what this one saves."""
        result = attempt(method, self.record.copies.get(method, self._saved_and_loaded))
        live = LiveMetric(result if isinstance(result, Metric) else self.record, self._subject)
        live.failed = result if isinstance(result, Raised) else self.failed
        return live

    def _saved_and_loaded(self) -> Metric:
        # Into a new one: a copy would keep what the checkpoint leaves out.
        new = self._subject.build()
        assert self.record.save is not None
        assert new.load is not None
        called(new.load, pickled(called(self.record.save)))
        return new

    def load(self, other: LiveMetric) -> None:
        """Load a checkpoint of another one, which is pickled in between; what this one was fed is replaced.

        Raises:
            NotApplicable: where the metric has no checkpoint.
        """
        save, load = other.record.save, self.record.load
        if save is None or load is None:
            raise NotApplicable("the metric has no checkpoint")
        loaded = attempt("load", lambda: called(load, pickled(called(save))))
        self.failed = other.failed or (loaded if isinstance(loaded, Raised) else None)

    def state(self) -> dict[str, Any]:
        """The state by name; empty where the metric does not describe it."""
        return dict(called(self.record.state)) if self.record.state else {}

    def _required(self, name: str) -> Any:
        value = getattr(self.record, name)
        if value is None:
            raise NotApplicable(f"the metric offers no {name}")
        return value


@dataclass(frozen=True)
class MetricSubject(DeviceSubject, EstimatingSubject):
    """The metric under test: creates new ones and feeds them with samples."""

    kind: ClassVar[str] = "metric"

    build: Callable[..., Metric]
    undefined: Mapping[str, Undefined] = field(default_factory=dict)
    """Streams for which the metric has no value, by name."""
    symmetric: bool = False
    """True if predictions and targets may be exchanged."""
    options: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Values of the arguments of the factory, by name; none for those of the annotation."""

    def fresh(self) -> LiveMetric:
        """Return a new metric."""
        return LiveMetric(self.build(), self)

    def arguments(self, batch: Rows) -> Arguments:
        """The samples of a batch as the arguments of ``update``, on the device.

        Raises:
            TargetError: where the collate raises an error or returns something else.
        """
        try:
            collated = Arguments.of(self.inputs.collate(list(batch)))
        except Exception as error:
            raise TargetError(
                "the collate raised an error",
                actual=f"{type(error).__name__}: {error}"[:300],
                expected=f"a tuple or dict of arguments for {len(batch)} samples",
                cause="collate",
            ) from error
        return place(collated, self.device)

    def shorten(self, rows: Rows, kept: int) -> list[tuple[Arguments, Arguments]]:
        """The batch with the first ``kept`` rows of its predictions, or of each argument in turn.

        Beside each stand the same rows alone with the other arguments of other samples. Predictions are the arguments
        that a `wrong` one of the samples changes. A batch of one argument cannot be cut short.
        """
        whole, pairs = self.arguments(rows), self.arguments(rows[:kept])
        values, crossed = whole.by_place, self.arguments(rows[::-1][:kept]).by_place
        places = [place for place, value in values.items() if count_rows(value) == len(rows)]
        if len(places) < 2:
            return []
        predicted: list[int | str] = []
        if self.inputs.wrong is not None:
            wrong = self.arguments([self.inputs.wrong(row) for row in rows]).by_place
            predicted = [place for place in places if difference(values[place], wrong[place], EXACT) is not None]
        named = 0 < len(predicted) < len(places)
        return [
            (
                whole.replaced({place: values[place][:kept] for place in group}),
                pairs.replaced({place: crossed[place] for place in places if place not in group}),
            )
            for group in ([predicted] if named else [[place] for place in places])
        ]

    def require_accumulator(self) -> None:
        """Go on where the metric is given its batches.

        Raises:
            NotApplicable: where it is a function: batches are collected for it, however the samples are split.
        """
        if self.build().function is not None:
            raise NotApplicable("a function is called once, with all samples")

    def require_empty_batch(self) -> None:
        """Go on where a batch without samples can be written.

        Raises:
            NotApplicable: where arguments are lists of lists of numbers: an empty one has no columns.
        """
        collated = self.arguments(self.inputs.fixed(max(1, self.inputs.min_samples)))
        for value in (*collated.args, *collated.kwargs.values()):
            row = value[0] if isinstance(value, list) and value else None
            if isinstance(row, list) and row and not isinstance(row[0], str):
                raise NotApplicable(
                    "an empty list has no columns, so an empty batch cannot have the shape of the others"
                )

    def weighted(self, batch: Rows, weights: Sequence[float] | None) -> Arguments:
        """The arguments of a batch with one weight per sample in place of their own; with None without any.

        Raises:
            NotApplicable: where ``update`` takes no weights.
        """
        record, plain = self.build(), self.arguments(batch)
        if not record.weights:
            raise NotApplicable("update() takes no weights of samples")
        names = list(inspect.signature(record.update).parameters)
        at = names.index(record.weights) if record.weights in names else len(plain.args)
        args, kwargs = plain.args[:at], {name: v for name, v in plain.kwargs.items() if name != record.weights}
        if weights is not None:
            kwargs[record.weights] = _converted_like(next(iter((*args, *kwargs.values())), None), weights)
        return Arguments(args, kwargs)

    def plain_and_weighted(self, batch: Rows) -> list[Arguments]:
        """The arguments of a batch, and those with a weight of 2 for each sample where ``update`` takes weights."""
        weighs = self.build().weights and not self._refusal_of_weights
        return [self.arguments(batch), *([self.weighted(batch, [2] * len(batch))] if weighs else [])]

    def require_weights(self) -> None:
        """See that weights are taken.

        Raises:
            NotApplicable: where ``update`` takes no weights, or refuses them clearly: they are no weights of samples.
        """
        if self._refusal_of_weights:
            raise NotApplicable(self._refusal_of_weights)

    @cached_property
    def _refusal_of_weights(self) -> str:
        """Return the refusal of weights of 1, for samples that have a value without any, or ''."""
        rows = self.inputs.fixed(max(4, self.inputs.min_samples))
        value = self.value([self.weighted(rows, [1] * len(rows))])
        refused = isinstance(value, Raised) and is_clear_refusal(value.error)
        if not refused or isinstance(self.value([self.weighted(rows, None)]), Raised):
            return ""
        return f"weights of samples are refused: {value}"

    def value(self, batches: Sequence[Rows | Arguments]) -> Any:
        """The value of a new metric after these batches, or the error."""
        return self.fresh().update(*batches).compute()

    def plain_result(self, rows: Rows) -> Any:
        """The value of a new metric after one batch, or the error; two are built, as every check builds several."""
        self.build()
        return self.value([rows])

    def estimates(self, rows: Rows, size: int | None = None) -> Any:
        """The value of a new metric after batches of ``size``, or after one batch; or the error."""
        step = size or max(1, len(rows))
        return self.value([rows[start : start + step] for start in range(0, len(rows), step)])

    def remedies(self, rows: Rows) -> Iterator[tuple[str, Callable[[], Any]]]:
        """Other orders, containers and dtypes of the arguments."""
        collated = self.arguments(rows)
        args, kwargs = collated.args, dict(collated.kwargs)

        def value(*changed: Any, **named: Any) -> Any:
            return self.fresh().update(Arguments(changed, named)).compute()

        if len(args) == 2:
            yield "exchange the two arguments: `return targets, predictions`", partial(value, *args[::-1])
        if args or kwargs:
            for name, text in _CONVERSIONS.items():
                changed = [getattr(a, name)() if hasattr(a, name) else a for a in args]
                named = {key: getattr(a, name)() if hasattr(a, name) else a for key, a in kwargs.items()}
                yield f"convert the arguments: {text}", partial(value, *changed, **named)
            for index in range(len(args)) if len(args) > 1 else ():
                for name, text in _CONVERSIONS.items():
                    if hasattr(args[index], name):
                        changed = [getattr(a, name)() if i == index else a for i, a in enumerate(args)]
                        yield f"convert the {_ORDINALS[index]} argument: {text}", partial(value, *changed, **kwargs)
        if len(args) == 1 and isinstance(args[0], (tuple, list)):
            yield "return the arguments themselves, not one tuple of them in a tuple", partial(value, *args[0])
        if kwargs:
            yield "return a tuple: the arguments by position", partial(value, *kwargs.values())
        one = Metric.of(self.build(), one_sample=True)
        text = "feed it with one sample a call: `ec.Metric.of(metric, one_sample=True)`"
        yield text, lambda: LiveMetric(one, self).update(collated).compute()

    def value_and_warnings(self, batches: Sequence[Rows]) -> tuple[Any, list[str]]:
        """The value, and the texts of the warnings about numbers that are not finite."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            value = self.value(batches)
        texts = [str(warning.message) for warning in caught]
        return value, [text for text in texts if re.search(ABOUT_NONFINITE, text, re.I)]

    def value_and_all_warnings(self, batches: Sequence[Rows], **options: Any) -> tuple[Any, list[str]]:
        """The value of a new metric, and the texts of the warnings of its `update` and `compute` about anything."""
        live = LiveMetric(self.build(**options), self)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            value = live.update(*batches).compute()
        return value, [str(warning.message) for warning in caught if not issubclass(warning.category, _ABOUT_CODE)]

    def reference_value(self, samples: Rows) -> Any:
        """The value that the reference of the target computes for these samples.

        Raises:
            TargetError: where the reference raises an error.
        """
        if self.reference is None:
            raise NotApplicable("the target names no reference")
        try:
            return self.reference(list(samples))
        except Exception as error:
            raise TargetError(
                "the reference of the target raised an error", actual=repr(error), cause="reference"
            ) from error

    def bulk_rows(self, bulk: Bulk) -> Sequence[Sample]:
        """The samples of a distribution, drawn."""
        assert self.inputs.bulk is not None
        return self.inputs.bulk(bulk)

    def in_batches(self, rows: Sequence[Sample], size: int) -> Iterator[Arguments]:
        """Samples in batches of ``size``, collated."""
        for start in range(0, len(rows), size):
            yield self.arguments(rows[start : start + size])

    def long_stream(self, case: Long) -> Iterator[tuple[Arguments, Arguments]]:
        """The batches of a long stream, each with one of the same shape whose numbers are of the size 1.

        Where there is no ``bulk``, the numbers are those of groups.
        """
        small = replace(case.bulk, scale=1.0)
        if self.inputs.bulk is not None:
            both = (self.in_batches(self.bulk_rows(bulk), case.rows) for bulk in (case.bulk, small))
            yield from zip(*both, strict=True)
            return
        rows, numbered = self.inputs.fixed(max(case.rows, self.inputs.min_samples)), self.inputs.numbered
        large = rows if numbered is None else [numbered(row, round(case.scale)) for row in rows]
        for _ in range(case.batches):
            yield self.arguments(large), self.arguments(rows)

    @cached_property
    def option_values(self) -> dict[str, tuple[Any, ...]]:
        """The values of each option of the target; where it lists none, those that the annotation of the class lists.

        Raises:
            TargetError: where no such annotation is found.
        """
        known = annotations_of(type(self.build().source))
        found = {name: tuple(values) or listed_values(known.get(name)) for name, values in self.options.items()}
        for name in [name for name, values in found.items() if not values]:
            raise TargetError(
                f"the annotation of {name} lists no values",
                actual=f"options={{{name!r}: ...}}",
                expected=f"options={{{name!r}: (...)}}, with its values",
                cause="options",
            )
        return found

    @property
    def merges(self) -> tuple[str, ...]:
        """The names of the merge methods."""
        methods = tuple(self.build().merges)
        if not methods:
            raise NotApplicable("the metric offers no way to merge")
        return methods

    @property
    def copies(self) -> tuple[str, ...]:
        """The names of the copy methods."""
        record = self.build()
        saves = record.save is not None and record.load is not None
        methods = tuple(dict.fromkeys([*record.copies, *(["state_dict"] if saves else [])]))
        if not methods:
            raise NotApplicable("the metric offers no way to copy it")
        return methods

    def merged(
        self, method: str, shards: Sequence[Sequence[Rows]], *, merge_early: bool = False, ask_first: bool = False
    ) -> Any:
        """The value after every rank was fed its batches and all were merged.

        With ``merge_early`` the ranks are also merged after the first batch of each, and that value is dropped; with
        ``ask_first`` every rank is asked for its own value before, which is dropped as well.
        """
        ranks = [self.fresh() for _ in shards]
        if merge_early:
            for rank, batches in zip(ranks, shards, strict=True):
                rank.update(*batches[:1])
            self._merge(method, ranks)
        for rank, batches in zip(ranks, shards, strict=True):
            rank.update(*batches[int(merge_early) :])
            if ask_first:
                rank.compute()
        return self._merge(method, ranks)

    def _merge(self, method: str, ranks: Sequence[LiveMetric]) -> Any:
        failed = next((rank.failed for rank in ranks if rank.failed), None)
        records = [rank.record for rank in ranks]
        merge, calls = records[0].merges[method], [each.synchronised for each in records if each.synchronised]
        if method in records[0].collective and len(calls) == len(records):
            merge = OnEveryRank(merge, calls)
        return failed or attempt(f"merging by {method}", merge, records)

    def on_processes(self, shards: Sequence[Sequence[Rows]]) -> Any:
        """The value on every rank, in real processes that were each fed a shard; or the first error."""
        if self.build().synchronised is None:
            raise NotApplicable("the metric does not synchronise over processes")

        def compute(batches: Sequence[Rows]) -> Any:
            live = self.fresh().update(*batches)
            if live.failed:
                raise live.failed.error
            assert live.record.synchronised is not None
            return detached(live.record.synchronised())

        return attempt("computing over processes", on_processes, [partial(compute, batches) for batches in shards])

    def members(self) -> dict[str, LiveMetric]:
        """New metrics, one per member of the collection."""
        members = self.build().members
        if members is None:
            raise NotApplicable("the metric is not a collection")
        return {name: LiveMetric(record, self) for name, record in members().items()}

    def built(self) -> LiveMetric:
        """Return a new metric."""
        return self.fresh()

    def scored(self, rows: Rows) -> Any:
        """Return the value of a new metric after one batch, or the error."""
        return self.value([rows])

    def tensor_inputs(self, rows: Rows) -> Arguments:
        """Return the arguments of a batch: a metric of texts has no devices."""
        return self.arguments(rows)

    def device_runs(self, rows: Rows) -> Iterator[DeviceRun]:
        """Return the one way to feed it: by ``update``."""
        on_cpu = self.on_device("cpu") if self.on_device is not None else None

        def batch(cpu: bool) -> Arguments | None:
            if not cpu:
                return self.arguments(rows)
            return None if on_cpu is None else on_cpu.arguments(rows)

        yield DeviceRun(
            name="update()",
            single="update() with",
            several="update() with batches",
            refused="the metric cannot be updated there",
            start=self.fresh,
            batch=batch,
            batches=2,
        )

    @property
    def with_float64(self) -> MetricSubject:
        """The same subject, or the one on the CPU where the device has no float64.

        Raises:
            NotApplicable: where the target cannot be built there.
        """
        if not self.device.startswith("mps"):
            return self
        if self.on_device is None:
            raise NotApplicable("its factory takes no device, and the device has no float64")
        return self.on_device("cpu")  # type: ignore[no-any-return]

    def widened(self) -> LiveMetric:
        """A new metric that accumulates in float64, where it can."""
        live = self.fresh()
        if live.record.widen is not None:
            called(live.record.widen)
        return live
