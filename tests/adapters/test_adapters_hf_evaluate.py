"""Modules of Hugging Face evaluate become records that forget, merge and keep out of the user's cache."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_evalcheck import adapters
from pytest_evalcheck.kinds.metric.record import Metric

evaluate = pytest.importorskip("evaluate")
datasets = pytest.importorskip("datasets")


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Makes a metric that lists its predictions; the user's cache is ``tmp_path``."""
    monkeypatch.setattr(evaluate.config, "HF_METRICS_CACHE", tmp_path)

    def make(name: str = "Listing", **options: Any) -> Any:
        def info(self: Any) -> Any:
            features = datasets.Features({key: datasets.Value("int32") for key in ("predictions", "references")})
            return evaluate.MetricInfo(description="", citation="", inputs_description="", features=features)

        def compute(self: Any, predictions: Any, references: Any) -> Any:
            return {name: list(predictions)}

        return type(name, (evaluate.Metric,), {"_info": info, "_compute": compute})(**options)

    return make


def fed(record: Metric, *batches: list[int]) -> Metric:
    for batch in batches:
        record.update(predictions=batch, references=batch)
    return record


def test_the_value_is_that_of_all_batches(made: Callable[..., Any]) -> None:
    assert fed(adapters.record("metric", made()), [1, 2], [3]).compute() == {"Listing": [1, 2, 3]}


def test_a_reset_forgets_and_needs_nothing_to_forget(made: Callable[..., Any]) -> None:
    record = adapters.record("metric", made())
    assert record.reset is not None
    record.reset()
    fed(record, [1, 2])
    record.reset()
    assert fed(record, [3]).compute() == {"Listing": [3]}


def test_ranks_are_merged_in_their_order(made: Callable[..., Any]) -> None:
    batches: list[list[list[int]]] = [[[1], [2, 3]], [[4]], [[5, 6]]]
    ranks = [fed(adapters.record("metric", made()), *shard) for shard in batches]
    assert ranks[0].merges["processes"](ranks) == {"Listing": [1, 2, 3, 4, 5, 6]}


@pytest.mark.parametrize(
    ("without", "place"),
    [(0, "_check_rendez_vous"), (1, "_check_all_processes_locks"), (2, "_check_all_processes_locks")],
)
def test_the_error_of_a_rank_without_data_does_not_depend_on_the_order_of_threads(
    without: int, place: str, made: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    started = threading.Thread.start

    def in_order(delays: list[float]) -> Callable[[threading.Thread], None]:
        def start(thread: threading.Thread) -> None:
            time.sleep(delays.pop(0) if delays else 0)
            started(thread)

        return start

    for delays in ([], [0, 0.1, 0.1], [0, 0, 0.2], [0.1, 0.2, 0]):
        ranks = [fed(adapters.record("metric", made()), *([] if rank == without else [[rank]])) for rank in range(3)]
        monkeypatch.setattr(threading.Thread, "start", in_order(list(delays)))
        with pytest.raises(ValueError, match="Expected to find locked file") as raised:
            ranks[0].merges["processes"](ranks)
        assert place in [entry.name for entry in raised.traceback]


def test_merging_leaves_the_ranks_as_they_were(made: Callable[..., Any]) -> None:
    ranks = [fed(adapters.record("metric", made()), [rank]) for rank in range(2)]
    ranks[0].merges["processes"](ranks)
    assert [rank.compute() for rank in ranks] == [{"Listing": [0]}, {"Listing": [1]}]


def test_a_module_with_its_own_constructor_offers_no_merge(made: Callable[..., Any]) -> None:
    plain = made()
    own = type("Own", (type(plain),), {"__init__": lambda self: type(plain).__init__(self)})()
    assert adapters.record("metric", own).merges == {}


def test_nothing_is_written_into_the_cache_of_the_user(made: Callable[..., Any], tmp_path: Path) -> None:
    fed(adapters.record("metric", made()), [1, 2])
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_folder_that_was_chosen_is_kept(made: Callable[..., Any], tmp_path: Path) -> None:
    chosen = tmp_path / "chosen"
    record = fed(adapters.record("metric", made(cache_dir=str(chosen))), [1])
    assert list(chosen.rglob("*.arrow"))
    record.compute()


def test_the_files_go_with_the_module(made: Callable[..., Any]) -> None:
    module = made()
    record = fed(adapters.record("metric", module), [1])
    folder = Path(module.data_dir)
    assert list(folder.glob("*.arrow"))
    del module, record
    gc.collect()  # a module refers to itself
    assert not folder.exists()


@pytest.mark.parametrize("force_prefix", [False, True])
def test_members_are_named_as_in_the_combination(made: Callable[..., Any], force_prefix: bool) -> None:
    combined = evaluate.combine({"one": made("First"), "two": made("Second")}, force_prefix=force_prefix)
    record = adapters.record("metric", combined)
    assert record.members is not None
    alone: dict[str, Any] = {}
    for member in record.members().values():
        alone.update(fed(member, [1, 2]).compute())
    assert fed(record, [1, 2]).compute() == alone
