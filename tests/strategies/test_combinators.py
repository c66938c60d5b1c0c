"""Other names, another order and other types for what a strategy collates."""

from __future__ import annotations

import doctest
import importlib
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import strategies as st

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es
from pytest_evalcheck.kinds.common.tensors import overwrite
from pytest_evalcheck.strategies import Arguments, SampleStrategy

one = es.samples(st.integers(0, 9), collate=lambda rows: (torch.tensor(rows, dtype=torch.int64),), name="one")
texts = es.text_pairs()
mixed = es.samples(
    st.integers(0, 9),
    collate=lambda rows: Arguments((torch.tensor(rows, dtype=torch.int64),), {"weight": torch.ones(len(rows))}),
    name="mixed",
)
a_list = es.prompts(vocab=9)


class TestNamed:
    def test_positional_arguments_get_names(self) -> None:
        plain, named = es.regression(), es.regression().named("y_pred", "y_true")
        batch = named.example(3)
        assert list(batch) == ["y_pred", "y_true"]
        assert all(torch.equal(a, b) for a, b in zip(batch.values(), plain.example(3), strict=True))
        assert list(named.collate([])) == ["y_pred", "y_true"]

    def test_fields_get_other_names(self) -> None:
        assert list(es.retrieval().named("a", "b", "c").example(2)) == ["a", "b", "c"]
        assert list(es.retrieval().named(preds="scores").example(2)) == ["scores", "target", "indexes"]

    def test_positional_arguments_beside_named_ones(self) -> None:
        assert list(mixed.named("x").example(2)) == ["x", "weight"]
        renamed = mixed.named(weight="w").example(2)
        assert (len(renamed.args), list(renamed.kwargs)) == (1, ["w"])

    def test_the_field_of_the_labels_is_followed(self) -> None:
        named = es.tabular(features=2, classes=3).named(labels="y")
        assert (named.labels, list(named.example(2))) == ("y", ["x", "y"])
        with pytest.raises(ValueError, match=r"gives another name to 'labels'.*named\(labels=\.\.\.\)"):
            es.tabular(features=2, classes=3).named("x", "y").example(2)

    @pytest.mark.parametrize(
        ("inputs", "names", "others", "said"),
        [
            (es.regression(), ("a",), {}, r"named\('a'\) has 1 name for 2 positional arguments; expected 2"),
            (one, ("a", "b"), {}, r"named\('a', 'b'\) has 2 names for 1 positional argument; expected 1"),
            (es.retrieval(), ("a",), {}, r"3 fields \(preds, target, indexes\); expected 3"),
            (es.retrieval(), (), {"pred": "x"}, r"there is no such field; did you mean 'preds'\?; there is preds, "),
            (es.retrieval(), (), {"preds": "target"}, "two fields of one name"),
            (es.regression(), (), {"preds": "x"}, r"arguments have no names yet: named\('preds', 'target'\)"),
            (mixed, ("weight",), {}, "gives the name 'weight' to a second argument"),
            (a_list, ("a",), {}, r"named\(\) needs a collate that returns a tuple or a dict .* it returned list"),
        ],
    )
    def test_names_that_do_not_fit_the_batch(self, inputs: SampleStrategy, names: Any, others: Any, said: str) -> None:
        with pytest.raises((TypeError, ValueError), match=said):
            inputs.named(*names, **others).example(2)

    @pytest.mark.parametrize(
        ("names", "others", "said"),
        [
            ((), {}, r"named\(\): expected a name for each argument"),
            ((3,), {}, r"named\(3\): 3 is no name; expected texts"),
            (("",), {}, "'' is no name"),
            (("a", "a"), {}, "a name is given twice"),
            (("a",), {"b": "c"}, r"named\('a', b='c'\): expected a name for each argument"),
            ((), {"b": 3}, "3 is no name"),
        ],
    )
    def test_names_that_cannot_be_meant(self, names: Any, others: Any, said: str) -> None:
        with pytest.raises((TypeError, ValueError), match=said):
            es.regression().named(*names, **others)


class TestSwapped:
    def test_the_first_two_arguments(self) -> None:
        preds, weight = es.values(weighted=True).example(3)
        again = es.values(weighted=True).swapped().example(3)
        assert torch.equal(again[0], weight)
        assert torch.equal(again[1], preds)

    def test_then_named(self) -> None:
        batch = es.binary().swapped().named("y_true", "y_pred").example(2)
        assert batch["y_true"].dtype is torch.int64

    @pytest.mark.parametrize(
        ("inputs", "said"),
        [
            (one, r"swapped\(\) exchanges two arguments; the collate returned 1"),
            (es.retrieval(), r"here all have names, fields \(preds, target, indexes\)"),
            (a_list, "it returned list"),
        ],
    )
    def test_what_cannot_be_swapped(self, inputs: SampleStrategy, said: str) -> None:
        with pytest.raises((TypeError, ValueError), match=said):
            inputs.swapped().example(2)


class TestTypes:
    def test_integers_become_floats(self) -> None:
        assert [t.dtype for t in es.multiclass(classes=3).as_float().example(2)] == [torch.float32] * 2
        assert [t.dtype for t in es.multiclass(classes=3).as_float(0).example(2)] == [torch.float32, torch.int64]
        named = es.retrieval().as_float("target").example(2)
        assert (named["target"].dtype, named["indexes"].dtype) == (torch.float32, torch.int64)
        assert not es.multiclass(classes=3).as_float().integers

    def test_booleans_stay(self) -> None:
        masks = es.samples(st.booleans(), collate=lambda rows: (torch.tensor(rows, dtype=torch.bool),))
        assert masks.as_float().example(2)[0].dtype is torch.bool

    def test_tensors_in_nested_values(self) -> None:
        nested = es.samples(st.integers(0, 3), collate=lambda rows: ([{"n": torch.tensor([row])} for row in rows],))
        ((first, *_),) = nested.as_float().example(2)
        assert first["n"].dtype is torch.float32
        assert nested.as_float().collate([]) == ([],)

    def test_arrays_and_lists(self) -> None:
        arrays = es.regression(outputs=2).as_numpy()
        assert [(type(a), a.dtype, a.shape) for a in arrays.example(3)] == [(np.ndarray, np.float32, (3, 2))] * 2
        lists = es.multiclass(classes=3).as_list()
        preds, target = lists.example(3)
        assert {type(value) for value in (*preds, *target)} == {int}
        assert [s.bulk for s in (arrays, lists)] == [None, None]

    @pytest.mark.parametrize(
        ("call", "said"),
        [
            (lambda: texts.as_float().example(2), r"as_float\(\) changes tensors, and the batch has none.* type str"),
            (lambda: texts.as_numpy().example(2), "the batch has none"),
            (lambda: es.binary().as_float(2).example(2), "there is no such argument among positional arguments"),
            (lambda: es.retrieval().as_float("targets").example(2), r"among fields .*did you mean 'target'\?"),
            (lambda: es.binary().as_float(-1), "counted from 0"),
            (lambda: es.binary().as_float(True), "expected the place of an argument"),
            (lambda: es.binary().as_float(1.0), "expected the place of an argument"),
        ],
    )
    def test_what_cannot_be_changed(self, call: Callable[[], Any], said: str) -> None:
        with pytest.raises((TypeError, ValueError), match=said):
            call()

    def test_an_array_is_overwritten_like_a_tensor(self) -> None:
        arrays = {"preds": np.arange(4), "target": np.arange(4), "text": np.array(["a", "b"], dtype=object)}
        overwrite({name: arrays[name] for name in ("preds", "target")})
        assert not np.array_equal(arrays["preds"], arrays["target"])
        flipped = np.arange(4.0)[::-1]
        overwrite(flipped)
        assert flipped.tolist() == [4.0, 3.0, 2.0, 1.0]
        fixed = np.arange(4)
        fixed.flags.writeable = False
        overwrite(fixed)
        assert fixed.tolist() == [0, 1, 2, 3]


class TestAll:
    CHANGES = {
        "named": lambda s: s.named("a", "b"),
        "swapped": lambda s: s.swapped(),
        "as_float": lambda s: s.as_float(),
        "as_numpy": lambda s: s.as_numpy(),
        "as_list": lambda s: s.as_list(),
    }

    @pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
    def test_the_samples_are_the_same(self, change: Callable[[SampleStrategy], SampleStrategy]) -> None:
        plain = es.multiclass(classes=3, of="logits", ignore_index=-100)
        changed = change(plain)
        assert changed.fixed(4) == plain.fixed(4)
        assert changed.fixed_ignored == plain.fixed_ignored
        for name in ("right", "wrong", "contrast", "corrupted", "distinct"):
            assert getattr(changed, name) is getattr(plain, name)
        rows = [*changed.contrast, *changed.fixed_ignored, changed.corrupted(changed.fixed(1)[0], float("nan"))]  # type: ignore[misc]
        assert len(Arguments.of(changed.collate(rows)).args or Arguments.of(changed.collate(rows)).kwargs) == 2

    def test_padded_batches_are_changed_at_every_width(self) -> None:
        changed = es.causal_lm(vocab=9).as_float("labels").named(labels="y")
        padding = changed.padding
        assert padding is not None
        wide = padding.collate(changed.fixed(2), "right", (7,))
        assert (wide["y"].shape, wide["y"].dtype) == ((2, 7), torch.float32)
        assert changed.example(2)["y"].dtype is torch.float32

    def test_a_loader_can_pickle_the_collate(self) -> None:
        changed = es.tabular(features=2, classes=3).as_float("labels").named(labels="y")
        again = pickle.loads(pickle.dumps(changed.collate))
        assert list(again(changed.fixed(2))) == ["x", "y"]

    def test_an_example_needs_a_count(self) -> None:
        with pytest.raises(ValueError, match=r"example\(-1\): expected a number of samples"):
            es.binary().example(-1)
        assert len(es.binary().example(0)[0]) == 0
        with pytest.raises(ValueError, match="99 are needed"):
            es.samples(st.booleans(), collate=tuple, distinct=bool).example(99)

    def test_a_metric_that_takes_other_names_is_tried_and_its_bug_is_found(self) -> None:
        class Mean:
            def __init__(self) -> None:
                self.sums: list[float] = []

            def update(self, *, y_true: Any, y_pred: Any) -> None:
                self.sums.append(float(abs(y_true - y_pred).mean()))

            def compute(self) -> float:
                return sum(self.sums) / len(self.sums)

        inputs = es.regression().swapped().named("y_true", "y_pred")
        target = ec.metric(inputs=inputs)(lambda: ec.Metric.of(Mean()))
        cells = {cell.code: cell.outcome for cell in ec.run(target, select="EC201,EC206,EC218", effort="quick").cells}
        assert cells == {"EC201": "failed", "EC206": "passed", "EC218": "passed"}

    def test_names_that_do_not_fit_are_an_error_of_the_target(self) -> None:
        target = ec.metric(inputs=es.regression().named("a"))(lambda: ec.Metric(update=print, compute=int))
        (cell,) = ec.run(target, select="EC201").cells
        assert (cell.outcome, cell.cause) == ("failed", "target error")
        assert cell.failure is not None
        assert "named('a') has 1 name for 2 positional arguments" in cell.failure.actual


@pytest.mark.parametrize("module", ["samples"])
def test_the_examples_of_docstrings_are_right(module: str) -> None:
    found = doctest.testmod(importlib.import_module(f"pytest_evalcheck.strategies.{module}"))
    assert found.attempted
    assert not found.failed


def test_the_examples_of_the_page_are_right() -> None:
    found = doctest.testfile(str(Path(__file__).parents[2] / "docs" / "inputs.md"), module_relative=False)
    assert found.attempted
    assert not found.failed


def test_the_page_has_every_strategy() -> None:
    page = (Path(__file__).parents[2] / "docs" / "inputs.md").read_text(encoding="utf-8")
    made = [name for name in es.__all__ if name not in ("Arguments", "Bulk", "Padding", "Rewriting", "SampleStrategy")]
    assert [name for name in made if f"`{name}(" not in page] == []
