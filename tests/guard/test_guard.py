"""Reports of a guard about a batch that was changed."""

from __future__ import annotations

import array
import sys
from collections import OrderedDict, UserDict, defaultdict, deque
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from guarded_batches import Change, Output, Pair, Record, Slotted, batch, changes, put
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_evalcheck.expectations.failures import CheckFailure
from pytest_evalcheck.guard import Snapshot, unchanged


def test_a_batch_that_is_left_alone_has_no_changes() -> None:
    def read(made: dict[str, Any]) -> None:
        made["ids"].float().mul_(2)
        made["labels"].clone()[0] = 1
        made["nested"][1]["scores"].sum()
        made["n"] = 3

    assert changes(batch(), read) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda b: b.pop("labels"), ["batch['labels'] is gone"]),
        (lambda b: b.update(extra=1), ["batch['extra'] was added"]),
        (put("labels", (1, 1), -100), ["batch['labels'][1, 1]: 7 became -100"]),
        (lambda b: b["labels"].fill_(-100), ["batch['labels'][0, 0]: 1 became -100 (and 3 more)"]),
        (lambda b: b["labels"].data.view(-1).__setitem__(3, -100), ["batch['labels'][1, 1]: 7 became -100"]),
        (lambda b: b["ids"].T[2].__setitem__(1, 9), ["batch['ids'][1, 2]: 5 became 9"]),
        (lambda b: b["nested"][0].numpy().__setitem__(1, 5.0), ["batch['nested'][0][1]: 0.0 became 5.0"]),
        (put("nested", 0, 5), ["batch['nested'][0]: a tensor of float32 and shape (2,) became 5"]),
        (lambda b: b["nested"][0].neg_(), ["batch['nested'][0][0]: 0.0 became -0.0 (and 1 more)"]),
        (
            lambda b: b["nested"][1]["scores"].__setitem__(0, np.nan),
            ["batch['nested'][1]['scores'][0]: 1.0 became nan"],
        ),
        (lambda b: b["nested"][1]["text"].__setitem__(0, "z"), ["batch['nested'][1]['text'][0]: 'a' became 'z'"]),
        (lambda b: b["nested"][1]["text"].append("c"), ["batch['nested'][1]['text'][2] was added"]),
        (
            lambda b: b["nested"][1]["text"].extend("cde"),
            ["batch['nested'][1]['text'][2] was added (and 2 more)"],
        ),
        (lambda b: b["nested"][1]["text"].clear(), ["batch['nested'][1]['text'][0] is gone (and 1 more)"]),
        (lambda b: b.update(n=4), ["batch['n']: 3 became 4"]),
        (lambda b: b.update(n=3.0), ["batch['n']: 3 became 3.0"]),
        (lambda b: b.update(n=True), ["batch['n']: 3 became True"]),
        (
            lambda b: b.update(ids=b["ids"].clone()),
            ["batch['ids'] was replaced by another tensor of equal values"],
        ),
        (
            lambda b: b.update(labels=b["labels"] + 1),
            ["batch['labels'][0, 0]: 1 became 2 (and 3 more), in another tensor"],
        ),
        (
            lambda b: b.update(ids=b["ids"].float()),
            ["batch['ids']: a tensor of int64 and shape (2, 3) became a tensor of float32 and shape (2, 3)"],
        ),
        (
            lambda b: b.update(ids=b["labels"].view(4)),
            [
                "batch['ids']: a tensor of int64 and shape (2, 3) became a tensor of int64 and shape (4,), "
                "which shares memory with batch['labels']"
            ],
        ),
        (lambda b: b["ids"].t_(), ["batch['ids']: shape (2, 3) became (3, 2), stride (3, 1) became (1, 3)"]),
        (lambda b: b["nested"][0].requires_grad_(), ["batch['nested'][0]: requires_grad False became True"]),
        (lambda b: b.update(nested=tuple(b["nested"])), ["batch['nested']: a list became a tuple"]),
        (
            lambda b: b.update(nested=list(b["nested"])),
            ["batch['nested'] was replaced by another list of equal content"],
        ),
        (
            lambda b: b.update(ids=b.pop("ids")),
            ["batch: keys ['ids', 'labels', 'nested', 'n'] became ['labels', 'nested', 'n', 'ids']"],
        ),
        (lambda b: setattr(b["ids"], "seen", True), ["batch['ids'].seen was added"]),
    ],
)
def test_every_change_is_named_with_its_place(change: Change, said: list[str]) -> None:
    assert changes(batch(), change) == said


def test_what_is_popped_is_watched_on() -> None:
    def shift(made: dict[str, Any]) -> None:
        labels = made.pop("labels")
        labels[1, 1] = -100

    assert changes(batch(), shift) == ["batch['labels'] is gone", "what was batch['labels'][1, 1]: 7 became -100"]


def test_what_is_inside_of_something_popped_is_watched_on() -> None:
    def change(made: dict[str, Any]) -> None:
        made.pop("nested")[1]["text"].append("c")

    assert changes(batch(), change) == [
        "batch['nested'] is gone",
        "what was batch['nested'][1]['text'][2] was added",
    ]


@pytest.mark.parametrize(
    ("made", "change", "said"),
    [
        (UserDict(a=[1]), lambda b: b["a"].append(2), "batch['a'][1] was added"),
        (UserDict(a=1), lambda b: b.data.pop("a"), "batch['a'] is gone"),
        (UserDict(a=1), lambda b: setattr(b, "data", dict(b.data)), "batch.data was replaced by another dict"),
        (UserDict(a=1), lambda b: setattr(b, "stale", 1), "batch.stale was added"),
        ({"b": UserDict(a=1)}, lambda b: b.update(b=dict(b["b"])), "batch['b']: a UserDict became a dict"),
        (defaultdict(list, a=1), lambda b: b["missing"], "batch['missing'] was added"),
        (OrderedDict(a=1, b=2), lambda b: b.move_to_end("a"), "batch: keys ['a', 'b'] became ['b', 'a']"),
        ({1: "x"}, lambda b: (b.pop(1), b.update({True: "x"})), "batch: keys [1] became [True]"),
        (deque([1, 2]), lambda b: b.rotate(1), "batch[0]: 1 became 2 (and 1 more)"),
        (([1],), lambda b: b[0].append(2), "batch[0][1] was added"),
        (Pair([1], 2), lambda b: b.ids.append(2), "batch.ids[1] was added"),
        ({"s": {1, 2}}, lambda b: b["s"].add(3), "batch['s']{3} was added"),
        ({"s": {1, 2}}, lambda b: b["s"].discard(1), "batch['s']{1} is gone"),
        (Record(torch.zeros(2)), lambda b: b.ids.add_(1), "batch.ids[0]: 0.0 became 1.0 (and 1 more)"),
        (Record(torch.zeros(2)), lambda b: setattr(b, "extra", [1, 2]), "batch.extra was replaced by another list"),
        (Record(torch.zeros(2)), lambda b: delattr(b, "extra"), "batch.extra is gone"),
        (SimpleNamespace(a=[1]), lambda b: b.a.append(2), "batch.a[1] was added"),
        (Slotted(), lambda b: b.label.append(4), "batch.label[1] was added"),
        (Slotted(), lambda b: b.hide(), "batch.__hidden[0]: 4 became 9"),
        ({"b": bytearray(b"ab")}, lambda b: b["b"].__setitem__(1, 0), "batch['b'][1]: 98 became 0"),
        ({"b": bytearray(b"ab")}, lambda b: b["b"].append(0), "batch['b']: length 2 became 3"),
        ({"b": bytearray(100_000)}, lambda b: b["b"].__setitem__(1, 1), "batch['b'][1]: 0 became 1"),
        ({"b": array.array("d", [1, 2])}, lambda b: b["b"].__setitem__(0, 5), "batch['b'][0]: 1.0 became 5.0"),
        ({"o": np.array([None, [1]], dtype=object)}, lambda b: b["o"][1].append(2), "batch['o'][1][1] was added"),
        ({"o": np.array([None, 1], dtype=object)}, put("o", 0, 5), "batch['o'][0]: None became 5"),
    ],
)
def test_every_container_is_looked_into(made: Any, change: Change, said: str) -> None:
    lines = changes(made, change)
    assert len(lines) == 1
    assert lines[0].startswith(said), lines


def test_an_item_that_is_an_attribute_too_is_named_once() -> None:
    made = Output()
    made.logits = torch.zeros(2)
    assert changes(made, lambda o: setattr(o, "logits", 1)) == [
        "batch['logits']: a tensor of float32 and shape (2,) became 1"
    ]


def test_an_object_whose_class_changed() -> None:
    class Left:
        pass

    class Right:
        pass

    assert changes(Left(), lambda left: setattr(left, "__class__", Right)) == ["batch: a Left became a Right"]


def test_circles_end() -> None:
    made: dict[str, Any] = {"list": []}
    made["self"] = made
    made["list"].append(made["list"])
    assert changes(made, lambda b: b["list"].append(1)) == ["batch['list'][1] was added"]


def test_modules_classes_and_functions_are_not_looked_into() -> None:
    def call() -> None: ...

    def change(made: dict[str, Any]) -> None:
        made["model"].weight.data.add_(1)
        made["class"].attribute = 2
        made["call"].attribute = 2

    class Plain:
        attribute = 1

    made = {"model": torch.nn.Linear(1, 1), "class": Plain, "call": call}
    assert changes(made, change) == []
    assert changes(made, lambda b: b.update(model=torch.nn.Linear(1, 1))) == [
        "batch['model'] was replaced by another Linear"
    ]


class TestFast:
    @pytest.mark.parametrize("nest", [False, True])
    @pytest.mark.parametrize(
        ("change", "said"),
        [
            (lambda b: b["x"].add_(1), "['x']: was written to in place (version 0 became 1)"),
            (lambda b: b["x"][1:].zero_(), "['x']: was written to in place (version 0 became 1)"),
            (lambda b: b.pop("x"), "['x'] is gone"),
            (lambda b: b.update(y=1), "['y'] was added"),
            (lambda b: b.update(n=2), "['n']: 1 became 2"),
            (lambda b: b.update(x=b.pop("x")), ": keys ['x', 'n'] became ['n', 'x']"),
            (lambda b: b.update(x=b["x"].clone()), "['x'] was replaced by another tensor"),
            (lambda b: setattr(b["x"], "seen", 1), "['x'].seen was added"),
        ],
    )
    def test_what_it_sees(self, change: Change, said: str, nest: bool) -> None:
        made: Any = {"x": torch.zeros(3), "n": 1}
        path = "batch[0]" if nest else "batch"
        assert changes([made] if nest else made, lambda b: change(made), fast=True) == [f"{path}{said}"]

    @pytest.mark.parametrize(
        "change",
        [
            lambda b: b["x"].data.add_(1),
            lambda b: b["x"].numpy().__iadd__(1),
            lambda b: b["array"].__iadd__(1),
            lambda b: b["bytes"].__setitem__(0, 1),
            lambda b: _infer(b["inferred"]),
        ],
        ids=["data", "through numpy", "array", "buffer", "inference tensor"],
    )
    def test_what_it_cannot_see(self, change: Change) -> None:
        def made() -> dict[str, Any]:
            with torch.inference_mode():
                inferred = torch.zeros(2)
            return {"x": torch.zeros(3), "array": np.zeros(3), "bytes": bytearray(2), "inferred": inferred}

        assert changes(made(), change, fast=True) == []
        assert len(changes(made(), change)) == 1

    def test_a_batch_of_two_kinds_of_tensor_is_no_hindrance(self) -> None:
        made = {"x": torch.zeros(3), "y": torch.eye(2).to_sparse()}
        assert changes(made, lambda b: b["x"].add_(1), fast=True) == [
            "batch['x']: was written to in place (version 0 became 1)"
        ]


def _infer(tensor: torch.Tensor) -> None:
    with torch.inference_mode():
        tensor.add_(1)


class TestUnchanged:
    def test_it_lists_what_changed(self) -> None:
        def change(given: dict[str, Any]) -> None:
            given.pop("labels")
            given["n"] = 4

        with pytest.raises(CheckFailure) as caught, unchanged(batch(), name="inputs") as given:
            change(given)
        assert str(caught.value) == "the inputs was changed\n    inputs['labels'] is gone\n    inputs['n']: 3 became 4"

    def test_it_is_silent_where_nothing_changed(self) -> None:
        with unchanged(batch()) as given:
            given["labels"].sum()

    def test_an_error_within_goes_on_with_a_note(self) -> None:
        def change(given: dict[str, Any]) -> None:
            given.pop("labels")
            raise ValueError("shape")

        with pytest.raises(ValueError, match="shape") as caught, unchanged(batch()) as given:
            change(given)
        assert caught.value.__notes__ == ["the batch was changed\n    batch['labels'] is gone"]

    def test_an_error_without_a_change_has_no_note(self) -> None:
        with pytest.raises(ValueError, match="shape") as caught, unchanged(batch()):
            raise ValueError("shape")
        assert not hasattr(caught.value, "__notes__")

    def test_many_changes_are_counted(self) -> None:
        with pytest.raises(CheckFailure) as caught, unchanged(dict.fromkeys(range(20), 0)) as given:
            given.clear()
        assert str(caught.value).endswith("batch[11] is gone\n    ... and 8 more")

    def test_fast(self) -> None:
        with unchanged({"x": torch.zeros(2)}, fast=True) as given:
            given["x"].data.add_(1)

    def test_a_guard_can_be_entered_again(self) -> None:
        given = {"n": 1}
        guard = unchanged(given)
        with pytest.raises(CheckFailure), guard:
            given["n"] = 2
        with guard:
            assert given["n"] == 2

    def test_a_name_that_is_none(self) -> None:
        with pytest.raises(TypeError, match="expected what the messages call the value"):
            unchanged({}, name=3)  # type: ignore[arg-type]


def _leaves() -> st.SearchStrategy[Any]:
    dtypes = st.sampled_from([torch.int64, torch.float32, torch.bfloat16, torch.bool])
    sizes = st.sampled_from([(), (3,), (2, 5), (130, 130)])
    tensors = st.builds(lambda size, dtype: torch.zeros(size).to(dtype), sizes, dtypes)
    arrays = st.builds(lambda size: np.zeros(size), st.sampled_from([(2,), (100, 100)]))
    return st.one_of(
        tensors, tensors.map(lambda t: t.t() if t.dim() == 2 else t), arrays, st.integers(0, 3), st.text(max_size=2)
    )


def _nests() -> st.SearchStrategy[Any]:
    def wider(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        keys = st.sampled_from("abcd")
        return st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(keys, inner, max_size=3),
            st.dictionaries(keys, inner, max_size=3).map(UserDict),
            st.lists(inner, max_size=3).map(tuple),
            st.dictionaries(keys, inner, max_size=3).map(lambda d: SimpleNamespace(**d)),
        )

    return st.recursive(_leaves(), wider, max_leaves=6)


def _mutations(value: Any) -> list[Change]:
    """Everything that can be done to a nest, each as a function that does it."""
    if isinstance(value, torch.Tensor):
        one = torch.ones((), dtype=value.dtype)
        at = [0] * value.dim()
        return [
            lambda _: value.data[tuple(at)].copy_(one),
            lambda _: value.data.copy_(one),
            lambda _: value.unsqueeze_(0),
            lambda _: setattr(value, "data", value.clone()),
            lambda _: setattr(value, "mark", 1),
        ]
    if isinstance(value, np.ndarray):
        return [lambda _: value.__setitem__((-1,) * value.ndim, 1), lambda _: value.__iadd__(1)]
    inside: list[Change] = []
    if isinstance(value, (dict, UserDict)):
        inside.append(lambda _: value.update(new=1))
        for key in value:
            inside += [lambda _, key=key: value.pop(key), lambda _, key=key: value.update({key: object()})]
    elif isinstance(value, list):
        inside.append(lambda _: value.insert(0, object()))
        inside += [lambda _: value.pop()] if value else []
    elif isinstance(value, SimpleNamespace):
        inside.append(lambda _: setattr(value, "new", 1))
    held = (
        value.values()
        if isinstance(value, (dict, UserDict))
        else vars(value).values()
        if isinstance(value, SimpleNamespace)
        else value
    )
    if isinstance(value, (dict, UserDict, SimpleNamespace, list, tuple)):
        inside += [change for part in held for change in _mutations(part)]
    return inside


@given(st.data())
@settings(deadline=None)
def test_any_change_of_any_nest_is_reported(data: st.DataObject) -> None:
    made = {"root": data.draw(_nests())}
    before = Snapshot(made)
    assert before.changes() == []
    change = data.draw(st.sampled_from(_mutations(made)))
    change(made)
    lines = before.changes()
    assert lines
    assert all(line.startswith(("batch", "what was batch")) for line in lines)


def test_a_guard_does_not_import_torch(pytester: pytest.Pytester) -> None:
    script = (
        "import sys; from pytest_evalcheck.guard import unchanged\n"
        "with unchanged({'a': [1]}): pass\n"
        "print({'torch', 'numpy', 'pytest', 'hypothesis'} & set(sys.modules))"
    )
    assert pytester.runpython_c(script).outlines == ["set()"]
    assert "torch" in sys.modules
