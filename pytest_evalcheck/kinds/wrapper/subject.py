"""What a check may do with a wrapper: the record that describes one, and the subject that checks call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import methodcaller
from typing import Any, ClassVar

from pytest_evalcheck.expectations.comparison import Raised, difference
from pytest_evalcheck.expectations.failures import NotApplicable
from pytest_evalcheck.kinds.common.calling import TargetError, attempt
from pytest_evalcheck.kinds.common.malformed import Spoiled, spoiled, without
from pytest_evalcheck.kinds.common.process_state import kept
from pytest_evalcheck.kinds.common.subject import Rows, Subject
from pytest_evalcheck.kinds.common.tensors import each_tensor
from pytest_evalcheck.kinds.wrapper.outputs import Padded, nothing_in, rowwise, scalars, settled
from pytest_evalcheck.kinds.wrapper.recording_metric import Probe
from pytest_evalcheck.strategies.containers import contained
from pytest_evalcheck.strategies.padding import Side

GIVEN = "what a metric is given"
"""The name of the probe among the metrics of a wrapper."""


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, kw_only=True)
class Wrapper:
    """What turns a batch into outputs and feeds metrics, as callables. Only ``forward`` is needed.

    What is left out is reported as not applicable, e.g. EC103 without ``update``.
    """

    forward: Callable[[Any], Any]
    """From a batch to outputs, as an evaluation loop calls it."""
    update: Callable[[Any, Any, Any], Any] | None = None
    """``update(batch, outputs, metric)`` feeds one metric."""
    metrics: Callable[[], Mapping[str, Any]] | None = None
    """New metrics by name, as ``update`` takes them; each has ``compute()``."""
    model: Any = None
    """The ``torch.nn.Module`` that evaluates, whose modes, parameters and buffers are borrowed."""
    modes: Mapping[str, Callable[[Any], Any]] = field(default_factory=lambda: {"": _same})
    """By name, what makes a batch one of this mode: ``{"generate": lambda batch: {**batch, "mode": "generate"}}``."""
    rows: Callable[[Any], Any] = _same
    """The part of the outputs that has one entry a row."""
    move: Callable[[Any, str], Any] | None = None
    """``move(batch, device)`` gives the batch on a device, as the loop around this wrapper does."""
    source: Any = None
    """The object behind the callables."""

    def contents(self) -> dict[str, Any]:
        """What nobody may change in a wrapper that is only copied."""
        return dict(self.model.state_dict() if self.model is not None else getattr(self.source, "__dict__", {}))

    @classmethod
    def of(cls, model: Any, *, loss: Callable[[Any, Any], Any] | None = None, **more: Any) -> Wrapper:
        """The record of a module and, where given, ``loss(outputs, labels)``, for batches ``(*inputs, labels)``.

        A mapping is given to the module by name, without its ``labels``. Outputs are ``{"outputs": ..., "loss": ...}``.
        """
        if not callable(getattr(model, "forward", None)) or not hasattr(model, "named_modules"):
            raise TypeError(f"{type(model).__name__} is no torch.nn.Module; describe it with ec.Wrapper(forward=...)")

        def parts(batch: Any) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
            if isinstance(batch, Mapping):
                return (), {name: value for name, value in batch.items() if name != "labels"}, batch.get("labels")
            *inputs, labels = batch
            return tuple(inputs), {}, labels

        def forward(batch: Any) -> Any:
            inputs, named, labels = parts(batch)
            outputs = model(*inputs, **named)
            return {"outputs": outputs, **({"loss": loss(outputs, labels)} if loss is not None else {})}

        def update(batch: Any, outputs: Any, metric: Any) -> Any:
            return metric.update(outputs["outputs"], parts(batch)[2])

        return cls(**{"forward": forward, "update": update, "model": model, "source": model, **more})


class LiveWrapper:
    """One wrapper that is being used. Errors are results; what a call leaves changed in the process is put back."""

    def __init__(self, record: Wrapper, device: str = "cpu") -> None:
        self.record, self._device = record, device
        if record.model is not None:
            record.model.eval()  # as every evaluation loop does first

    def forward(self, batch: Any) -> Any:
        """The outputs, or the error."""
        import torch

        with kept(), torch.no_grad():
            return attempt("forward", self.record.forward, batch)

    def rows(self, batch: Any, count: int) -> Any:
        """By path, those outputs that have one entry for each of ``count`` rows; or the error."""
        outputs = self.forward(batch)
        if isinstance(outputs, Raised):
            return outputs
        return rowwise(_described("rows()", self.record.rows, outputs), count)

    def fed(
        self, batch: Any, outputs: Any, *, only: str = "", times: int = 1, backwards: bool = False
    ) -> dict[str, Any]:
        """The values of new metrics that were fed with these outputs one after the other, ``times`` of each kind.

        A probe among them gives what it was fed with. Without a way to feed metrics there are none.
        """
        if self.record.update is None:
            return {}
        made = [(name, metric) for _ in range(times) for name, metric in self._metrics().items() if only in ("", name)]
        fed: dict[int, Any] = {}
        for place, (_, metric) in list(enumerate(made))[:: -1 if backwards else 1]:
            fed[place] = outputs if isinstance(outputs, Raised) else self.feed(batch, outputs, metric)
        values = {}
        for place, (name, metric) in enumerate(made):
            error = fed[place] if isinstance(fed[place], Raised) else None
            value = error or attempt("compute", methodcaller("compute"), metric)
            values[name if place < len(made) // times else f"another {name}"] = settled(value)
        return values

    def feed(self, batch: Any, outputs: Any, metric: Any) -> Any:
        """Feed one metric; gives what ``update`` does, or the error."""
        import torch

        assert self.record.update is not None
        with kept(), torch.no_grad():
            return attempt("update", self.record.update, batch, outputs, metric)

    def seen(self, batch: Any, *, between: Any = None) -> Any:
        """All that an evaluation sees of a batch: a copy of its outputs, and what metrics make of them; or the error.

        ``between`` is another batch, of which there is a forward before the metrics are fed.

        Raises:
            TargetError: where nothing is seen that could be compared.
        """
        outputs = self.forward(batch)
        if isinstance(outputs, Raised):
            return outputs
        given = settled(outputs)
        if between is not None:
            self.forward(between)
        fed = self.fed(batch, outputs)
        if nothing_in(given) and all(isinstance(value, Raised) for value in fed.values()):
            raise TargetError(
                "the outputs of forward hold no values",
                actual=str(given) if given is not None else "None (does it end without `return`?)",
                expected="tensors, arrays, numbers or texts, in mappings, lists, tuples or dataclasses",
                cause="outputs",
            )
        return {"outputs": given, **fed}

    def scores(self, batch: Any) -> dict[str, Any]:
        """The same without what a probe is given; where the forward raised an error, that is its outputs."""
        seen = self.seen(batch)
        return {"outputs": seen} if isinstance(seen, Raised) else {k: v for k, v in seen.items() if k != GIVEN}

    def _metrics(self) -> dict[str, Any]:
        return {GIVEN: Probe(self._device), **self.scored()}

    def scored(self) -> dict[str, Any]:
        """New metrics of the wrapper's own, by name."""
        asked = self.record.metrics
        made = {} if asked is None else _described("metrics()", lambda: dict(asked()))
        if self._device == "cpu":
            return made
        # Whoever feeds metrics brings them to the device first; what has no `to` says itself where it is.
        return {name: metric.to(self._device) if hasattr(metric, "to") else metric for name, metric in made.items()}


@dataclass(frozen=True)
class WrapperSubject(Subject):
    """The wrapper under test: new ones on demand, and the batches to give them."""

    kind: ClassVar[str] = "wrapper"

    build: Callable[[], Wrapper]

    def fresh(self) -> LiveWrapper:
        """A new wrapper, ready to evaluate."""
        return LiveWrapper(self.build(), self.device)

    @property
    def modes(self) -> tuple[str, ...]:
        """The names of its modes; an empty one for the usual."""
        return tuple(self.record.modes)

    def batch(self, rows: Rows, mode: str = "", *, container: str = "", onto: str = "", **layout: Any) -> Any:
        """A new batch of samples on the device, in a mode; ``layout`` is the ``side`` and ``widths`` of its padding.

        With ``onto`` it goes to that device in the end: a mode may ask the model, which stands on that of the subject.
        """
        made = self._collated(rows, layout.get("side"), layout.get("widths"))
        moved = made if self.device == "cpu" else each_tensor(made, lambda tensor: tensor.to(self.device))
        made = _described(f"the mode {mode!r}", self.record.modes[mode], moved)
        made = each_tensor(made, lambda tensor: tensor.to(onto)) if onto else made
        return contained(made, container or self.inputs.containers[0])

    def without_labels(self, rows: Rows, mode: str = "") -> Any:
        """A new batch that lacks the field of its labels.

        Raises:
            NotApplicable: where the wrapper feeds no metric, or its batches are no mappings.
        """
        batch = without(self.batch(rows, mode), self.inputs.labels)
        if batch is None or self.record.update is None:
            raise NotApplicable("its batches are no mappings" if batch is None else "the wrapper feeds no metric")
        return batch

    def spoiled(self, rows: Rows, mode: str, good: Mapping[str, Any]) -> list[Spoiled]:
        """New batches of these samples with a field missing or malformed; labels only where they are needed."""
        batch, fields = self.batch(rows, mode), self._collated(rows, None, None)
        lacking = without(batch, self.inputs.labels)
        unneeded = lacking is not None and not difference(self.fresh().scores(lacking), dict(good), self.tolerance)
        return [
            bad
            for bad in spoiled(batch, self.inputs.labels)
            if (bad.field in fields if bad.fault == "missing" else not unneeded)  # a mode may add fields of its own
        ]

    def through_padding(
        self, samples: Rows, mode: str, *, side: Side | None = None, extra: int = 0, blank: bool = False
    ) -> Padded | Raised:
        """What is seen of samples with ``extra`` columns of padding and perhaps a blank row; or the error."""
        padding, live = self.inputs.padding, self.fresh()
        assert padding is not None
        rows, widths = [*samples, *([padding.blank] if blank else [])], self.widths(samples, extra) or ()
        side = side or padding.sides[0]
        batch = self.batch(rows, mode, side=side, widths=widths)
        outputs = live.forward(batch)
        if isinstance(outputs, Raised):
            return outputs
        fed = {name: value for name, value in live.fed(batch, outputs).items() if name != GIVEN}
        entries = rowwise(_described("rows()", live.record.rows, outputs), len(rows))
        return Padded(rows=entries, batch={**scalars(outputs), **fed}, widths=widths, side=side)

    def unpadded(self, samples: Rows, seen: Padded | Raised, beside: Padded | Raised) -> Any:
        """What of it belongs to the samples, and the numbers and metrics of the batch; or the error."""
        if isinstance(seen, Raised) or isinstance(beside, Raised):
            return seen if isinstance(seen, Raised) else seen.batch
        lengths = self.inputs.padding and self.inputs.padding.lengths
        own = [seen.own(i, lengths(one) if lengths else None, beside) for i, one in enumerate(samples)]
        return {"rows": own, **seen.batch}

    def widths(self, rows: Rows, extra: int = 0) -> tuple[int, ...] | None:
        """The widths that hold these samples, and so many columns more; None where nothing is padded.

        No two are the same, so that outputs tell by their shape to which of them their positions belong.
        """
        if self.inputs.padding is None:
            return None
        chosen: list[int] = []
        for width in self.inputs.padding.widths(rows):
            wide = width + extra
            chosen.append(wide + 1 if wide in chosen else wide)
        return tuple(chosen)

    @cached_property
    def record(self) -> Wrapper:
        """What describes the wrapper, to be asked and not to be called."""
        return self.build()

    def _collated(self, rows: Rows, side: Side | None, widths: tuple[int, ...] | None) -> Any:
        padding = self.inputs.padding
        if padding is None or widths is None:
            return _described("the collate", self.inputs.collate, list(rows))
        return _described("the collate", padding.collate, list(rows), side or padding.sides[0], widths)


def _described(what: str, call: Callable[..., Any], *args: Any) -> Any:
    """What a callable gives that describes a target.

    Raises:
        TargetError: where it raises an error, which is none of the code under test.
    """
    try:
        return call(*args)
    except Exception as error:
        raise TargetError(
            f"{what} raised an error", actual=f"{type(error).__name__}: {error}"[:300], cause=what
        ) from error


def in_mode(mode: str) -> str:
    """`` (mode 'generate')``, or nothing for the usual mode."""
    return f" (mode {mode!r})" if mode else ""
