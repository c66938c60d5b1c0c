"""Wrappers: the record that describes one, and the subject that checks call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from operator import methodcaller
from typing import Any, ClassVar

from pytest_evalcheck.expectations.call_log import called
from pytest_evalcheck.expectations.comparison import Raised, difference
from pytest_evalcheck.expectations.failures import NotApplicable, TargetError, note_value
from pytest_evalcheck.expectations.ids import slug
from pytest_evalcheck.kinds.common.calling import attempt
from pytest_evalcheck.kinds.common.convention import Convention, require_conventions
from pytest_evalcheck.kinds.common.process_state import restored_settings
from pytest_evalcheck.kinds.common.subject import OrdinarySubject, Rows
from pytest_evalcheck.kinds.common.tensors import each_tensor
from pytest_evalcheck.kinds.device.subject import DeviceRun, DeviceSubject, Ending
from pytest_evalcheck.kinds.wrapper.label_scores import LabelScore
from pytest_evalcheck.kinds.wrapper.malformed import MalformedBatch, malformed_batches, without_field
from pytest_evalcheck.kinds.wrapper.outputs import (
    PaddedOutputs,
    RecordingMetric,
    has_no_values,
    plain_copy,
    rowwise,
    scalars,
)
from pytest_evalcheck.strategies.samples import Side, to_container

METRIC_INPUTS = "the inputs of a metric"
"""The name of a `RecordingMetric` among the metrics of a wrapper."""


def _identity(value: Any) -> Any:
    return value


@dataclass(frozen=True, kw_only=True)
class Wrapper:
    """A model that computes outputs from a batch and feeds metrics, as callables. Only ``forward`` is required.

    A check that needs a field that is None is reported as not applicable, e.g. EC103 without ``update``.
    """

    forward: Callable[[Any], Any]
    """From a batch to outputs, as an evaluation loop calls it."""
    update: Callable[[Any, Any, Any], Any] | None = None
    """``update(batch, outputs, metric)`` feeds one metric."""
    metrics: Callable[[], Mapping[str, Any]] | None = None
    """New metrics by name, as ``update`` takes them; each has ``compute()``."""
    model: Any = None
    """The ``torch.nn.Module`` that evaluates, whose modes, parameters and buffers must be restored."""
    modes: Mapping[str, Callable[[Any], Any]] = field(default_factory=lambda: {"": _identity})
    """Functions from a batch to one of a mode: ``{"generate": lambda batch: {**batch, "mode": "generate"}}``."""
    rows: Callable[[Any], Any] = _identity
    """The part of the outputs that has one entry per row."""
    batch_invariant: bool = False
    """True if a row is claimed to have the same bits in every batch, and not only the same numbers within rounding."""
    move: Callable[[Any, str], Any] | None = None
    """``move(batch, device)`` returns the batch on a device, as the loop around this wrapper does."""
    conventions: Mapping[str, Convention] = field(default_factory=dict)
    """Other documented ways to call it, by name: each must give the same outputs and values."""
    move_outputs: Callable[[Any, str], Any] | None = None
    """``move_outputs(outputs, device)`` returns the outputs on a device, as the loop around this wrapper does."""
    log_probabilities: Mapping[str, LabelScore] = field(default_factory=dict)
    """Ways in which it reports log-probabilities of labels, such as its loss, by name."""
    source: Any = None
    """The object behind the callables."""

    def __post_init__(self) -> None:
        require_conventions(self)
        for name, way in self.log_probabilities.items():
            if not isinstance(way, LabelScore):
                given = f"log_probabilities[{name!r}] is of type {type(way).__name__}"
                raise TypeError(f"{given}; expected an ec.LabelScore")

    def contents(self) -> dict[str, Any]:
        """The values that must not change in a wrapper of which only copies are used."""
        return dict(self.model.state_dict() if self.model is not None else getattr(self.source, "__dict__", {}))

    @classmethod
    def of(cls, model: Any, *, loss: Callable[[Any, Any], Any] | None = None, **more: Any) -> Wrapper:
        """The record of a module and, where given, ``loss(outputs, labels)``, for batches ``(*inputs, labels)``.

        A mapping is passed to the module by name, without ``labels``. Outputs are ``{"outputs": ..., "loss": ...}``.

        Raises:
            TypeError: where ``model`` is no module.
        """
        if not callable(getattr(model, "forward", None)) or not hasattr(model, "named_modules"):
            raise TypeError(f"{type(model).__name__} is not a torch.nn.Module; use ec.Wrapper(forward=...)")

        def parts(batch: Any) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
            if isinstance(batch, Mapping):
                return (), {name: value for name, value in batch.items() if name != "labels"}, batch.get("labels")
            *inputs, labels = batch
            return tuple(inputs), {}, labels

        def forward(batch: Any) -> Any:
            inputs, keywords, labels = parts(batch)
            outputs = model(*inputs, **keywords)
            return {"outputs": outputs, **({"loss": loss(outputs, labels)} if loss is not None else {})}

        def update(batch: Any, outputs: Any, metric: Any) -> Any:
            return metric.update(outputs["outputs"], parts(batch)[2])

        return cls(**{"forward": forward, "update": update, "model": model, "source": model, **more})


class LiveWrapper:
    """One wrapper in use. Errors are results; the settings of the process are restored after every call."""

    def __init__(self, record: Wrapper, device: str = "cpu") -> None:
        self.record, self._device = record, device
        if record.model is not None:
            called(record.model.eval)  # as every evaluation loop does first

    def forward(self, batch: Any) -> Any:
        """The outputs, or the error."""
        return _without_gradients("forward", self.record.forward, batch)

    def take(self, batch: Any) -> Any:
        """Return the outputs, or the error."""
        return self.forward(batch)

    def endings(self, batch: Any, outputs: Any) -> Iterator[Ending]:
        """Return the steps after a forward: each new metric is fed."""
        for name, metric in self.metrics().items() if self.record.update is not None else ():
            feed = partial(self.feed, batch, outputs, metric)
            yield Ending(f"feeding {name}", partial(methodcaller("compute"), metric), feed)

    def with_metrics_on(self, device: str) -> LiveWrapper:
        """Return the same wrapper with metrics on another device."""
        return LiveWrapper(self.record, device)

    def rows(self, batch: Any, count: int) -> Any:
        """Return the outputs that have one entry for each of ``count`` rows, by path, or the error."""
        outputs = self.forward(batch)
        if isinstance(outputs, Raised):
            return outputs
        return rowwise(_described("rows()", self.record.rows, outputs), count)

    def log_probabilities(self, name: str, batch: Any, outputs: Any) -> tuple[Any, Any] | None:
        """Return the log-probability of each label, NaN where it does not count, and the logits; None without any."""
        way = self.record.log_probabilities[name]
        predicted = _described("logits()", way.logits, batch, outputs)
        if predicted is None:
            return None
        logits, labels = predicted if isinstance(predicted, tuple) and len(predicted) == 2 else (None, predicted)
        return way.by_logits(logits, labels), plain_copy(logits)

    def reported(self, name: str, batch: Any, outputs: Any) -> Any:
        """Return the log-probabilities that it reports of the labels, or the error."""
        return _without_gradients("score", self.record.log_probabilities[name].score, batch, outputs)

    def metric_values(
        self, batch: Any, outputs: Any, *, only: str = "", times: int = 1, backwards: bool = False
    ) -> dict[str, Any]:
        """The values of new metrics that were fed with these outputs one after the other, ``times`` of each kind.

        One of them is a `RecordingMetric`. A wrapper without ``update`` has none.
        """
        if self.record.update is None:
            return {}
        metrics = [
            (name if time == 0 else f"{name} (repeated)", metric)
            for time in range(times)
            for name, metric in {METRIC_INPUTS: called(RecordingMetric, self._device), **self.metrics()}.items()
            if only in ("", name)
        ]
        errors: dict[str, Any] = {}
        for name, metric in metrics[:: -1 if backwards else 1]:
            result = outputs if isinstance(outputs, Raised) else self.feed(batch, outputs, metric)
            errors[name] = result if isinstance(result, Raised) else None
        return {name: plain_copy(errors[name] or attempt("compute", _compute, metric)) for name, metric in metrics}

    def feed(self, batch: Any, outputs: Any, metric: Any) -> Any:
        """Feed one metric; returns the result of ``update``, or the error."""
        assert self.record.update is not None
        return _without_gradients("update", self.record.update, batch, outputs, metric)

    def evaluate(self, batch: Any, *, between: Any = None) -> Any:
        """All results of a batch: a copy of its outputs, and the values of metrics; or the error.

        ``between`` is another batch: its forward is called before the metrics are fed.

        Raises:
            TargetError: where there is no value that could be compared.
        """
        outputs = self.forward(batch)
        if isinstance(outputs, Raised):
            return outputs
        copied = plain_copy(outputs)
        if between is not None:
            self.forward(between)
        values = self.metric_values(batch, outputs)
        if has_no_values(copied) and all(isinstance(value, Raised) for value in values.values()):
            raise TargetError(
                "the outputs of forward hold no values",
                actual=str(copied) if copied is not None else "None (does it end without `return`?)",
                expected="tensors, arrays, numbers or texts, in mappings, lists, tuples or dataclasses",
                cause="outputs",
            )
        note_value(copied)
        return {"outputs": copied, **values}

    def scores(self, batch: Any) -> dict[str, Any]:
        """The same without the recorded inputs; where the forward raised an error, that is its outputs."""
        results = self.evaluate(batch)
        return {"outputs": results} if isinstance(results, Raised) else _without_inputs(results)

    def metrics(self) -> dict[str, Any]:
        """New metrics of the wrapper's own, by name, on its device."""
        create = self.record.metrics
        metrics = {} if create is None else dict(_described("metrics()", create))
        if self._device == "cpu":
            return metrics
        # An evaluation loop moves its metrics to the device first; a metric without `to` chooses its own device.
        return {name: metric.to(self._device) if hasattr(metric, "to") else metric for name, metric in metrics.items()}


@dataclass(frozen=True)
class WrapperSubject(DeviceSubject, OrdinarySubject):
    """The wrapper under test: creates new ones, and batches for them."""

    kind: ClassVar[str] = "wrapper"
    feeds_metrics: ClassVar[bool] = True

    build: Callable[[], Wrapper]

    def fresh(self) -> LiveWrapper:
        """Return a new wrapper, in evaluation mode."""
        return LiveWrapper(self.build(), self.device)

    @property
    def modes(self) -> tuple[str, ...]:
        """The names of its modes; an empty one for the usual."""
        return tuple(self.record.modes)

    def batch(self, rows: Rows, mode: str = "", *, container: str = "", onto: str = "", **layout: Any) -> Any:
        """A new batch of samples on the device, in a mode; ``layout`` is the ``side`` and ``widths`` of its padding.

        With ``onto`` it is moved to that device at the end: the function of a mode may call the model, which is on the
        device of the subject.
        """
        collated = self._collated(rows, **layout)
        moved = collated if self.device == "cpu" else each_tensor(collated, lambda tensor: tensor.to(self.device))
        batch = _described(f"the mode {mode!r}", self.record.modes[mode], moved)
        batch = each_tensor(batch, lambda tensor: tensor.to(onto)) if onto else batch
        return to_container(batch, container or self.inputs.containers[0])

    def plain_result(self, rows: Rows) -> Any:
        """All results of a new wrapper for one batch, or the error."""
        return self.fresh().evaluate(self.batch(rows, self.modes[0]))

    def live_on(self, device: str) -> LiveWrapper:
        """Return the wrapper that `record` describes, which is not built again, with metrics on a device."""
        return LiveWrapper(self.record, device)

    def built(self) -> Wrapper:
        """Return the record, which is made once: other checks find what a forward leaves behind."""
        return self.record

    def scored(self, rows: Rows) -> Any:
        """Return the results of one batch by mode, or the first error."""
        live = self.live_on(self.device)
        results = {mode: live.evaluate(self.batch(rows, mode)) for mode in self.modes}
        errors = [result for result in results.values() if isinstance(result, Raised)]
        for result in results.values():
            errors += [] if isinstance(result, Raised) else [v for v in result.values() if isinstance(v, Raised)]
        return errors[0] if errors else results

    def device_runs(self, rows: Rows) -> Iterator[DeviceRun]:
        """Return the ways to call it: one forward for every mode."""
        live = self.live_on(self.device)

        def batch(mode: str, on_cpu: bool) -> Any:
            return self.batch(rows, mode, onto="cpu" if on_cpu else "")

        for mode in self.modes:
            yield DeviceRun(
                name="a forward",
                single="a forward of",
                several="a forward of a batch",
                refused="the forward is not possible there",
                start=lambda: live,
                batch=partial(batch, mode),
                plain=plain_copy,
            )

    def without_labels(self, rows: Rows, mode: str = "") -> Any:
        """A new batch without the field of its labels.

        Raises:
            NotApplicable: where the wrapper feeds no metric, or its batches are no mappings.
        """
        batch = without_field(self.batch(rows, mode), self.inputs.labels)
        if batch is None or self.record.update is None:
            raise NotApplicable("its batches are no mappings" if batch is None else "the wrapper feeds no metric")
        return batch

    def malformed(self, rows: Rows, mode: str, good: Mapping[str, Any]) -> list[MalformedBatch]:
        """New batches of these samples with a field missing or malformed; labels only where they are needed."""
        batch, fields = self.batch(rows, mode), self._collated(rows)
        unlabelled = without_field(batch, self.inputs.labels)
        needed = unlabelled is None or difference(self.fresh().scores(unlabelled), dict(good), self.tolerance)
        return [
            bad
            for bad in malformed_batches(batch, self.inputs.labels)
            if (bad.field in fields if bad.fault == "missing" else needed)  # a mode may add fields of its own
        ]

    def padded_outputs(
        self, samples: Rows, mode: str, *, side: Side | None = None, extra: int = 0, blank: bool = False
    ) -> PaddedOutputs | Raised:
        """The results for samples with ``extra`` columns of padding and optionally a blank row; or the error."""
        padding, live = self.inputs.padding, self.fresh()
        assert padding is not None
        rows, widths = [*samples, *([padding.blank] if blank else [])], self.widths(samples, extra) or ()
        side = side or padding.sides[0]
        batch = self.batch(rows, mode, side=side, widths=widths)
        outputs = live.forward(batch)
        if isinstance(outputs, Raised):
            return outputs
        values = _without_inputs(live.metric_values(batch, outputs))
        entries = rowwise(_described("rows()", live.record.rows, outputs), len(rows))
        return PaddedOutputs(rows=entries, batch={**scalars(outputs), **values}, widths=widths, side=side)

    def unpadded(self, samples: Rows, outputs: PaddedOutputs | Raised, other: PaddedOutputs | Raised) -> Any:
        """The parts of the outputs that belong to the samples, and the values of the whole batch; or the error."""
        if isinstance(outputs, Raised) or isinstance(other, Raised):
            return outputs if isinstance(outputs, Raised) else outputs.batch
        lengths = self.inputs.padding and self.inputs.padding.lengths
        rows = [outputs.unpadded(i, lengths(s) if lengths else None, other) for i, s in enumerate(samples)]
        return {"rows": rows, **outputs.batch}

    def widths(self, rows: Rows, extra: int = 0) -> tuple[int, ...] | None:
        """The widths that hold these samples, each with ``extra`` more columns; None where nothing is padded.

        The widths are distinct, so that the shape of an output shows to which of them its positions belong.
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
        """A description of the wrapper; its callables are not called."""
        return self.build()

    def _collated(self, rows: Rows, side: Side | None = None, widths: tuple[int, ...] | None = None) -> Any:
        padding = self.inputs.padding
        if padding is None or widths is None:
            return _described("the collate", self.inputs.collate, list(rows))
        return _described("the collate", padding.collate, list(rows), side or padding.sides[0], widths)


def _compute(metric: Any, /) -> Any:
    return called(metric.compute)


def _without_gradients(where: str, call: Callable[..., Any], *args: Any) -> Any:
    import torch

    with restored_settings(), torch.no_grad():
        return attempt(where, call, *args)


def _without_inputs(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != METRIC_INPUTS}


def _described(what: str, call: Callable[..., Any], *args: Any) -> Any:
    """The result of a callable that describes a target.

    Raises:
        TargetError: where it raises an error: the code under test is not the cause.
    """
    try:
        return called(call, *args)
    except Exception as error:
        raise TargetError(
            f"{what} raised an error", actual=f"{type(error).__name__}: {error}"[:300], cause=what
        ) from error


def in_mode(mode: str) -> str:
    """`` (mode 'generate')``, or nothing for the usual mode."""
    return f" (mode {mode!r})" if mode else ""


def mode_id(mode: str) -> str:
    """Return the part of an id that names a mode; nothing for the usual one."""
    return f"-mode-{slug(mode)}" if mode else ""
