"""Conclusions about metrics whose targets offer less, that have no score, or that name no wrong prediction."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import strategies as st

import pytest_evalcheck as ec
from fixtures.gallery.correct import Errors, MeanAbsoluteError, MeanSquaredError
from pytest_evalcheck import strategies as es
from pytest_evalcheck.expectations.comparison import Raised, is_no_score
from pytest_evalcheck.kinds.metric.cases import Rejected, Reordered

Pairs = list[tuple[int, int]]


class OfPairs:
    """A value of all pairs so far; a malformed batch is refused, before anything is kept unless ``careless``."""

    def __init__(self, value: Callable[[Pairs], Any], careless: bool) -> None:
        self.value, self.careless = value, careless
        self.preds: list[int] = []
        self.target: list[int] = []

    def update(self, preds: torch.Tensor, target: torch.Tensor) -> None:
        if not self.careless:
            self.require_pairs(preds, target)
        self.preds += preds.reshape(-1).tolist()
        self.require_pairs(preds, target)
        self.target += target.tolist()

    def require_pairs(self, preds: torch.Tensor, target: torch.Tensor) -> None:
        if preds.shape != target.shape or preds.ndim != 1:
            raise ValueError("expected pairs")

    def compute(self) -> Any:
        return self.value(list(zip(self.preds, self.target, strict=False)))


def metric(inputs: es.SampleStrategy, value: Callable[[Pairs], Any], *, careless: bool = False) -> ec.Target:
    @ec.metric(inputs=inputs)
    def target() -> ec.Metric:
        return ec.Metric.of(OfPairs(value, careless))

    return target


def cell_of(target: ec.Target, code: str, effort: str = "quick") -> ec.Cell:
    (cell,) = ec.run(target, select=code, effort=effort).cells
    return cell


def accuracy(pairs: Pairs) -> float:
    return sum(a == b for a, b in pairs) / len(pairs) if pairs else float("nan")


def strict_accuracy(pairs: Pairs) -> float:
    if not pairs:
        raise ValueError("nothing was counted")
    return accuracy(pairs)


LABELS = es.multiclass(classes=3)
OWN = es.samples(
    st.tuples(st.integers(0, 5), st.integers(0, 5)),
    collate=lambda rows: tuple(torch.tensor([row[i] for row in rows], dtype=torch.int64) for i in range(2)),
)
FAR = OWN.replace(sample=st.tuples(st.integers(0, 5), st.integers(6, 9)))


class TestWhatIsNotOffered:
    def test_a_metric_without_forward_is_tried_through_update(self) -> None:
        kept = cell_of(metric(LABELS, accuracy), "EC210")
        assert kept.outcome == "passed"
        assert kept.conditions["through update"]
        assert "through forward" not in kept.conditions  # what is not offered is not missing

    @pytest.mark.parametrize("seed", range(3))
    def test_a_loss_of_state_is_seen_without_forward(self, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("hypothesis.core.global_force_seed", seed)
        broken = cell_of(metric(LABELS, accuracy, careless=True), "EC210")
        assert broken.outcome == "failed"
        assert broken.failure is not None
        assert broken.failure.case is not None
        assert broken.failure.case["through"] == "update"

    def test_where_no_case_is_offered_the_check_is_not_applicable(self, monkeypatch: pytest.MonkeyPatch) -> None:
        through_forward = [case for case in Rejected.canonical(LABELS) if case.through == "forward"]
        monkeypatch.setattr(Rejected, "canonical", lambda inputs: through_forward)
        monkeypatch.setattr(Rejected, "strategy", lambda inputs: st.sampled_from(through_forward))
        cell = cell_of(metric(LABELS, accuracy), "EC210")
        assert (cell.outcome, cell.reason) == ("not applicable", "the metric offers no forward")


class TestUnequalLengths:
    PAIRS = es.samples(
        st.tuples(st.integers(0, 5), st.integers(0, 5)),
        collate=lambda rows: ([row[0] for row in rows], [row[1] for row in rows]),
    )

    @staticmethod
    def outcome(
        inputs: es.SampleStrategy,
        add: Callable[[Any, Any], list[float]],
        value: Callable[[list[float]], Any] = lambda values: sum(values) / len(values),
    ) -> tuple[str, str]:
        class Mean:
            def __init__(self) -> None:
                self.values: list[float] = []

            def update(self, preds: Any, target: Any) -> None:
                self.values += add(preds, target)

            def compute(self) -> Any:
                return value(self.values)

        @ec.metric(inputs=inputs)
        def target() -> ec.Metric:
            return ec.Metric.of(Mean())

        cell = cell_of(target, "EC241")
        return cell.outcome, cell.reason

    @staticmethod
    def paired(preds: Any, target: Any) -> list[float]:
        return [float(abs(p - t)) for p, t in zip(preds, target, strict=False)]

    def test_a_list_that_ends_early_is_seen(self) -> None:
        assert self.outcome(self.PAIRS, self.paired)[0] == "failed"
        assert self.outcome(self.PAIRS.replace(wrong=lambda row: (16, row[1])), self.paired)[0] == "failed"

    def test_a_value_with_an_entry_for_each_sample_shows_what_is_left_out(self) -> None:
        assert self.outcome(self.PAIRS, self.paired, lambda values: {"errors": values, "of": "pairs"}) == (
            "not applicable",
            "each sample has an entry of its own: one that is left out has none",
        )
        both = lambda values: {"errors": values, "mean": sum(values) / len(values)}  # noqa: E731
        assert self.outcome(self.PAIRS, self.paired, both)[0] == "failed"

    def test_a_loop_over_predictions_is_seen_where_the_samples_say_which_they_are(self) -> None:
        add = lambda preds, target: [float(abs(p - target[i])) for i, p in enumerate(preds)]  # noqa: E731
        assert self.outcome(self.PAIRS, add)[0] == "passed"  # it may be one that looks them up by a key
        assert self.outcome(self.PAIRS.replace(wrong=lambda row: (16, row[1])), add)[0] == "failed"

    def test_what_counts_as_missing_is_kept(self) -> None:
        def add(preds: Any, target: Any) -> list[float]:
            return [float(abs(preds[i] - t)) if i < len(preds) else 5.0 for i, t in enumerate(target)]

        assert self.outcome(self.PAIRS.replace(wrong=lambda row: (16, row[1])), add)[0] == "passed"
        assert self.outcome(self.PAIRS, add)[0] == "passed"

    def test_what_asks_for_no_reference_is_not_judged(self) -> None:
        named = self.PAIRS.replace(wrong=lambda row: (16, row[1]))
        assert self.outcome(named, lambda preds, target: [float(p) for p in preds])[0] == "not applicable"

    def test_one_argument_cannot_be_cut(self) -> None:
        one = es.samples(st.integers(0, 5), collate=lambda rows: (list(rows), None))
        shown = self.outcome(one, lambda preds, target: [float(p) for p in preds])
        assert shown == ("not applicable", "the batch has one argument with rows")


class TestNoScore:
    IGNORING = es.binary(of="labels", ignore_index=-1)

    @pytest.mark.parametrize("value", [accuracy, strict_accuracy])
    def test_everything_ignored_has_no_score(self, value: Callable[[Pairs], Any]) -> None:
        counted = lambda pairs: value([pair for pair in pairs if pair[1] != -1])  # noqa: E731
        assert cell_of(metric(self.IGNORING, counted), "EC213").outcome == "passed"

    def test_nan_beside_an_error_is_no_score_of_nothing(self) -> None:
        def value(pairs: Pairs) -> float:
            counted = [pair for pair in pairs if pair[1] != -1]
            return strict_accuracy(counted) if counted or not pairs else float("nan")

        assert cell_of(metric(self.IGNORING, value), "EC213").outcome == "passed"

    def test_a_number_of_nothing_is_a_score(self) -> None:
        def value(pairs: Pairs) -> float:
            counted = [pair for pair in pairs if pair[1] != -1]
            return accuracy(counted) if counted or not pairs else 0.5

        cell = cell_of(metric(self.IGNORING, value), "EC213")
        assert cell.outcome == "failed"
        assert cell.failure is not None
        assert cell.failure.actual == "0.5"

    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            (Raised(ValueError("nothing"), "compute"), True),
            (float("nan"), True),
            (torch.tensor(float("nan")), True),
            (torch.tensor([float("nan")] * 2), True),
            ({"a": float("nan"), "b": torch.tensor(float("nan"))}, True),
            (torch.tensor([float("nan"), 1.0]), False),
            ({"a": float("nan"), "b": 0}, False),
            ({}, False),
            ([], False),
            (0.0, False),
            (float("inf"), False),
            (None, False),
        ],
    )
    def test_an_error_and_nan_alone_are_no_score(self, value: Any, expected: bool) -> None:
        assert is_no_score(value) is expected


class TestControlWithoutWrongPredictions:
    def test_values_that_differ_keep_the_promise(self) -> None:
        assert cell_of(metric(OWN, lambda pairs: sum(a for a, _ in pairs)), "EC218").outcome == "passed"

    def test_a_constant_is_told_with_what_to_declare(self) -> None:
        cell = cell_of(metric(OWN, lambda pairs: 0.5), "EC218")
        assert cell.outcome == "not applicable"
        assert "name a wrong prediction and a contrast: samples(..., wrong=..., contrast=...)" in cell.reason

    def test_a_metric_that_is_0_for_whatever_is_drawn_is_not_blamed(self) -> None:
        assert cell_of(metric(FAR, accuracy), "EC218").outcome == "not applicable"

    def test_an_error_for_some_samples_is_no_other_value(self) -> None:
        def value(pairs: Pairs) -> float:
            if len(pairs) % 2:
                raise ValueError("an odd number")
            return 0.5

        assert cell_of(metric(OWN, value), "EC218").outcome == "not applicable"

    def test_a_constant_is_broken_where_wrong_predictions_are_named(self) -> None:
        named = OWN.replace(
            wrong=lambda row: (row[1] + 1, row[1]), right=lambda row: (row[1], row[1]), contrast=((1, 1),)
        )
        assert cell_of(metric(named, lambda pairs: 0.5), "EC218").outcome == "failed"
        assert cell_of(metric(named, accuracy), "EC218").outcome == "passed"


class TestOrders:
    """Each of the two orders shows a bug that the other one does not."""

    def test_canonical_cases_hold_each_alone_and_both(self) -> None:
        within, between = "samples that move in their batch", "batches that move"
        moved, ties = Reordered.canonical(LABELS)[:3], Reordered.canonical(LABELS)[3:]
        assert [case.conditions - {"a tie"} for case in moved] == [{between}, {within}, {within, between}]
        assert len(ties) == 3
        assert all("a tie" in case.conditions for case in ties)

    def test_both_are_drawn(self) -> None:
        from hypothesis import find, settings

        quiet = settings(max_examples=2000, database=None)
        strategy = Reordered.strategy(LABELS)
        for condition in ("samples that move in their batch", "batches that move"):
            only = {condition}
            alone = find(strategy, lambda case, only=only: case.conditions - {"a tie"} == only, settings=quiet)
            assert alone.order != alone.batches


class TestInfinities:
    """An infinity is a number where a large one has the same value, and is dropped in silence where it has not."""

    @pytest.mark.parametrize(
        ("value", "outcome"),
        [
            (lambda found: found.max(), "passed"),
            (lambda found: found[found.isfinite()].sum(), "failed"),
            (lambda found: found[~found.isnan()].max(), "failed"),
            (lambda found: found.square().nan_to_num(nan=math.nan, posinf=0.0).sum(), "failed"),
        ],
    )
    def test_what_an_infinity_does(self, value: Callable[[torch.Tensor], torch.Tensor], outcome: str) -> None:
        def reduced(values: torch.Tensor) -> torch.Tensor:
            return value(values)

        @ec.metric(inputs=es.values())
        def target() -> Any:
            return reduced

        assert cell_of(target, "EC216", "normal").outcome == outcome


def test_a_dtype_may_be_refused_when_the_value_is_computed() -> None:
    def difference(preds: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return (preds - target).abs().mean()  # there is no mean of integers

    @ec.metric(inputs=es.regression())
    def target() -> Any:
        return difference

    assert cell_of(target, "EC212", "normal").outcome == "passed"


def attempted(member: Any) -> Any:
    try:
        return member.compute()
    except ValueError as error:
        return error


class NeedsPairs(MeanAbsoluteError):
    """Score of two clusters, say, that is not defined for all samples."""

    def compute(self) -> Any:
        if self.count % 2:
            raise ValueError(f"pairs are needed, and there are {int(self.count)} samples")
        return super().compute()


class HidesAnError(Errors):
    """Beside one that has a value a member that refuses the samples is reported as 0."""

    instead = staticmethod(lambda: torch.zeros(()))

    def compute(self) -> dict[str, Any]:
        values = {name: attempted(member) for name, member in self.items()}
        if len(values) == 1:
            return super().compute()  # type: ignore[no-any-return]
        return {name: self.instead() if isinstance(value, ValueError) else value for name, value in values.items()}


class RaisesAnother(HidesAnError):
    """The error of a member becomes another one, as a missing key."""

    instead = staticmethod(lambda: {}["value"])


@pytest.mark.parametrize(("made", "outcome"), [(Errors, "passed"), (HidesAnError, "failed"), (RaisesAnother, "failed")])
def test_the_error_of_a_member_is_that_of_its_collection(made: type[Errors], outcome: str) -> None:
    @ec.metric(inputs=es.regression())
    def collection(device: str) -> Any:
        return made({"mse": MeanSquaredError(), "mae": NeedsPairs()})

    (cell,) = ec.run(collection, select="EC214", effort="quick").cells
    assert cell.outcome == outcome, cell


class Both(Errors):
    """Its constructor takes no metrics."""

    def __init__(self, **options: Any) -> None:
        super().__init__({"mse": MeanSquaredError(), "mae": MeanAbsoluteError()}, **options)


class Halved(Both):
    """Beside others a member counts half."""

    def compute(self) -> dict[str, Any]:
        return {name: value / len(self) for name, value in super().compute().items()}


@pytest.mark.parametrize(("made", "outcome"), [(Both, "passed"), (Halved, "failed")])
def test_a_collection_that_makes_its_own_members(made: type[Errors], outcome: str) -> None:
    @ec.metric(inputs=es.regression())
    def collection(device: str) -> Any:
        return made()

    (cell,) = ec.run(collection, select="EC214", effort="quick").cells
    assert cell.outcome == outcome, cell


class Client:
    """It counts its calls."""

    calls = 0

    def gap(self, preds: Any, target: Any) -> Any:
        self.calls += 1
        return (preds - target).abs().mean()


@pytest.mark.parametrize(("shared", "outcome"), [(True, "passed"), (False, "failed")])
def test_an_object_that_all_batches_share_is_no_input(shared: bool, outcome: str) -> None:
    def gap(preds: Any, target: Any, client: Client) -> Any:
        return client.gap(preds, target)

    client, pairs = Client(), es.regression()

    def collated(rows: Any) -> Any:
        preds, target = pairs.collate(rows)
        return {"preds": preds, "target": target, "client": client if shared else Client()}

    @ec.metric(inputs=pairs.replace(collate=collated))
    def with_a_client() -> Any:
        return gap

    (cell,) = ec.run(with_a_client, select="EC206").cells
    assert cell.outcome == outcome, cell
