"""The numbers themselves, against exact rational arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pytest_evalcheck.fixes import CompensatedSum, Moments, WeightedMean, combine_means, double_double

relaxed = settings(deadline=None)
# A word of each dtype: its roundoff, and that of the pair with room for some thousand operations.
WORDS = {torch.float64: (2.0**-53, 2.0**-95), torch.float32: (2.0**-24, 2.0**-38)}
each_word = pytest.mark.parametrize("word", WORDS, ids=["float64 words", "float32 words"])
each_input = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
numbers = st.floats(-(2.0**50), 2.0**50, width=32)
# Large enough that no digit of a product of two falls under the smallest float32.
factors = st.just(0.0) | st.floats(2.0**-40, 2.0**20, width=32)
signed_factors = factors | factors.map(lambda value: -value)


def exact(values: Iterable[float]) -> list[Fraction]:
    return [Fraction(value) for value in values]


def close(got: torch.Tensor, expected: Fraction, magnitude: Fraction, word: torch.dtype) -> bool:
    """Rounded once or twice, and no more off than the pair is over all that went in."""
    once, pair = WORDS[word]
    return abs(Fraction(got.item()) - expected) <= 4 * Fraction(once) * abs(expected) + Fraction(pair) * magnitude


@each_word
@given(values=st.lists(numbers, max_size=30), cut=st.integers(1, 7))
@relaxed
def test_a_sum_is_the_exact_sum_rounded(word: torch.dtype, values: list[float], cut: int):
    total = CompensatedSum(dtype=word)
    for batch in torch.tensor(values, dtype=torch.float32).split(cut) if values else ():
        total.update(batch)
    assert total.compute().dtype == word
    assert close(total.compute(), sum(exact(values), Fraction()), sum(map(abs, exact(values)), Fraction()), word)


def test_what_float64_alone_loses_is_kept():
    values, tiny = [1e16, 1.0, -1e16, 1e-16, 3.0], [1.0, 2.0**-54, -1.0, 2.0**-110, -(2.0**-54)]
    for batches in ([values], [[value] for value in values], [tiny[:2], tiny[2:4], tiny[4:]]):
        values = [value for batch in batches for value in batch]
        assert sum(values) != math.fsum(values)
        total = CompensatedSum()
        for batch in batches:
            total.update(batch)
        assert total.compute().item() == math.fsum(values)


@each_word
@given(rows=st.lists(st.tuples(signed_factors, factors), min_size=1, max_size=20))
@relaxed
def test_a_weighted_mean_is_the_exact_quotient_rounded(word: torch.dtype, rows: list[tuple[float, float]]):
    values, weights = (exact(column) for column in zip(*rows, strict=True))
    mean = WeightedMean(dtype=word)
    for value, weight in rows:
        mean.update(torch.tensor([value], dtype=torch.float32), torch.tensor([weight], dtype=torch.float32))
    if not sum(weights):
        assert mean.compute().isnan()
        return
    terms = [value * weight for value, weight in zip(values, weights, strict=True)]
    total = sum(weights)
    assert close(mean.compute(), sum(terms) / total, sum(map(abs, terms), Fraction()) / total, word)


@each_word
@pytest.mark.parametrize(
    ("offset", "scale", "drift"), [(0, 1, 0), (1000, 100, 0), (1000, 1, 300), (50_000, 1, 0), (0, 100, 300)]
)
@each_input
@pytest.mark.slow(every=4)
def test_low_precision_inputs_give_the_value_of_the_same_quantised_numbers(
    dtype: torch.dtype, offset: int, scale: int, drift: int, word: torch.dtype
):
    generator = torch.Generator().manual_seed(offset + scale + drift)
    stream = torch.randn(5000, generator=generator, dtype=torch.float64) * scale + offset
    stream = (stream + torch.linspace(0, drift, 5000, dtype=torch.float64)).to(dtype)
    ratios = [value.as_integer_ratio() for value in stream.tolist()]
    unit = max(denominator for _, denominator in ratios)
    whole = [numerator * (unit // denominator) for numerator, denominator in ratios]
    mean = Fraction(sum(whole), 5000 * unit)
    magnitude = Fraction(max(map(abs, whole)), unit)
    spread = Fraction(max(whole) - min(whole), unit)
    squares = Fraction(sum(number * number for number in whole), unit**2) - 5000 * mean**2
    states: list[Any] = [kind(dtype=word) for kind in (CompensatedSum, WeightedMean, Moments)]
    for batch in stream.split([1, *[37] * 27, 1000, 3000]):
        for state in states:
            state.update(batch)
    total, average, moments = (state.compute() for state in states)
    assert close(total, 5000 * mean, 5000 * magnitude, word)
    assert close(average, mean, magnitude, word)
    assert close(moments["mean"], mean, magnitude, word)
    # A deviation carries the pair's error of the value that it was taken from.
    assert close(moments["variance"], squares / 4999, magnitude * spread, word)
    assert {tensor.dtype for tensor in (total, average, *moments.values())} == {word}


@each_word
@given(value=st.floats(-60000, 60000, width=16), count=st.integers(2, 40), cut=st.integers(1, 9))
@relaxed
def test_the_mean_of_a_constant_is_that_constant_and_its_variance_is_zero(
    word: torch.dtype, value: float, count: int, cut: int
):
    moments = Moments(dtype=word)
    for batch in torch.full((count,), value, dtype=torch.float32).split(cut):
        moments.update(batch)
    assert {name: tensor.item() for name, tensor in moments.compute().items()} == {
        "mean": value,
        "variance": 0,
    }


@pytest.mark.parametrize("correction", [0, 1, 3])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4])
def test_too_few_values_have_no_variance(count: int, correction: int):
    values = [3.0, 5.0, 4.0, 8.0][:count]
    result = Moments(correction=correction)(values)
    mean = sum(exact(values)) / count if count else None
    assert result["mean"].isnan() if mean is None else result["mean"].item() == float(mean)
    if mean is None or count <= correction:
        assert result["variance"].isnan()
    else:
        squares = sum((value - mean) ** 2 for value in exact(values))
        assert result["variance"].item() == float(squares / (count - correction))


@each_word
@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        (torch.uint8, [255, 255, 2]),
        (torch.int8, [-128, -128]),
        (torch.int16, [32767] * 3),
        (torch.int32, [2**31 - 1, 2**31 - 1, -7]),
        (torch.int64, [2**63 - 1, 2**63 - 1, -(2**63), 2**53 + 1]),
        (torch.uint16, [2**16 - 1, 1]),
        (torch.uint32, [2**32 - 1, 2**32 - 1]),
        (torch.bool, [True, True, False]),
    ],
)
def test_integers_and_booleans_do_not_wrap(dtype: torch.dtype, values: list[int], word: torch.dtype):
    rounded = torch.tensor(sum(values), dtype=torch.float64).to(word)
    total, mean = CompensatedSum(dtype=word), WeightedMean(dtype=word)
    for batch in (torch.tensor(values, dtype=dtype), torch.tensor(values[:1], dtype=dtype)):
        total.update(batch)
        mean.update(batch, batch.bool())
    total.merge(CompensatedSum(dtype=word))
    total.update(-values[0] if dtype != torch.bool else torch.tensor(-1))
    assert torch.equal(total.compute(), rounded)
    average = (sum(values) + values[0]) / (sum(map(bool, values)) + 1)
    assert torch.equal(mean.compute(), torch.tensor(average, dtype=torch.float64).to(word))


def test_python_numbers_keep_their_float64_digits():
    assert CompensatedSum()(0.1).item() == 0.1
    assert CompensatedSum()([0.1, 0.2, True, 3]).item() == math.fsum([0.1, 0.2, True, 3])
    assert WeightedMean()([[0.1], [0.1]]).item() == 0.1
    assert CompensatedSum()(2**53 + 1).item() == 2.0**53
    assert CompensatedSum()([2**53 + 1, -(2**53)]).item() == 1


def test_arrays_and_lists_of_tensors_are_taken_as_they_are():
    array = torch.tensor([0.1, 0.2]).numpy()
    expected = CompensatedSum()(torch.tensor([0.1, 0.2]))
    assert CompensatedSum()(array) == expected
    assert CompensatedSum()([torch.tensor(0.1, requires_grad=True), torch.tensor(0.2)]) == expected


def test_weights_count_a_row_or_a_value_or_everything():
    values = torch.tensor([[1.0, 2.0], [5.0, 10.0]])
    per_row, per_value = torch.tensor([3, 1]), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    assert WeightedMean((2,))(values, per_row).tolist() == [2, 4]
    assert WeightedMean((2,))(values, per_value).tolist() == [1, 10]
    assert WeightedMean((2,))(values, 0.25).tolist() == [3, 6]
    assert WeightedMean()(values, per_value).item() == 5.5
    assert WeightedMean((2,))(values[0], 7).tolist() == [1, 2]
    mean = WeightedMean((2,))
    mean.update(values, per_row)
    mean.update(values[0])
    assert mean.compute().tolist() == [1.8, 3.6]


def test_a_total_weight_of_zero_has_no_mean():
    assert WeightedMean().compute().isnan()
    assert WeightedMean()([1.0, 2.0], 0).isnan()
    assert WeightedMean()([1.0, 2.0], [1.0, -1.0]).isnan()
    assert WeightedMean((2,))([[1.0, 2.0]], [[0.0, 1.0]]).isnan().tolist() == [True, False]


def test_a_zero_weight_does_not_hide_a_nan():
    assert WeightedMean()([1.0, float("nan")], [1.0, 0.0]).isnan()


def test_batch_means_are_weighed_by_their_counts():
    assert combine_means([1.0, 5.0], [3, 1]).item() == 2
    assert combine_means(torch.tensor([1.0, float("nan"), 5.0]), torch.tensor([3, 0, 1])).item() == 2
    assert combine_means([torch.tensor(1.0), torch.tensor(5.0)], counts=[3, 1]).item() == 2
    assert combine_means([1.0, float("nan")], [3, 1]).isnan()
    assert combine_means([], []).isnan()
    assert combine_means([float("nan")], [0]).isnan()
    with pytest.raises(ValueError, match=r"counts: expected the shape of the means, \(2,\), got \(3,\)"):
        combine_means([1.0, 2.0], [1, 2, 3])
    with pytest.raises(TypeError, match="means: expected a tensor or real numbers, got NoneType"):
        combine_means(None, [1])  # type: ignore[arg-type]


@each_word
def test_infinities_follow_ieee_754_through_every_addition(word: torch.dtype):
    inf = math.inf
    for values, expected in (
        ([inf, 1.0, 1.0], inf),
        ([1.0, -inf], -inf),
        ([inf, inf], inf),
        ([inf, -inf], math.nan),
        ([math.nan, inf], math.nan),
        ([torch.finfo(word).max] * 3, inf),
    ):
        for batches in ([values], [[value] for value in values]):
            total, mean = CompensatedSum(dtype=word), WeightedMean(dtype=word)
            for batch in batches:
                total.update(batch)
                mean.update(batch, 1.0)
            for got in (total.compute(), mean.compute()):
                assert got.item() == expected or (math.isnan(expected) and got.isnan())


class RefusesFloat64(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if any(isinstance(leaf, torch.Tensor) and leaf.dtype == torch.float64 for leaf in tree_leaves(result)):
            raise TypeError(f"{func} made a float64 tensor")
        return result


@pytest.mark.parametrize("kind", [CompensatedSum, WeightedMean, Moments])
def test_a_device_without_float64_is_never_asked_for_it(kind: Any, monkeypatch: pytest.MonkeyPatch):
    with RefusesFloat64(), pytest.raises(TypeError, match="made a float64"):
        kind()
    monkeypatch.setattr(double_double, "WITHOUT_FLOAT64", {"cpu"})
    with RefusesFloat64():
        accumulator, other = kind(), kind()
        accumulator.update(torch.tensor([1.0, 2.0]).half())
        accumulator.forward(torch.tensor([3, 2**40]))
        other.update(torch.tensor([True]))
        other.load_state_dict(accumulator.state_dict())
        accumulator.merge(other)
        accumulator.to("cpu")
        accumulator.compute()
        accumulator.reset()
    if kind is WeightedMean:
        with RefusesFloat64():
            accumulator.update(torch.tensor([1.0, 2.0]), torch.tensor([1, 2**40]))


@pytest.mark.parametrize("kind", [CompensatedSum, WeightedMean, Moments])
def test_moving_between_words_keeps_what_a_pair_can_hold(kind: Any, monkeypatch: pytest.MonkeyPatch):
    def value(accumulator: Any) -> list[float]:
        result = accumulator.compute()
        return [tensor.item() for tensor in (result.values() if isinstance(result, dict) else [result])]

    moved, stayed = kind(), kind()
    numbers = torch.tensor([1.0, 2**20 + 0.125, 3.0], dtype=torch.float64)
    for accumulator in (moved, stayed):
        accumulator.update(numbers)
    # What the CPU has is taken away and given back, as a move to MPS and back would.
    monkeypatch.setattr(double_double, "WITHOUT_FLOAT64", {"cpu"})
    assert value(moved.to("cpu")) == pytest.approx(value(stayed), rel=2**-23)
    moved.update(numbers)
    monkeypatch.undo()
    moved.to("cpu")
    stayed.update(numbers)
    assert value(moved) == pytest.approx(value(stayed), rel=2**-44)
    assert all(word.dtype in (torch.float64, torch.int64) for word in moved.state_dict().values())


def test_values_are_summed_where_they_are_and_widened_where_the_state_is(monkeypatch: pytest.MonkeyPatch):
    total, mean = CompensatedSum(), WeightedMean()
    values = torch.full((3,), 0.1)
    monkeypatch.setattr(double_double, "WITHOUT_FLOAT64", {"cpu"})
    total.update(values)
    mean.update(values, torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64))
    assert total.compute().dtype == mean.compute().dtype == torch.float64
    assert total.compute().item() == 3 * values[0].double().item()
    assert mean.compute().item() == values[0].double().item()


@pytest.mark.parametrize("kind", [CompensatedSum, WeightedMean, Moments])
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"shape": 3}, TypeError, r"shape: expected a tuple such as \(3,\), got 3"),
        ({"shape": (2.0,)}, TypeError, "shape: expected whole numbers"),
        ({"shape": (-1,)}, ValueError, "shape: expected lengths of 0 or more"),
        ({"dtype": torch.float16}, TypeError, "dtype: expected torch.float64, torch.float32 or None"),
    ],
)
def test_a_sum_that_cannot_be_is_refused(kind: Any, options: Any, error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        kind(**options)


@pytest.mark.parametrize(("correction", "error"), [(-1, ValueError), (0.5, TypeError), (True, TypeError)])
def test_a_correction_is_a_count(correction: Any, error: type[Exception]):
    with pytest.raises(error, match="correction: expected"):
        Moments(correction=correction)


@pytest.mark.parametrize("kind", [CompensatedSum, WeightedMean, Moments])
def test_shapes_that_differ_do_not_merge(kind: Any):
    with pytest.raises(ValueError, match=r"of shape \(2,\), got one of shape \(\)"):
        kind((2,)).merge(kind())


@pytest.mark.parametrize("kind", [CompensatedSum, WeightedMean, Moments])
def test_a_state_in_low_precision_is_refused(kind: Any):
    state = kind().state_dict()
    with pytest.raises(TypeError, match=r"expected a float64 or float32 tensor, got torch\.float16"):
        kind().load_state_dict({name: word.half() if name != "count" else word for name, word in state.items()})
