"""What checks of scorers are given: scores as lists, errors that name, streams that are watched, planted functions."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import pytest_evalcheck as ec
from fixtures.gallery.scorers_correct import ExactMatch, Streams, matches
from pytest_evalcheck import strategies as es
from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import NotApplicable
from pytest_evalcheck.kinds.common.calling import TargetError
from pytest_evalcheck.kinds.scorer.call_counts import AGGREGATIONS, calls, counting, totals
from pytest_evalcheck.kinds.scorer.scores import entries, listed, named, same_in_another_order
from pytest_evalcheck.kinds.scorer.streaming import streamed
from pytest_evalcheck.kinds.scorer.stub_scorers import CannotTravel, Draws, Fails, Slow, mark
from pytest_evalcheck.kinds.scorer.subject import ScorerSubject, one_by_one
from pytest_evalcheck.strategies import SampleStrategy

ROWS = [({"question": "q0", "answer": "4"}, ["4"]), ({"question": "q1", "answer": "5"}, ["4"])]


def subject(record: ec.Scorer | None = None, inputs: SampleStrategy = ExactMatch.inputs) -> ScorerSubject:
    return ScorerSubject(build=lambda: record or ExactMatch().record(), inputs=inputs)


def test_every_use_gets_new_responses_and_documents() -> None:
    scorer = subject()
    first, second = scorer.given(ROWS), scorer.given(ROWS)
    assert first == second
    assert first[0][0] is not second[0][0]
    assert first[1][0] is not second[1][0]


@pytest.mark.parametrize("made", [None, [], ([], []), ([1], [2], [3]), ((1, 2), (3, 4))])
def test_a_collate_gives_two_lists(made: Any) -> None:
    scorer = subject(inputs=ExactMatch.inputs.but(collate=lambda rows: made))
    with pytest.raises(TargetError, match="did not give responses and documents"):
        scorer.given(ROWS)


def test_scores_are_a_list_or_an_error() -> None:
    assert subject().scores(ROWS) == [1.0, 0.0]
    refusing = subject(ec.Scorer.of(lambda responses, document: 1 / 0))
    assert isinstance(refusing.scores(ROWS), Raised)
    assert [isinstance(score, Raised) for score in refusing.alone(ROWS)] == [True, True]


def test_iterators_are_read_outside_and_inside() -> None:
    assert listed(map(iter, [[1, 2], [3]])) == [[1, 2], [3]]
    assert listed((text, 1) for text in "ab") == [("a", 1), ("b", 1)]


@pytest.mark.parametrize("scores", [None, 1.0, "good", b"good", {"a": 1}])
def test_what_cannot_be_scores_is_told(scores: Any) -> None:
    with pytest.raises(TargetError, match="no list of scores"):
        listed(scores)


def test_scores_that_moved_are_told_from_others() -> None:
    assert same_in_another_order([1.0, 2.0], [2.0, 1.0])
    assert not same_in_another_order([1.0, 2.0], [1.0, 2.0])
    assert not same_in_another_order([1.0, 2.0], [2.0, 2.0])


DOCUMENT = {"question": "q17", "answer": "4"}


@pytest.mark.parametrize(
    ("text", "tells"),
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
def test_an_error_names_a_document_by_place_or_field(text: str, tells: bool) -> None:
    assert named(ValueError(text), [3], DOCUMENT) is tells
    caused = RuntimeError("scoring failed")
    caused.__cause__ = ValueError(text)
    assert named(caused, [3], DOCUMENT) is tells


def test_scores_are_saved_from_a_list_and_from_an_error() -> None:
    def is_error(entry: Any) -> bool:
        return isinstance(entry, BaseException)

    def carried(error: BaseException) -> Any:
        return getattr(error, "scores", None)

    assert entries([1.0, ValueError(), 3.0], is_error, carried) == {0: 1.0, 2: 3.0}
    error = ValueError()
    assert entries(Raised(error, "score"), is_error, carried) == {}
    error.scores = {0: 1.0}  # type: ignore[attr-defined]
    assert entries(Raised(error, "score"), is_error, carried) == {0: 1.0}
    error.scores = [1.0, error]  # type: ignore[attr-defined]
    assert entries(Raised(error, "score"), is_error, carried) == {0: 1.0}


def test_parts_run_together_and_are_told_by_name() -> None:
    record = ec.Scorer(
        score=lambda responses, documents: [0.0] * len(documents),
        parts=("short", "long"),
        together=lambda names, responses, documents: [dict.fromkeys(names, own[0]) for own in responses],
    )
    assert subject(record).together(("long", "short"), ROWS) == {"long": ["4", "4"], "short": ["4", "4"]}


def test_a_scorer_without_numbers_is_not_judged_by_them() -> None:
    with pytest.raises(NotApplicable):
        subject().numbers([], ROWS)


def streaming(stream: Any, count: int = 300) -> Any:
    return streamed(stream, lambda: subject().given(ROWS), [1.0, 0.0], count)


def test_a_stream_is_counted_and_its_documents_are_watched() -> None:
    seen = streaming(Streams().stream)
    assert (seen.scores, seen.wrong) == (300, None)
    assert seen.held == Streams.chunk
    whole = streaming(lambda pairs: [matches(*pair) for pair in list(pairs)])
    assert whole.held == 300


def test_a_lazy_stream_holds_two() -> None:
    assert streaming(lambda pairs: (matches(*pair) for pair in pairs)).held <= 2


def test_what_waits_to_be_collected_is_not_held() -> None:
    def circular(pairs: Any) -> Any:
        for own, document in pairs:
            document["self"] = document
            yield matches(own, document)

    assert streaming(circular, 1000).held < 400


def test_a_wrong_score_and_a_lost_one_are_seen_in_a_stream() -> None:
    assert "score 1" in streaming(lambda pairs: (1.0 for _ in pairs)).wrong
    assert streaming(lambda pairs: [matches(*pair) for pair in pairs][:-1]).scores == 299


def test_planted_functions_travel() -> None:
    responses, documents = subject().given(ROWS)
    for one in (Slow("none"), Draws(), Fails("none", "raises")):
        assert len(one_by_one(pickle.loads(pickle.dumps(one)), responses, documents)) == 2
    with pytest.raises(ValueError, match="planted"):
        one_by_one(Fails(repr(documents[1]), "raises"), responses, documents)
    with pytest.raises(CannotTravel) as caught:
        one_by_one(Fails(repr(documents[1]), "raises what cannot be pickled"), responses, documents)
    with pytest.raises(TypeError):
        pickle.dumps(caught.value)
    assert mark(responses[0], documents[0]) != mark(responses[1], documents[1])


def test_calls_are_counted_and_numbers_totalled() -> None:
    responses, documents = subject().given(ROWS)
    with counting(without=(repr(documents[1]), "largest")) as one:
        scores = one_by_one(one, responses, documents)
        assert calls(one) == sorted(map(repr, documents))
    assert "largest" not in scores[1]
    assert set(totals(scores)) == set(AGGREGATIONS)
    assert totals(scores)["count"] == 2
    assert totals(scores)["largest"] == scores[0]["largest"]


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
    with pytest.raises(TypeError, match="is no function"):
        ec.Scorer.of("exact_match")  # type: ignore[arg-type]
