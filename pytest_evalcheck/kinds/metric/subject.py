"""What a check may do with a metric: the record that describes one, and the subject that checks call."""

from __future__ import annotations

import copy
import pickle
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import NotApplicable, TargetError, note_value
from pytest_evalcheck.kinds.common.calling import attempt
from pytest_evalcheck.kinds.common.process_ranks import on_processes
from pytest_evalcheck.kinds.common.subject import Rows, Subject
from pytest_evalcheck.kinds.common.tensors import detached, place
from pytest_evalcheck.strategies.samples import Arguments, Bulk

_CONVERSIONS = {
    "long": "`.long()`, which gives int64",
    "float": "`.float()`, which gives float32",
    "tolist": "`.tolist()`",
    "numpy": "`.numpy()`",
}
"""Methods of tensors by which the arguments of a call may become what it takes."""
_ORDINALS = ("first", "second", "third", "fourth", *["last"] * 8)


@dataclass(frozen=True, kw_only=True)
class Metric:
    """An accumulator over a stream, as callables. Only ``update`` and ``compute`` are required.

    A check that needs a field that is None is reported as not applicable, e.g. EC203 without ``merges``.
    """

    update: Callable[..., Any]
    compute: Callable[[], Any]
    reset: Callable[[], Any] | None = None
    forward: Callable[..., Any] | None = None
    """Returns the value of the batch and accumulates it like ``update``."""
    merges: Mapping[str, Callable[[Sequence[Metric]], Any]] = field(default_factory=dict)
    """By name, methods to merge the metrics of several ranks: from their records to the merged value."""
    copies: Mapping[str, Callable[[], Metric]] = field(default_factory=dict)
    """By name, methods to copy a metric mid-stream, e.g. ``{"pickle": ..., "state_dict": ...}``."""
    forget: Callable[[], Any] | None = None
    """Drops what ``compute`` has cached."""
    state: Callable[[], Mapping[str, Any]] | None = None
    """The state by name; its tensors must keep their dtype."""
    members: Callable[[], Mapping[str, Metric]] | None = None
    """For a collection: new metrics, one per member, each with the values that it has in the collection."""
    widen: Callable[[], Any] | None = None
    """Makes the state accumulate in float64, for the value that low precision inputs are compared with."""
    synchronised: Callable[[], Any] | None = None
    """``compute`` over all processes of the default ``torch.distributed`` group."""
    to: Callable[[str], Any] | None = None
    """Moves the metric to a device, in place."""
    device: Callable[[], Any] | None = None
    """The device that the metric reports."""
    source: Any = None
    """The object behind the callables."""

    def contents(self) -> dict[str, Any]:
        """The values that must not change in a metric of which only copies are used."""
        return dict(self.state() if self.state else getattr(self.source, "__dict__", {}))

    @classmethod
    def of(cls, source: Any, *, merge: str | None = None, **more: Any) -> Metric:
        """The record of an object with ``update`` and ``compute`` methods.

        ``reset``, ``forward`` and ``state_dict``/``load_state_dict`` are used where the object has them;
        ``merge`` names a method that merges another such object into this one.

        Raises:
            TypeError: where ``update`` or ``compute`` is missing.
        """
        missing = [name for name in ("update", "compute") if not callable(getattr(source, name, None))]
        if missing:
            raise TypeError(f"{type(source).__name__} has no method {' and no '.join(missing)}; a metric needs both")

        def record(other: Any) -> Metric:
            return cls.of(other, merge=merge, **more)

        def merged(ranks: Sequence[Metric]) -> Any:
            first = copy.deepcopy(ranks[0].source)
            for other in ranks[1:]:
                getattr(first, str(merge))(other.source)
            return first.compute()

        def through_state_dict() -> Metric:
            blank = copy.deepcopy(source)
            blank.reset()
            blank.load_state_dict(pickle.loads(pickle.dumps(source.state_dict())))
            return record(blank)

        has_state_dict = all(hasattr(source, name) for name in ("reset", "state_dict", "load_state_dict"))
        known: dict[str, Any] = {
            "reset": getattr(source, "reset", None),
            "forward": getattr(source, "forward", None),
            "merges": {merge: merged} if merge else {},
            "copies": {
                "deepcopy": lambda: record(copy.deepcopy(source)),
                "pickle": lambda: record(pickle.loads(pickle.dumps(source))),
                **({"state_dict": through_state_dict} if has_state_dict else {}),
            },
            "state": getattr(source, "state_dict", None),
            "to": getattr(source, "to", None),
            "device": (lambda: source.device) if hasattr(source, "device") else None,
        }
        return cls(update=source.update, compute=source.compute, source=source, **{**known, **more})


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
            self.record.forget()

    def copy_by(self, method: str) -> LiveMetric:
        """A copy that continues from here."""
        result = attempt(method, self.record.copies[method])
        live = LiveMetric(result if isinstance(result, Metric) else self.record, self._subject)
        live.failed = result if isinstance(result, Raised) else self.failed
        return live

    def state(self) -> dict[str, Any]:
        """The state by name; empty where the metric does not describe it."""
        return dict(self.record.state()) if self.record.state else {}

    def _required(self, name: str) -> Any:
        value = getattr(self.record, name)
        if value is None:
            raise NotApplicable(f"the metric offers no {name}")
        return value


@dataclass(frozen=True)
class MetricSubject(Subject):
    """The metric under test: creates new ones and feeds them with samples."""

    kind: ClassVar[str] = "metric"

    build: Callable[[], Metric]

    def fresh(self) -> LiveMetric:
        """A new metric."""
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

    def value(self, batches: Sequence[Rows]) -> Any:
        """The value of a new metric after these batches, or the error."""
        return self.fresh().update(*batches).compute()

    def plain_result(self, rows: Rows) -> Any:
        """The value of a new metric after one batch, or the error; two are built, as every check builds several."""
        self.build()
        return self.value([rows])

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

    def value_and_warnings(self, batches: Sequence[Rows]) -> tuple[Any, list[str]]:
        """The value, and the texts of the warnings about numbers that are not finite."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            value = self.value(batches)
        texts = [str(warning.message) for warning in caught]
        return value, [text for text in texts if re.search(r"\b(nans?|inf|infinit\w*|non-?finite)\b", text, re.I)]

    def expected(self, samples: Rows) -> Any:
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

    def bulk_batches(self, bulk: Bulk, size: int) -> Iterator[Arguments]:
        """The samples of a distribution in batches of ``size``, collated."""
        assert self.inputs.bulk is not None
        rows = self.inputs.bulk(bulk)
        for start in range(0, len(rows), size):
            yield self.arguments(rows[start : start + size])

    @property
    def merges(self) -> tuple[str, ...]:
        """The names of the merge methods."""
        return self._methods("merges", "the metric offers no way to merge")

    @property
    def copies(self) -> tuple[str, ...]:
        """The names of the copy methods."""
        return self._methods("copies", "the metric offers no way to copy it")

    def _methods(self, field_name: str, missing: str) -> tuple[str, ...]:
        methods = tuple(getattr(self.build(), field_name))
        if not methods:
            raise NotApplicable(missing)
        return methods

    def merged(self, method: str, shards: Sequence[Sequence[Rows]], *, merge_early: bool = False) -> Any:
        """The value after every rank was fed its batches and all were merged.

        With ``merge_early`` the ranks are also merged after the first batch of each, and that value is dropped.
        """
        ranks = [self.fresh() for _ in shards]
        if merge_early:
            for rank, batches in zip(ranks, shards, strict=True):
                rank.update(*batches[:1])
            self._merge(method, ranks)
        for rank, batches in zip(ranks, shards, strict=True):
            rank.update(*batches[int(merge_early) :])
        return self._merge(method, ranks)

    def _merge(self, method: str, ranks: Sequence[LiveMetric]) -> Any:
        failed = next((rank.failed for rank in ranks if rank.failed), None)
        records = [rank.record for rank in ranks]
        return failed or attempt(f"merging by {method}", lambda: records[0].merges[method](records))

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

    @property
    def with_float64(self) -> MetricSubject:
        """The same subject, or the one on the CPU where the device has no float64.

        Raises:
            NotApplicable: where the target cannot be built there.
        """
        if not self.device.startswith("mps"):
            return self
        if self.elsewhere is None:
            raise NotApplicable("its factory takes no device, and the device has no float64")
        return self.elsewhere("cpu")  # type: ignore[no-any-return]

    def widened(self) -> LiveMetric:
        """A new metric that accumulates in float64, where it can."""
        live = self.fresh()
        if live.record.widen is not None:
            live.record.widen()
        return live
