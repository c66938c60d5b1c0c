"""Parts that checks of loops use: data sets, numbers, records, results of ranks, and the watches on memory."""

from __future__ import annotations

import gc
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

import pytest_evalcheck as ec
from fixtures.gallery.loops_correct import Net, Recorded, Rows, Trained
from pytest_evalcheck import strategies as es
from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import NotApplicable, TargetError
from pytest_evalcheck.kinds.common.process_state import loader_seeds_not_counted, same_random_numbers
from pytest_evalcheck.kinds.loop.checks_samples import miscounted_by_rank, over_ranks
from pytest_evalcheck.kinds.loop.checks_state import train
from pytest_evalcheck.kinds.loop.memory import OutOfMemoryInjector, RetainedTensors
from pytest_evalcheck.kinds.loop.record import SampleError
from pytest_evalcheck.kinds.loop.subject import (
    LoopSubject,
    all_nan,
    comparable,
    counts_non_finite,
    miscounted,
    non_finite,
    read_result,
    records_of,
)
from pytest_evalcheck.kinds.loop.training_state import interrupt

INPUTS = es.tabular(features=2, classes=3)
ROWS = [(0, (0.0, 1.0)), (1, (2.0, -1.0)), (2, (0.5, 0.5))]


def subject(record: Any = None, **more: Any) -> LoopSubject:
    made = record or Rows().record()
    return LoopSubject(build=lambda: made, inputs=INPUTS, **more)


def training() -> ec.Loop:
    with same_random_numbers():  # as every factory is called
        return Trained().record()


def data(rows: Any = None) -> ec.LoopData:
    return ec.LoopData(rows or ROWS, INPUTS.collate)


def test_data_is_a_data_set_for_torch() -> None:
    batches = list(DataLoader(data(), batch_size=2, collate_fn=data().collate))  # type: ignore[arg-type]
    assert [batch["labels"].tolist() for batch in batches] == [[0, 1], [2]]
    assert batches[0]["x"].dtype == torch.float32
    assert data()[1:] == ROWS[1:]
    assert data()[-1] == data()[torch.tensor(2)] == ROWS[2]


def test_data_makes_a_loader() -> None:
    loaders = (data().loader(2), data().loader(2, iterable=True), data().loader(2, pin_memory=False, workers=0))
    for loader in loaders:
        assert [batch["labels"].tolist() for batch in loader] == [[0, 1], [2]]
    assert isinstance(loaders[1].dataset, torch.utils.data.IterableDataset)
    assert [len(batch["x"]) for batch in data().loader(3, workers=1, drop_last=True)] == [3]
    with pytest.raises(SampleError, match="sample 1 of 3"):
        list(data().failing(1).loader())
    assert list(pickle.loads(pickle.dumps(data()))) == ROWS
    with pytest.raises(IndexError, match="sample 3 of 3"):
        data()[3]


def test_a_batch_comes_in_the_first_container_of_the_inputs() -> None:
    inputs = INPUTS.replace(containers=("tuple", "dict"))
    loop = LoopSubject(build=training, inputs=inputs)
    x, labels = loop.data(ROWS).collate(ROWS)
    assert (x.shape, labels.tolist()) == ((3, 2), [0, 1, 2])
    assert subject().data(ROWS).collate is INPUTS.collate


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stream_gives_every_sample_once(workers: int) -> None:
    loader = DataLoader(data().stream(ids=True), batch_size=1, num_workers=workers, collate_fn=list)
    found = [pair for batch in loader for pair in batch]
    assert sorted(found) == list(enumerate(ROWS))
    assert list(data().stream()) == ROWS
    with pytest.raises(TypeError, match="no len"):
        len(data().stream())


def test_a_sample_that_cannot_be_read_result() -> None:
    failing = data().failing(-1)
    assert failing[:2] == ROWS[:2]
    with pytest.raises(SampleError, match="sample 2 of 3 cannot be read"):
        list(failing)
    assert list(data()) == ROWS


def test_numbers_become_plain() -> None:
    made = read_result({"loss": torch.tensor(0.5), "hits": np.int64(2), "nan": np.float32("nan")})
    assert (made.numbers["loss"], made.numbers["hits"], non_finite(made.numbers)) == (0.5, 2, ["nan"])
    assert read_result(ec.Evaluated({"n": 1}, iter([(np.int64(0), {"label": 1})]))).records == [(0, {"label": 1})]
    assert read_result({}, some=False).numbers == {}


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (None, "returned no numbers by name"),
        ([0.5], "returned no numbers by name"),
        ({}, "returned no numbers"),
        ({"task": "mmlu"}, "returned no number as 'task'"),
        ({"losses": torch.zeros(2)}, "returned no number as 'losses'"),
        ({"z": 1j}, "returned no number as 'z'"),
        ({None: 1.0}, "names a number None"),
        (ec.Evaluated({"n": 1}, "records"), "returned no list of records"),  # type: ignore[arg-type]
        (ec.Evaluated({"n": 1}, [0]), "returned an invalid record"),  # type: ignore[list-item]
        (ec.Evaluated({"n": 1}, [(True, {})]), "returned a record without an id"),
        (ec.Evaluated({"n": 1}, [(0.0, {})]), "returned a record without an id"),  # type: ignore[list-item]
    ],
)
def test_an_invalid_result_is_reported(made: Any, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        read_result(made)


def test_samples_that_are_miscounted_are_named() -> None:
    assert miscounted([0, 1, 2], 3) == {}
    assert miscounted([0, 0, 0, 4], 3) == {
        "never-counted": "never counted: 1, 2",
        "counted-more-than-once": "counted more than once: 0 (3 times)",
        "no-id-of-the-data": "no id of the data: 4",
    }
    assert miscounted([], 12) == {"never-counted": "never counted: 0, 1, 2, 3, 4, 5, 6, 7 and 4 more"}


def test_numbers_that_are_all_nan_or_count_what_was_left_out() -> None:
    assert all_nan({"loss": float("nan")})
    assert all_nan({"loss": float("nan"), "hits": 0.0}) is None
    assert counts_non_finite({"loss": 0.5, "nan_samples": 1})
    assert not counts_non_finite({"loss": 0.5, "nan_samples": 0})
    assert not counts_non_finite({"finance": 1.0, "info": 2.0})


def test_records_are_compared_by_id() -> None:
    turned = ec.Evaluated({"n": 2}, [(1, {"label": 1}), (0, {"label": 0})])
    assert comparable(turned) == {"numbers": {"n": 2}, "records": [(0, {"label": 0}), (1, {"label": 1})]}
    assert comparable(ec.Evaluated({"n": 2})) == {"n": 2}
    with pytest.raises(NotApplicable, match="returns no records"):
        records_of(ec.Evaluated({"n": 2}))


def test_only_options_that_are_offered_are_set() -> None:
    seen: list[dict[str, Any]] = []

    def evaluate(data: Any, workers: int = 0, prefetch: Any = None, iterable: bool = False) -> Any:
        seen.append({"workers": workers, "prefetch": prefetch, "iterable": iterable})
        return {"n": len(data)}

    loop = subject(ec.Loop(evaluate=evaluate))
    assert loop.numbers(ROWS, batch_size=2) == {"n": 3}
    assert loop.nearest_batch_size(2) is None
    tried = loop.configs(2, workers=True)
    assert {"batch_size": 2, "workers": 2, "iterable": True} in tried
    assert {"batch_size": 2, "prefetch": 4, "workers": 1} in tried
    assert loop.configs(2, workers=False) == [{"batch_size": 2, "iterable": True}]
    assert seen == [{"workers": 0, "prefetch": None, "iterable": False}]


def test_options_of_your_own() -> None:
    sizes: list[int] = []

    def evaluate(data: Any, **config: Any) -> Any:
        sizes.append(config["batch_size"])
        return {"n": len(data)}

    loop = subject(ec.Loop(evaluate=evaluate, options={"batch_size": (4, 8), "backend": ("eager", "sdpa")}))
    assert [loop.nearest_batch_size(wanted) for wanted in (1, 5, 64)] == [4, 4, 8]
    loop.numbers(ROWS, batch_size=7)
    assert sizes == [8]
    assert loop.configs(4, workers=False) == [{"batch_size": 4, "backend": "sdpa"}]


@pytest.mark.parametrize(
    "wrong",
    [
        {"evaluate": "accuracy"},
        {"exact": 1.0},
        {"options": {"workers": 2}},
        {"options": {"backend": "sdpa"}},
        {"options": {"workers": ()}},
        {"agree": {"loss": 0.5}},
        {"model": "gpt2"},
    ],
    ids=str,
)
def test_an_invalid_record_is_refused_at_construction(wrong: Any) -> None:
    with pytest.raises(TypeError, match=next(iter(wrong))):
        ec.Loop(**{"evaluate": lambda data: {"n": 0}, **wrong})


def test_an_error_is_a_result_and_the_process_stays_as_it_was() -> None:
    def evaluate(data: Any) -> Any:
        torch.set_grad_enabled(False)
        raise ValueError("no")

    live = subject(ec.Loop(evaluate=evaluate)).fresh()
    assert isinstance(live.evaluate(data()), Raised)
    assert torch.is_grad_enabled()
    assert live.changes == ["the grad mode: True became False"]


def test_exact_numbers_come_from_the_loop_or_the_reference() -> None:
    assert subject(ec.Loop(evaluate=lambda data: {"n": 3})).exact(ROWS) is None
    assert subject(ec.Loop(evaluate=lambda data: {"n": 3}), reference=lambda rows: {"n": len(rows)}).exact(ROWS) == {
        "n": 3
    }
    loop = subject()
    assert loop.exact(ROWS) == pytest.approx(loop.numbers(ROWS, batch_size=1), rel=1e-5)
    with pytest.raises(TargetError, match="computing the exact numbers raised an error"):
        subject(ec.Loop(evaluate=lambda data: {"n": 3}, exact=lambda data: 1 / 0)).exact(ROWS)


def test_the_loop_of_a_bare_module() -> None:
    model = Net()
    record = ec.Loop.of(
        model,
        loss=lambda logits, batch: torch.nn.functional.cross_entropy(logits, batch["labels"], reduction="none"),
        metrics={"accuracy": lambda logits, batch: (logits.argmax(-1) == batch["labels"]).double()},
    )
    loop = subject(record)
    found = loop.numbers(ROWS, batch_size=2)
    assert found == pytest.approx(loop.exact(ROWS), rel=1e-5)
    assert found == pytest.approx(loop.numbers(ROWS, batch_size=2, workers=2))
    assert len(loop.records(ROWS, batch_size=2)) == 3
    assert model.training
    weighed = ec.Loop.of(model, metrics={"share": lambda logits, batch: (batch["labels"], batch["labels"] * 2)})
    assert subject(weighed).numbers(ROWS, batch_size=2) == {"share": 0.5}
    with pytest.raises(TypeError, match="expected functions of outputs and a batch"):
        ec.Loop.of(model)


def test_miscounts_by_rank() -> None:
    def report(*ids: int) -> ec.Evaluated:
        return ec.Evaluated({"n": len(ids)}, [(one, {}) for one in ids])

    assert miscounted_by_rank({0: report(0, 1, 2), 1: report(0, 1, 2)}, 3) == {}
    assert miscounted_by_rank({0: report(0, 2), 1: report(1)}, 3) == {}
    assert miscounted_by_rank({0: report(0, 1), 1: ec.Evaluated({"n": 2})}, 3) == {
        "the ranks together": {"never-counted": "never counted: 2"}
    }
    assert miscounted_by_rank({0: report(0, 1, 2, 0), 1: report(0, 1, 2, 0)}, 3) == {
        "rank 0": {"counted-more-than-once": "counted more than once: 0 (2 times)"},
        "rank 1": {"counted-more-than-once": "counted more than once: 0 (2 times)"},
    }


def test_results_of_ranks() -> None:
    loop = subject(Recorded().record())
    reports = over_ranks(loop, ROWS, 2, 2)
    assert [comparable(one) for one in reports.values()] == [comparable(reports[0])] * 2
    silent = subject(ec.Loop(evaluate=lambda data: {"n": 3}, over_ranks=lambda data, ranks: [{"n": 3}, None]))
    assert list(over_ranks(silent, ROWS, 2, 2)) == [0]
    nobody = subject(ec.Loop(evaluate=lambda data: {"n": 3}, over_ranks=lambda data, ranks: [None] * ranks))
    with pytest.raises(TargetError, match="no rank reports anything"):
        over_ranks(nobody, ROWS, 2, 2)


def test_training_and_what_disturbs_it() -> None:
    loop = LoopSubject(build=training, inputs=INPUTS)
    modes = "every submodule trains"
    quiet, again = train(loop, ROWS, modes, repr), train(loop, ROWS, modes, repr)
    assert quiet["losses"] == again["losses"]
    noisy = train(loop, ROWS, modes, lambda live: torch.rand(1))
    assert noisy["losses"] != quiet["losses"]
    after = interrupt(loop, data(), modes, 2)
    assert (after.changes, after.all_evaluate, len(after.result.numbers)) == ({}, False, 2)


@pytest.mark.parametrize(
    ("options", "drawn"),
    [
        ({}, False),
        ({"num_workers": 1}, False),
        ({"num_workers": 1, "persistent_workers": True}, False),
        ({"generator": torch.Generator()}, False),
        ({"shuffle": True}, True),
        ({"num_workers": 1, "shuffle": True}, True),
    ],
)
@pytest.mark.parametrize("module", ["torch.utils.data", "torchdata.stateful_dataloader"])
@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")
def test_only_the_one_seed_of_a_loader_is_not_counted(options: dict[str, Any], drawn: bool, module: str) -> None:
    made = getattr(pytest.importorskip(module), "StatefulDataLoader", DataLoader)
    begin = _BaseDataLoaderIter.__init__
    with same_random_numbers():
        before = torch.get_rng_state()
        with loader_seeds_not_counted():
            loader = made(
                data(), collate_fn=list, **options
            )  # which draws the seed of a sampler, or the iteration does
            for _ in range(2):
                assert len(list(loader)) == len(ROWS)
        assert torch.equal(before, torch.get_rng_state()) is not drawn
        assert _BaseDataLoaderIter.__init__ is begin
        with loader_seeds_not_counted():
            torch.rand(1)
            assert not torch.equal(before, torch.get_rng_state())


def test_memory_runs_out_in_the_chosen_passes() -> None:
    model = torch.nn.Linear(2, 1)
    counting = OutOfMemoryInjector()
    with counting.watch(model):
        for rows in (2, 1, 3):
            model(torch.zeros(rows, 2))
    assert counting.passes == 2
    failing = OutOfMemoryInjector(at=1)
    with failing.watch(model):
        model(torch.zeros(2, 2))
        model(torch.zeros(1, 2))
        with pytest.raises(torch.OutOfMemoryError, match="CUDA out of memory"):
            model(torch.zeros(3, 2))
        model(torch.zeros(3, 2))
    model(torch.zeros(2, 2))


def test_retained_tensors_are_counted() -> None:
    model = torch.nn.Linear(2, 1)
    retained, kept = RetainedTensors(), []
    with retained.watch(model):
        kept += [model(torch.zeros(1, 2)), model(torch.zeros(1, 2))]
    assert (retained.saved_for_backward() > 0, retained.passes_with_outputs(model)) == (True, 2)
    kept.clear()
    gc.collect()
    assert (retained.saved_for_backward(), retained.passes_with_outputs(model)) == (0, 0)
    with RetainedTensors().watch(None):
        pass


def test_tensors_that_grow() -> None:
    kept: list[torch.Tensor] = []
    with RetainedTensors() as retained:
        assert retained.growing(lambda: kept.append(torch.zeros(1)))
        assert retained.growing(lambda: torch.zeros(1)) == []


def test_only_new_objects_are_collected_until_something_seems_to_be_retained() -> None:
    class Node:
        pass

    model, old = torch.nn.Linear(2, 1), Node()
    old.itself = old
    with RetainedTensors() as retained:
        assert gc.get_freeze_count()
        with retained.watch(model):
            old.outputs = [model(torch.zeros(1, 2)), model(torch.zeros(1, 2))]
        del old  # garbage that is older than this, and holds what is new
        assert (retained.passes_with_outputs(model), retained.saved_for_backward()) == (0, 0)
        assert not gc.get_freeze_count()
    gc.freeze()
    try:
        with RetainedTensors():
            pass
        assert gc.get_freeze_count()  # somebody else's
    finally:
        gc.unfreeze()
