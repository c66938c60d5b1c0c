"""Calls of a wrapper by its checks: forwards, metrics that are fed, and batches."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from wrapper_subjects import IMAGE, IMAGES, subject

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es
from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import NotApplicable, TargetError
from pytest_evalcheck.kinds.common.tensors import overwrite
from pytest_evalcheck.kinds.wrapper.outputs import RecordingMetric
from pytest_evalcheck.kinds.wrapper.subject import METRIC_INPUTS, LiveWrapper, WrapperSubject, in_mode


def test_a_wrapper_evaluates_without_gradients_and_restores_the_process() -> None:
    modes: list[Any] = []

    def forward(batch: Any) -> Any:
        modes.append((torch.is_grad_enabled(), made.training))
        torch.set_default_dtype(torch.float64)
        return {"logits": torch.zeros(1)}

    made = nn.Flatten()
    LiveWrapper(ec.Wrapper(forward=forward, model=made)).forward({})
    assert modes == [(False, False)]
    assert (torch.get_default_dtype(), torch.is_grad_enabled()) == (torch.float32, True)


def test_an_error_is_a_result() -> None:
    live = subject().fresh()
    found = live.forward({})
    assert isinstance(found, Raised)
    assert isinstance(live.evaluate({}), Raised)
    assert list(live.scores({})) == ["outputs"]
    assert isinstance(live.rows({}, 1), Raised)
    assert all(isinstance(value, Raised) for value in live.metric_values({}, found).values())


def test_metrics_are_fed_once_each_and_their_inputs_are_recorded() -> None:
    wrapper = subject()
    live, batch = wrapper.fresh(), wrapper.batch(IMAGES)
    outputs = live.forward(batch)
    values = live.metric_values(batch, outputs)
    assert list(values) == [METRIC_INPUTS, "cross entropy", "accuracy"]
    assert len(values[METRIC_INPUTS]) == 1
    assert torch.equal(values[METRIC_INPUTS][0]["0"], outputs["logits"])
    assert torch.equal(values[METRIC_INPUTS][0]["1"], batch["labels"])
    assert list(live.metric_values(batch, outputs, only="accuracy")) == ["accuracy"]
    twice = live.metric_values(batch, outputs, times=2, backwards=True)
    assert [name for name in twice if name.endswith(" (repeated)")] == [f"{name} (repeated)" for name in values]
    assert twice["accuracy"] == twice["accuracy (repeated)"] == values["accuracy"]


def test_metrics_are_fed_backwards_when_asked() -> None:
    order: list[str] = []

    class Named:
        def __init__(self, name: str) -> None:
            self.name = name

        def compute(self) -> int:
            return 1

    def update(batch: Any, outputs: Any, metric: Any) -> None:
        order.append(getattr(metric, "name", "recording"))

    record = ec.Wrapper(
        forward=lambda batch: batch, update=update, metrics=lambda: {name: Named(name) for name in ("one", "two")}
    )
    live = LiveWrapper(record)
    live.metric_values({}, {})
    live.metric_values({}, {}, backwards=True)
    assert order == ["recording", "one", "two", "two", "one", "recording"]


def test_a_metric_that_cannot_compute_is_an_error_of_its_own() -> None:
    record = ec.Wrapper(
        forward=lambda batch: batch, update=lambda batch, outputs, metric: None, metrics=lambda: {"odd": object()}
    )
    values = LiveWrapper(record).metric_values({}, {})
    assert values[METRIC_INPUTS] == []
    assert isinstance(values["odd"], Raised)


def test_results_are_copies() -> None:
    wrapper = subject()
    live, batch = wrapper.fresh(), wrapper.batch(IMAGES)
    results = live.evaluate(batch)
    again = live.evaluate(batch)
    overwrite(results)
    assert not torch.equal(results["outputs"]["logits"], again["outputs"]["logits"])
    assert torch.equal(live.evaluate(batch)["outputs"]["logits"], again["outputs"]["logits"])


def test_a_forward_between_comes_after_the_outputs_and_before_the_metrics() -> None:
    calls: list[Any] = []

    def forward(batch: Any) -> Any:
        calls.append(f"forward {batch}")
        return batch

    record = ec.Wrapper(forward=forward, update=lambda batch, outputs, metric: calls.append(f"update {batch}"))
    assert LiveWrapper(record).evaluate("a", between="b")["outputs"] == "a"
    assert calls == ["forward a", "forward b", "update a"]


@pytest.mark.parametrize("outputs", [None, object(), {"logits": None}, (x for x in ())])
def test_outputs_without_values_are_an_error_of_the_target(outputs: Any) -> None:
    with pytest.raises(TargetError, match="the outputs of forward hold no values"):
        LiveWrapper(ec.Wrapper(forward=lambda batch: outputs)).evaluate({})


def test_outputs_without_values_are_enough_where_metrics_get_values() -> None:
    record = ec.Wrapper(forward=lambda batch: None, update=lambda batch, outputs, metric: metric.update(1))
    assert LiveWrapper(record).evaluate({}) == {"outputs": None, METRIC_INPUTS: [{"0": 1}]}


def test_batches_are_new_objects_in_a_mode_and_a_container() -> None:
    wrapper = subject(modes={"": lambda batch: batch, "generate": lambda batch: {**batch, "mode": "generate"}})
    assert wrapper.modes == ("", "generate")
    assert wrapper.batch([IMAGE])["labels"] is not wrapper.batch([IMAGE])["labels"]
    assert wrapper.batch([IMAGE], "generate", container="UserDict").data["mode"] == "generate"
    assert "mode" not in wrapper.batch([IMAGE])
    assert (in_mode("generate"), in_mode("")) == (" (mode 'generate')", "")


def test_batches_without_labels_need_mappings_and_a_metric() -> None:
    assert list(subject().without_labels([IMAGE])) == ["pixel_values"]
    with pytest.raises(NotApplicable, match="feeds no metric"):
        subject(update=None).without_labels([IMAGE])
    with pytest.raises(NotApplicable, match="no mappings"):
        subject(modes={"": lambda batch: tuple(batch.values())}).without_labels([IMAGE])


def _evaluated(wrapper: WrapperSubject) -> None:
    live, batch = wrapper.fresh(), wrapper.batch([IMAGE])
    live.rows(batch, 1)
    live.evaluate(batch)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"metrics": lambda: 1 / 0}, r"metrics\(\) raised an error"),
        ({"rows": lambda outputs: outputs["scores"]}, r"rows\(\) raised an error"),
        ({"modes": {"": lambda batch: batch["text"]}}, "the mode '' raised an error"),
    ],
)
def test_an_error_of_a_description_is_an_error_of_the_target(more: Any, message: str) -> None:
    wrapper = subject(**more)
    with pytest.raises(TargetError, match=message):
        _evaluated(wrapper)


def test_a_collate_that_raises_is_an_error_of_the_target() -> None:
    inputs = es.samples(es.images(classes=2).sample, collate=lambda rows: rows[9])
    with pytest.raises(TargetError, match="the collate raised an error") as caught:
        WrapperSubject(build=lambda: ec.Wrapper(forward=len), inputs=inputs).batch([IMAGE])
    assert caught.value.actual == "IndexError: list index out of range"


def test_a_recording_metric_keeps_copies_and_has_the_methods_of_a_metric() -> None:
    recording, given = RecordingMetric().to("cpu"), torch.ones(1)
    recording.update(given, weights=[given])
    recording(given)
    given.zero_()
    assert recording.compute() == [{"0": torch.ones(1), "weights": [torch.ones(1)]}, {"0": torch.ones(1)}]
    recording.reset()
    assert (recording.compute(), recording.device) == ([], torch.device("cpu"))


def test_a_module_and_a_loss_make_a_wrapper() -> None:
    made = ec.Wrapper.of(nn.Linear(2, 1), loss=lambda outputs, labels: (outputs.squeeze(1) - labels).abs().mean())
    inputs, labels = torch.ones(3, 2), torch.zeros(3)
    for batch in ((inputs, labels), {"input": inputs, "labels": labels}):
        outputs = made.forward(batch)
        assert outputs["outputs"].shape == (3, 1)
        assert outputs["loss"].dim() == 0
        recording = RecordingMetric()
        assert made.update is not None
        made.update(batch, outputs, recording)
        assert torch.equal(recording.compute()[0]["1"], labels)
    assert list(ec.Wrapper.of(nn.Linear(2, 1)).forward((inputs, labels))) == ["outputs"]
    assert list(made.contents()) == ["weight", "bias"]
    with pytest.raises(TypeError, match=r"function is not a torch\.nn\.Module; use ec.Wrapper"):
        ec.Wrapper.of(lambda batch: batch)
