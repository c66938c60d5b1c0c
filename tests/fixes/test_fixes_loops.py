"""Ids, joins, sums and counts of a loop: exactly once over real and simulated ranks, and errors that name the samples."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset

from pytest_evalcheck.devices import simulate
from pytest_evalcheck.fixes import loops
from pytest_evalcheck.fixes.loops import (
    BatchWithIds,
    IdCollator,
    IdentifiedSample,
    IdError,
    LossMean,
    PredictionsById,
    StepResult,
    add_ids,
    evaluate,
    gather_function,
    sample_losses,
)
from pytest_evalcheck.kinds.common.process_ranks import on_processes


@pytest.mark.parametrize(
    "name", ["", ".sample_ids", ".prediction_join", ".losses", ".oom_retry", ".evaluation", ".state_snapshot", ".ranks"]
)
@pytest.mark.slow(every=4)
def test_importing_loads_torch_alone(name: str):
    program = (
        f"import sys, pytest_evalcheck.fixes.loops{name}\n"
        "print({'transformers', 'accelerate', 'torchmetrics', 'hypothesis', 'pytest'} & set(sys.modules) or 'none')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, cwd=os.getcwd(), check=False
    )
    assert done.stdout.strip() == "none", done.stderr


def test_every_public_name_is_there():
    pytest.importorskip("transformers")
    assert {name for name in loops.__all__ if getattr(loops, name, None) is None} == set()
    with pytest.raises(AttributeError, match="no attribute 'Exact'"):
        loops.Exact  # noqa: B018


def test_ids_travel_through_the_data_loader_and_samples_stay_as_they_are():
    rows = [{"id": f"s{number}", "x": float(number)} for number in range(5)]
    batches = list(DataLoader(rows, batch_size=2, collate_fn=IdCollator()))
    assert [batch["ids"] for batch in batches] == [["s0", "s1"], ["s2", "s3"], ["s4"]]
    assert [sorted(batch) for batch in batches] == [["ids", "x"]] * 3
    assert rows[0] == {"id": "s0", "x": 0.0}


def test_a_data_set_is_numbered_and_batches_that_are_no_mapping_carry_ids_beside_them():
    shuffled = DataLoader(add_ids([3.0, 4.0, 5.0]), batch_size=2, collate_fn=IdCollator(), sampler=[2, 0, 1])
    first, last = shuffled
    assert isinstance(first, BatchWithIds)
    assert (first.ids.tolist(), first.batch.tolist(), last.ids.tolist()) == ([2, 0], [5.0, 3.0], [1])
    assert list(add_ids(iter("ab"))) == [IdentifiedSample(0, "a"), IdentifiedSample(1, "b")]
    assert add_ids([1, 2])[-1] == IdentifiedSample(1, 2)
    assert isinstance(add_ids(Counted(3)), IterableDataset)


def test_an_id_may_be_found_by_a_function():
    collate = IdCollator(key=lambda sample: sample[0])
    assert collate([(7, 1.0), (5, 2.0)]).ids.tolist() == [7, 5]


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (
            lambda: IdCollator()([{"id": 1, "x": 1}, {"x": 2}]),
            KeyError,
            "sample 1 of the batch.*'id'.*wrap the data set",
        ),
        (lambda: IdCollator()([3.0]), KeyError, "sample 0 of the batch: expected an id under 'id', got float"),
        (lambda: IdCollator()([{"id": 1, "ids": 3}]), ValueError, "has 'ids' already"),
        (lambda: IdCollator()([{"id": 1.5, "x": 3}]), TypeError, "expected whole numbers, strings or tuples.*1.5"),
        (lambda: IdCollator()([{"id": [1], "x": 3}]), TypeError, r"got \[1\]"),
        (lambda: IdCollator(3), TypeError, "collate: expected a function"),
        (lambda: add_ids(3), TypeError, "data: expected a data set with items or an iterable one, got int"),
        (lambda: add_ids([1])[1], IndexError, "index 1 in a data set of 1"),
    ],
)
def test_what_has_no_id_is_refused(make: Any, error: type[Exception], text: str):
    with pytest.raises(error, match=text):
        make()


def rows_of(*batches: Any) -> PredictionsById:
    rows = PredictionsById()
    for ids in batches:
        rows.add(ids, square=torch.tensor([float(one) ** 2 for one in ids]), text=[str(one) for one in ids])
    return rows


class Counted(IterableDataset):
    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Any:
        return iter(range(self.count))


def in_ranks(shards: list[PredictionsById], **options: Any) -> Any:
    """Join shards as the ranks would: with a gather that knows what the others have."""
    found: list[Any] = []
    for shard in shards:
        parts: list[Any] = []

        def collect(mine: Any, parts: list[Any] = parts) -> list[Any]:
            parts.append(mine)
            return [mine]

        try:
            shard.gather(None, ranks=collect)
        finally:
            found += parts
    return PredictionsById().gather(ranks=lambda mine: found, **options)


@given(data=st.data(), count=st.integers(1, 12), ranks=st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_every_sample_once_in_the_order_of_the_data_set_whatever_the_shards(data: Any, count: int, ranks: int):
    order = data.draw(st.permutations(range(count)))
    padding = data.draw(st.lists(st.sampled_from(range(count)), max_size=4))
    shards = [PredictionsById() for _ in range(ranks)]
    for one in [*order, *padding]:
        shard = shards[data.draw(st.integers(0, ranks - 1))]
        shard.add([one], square=torch.tensor([one**2]), tokens=[torch.arange(one % 3)])
    joined = in_ranks(shards, order=count, fixed="square")
    assert joined.ids == list(range(count))
    assert joined["square"].tolist() == [one**2 for one in range(count)]
    assert [len(row) for row in joined["tokens"]] == [one % 3 for one in range(count)]
    assert sorted(joined.dropped) == sorted(padding)


def test_rows_are_copied_and_come_back_as_tensors_lists_or_arrays():
    numpy = pytest.importorskip("numpy")
    rows, scores, array = PredictionsById(), torch.tensor([1.0, 2.0]), numpy.array([[1], [2]])
    rows.add(torch.tensor([1, 0]), score=scores, text=["b", "a"], array=array)
    scores.fill_(9)
    array[:] = 9
    joined = rows.join(2)
    assert joined["score"].tolist() == [2.0, 1.0]
    assert joined["text"] == ["a", "b"]
    assert [row.tolist() for row in joined["array"]] == [[2], [1]]
    assert len(rows) == 2
    rows.reset()
    assert (len(rows), dict(rows.join(0))) == (0, {})
    assert repr(joined) == "JoinedPredictions(2 samples, fields ['score', 'text', 'array'], 0 duplicates dropped)"


def test_of_a_duplicate_the_first_row_of_the_lowest_rank_counts():
    first, second = PredictionsById(), PredictionsById()
    first.add([1, 1], value=torch.tensor([10, 11]))
    second.add([1, 0], value=torch.tensor([12, 13]))
    assert in_ranks([first, second], order=2)["value"].tolist() == [13, 10]


def test_without_a_known_order_ids_are_sorted_where_they_can_be():
    assert rows_of([3, 1], [2]).join().ids == [1, 2, 3]
    mixed = PredictionsById()
    mixed.add(["b", 1], x=[1, 2])
    assert mixed.join().ids == ["b", 1]


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: rows_of([0, 3]).join(4), IdError, r"2 ids: 1, 2 of 4 never came"),
        (lambda: rows_of([0]).join(40), IdError, r"39 ids: 1, 2, .*, 8 and 31 more of 40 never came"),
        (lambda: rows_of([0, 1], [1]).join(2), IdError, "^id 1 came more than once"),
        (lambda: rows_of([0, 1, 7]).join(2), IdError, "^id 7 is not in this data set"),
        (lambda: rows_of([0]).join([0, 0]), IdError, "order: ids of the data set are repeated"),
        (lambda: rows_of([0]).join(-1), TypeError, "order: expected the number of samples, their ids, or None, got -1"),
        (lambda: rows_of([0]).join("ab"), TypeError, "order: expected"),
        (lambda: rows_of([0]).join(1, duplicates="keep"), ValueError, "duplicates: expected one of 'drop', 'refuse'"),
        (lambda: rows_of([0]).gather(1, fixed="label"), ValueError, "fixed: expected names among.*'label'"),
        (
            lambda: PredictionsById().add([0], x=torch.tensor(1.0)),
            ValueError,
            r"x: expected one row per sample.*is it a mean",
        ),
        (lambda: PredictionsById().add([0, 1], x=torch.ones(3)), ValueError, "x: expected 2 rows, one per id, got 3"),
        (lambda: PredictionsById().add([0], x={"a": 1}), TypeError, "x: expected a tensor.*got dict"),
        (lambda: PredictionsById().add([0]), TypeError, "fields: expected at least one"),
        (lambda: PredictionsById().add("ab", x=[1, 2]), TypeError, "ids: expected one id per sample"),
        (lambda: rows_of([0]).add([1], other=[1]), ValueError, r"fields: expected \['square', 'text'\] as before"),
        (lambda: gather_function(3), TypeError, "ranks: expected None, an accelerate.Accelerator.*got int"),
    ],
)
def test_ids_that_are_missing_repeated_or_strange_are_named(make: Any, error: type[Exception], text: str):
    with pytest.raises(error, match=text) as caught:
        make()
    assert not isinstance(caught.value, IdError) or caught.value.ids


def test_shards_that_each_number_their_own_samples_are_told_by_what_belongs_to_the_sample():
    first, second = PredictionsById(), PredictionsById()
    first.add([0, 1], label=torch.tensor([1, 1]))
    second.add([0, 1], label=torch.tensor([1, 2]))
    with pytest.raises(IdError, match="id 1 stands for two samples, which differ in 'label'"):
        in_ranks([first, second], order=2, fixed=("label",))


def on_rank(rank: int, world: int, count: int, uneven: bool) -> Any:
    data = add_ids([float(number) for number in range(count)])
    sampler: Any = range(rank * 2, count if rank == world - 1 else min(count, rank * 2 + 2))
    loader = DataLoader(
        data,
        batch_size=2,
        collate_fn=IdCollator(),
        sampler=sampler if uneven else DistributedSampler(data, num_replicas=world, rank=rank, shuffle=True, seed=3),
    )
    rows = PredictionsById()
    for ids, batch in loader:
        rows.add(ids, double=2 * batch)
    joined = rows.gather(count)
    return joined.ids, joined["double"].tolist(), sorted(joined.dropped)


@pytest.mark.parametrize(
    ("world", "count", "uneven", "padded"), [(2, 7, False, 1), (3, 7, False, 2), (2, 7, True, 0), (3, 3, True, 0)]
)
def test_over_real_ranks_with_uneven_shards_and_padding(world: int, count: int, uneven: bool, padded: int):
    found = on_processes([partial(on_rank, rank, world, count, uneven) for rank in range(world)], seconds=60)
    for ids, values, dropped in found:
        assert (ids, values) == (list(range(count)), [2.0 * number for number in range(count)])
        assert len(dropped) == padded


def missing_on_rank(rank: int) -> str:
    rows = PredictionsById()
    rows.add([rank], x=[rank])
    try:
        rows.gather(3)
    except IdError as error:
        return str(error)
    return "nothing"


def test_an_error_comes_on_every_rank_instead_of_a_hang():
    found = on_processes([partial(missing_on_rank, rank) for rank in range(2)], seconds=30)
    assert found == ["id 2 of 3 never came"] * 2


def with_accelerate(rank: int, port: int, world: int) -> Any:
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(world),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
        ACCELERATE_USE_CPU="true",
    )
    from accelerate import Accelerator, DataLoaderConfiguration
    from accelerate.state import AcceleratorState

    # One for the whole process: a test before this one may have made it, and the fork has inherited it.
    AcceleratorState._reset_state(reset_partial_state=True)
    accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(dispatch_batches=False))
    assert accelerator.num_processes == world
    theirs: list[int] = []
    rows = PredictionsById()
    stream = add_ids(Counted(7))
    for batch in accelerator.prepare(DataLoader(stream, batch_size=2, collate_fn=IdCollator())):
        theirs += accelerator.gather_for_metrics(batch.batch).tolist()
        rows.add(batch.ids, value=batch.batch)
    joined = rows.gather(None, ranks=accelerator, fixed="value")
    return theirs, joined["value"].tolist(), joined.dropped


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_accelerate_keeps_the_padding_of_a_stream_and_ids_do_not():
    pytest.importorskip("accelerate")
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    found = on_processes([partial(with_accelerate, rank, port, 2) for rank in range(2)], seconds=60)
    for theirs, ours, dropped in found:
        assert sorted(theirs) == [0, 0, 1, 2, 3, 4, 5, 6]
        assert (ours, dropped) == (list(range(7)), [0])


@given(
    losses=st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=12),
    cut=st.integers(1, 12),
    keep=st.integers(0, 2**12 - 1),
)
@settings(max_examples=80, deadline=None)
def test_the_mean_is_exact_over_any_cut(losses: list[float], cut: int, keep: int):
    mask = [bool(keep >> place & 1) for place in range(len(losses))]
    whole, parts = LossMean(), LossMean()
    whole.update(torch.tensor(losses), torch.tensor(mask))
    for start in range(0, len(losses), cut):
        part = LossMean()
        part.update(torch.tensor(losses[start : start + cut]), torch.tensor(mask[start : start + cut]))
        parts.merge(part)
    kept = [value for value, counts in zip(losses, mask, strict=True) if counts]
    assert parts.count == whole.count == len(kept)
    if kept:
        from fractions import Fraction

        expected = float(sum(map(Fraction, kept)) / len(kept))
        assert whole.compute().item() == pytest.approx(expected, rel=1e-15, abs=1e-15)
        assert parts.compute().item() == whole.compute().item()
    else:
        assert parts.compute().isnan()


def test_means_and_sums_of_batches_and_what_has_no_items():
    loss = LossMean()
    loss.update_mean(torch.tensor(2.0), 3)
    loss.update_mean(float("nan"), 0)
    loss.update_sum(10.0, 1)
    loss.update_sum(0.0, 0)
    assert (loss.compute().item(), loss.count) == (4.0, 4.0)
    other = LossMean()
    other.load_state_dict(loss.state_dict())
    assert (other.compute().item(), other.count) == (4.0, 4.0)
    assert other.gather(lambda mine: [mine, mine]).count == 8
    other.update_mean(float("nan"), 1)
    assert other.compute().isnan()
    other.reset()
    assert (other.count, other.compute().isnan().item()) == (0, True)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda loss: loss.update(torch.ones(2), torch.ones(2)), r"mask: expected a bool tensor.*torch.float32 \(2,\)"),
        (lambda loss: loss.update_mean(torch.ones(2), 2), r"mean: expected one number, got \(2,\)"),
        (lambda loss: loss.update_mean(1.0, -1), "count: expected the number of tokens or samples, 0 or more, got -1"),
        (lambda loss: loss.update_mean(1.0, float("nan")), "count: expected"),
        (lambda loss: loss.update_sum(1.0, 0), "total: expected a sum of nothing to be 0"),
        (lambda loss: loss.load_state_dict({}), "state: expected what LossMean.state_dict"),
        (lambda loss: sample_losses(torch.ones(2, 3), torch.ones(2)), "labels: expected integers of the shape"),
        (lambda loss: sample_losses(torch.ones(2, 3), torch.tensor([0, 1]), shift=True), "shift: expected labels"),
    ],
)
def test_losses_that_cannot_be_counted_are_refused(make: Any, text: str):
    with pytest.raises(ValueError, match=text):
        make(LossMean())


@pytest.mark.parametrize("shift", [False, True])
def test_losses_of_samples_are_those_of_each_alone(shift: bool):
    torch.manual_seed(0)
    logits, labels = torch.randn(4, 6, 5), torch.randint(0, 5, (4, 6))
    labels[1, 2:] = -100
    labels[3] = -100
    sums, counts = sample_losses(logits, labels, shift=shift, label_smoothing=0.1)
    for row in range(4):
        one, target = (logits[row, :-1], labels[row, 1:]) if shift else (logits[row], labels[row])
        kept = target != -100
        alone = torch.nn.functional.cross_entropy(
            one[kept].double(), target[kept], reduction="sum", label_smoothing=0.1
        )
        assert sums[row].item() == pytest.approx(alone.item(), rel=1e-6, abs=1e-12)
        assert counts[row].item() == int(kept.sum())


@pytest.mark.parametrize("kind", ["cuda", "mps"])
def test_losses_on_a_device_are_those_of_the_cpu(kind: str):
    logits, labels = torch.randn(4, 5, generator=torch.Generator().manual_seed(0)), torch.tensor([0, -100, 4, 1])
    expected, counted = sample_losses(logits, labels)
    with simulate(kind):
        sums, counts = sample_losses(logits.to(kind), labels.to(kind))
        loss = LossMean()
        loss.update_sum(sums.sum(), counts.sum())
        loss.update_sum(logits.sum().to(kind) * 0, 0)
        assert (sums.dtype, sums.tolist(), counts.tolist()) == (torch.float64, expected.tolist(), counted.tolist())
        assert loss.compute().item() == pytest.approx(expected.sum().item() / 3)
        loss.update_sum(torch.ones(1, device=kind), 1)


class Scorer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.layers = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.5), torch.nn.BatchNorm1d(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def step(model: Any, batch: Any) -> StepResult:
    logits = model(batch["x"])
    sums, counts = sample_losses(logits, batch["label"])
    return StepResult(batch["ids"], sums, counts, {"best": logits.argmax(-1)})


def samples(count: int = 9) -> list[dict[str, Any]]:
    generator = torch.Generator().manual_seed(2)
    return [{"id": n, "x": torch.randn(3, generator=generator), "label": n % 4} for n in range(count)]


@pytest.mark.parametrize("size", [1, 2, 4, 9, 20])
def test_the_loop_gives_what_one_sample_at_a_time_gives_and_the_model_back(size: int):
    model, data = Scorer().train(), samples()
    loader = DataLoader(data, batch_size=size, shuffle=True, collate_fn=IdCollator(), generator=torch.Generator())
    order = loader.generator.get_state()
    state = torch.get_rng_state()
    found = evaluate(model, loader, step, order=len(data))
    assert model.layers[1].training
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(loader.generator.get_state(), order)
    twin = Scorer().double().eval()
    with torch.no_grad():
        logits = torch.cat([twin(row["x"].double()[None]) for row in data])
    expected = torch.nn.functional.cross_entropy(logits, torch.tensor([row["label"] for row in data]))
    assert found.loss == pytest.approx(expected.item(), rel=1e-6)
    assert (found.items, found.rows["best"].tolist()) == (9, logits.argmax(-1).tolist())
    assert list(found.rows) == ["best"]


def test_a_batch_that_runs_out_of_memory_is_evaluated_in_parts_and_counts_once():
    calls: list[int] = []

    def failing(model: Any, batch: Any) -> StepResult:
        calls.append(len(batch["ids"]))
        if len(batch["ids"]) > 2:
            raise torch.OutOfMemoryError("no")
        return step(model, batch)

    batches = lambda: DataLoader(samples(), batch_size=5, collate_fn=IdCollator())  # noqa: E731
    assert evaluate(Scorer(), batches(), failing, order=9).loss == pytest.approx(
        evaluate(Scorer(), batches(), step, order=9).loss, rel=1e-6
    )
    assert max(calls) == 5


def test_steps_without_losses_and_without_anything_but_ids():
    batches = [{"ids": [1, 0], "x": torch.ones(2, 3)}]
    found = evaluate(Scorer(), batches, lambda model, batch: StepResult(batch["ids"]), order=2)
    assert (found.loss, found.items, found.rows.ids, list(found.rows)) == (None, 2, [0, 1], [])
    empty = evaluate(Scorer(), [], step, order=0)
    assert (empty.loss, empty.items) == (None, 0)


@pytest.mark.parametrize(
    ("found", "error", "text"),
    [
        (3.0, TypeError, "step: expected it to return a StepResult, got float"),
        (StepResult([0], torch.tensor(1.0)), ValueError, r"losses and items: expected one number per sample"),
        (StepResult([0], torch.ones(1), torch.ones(2)), ValueError, r"got \(1,\) and \(2,\)"),
        (
            StepResult([0], fields={"_x": [1]}),
            ValueError,
            "fields: expected names without a leading underscore, got '_x'",
        ),
    ],
)
def test_steps_that_give_something_else_are_refused(found: Any, error: type[Exception], text: str):
    with pytest.raises(error, match=text):
        evaluate(Scorer(), [torch.ones(1, 3)], lambda model, batch: found, order=1)
