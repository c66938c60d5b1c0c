"""The subject of wrappers, method by method, with a model of one layer."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es
from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import NotApplicable, TargetError
from pytest_evalcheck.kinds.wrapper.subject import LiveWrapper, WrapperSubject


class Count:
    """Counts the rows it was fed with."""

    def __init__(self) -> None:
        self.rows = 0

    def update(self, outputs: Any, labels: Any) -> None:
        self.rows += len(labels)

    def compute(self) -> int:
        return self.rows


IMAGES = [((0.0, 0.25, 0.5, 1.0), 1), ((1.0, 0.0, 0.0, 0.0), 0)]


class Pixels(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, pixel_values: Any) -> Any:
        return self.layer(pixel_values.flatten(1))


def subject(inputs: Any = None, **more: Any) -> WrapperSubject:
    def build() -> ec.Wrapper:
        torch.manual_seed(0)
        return ec.Wrapper.of(Pixels(), **{"metrics": lambda: {"count": Count()}, **more})

    return WrapperSubject(build=build, inputs=inputs or es.images(classes=2, shape=(1, 2, 2)))


class TestWrapperOf:
    def test_only_a_module_is_wrapped(self) -> None:
        for wrong in (3, type("Half", (), {"forward": lambda self: None})()):
            with pytest.raises(TypeError, match=r"is not a torch\.nn\.Module"):
                ec.Wrapper.of(wrong)

    def test_labels_are_left_out_of_the_call_and_given_to_the_loss(self) -> None:
        record = ec.Wrapper.of(Pixels(), loss=torch.nn.functional.cross_entropy)
        batch = es.images(classes=2, shape=(1, 2, 2)).collate(IMAGES)
        by_name, by_place = record.forward(batch), record.forward((batch["pixel_values"], batch["labels"]))
        assert set(by_name) == set(by_place) == {"outputs", "loss"}
        assert torch.equal(by_name["loss"], by_place["loss"])
        assert set(ec.Wrapper.of(Pixels()).forward(batch)) == {"outputs"}

    def test_a_second_argument_is_named(self) -> None:
        with pytest.raises(TypeError):
            ec.Wrapper.of(Pixels(), torch.nn.functional.cross_entropy)  # type: ignore[misc]


class TestLiveWrapper:
    def test_metrics_are_fed_in_both_directions(self) -> None:
        made, fed = subject(), list[str]()
        metric = lambda name: type(name, (Count,), {"update": lambda self, *_: fed.append(name)})()  # noqa: E731
        live = LiveWrapper(
            ec.Wrapper(**{**vars(made.build()), "metrics": lambda: {"first": metric("a"), "second": metric("b")}})
        )
        batch = made.batch(IMAGES)
        outputs = live.forward(batch)
        live.metric_values(batch, outputs)
        assert fed == ["a", "b"]
        live.metric_values(batch, outputs, backwards=True)
        assert fed[2:] == ["b", "a"]
        live.metric_values(batch, outputs, only="first", times=2)
        assert fed[4:] == ["a", "a"]

    def test_values_are_by_name_and_repeated_ones_too(self) -> None:
        made = subject()
        live, batch = made.fresh(), made.batch(IMAGES)
        values = live.metric_values(batch, live.forward(batch), times=2)
        assert values["count"] == values["count (repeated)"] == 2
        assert made.fresh().scores(batch)["count"] == 2
        without = subject(update=None)
        assert without.fresh().metric_values(batch, None) == {}

    def test_an_error_of_the_forward_is_the_result(self) -> None:
        def fail(_: Any) -> Any:
            raise OSError("no")

        made = subject(forward=fail)
        assert isinstance(made.fresh().evaluate(made.batch(IMAGES)), Raised)
        assert set(made.fresh().scores(made.batch(IMAGES))) == {"outputs"}
        assert all(
            isinstance(value, Raised) for value in made.fresh().metric_values({}, Raised(OSError(), "")).values()
        )

    def test_outputs_without_a_value_are_an_error_of_the_target(self) -> None:
        with pytest.raises(TargetError, match="hold no values"):
            subject(forward=lambda batch: None, update=None).plain_result(IMAGES)
        assert subject().plain_result(IMAGES)["count"] == 2

    def test_metrics_stay_on_the_cpu_and_are_moved_elsewhere(self) -> None:
        moved: list[str] = []

        class Movable(Count):
            def to(self, device: str) -> Movable:
                moved.append(device)
                return self

        record = ec.Wrapper(forward=lambda batch: batch, metrics=lambda: {"a": Movable(), "b": Count()})
        assert set(LiveWrapper(record).metrics()) == {"a", "b"}
        assert moved == []
        assert set(LiveWrapper(record, "meta").metrics()) == {"a", "b"}
        assert moved == ["meta"]
        assert LiveWrapper(ec.Wrapper(forward=lambda batch: batch)).metrics() == {}


class TestSubject:
    def test_batches_have_the_container_the_mode_and_the_device_asked_for(self) -> None:
        made = subject(modes={"": lambda batch: batch, "more": lambda batch: {**batch, "mode": "more"}})
        assert made.modes == ("", "more")
        assert isinstance(made.batch(IMAGES), dict)
        assert made.batch(IMAGES, "more")["mode"] == "more"
        assert isinstance(made.batch(IMAGES, container="tuple"), tuple)
        assert made.batch(IMAGES, onto="meta")["labels"].device.type == "meta"
        assert made.batch(IMAGES)["labels"].device.type == "cpu"

    def test_labels_are_left_out_where_there_are_some(self) -> None:
        assert set(subject().without_labels(IMAGES)) == {"pixel_values"}
        with pytest.raises(NotApplicable, match="the wrapper feeds no metric"):
            subject(update=None).without_labels(IMAGES)
        with pytest.raises(NotApplicable, match="its batches are no mappings"):
            subject(es.images(classes=2, shape=(1, 2, 2), containers=("tuple",))).without_labels(IMAGES)

    def test_widths_are_distinct(self) -> None:
        made = subject(es.sequence_to_sequence(vocab=5))
        assert made.widths([((1, 2), (1, 2, 3))]) == (2, 3)
        assert made.widths([((1, 2), (1, 2))]) == (2, 3)
        assert made.widths([((1, 2, 3), (1, 2, 3))], extra=2) == (5, 6)
        assert subject().widths(IMAGES) is None


def test_a_forward_that_seeds_is_found() -> None:
    class Seeds(Pixels):
        def forward(self, pixel_values: Any) -> Any:
            torch.manual_seed(0)
            return super().forward(pixel_values)

    inputs, outcomes = es.images(classes=2, shape=(1, 2, 2)), []
    for made in (Seeds, Pixels):
        target = ec.wrapper(inputs=inputs)(_factory(made))
        (cell,) = ec.run(target, select="EC106", effort="quick").cells
        outcomes.append(cell.outcome)
    assert outcomes == ["failed", "passed"]


def _factory(made: type) -> Any:
    return lambda: ec.Wrapper.of(made())
