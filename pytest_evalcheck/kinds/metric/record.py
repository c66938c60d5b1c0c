"""The record that describes a metric: callables, and what else a check may use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pytest_evalcheck.kinds.common.convention import Convention, require_conventions
from pytest_evalcheck.kinds.common.intervals import Interval, require_intervals


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
    """Methods to merge the metrics of several ranks, by name: from their records to the merged value."""
    collective: frozenset[str] = frozenset()
    """Names of ``merges`` at which every rank computes: before one of them no rank can be asked alone."""
    copies: Mapping[str, Callable[[], Metric]] = field(default_factory=dict)
    """Methods to copy a metric mid-stream, by name, e.g. ``{"pickle": ..., "state_dict": ...}``."""
    save: Callable[[], Any] | None = None
    """Returns what a checkpoint holds of the metric, such as its state dict; it must survive pickling."""
    load: Callable[[Any], Any] | None = None
    """Restores what ``save`` returned. It is given to a new metric of the target, which was not fed."""
    forget: Callable[[], Any] | None = None
    """Drops what ``compute`` has cached."""
    state: Callable[[], Mapping[str, Any]] | None = None
    """The state by name; its tensors must keep their dtype."""
    members: Callable[[], Mapping[str, Metric]] | None = None
    """New metrics of a collection, one per member, each with the values that it has in the collection."""
    widen: Callable[[], Any] | None = None
    """Makes the state accumulate in float64, for the value that low precision inputs are compared with."""
    synchronised: Callable[[], Any] | None = None
    """``compute`` over all processes of the default ``torch.distributed`` group."""
    to: Callable[[str], Any] | None = None
    """Moves the metric to a device, in place."""
    device: Callable[[], Any] | None = None
    """The device that the metric reports."""
    weights: str = ""
    """The parameter of ``update`` that takes one weight per sample, such as ``sample_weight``; empty for none."""
    conventions: Mapping[str, Convention] = field(default_factory=dict)
    """Other documented ways to call it, by name: each must give the same value."""
    intervals: Sequence[Interval] = ()
    """Values in what ``compute`` returns that have an error or an interval."""
    function: Callable[..., Any] | None = None
    """The function of all samples that ``compute`` calls with the collected batches: it accumulates nothing itself."""
    source: Any = None
    """The object behind the callables."""
    stock: Any = None
    """The object of a library that an adapter has described: known faults of its class are not the author's. None for
    a record by hand, and where the author has replaced how values are computed."""
    changed: frozenset[str] = frozenset()
    """The callables of an adapter's record that the author has replaced (see ``of``)."""

    describe: ClassVar[Callable[..., Metric]]
    """The function behind ``of``, which the layer of adapters sets: it knows objects of libraries."""

    def __post_init__(self) -> None:
        require_conventions(self)
        require_intervals(self)

    def contents(self) -> dict[str, Any]:
        """The values that must not change in a metric of which only copies are used."""
        return dict(self.state() if self.state else getattr(self.source, "__dict__", {}))

    @classmethod
    def of(cls, source: Any, *, merge: str | None = None, one_sample: bool = False, **changes: Any) -> Metric:
        """The record of a metric object or function, with some callables changed.

        The record is that of the adapter for objects of known libraries. For any other object it is found by its
        methods: ``update`` and ``compute``, ``update_state`` and ``result``, a call and ``aggregate``; ``reset``,
        ``forward``, ``state_dict`` and ``load_state_dict``, ``merge_state`` or ``merge``, ``to`` and ``device`` are
        used where its class has them. A function is called once, with all samples.

        ``merge`` names a method that merges another such object, or several of them, into this one. With ``one_sample``
        its ``update`` takes one sample a call, and is called for each of a batch, with Python's numbers. ``changes``
        are fields of this class, which replace those of the record. A callable whose first parameter is named
        ``metric`` is given the object as that argument; then it works for copies of the object as well::

            ec.Metric.of(BinaryF1Score(), update=lambda metric, logits, target: metric.update(logits.sigmoid(), target))

        Where ``update``, ``forward``, ``reset`` or ``compute`` is replaced by a callable without such a parameter,
        copies are left out of the record, and merging where it is ``compute``: they would use the original.

        Raises:
            TypeError: where the object has no such methods, where ``changes`` has a name that is no field, or where the
                value of such a field is of another type.
        """
        return cls.describe(source, merge, one_sample, changes)
