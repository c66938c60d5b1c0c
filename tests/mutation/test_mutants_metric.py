"""The subject of metrics, method by method, with a metric that tells what it was given."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es
from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import NotApplicable, TargetError
from pytest_evalcheck.kinds.metric.checks_precision import _changed_dtypes, _resolution
from pytest_evalcheck.kinds.metric.checks_state import _malformed
from pytest_evalcheck.kinds.metric.subject import LiveMetric, MetricSubject
from pytest_evalcheck.strategies import Arguments, Bulk


class Total:
    """A sum that refuses negative numbers."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self.forgotten = 0

    def update(self, value: Any) -> None:
        if float(value.sum()) < 0:
            raise ValueError("negative")
        self.values += value.tolist()

    def compute(self) -> float:
        return sum(self.values)

    def forward(self, value: Any) -> float:
        self.update(value)
        return float(value.sum())

    def reset(self) -> None:
        self.values = []

    def state_dict(self) -> dict[str, Any]:
        return {"values": self.values}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.values = list(state["values"])

    def absorb(self, other: Total) -> None:
        self.values += other.values


def subject(**more: Any) -> MetricSubject:
    reference = more.pop("reference", None)
    build = lambda: ec.Metric.of(Total(), **more)  # noqa: E731
    return MetricSubject(build=build, inputs=es.values(), reference=reference)


def test_every_process_computes_its_value() -> None:
    def over_all() -> float:
        return 7.0

    assert subject(synchronised=over_all).on_processes([[[1.0]], [[2.0]]]) == [7.0, 7.0]
    with pytest.raises(NotApplicable, match="does not synchronise over processes"):
        subject().on_processes([[[1.0]]])


class TestLiveMetric:
    def test_an_error_is_the_value_from_then_on(self) -> None:
        live = subject().fresh().update([1.0, 2.0], [3.0])
        assert (live.compute(), live.failed) == (6.0, None)
        live.update([-1.0], [5.0])
        assert isinstance(live.compute(), Raised)
        assert live.record.source.values == [1.0, 2.0, 3.0]
        live.reset()
        assert live.compute() == 0

    def test_a_refusal_that_is_tried_is_not_recorded(self) -> None:
        live = subject().fresh()
        assert isinstance(live.try_update(Arguments((torch.tensor([-1.0]),))), Raised)
        assert live.try_update(Arguments((torch.tensor([1.0]),))) is None
        assert live.compute() == 1.0

    def test_forward_gives_the_value_of_its_batch(self) -> None:
        live = subject().fresh()
        assert (live.forward([1.0]), live.forward([2.0, 3.0]), live.compute()) == (1.0, 5.0, 6.0)
        assert isinstance(live.forward([-1.0]), Raised)
        assert isinstance(live.forward([1.0]), Raised)
        assert live.record.source.values == [1.0, 2.0, 3.0]

    def test_a_cache_is_dropped_where_there_is_one(self) -> None:
        calls: list[int] = []
        live = subject(forget=lambda: calls.append(1)).fresh()
        live.forget()
        subject().fresh().forget()
        assert calls == [1]

    def test_copies_go_on_alone(self) -> None:
        live = subject().fresh().update([1.0])
        for method in ("deepcopy", "pickle", "state_dict"):
            copied = live.copy_by(method).update([2.0])
            assert (copied.compute(), live.compute()) == (3.0, 1.0)
        failed = subject().fresh().update([-1.0])
        assert isinstance(failed.copy_by("deepcopy").compute(), Raised)
        broken = subject(copies={"none": lambda: 1 / 0}).fresh().copy_by("none")
        assert isinstance(broken.compute(), Raised)

    def test_what_it_does_not_offer_is_not_applicable(self) -> None:
        live: LiveMetric = subject(reset=None, forward=None, state=None).fresh()
        for call in (live.reset, lambda: live.forward([1.0])):
            with pytest.raises(NotApplicable, match=r"the metric offers no (reset|forward)"):
                call()
        assert live.state() == {}
        assert subject().fresh().update([1.0]).state() == {"values": [1.0]}


class TestMetricOf:
    @pytest.mark.parametrize(
        ("names", "text"),
        [
            (("update",), "has no method compute;"),
            (("compute",), "has no method update;"),
            ((), "no method update and no compute;"),
        ],
    )
    def test_update_and_compute_are_needed(self, names: tuple[str, ...], text: str) -> None:
        made = type("Half", (), {name: lambda self: None for name in names})()
        with pytest.raises(TypeError, match=text):
            ec.Metric.of(made)

    def test_what_the_object_has_is_offered(self) -> None:
        record = ec.Metric.of(Total(), merge="absorb")
        assert list(record.copies) == ["deepcopy", "pickle"]
        assert None not in (record.save, record.load)
        assert list(record.merges) == ["absorb"]
        assert (record.to, record.device) == (None, None)
        without = ec.Metric.of(type("Least", (), {"update": lambda self: None, "compute": lambda self: 1.0})())
        assert (list(without.copies), dict(without.merges), without.reset) == (["deepcopy", "pickle"], {}, None)
        assert (without.save, without.load) == (None, None)


class TestSubject:
    @pytest.mark.parametrize("early", [False, True])
    def test_ranks_are_merged_and_left_as_they_are(self, early: bool) -> None:
        made = subject(merge="absorb")
        shards = [[[1.0], [2.0]], [[4.0]], [[8.0], [16.0], [32.0]]]
        assert made.merged("absorb", shards, merge_early=early) == 63.0
        assert isinstance(made.merged("absorb", [[[1.0]], [[-1.0]]], merge_early=early), Raised)

    def test_methods_that_are_missing_are_not_applicable(self) -> None:
        with pytest.raises(NotApplicable, match="no way to merge"):
            _ = subject().merges
        assert subject(merge="absorb").merges == ("absorb",)
        assert subject().copies == ("deepcopy", "pickle", "state_dict")
        with pytest.raises(NotApplicable, match="no way to copy"):
            _ = subject(copies={}, save=None).copies
        with pytest.raises(NotApplicable, match="does not synchronise"):
            subject().on_processes([[[1.0]], [[2.0]]])

    def test_many_samples_come_in_batches_of_a_size(self) -> None:
        batches = list(subject().in_batches(subject().bulk_rows(Bulk(seed=0, rows=10)), 4))
        assert [len(batch.args[0]) for batch in batches] == [4, 4, 2]
        rows = [float(value) for batch in batches for value in batch.args[0]]
        bulk = es.values().bulk
        assert bulk is not None
        assert rows == pytest.approx(list(bulk(Bulk(seed=0, rows=10))))

    def test_errors_of_the_description_are_errors_of_the_target(self) -> None:
        with pytest.raises(TargetError, match="the collate raised an error"):
            subject().arguments(["text"])
        with pytest.raises(TargetError, match="the reference of the target raised an error"):
            subject(reference=lambda rows: rows[9]).reference_value([1.0])
        with pytest.raises(NotApplicable, match="no reference"):
            subject().reference_value([1.0])
        assert subject(reference=sum).reference_value([1.0, 2.0]) == 3.0

    def test_values_and_their_warnings(self) -> None:
        class Warns(Total):
            def compute(self) -> float:
                warnings.warn("a NaN was left out", stacklevel=1)
                warnings.warn("finance", stacklevel=1)
                return super().compute()

        made = MetricSubject(build=lambda: ec.Metric.of(Warns()), inputs=es.values())
        assert made.value_and_warnings([[1.0], [2.0]]) == (3.0, ["a NaN was left out"])
        assert subject().plain_result([1.0, 2.0]) == subject().value([[1.0], [2.0]]) == 3.0


class TestMalformedArguments:
    def test_by_position(self) -> None:
        x, y = torch.tensor([1.0, 2.0]), torch.tensor([1, 0])
        found = _malformed(Arguments((x, y)))
        assert list(found) == ["unequal lengths", "another rank", "another type", "too few arguments"]
        assert [len(value) for value in found["unequal lengths"].args] == [1, 2]
        assert [tuple(value.shape) for value in found["another rank"].args] == [(1, 2, 1), (2,)]
        assert found["another type"].args[0] is x
        assert type(found["another type"].args[1]) is object
        assert len(found["too few arguments"].args) == 1
        assert found["too few arguments"].args[0] is x
        assert _malformed(Arguments((x, y, x)))["too few arguments"].args[1:] == (y,)

    def test_by_name(self) -> None:
        found = _malformed(Arguments((), {"preds": torch.ones(2), "target": torch.ones(2), "a": torch.ones(2)}))
        assert list(found["too few arguments"].kwargs) == ["preds", "target"]
        assert type(found["another type"].kwargs["a"]) is object
        assert len(found["unequal lengths"].kwargs["preds"]) == 1
        assert found["another rank"].kwargs["preds"].shape == (1, 2, 1)

    def test_one_argument_has_no_unequal_lengths(self) -> None:
        assert list(_malformed(Arguments((torch.ones(2),)))) == ["another rank", "another type", "too few arguments"]
        assert list(_malformed(Arguments((["a"], ["b"])))) == ["unequal lengths", "another type", "too few arguments"]
        assert _malformed(Arguments()) == {}


def test_dtypes_that_changed_are_named() -> None:
    before = {"a": torch.ones(1), "b": torch.ones(1), "n": 3}
    after = {"a": torch.ones(1), "b": torch.ones(1, dtype=torch.float16), "n": 4, "new": torch.ones(1)}
    assert _changed_dtypes(before, after) == ["b: torch.float32 became torch.float16"]


def test_the_resolution_is_that_of_the_coarsest_number() -> None:
    half, single = torch.ones(1, dtype=torch.float16), torch.ones(1)
    assert _resolution([single, {"x": half}]) == 2**-10
    assert _resolution(single) == 2**-23
    assert _resolution([torch.ones(1, dtype=torch.int64)]) == 0


def test_a_batch_that_is_refused_is_no_empty_batch() -> None:
    target = ec.metric(inputs=es.values())(_factory(Total))
    (cell,) = ec.run(target, select="EC202", effort="quick").cells
    assert cell.outcome == "passed", cell.failure


def test_a_value_that_is_kept_when_it_was_computed_once_is_found() -> None:
    class Keeps(Total):
        def compute(self) -> float:
            self.kept = getattr(self, "kept", None) or super().compute()
            return self.kept

    outcomes = []
    for made in (Keeps, Total):
        target = ec.metric(inputs=es.values(nonnegative=True))(_factory(made))
        (cell,) = ec.run(target, select="EC205", effort="quick").cells
        outcomes.append(cell.outcome)
    assert outcomes == ["failed", "passed"]


def _factory(made: type) -> Any:
    return lambda: ec.Metric.of(made())


@pytest.mark.parametrize("make", [np.asarray, lambda values: {"values": np.asarray(values)}])
def test_a_result_that_is_the_state_is_found_without_tensors(make: Any) -> None:
    class Shares(Total):
        def update(self, value: Any) -> None:
            super().update(value)
            self.shared = make(self.values)

        def compute(self) -> Any:
            return self.shared

    class Copies(Shares):
        def compute(self) -> Any:
            return copy.deepcopy(self.shared)

    outcomes = []
    for made in (Shares, Copies):
        target = ec.metric(inputs=es.values(nonnegative=True))(_factory(made))
        (cell,) = ec.run(target, select="EC219", effort="quick").cells
        outcomes.append(cell.outcome)
    assert outcomes == ["failed", "passed"]
