"""One data set in several batchings, and the fixture `evalcheck_batchings`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pytest_evalcheck.expectations.comparison import Tolerance
from pytest_evalcheck.expectations.failures import CheckFailure
from pytest_evalcheck.integration.ordinary_tests.batchings import batchings
from pytest_evalcheck.testing import Project

DATA = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]


def mean(loader: Any) -> float:
    batches = [batch for batch in loader if len(batch)]
    return float(sum(batch.sum() for batch in batches) / sum(len(batch) for batch in batches))


def mean_of_means(loader: Any) -> float:
    means = [float(batch.mean()) for batch in loader if len(batch)]
    return sum(means) / len(means)


def tensor(rows: Sequence[float]) -> torch.Tensor:
    return torch.tensor(rows)


class TestPlans:
    @given(st.integers(1, 40), st.booleans())
    def test_every_batching_has_every_sample_once(self, count: int, order_matters: bool) -> None:
        result = batchings(list(range(count)), tensor, order_matters=order_matters)
        for batching in result:
            assert sorted(i for batch in batching.batches for i in batch) == list(range(count))
            assert [batch.tolist() for batch in batching] == [list(batch) for batch in batching.batches]
            assert len(batching) == len(batching.loader) == len(batching.batches)
            assert len(batching.loader.dataset) == count
            if order_matters:
                assert [i for batch in batching.batches for i in batch] == list(range(count))
        plans = [batching.batches for batching in result if batching.name != "cached batches"]
        assert len(set(plans)) == len(plans)
        assert not {batching.name for batching in result} & set(result.skipped)

    def test_batches_have_the_sizes_of_the_name(self) -> None:
        result = batchings(DATA, tensor)
        sizes = {batching.name: [len(batch) for batch in batching.batches] for batching in result}
        assert sizes == {
            "one batch": [7],
            "batches of one": [1] * 7,
            "last batch of one": [2, 2, 2, 1],
            "uneven batches": [1, 2, 3, 1],
            "large batch first": [6, 1],
            "empty batch between": [3, 0, 4],
            "reversed": [2, 2, 2, 1],
            "shuffled": [1, 2, 3, 1],
            "cached batches": [2, 2, 2, 1],
        }
        assert result["reversed"].batches[0] == (6, 5)
        assert result["shuffled"].batches != result["uneven batches"].batches
        assert result.skipped == {}

    def test_one_sample_has_few_batchings(self) -> None:
        result = batchings([1.0], tensor)
        assert [batching.name for batching in result] == ["one batch", "empty batch between", "cached batches"]
        assert result.skipped["batches of one"] == "with one sample it is 'one batch'"

    def test_an_empty_batch_needs_a_collate_that_takes_it(self) -> None:
        result = batchings(DATA)
        assert "does not take an empty batch: IndexError" in result.skipped["empty batch between"]
        with pytest.raises(KeyError, match="skipped: collate_fn does not take an empty batch"):
            result["empty batch between"]

    def test_cached_batches_are_the_same_objects_on_every_pass(self) -> None:
        result = batchings(DATA, tensor)
        first, second = list(result["cached batches"]), list(result["cached batches"])
        assert all(a is b for a, b in zip(first, second, strict=True))
        first, second = list(result["uneven batches"]), list(result["uneven batches"])
        assert not any(a is b for a, b in zip(first, second, strict=True))

    def test_loaders_are_those_of_torch(self) -> None:
        assert all(type(batching.loader) is torch.utils.data.DataLoader for batching in batchings(DATA, tensor))

    @pytest.mark.parametrize(
        ("dataset", "error", "message"),
        [
            ([], ValueError, "the data set is empty"),
            (iter(DATA), TypeError, "list_iterator, which cannot be indexed by sample; expected dataset"),
            ({"a": 1}, TypeError, "type dict, which cannot be indexed"),
            ("text", TypeError, "type str, which cannot be indexed"),
            (None, TypeError, "type NoneType, which cannot be indexed"),
        ],
    )
    def test_other_objects_than_data_sets_are_rejected(
        self, dataset: Any, error: type[Exception], message: str
    ) -> None:
        with pytest.raises(error, match=message):
            batchings(dataset)

    def test_an_iterable_data_set(self) -> None:
        class Endless(torch.utils.data.IterableDataset):  # type: ignore[type-arg]
            def __iter__(self) -> Any:
                return iter(DATA)

            def __len__(self) -> int:
                return 7

        class Unmeasured(torch.utils.data.Dataset):  # type: ignore[type-arg]
            def __getitem__(self, i: int) -> int:
                return i

        with pytest.raises(TypeError, match=r"Endless, which cannot be indexed.*such as list\(dataset\)"):
            batchings(Endless())
        with pytest.raises(TypeError, match="Unmeasured without a length"):
            batchings(Unmeasured())

    def test_a_collate_that_is_none(self) -> None:
        with pytest.raises(TypeError, match="collate_fn is 3; expected a function"):
            batchings(DATA, 3)  # type: ignore[arg-type]


class TestAgree:
    def test_a_correct_evaluation_returns_its_value(self) -> None:
        assert batchings(DATA, tensor).agree(mean) == 4.0

    def test_a_mean_of_means_is_reported_with_the_batching_and_its_batches(self) -> None:
        with pytest.raises(CheckFailure) as caught:
            batchings(DATA, tensor).agree(mean_of_means)
        assert str(caught.value).splitlines() == [
            "the value over 'last batch of one'",
            "    expected  4.0, as over 'one batch'",
            "    actual    4.375",
            "    batches=[[0, 1], [2, 3], [4, 5], [6]]",
            "    also over 'uneven batches', 'large batch first', 'empty batch between', 'reversed', 'shuffled', "
            "'cached batches'",
        ]

    def test_a_tolerance(self) -> None:
        assert batchings(DATA, tensor).agree(mean_of_means, tolerance=Tolerance(atol=3)) == 4.0
        with pytest.raises(TypeError, match=r"tolerance=0.1; expected Tolerance\(rtol"):
            batchings(DATA, tensor).agree(mean, tolerance=0.1)  # type: ignore[arg-type]

    def test_the_path_within_the_value_is_named(self) -> None:
        with pytest.raises(CheckFailure, match=r"the value over 'last batch of one' at \['mean'\]"):
            batchings(DATA, tensor).agree(lambda loader: {"n": 7, "mean": mean_of_means(loader)})

    def test_an_error_over_one_batching_only(self) -> None:
        def evaluate(loader: Any) -> float:
            return sum(float(batch.squeeze().sum(0) / batch.squeeze().size(0)) * len(batch) for batch in loader) / 7

        with pytest.raises(CheckFailure) as caught:
            batchings(DATA, tensor).agree(evaluate)
        text = str(caught.value)
        assert text.startswith("evaluate raised over 'batches of one'\n    expected  4.0, as over 'one batch'\n")
        assert "actual    evaluate raised IndexError" in text
        assert isinstance(caught.value.__cause__, IndexError)

    def test_an_error_over_one_batch_only(self) -> None:
        def evaluate(loader: Any) -> float:
            if len(loader) == 1:
                raise ValueError("too large")
            return mean(loader)

        with pytest.raises(CheckFailure, match=r"(?s)evaluate raised over 'one batch'.*as over 'batches of one'"):
            batchings(DATA, tensor).agree(evaluate)

    def test_an_error_over_all_batchings_is_raised_unchanged(self) -> None:
        def evaluate(loader: Any) -> float:
            raise ZeroDivisionError(str(len(list(loader))))

        with pytest.raises(ZeroDivisionError, match=r"^1$"):
            batchings(DATA, tensor).agree(evaluate)

    def test_an_evaluation_that_writes_into_its_batches(self) -> None:
        def evaluate(loader: Any) -> float:
            return sum(float(batch.mul_(2).sum()) for batch in loader)

        with pytest.raises(CheckFailure, match="the value over 'cached batches', the second time"):
            batchings(DATA, tensor).agree(evaluate)

    def test_one_result_per_sample(self) -> None:
        def evaluate(loader: Any) -> list[float]:
            return [float(value) for batch in loader for value in batch]

        assert batchings(DATA, tensor, order_matters=True).agree(evaluate) == DATA
        with pytest.raises(CheckFailure, match="order_matters=True keeps the samples in order"):
            batchings(DATA, tensor).agree(evaluate)

    def test_an_evaluation_without_a_value_or_a_loader_is_rejected(self) -> None:
        with pytest.raises(CheckFailure, match="evaluate did not read its loader"):
            batchings(DATA, tensor).agree(lambda loader: 4.0)
        with pytest.raises(TypeError, match="evaluate returned None"):
            batchings(DATA, tensor).agree(lambda loader: [None for _ in loader] and None)
        with pytest.raises(TypeError, match="evaluate is 3; expected a function that takes a loader"):
            batchings(DATA, tensor).agree(3)  # type: ignore[arg-type]


def test_the_fixture(project: Project) -> None:
    project.write(
        """
        import torch

        def test_broken(evalcheck_batchings):
            def evaluate(loader):
                means = [float(batch.mean()) for batch in loader]
                return sum(means) / len(means)
            evalcheck_batchings([1.0, 2.0, 6.0]).agree(evaluate)

        def test_each(evalcheck_batchings):
            for batching in evalcheck_batchings([1.0, 2.0, 6.0]):
                assert sum(float(batch.sum()) for batch in batching) == 9.0
        """,
        name="test_example.py",
        header="",
    )
    result = project.run(code=1, evalcheck=False)
    assert result.outcomes == {"passed": 1, "failed": 1}
    result.shows("CheckFailure: the value over 'last batch of one'", "batches=[[0, 1], [2]]")
