"""What a check may do with a metric: the record that describes one, and the subject that checks call."""

from __future__ import annotations

import copy
import pickle
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import NotApplicable
from pytest_evalcheck.kinds.common.calling import TargetError, attempt
from pytest_evalcheck.kinds.common.process_ranks import on_processes
from pytest_evalcheck.kinds.common.subject import Rows, Subject
from pytest_evalcheck.kinds.common.tensors import place
from pytest_evalcheck.kinds.common.values import detached
from pytest_evalcheck.kinds.metric.cases_precision import LowPrecision
from pytest_evalcheck.strategies.samples import Arguments


@dataclass(frozen=True, kw_only=True)
class Metric:
    """An accumulator over a stream, as callables. Only ``update`` and ``compute`` are needed.

    What is left out is reported as not applicable, e.g. EC203 without ``merges``.
    """

    update: Callable[..., Any]
    compute: Callable[[], Any]
    reset: Callable[[], Any] | None = None
    forward: Callable[..., Any] | None = None
    """Gives the value of the batch and accumulates it like ``update``."""
    merges: Mapping[str, Callable[[Sequence[Metric]], Any]] = field(default_factory=dict)
    """Ways to merge the metrics of several ranks: from their records to the merged value."""
    copies: Mapping[str, Callable[[], Metric]] = field(default_factory=dict)
    """Ways to copy a metric in mid-stream, e.g. ``{"pickle": ..., "state_dict": ...}``."""
    forget: Callable[[], Any] | None = None
    """Drops what ``compute`` has cached."""
    state: Callable[[], Mapping[str, Any]] | None = None
    """The state by name; tensors among it must keep their dtype."""
    members: Callable[[], Mapping[str, Metric]] | None = None
    """For a collection: new metrics, each giving alone what it gives as a member."""
    widen: Callable[[], Any] | None = None
    """Makes the state accumulate in float64, for the value that low precision inputs are held against."""
    synchronised: Callable[[], Any] | None = None
    """``compute`` over all processes of the default ``torch.distributed`` group."""
    to: Callable[[str], Any] | None = None
    """Moves the metric to a device, in place."""
    device: Callable[[], Any] | None = None
    """The device that the metric says it is on."""
    source: Any = None
    """The object behind the callables."""

    def contents(self) -> dict[str, Any]:
        """What nobody may change in a metric that is only copied."""
        return dict(self.state() if self.state else getattr(self.source, "__dict__", {}))

    @classmethod
    def of(cls, source: Any, *, merge: str | None = None, **more: Any) -> Metric:
        """The record of an object with ``update`` and ``compute`` methods.

        ``reset``, ``forward`` and ``state_dict``/``load_state_dict`` are taken where the object has them;
        ``merge`` names a method that takes another such object into this one.
        """
        missing = [name for name in ("update", "compute") if not callable(getattr(source, name, None))]
        if missing:
            raise TypeError(f"{type(source).__name__} has no method {' and no '.join(missing)}; a metric needs both")

        def again(made: Any) -> Metric:
            return cls.of(made, merge=merge, **more)

        def merged(ranks: Sequence[Metric]) -> Any:
            first = copy.deepcopy(ranks[0].source)
            for other in ranks[1:]:
                getattr(first, str(merge))(other.source)
            return first.compute()

        def through_state_dict() -> Metric:
            blank = copy.deepcopy(source)
            blank.reset()
            blank.load_state_dict(pickle.loads(pickle.dumps(source.state_dict())))
            return again(blank)

        writes_out = all(hasattr(source, name) for name in ("reset", "state_dict", "load_state_dict"))
        known: dict[str, Any] = {
            "reset": getattr(source, "reset", None),
            "forward": getattr(source, "forward", None),
            "merges": {merge: merged} if merge else {},
            "copies": {
                "deepcopy": lambda: again(copy.deepcopy(source)),
                "pickle": lambda: again(pickle.loads(pickle.dumps(source))),
                **({"state_dict": through_state_dict} if writes_out else {}),
            },
            "state": getattr(source, "state_dict", None),
            "to": getattr(source, "to", None),
            "device": (lambda: source.device) if hasattr(source, "device") else None,
        }
        return cls(update=source.update, compute=source.compute, source=source, **{**known, **more})


class LiveMetric:
    """One metric that is being fed. After an error it gives that error instead of a value."""

    def __init__(self, record: Metric, subject: MetricSubject) -> None:
        self.record, self._subject = record, subject
        self.failed: Raised | None = None

    def update(self, *batches: Rows) -> LiveMetric:
        """Feed batches of samples."""
        for batch in batches:
            if self.failed is None:
                self.failed = self.try_update(self._subject.arguments(batch))
        return self

    def try_update(self, batch: Arguments) -> Raised | None:
        """Feed collated arguments; gives the error if they are refused, and forgets it."""
        result = attempt("update", self.record.update, *batch.args, **batch.kwargs)
        return result if isinstance(result, Raised) else None

    def forward(self, batch: Rows) -> Any:
        """Feed one batch and give its own value."""
        if self.failed is None:
            arguments = self._subject.arguments(batch)
            result = self.try_forward(arguments)
            if isinstance(result, Raised):
                self.failed = result
            return result
        return self.failed

    def try_forward(self, batch: Arguments) -> Any:
        """Feed collated arguments through ``forward``; gives its value or the error, and forgets that."""
        return attempt("forward", self._offered("forward"), *batch.args, **batch.kwargs)

    def compute(self) -> Any:
        """The value, or the error on the way to it."""
        return self.failed or attempt("compute", self.record.compute)

    def reset(self) -> None:
        """Back to the start, errors included."""
        self.failed = None
        result = attempt("reset", self._offered("reset"))
        self.failed = result if isinstance(result, Raised) else None

    def forget(self) -> None:
        """Drop the cache of ``compute``, where there is one."""
        if self.record.forget is not None:
            self.record.forget()

    def copied(self, way: str) -> LiveMetric:
        """A copy that continues from here."""
        made = attempt(way, self.record.copies[way])
        live = LiveMetric(made if isinstance(made, Metric) else self.record, self._subject)
        live.failed = made if isinstance(made, Raised) else self.failed
        return live

    def state(self) -> dict[str, Any]:
        """The state by name."""
        return dict(self._offered("state")())

    def _offered(self, name: str) -> Callable[..., Any]:
        offered = getattr(self.record, name)
        if offered is None:
            raise NotApplicable(f"the metric offers no {name}")
        return offered  # type: ignore[no-any-return]


@dataclass(frozen=True)
class MetricSubject(Subject):
    """The metric under test: new ones on demand, fed with samples."""

    kind: ClassVar[str] = "metric"

    build: Callable[[], Metric]

    def fresh(self) -> LiveMetric:
        """A new metric."""
        return LiveMetric(self.build(), self)

    def arguments(self, batch: Rows) -> Arguments:
        """The samples of a batch as ``update`` takes them, on the device."""
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

    def value_and_warnings(self, batches: Sequence[Rows]) -> tuple[Any, list[str]]:
        """The value, and the texts of warnings that speak of numbers that are not finite."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            value = self.value(batches)
        texts = [str(warning.message) for warning in caught]
        return value, [text for text in texts if re.search(r"\b(nans?|inf|infinit\w*|non-?finite)\b", text, re.I)]

    def expected(self, samples: Rows) -> Any:
        """What the reference of the target says about these samples."""
        if self.reference is None:
            raise NotApplicable("the target names no reference")
        try:
            return self.reference(list(samples))
        except Exception as error:
            raise TargetError(
                "the reference of the target raised an error", actual=repr(error), cause="reference"
            ) from error

    def bulk_batches(self, case: LowPrecision) -> Iterator[Arguments]:
        """The batches of a distribution, collated."""
        assert self.inputs.bulk is not None
        rows = self.inputs.bulk(case.bulk)
        for start in range(0, len(rows), case.batch):
            yield self.arguments(rows[start : start + case.batch])

    @property
    def merges(self) -> tuple[str, ...]:
        """The ways to merge that are offered."""
        ways = tuple(self.build().merges)
        if not ways:
            raise NotApplicable("the metric offers no way to merge")
        return ways

    def merged(self, way: str, shards: Sequence[Sequence[Rows]], *, asked_before: bool = False) -> Any:
        """The value after every rank was fed its batches and all were merged.

        With ``asked_before`` the ranks are also merged after the first batch of each, and that value is dropped.
        """
        ranks = [self.fresh() for _ in shards]
        if asked_before:
            for rank, batches in zip(ranks, shards, strict=True):
                rank.update(*batches[:1])
            self._merge(way, ranks)
        for rank, batches in zip(ranks, shards, strict=True):
            rank.update(*(batches[1:] if asked_before else batches))
        return self._merge(way, ranks)

    def _merge(self, way: str, ranks: Sequence[LiveMetric]) -> Any:
        failed = next((rank.failed for rank in ranks if rank.failed), None)
        records = [rank.record for rank in ranks]
        return failed or attempt(f"merging by {way}", lambda: records[0].merges[way](records))

    def on_processes(self, shards: Sequence[Sequence[Rows]]) -> Any:
        """What every rank computes, in real processes that were each fed a shard; or the first error."""
        if self.build().synchronised is None:
            raise NotApplicable("the metric does not synchronise over processes")

        def rank(batches: Sequence[Rows]) -> Callable[[], Any]:
            def work() -> Any:
                live = self.fresh().update(*batches)
                if live.failed:
                    raise live.failed.error
                synchronised = live.record.synchronised
                assert synchronised is not None
                return detached(synchronised())

            return work

        return attempt("computing over processes", on_processes, [rank(batches) for batches in shards])

    @property
    def copies(self) -> tuple[str, ...]:
        """The ways to copy that are offered."""
        ways = tuple(self.build().copies)
        if not ways:
            raise NotApplicable("the metric offers no way to copy it")
        return ways

    def members(self) -> dict[str, LiveMetric]:
        """New metrics, each giving alone what it gives in the collection."""
        members = self.build().members
        if members is None:
            raise NotApplicable("the metric is not a collection")
        return {name: LiveMetric(record, self) for name, record in members().items()}

    @property
    def where_float64_is(self) -> MetricSubject:
        """The same on the CPU where the device has no float64.

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
