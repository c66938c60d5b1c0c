"""Checks of loops where a loop lacks something, and correct loops that they must not report."""

from __future__ import annotations

import itertools
import warnings
from functools import partial
from typing import Any

import pytest
import torch
import torch.distributed as dist

import pytest_evalcheck as ec
from fixtures.gallery.loops_correct import OrdinaryLoader, Recorded, Rows, Trained
from pytest_evalcheck import strategies as es
from pytest_evalcheck.expectations.comparison import Tolerance
from pytest_evalcheck.expectations.failures import ComparisonStats, counting
from pytest_evalcheck.kinds.common.process_ranks import on_processes
from pytest_evalcheck.kinds.loop import checks_samples
from pytest_evalcheck.kinds.loop.cases import MODES, DuringTraining
from pytest_evalcheck.kinds.loop.checks_state import evaluating_leaves_training_as_it_was
from pytest_evalcheck.kinds.loop.subject import LoopSubject
from pytest_evalcheck.reports.failure_text import format_failure

INPUTS = es.tabular(features=2, classes=3)


def target(record: Any, **keywords: Any) -> ec.Target:
    def made() -> Any:
        return record()

    return ec.loop(inputs=INPUTS, **keywords)(made)


def cell(record: Any, code: str, **keywords: Any) -> ec.Cell:
    (found,) = ec.run(target(record, **keywords), select=code, effort="quick").cells
    return found


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("EC501", "evaluate() has no option 'batch_size'"),
        ("EC502", "returns no records and does not evaluate over ranks"),
        ("EC503", "returns no records"),
        ("EC506", "no option for workers and no evaluators"),
        ("EC507", "does not retry a batch"),
        ("EC508", "no number is NaN or infinite for the sample alone"),
        ("EC509", "names no numbers that measure the same"),
        ("EC511", "call no collective of torch.distributed"),
    ],
)
def test_what_a_loop_does_not_offer_is_not_applicable(code: str, reason: str) -> None:
    found = cell(lambda: ec.Loop(evaluate=lambda data: {"count": len(data)}), code)
    assert (found.outcome, reason in found.reason) == ("not applicable", True), found.reason


def test_an_empty_data_set_may_be_refused_or_have_no_records() -> None:
    def evaluate(data: ec.LoopData, batch_size: int = 2) -> Any:
        if not len(data):
            return ec.Evaluated({}, [])
        return Recorded().evaluate(data, batch_size)

    assert cell(lambda: ec.Loop(evaluate=evaluate), "EC502").outcome == "passed"
    assert cell(lambda: ec.Loop(evaluate=Recorded().evaluate), "EC502").outcome == "passed"


def test_texts_of_one_token_are_no_ordinary_data_where_none_counts() -> None:
    """A mean over no next token is the error of no samples. One that a repeated text causes is a failure as before."""

    def mean(data: ec.LoopData, *, rejects_twins: bool) -> dict[str, float]:
        losses = [
            float(token) for batch in data.loader(2) for row in batch["labels"] for token in row[1:] if token >= 0
        ]
        if rejects_twins and len(data) > 1 and len({repr(row) for row in data}) == 1:
            raise IndexError("list index out of range")
        return {"loss": sum(losses) / len(losses)}

    def outcome(rejects_twins: bool) -> str:
        @ec.loop(inputs=es.causal_lm(vocab=20))
        def loop() -> ec.Loop:
            return ec.Loop(evaluate=lambda data: mean(data, rejects_twins=rejects_twins))

        (found,) = ec.run(loop, select="EC001", effort="quick").cells
        return found.outcome

    assert (outcome(False), outcome(True)) == ("passed", "failed")


def test_training_that_differs_every_time_is_inconclusive() -> None:
    made = itertools.count()

    def record() -> ec.Loop:
        loop = Trained()
        return ec.Loop(evaluate=loop.evaluate, train=lambda data, between: (between(), next(made))[1])

    assert cell(record, "EC505").outcome == "not applicable"


@pytest.mark.parametrize("trains", [True, False])
def test_an_evaluation_that_raises_is_not_judged_by_what_it_leaves(trains: bool) -> None:
    class Raises(Trained):
        def evaluate(self, data: ec.LoopData, batch_size: int = 2) -> Any:
            self.model.eval()
            raise ValueError("no evaluation")

    def record() -> ec.Loop:
        torch.manual_seed(0)
        loop = Raises()
        return ec.Loop(evaluate=loop.evaluate, model=loop.model, train=loop.train if trains else None)

    case = DuringTraining(samples=INPUTS.fixed(3), batch_size=2, broken=0, modes=MODES[0])
    with counting(ComparisonStats(Tolerance())) as stats:
        evaluating_leaves_training_as_it_was.function(LoopSubject(build=record, inputs=INPUTS), case)
    assert (stats.compared, stats.refused) == (0, 1)
    assert "no evaluation" in stats.last_refusal


def mode_check(end: str, **more: Any) -> ec.Cell:
    """EC505 of a loop that begins with `model.eval()`, and ends with ``train`` or ``eval`` of its model."""

    class Ends(OrdinaryLoader):
        def evaluate(self, data: ec.LoopData, batch_size: int = 2) -> Any:
            self.model.eval()
            results = [self.scored(ids, batch) for ids, batch in self.batches(data, batch_size)]
            getattr(self.model, end)()
            return {name: float(value) for name, value in self.averaged(results).items()}

    def record() -> ec.Loop:
        loop = Ends()
        return ec.Loop(evaluate=loop.evaluate, model=loop.model, **{name: of(loop) for name, of in more.items()})

    return cell(record, "EC505")


def test_what_a_loop_leaves_depends_on_how_training_goes_on() -> None:
    assert mode_check("eval").outcome == "passed"
    assert mode_check("eval", resume=lambda loop: loop.model.train).outcome == "passed"
    assert mode_check("train", resume=lambda loop: loop.model.train).outcome == "passed"
    for end, more in (("eval", {"resume": lambda loop: loop.model.modules}), ("train", {})):
        found = mode_check(end, **more)
        assert found.outcome == "failed"
        assert "resume=model.train" in format_failure(found)


def test_each_kind_of_state_is_a_cause_of_its_own() -> None:
    class Several(Trained):
        def evaluate(self, data: ec.LoopData, batch_size: int = 2) -> Any:
            self.model.zero_grad()
            torch.rand(1)
            return super().evaluate(data, batch_size)

    def record() -> ec.Loop:
        loop = Several()
        return ec.Loop(evaluate=loop.evaluate, model=loop.model)

    text = format_failure(cell(record, "EC505"))
    assert "left something changed: the gradient of body.0.weight was changed" in text
    assert "changed too: torch's random numbers were drawn" in text
    assert "resume=optimizer.zero_grad" in text
    one = cell(record, "EC505", known_failures={"EC505": ec.KnownFailure("gradients")})
    assert (one.outcome, "changed: torch's random numbers" in one.reason) == ("failed", True)
    # Two kinds, each after an evaluation that ends and after one that does not.
    entries = tuple(ec.KnownFailure(f"cause {i}") for i in range(4))
    assert cell(record, "EC505", known_failures={"EC505": entries}).outcome == "known"


def test_an_outcome_that_differs_names_what_the_evaluation_left() -> None:
    class Shuffles(Trained):
        def evaluate(self, data: ec.LoopData, batch_size: int = 2) -> Any:
            torch.randperm(len(data))
            return super().evaluate(data, batch_size)

    found = cell(lambda: Shuffles().record(), "EC505")
    assert "the evaluation left changed: torch's random numbers were drawn" in format_failure(found)


def test_records_do_not_apply_where_no_sample_is_evaluated_alone() -> None:
    class Several(Recorded):
        def evaluate(self, data: ec.LoopData, batch_size: int = 2) -> Any:
            if len(data) == 1:
                raise ValueError("two samples at least")
            return super().evaluate(data, batch_size)

    found = cell(lambda: ec.Loop(evaluate=Several().evaluate), "EC503")
    assert found.outcome == "not applicable", format_failure(found)
    assert found.reason.startswith("no sample can be evaluated alone: evaluate raised ValueError: two samples at least")


def test_records_that_are_empty_are_the_matter_of_another_check() -> None:
    def evaluate(data: ec.LoopData, batch_size: int = 2) -> Any:
        return ec.Evaluated(Recorded().evaluate(data, batch_size).numbers, [])

    counted, matched = ec.run(target(lambda: ec.Loop(evaluate=evaluate)), select="EC502,EC503", effort="quick").cells
    assert counted.outcome == "failed"
    assert (matched.outcome, matched.reason) == ("not applicable", "an evaluation gave no records; see EC502")


def test_a_trainer_that_switches_back_itself_may_leave_its_model_in_eval() -> None:
    class Switches(Trained):
        def evaluate(self, data: ec.LoopData, batch_size: int = 2) -> Any:
            found = super().evaluate(data, batch_size)
            self.model.eval()
            return found

        def train(self, data: ec.LoopData, between: Any) -> Any:
            def switched() -> None:
                between()
                self.model.train()

            self.model.train()
            return super().train(data, switched)

    assert cell(lambda: Switches().record(), "EC505").outcome == "passed"


def test_outputs_of_the_last_batch_may_stay() -> None:
    class Shows(Rows):
        shown: Any = None

        def scored(self, ids: Any, batch: Any) -> dict[str, Any]:
            self.shown = found = super().scored(ids, batch)
            return found

    assert cell(lambda: Shows().record(), "EC510").outcome == "passed"


@pytest.mark.parametrize("by", ["a warning", "an error", "a number"])
def test_a_sample_that_is_not_finite_may_be_reported_in_other_ways(by: str) -> None:
    class Tells(Rows):
        def averaged(self, found: Any) -> Any:
            losses = torch.cat([one["losses"] for one in found])
            bad = int(losses.isnan().sum())
            if bad and by == "a warning":
                warnings.warn(f"{bad} losses are NaN", stacklevel=1)
            if bad and by == "an error":
                raise FloatingPointError("NaN")
            return {"loss": losses.nanmean(), "non_finite": bad if by == "a number" else 0}

    def record() -> ec.Loop:
        made = Tells()
        return ec.Loop(evaluate=made.evaluate, exact=lambda data: {"loss": made.exact(data)["loss"]})

    assert cell(record, "EC508").outcome == "passed"


def test_numbers_of_ranks_are_left_alone_where_they_depend_on_the_batch_size() -> None:
    def evaluate(data: ec.LoopData, batch_size: int = 2) -> Any:
        return {"rows": batch_size}

    def over_ranks(data: ec.LoopData, ranks: int, batch_size: int = 2) -> Any:
        return [{"rows": ranks * batch_size}] * ranks

    made = target(lambda: ec.Loop(evaluate=evaluate, over_ranks=over_ranks))
    broken, skipped = ec.run(made, select="EC501,EC502").cells
    assert broken.outcome == "failed"
    assert skipped.reason.startswith("the numbers depend on the batch size"), format_failure(skipped)


def test_wrong_keywords_are_reported_at_collection() -> None:
    assert not target(Rows, variants={"batches of 4": {"batch_size": 4}}).problems
    (problem,) = target(Rows, variants=[4]).problems
    assert problem.startswith("variants=[4]")
    metric: Any = ec.metric
    (problem,) = metric(inputs=es.values(), variants={})(lambda device: None).problems
    assert problem.startswith("unknown keyword 'variants'")
    (problem,) = ec.loop()(lambda: None).problems
    assert "strategies.tabular(features=3, classes=4)" in problem


@pytest.mark.parametrize("wrong", [{"features": 0}, {"features": 2.0}, {"classes": True}, {"classes": -1}], ids=str)
def test_a_table_has_features_and_classes(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected a number of at least 1"):
        es.tabular(**{"features": 2, "classes": 2, **wrong})


def test_a_known_failure_and_a_replay_of_a_loop() -> None:
    def evaluate(data: ec.LoopData, batch_size: int = 2) -> Any:
        return {"rows": batch_size}

    case = {"samples": [(0, (0.0, 0.0))] * 3, "batch_size": 2}
    known = {"EC501": ec.KnownFailure("it counts batches", example=case)}
    found = cell(lambda: ec.Loop(evaluate=evaluate), "EC501", known_failures=known)
    assert (found.outcome, found.failure and found.failure.case) == ("known", case)


def mean_of(data: ec.LoopData) -> dict[str, float]:
    return {"mean": sum(x[0] for _, x in data) / max(1, len(data)), "count": len(data)}


@pytest.mark.parametrize(
    ("problem", "outcome"), [("", "passed"), ("is mixed up", "failed"), ("raises", "failed")], ids=lambda text: text
)
def test_evaluators_of_one_run_give_what_each_gives_alone(problem: str, outcome: str) -> None:
    def evaluators(data: dict[str, ec.LoopData], order: Any, batch_size: int = 2) -> dict[str, Any]:
        if problem == "raises":
            raise ValueError("no evaluators today")
        names = list(order)[::-1] if problem else list(order)
        return {name: mean_of(data[other]) for name, other in zip(order, names, strict=True)}

    def record() -> ec.Loop:
        return ec.Loop(evaluate=lambda data, batch_size=2: mean_of(data), evaluators=evaluators)

    found = cell(record, "EC504")
    assert found.outcome == outcome, found.reason


def test_a_collective_for_each_batch_hangs_where_ranks_have_unequal_numbers_of_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checks_samples, "on_processes", partial(on_processes, seconds=3))

    def summed(data: ec.LoopData, batch_size: int, each: bool) -> dict[str, float]:
        total = torch.zeros(2, dtype=torch.float64)
        for batch in data.loader(batch_size):
            own = torch.tensor([float(batch["x"].sum()), len(batch["labels"])], dtype=torch.float64)
            if each and dist.is_initialized():
                dist.all_reduce(own)
            total += own
        if not each and dist.is_initialized():
            dist.all_reduce(total)
        return {"mean": (total[0] / total[1]).item()}

    def over_processes(each: bool) -> ec.Cell:
        return cell(lambda: ec.Loop(evaluate=lambda data, batch_size=2: summed(data, batch_size, each)), "EC511")

    hung = over_processes(each=True)
    assert hung.outcome == "failed"
    assert hung.failure is not None
    assert "did not end within 3 seconds" in hung.failure.actual
    assert over_processes(each=False).outcome == "passed"
