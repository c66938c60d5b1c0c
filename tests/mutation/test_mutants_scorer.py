"""Observations of the checks of scorers, one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

import pytest_evalcheck as ec
from fixtures.gallery.scorers_correct import ExactMatch
from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import TargetError
from pytest_evalcheck.kinds.scorer.checks_parallel import names_document, successful_scores, watch_stream
from pytest_evalcheck.kinds.scorer.subject import ScorerSubject


def collate() -> tuple[list[Any], list[Any]]:
    return [["a"], ["b"]], [{"id": 0}, {"id": 1}]


class TestAStream:
    def test_one_document_at_a_time(self) -> None:
        def score(pairs: Iterable[Any]) -> Iterator[int]:
            for responses, document in pairs:
                yield len(responses) + document["id"]
                del responses, document

        found = watch_stream(score, collate, [1, 2], 30)
        assert (found.scores, found.wrong) == (30, None)
        assert 1 <= found.max_alive <= 2

    def test_documents_that_are_all_kept(self) -> None:
        found = watch_stream(lambda pairs: [1 + row["id"] for _, row in list(pairs)], collate, [1, 2], 30)
        assert (found.scores, found.wrong, found.max_alive) == (30, None, 30)

    def test_the_first_wrong_score_is_named(self) -> None:
        found = watch_stream(lambda pairs: [5 if i in (3, 4) else 1 for i, _ in enumerate(pairs)], collate, [1, 1], 9)
        assert (found.scores, (found.wrong or "").partition(":")[0]) == (9, "score 3")


class TestAnError:
    @pytest.mark.parametrize(
        ("text", "named"),
        [
            ("document 3 failed", True),
            ("document 31 failed", False),
            ("in 'Why is it?' there is no answer", True),
            ("{'question': 'Why is it?', 'answer': 'x'}", True),
            ("an answer x", False),
            ("it failed", False),
        ],
    )
    def test_names_its_document_by_index_field_or_as_a_whole(self, text: str, named: bool) -> None:
        assert names_document(ValueError(text), [3], {"question": "Why is it?"[:-1], "answer": "x"}) == named

    def test_names_it_in_its_cause_or_its_notes(self) -> None:
        outer = RuntimeError("scoring failed")
        outer.__cause__ = ValueError("document 3")
        assert names_document(outer, [3], {})
        other = RuntimeError("scoring failed")
        other.__context__ = ValueError("document 3")
        assert names_document(other, [3], {})
        noted = RuntimeError("scoring failed")
        noted.__notes__ = ["document 3"]  # type: ignore[attr-defined]
        assert names_document(noted, [3], "no mapping")
        assert names_document(RuntimeError("text of it"), [3], "text of it")


def test_scores_beside_a_failed_one() -> None:
    runner = ec.Runner(
        run=lambda *_: None, failed=lambda score: score is None, partial_scores=lambda error: error.args[0]
    )
    assert successful_scores([1, None, 3], runner) == {0: 1, 2: 3}
    assert successful_scores(Raised(ValueError({2: 5}), "run"), runner) == {2: 5}
    assert successful_scores(Raised(ValueError([1, None]), "run"), runner) == {0: 1}
    assert successful_scores(Raised(ValueError(None), "run"), runner) == {}


@pytest.mark.parametrize("constant", [True, False])
def test_without_a_wrong_response_different_samples_must_have_different_scores(constant: bool) -> None:
    def score(responses: Any, documents: Any) -> list[float]:
        return [0.5 if constant else float(len(own[0])) for own in responses]

    inputs = ExactMatch.inputs.replace(wrong=None, contrast=None)
    (cell,) = ec.run(ec.scorer(inputs=inputs)(lambda: ec.Scorer(score=score)), select="EC409", effort="quick").cells
    assert cell.outcome == ("not applicable" if constant else "passed"), cell.reason


def test_two_scores_are_enough_to_tell_samples_apart() -> None:
    def score(responses: Any, documents: Any) -> list[float]:
        return [float(own[0] == row["answer"]) for own, row in zip(responses, documents, strict=True)]

    inputs = ExactMatch.inputs.replace(wrong=None, contrast=None)
    (cell,) = ec.run(ec.scorer(inputs=inputs)(lambda: ec.Scorer(score=score)), select="EC409", effort="quick").cells
    assert cell.outcome == "passed", cell.reason


@pytest.mark.parametrize("pair", [(None, None), ((), ()), ([], [], []), [[], []]])
def test_a_collate_of_no_samples_gives_two_lists(pair: Any) -> None:
    inputs = ExactMatch.inputs.replace(collate=lambda rows: pair)
    subject = ScorerSubject(build=ExactMatch().record, inputs=inputs, device="cpu")
    with pytest.raises(TargetError, match="did not give responses and documents"):
        subject.collate([])


def test_a_scorer_may_refuse_to_score_nothing() -> None:
    class Refuses(ExactMatch):
        def score(self, responses: Any, documents: Any) -> Any:
            if not documents:
                raise ValueError("no documents")
            return super().score(list(responses), documents)

    (cell,) = ec.run(
        ec.scorer(inputs=ExactMatch.inputs)(lambda: ec.Scorer(score=Refuses().score)), select="EC401", effort="quick"
    ).cells
    assert cell.outcome == "passed", cell.reason
