"""Streams of observed rows: what is a column, what is fixed, and which changes stay inside of what was observed."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import numpy
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_evalcheck.adapters.protocols.collecting import Collected
from pytest_evalcheck.errors import UsageError
from pytest_evalcheck.learning import corpus
from pytest_evalcheck.learning.streams import Stream, batches_of, learned, streams_of
from pytest_evalcheck.learning.values import encoded


def _streams(*calls: dict[str, Any], one_sample: bool = False) -> list[Stream]:
    kept = [
        (f"test_{i}", {name: encoded(value, name=name) for name, value in call.items()}) for i, call in enumerate(calls)
    ]
    return streams_of("some.module:name", json.loads(json.dumps(kept)), one_sample=one_sample)


def _drawn(stream: Stream, count: int = 40, *, changes: bool = True) -> list[Any]:
    return stream.strategy(changes=changes).fixed(count)


def test_columns_are_leaves_of_one_length_and_the_rest_is_fixed() -> None:
    [stream] = _streams(
        {"inp": torch.rand(3, 4), "targ": torch.tensor([0, 1, 2]), "axis": 1, "weights": [1.0, 2.0]},
        {"inp": torch.rand(2, 4), "targ": torch.tensor([3, 2]), "axis": 1, "weights": [1.0, 2.0]},
    )
    assert [each.path for each in stream.columns] == [("inp",), ("targ",)]
    batch = stream.strategy(changes=True).example(5)
    assert [each.shape for each in batch.args] == [(5, 4), (5,)]
    assert batch.kwargs == {"axis": 1, "weights": [1.0, 2.0]}
    empty = stream.batch([])
    assert [(each.shape, each.dtype) for each in empty.args] == [((0, 4), torch.float32), ((0,), torch.int64)]


def test_calls_of_other_options_are_other_streams_those_with_most_rows_first() -> None:
    found = _streams({"a": [1, 2], "k": 1}, {"a": [1, 2, 3], "k": 2}, {"a": [4], "k": 1})
    assert [each.options for each in found] == [{"k": 1}, {"k": 2}]


def test_without_changes_only_observed_rows_are_drawn() -> None:
    [stream] = _streams({"a": numpy.array([0.5, 0.25, 0.125]), "b": numpy.array([1, 0, 1])})
    assert {*_drawn(stream, changes=False)} == {(0.5, 1), (0.25, 0), (0.125, 1)}
    assert len({*_drawn(stream)}) > 3


def test_changes_stay_inside_of_ranges_and_labels() -> None:
    [stream] = _streams(
        {"score": torch.tensor([0.5, -1.0, 2.0]), "label": torch.tensor([0, 7, 0]), "tag": ["x", "y", "x"]}
    )
    for score, label, tag in _drawn(stream, 200):
        assert -1 <= score <= 2
        assert label in (0, 7)
        assert tag in ("x", "y")


def test_distributions_sorted_rows_and_masks_stay_what_they_are() -> None:
    [stream] = _streams(
        {
            "probs": torch.tensor([[0.25, 0.75], [0.5, 0.5], [1.0, 0.0]]),
            "edges": [[0, 2, 5], [1, 2, 3], [0, 1, 9]],
            "ids": torch.tensor([[5, 6, 0], [7, 0, 0], [8, 9, 4]]),
            "mask": torch.tensor([[1, 1, 0], [1, 0, 0], [1, 1, 1]]),
        }
    )
    assert (2, 3) in stream.groups
    for probs, edges, ids, mask in _drawn(stream, 200):
        assert sum(probs) == 1
        assert list(edges) == sorted(edges)
        assert [each != 0 for each in ids] == [each == 1 for each in mask]


def test_an_answer_stays_one_of_its_candidates() -> None:
    [stream] = _streams({"answer": ["a", "d", "c"], "choices": [["a", "b"], ["d", "c"], ["e", "c"]]})
    assert all(answer in choices for answer, choices in _drawn(stream, 100))


def test_rows_of_unequal_widths_are_padded_as_they_were() -> None:
    [stream] = _streams({"ids": torch.tensor([[5, 9, 9], [6, 7, 9]])}, {"ids": torch.tensor([[8, 9], [3, 4]])})
    (ids,) = stream.batch([((5, 6, 7),), ((8, 9),)])
    assert ids.tolist() == [[5, 6, 7], [8, 9, 9]]


def test_rows_that_were_too_large_are_drawn_by_a_seed() -> None:
    images = numpy.random.default_rng(0).random((4, 3, 16, 16), dtype=numpy.float32)
    [stream] = _streams({"preds": images, "target": images[::-1]})
    strategy = stream.strategy(changes=True)
    preds, _ = strategy.example(6)
    assert (preds.shape, preds.dtype) == ((6, 3, 16, 16), numpy.float32)
    assert 0 <= preds.min() <= preds.max() <= 1
    assert strategy.right is not None
    assert strategy.right((1, 2)) == (2, 2)
    assert strategy.wrong is not None
    assert all(row[0] == row[1] != strategy.wrong(row)[0] for row in strategy.contrast)
    assert len(strategy.contrast) == 4


@pytest.mark.parametrize("coordinates", [{}, {"t": [1990, 1991, 1992], "lat": [10.0, 20.0]}])
def test_rows_of_arrays_of_xarray_are_samples_and_are_joined(coordinates: dict[str, Any]) -> None:
    xarray = pytest.importorskip("xarray")
    obs = xarray.DataArray([[0.5, 1.5], [2.0, 0.25], [1.0, 3.0]], dims=("t", "lat"), coords=coordinates)
    [stream] = _streams({"obs": obs, "model": obs + 1})
    batch = stream.batch([((0.5, 1.5), (2.0, 0.25))])
    assert [each.dims for each in batch] == [("t", "lat")] * 2
    assert stream.strategy(changes=True).corrupted is None  # there NaN is a missing value
    collected = Collected(lambda obs, model: float(abs(obs - model).mean(dim="t").sum()))
    for rows in ([((0.5, 1.5), (2.0, 0.25))], [((1.0, 3.0), (1.0, 2.0)), ((0.0, 0.0), (0.5, 0.0))]):
        collected.update(*stream.batch(rows))
    assert collected.compute() == pytest.approx((1.5 + 0 + 0.5 + 1.25 + 1.0 + 0) / 3)


def test_rows_of_tables_are_samples() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"score": [0.5, 1.5, 2.0], "group": ["a", "b", "a"]})
    [stream] = _streams({"table": frame, "hit": frame["score"] > 1})
    assert [column.path for column in stream.columns] == [("table", "score"), ("table", "group"), ("hit", "score")]
    table, hit = stream.batch([(0.25, "b", True), (1.5, "a", False)])
    pandas.testing.assert_frame_equal(table, pandas.DataFrame({"score": [0.25, 1.5], "group": ["b", "a"]}))
    pandas.testing.assert_series_equal(hit, pandas.Series([True, False], name="score"))
    later = frame[1:]
    [stream] = _streams({"table": later, "hit": later["score"] > 1})
    indexes = [("table", "(index)"), ("hit", "(index)")]
    assert [column.path for column in stream.columns][-2:] == indexes
    assert (3, 4) in stream.groups
    table, hit = stream.batch([(0.25, "b", True, 7, 7), (1.5, "a", False, 5, 5)])
    assert (table.index.tolist(), hit.index.tolist()) == ([7, 5], [7, 5])
    [one] = _streams({"x": frame["score"]}, {"x": frame["score"] + 1}, one_sample=True)
    assert not one.is_text
    [[drawn]] = one.batch(one.strategy(changes=False).fixed(1))
    assert drawn.tolist() in ([0.5, 1.5, 2.0], [1.5, 2.5, 3.0])
    assert (type(drawn), drawn.name) == (pandas.Series, "score")


def test_rows_that_are_too_large_to_be_drawn_are_refused() -> None:
    written = {**encoded(numpy.zeros((4, 3, 16, 16))), "shape": [4, 100_000, 100_000]}
    written.pop("rows")
    with pytest.raises(UsageError, match="rows that are too large to be drawn"):
        streams_of("some.module:share", [("t", {"preds": written})])


def test_where_all_targets_are_equal_no_prediction_is_wrong() -> None:
    for targets in ([1, 1, 1], [1, 0, 1]):
        [stream] = _streams({"preds": [1, 0, 1], "target": targets})
        strategy = stream.strategy(changes=True)
        assert (strategy.wrong is None) is (len({*targets}) == 1)
        assert len(strategy.contrast) == (0 if strategy.wrong is None else 2)


def test_calls_with_one_sample_each() -> None:
    [stream] = _streams({"said": "a b", "true": "a", "k": 2}, {"said": "x", "true": "x y", "k": 2}, one_sample=True)
    batch = stream.strategy(changes=True).example(3)
    assert all(type(each) is list and len(each) == 3 for each in batch.args)
    assert batch.kwargs == {"k": 2}
    assert not _streams({"said": "a", "true": "b"}, one_sample=True)  # one call alone, of which nothing is changed


def test_one_call_alone_is_changed_inside_of_its_numbers() -> None:
    [stream] = _streams({"matrix": torch.tensor([[3, 1], [2, 6]]), "k": 2}, one_sample=True)
    drawn = {repr(row[0]["rows"]) for row in _drawn(stream)}
    assert len(drawn) > 4
    assert all({number for row in json.loads(each) for number in row} <= {1, 2, 3, 6} for each in drawn)
    assert {repr(row[0]["rows"]) for row in _drawn(stream, changes=False)} == {"[[3, 1], [2, 6]]"}


def test_calls_that_differ_by_an_option_are_a_stream_for_each_option() -> None:
    matrix = torch.tensor([[3.0, 1.0], [2.0, 6.0]])
    found = _streams({"matrix": matrix, "way": "a"}, {"matrix": matrix, "way": "b"}, one_sample=True)
    assert [stream.fixed[("way",)] for stream in found] == ["a", "b"]
    for stream in found:
        assert {tuple(each[0]["shape"]) for each in _drawn(stream)} == {(2, 2)}
        assert len({repr(each) for each in _drawn(stream)}) > 4
    assert len(_streams({"said": "a"}, {"said": "b"}, one_sample=True)) == 1


def test_the_parts_of_an_argument_are_of_one_sample() -> None:
    calls = [{"said": "a", "case": {"id": 1, "true": "a"}}, {"said": "b", "case": {"true": "a"}}]
    [stream] = _streams(*calls, one_sample=True)
    assert stream.strategy(changes=False).collate([stream.strategy(changes=False).fixed(1)[0]])[1][0] in (
        {"id": 1, "true": "a"},
        {"true": "a"},
    )


def test_nested_arguments_come_back() -> None:
    [stream] = _streams({"batch": {"x": [1, 2], "more": (torch.zeros(2, 1), torch.ones(2))}, "n": 3})
    batch = stream.batch([(1, (0.0,), 1.0)])
    assert batch.args[0]["x"] == [1]
    assert [each.shape for each in batch.args[0]["more"]] == [(1, 1), (1,)]


def test_what_was_not_kept_is_left_out() -> None:
    [stream] = _streams({"a": [1, 2, 3], "judge": object()})
    assert stream.batch([(1,)]) == ([1],)


def test_another_text_takes_the_place_of_a_secret() -> None:
    [stream] = _streams({"a": [1, 2, 3], "api_key": "abc"})
    given = stream.batch([(1,)]).kwargs["api_key"]
    assert given.startswith("api_key-")
    [other] = _streams({"a": [1, 2, 3], "api_key": "abd"})
    assert other.batch([(1,)]).kwargs["api_key"] != given
    assert not _streams({"a": [object(), object()]})


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.nested_given])
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "a": st.lists(st.one_of(st.floats(allow_nan=True), st.text(max_size=3), st.none()), max_size=4),
                "b": st.one_of(
                    st.integers(),
                    st.lists(st.integers(), max_size=4),
                    st.dictionaries(st.text(max_size=2), st.booleans()),
                ),
            }
        ),
        min_size=1,
        max_size=3,
    ),
    st.booleans(),
)
def test_any_calls_make_streams_whose_samples_collate(calls: list[dict[str, Any]], one_sample: bool) -> None:
    for stream in _streams(*calls, one_sample=one_sample):
        for changes in (False, True):
            strategy = stream.strategy(changes=changes)
            strategy.collate(strategy.fixed(5))
            strategy.collate([])


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (
            torch.utils.data.DataLoader(
                torch.utils.data.TensorDataset(torch.rand(5, 2), torch.arange(5)), batch_size=2
            ),
            1,
        ),
        (torch.utils.data.DataLoader([(torch.rand(2), 1), (torch.rand(2), 0)]), 1),
        ([(torch.rand(3, 2), torch.arange(3)), (torch.rand(1, 2), torch.arange(1))], 2),
        ([{"x": torch.rand(3, 2), "labels": torch.arange(3)}], 1),
        ([1, 2, 3], 0),
        ("text", 0),
    ],
)
def test_batches_of_loaders(value: Any, count: int) -> None:
    assert len(batches_of(json.loads(json.dumps(encoded(value))))) == count


def test_a_name_that_is_not_there(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "some.json").write_text(
        '{"format": 1, "package": "some", "release": "", "entries": [{"name": "some.module:share", "kind": "function",'
        ' "calls": [{"test": "t", "arguments": {"a": [1, 2]}, "returned": 1}], "objects": []}]}'
    )
    monkeypatch.setenv(corpus.PLACE, str(tmp_path))
    assert learned("some.module:share").fixed(1)
    with pytest.raises(UsageError, match=r"no some.module:shar; did you mean 'some.module:share'"):
        learned("some.module:shar")
    with pytest.raises(UsageError, match=r"1 groups of calls with rows of some.module:share; group=1 is none of them"):
        learned("some.module:share", group=1)


def _damaged(value: Any, random: Random) -> Any:
    """Return a copy of a JSON value in which some part is another one."""
    if random.random() < 0.03:
        return random.choice([None, 7, "x", [], {}, [[1], 2], {"array": "torch"}, {"tuple": 3}, -0.5])
    if isinstance(value, dict):
        return {key: _damaged(each, random) for key, each in value.items() if random.random() > 0.02}
    return [_damaged(each, random) for each in value] if isinstance(value, list) else value


def test_a_corpus_that_was_damaged_is_read_or_refused_in_a_sentence(tmp_path: Path) -> None:
    table = pytest.importorskip("pandas").DataFrame({"d": [0.5, 0.25, 1.0], "e": ["x", "y", "x"]})
    calls = [
        {"a": torch.rand(3, 2), "b": [1, 2, 3], "c": {"x": numpy.arange(3)}, "k": 2, "t": table},
        {"a": torch.rand(2, 2), "b": [1, 2], "c": {"x": numpy.arange(2)}, "k": 2, "t": table[:2]},
    ]
    kept = [{"test": "t", "arguments": {name: encoded(each) for name, each in call.items()}} for call in calls]
    entry = {"name": "some.module:share", "kind": "function", "calls": kept, "objects": []}
    whole = {"format": 1, "package": "some", "release": "", "entries": [entry]}
    ended = Counter()
    for seed in range(400):
        text = json.dumps(_damaged(whole, Random(seed)))
        try:
            _, _, entries = corpus.parsed(text, "some.json")
            for stream in streams_of(
                "some.module:share", [(t, c.arguments) for t, c in entries[0].calls] if entries else []
            ):
                strategy = stream.strategy(changes=True)
                strategy.collate(strategy.fixed(3))
            ended["read"] += 1
        except UsageError:
            ended["refused"] += 1
    assert min(ended["read"], ended["refused"]) > 20
