"""Metrics of any class are recognised by their methods, and described as they are called."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any

import numpy
import pytest
import torch
from torch import Tensor

import pytest_evalcheck as ec
from pytest_evalcheck import adapters
from pytest_evalcheck import strategies as es
from pytest_evalcheck.adapters.protocols.metric import Protocol, protocol_of, protocol_of_function
from pytest_evalcheck.expectations.failures import NotApplicable, TargetError


class Accuracy:
    """``update``, ``compute`` and ``reset``; it merges several others."""

    def __init__(self, device: str = "cpu") -> None:
        self.device = torch.device(device)
        self.reset()

    def update(self, preds: Tensor, target: Tensor) -> None:
        if preds.shape != target.shape or preds.dim() != 1:
            raise ValueError(f"preds {tuple(preds.shape)} and target {tuple(target.shape)}; expected two of shape (N,)")
        self.right = self.right + (preds == target).sum()
        self.count = self.count + len(target)

    def compute(self) -> Tensor:
        return self.right / self.count

    def reset(self) -> None:
        self.right = torch.zeros((), dtype=torch.int64, device=self.device)
        self.count = torch.zeros((), dtype=torch.int64, device=self.device)

    def merge_state(self, metrics: Iterable[Accuracy]) -> Accuracy:
        for other in metrics:
            self.right = self.right + other.right
            self.count = self.count + other.count
        return self

    def state_dict(self) -> dict[str, Tensor]:
        return {"right": self.right, "count": self.count}

    def load_state_dict(self, saved: dict[str, Tensor]) -> None:
        self.right, self.count = saved["right"], saved["count"]

    def to(self, device: str) -> Accuracy:
        self.right, self.count, self.device = self.right.to(device), self.count.to(device), torch.device(device)
        return self


class Lazily:
    """``update_state``, ``result`` and ``reset_state``; the state is built by the first update."""

    def update_state(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> None:
        del sample_weight
        if not hasattr(self, "right"):
            self.right, self.count = 0, 0
        self.right += int((y_true == y_pred).sum())
        self.count += len(y_true)

    def result(self) -> float:
        return self.right / self.count if self.count else float("nan")

    def reset_state(self) -> None:
        self.right, self.count = 0, 0


class OfOutputs:
    """``update(output)`` with a tuple, and every other attribute answered."""

    def __init__(self, transform: Callable[[Any], Any] = lambda output: output) -> None:
        self.transform = transform
        self.reset()

    def reset(self) -> None:
        self.pairs: list[tuple[int, int]] = []

    def update(self, output: Any) -> None:
        y_pred, y = output
        self.pairs += list(zip(y_pred.tolist(), y.tolist(), strict=True))

    def compute(self) -> float:
        return sum(a == b for a, b in self.pairs) / len(self.pairs)

    def iteration_completed(self, engine: Any) -> None:
        output = self.transform(engine.state.output)
        if isinstance(output, dict):
            output = (output["y_pred"], output["y"])
        self.update(output)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return OfOutputs()


class Cumulative:
    """A call that adds a batch, then ``aggregate`` and ``reset``."""

    def __init__(self) -> None:
        self.hits: list[Tensor] = []

    def __call__(self, y_pred: Tensor, y: Tensor) -> Tensor:
        self.hits.append((y_pred == y).float())
        return self.hits[-1]

    def aggregate(self, reduction: str = "mean") -> Tensor:
        del reduction
        return torch.cat(self.hits).mean()

    def reset(self) -> None:
        self.hits = []


class Delegates:
    """Everything, ``update`` too, is passed on to another object."""

    def __init__(self) -> None:
        self._inner = Accuracy()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._inner, name)


def accuracy(y_true: Any, y_pred: Any, normalize: bool = True) -> float:
    right = sum(float(a) == float(b) for a, b in zip(y_true, y_pred, strict=True))
    return right / len(y_true) if normalize else right


BATCHES = [
    (torch.tensor([1, 2, 0]), torch.tensor([1, 1, 0])),
    (torch.tensor([2]), torch.tensor([2])),
]


def value_of(record: ec.Metric) -> float:
    for preds, target in BATCHES:
        record.update(preds, target)
    return float(record.compute())


@pytest.mark.parametrize(
    ("cls", "expected"),
    [
        (Accuracy, Protocol(feed="update", value="compute", reset="reset", targets_first=False)),
        (Lazily, Protocol(feed="update_state", value="result", reset="reset_state", targets_first=True)),
        (OfOutputs, Protocol(feed="update", value="compute", reset="reset", one_tuple=True)),
        (Cumulative, Protocol(feed="__call__", value="aggregate", reset="reset", targets_first=False)),
        (torch.nn.MSELoss, Protocol(feed="__call__", targets_first=False)),
        (Delegates, None),
        (dict, None),
        (torch.nn.Linear, None),
        (type("Asks", (), {"update": lambda self, x: None, "compute": lambda self, x: None}), None),
        (type("Mapped", (), {"update": lambda self, x: None, "get": lambda self: None}), None),
    ],
)
def test_a_class_has_a_protocol_or_none(cls: type, expected: Protocol | None) -> None:
    assert protocol_of(cls) == expected


def test_names_of_parameters_say_which_is_which() -> None:
    def order(function: Callable[..., Any]) -> bool | None:
        found = protocol_of_function(function)
        return found and found.targets_first

    assert order(accuracy) is True
    assert order(lambda preds, target: 0) is False
    assert order(lambda labels_true, labels_pred: 0) is True
    assert order(lambda simulated_array, observed_array: 0) is False  # HydroErr
    assert order(lambda observations, forecasts: 0) is True  # properscoring
    assert order(functools.partial(accuracy, normalize=False)) is True
    assert order(lambda a, b: 0) is None
    assert order(lambda preds: 0) is None
    assert order(max) is None


@pytest.mark.parametrize("made", [Accuracy, OfOutputs, Cumulative])
def test_an_object_of_any_library_becomes_a_record(made: type) -> None:
    record = adapters.record("metric", made())
    assert value_of(record) == 0.75
    assert record.reset is not None
    record.reset()
    record.update(*BATCHES[1])
    assert float(record.compute()) == 1.0


def test_arguments_keep_the_order_of_the_method() -> None:
    record = adapters.record("metric", Lazily())
    assert value_of(record) == 0.75
    seen = []
    record = adapters.record("metric", functools.partial(lambda y_true, y_pred: seen.append((y_true, y_pred))))
    record.update([1], [2])
    record.compute()
    assert seen == [([1], [2])]


def test_what_getattr_answers_is_no_method() -> None:
    """Delegation seemed to offer `forward`, `to` and `device`: EC215 and EC605 blamed methods that are none."""
    record = adapters.record("metric", OfOutputs())
    assert (record.forward, record.to, record.device, record.state, record.save) == (None,) * 5
    assert not record.merges
    by_hand = ec.Metric.of(Delegates())
    assert (by_hand.forward, by_hand.to, by_hand.save) == (None,) * 3
    assert value_of(by_hand) == 0.75
    with pytest.raises(TargetError, match="Delegates"):
        adapters.record("metric", Delegates())


def test_a_module_without_a_forward_offers_none() -> None:
    class Mean(torch.nn.Module):
        def update(self, values: Tensor) -> None: ...
        def compute(self) -> float:
            return 0.0

    assert adapters.record("metric", Mean()).forward is None
    assert adapters.record("metric", Mean()).to is not None


def test_an_output_is_transformed_as_in_an_engine() -> None:
    swapped = OfOutputs(lambda output: {"y": output[0], "y_pred": output[1] * 0})
    record = adapters.record("metric", swapped)
    record.update(*BATCHES[0])
    assert record.compute() == 1 / 3
    named = adapters.record("metric", OfOutputs())
    named.update(y_pred=BATCHES[0][0], y=BATCHES[0][1])
    whole = adapters.record("metric", OfOutputs())
    whole.update(BATCHES[0])
    assert named.compute() == whole.compute() == 2 / 3


def test_torchmetrics_before_1_5_has_no_merge_state(monkeypatch: pytest.MonkeyPatch) -> None:
    from torchmetrics import Metric
    from torchmetrics.classification import BinaryF1Score

    monkeypatch.delattr(Metric, "merge_state", raising=False)
    assert list(adapters.record("metric", BinaryF1Score()).merges) == ["sync"]


class TestFunctions:
    @pytest.mark.parametrize("convert", [lambda t: t, lambda t: t.numpy(), lambda t: t.tolist()])
    def test_all_samples_are_given_at_once(self, convert: Callable[[Tensor], Any]) -> None:
        record = adapters.record("metric", accuracy)
        for batch in BATCHES:
            record.update(*map(convert, batch))
        record.update(*[convert(each[:0]) for each in BATCHES[0]])
        assert record.compute() == 0.75
        assert (record.reset, dict(record.merges), dict(record.copies)) == (None, {}, {})

    def test_an_empty_batch_does_not_change_the_dtype(self) -> None:
        record = adapters.record("metric", lambda preds: preds.dtype)
        record.update(numpy.array([1, 2]))
        record.update(numpy.array([]))
        assert record.compute() == numpy.array([1]).dtype

    def test_arguments_may_be_named_and_options_are_the_same(self) -> None:
        record = adapters.record("metric", accuracy)
        record.update(y_true=[1], y_pred=[1], normalize=False)
        record.update(y_true=[1, 2], y_pred=[0, 2], normalize=False)
        assert record.compute() == 2
        record.update(y_true=[1], y_pred=[0], normalize=True)
        with pytest.raises(ValueError, match="normalize differs between batches: False and others"):
            record.compute()
        with pytest.raises(TypeError, match=r"a batch of 2 positional arguments; the first one was of 0 .* y_true"):
            record.update([1], [1])

    def test_rows_that_are_lists_are_copied(self) -> None:
        record = adapters.record("metric", lambda y_true, y_pred: sum(map(list.__eq__, y_true, y_pred)) / len(y_true))
        true, predicted = [["O", "B"], ["O"]], [["O", "B"], ["B"]]
        record.update(true, predicted)
        predicted[0][1], predicted[1][0] = "O", "O"
        assert record.compute() == 0.5

    def test_nothing_was_given(self) -> None:
        with pytest.raises(ValueError, match="no batch was given"):
            adapters.record("metric", accuracy).compute()

    def test_a_function_is_checked_and_its_faults_are_found(self) -> None:
        def squares(preds: Tensor, target: Tensor) -> Tensor:
            return (preds.double() - target.double()).square().mean()

        def in_place(preds: Tensor, target: Tensor) -> Tensor:
            return preds.sub_(target).square().mean()

        for function, expected in ((squares, "passed"), (in_place, "failed")):
            target = ec.metric(inputs=es.regression())(_returning(function))
            report = ec.run(target, effort="quick", device="cpu")
            assert {cell.code: cell.outcome for cell in report.cells}["EC205"] == expected
            assert bool(report.of("failed")) == (expected == "failed"), report


class TestMerging:
    """A method was called with one other metric, and its `TypeError` was called a wrong score (A3)."""

    @staticmethod
    def merged(cls: type, method: str) -> Any:
        class Merges(Accuracy):
            merge_state = None  # type: ignore[assignment]

        setattr(Merges, method, cls.__dict__["merge"])
        ranks = [adapters.record("metric", Merges()) for _ in BATCHES]
        for rank, batch in zip(ranks, BATCHES, strict=True):
            rank.update(*batch)
        before = [(int(rank.source.right), int(rank.source.count)) for rank in ranks]
        value = ranks[0].merges[method](ranks)
        assert before == [(int(rank.source.right), int(rank.source.count)) for rank in ranks]
        return float(value)

    def test_a_list(self) -> None:
        class Way:
            def merge(self, metrics: Any) -> None:
                for i in range(len(metrics)):
                    self.right, self.count = self.right + metrics[i].right, self.count + metrics[i].count

        assert self.merged(Way, "merge_state") == 0.75

    def test_a_generator(self) -> None:
        class Way:
            def merge(self, metrics: Any) -> None:
                while (other := next(metrics, None)) is not None:
                    self.right, self.count = self.right + other.right, self.count + other.count

        assert self.merged(Way, "merge_state") == 0.75

    def test_another_metric(self) -> None:
        class Way:
            def merge(self, other: Any) -> None:
                self.right, self.count = self.right + other.right, self.count + other.count

        assert self.merged(Way, "merge") == 0.75

    def test_a_new_metric_is_returned(self) -> None:
        class Way:
            def merge(self, other: Any) -> Any:
                new = type(self)()
                new.right, new.count = self.right + other.right, self.count + other.count
                return new

        assert self.merged(Way, "merge") == 0.75

    def test_what_takes_none_of_them_does_not_apply(self) -> None:
        class Way:
            def merge(self, state: Any) -> None:
                self.right = self.right + state["right"]

        with pytest.raises(NotApplicable, match=r"Merges.merge takes neither a list, nor a generator, .*TypeError"):
            self.merged(Way, "merge")

    def test_an_error_of_a_fitting_form_is_one_of_the_metric(self) -> None:
        class Way:
            def merge(self, other: Any) -> None:
                if int(other.count) == 1:
                    raise TypeError("a shard of one sample")
                self.right = self.right + other.right

        with pytest.raises(TypeError, match="a shard of one sample"):
            self.merged(Way, "merge")

    def test_a_metric_that_cannot_be_copied_is_not_merged(self) -> None:
        class Way:
            def merge(self, other: Any) -> None: ...
            def __deepcopy__(self, memo: Any) -> Any:
                raise RuntimeError("there is one of me")

        class Merges(Accuracy):
            merge = Way.merge
            __deepcopy__ = Way.__deepcopy__

        ranks = [adapters.record("metric", Merges())] * 2
        with pytest.raises(NotApplicable, match="cannot be copied"):
            ranks[0].merges["merge_state"](ranks)


class TestChanged:
    """`ec.Metric.of(obj, update=...)` gives the record of the adapter with that callable replaced."""

    def test_a_callable_of_an_adapter_is_replaced(self) -> None:
        from torchmetrics.classification import BinaryF1Score

        metric = BinaryF1Score()
        record = ec.Metric.of(metric, update=lambda logits, target: metric.update(logits.sigmoid(), target))
        assert record.source is metric
        assert list(record.merges) == ["sync", "merge_state"]
        assert not record.copies, "a copy would feed the original"
        record.update(torch.tensor([3.0, -3.0]), torch.tensor([1, 0]))
        assert float(record.compute()) == 1.0

    def test_a_callable_that_asks_for_the_metric_works_for_copies(self) -> None:
        from torchmetrics.classification import BinaryF1Score

        @ec.metric(inputs=es.binary(of="logits"), not_applicable={"EC216": "logits that are NaN"})
        def metric_of_logits() -> ec.Metric:
            return ec.Metric.of(
                BinaryF1Score(),
                update=lambda metric, logits, target: metric.update(logits.sigmoid(), target),
                compute=lambda metric: {"f1": metric.compute()},
            )

        record = metric_of_logits()
        assert list(record.copies) == ["deepcopy", "pickle"]
        record.update(torch.tensor([3.0, -3.0]), torch.tensor([1, 0]))
        copied = record.copies["deepcopy"]()
        copied.update(torch.tensor([3.0, -3.0]), torch.tensor([0, 0]))
        assert (record.compute(), copied.compute()) == ({"f1": 1.0}, {"f1": pytest.approx(2 / 3)})
        report = ec.run(metric_of_logits, select="EC201,EC203,EC204,EC205,EC209", effort="quick", device="cpu")
        assert [cell.outcome for cell in report.cells] == ["passed"] * 5, report

    def test_a_merge_uses_the_changed_value(self) -> None:
        changes: Any = {"compute": lambda metric: {"accuracy": float(metric.right / metric.count)}}
        ranks = [ec.Metric.of(Accuracy(), **changes) for _ in BATCHES]
        for rank, batch in zip(ranks, BATCHES, strict=True):
            rank.update(*batch)
        assert ranks[0].merges["merge_state"](ranks) == {"accuracy": 0.75}
        loose = Accuracy()
        record = ec.Metric.of(loose, compute=lambda: 2 * loose.compute())
        assert (dict(record.merges), dict(record.copies)) == ({}, {})

    def test_a_record_is_changed_too(self) -> None:
        record = ec.Metric.of(ec.Metric.of(Accuracy()), compute=lambda: 3.0)
        assert record.compute() == 3.0

    @pytest.mark.parametrize(
        ("changes", "text"),
        [
            ({"udpate": print}, "ec.Metric has no field 'udpate'; did you mean 'update'?"),
            ({"update": 3}, "update=3; expected a function"),
            ({"compute": None}, "compute=None; expected a function"),
            ({"copies": print}, "expected a mapping from names to functions"),
            ({"merge": "merge_stat"}, "Accuracy has no method 'merge_stat' to merge by; did you mean 'merge_state'?"),
        ],
    )
    def test_a_mistake_has_an_error(self, changes: dict[str, Any], text: str) -> None:
        with pytest.raises(TypeError) as caught:
            ec.Metric.of(Accuracy(), **changes)
        assert text in str(caught.value)


def test_a_state_dict_is_loaded_into_a_new_metric() -> None:
    """It was loaded into a copy, in which what the state dict leaves out survived (D)."""

    class LeavesOut(Accuracy):
        def load_state_dict(self, saved: dict[str, Tensor]) -> None:
            self.right = saved["right"]

    for made, expected in ((Accuracy, "passed"), (LeavesOut, "failed")):
        report = ec.run(ec.metric(inputs=es.multiclass(classes=3, of="labels"))(_returning_new(made)), select="EC209")
        (cell,) = report
        assert (cell.outcome, cell.cause) == (expected, "")


def test_what_can_never_be_copied_says_nothing_and_what_cannot_be_copied_any_more_does() -> None:
    class NotPickled(Accuracy):
        def __getstate__(self) -> Any:
            raise TypeError("it holds a lock")

    class NotPickledWhenFed(Accuracy):
        def __getstate__(self) -> Any:
            if self.count:
                raise TypeError("it holds a generator")
            return dict(vars(self))

        def __deepcopy__(self, memo: Any) -> Any:
            new = type(self)()
            vars(new).update(vars(self))
            return new

    inputs = es.multiclass(classes=3, of="labels")
    outcomes = {}
    for made in (NotPickled, NotPickledWhenFed):
        globals()[made.__name__] = made
        made.__qualname__ = made.__name__
        (cell,) = ec.run(ec.metric(inputs=inputs)(_returning_new(made)), select="EC209", effort="quick").cells
        outcomes[made.__name__] = (cell.outcome, "it holds a generator" in cell.reason)
    assert outcomes == {"NotPickled": ("passed", False), "NotPickledWhenFed": ("failed", True)}


def test_pickling_goes_through_bytes() -> None:
    record = adapters.record("metric", Accuracy())
    record.update(*BATCHES[0])
    assert pickle.dumps(record.source)
    assert float(record.copies["pickle"]().compute()) == pytest.approx(2 / 3)


def _returning(made: Any) -> Callable[[], Any]:
    def target() -> Any:
        return made

    return target


def _returning_new(made: type) -> Callable[[], Any]:
    def target() -> Any:
        return made()

    return target


def test_a_reset_that_needs_arguments_is_none_that_can_be_called() -> None:
    class Sized(Accuracy):
        def reset(self, num_batches: int = 0, *, num_samples: int) -> None:
            super().reset()

    assert protocol_of(Sized) == Protocol(feed="update", value="compute", reset="", targets_first=False)
    assert protocol_of(Accuracy).reset == "reset"


class MergesMeans(Accuracy):
    """The counts of the others are averaged with its own, which is right where all ranks have as many samples."""

    def merge_state(self, metrics: Iterable[Accuracy]) -> Accuracy:
        for other in metrics:
            share = self.right / self.count.clamp(min=1) + other.right / other.count.clamp(min=1)
            self.right, self.count = share / 2, torch.ones(())
        return self


class OfAFile(Accuracy):
    """It holds a lock, which does not pickle."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = Lock()

    def __deepcopy__(self, memo: Any) -> Accuracy:
        copied = OfAFile()
        copied.right, copied.count = self.right, self.count
        return copied


class RefusesOneClass(Accuracy):
    """It has no value where all labels are alike, as an area under the curve: neither on ranks nor without them."""

    def __init__(self) -> None:
        super().__init__()
        self.labels: set[int] = set()

    def update(self, predictions: Any, labels: Any) -> None:
        super().update(predictions, labels)
        self.labels |= set(labels.tolist())

    def merge_state(self, others: Any) -> Any:
        self.labels |= set().union(*(other.labels for other in others))
        return super().merge_state(others)

    def compute(self) -> Any:
        if len(self.labels) < 2:
            raise ValueError("all labels are alike")
        return super().compute()


@pytest.mark.parametrize(
    ("made", "outcome"),
    [
        (Accuracy, "passed"),
        (MergesMeans, "failed"),
        (OfAFile, "not applicable"),
        (Lazily, "not applicable"),
        (RefusesOneClass, "passed"),
    ],
)
@pytest.mark.slow(every=2)
def test_metrics_of_processes_are_merged_by_their_method(made: type, outcome: str) -> None:
    @ec.metric(inputs=es.multiclass(classes=3, of="labels"))
    def target(device: str) -> Any:
        return made()

    (cell,) = ec.run(target, select="EC221", effort="quick").cells
    assert cell.outcome == outcome, cell.reason


@pytest.mark.parametrize(
    ("names", "order"),
    [
        ("image_true, image_test", True),
        ("reference, test", True),
        ("image0, image1", False),
        ("s1, s2", False),
        ("reference_beats, estimated_beats", True),
        ("X_test, y_test", None),
        ("image1, image3", None),
        ("y1, y2", None),
        ("first, second", None),
    ],
)
def test_two_parameters_may_be_a_pair_by_their_names(names: str, order: bool | None) -> None:
    found = protocol_of_function(eval(f"lambda {names}: 0.0"))
    assert (None if found is None else found.targets_first) == order
