"""The scorer under test: scores as lists, errors that name documents, streams that are watched, stub scorers."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import pytest_evalcheck as ec
from fixtures.gallery.scorers_correct import ExactMatch, Streams, matches
from pytest_evalcheck import strategies as es
from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import NotApplicable, TargetError
from pytest_evalcheck.kinds.scorer.checks_documents import is_reordered
from pytest_evalcheck.kinds.scorer.checks_parallel import names_document, successful_scores, watch_stream
from pytest_evalcheck.kinds.scorer.stub_scorers import (
    AGGREGATIONS,
    FailingScorer,
    RandomScorer,
    SlowScorer,
    UnpicklableError,
    aggregated,
    counting_scorer,
    stable_score,
    text_of,
)
from pytest_evalcheck.kinds.scorer.subject import ScorerSubject, as_list, score_one_by_one
from pytest_evalcheck.strategies import SampleStrategy

ROWS = [({"question": "q0", "answer": "4"}, ["4"]), ({"question": "q1", "answer": "5"}, ["4"])]


def subject(record: ec.Scorer | None = None, inputs: SampleStrategy = ExactMatch.inputs) -> ScorerSubject:
    return ScorerSubject(build=lambda: record or ExactMatch().record(), inputs=inputs)


def test_every_use_gets_new_responses_and_documents() -> None:
    scorer = subject()
    first, second = scorer.collate(ROWS), scorer.collate(ROWS)
    assert first == second
    assert first[0][0] is not second[0][0]
    assert first[1][0] is not second[1][0]


def test_a_write_into_a_part_of_a_document_does_not_reach_the_next_use() -> None:
    rows = [({"question": "q0", "choices": ["yes.", "no."]}, [(-1.0, False)])]
    scorer = subject(inputs=es.choices(count=2))
    scorer.collate(rows)[1][0]["choices"][0] = "yes"
    assert scorer.collate(rows)[1] == [{"question": "q0", "choices": ["yes.", "no."]}]


@pytest.mark.parametrize("made", [None, [], ([], []), ([1], [2], [3]), ((1, 2), (3, 4))])
def test_a_collate_gives_two_lists(made: Any) -> None:
    scorer = subject(inputs=ExactMatch.inputs.replace(collate=lambda rows: made))
    with pytest.raises(TargetError, match="did not give responses and documents"):
        scorer.collate(ROWS)


def test_scores_are_a_list_or_an_error() -> None:
    assert subject().scores(ROWS) == [1.0, 0.0]
    refusing = subject(ec.Scorer.of(lambda responses, document: 1 / 0))
    assert isinstance(refusing.scores(ROWS), Raised)
    assert [isinstance(score, Raised) for score in refusing.scores_one_by_one(ROWS)] == [True, True]


def test_iterators_are_read_outside_and_inside() -> None:
    assert as_list(map(iter, [[1, 2], [3]])) == [[1, 2], [3]]
    assert as_list((text, 1) for text in "ab") == [("a", 1), ("b", 1)]


@pytest.mark.parametrize("scores", [None, 1.0, "good", b"good", {"a": 1}])
def test_what_is_not_scores_is_reported(scores: Any) -> None:
    with pytest.raises(TargetError, match="no list of scores"):
        as_list(scores)


def test_reordered_scores_are_detected() -> None:
    assert is_reordered([1.0, 2.0], [2.0, 1.0])
    assert not is_reordered([1.0, 2.0], [1.0, 2.0])
    assert not is_reordered([1.0, 2.0], [2.0, 2.0])


DOCUMENT = {"question": "q17", "answer": "4"}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("document 3 failed", True),
        ("no parse of q17", True),
        (f"cannot score {DOCUMENT!r}", True),
        ("document 33 failed", False),
        ("no parse of q170", False),
        ("planted", False),
        ("4", False),  # a field of one character may stand anywhere
    ],
)
def test_an_error_names_a_document_by_index_or_field(text: str, names: bool) -> None:
    assert names_document(ValueError(text), [3], DOCUMENT) is names
    caused = RuntimeError("scoring failed")
    caused.__cause__ = ValueError(text)
    assert names_document(caused, [3], DOCUMENT) is names


def test_successful_scores_are_read_from_a_list_and_from_an_error() -> None:
    runner = ec.Runner(run=score_one_by_one)
    assert successful_scores([1.0, ValueError(), 3.0], runner) == {0: 1.0, 2: 3.0}
    error = ValueError()
    assert successful_scores(Raised(error, "score"), runner) == {}
    error.scores = {0: 1.0}  # type: ignore[attr-defined]
    assert successful_scores(Raised(error, "score"), runner) == {0: 1.0}
    error.scores = [1.0, error]  # type: ignore[attr-defined]
    assert successful_scores(Raised(error, "score"), runner) == {0: 1.0}


def test_parts_run_together_and_are_returned_by_name() -> None:
    record = ec.Scorer(
        score=lambda responses, documents: [0.0] * len(documents),
        parts=("short", "long"),
        together=lambda names, responses, documents: [dict.fromkeys(names, own[0]) for own in responses],
    )
    assert subject(record).together(("long", "short"), ROWS) == {"long": ["4", "4"], "short": ["4", "4"]}


def test_checks_of_numbers_do_not_apply_without_numbers() -> None:
    with pytest.raises(NotApplicable):
        subject().numbers([], ROWS)


def streaming(stream: Any, count: int = 300) -> Any:
    return watch_stream(stream, lambda: subject().collate(ROWS), [1.0, 0.0], count)


def test_a_stream_is_counted_and_its_documents_are_watched() -> None:
    seen = streaming(Streams().stream)
    assert (seen.scores, seen.wrong) == (300, None)
    assert seen.max_alive == Streams.chunk
    whole = streaming(lambda pairs: [matches(*pair) for pair in list(pairs)])
    assert whole.max_alive == 300


def test_a_lazy_stream_keeps_two_documents_alive() -> None:
    assert streaming(lambda pairs: (matches(*pair) for pair in pairs)).max_alive <= 2


def test_documents_in_reference_cycles_do_not_count() -> None:
    def circular(pairs: Any) -> Any:
        for own, document in pairs:
            document["self"] = document
            yield matches(own, document)

    assert streaming(circular, 1000).max_alive < 400


def test_a_wrong_score_and_a_lost_one_are_seen_in_a_stream() -> None:
    assert "score 1" in streaming(lambda pairs: (1.0 for _ in pairs)).wrong
    assert streaming(lambda pairs: [matches(*pair) for pair in pairs][:-1]).scores == 299


def test_stub_scorers_can_be_pickled() -> None:
    responses, documents = subject().collate(ROWS)
    for one in (SlowScorer("none"), RandomScorer(), FailingScorer("none", "raises")):
        assert len(score_one_by_one(pickle.loads(pickle.dumps(one)), responses, documents)) == 2
    with pytest.raises(ValueError, match="planted"):
        score_one_by_one(FailingScorer(text_of(documents[1]), "raises"), responses, documents)
    with pytest.raises(UnpicklableError) as caught:
        score_one_by_one(FailingScorer(text_of(documents[1]), "raises what cannot be pickled"), responses, documents)
    with pytest.raises(TypeError):
        pickle.dumps(caught.value)
    assert stable_score(responses[0], documents[0]) != stable_score(responses[1], documents[1])


def test_calls_are_counted_and_numbers_aggregated() -> None:
    responses, documents = subject().collate(ROWS)
    with counting_scorer(without=(text_of(documents[1]), "largest")) as one:
        scores = score_one_by_one(one, responses, documents)
        assert one.calls() == sorted(map(text_of, documents))
    assert "largest" not in scores[1]
    assert set(aggregated(scores)) == set(AGGREGATIONS)
    assert aggregated(scores)["count"] == 2
    assert aggregated(scores)["largest"] == scores[0]["largest"]


@pytest.mark.parametrize(
    "wrong", [{"template": "no place"}, {"answers": ()}, {"min_repeats": 0}, {"min_repeats": 3, "max_repeats": 2}]
)
def test_responses_that_cannot_be_drawn_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected some answers"):
        es.responses(**wrong)


@pytest.mark.parametrize(
    "inputs", [es.responses(max_repeats=3), es.choices(), es.loglikelihoods()], ids=lambda i: i.name
)
def test_right_and_wrong_responses_differ_and_stay_as_many(inputs: SampleStrategy) -> None:
    assert inputs.right
    assert inputs.wrong
    for sample in inputs.contrast:
        right, wrong = inputs.right(sample), inputs.wrong(sample)
        assert right[0] == wrong[0] == sample[0]
        assert len(right[1]) == len(wrong[1]) == len(sample[1])
        assert right[1] != wrong[1]
    assert inputs.collate([]) == ([], [])


def test_of_needs_a_function() -> None:
    with pytest.raises(TypeError, match="is not a function"):
        ec.Scorer.of("exact_match")  # type: ignore[arg-type]
