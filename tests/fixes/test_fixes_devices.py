"""Devices in one place: where a metric meets what it is fed with, whatever is where."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch
from device_cases import inputs, labels, shape, ways

from pytest_evalcheck.devices import simulate
from pytest_evalcheck.fixes import WeightedMean
from pytest_evalcheck.fixes.devices import DevicePolicy, device_of

with contextlib.suppress(ImportError):
    # At once: pytester, in other tests of the same process, forgets what is imported after it, and NumPy loads only once.
    import torchmetrics


class Total:
    """A metric whose state is on one device, which it says."""

    def __init__(self, device: str = "cpu", dtype: torch.dtype = torch.float32) -> None:
        self.state = torch.zeros((), dtype=dtype).to(device)
        self.met: list[str] = []

    @property
    def device(self) -> torch.device:
        return self.state.device

    def to(self, device: torch.device) -> None:
        self.state = self.state.to(device)

    def update(self, outputs: Any, labels: Any) -> str:
        outputs = outputs["logits"] if isinstance(outputs, dict) else outputs
        self.state = self.state + (outputs[:, 0] * labels + torch.zeros(2).to(self.device)).sum()
        self.met.append(str(outputs.device))
        return "done"

    def value(self) -> float:
        return float(self.state)


EXPECTED = 6.0
PLACEMENTS = [
    (metric, outputs, batch) for metric in ("cpu", "mps") for outputs in ("cpu", "mps") for batch in ("cpu", "mps")
]


@pytest.mark.parametrize(("metric", "outputs", "batch"), PLACEMENTS)
@pytest.mark.parametrize("where", ["metric", "outputs", "cpu", "mps", torch.device("mps")])
def test_wherever_they_are_they_meet_where_the_policy_says(metric: str, outputs: str, batch: str, where: Any):
    with simulate("mps"):
        total = Total(metric)
        near = DevicePolicy(where).batch()
        assert near.update(total, inputs().to(outputs), labels=labels().to(batch)) == "done"
        assert near.update(total, {"logits": inputs().to(outputs)}, labels().to(batch)) == "done"
        expected = {"metric": metric, "outputs": outputs}.get(str(where), str(where))
        assert {each.split(":")[0] for each in total.met} == {str(total.device).split(":")[0]} == {expected}
        assert total.value() == 2 * EXPECTED


def test_without_the_policy_the_placements_fail_where_they_differ():
    failed = []
    for metric, outputs, batch in PLACEMENTS:
        with simulate("mps"), contextlib.suppress(RuntimeError):
            Total(metric).update(inputs().to(outputs), labels().to(batch))
            continue
        failed.append((metric, outputs, batch))
    assert failed == PLACEMENTS[1:-1]


def test_what_no_metric_is_given_never_crosses_and_the_rest_does_once_for_all_metrics():
    with simulate("mps") as ledger:
        batch, outputs = {"inputs": inputs().to("mps"), "labels": labels().to("mps")}, inputs().to("mps")
        with ledger.span() as seen:
            near = DevicePolicy().batch()
            for metric in (Total(), Total(), Total()):
                near.update(metric, outputs, batch["labels"])
        assert ways(seen) == [("mps:0", "cpu", 24), ("mps:0", "cpu", 16)]


def test_of_a_container_that_a_metric_is_given_only_the_declared_fields_cross():
    with simulate("mps") as ledger:
        outputs = {"logits": inputs().to("mps"), "hidden": torch.ones(100, device="mps")}
        with ledger.span() as seen:
            DevicePolicy(reads=("logits",)).batch().update(Total(), outputs, labels())
        assert ways(seen) == [("mps:0", "cpu", 24)]


@pytest.mark.parametrize("where", ["outputs", "mps"])
def test_a_metric_moves_to_the_device_once_and_to_the_cpu_where_the_device_lacks_its_dtype(where: str):
    with simulate("mps") as ledger:
        double, single = Total(dtype=torch.float64), Total()
        for _ in range(3):
            near, outputs = DevicePolicy(where).batch(), inputs().to("mps")
            for metric in (double, single):
                near.update(metric, outputs, labels())
        assert (str(double.device), double.state.dtype, set(double.met)) == ("cpu", torch.float64, {"cpu"})
        assert (str(single.device), set(single.met)) == ("mps:0", {"mps:0"})
        assert double.value() == single.value() == 3 * EXPECTED
        states = [each for each in ledger.transfers if each.shape == () and each.target == "mps:0"]
        assert len(states) == 1


def test_labels_that_the_device_lacks_take_the_metric_to_the_cpu_too():
    with simulate("mps"):
        metric = Total()
        DevicePolicy("outputs").batch().update(metric, inputs().to("mps"), labels().double())
        assert (str(metric.device), metric.value()) == ("cpu", EXPECTED)


def test_on_a_device_that_has_every_dtype_a_double_metric_follows():
    with simulate("cuda"):
        metric = Total(dtype=torch.float64)
        DevicePolicy("outputs").batch().update(metric, inputs().to("cuda"), labels())
        assert (str(metric.device), metric.value()) == ("cuda:0", EXPECTED)


def test_between_two_accelerators_too():
    with simulate("cuda:1"):
        metric = Total("cuda:1")
        DevicePolicy().batch().update(metric, inputs().to("cuda:0"), labels())
        assert (set(metric.met), metric.value()) == ({"cuda:1"}, EXPECTED)


def test_code_out_of_reach_is_fed_and_the_metric_is_given_back():
    class Sealed(Total):
        def update(self, outputs: Any, labels: Any) -> Any:
            if len(labels) == 1:
                raise ValueError("one")
            return super().update(outputs, labels)

    with simulate("mps"):
        metric, near = Sealed(), DevicePolicy().batch()
        for rows in (2, 1):
            try:
                with near.redirect_updates(metric):
                    metric.update(inputs()[:rows].to("mps"), labels=labels()[:rows])
            except ValueError:
                assert rows == 1
        assert metric.value() == EXPECTED
        assert "update" not in vars(metric)


def test_metrics_of_torchmetrics_alone_and_in_collections():
    pytest.importorskip("torchmetrics")
    made = {
        "mean": lambda: torchmetrics.MeanSquaredError(),
        "list": lambda: torchmetrics.CatMetric(),
        "many": lambda: torchmetrics.MetricCollection(
            [torchmetrics.MeanSquaredError(), torchmetrics.MeanAbsoluteError()]
        ),
    }
    for name, make in made.items():
        given = (inputs(),) if name == "list" else (inputs(), inputs() + 1)
        alone = make()
        alone.update(*given)
        for where in ("metric", "outputs", "cpu"):
            with simulate("mps"):
                metric, near = make(), DevicePolicy(where).batch()
                own = metric.update
                with near.redirect_updates(metric):
                    metric.update(given[0].to("mps"), *given[1:])
                assert metric.update == own
                assert str(device_of(metric)) == ("mps:0" if where == "outputs" else "cpu")
                assert shape(metric.compute()) == shape(alone.compute())


def test_our_own_accumulators_follow_in_the_precision_they_have():
    with simulate("mps"):
        mean = WeightedMean()
        DevicePolicy("outputs").batch().update(mean, inputs().flatten().to("mps"))
        assert str(mean.device) == "cpu"
        assert mean.compute().item() == 2.5


def test_a_metric_of_texts_needs_no_device():
    class Texts:
        def update(self, texts: list[str], answers: list[str]) -> int:
            return sum(map(str.__eq__, texts, answers))

    assert DevicePolicy().batch().update(Texts(), ["a", "b"], ["a", "c"]) == 1


def test_bad_policies_are_refused_by_name():
    with pytest.raises(
        ValueError, match=r"where: expected 'metric', 'outputs' or a device .* got 'metrics'; did you mean 'metric'"
    ):
        DevicePolicy("metrics")
    for reads in ("logits", [1]):
        with pytest.raises(TypeError, match=r"reads: expected the names of fields"):
            DevicePolicy(reads=reads)  # type: ignore[arg-type]


def test_a_dtype_that_the_metrics_device_lacks_is_refused_by_path_and_the_metric_works_on():
    with simulate("mps"):
        metric, near = Total("mps"), DevicePolicy().batch()
        with pytest.raises(
            TypeError, match=r"Total.update: labels\['deep'\]\[0\]: torch.float64 does not exist on mps:0"
        ):
            near.update(metric, inputs(), labels={"deep": [labels().double()]})
        near.update(metric, inputs(), labels())
        assert metric.value() == EXPECTED


def test_metrics_that_cannot_be_placed_are_named():
    class Bare:
        def update(self, value: torch.Tensor) -> None:
            self.value = value

    with pytest.raises(TypeError, match=r"metric: expected Bare to have a 'device' or tensors"):
        DevicePolicy().batch().update(Bare(), inputs())
    DevicePolicy("cpu").batch().update(Bare(), inputs())
    with simulate("mps"):
        split = torch.nn.ModuleList([torch.nn.Linear(1, 1), torch.nn.Linear(1, 1).to("mps")])
        with pytest.raises(RuntimeError, match=r"metric: expected ModuleList on one device, got cpu and mps:0"):
            device_of(split)
        bare = Bare()
        bare.update(inputs())
        with pytest.raises(TypeError, match=r"metric: expected a method to\(device\), to move Bare to mps:0"):
            DevicePolicy("mps").batch().update(bare, inputs())


def test_a_loaded_batch_is_whole_crosses_once_and_is_read_where_it_came_from_without_a_transfer():
    x = inputs()
    given = {"inputs": x, "again": [x], "labels": labels()}
    with simulate("mps") as ledger:
        near = DevicePolicy(reads=("labels",)).batch()
        there = near.load(given, "mps")
        assert there["again"][0] is there["inputs"]
        assert near.load(there, "mps") is there
        metric = Total()
        near.update(metric, there["inputs"], there["labels"])
        assert metric.value() == EXPECTED
        assert near.to_device(there, "cpu")["labels"] is given["labels"]
        assert ways(ledger) == [("cpu", "mps:0", 24), ("cpu", "mps:0", 16)]
        with pytest.raises(TypeError, match=r"batch\['x'\]: torch.float64 does not exist on mps:0"):
            near.load({"x": torch.zeros(1).double()}, "mps")
