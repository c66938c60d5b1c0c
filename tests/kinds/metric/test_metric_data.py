"""Parts of the checks about data, weights and options: refusals, sizes of states, declarations."""

from __future__ import annotations

import re
import warnings
from fractions import Fraction
from typing import Any, NamedTuple

import numpy
import pytest
import torch

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es
from pytest_evalcheck.adapters.protocols.metric import weights_of
from pytest_evalcheck.kinds.common.calling import is_clear_refusal
from pytest_evalcheck.kinds.common.tensors import count_elements, detached


def raises(text: str) -> None:
    raise ValueError(text)


def raises_a_mistake() -> None:
    raise KeyError("macro")


class InvalidParameterError(ValueError, TypeError):
    """Error of scikit-learn's validation of parameters."""


def refuses_a_parameter() -> None:
    raise InvalidParameterError("average must be one of 'micro' and 'macro'")


def refuses_a_type() -> None:
    raise TypeError("expected k to be an integer, but NoneType was provided")


def takes_one(value: int) -> None: ...


def divides_by(count: int) -> None:
    if count == 0:
        raise ZeroDivisionError("no pairs can be compared")


def asserts() -> None:
    assert not torch.ones(1), "no positives"


@pytest.mark.parametrize(
    ("call", "clear"),
    [
        (lambda: raises("one class"), True),
        (asserts, False),
        (lambda: re.compile("["), False),
        (lambda: raises(""), False),
        (raises_a_mistake, False),
        (refuses_a_parameter, True),
        (refuses_a_type, True),
        (lambda: takes_one(), False),  # type: ignore[call-arg]
        (lambda: Fraction("1", 2), False),
        (lambda: torch.stack([]), False),
        (lambda: 1 / 0, False),
        (lambda: divides_by(0), True),
        (lambda: Fraction(1, 0), False),
        (lambda: int("one"), False),
        (lambda: [*map(int, "1")][1], False),
    ],
)
def test_a_refusal_is_clear_where_a_statement_raises_it_with_a_text(call: Any, clear: bool) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        call()
    # The traceback of pytest.raises begins in this test, as that of a check begins in its call.
    assert is_clear_refusal(caught.value) == clear


def test_an_error_of_a_compiled_validator_is_a_refusal() -> None:
    pydantic = pytest.importorskip("pydantic")
    limits = pydantic.create_model("Limits", most=(int, ...))
    with pytest.raises(ValueError, match="most") as caught:
        limits(most="many")
    assert is_clear_refusal(caught.value)


def test_weights_of_samples_are_known_by_an_optional_parameter() -> None:
    def required(values: Any, weight: Any) -> None: ...
    def both(y1: Any, y2: Any, weights: Any = None, sample_weight: Any = None) -> None: ...
    def torcheval(input: Any, *, weight: float = 1.0) -> None: ...
    def word_score(references: Any, hypotheses: Any, weights: Any = (0.5, 0.5)) -> None: ...
    def river(y_true: Any, y_pred: Any, w: float = 1.0) -> None: ...
    def minkowski(u: Any, v: Any, w: Any = None) -> None: ...

    found = [weights_of(each) for each in (required, both, torcheval, word_score, river, minkowski)]
    assert found == ["", "sample_weight", "weight", "", "w", ""]


def test_elements_are_counted_in_nests() -> None:
    state = {"total": torch.zeros(2, 3), "seen": [torch.zeros(4), [1, 2.5]], "names": ["ab"], "source": object()}
    assert {name: count_elements(value) for name, value in state.items()} == {
        "total": 6,
        "seen": 6,
        "names": 2,
        "source": 0,
    }
    assert [count_elements(value, plain=False) for value in state.values()] == [6, 0, 0, 0]


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ({"undefined": {"none": ec.Undefined(samples=[(0, 0)], value=0.0)}}, "does not quote the documentation"),
        ({"undefined": {"none": ec.Undefined(samples="")}}, "expected a list of samples"),
        ({"undefined": {"none": [(0, 0)]}}, "expected an ec.Undefined"),
        ({"undefined": [(0, 0)]}, "expected streams by name"),
        ({"symmetric": "yes"}, "expected True or False"),
        ({"options": {"average": "macro"}}, "options['average']='macro'; expected"),
        ({"options": ["average"]}, "expected the values of each option"),
    ],
)
def test_declarations_are_read_when_the_target_is_made(keywords: Any, said: str) -> None:
    target = ec.metric(inputs=es.binary(of="labels"), **keywords)(lambda: None)
    assert any(said in problem for problem in target.problems), target.problems


def test_options_are_no_fixtures() -> None:
    def factory(device: str, average: str = "micro") -> None: ...

    assert ec.metric(inputs=es.binary(), options={"average": ("micro", "macro")})(factory).arguments == ("device",)
    assert ec.metric(inputs=es.binary())(factory).arguments == ("device", "average")


def test_an_annotation_without_values_is_an_error_of_the_target() -> None:
    class Mean:
        def __init__(self, scale: float = 1.0) -> None:
            self.scale, self.values = scale, []  # type: ignore[var-annotated]

        def update(self, values: Any) -> None:
            self.values += values.tolist()

        def compute(self) -> float:
            return self.scale * sum(self.values) / len(self.values)

    @ec.metric(inputs=es.values(), options={"scale": ...})
    def mean(scale: float = 1.0) -> Any:
        return Mean(scale)

    (cell,) = ec.run(mean, select="EC227", effort="quick").cells
    assert (cell.outcome, cell.cause) == ("failed", "options")


class TestWeightsThatAreRefused:
    """EC224 about a parameter that is called ``weights``, and is none of samples."""

    def run(self, function):
        @ec.metric(inputs=es.regression().as_numpy())
        def errors(device):
            return function

        (cell,) = ec.run(errors, select="EC224", effort="quick").cells
        return cell

    def test_a_clear_refusal_is_no_wrong_number(self):
        def errors(predictions, observations, weights=None):
            if weights is not None:
                raise ValueError("cannot supply weights unless you also supply an ensemble")
            return abs(predictions - observations).mean()

        cell = self.run(errors)
        assert cell.outcome == "not applicable"
        assert "weights of samples are refused: compute raised ValueError: cannot supply weights" in cell.reason

    def test_an_obscure_error_is_none(self):
        def errors(predictions, observations, weights=None):
            return abs(predictions - observations).mean() if weights is None else weights["forecast"]

        assert self.run(errors).outcome == "failed"

    def test_some_weights_may_be_refused(self):
        def errors(predictions, observations, weights=None):
            if weights is not None and 0 in weights:
                raise ValueError("weights must be positive")
            return numpy.average(abs(predictions - observations), weights=weights)

        def by_rows(predictions, observations, weights=None):
            total = errors(predictions, observations, weights) * (1 if weights is None else sum(weights))
            return total / (1 if weights is None else len(weights))

        assert (self.run(errors).outcome, self.run(by_rows).outcome) == ("passed", "failed")


class MeanOrABillion:
    """A mean of exponentials, in place of which there is a large number where it is not finite, with a warning."""

    def __init__(self) -> None:
        self.total, self.count = torch.tensor(0.0), 0

    def update(self, values):
        total = values.exp().sum()
        if not torch.isfinite(total):
            warnings.warn("Loss is not finite. Resetting it to 1e9", stacklevel=2)
            total = torch.tensor(1e9)
        self.total, self.count = self.total + total, self.count + len(values)

    def compute(self):
        return self.total / max(self.count, 1)


def test_a_warning_that_says_not_finite_reports_a_nan_and_what_float32_cannot_hold_is_no_fault():
    @ec.metric(inputs=es.values())
    def exponentials(device):
        return MeanOrABillion()

    cells = ec.run(exponentials, select="EC211,EC216", effort="quick").cells
    reasons = {cell.code: (cell.outcome, cell.reason) for cell in cells}
    assert reasons["EC216"] == ("passed", "")
    assert "e+" not in reasons["EC211"][1], reasons  # sums of half precision are a fault, infinite ones are not


class Correlation(NamedTuple):
    """A result with names, as functions of scipy give."""

    statistic: Any
    count: Any


def test_results_may_be_named_tuples() -> None:
    @ec.metric(inputs=es.regression())
    def named() -> Any:
        return ec.Metric.of(lambda preds, target: Correlation((preds.double() * target.double()).sum(), [len(preds)]))

    cells = {cell.code: cell for cell in ec.run(named, effort="quick").cells}
    assert {code: cell.reason for code, cell in cells.items() if cell.outcome == "failed"} == {}
    assert cells["EC219"].outcome == "passed"


def test_results_of_scipy_may_be_named_tuples() -> None:
    from scipy import stats

    result = stats.pearsonr([1.0, 2.0, 3.0], [1.0, 3.0, 2.0])
    copied = detached(result)
    assert (copied, type(copied)) == (result, type(result))
    assert copied.confidence_interval() == result.confidence_interval()


@pytest.mark.parametrize(("value", "outcome"), [(0.0, "failed"), (float("nan"), "passed")])
def test_no_samples_are_a_declared_stream(value: float, outcome: str) -> None:
    nothing = {"no samples": ec.Undefined(samples=[])}

    @ec.metric(inputs=es.binary(of="labels"), undefined=nothing)
    def accuracy() -> Any:
        return ec.Metric.of(lambda preds, target: float((preds == target).float().mean()) if len(preds) else value)

    (cell,) = ec.run(accuracy, select="EC225", effort="quick").cells
    assert cell.outcome == outcome, cell.reason


@pytest.mark.parametrize(("stable", "outcome"), [(True, "passed"), (False, "failed")])
def test_nearly_constant_targets_show_a_difference_of_squares(stable: bool, outcome: str) -> None:
    def variance(value: Any) -> Any:
        value = value.float()
        return value.var(correction=0) if stable else value.square().mean() - value.mean().square()

    def reference(rows: Any) -> float:
        return float(torch.tensor(rows, dtype=torch.float64).var(correction=0))

    @ec.metric(inputs=es.values(spread="narrow"), reference=reference)
    def target() -> Any:
        return ec.Metric.of(variance)

    (cell,) = ec.run(target, select="EC217", effort="quick").cells
    assert cell.outcome == outcome, cell.reason
