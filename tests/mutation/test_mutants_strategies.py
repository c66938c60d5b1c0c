"""Draws of the shipped strategies: the values, the labels, right and wrong predictions, and distributions."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from statistics import fmean, pstdev
from typing import Any

import pytest
import torch

from pytest_evalcheck import strategies as es
from pytest_evalcheck.strategies import Bulk, SampleStrategy
from pytest_evalcheck.strategies.samples import drawn_with_seed

SMALL = Bulk(seed=3, rows=400, scale=2.0, offset=10.0, drift=3.0)


def drawn(inputs: SampleStrategy, count: int = 300) -> list[Any]:
    return list(drawn_with_seed(inputs.sample, count=count, seed=0))


def labels_of(inputs: SampleStrategy) -> set[Any]:
    return {row[1] for row in drawn(inputs)}


class TestClassification:
    @pytest.mark.parametrize(
        ("of", "values"),
        [
            ("labels", {0, 1}),
            ("probabilities", {(1 + 2 * i) / 16 for i in range(8)}),
            ("logits", {-3.0625 + 6 * i / 7 for i in range(8)}),
        ],
    )
    def test_binary(self, of: Any, values: set[float]) -> None:
        inputs = es.binary(of=of)
        rows = drawn(inputs)
        assert {round(row[0], 6) for row in rows} == {round(value, 6) for value in values}
        assert {row[1] for row in rows} == {0, 1}
        low, high = min(values), max(values)
        assert inputs.right
        assert inputs.wrong
        assert [inputs.right((low, label)) for label in (0, 1)] == [(low, 0), (high, 1)]
        assert [inputs.wrong((low, label)) for label in (0, 1)] == [(high, 0), (low, 1)]
        assert inputs.contrast == ((low, 0), (high, 1)) * 2
        assert inputs.unit == (1.0 if of == "probabilities" else 0.0)
        assert inputs.integers == (of == "labels")

    @pytest.mark.parametrize("of", ["labels", "probabilities", "logits"])
    def test_multiclass(self, of: Any) -> None:
        inputs = es.multiclass(classes=3, of=of)
        rows = drawn(inputs)
        assert {row[1] for row in rows} == {0, 1, 2}
        winners = {row[0] if of == "labels" else max(range(3), key=row[0].__getitem__) for row in rows}
        assert winners == {0, 1, 2}
        if of == "logits":
            assert {number for row in rows for number in row[0]} == {-1.0, 0.0, 1.0}
        if of == "probabilities":
            assert {round(number * 6) for row in rows for number in row[0]} == {1, 2, 3}
            assert all(math.isclose(sum(row[0]), 1) for row in rows)
        assert inputs.right
        assert inputs.wrong
        for label in range(3):
            right, wrong = (change((rows[0][0], label)) for change in (inputs.right, inputs.wrong))
            assert right[1] == wrong[1] == label
            found = [one[0] if of == "labels" else max(range(3), key=one[0].__getitem__) for one in (right, wrong)]
            assert found == [label, (label + 1) % 3]
        assert Counter(row[1] for row in inputs.contrast) == {0: 2, 1: 2, 2: 2}
        assert all(inputs.right(row) == row for row in inputs.contrast)
        predictions, target = inputs.collate(rows[:5])
        assert predictions.shape == ((5,) if of == "labels" else (5, 3))
        assert target.dtype == torch.int64
        assert inputs.unit == (1.0 if of == "probabilities" else 0.0)

    def test_multilabel(self) -> None:
        inputs = es.multilabel(labels=3)
        rows = drawn(inputs)
        assert all(len(part) == 3 for row in rows for part in row)
        assert {label for row in rows for label in row[1]} == {0, 1}
        assert {number for row in rows for number in row[0]} == {(1 + 2 * i) / 16 for i in range(8)}
        assert inputs.right
        assert inputs.wrong
        assert inputs.bulk
        assert inputs.right(((0.5,) * 3, (1, 0, 1)))[0] == (0.9375, 0.0625, 0.9375)
        assert inputs.wrong(((0.5,) * 3, (1, 0, 1)))[0] == (0.0625, 0.9375, 0.0625)
        assert [row[1] for row in inputs.contrast] == [(0, 1, 0), (1, 0, 1)] * 2
        by_label = [[n for row in inputs.bulk(SMALL) for n, t in zip(*row, strict=True) if t == one] for one in (0, 1)]
        assert [round(fmean(numbers), 1) for numbers in by_label] == [0.4, 0.6]
        assert min(map(min, by_label)) == 0.001
        assert max(map(max, by_label)) == 0.999

    def test_bulk_of_binary_probabilities_is_on_the_side_of_the_label(self) -> None:
        inputs = es.binary()
        assert inputs.bulk
        by_label = [[number for number, label in inputs.bulk(SMALL) if label == one] for one in (0, 1)]
        assert [round(fmean(numbers), 1) for numbers in by_label] == [0.4, 0.6]
        assert [round(pstdev(numbers), 2) for numbers in by_label] == pytest.approx([0.24, 0.24], abs=0.03)
        assert (min(map(min, by_label)), max(map(max, by_label))) == (0.001, 0.999)

    def test_bulk_of_multiclass_scores_is_highest_at_the_label_on_average(self) -> None:
        inputs = es.multiclass(classes=3, of="logits")
        assert inputs.bulk
        rows = inputs.bulk(replace(SMALL, scale=1.0, offset=0.0))
        assert fmean(row[0][row[1]] for row in rows) == pytest.approx(1, abs=0.2)
        assert fmean(row[0][(row[1] + 1) % 3] for row in rows) == pytest.approx(0, abs=0.2)
        assert {row[1] for row in rows} == {0, 1, 2}
        shares = es.multiclass(classes=3, of="probabilities")
        assert shares.bulk
        assert all(math.isclose(sum(row[0]), 1) and min(row[0]) > 0 for row in shares.bulk(SMALL))

    def test_segmentation(self) -> None:
        inputs = es.segmentation(classes=3, size=(2, 4))
        rows = drawn(inputs, 60)
        assert {pixel for row in rows for mask in row for line in mask for pixel in line} == {0, 1, 2}
        assert all(len(mask) == 2 and {len(line) for line in mask} == {4} for row in rows for mask in row)
        assert inputs.right
        assert inputs.wrong
        mask = ((0, 1, 2, 0), (2, 2, 1, 0))
        assert inputs.right((rows[0][0], mask)) == (mask, mask)
        assert inputs.wrong((rows[0][0], mask)) == (((1, 2, 0, 1), (0, 0, 2, 1)), mask)
        assert inputs.contrast[0][1] == ((0, 1, 2, 0), (1, 2, 0, 1))
        assert [mask[0][0] for mask, _ in inputs.contrast] == [0, 1, 2]
        assert [mask[1][0] for mask, _ in inputs.contrast] == [1, 2, 0]


class TestNumbers:
    @pytest.mark.parametrize(("positive", "low"), [(False, -4), (True, 0.125)])
    def test_regression(self, positive: bool, low: float) -> None:
        inputs = es.regression(positive=positive)
        numbers = {number for row in drawn(inputs, 600) for number in row}
        assert (min(numbers), max(numbers)) == (low, 4)
        assert len(numbers) > 25
        assert inputs.right
        assert inputs.wrong
        assert inputs.bulk
        assert (inputs.right((9.0, 2.0)), inputs.wrong((9.0, 2.0))) == ((2.0, 2.0), (4.5, 2.0))
        assert [inputs.wrong(row)[0] for row in inputs.contrast] == [6.0, 6.5, 4.5, 5.0, 7.25][: 4 if positive else 5]
        assert inputs.contrast == tuple((v, v) for v in (0.5, 1.0, 2.0, 2.5, -1.25)[: 4 if positive else 5])
        rows = inputs.bulk(SMALL)
        assert pstdev([guess - truth for guess, truth in rows]) == pytest.approx(1.0, abs=0.1)
        early, late = (fmean(row[1] for row in part) for part in (rows[:40], rows[-40:]))
        assert (early, late) == (pytest.approx(10.3, abs=1), pytest.approx(15.7, abs=1))
        still = inputs.bulk(Bulk(seed=1, rows=300, scale=4.0, offset=0.0, drift=0.0))
        assert min(number for row in still for number in row) >= (0.5 if positive else -100)
        assert (min(number for row in still for number in row) > 0) == positive

    def test_several_outputs(self) -> None:
        inputs = es.regression(outputs=2)
        assert inputs.right
        assert inputs.wrong
        assert inputs.corrupted
        assert inputs.right(((9.0, 9.0), (1.0, 2.0))) == ((1.0, 2.0), (1.0, 2.0))
        assert inputs.wrong(((9.0, 9.0), (1.0, 2.0))) == ((6.5, 4.5), (1.0, 2.0))
        assert inputs.contrast[1] == ((1.0, 1.5), (1.0, 1.5))
        assert inputs.corrupted(((1.0, 2.0), (3.0, 4.0)), math.inf) == ((math.inf, 2.0), (3.0, 4.0))

    def test_values(self) -> None:
        plain, weighted = es.values(), es.values(weighted=True)
        assert (min(drawn(plain)), max(drawn(plain))) == (-4, 4)
        assert min(drawn(es.values(nonnegative=True))) == 0
        assert {row[1] for row in drawn(weighted)} == {0.5, 1.0, 2.0}
        assert plain.wrong
        assert weighted.wrong
        assert plain.bulk
        assert weighted.bulk
        assert (plain.wrong(3.0), weighted.wrong((3.0, 0.5))) == (10.5, (10.5, 0.5))
        assert [plain.wrong(value) for value in (1.875, 2.0)] == [5.25, 8.5]
        assert plain.contrast == (0.5, 1.0, 2.5)
        assert weighted.contrast == ((0.5, 1.0), (1.0, 2.0), (2.5, 1.0))
        rows = plain.bulk(SMALL)
        assert (fmean(rows[:40]), fmean(rows[-40:])) == (pytest.approx(10.3, abs=1), pytest.approx(15.7, abs=1))
        assert pstdev(plain.bulk(Bulk(seed=1, rows=300, scale=4.0, offset=0.0, drift=0.0))) == pytest.approx(4, abs=0.5)
        assert {row[1] for row in weighted.bulk(SMALL)} == {0.5, 1.0, 2.0}

    def test_clusters(self) -> None:
        inputs = es.clusters(count=3)
        assert {row[0] for row in drawn(inputs)} == labels_of(inputs) == {0, 1, 2}
        assert inputs.right
        assert inputs.wrong
        assert (inputs.right((0, 2)), inputs.wrong((1, 2))) == ((2, 2), (0, 2))
        assert inputs.contrast == ((0, 0), (1, 1), (2, 2)) * 2

    def test_tabular(self) -> None:
        inputs = es.tabular(features=2, classes=3)
        rows = drawn(inputs)
        assert {row[0] for row in rows} == {0, 1, 2}
        assert {len(row[1]) for row in rows} == {2}
        assert (min(x for row in rows for x in row[1]), max(x for row in rows for x in row[1])) == (-3, 3)
        assert inputs.corrupted
        assert str(inputs.corrupted((1, (2.0, 3.0)), math.nan)) == "(1, (nan, 3.0))"
        with pytest.raises(ValueError, match="features=0"):
            es.tabular(features=0, classes=2)
        es.tabular(features=1, classes=1)


class TestLanguage:
    def test_tokens(self) -> None:
        inputs = es.tokens(vocab=3, length=2)
        rows = drawn(inputs)
        assert {label for row in rows for label in row[1]} == {0, 1, 2}
        assert {number for row in rows for line in row[0] for number in line} == {0.0, 0.5, 1.0}
        assert all(len(part) == 2 for row in rows for part in row)
        assert inputs.right
        assert inputs.wrong
        assert inputs.bulk
        assert inputs.right((None, (0, 2)))[0] == ((1.5, 0.25, 0.5), (0.25, 0.5, 1.5))
        assert inputs.wrong((None, (0, 2)))[0] == ((0.5, 1.5, 0.25), (1.5, 0.25, 0.5))
        assert [row[1] for row in inputs.contrast] == [(0, 1), (1, 2), (2, 0)]
        many = inputs.bulk(replace(SMALL, scale=1.0, offset=0.0))
        assert pstdev(number for row in many for line in row[0] for number in line) == pytest.approx(2, rel=0.1)
        assert {label for row in many for label in row[1]} == {0, 1, 2}

    @pytest.mark.parametrize(
        ("scale", "offset", "tops"), [(4.0, 0.0, {-96, 0, 96}), (4.0, 1000.0, {904, 1000, 1096}), (1.0, 1000.0, {1000})]
    )
    def test_large_logits_are_exact_in_half_precision_and_have_no_ties(
        self, scale: float, offset: float, tops: set[float]
    ) -> None:
        for inputs, width, step in (
            (es.tokens(vocab=4, length=2), 4, 16),
            (es.multiclass(classes=3, of="logits"), 3, 24),
            (es.tokens(vocab=20, length=1), 20, 8),
        ):
            assert inputs.bulk
            rows = inputs.bulk(replace(SMALL, scale=scale, offset=offset))
            nested = inputs.name == "tokens"
            places = [pair for row in rows for pair in (zip(*row, strict=True) if nested else [row])]
            assert {max(logits) for logits, _ in places} == tops
            gaps = {max(logits) - logits[label] for logits, label in places}
            assert gaps == {step * place for place in range(min(6, width))}
            numbers = torch.tensor([logits for logits, _ in places])
            assert all(torch.equal(numbers.to(dtype).float(), numbers) for dtype in (torch.float16, torch.bfloat16))
            assert all(len({*logits}) == width for logits, _ in places)

    @pytest.mark.parametrize(("scale", "step", "most"), [(1.0, 0.25, 2.625), (4.0, 4.0, 42.0)])
    def test_bulk_of_logits_of_two_classes_has_both_signs_and_no_threshold(
        self, scale: float, step: float, most: float
    ) -> None:
        for inputs in (es.binary(of="logits"), es.multilabel(labels=2, of="logits")):
            assert inputs.bulk
            rows = inputs.bulk(replace(SMALL, scale=scale))
            places = [
                pair for row in rows for pair in ([row] if inputs.name == "binary logits" else zip(*row, strict=True))
            ]
            numbers = [number for number, _ in places]
            assert {(number - step / 2) % step for number in numbers} == {0.0}
            assert max(map(abs, numbers)) <= most
            assert fmean(n for n, label in places if label) > 0 > fmean(n for n, label in places if not label)

    def test_an_ignored_token_is_neither_corrupted_nor_predicted(self) -> None:
        inputs = es.tokens(vocab=3, length=2, ignore_index=-1)
        assert inputs.corrupted
        assert inputs.right
        bad = inputs.corrupted((((1.0, 2.0, 3.0),) * 2, (-1, 2)), math.inf)
        assert bad == (((1.0, 2.0, 3.0), (math.inf, 2.0, 3.0)), (-1, 2))
        assert inputs.right((None, (-1, 2)))[0][0] == (1.5, 0.25, 0.5)
        rows = drawn(inputs)
        assert {label for row in rows for label in row[1]} == {-1, 0, 1, 2}
        assert all(set(row[1]) != {-1} for row in rows)

    def test_text_pairs(self) -> None:
        inputs = es.text_pairs(references=2, min_words=2, max_words=3)
        rows = drawn(inputs)
        assert {len(row[0].split()) for row in rows} == {2, 3}
        assert {len(row[1]) for row in rows} == {2}
        assert inputs.right
        assert inputs.wrong
        assert inputs.right(("x", ("a", "b"))) == ("a", ("a", "b"))
        assert inputs.wrong(("x", ("a", "b"))) == ("dog dog", ("a", "b"))
        line = "the cat sat on a mat"
        assert inputs.contrast == ((line, (line, line)),) * 2
        assert es.text_pairs().contrast == ((line, line),) * 2

    def test_retrieval(self) -> None:
        inputs = es.retrieval(queries=2)
        rows = drawn(inputs, 600)
        assert {row[1] for row in rows} == {row[2] for row in rows} == {0, 1}
        assert (min(row[0] for row in rows), max(row[0] for row in rows)) == (1 / 64, 63 / 64)
        assert inputs.right
        assert inputs.wrong
        assert inputs.distinct
        assert [inputs.right((0.5, r, 1)) for r in (0, 1)] == [(0.1, 0, 1), (0.9, 1, 1)]
        assert [inputs.wrong((0.5, r, 1)) for r in (0, 1)] == [(0.9, 0, 1), (0.1, 1, 1)]
        assert inputs.distinct((0.5, 1, 0)) == 0.5
        # Of each query the relevant candidate has the highest score, and not all are relevant.
        for query, relevant in ((0, [1, 0, 0]), (1, [1, 1, 0, 0])):
            ranked = sorted((row for row in inputs.contrast if row[2] == query), reverse=True)
            assert [row[1] for row in ranked] == relevant
            assert all(0 < row[0] < 1 for row in ranked)

    def test_prompts(self) -> None:
        inputs = es.prompts(vocab=6, max_length=12, special=(0, 5))
        rows = drawn(inputs)
        assert {token for row in rows for token in row} == {1, 2, 3, 4}
        lengths = [len(row) for row in rows]
        assert (min(lengths), max(lengths)) == (1, 12)
        assert sum(length >= 8 for length in lengths) >= 0.4 * len(lengths)
        with pytest.raises(ValueError, match="at least two ids"):
            es.prompts(vocab=2)
        assert es.prompts(vocab=3, min_length=2, max_length=2)


class TestScoring:
    def test_responses(self) -> None:
        inputs = es.responses(answers=("4", "5"), template="It is {}.", max_repeats=2)
        rows = drawn(inputs)
        assert {text for row in rows for text in row[1]} == {"It is 4.", "It is 5."}
        assert {len(row[1]) for row in rows} == {1, 2}
        assert len({row[0]["question"] for row in rows}) == 40
        right = [text == f"It is {row[0]['answer']}." for row in rows for text in row[1]]
        assert 0.6 < fmean(right) < 0.9
        assert inputs.right
        assert inputs.wrong
        document = {"question": "q0", "answer": "5"}
        assert inputs.right((document, ["x", "y"])) == (document, ["It is 5."] * 2)
        assert inputs.wrong((document, ["x", "y"])) == (document, ["It is 4."] * 2)
        assert inputs.contrast == tuple(
            ({"question": f"q{i}", "answer": answer}, [f"It is {answer}."]) for i, answer in enumerate(("4", "5"))
        )

    def test_choices(self) -> None:
        inputs = es.choices(count=3)
        rows = drawn(inputs)
        assert {row[0]["answer"] for row in rows} == {0, 1, 2}
        assert {tuple(sorted(pair[0] for pair in row[1])) for row in rows} == {(-1.5, -1.0, -0.5)}
        assert rows[0][0]["choices"] == ["choice 0", "choice 1.", "choice 2.."]
        assert inputs.right
        assert inputs.wrong
        document = {"question": "q0", "choices": [], "answer": 2}
        assert inputs.right((document, [0] * 3))[1] == [(-40.0, False), (-41.0, False), (-0.5, True)]
        assert inputs.wrong((document, [0] * 3))[1] == [(-0.5, True), (-41.0, False), (-42.0, False)]
        assert [row[0]["answer"] for row in inputs.contrast] == [0, 1, 2]
        assert all(row[1] == [(-1.0, False)] * 3 for row in inputs.contrast)

    def test_log_likelihoods(self) -> None:
        inputs = es.loglikelihoods()
        rows = drawn(inputs)
        assert {row[1][0][0] for row in rows} == {-i / 8 for i in range(1, 17)}
        assert {row[1][0][1] for row in rows} == {True, False}
        assert all(row[0]["answer"] == row[0]["question"][::-1] for row in rows)
        assert inputs.right
        assert inputs.wrong
        assert inputs.right(rows[0]) == (rows[0][0], [(-0.125, True)])
        assert inputs.wrong(rows[0]) == (rows[0][0], [(-40.0, False)])
        assert inputs.contrast == (({"question": "q0", "answer": "0q"}, [(-1.0, True)]),) * 2


class TestModels:
    def test_causal_lm(self) -> None:
        inputs = es.causal_lm(vocab=4, max_length=3, position_ids=True)
        rows = drawn(inputs)
        assert {token for row in rows for token in row[0]} == {1, 2, 3}
        assert {len(row[0]) for row in rows} == {1, 2, 3}
        assert {row[1] for row in rows} == {0, 1, 2}
        batch = inputs.collate([((1, 2, 3), 1), ((3,), 0)])
        assert batch["input_ids"].tolist() == [[1, 2, 3], [3, 0, 0]]
        assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0]]
        assert batch["labels"].tolist() == [[-100, 2, 3], [3, -100, -100]]
        assert batch["position_ids"].tolist() == [[0, 1, 2], [0, 0, 0]]
        assert inputs.padding
        left = inputs.padding.collate([((1, 2), 1)], "left", (4,))
        assert left["position_ids"].tolist() == [[0, 0, 0, 1]]

    def test_the_first_label_is_ignored_where_padding_is_on_the_left(self) -> None:
        inputs = es.causal_lm(vocab=4, max_length=3, sides=("right", "left"))
        assert {row[1] for row in drawn(inputs) if len(row[0]) > 1} == {1, 2}

    @pytest.mark.parametrize("mask", [1, 2])
    def test_masked_lm(self, mask: int) -> None:
        inputs = es.masked_lm(vocab=5, mask=mask, max_length=3)
        rows, others = drawn(inputs), set(range(mask + 1, 5))
        for row in rows:
            assert [label is not None for label in row[1]] == [token == mask for token in row[0]]
        assert {label for row in rows for label in row[1]} == {*others, None}
        assert {token for row in rows for token in row[0]} == {*others, mask}
        assert {len(row[0]) for row in rows} == {1, 2, 3}

    def test_token_classification(self) -> None:
        inputs = es.token_classification(vocab=4, classes=3, max_length=2)
        rows = drawn(inputs)
        assert {label for row in rows for label in row[1]} == {0, 1, 2, None}
        assert {token for row in rows for token in row[0]} == {1, 2, 3}
        assert inputs.collate([((1, 2), (0, None)), ((3,), (2,))])["labels"].tolist() == [[0, -100], [2, -100]]

    def test_sequence_classification(self) -> None:
        inputs = es.sequence_classification(vocab=4, classes=3, ignore_index=-7)
        assert labels_of(inputs) == {0, 1, 2}
        assert inputs.collate([((1, 2), 2), ((3,), None)])["labels"].tolist() == [2, -7]

    def test_multiple_choice(self) -> None:
        inputs = es.multiple_choice(vocab=4, choices=2, max_length=2)
        rows = drawn(inputs)
        assert {row[1] for row in rows} == {0, 1}
        assert {len(row[0]) for row in rows} == {2}
        batch = inputs.collate([(((1, 2), (3,)), 1)])
        assert batch["input_ids"].tolist() == [[[1, 2], [3, 0]]]
        assert batch["labels"].tolist() == [1]

    def test_sequence_to_sequence(self) -> None:
        inputs = es.sequence_to_sequence(vocab=4)
        batch = inputs.collate([((1, 2), (3,)), ((2,), (1, 2, 3))])
        assert batch["input_ids"].tolist() == [[1, 2], [2, 0]]
        assert batch["labels"].tolist() == [[3, -100, -100], [1, 2, 3]]

    def test_images(self) -> None:
        inputs = es.images(classes=3, shape=(1, 2, 2))
        rows = drawn(inputs)
        assert {row[1] for row in rows} == {0, 1, 2}
        assert {len(row[0]) for row in rows} == {4}
        assert {pixel for row in rows for pixel in row[0]} == {i / 4 for i in range(-4, 5)}
        batch = inputs.collate([((0.0, 0.25, 0.5, 1.0), 2)])
        assert batch["pixel_values"].tolist() == [[[[0.0, 0.25], [0.5, 1.0]]]]
        assert batch["labels"].tolist() == [2]
        assert inputs.corrupted
        assert inputs.corrupted(((1.0, 2.0), 1), math.inf) == ((math.inf, 2.0), 1)


class TestSamples:
    def test_rows_are_many_and_varied_as_often_as_few_and_alike(self) -> None:
        lists = drawn_with_seed(es.values().rows(min_size=0, max_size=6), count=200, seed=1)
        lengths = Counter(map(len, lists))
        assert set(lengths) == set(range(7))
        assert sum(length >= 3 for length in map(len, lists)) > 100
        # Of six samples hardly any are equal, but where a case has two kinds at most.
        assert sum(len(set(rows)) > 2 for rows in lists if len(rows) >= 4) > 0.6 * sum(n >= 4 for n in map(len, lists))
        assert any(len(set(rows)) == 1 for rows in lists if len(rows) >= 4)
        assert any(len(set(rows)) == 2 for rows in lists if len(rows) >= 4)

    def test_fixed_samples_alternate_right_any_wrong_any(self) -> None:
        inputs = es.binary()
        rows = inputs.fixed(8)
        assert inputs.right
        assert inputs.wrong
        assert [rows[i] == inputs.right(rows[i]) for i in (0, 4)] == [True, True]
        assert [rows[i] == inputs.wrong(rows[i]) for i in (2, 6)] == [True, True]
        assert rows == inputs.fixed(20)[:8] == inputs.fixed(8)
        assert len(inputs.fixed(20)) == 20

    def test_fixed_samples_may_be_changed_by_who_gets_them(self) -> None:
        inputs = es.responses()
        inputs.fixed(2)[0][0]["question"] = "changed"
        assert inputs.fixed(2)[0][0]["question"] != "changed"

    def test_too_few_different_samples_are_an_error(self) -> None:
        with pytest.raises(ValueError, match=r"\d+ different samples were drawn, 100 are needed"):
            es.retrieval().fixed(100)

    def test_ignored_samples(self) -> None:
        assert es.binary().fixed_ignored == []
        ignored = es.binary(ignore_index=-1).fixed_ignored
        assert (len(ignored), {row[1] for row in ignored}) == (3, {-1})

    @pytest.mark.parametrize(("side", "row"), [("right", [1, 2, 0, 0]), ("left", [0, 0, 1, 2])])
    def test_padding(self, side: Any, row: list[int]) -> None:
        from pytest_evalcheck.strategies.samples import padded

        assert padded([1, 2], side, 4, 0) == row
        assert padded([1, 2], side, 2, 0) == [1, 2]

    def test_arguments(self) -> None:
        from pytest_evalcheck.strategies import Arguments

        assert Arguments.of((1, 2)) == Arguments((1, 2), {})
        assert Arguments.of({"a": 1}) == Arguments((), {"a": 1})
        assert Arguments.of(Arguments((1,))) == Arguments((1,))
        for wrong in ([1], {1: 2}, None):
            with pytest.raises(TypeError, match="collate returned"):
                Arguments.of(wrong)

    def test_containers(self) -> None:
        from pytest_evalcheck.strategies.samples import to_container

        batch = {"x": 1, "labels": 2}
        assert to_container(batch, "nested") == {"inputs": {"x": 1}, "labels": 2}
        assert to_container({"x": 1}, "nested") == {"inputs": {"x": 1}}
        assert to_container(batch, "tuple") == (1, 2)
        assert to_container(batch, "list") == [1, 2]
        made = to_container(batch, "dataclass")
        assert (made.x, made.labels) == (1, 2)
        assert to_container([1], "tuple") == [1]
        with pytest.raises(ValueError, match="did you mean 'tuple'"):
            es.values().replace(containers=("tupel",))
        with pytest.raises(ValueError, match="expected a tuple of dict"):
            es.values().replace(containers=())

    def test_a_grid_has_its_step_and_its_ends(self) -> None:
        from pytest_evalcheck.strategies.samples import grid

        assert set(drawn_with_seed(grid(-0.5, 0.5), count=200, seed=0)) == {i / 8 for i in range(-4, 5)}
        assert set(drawn_with_seed(grid(1, 2, step=2), count=50, seed=0)) == {1.0, 1.5, 2.0}

    def test_one_value_that_is_rarely_found_is_drawn(self) -> None:
        from hypothesis import strategies as st

        rare = st.integers(0, 2000).filter(lambda value: value % 97 == 3)
        assert drawn_with_seed(rare, count=1, seed=0)[0] % 97 == 3
