"""The fixtures for ordinary tests, and what they are made of."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from target_files import Suite

from pytest_evalcheck.expectations.comparison import Tolerance
from pytest_evalcheck.expectations.failures import CheckFailure
from pytest_evalcheck.integration.batchings import streams

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
    def test_every_plan_holds_every_sample_once(self, count: int, order_matters: bool) -> None:
        made = streams(list(range(count)), tensor, order_matters=order_matters)
        for stream in made:
            assert sorted(i for batch in stream.batches for i in batch) == list(range(count))
            assert [batch.tolist() for batch in stream] == [list(batch) for batch in stream.batches]
            assert len(stream) == len(stream.loader) == len(stream.batches)
            assert len(stream.loader.dataset) == count
            if order_matters:
                assert [i for batch in stream.batches for i in batch] == list(range(count))
        plans = [stream.batches for stream in made if stream.name != "cached batches"]
        assert len(set(plans)) == len(plans)
        assert not {stream.name for stream in made} & set(made.left_out)

    def test_each_is_cut_as_its_name_says(self) -> None:
        made = streams(DATA, tensor)
        sizes = {stream.name: [len(batch) for batch in stream.batches] for stream in made}
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
        assert made["reversed"].batches[0] == (6, 5)
        assert made["shuffled"].batches != made["uneven batches"].batches
        assert made.left_out == {}

    def test_one_sample_has_few_cuts(self) -> None:
        made = streams([1.0], tensor)
        assert [stream.name for stream in made] == ["one batch", "empty batch between", "cached batches"]
        assert made.left_out["batches of one"] == "with one sample it is 'one batch'"

    def test_an_empty_batch_needs_a_collate_that_takes_it(self) -> None:
        made = streams(DATA)
        assert "does not take an empty batch: IndexError" in made.left_out["empty batch between"]
        with pytest.raises(KeyError, match="left out: collate_fn does not take an empty batch"):
            made["empty batch between"]

    def test_cached_batches_are_the_same_objects_on_every_pass(self) -> None:
        made = streams(DATA, tensor)
        first, second = list(made["cached batches"]), list(made["cached batches"])
        assert all(a is b for a, b in zip(first, second, strict=True))
        first, second = list(made["uneven batches"]), list(made["uneven batches"])
        assert not any(a is b for a, b in zip(first, second, strict=True))

    def test_loaders_are_torchs_own(self) -> None:
        assert all(type(stream.loader) is torch.utils.data.DataLoader for stream in streams(DATA, tensor))

    @pytest.mark.parametrize(
        ("dataset", "error", "said"),
        [
            ([], ValueError, "the data set is empty"),
            (iter(DATA), TypeError, "list_iterator, which cannot be cut again and again; expected dataset"),
            ({"a": 1}, TypeError, "type dict, which cannot be cut"),
            ("text", TypeError, "type str, which cannot be cut"),
            (None, TypeError, "type NoneType, which cannot be cut"),
        ],
    )
    def test_what_is_no_data_set(self, dataset: Any, error: type[Exception], said: str) -> None:
        with pytest.raises(error, match=said):
            streams(dataset)

    def test_an_iterable_data_set(self) -> None:
        class Endless(torch.utils.data.IterableDataset):  # type: ignore[type-arg]
            def __iter__(self) -> Any:
                return iter(DATA)

            def __len__(self) -> int:
                return 7

        class Unmeasured(torch.utils.data.Dataset):  # type: ignore[type-arg]
            def __getitem__(self, i: int) -> int:
                return i

        with pytest.raises(TypeError, match=r"Endless, which cannot be cut.*such as list\(dataset\)"):
            streams(Endless())
        with pytest.raises(TypeError, match="Unmeasured without a length"):
            streams(Unmeasured())

    def test_a_collate_that_is_none(self) -> None:
        with pytest.raises(TypeError, match="collate_fn is 3; expected a function"):
            streams(DATA, 3)  # type: ignore[arg-type]


class TestAgree:
    def test_a_sound_evaluation_gives_its_value(self) -> None:
        assert streams(DATA, tensor).agree(mean) == 4.0

    def test_a_mean_of_means_names_the_stream_and_its_plan(self) -> None:
        with pytest.raises(CheckFailure) as caught:
            streams(DATA, tensor).agree(mean_of_means)
        assert str(caught.value).splitlines() == [
            "the value over 'last batch of one'",
            "    expected  4.0, as over 'one batch'",
            "    actual    4.375",
            "    batches=[[0, 1], [2, 3], [4, 5], [6]]",
            "    also over 'uneven batches', 'large batch first', 'empty batch between', 'reversed', 'shuffled', "
            "'cached batches'",
        ]

    def test_a_tolerance(self) -> None:
        assert streams(DATA, tensor).agree(mean_of_means, tolerance=Tolerance(atol=3)) == 4.0
        with pytest.raises(TypeError, match=r"tolerance=0.1; expected Tolerance\(rtol"):
            streams(DATA, tensor).agree(mean, tolerance=0.1)  # type: ignore[arg-type]

    def test_a_place_within_the_value_is_named(self) -> None:
        with pytest.raises(CheckFailure, match=r"the value over 'last batch of one' at \['mean'\]"):
            streams(DATA, tensor).agree(lambda loader: {"n": 7, "mean": mean_of_means(loader)})

    def test_an_error_over_one_stream_alone(self) -> None:
        def evaluate(loader: Any) -> float:
            return sum(float(batch.squeeze().sum(0) / batch.squeeze().size(0)) * len(batch) for batch in loader) / 7

        with pytest.raises(CheckFailure) as caught:
            streams(DATA, tensor).agree(evaluate)
        text = str(caught.value)
        assert text.startswith("evaluate raised over 'batches of one'\n    expected  4.0, as over 'one batch'\n")
        assert "actual    evaluate raised IndexError" in text
        assert isinstance(caught.value.__cause__, IndexError)

    def test_an_error_over_the_whole_alone(self) -> None:
        def evaluate(loader: Any) -> float:
            if len(loader) == 1:
                raise ValueError("too large")
            return mean(loader)

        with pytest.raises(CheckFailure, match=r"(?s)evaluate raised over 'one batch'.*as over 'batches of one'"):
            streams(DATA, tensor).agree(evaluate)

    def test_an_error_over_all_of_them_is_raised_as_it_is(self) -> None:
        def evaluate(loader: Any) -> float:
            raise ZeroDivisionError(str(len(list(loader))))

        with pytest.raises(ZeroDivisionError, match=r"^1$"):
            streams(DATA, tensor).agree(evaluate)

    def test_an_evaluation_that_writes_into_its_batches(self) -> None:
        def evaluate(loader: Any) -> float:
            return sum(float(batch.mul_(2).sum()) for batch in loader)

        with pytest.raises(CheckFailure, match="the value over 'cached batches', the second time"):
            streams(DATA, tensor).agree(evaluate)

    def test_results_of_one_a_sample(self) -> None:
        def evaluate(loader: Any) -> list[float]:
            return [float(value) for batch in loader for value in batch]

        assert streams(DATA, tensor, order_matters=True).agree(evaluate) == DATA
        with pytest.raises(CheckFailure, match="order_matters=True keeps the samples in order"):
            streams(DATA, tensor).agree(evaluate)

    def test_an_evaluation_that_proves_nothing(self) -> None:
        with pytest.raises(CheckFailure, match="evaluate did not read its loader"):
            streams(DATA, tensor).agree(lambda loader: 4.0)
        with pytest.raises(TypeError, match="evaluate returned None"):
            streams(DATA, tensor).agree(lambda loader: [None for _ in loader] and None)
        with pytest.raises(TypeError, match="evaluate is 3; expected a function that takes a loader"):
            streams(DATA, tensor).agree(3)  # type: ignore[arg-type]


class TestInATest:
    def test_the_guard_within_with(self, suite: Suite) -> None:
        suite.write(
            """
            def test_kept(evalcheck_unchanged):
                with evalcheck_unchanged({"labels": [1, 2]}) as batch:
                    sum(batch["labels"])

            def test_broken(evalcheck_unchanged):
                with evalcheck_unchanged({"labels": [1, 2]}, name="inputs") as batch:
                    batch.pop("labels")
            """,
            name="test_example.py",
            header="",
        )
        result = suite.run(code=1, evalcheck=False)
        assert result.outcomes == {"passed": 1, "failed": 1}
        result.said("CheckFailure: the inputs was changed", "inputs['labels'] is gone")

    def test_the_guard_until_the_end_of_the_test(self, suite: Suite) -> None:
        suite.write(
            """
            import torch

            def test_kept(evalcheck_unchanged):
                evalcheck_unchanged({"labels": [1, 2]})

            def test_broken(evalcheck_unchanged):
                batch = {"labels": torch.tensor([[1, 7]])}
                evalcheck_unchanged(batch)
                batch["labels"].data[0, 1] = -100
            """,
            name="test_example.py",
            header="",
        )
        result = suite.run(code=1, evalcheck=False)
        assert result.outcomes == {"passed": 2, "errors": 1}
        result.said("ERROR at teardown of test_broken", "batch['labels'][0, 1]: 7 became -100")

    def test_every_batch_that_changed_is_told(self, suite: Suite) -> None:
        suite.write(
            """
            def test_broken(evalcheck_unchanged):
                first, second = {"n": 1}, {"n": 1}
                evalcheck_unchanged(first, name="first")
                evalcheck_unchanged(second, name="second")
                first["n"] = second["n"] = 2
            """,
            name="test_example.py",
            header="",
        )
        suite.run(code=1, evalcheck=False).said("first['n']: 1 became 2", "second['n']: 1 became 2")

    def test_the_streams(self, suite: Suite) -> None:
        suite.write(
            """
            import torch

            def test_broken(evalcheck_streams):
                def evaluate(loader):
                    means = [float(batch.mean()) for batch in loader]
                    return sum(means) / len(means)
                evalcheck_streams([1.0, 2.0, 6.0]).agree(evaluate)

            def test_each(evalcheck_streams):
                for stream in evalcheck_streams([1.0, 2.0, 6.0]):
                    assert sum(float(batch.sum()) for batch in stream) == 9.0
            """,
            name="test_example.py",
            header="",
        )
        result = suite.run(code=1, evalcheck=False)
        assert result.outcomes == {"passed": 1, "failed": 1}
        result.said("CheckFailure: the value over 'last batch of one'", "batches=[[0, 1], [2]]")

    def test_the_guard_brings_no_torch_into_a_test_without_tensors(self, pytester: pytest.Pytester) -> None:
        pytester.makeconftest(
            "import json, sys\n"
            "def pytest_unconfigure(config):\n"
            "    with open('modules.json', 'w') as out: json.dump(sorted(sys.modules), out)"
        )
        pytester.makepyfile("def test_one(evalcheck_unchanged): evalcheck_unchanged([1])")
        pytester.runpytest_subprocess("-p", "no:hypothesispytest", "-p", "no:randomly").assert_outcomes(passed=1)
        loaded = set(json.loads((pytester.path / "modules.json").read_text()))
        assert "pytest_evalcheck.guard" in loaded
        assert not loaded & {"torch", "hypothesis", "pytest_evalcheck.integration.session"}
