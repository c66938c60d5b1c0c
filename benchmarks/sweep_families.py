"""Wrappers and collections of torchmetrics over all of its metrics: two families of bugs that recur in its releases.

A wrapper that does not reset, copy or save what it wraps, and members of a collection that share one state.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from sweep_members import Member
from torchmetrics import Metric, MetricCollection
from torchmetrics.wrappers import (
    BinaryTargetTransformer,
    BootStrapper,
    ClasswiseWrapper,
    LambdaInputTransformer,
    MetricTracker,
    MinMaxMetric,
    MultioutputWrapper,
    MultitaskWrapper,
    Running,
)

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es
from pytest_evalcheck.expectations.comparison import Raised

EXTREMES = dict.fromkeys(("EC204", "EC205", "EC215", "EC220"), "the extremes are those of all values since it was made")
WINDOW = dict.fromkeys(("EC201", "EC202", "EC203", "EC208", "EC220"), "the window counts updates")
RESAMPLED = dict.fromkeys(("EC201", "EC203", "EC208", "EC215", "EC220"), "other batches are other resamples")
STEPS = {"EC209": "what was tracked before is in the state dict only after as many increments"}
CODES = ",".join(f"EC{number}" for number in (*range(201, 211), 213, 214, 215, 217, 219, 220))


@dataclass(frozen=True, kw_only=True)
class Wrapping:
    """One way to wrap a metric."""

    name: str
    make: Callable[[Callable[[], Any]], Any]
    """From what makes the metric to the wrapper."""
    fits: Callable[[Member], bool]
    inputs: Callable[[es.SampleStrategy], es.SampleStrategy] = lambda inputs: inputs
    value: Callable[[Callable[[Any], Any], Sequence[Any]], Any] | None = None
    """The value of the wrapper, from that of the metric for some samples."""
    by_design: dict[str, str] | None = None


def _pair(member: Member) -> tuple[Any, ...]:
    """Return what it is fed with, where that is two tensors by position."""
    inputs = member.inputs
    batch = inputs.collate(inputs.fixed(max(4, inputs.min_samples)))
    tensors = isinstance(batch, tuple) and len(batch) == 2 and all(isinstance(each, torch.Tensor) for each in batch)
    return batch if tensors else ()


def _is_scalar(member: Member) -> bool:
    value = member.value
    return isinstance(value, torch.Tensor) and value.numel() == 1


def _has_columns(member: Member) -> bool:
    return all(each.ndim == 1 for each in _pair(member)) and bool(_pair(member)) and _is_scalar(member)


def _columns(inputs: es.SampleStrategy) -> es.SampleStrategy:
    """Samples of two outputs: each column of a batch is a batch of these inputs."""
    from hypothesis import strategies as st

    def collate(rows: Sequence[Any]) -> tuple[Any, ...]:
        halves = [inputs.collate([row[i] for row in rows]) for i in range(2)]
        return tuple(torch.stack(parts, dim=-1) for parts in zip(*halves, strict=True))

    distinct = inputs.distinct and (lambda row: tuple(map(inputs.distinct, row)))  # type: ignore[arg-type]
    return es.samples(
        st.tuples(inputs.sample, inputs.sample), collate=collate, min_samples=inputs.min_samples, distinct=distinct
    )


class SeededBootStrapper(BootStrapper):
    """Every update draws its resamples with a seed, which is the number of the update."""

    def update(self, *arguments: Any, **keywords: Any) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.update_count)
            super().update(*arguments, **keywords)


def _identity(values: Any) -> Any:
    return values


def _tracked(make: Callable[[], Any]) -> Any:
    tracker = MetricTracker(make(), maximize=True)
    tracker.increment()
    return ec.Metric.of(tracker)


def _is_of_classes(member: Member) -> bool:
    """Return whether it has several values, as many for more samples: one for each class, and not for each sample."""
    value, more = member.value, member.value_of_more
    vectors = isinstance(value, torch.Tensor) and value.ndim == 1 and value.numel() > 1
    return vectors and isinstance(more, torch.Tensor) and more.shape == value.shape


def _by_class(value: Callable[[Any], Any], samples: Sequence[Any], name: str) -> dict[str, Any]:
    return {f"{name.lower()}_{i}": each for i, each in enumerate(value(samples))}


def _is_binary_recall(member: Member) -> bool:
    return bool(_pair(member)) and str(member.source).startswith("es.binary(") and _is_scalar(member)


def _any(member: Member) -> bool:
    return member.value is not None


WRAPPINGS = (
    Wrapping(
        name="MinMaxMetric",
        make=lambda make: MinMaxMetric(make()),
        fits=_is_scalar,
        value=lambda value, samples: dict.fromkeys(("raw", "max", "min"), value(samples)),
        by_design=EXTREMES,
    ),
    Wrapping(name="Running", make=lambda make: Running(make(), window=2), fits=_any, by_design=WINDOW),
    Wrapping(
        name="Running of all",  # a window that no case fills: the value is that of all samples
        make=lambda make: Running(make(), window=9),
        fits=_any,
        value=lambda value, samples: value(samples),
    ),
    Wrapping(name="ClasswiseWrapper", make=lambda make: ClasswiseWrapper(make()), fits=_is_of_classes),
    Wrapping(
        name="MultioutputWrapper",
        make=lambda make: MultioutputWrapper(make(), num_outputs=2, remove_nans=False),
        fits=_has_columns,
        inputs=_columns,
        value=lambda value, samples: torch.stack([value([row[i] for row in samples]) for i in range(2)]),
    ),
    Wrapping(
        name="MultitaskWrapper",
        make=lambda make: MultitaskWrapper({"one": make(), "other": make()}),
        fits=lambda member: bool(_pair(member)),
        inputs=lambda inputs: es.tasks({"one": inputs, "other": inputs}),
        value=lambda value, samples: {
            name: value([row[i] for row in samples]) for i, name in enumerate(("one", "other"))
        },
    ),
    Wrapping(
        name="MetricTracker", make=_tracked, fits=_any, value=lambda value, samples: value(samples), by_design=STEPS
    ),
    Wrapping(
        name="BootStrapper",
        make=lambda make: SeededBootStrapper(make(), num_bootstraps=2),
        fits=lambda member: bool(_pair(member)) and _is_scalar(member),
        by_design=RESAMPLED,
    ),
    Wrapping(
        name="LambdaInputTransformer",
        make=lambda make: LambdaInputTransformer(make(), _identity, _identity),
        fits=lambda member: bool(_pair(member)),
        value=lambda value, samples: value(samples),
    ),
    Wrapping(
        name="BinaryTargetTransformer",
        make=lambda make: BinaryTargetTransformer(make(), threshold=0.5),
        fits=_is_binary_recall,
        value=lambda value, samples: value(samples),
    ),
    Wrapping(
        name="CompositionalMetric",
        make=lambda make: make() * 2.0,
        fits=lambda member: isinstance(member.value, torch.Tensor),
        value=lambda value, samples: value(samples) * 2.0,
    ),
    Wrapping(name="MetricCollection", make=lambda make: MetricCollection({"one": make(), "other": make()}), fits=_any),
)


def alone(member: Member) -> ec.Target:
    """The member by itself: what it breaks is not the wrapper's."""
    return _target(member.construction, lambda: member.make(), member.inputs, dict.fromkeys(member.by_design, "member"))


def wrapped(found: Iterable[Member], chosen: Callable[[str], bool]) -> Iterator[tuple[str, Member, ec.Target]]:
    """Every member in every wrapper that takes it: the name of the wrapper, the member and the target."""
    for member, wrapping in itertools.product(found, WRAPPINGS):
        name = f"{wrapping.name}({member.construction})"
        if not chosen(name):
            continue
        try:
            if not wrapping.fits(member):
                continue
            wrapping.make(member.make)
            inputs = wrapping.inputs(member.inputs)
        except (ValueError, TypeError, AttributeError):  # the wrapper says that it does not take such a metric
            continue
        reference = partial(_referred, wrapping, member) if wrapping.value else None
        design = {**dict.fromkeys(member.by_design, "by design of the member"), **(wrapping.by_design or {})}
        yield wrapping.name, member, _target(name, partial(wrapping.make, member.make), inputs, design, reference)


def _referred(wrapping: Wrapping, member: Member, samples: Sequence[Any]) -> Any:
    def value(rows: Any) -> Any:
        made = member.make()
        batch = es.Arguments.of(member.inputs.collate(rows))
        made.update(*batch.args, **batch.kwargs)
        return made.compute()

    assert wrapping.value is not None
    try:
        return wrapping.value(value, samples)
    except Exception as error:  # what the metric refuses its wrapper refuses, too
        return Raised(error, "the metric")


def _target(
    name: str, make: Callable[[], Any], inputs: es.SampleStrategy, by_design: dict[str, str], reference: Any = None
) -> ec.Target:
    def factory() -> Any:
        return make()

    factory.__name__ = factory.__qualname__ = "".join(c if c.isalnum() else "_" for c in name)[:80].strip("_")
    return ec.metric(inputs=inputs, not_applicable=by_design, reference=reference, budget=None)(factory)


def _states(member: Member) -> tuple[Any, ...]:
    """Return what decides whether a collection may merge it with another: the names, types and shapes of its states."""
    made = member.make()
    if not isinstance(made, Metric) or not made._defaults:
        return ()
    batch = es.Arguments.of(member.inputs.collate(member.inputs.fixed(max(4, member.inputs.min_samples))))
    try:
        made.update(*batch.args, **batch.kwargs)
    except Exception:
        return ()
    parts = []
    for name in sorted(made._defaults):
        value = getattr(made, name)
        first = value[0] if isinstance(value, list) and value else value
        parts.append((name, type(value).__name__, tuple(getattr(first, "shape", ()))))
    return (member.source, *parts)


def pairs(
    found: Iterable[Member], chosen: Callable[[str], bool]
) -> Iterator[tuple[str, tuple[Member, Member], ec.Target]]:
    """Collections of two members of which the states look alike, so that their compute groups may be merged."""
    alike: dict[tuple[Any, ...], list[Member]] = {}
    for member in found:
        if states := _states(member):
            alike.setdefault(states, []).append(member)
    for group in alike.values():
        for one, other in itertools.combinations(group, 2):
            if chosen(f"{one.construction} and {other.construction}"):
                yield "pair", (one, other), together(one, other)


def together(one: Member, other: Member) -> ec.Target:
    """A collection of two members, fed with what the second one is fed with."""
    design = dict.fromkeys(one.by_design | other.by_design, "by design of a member")

    def make() -> Any:
        return MetricCollection({"one": one.make(), "other": other.make()})

    return _target(f"{one.construction} and {other.construction}", make, other.inputs, design)
