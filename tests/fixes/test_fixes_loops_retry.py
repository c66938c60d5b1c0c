"""A batch that failed half way and is tried again counts once, whatever the accumulators are made of."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

from pytest_evalcheck.fixes import CompensatedSum, Moments, SampleStream, WeightedMean, evaluating
from pytest_evalcheck.fixes.loops import LossMean, PredictionsById, retry_in_parts, split_batch, transactional


class Plain:
    """Accumulators as people write them: a tensor changed in place, a list, a dict, an array."""

    def __init__(self) -> None:
        import numpy

        self.total = torch.zeros(2)
        self.seen: list[Any] = []
        self.by_class: dict[str, torch.Tensor] = {"a": torch.zeros(())}
        self.counts = numpy.zeros(2)
        self.names = {"first"}
        self.order = OrderedDict(a=1)
        self.queue = deque([1], maxlen=3)
        self.inner = WeightedMean()

    def update(self, value: float) -> None:
        self.total += value
        self.seen.append(torch.tensor(value))
        self.by_class["a"].add_(value)
        self.by_class["b"] = torch.tensor(value)
        self.counts[0] += value
        self.names.add("second")
        self.order["b"] = 2
        self.order.move_to_end("a")
        self.queue.append(2)
        self.inner.update(value)
        self.grown = value

    def compute(self) -> Any:
        return (
            self.total.tolist(), [float(each) for each in self.seen], {k: float(v) for k, v in self.by_class.items()},
            self.counts.tolist(), self.names, list(self.order.items()), list(self.queue),
            repr(self.inner.compute()), hasattr(self, "grown"),
        )  # fmt: skip


def torchmetrics_of(name: str) -> Any:
    module = pytest.importorskip("torchmetrics")
    if name == "collection":
        return module.MetricCollection([module.MeanMetric(), module.CatMetric()])
    return getattr(module, name)()


def value_of(metric: Any) -> Any:
    if isinstance(metric, PredictionsById):
        return [metric._batches]
    return repr(metric.compute())


ACCUMULATORS: dict[str, Any] = {
    "WeightedMean": (WeightedMean, lambda metric: metric.update([2.0])),
    "CompensatedSum": (CompensatedSum, lambda metric: metric.update([2.0])),
    "Moments": (Moments, lambda metric: metric.update([2.0, 3.0])),
    "SampleStream": (lambda: SampleStream({"x": torch.empty(0)}), lambda metric: metric.update(torch.ones(2))),
    "LossMean": (LossMean, lambda metric: metric.update_mean(2.0, 3)),
    "plain": (Plain, lambda metric: metric.update(2.0)),
    "MeanMetric": (lambda: torchmetrics_of("MeanMetric"), lambda metric: metric.update(2.0)),
    "CatMetric": (lambda: torchmetrics_of("CatMetric"), lambda metric: metric.update(2.0)),
    "collection": (lambda: torchmetrics_of("collection"), lambda metric: metric.update(2.0)),
}


@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize("kind", ACCUMULATORS)
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_what_failed_half_way_leaves_no_trace_and_the_retry_counts_once(kind: str, before: int):
    make, update = ACCUMULATORS[kind]
    metric, twin = make(), make()
    for _ in range(before):
        update(metric)
        update(twin)
    for end in (RuntimeError, KeyboardInterrupt):
        with pytest.raises(end), transactional(metric):  # noqa: PT012
            update(metric)
            if hasattr(metric, "_computed"):
                metric.compute()
            raise end
        assert value_of(metric) == value_of(twin)
    with transactional(metric):
        update(metric)
    update(twin)
    assert value_of(metric) == value_of(twin)


def test_containers_tensors_and_several_at_once():
    seen, hits, total, counter, names = [], {"n": 0}, torch.zeros(2), Counter("a"), {1}
    nested = {"mean": WeightedMean(), "rows": [[1]]}
    with pytest.raises(MemoryError), transactional(seen, hits, total, counter, names, nested):  # noqa: PT012
        seen.append(1)
        hits["n"] += 1
        hits["m"] = 2
        total += 1
        counter["a"] += 4
        names.add(2)
        nested["mean"].update([3.0])
        nested["rows"][0].append(2)
        del nested["rows"][:]
        raise MemoryError
    assert (seen, hits, total.tolist(), counter, names) == ([], {"n": 0}, [0.0, 0.0], Counter("a"), {1})
    assert nested["rows"] == [[1]]
    assert nested["mean"].compute().isnan()


class State(NamedTuple):
    total: torch.Tensor


class Tupled(nn.Module):
    """State in a named tuple, changed in place, and a big model that is not copied."""

    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Linear(3, 3)
        self.state = State(torch.zeros(1))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))


def test_what_is_copied_and_what_is_not(monkeypatch: pytest.MonkeyPatch):
    metric = Tupled()
    metric.tokenizer = object()
    copied = []
    clone = torch.Tensor.clone
    monkeypatch.setattr(torch.Tensor, "clone", lambda self: (copied.append(self.numel()), clone(self))[1])
    with pytest.raises(ValueError, match="no"), transactional(metric):  # noqa: PT012
        metric.state.total.add_(1)
        metric.seen += 1
        raise ValueError("no")
    assert (metric.state.total.item(), metric.seen.item()) == (0, 0)
    assert sorted(copied) == [1, 1]


def test_a_tensor_in_a_list_that_was_written_into_is_an_error_instead_of_a_wrong_number():
    totals = [torch.zeros(1)]
    with pytest.raises(RuntimeError, match="a tensor in a list was changed"), transactional(totals):  # noqa: PT012
        totals[0] += 1
        raise MemoryError
    with pytest.raises(MemoryError), transactional(totals):  # noqa: PT012
        totals[0] = torch.ones(1)
        raise MemoryError


@pytest.mark.parametrize("wrong", [3, "x", len, torch.nn, int, nn.Parameter(torch.ones(1)), (1, 2)])
def test_what_has_no_state_is_refused(wrong: Any):
    with (
        pytest.raises(TypeError, match="expected metrics, accumulators, tensors, lists or dicts"),
        transactional(wrong),
    ):
        pass


def oom(limit: int, rows: Any) -> Any:
    """Work that counts every row as it goes and gives up at the row after the limit."""

    def work(part: Any) -> int:
        for place, row in enumerate(part["x"].tolist()):
            if place == limit:
                raise torch.OutOfMemoryError("no")
            rows.append(row)
        return len(part["x"])

    return work


@pytest.mark.parametrize(
    ("limit", "parts"), [(9, [9]), (8, [5, 4]), (3, [3, 3, 3]), (2, [2, 2, 2, 2, 1]), (1, [1] * 9)]
)
def test_a_batch_counts_once_however_often_it_was_cut(limit: int, parts: list[int]):
    rows: list[int] = []
    found = retry_in_parts(oom(limit, rows), {"x": torch.arange(9), "name": "b"}, rows)
    assert rows == list(range(9))
    assert found == parts


def test_where_no_part_fits_the_error_comes_and_nothing_counts():
    rows: list[int] = [7]
    with pytest.raises(torch.OutOfMemoryError):
        retry_in_parts(oom(0, rows), {"x": torch.arange(9)}, rows)
    assert rows == [7]


def test_other_errors_are_raised_at_once_and_take_the_batch_back():
    seen: list[int] = []

    def work(part: Any) -> None:
        seen.append(1)
        raise KeyError("x")

    kept: list[int] = []
    with pytest.raises(KeyError):
        retry_in_parts(lambda part: (kept.append(1), work(part)), torch.ones(4), kept)
    assert (seen, kept) == ([1], [])


def test_a_retry_of_the_whole_batch_with_an_error_of_ones_own():
    tries: list[int] = []
    mean = WeightedMean()

    def flaky(part: Any) -> str:
        tries.append(len(part))
        mean.update(part)
        if len(tries) < 3:
            raise ConnectionError
        return "done"

    found = retry_in_parts(
        flaky, torch.tensor([1.0, 3.0]), mean, on=ConnectionError, split=lambda batch, parts: [batch]
    )
    assert (found, tries, mean.compute().item()) == (["done"], [2, 2, 2], 2.0)
    with pytest.raises(ConnectionError):
        retry_in_parts(lambda part: (_ for _ in ()).throw(ConnectionError), torch.ones(2), on=ConnectionError, tries=2)


class Pair(NamedTuple):
    ids: torch.Tensor
    inner: dict[str, Any]


def test_parts_keep_rows_kinds_and_order():
    batch = Pair(torch.arange(5), {"x": torch.ones(5, 2), "texts": list("abcde"), "scale": torch.tensor(2.0), "k": 3})
    parts = split_batch(batch, 2)
    assert [type(part) for part in parts] == [Pair, Pair]
    assert [part.ids.tolist() for part in parts] == [[0, 1, 2], [3, 4]]
    assert [part.inner["texts"] for part in parts] == [["a", "b", "c"], ["d", "e"]]
    assert [(part.inner["k"], part.inner["scale"].item(), len(part.inner["x"])) for part in parts] == [
        (3, 2.0, 3),
        (3, 2.0, 2),
    ]
    assert split_batch([1, 2, 3], 2) == [[1, 2], [3]]
    assert [len(part) for part in split_batch(torch.ones(3), 8)] == [1, 1, 1]
    assert [part[0].tolist() for part in split_batch((torch.arange(2), torch.ones(2)), 2)] == [[0], [1]]
    assert len(split_batch(torch.ones(0), 2)) == 1


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: retry_in_parts(3, [1]), TypeError, "work: expected a function of a batch, got int"),
        (lambda: retry_in_parts(len, [1], on=3), TypeError, "on: expected classes of exceptions, got 3"),
        (lambda: retry_in_parts(len, [1], on=()), TypeError, "on: expected classes"),
        (lambda: retry_in_parts(len, [1], tries=0), ValueError, "tries: expected a whole number of 1 or more, got 0"),
        (
            lambda: split_batch({"x": torch.ones(2), "y": torch.ones(3)}, 2),
            ValueError,
            r"one number of rows, got \[2, 3\]",
        ),
        (lambda: split_batch({"x": 3}, 2), ValueError, "got dict; give split="),
        (lambda: split_batch(torch.tensor(1.0), 2), ValueError, "expected rows, got a tensor of shape"),
    ],
)
def test_wrong_arguments_are_named(make: Any, error: type[Exception], text: str):
    with pytest.raises(error, match=text):
        make()


def test_a_seed_makes_two_evaluations_alike_and_the_generators_of_loaders_come_back():
    numpy = pytest.importorskip("numpy")
    import random

    generator = torch.Generator().manual_seed(9)

    def draw() -> list[float]:
        return [
            random.random(),
            float(numpy.random.random()),
            torch.rand(()).item(),
            torch.rand((), generator=generator).item(),
        ]

    before = generator.get_state()
    model = nn.Dropout()
    found = []
    for seed in (3, 3, 4):
        with evaluating(model, seed=seed, generators=[generator, None]):
            found.append(draw())
        assert torch.equal(generator.get_state(), before)
    assert found[0] == found[1]
    assert not set(found[0]) & set(found[2])
    after = draw()
    assert not set(after) & set(found[0])


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"seed": -1}, ValueError, "seed: expected a whole number from 0"),
        ({"seed": True}, ValueError, "got True"),
        ({"generators": torch.Generator()}, TypeError, "generators: expected several"),
        ({"generators": [3]}, TypeError, "generators: expected torch.Generator or None, got int"),
    ],
)
def test_seeds_and_generators_that_are_none_are_refused(options: Any, error: type[Exception], text: str):
    model = nn.Dropout()
    with pytest.raises(error, match=text), evaluating(model, **options):
        pass
    assert model.training
