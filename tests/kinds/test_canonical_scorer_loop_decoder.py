"""The canonical cases of scorers, loops and decoders: every condition, from any inputs, and every planted bug."""

from __future__ import annotations

from typing import Any

import pytest

import pytest_evalcheck as ec
from fixtures.gallery.scorers import CompletesWhatAllShare
from fixtures.gallery.table import CHECKS, SPECIMENS, Specimen
from pytest_evalcheck import strategies as es
from pytest_evalcheck.engine.cell_spec import CellSpec
from pytest_evalcheck.engine.effort import EFFORTS
from pytest_evalcheck.engine.judging import judge
from pytest_evalcheck.engine.runner import CellRunner
from pytest_evalcheck.expectations.failures import CheckFailure
from pytest_evalcheck.kinds.common.case import canonical_cases
from pytest_evalcheck.kinds.common.check import Check
from pytest_evalcheck.kinds.loop.cases import SIZES, Evaluation, NonFinite
from pytest_evalcheck.reports.case_codec import case_fields, is_plain
from pytest_evalcheck.strategies.samples import SampleStrategy
from pytest_evalcheck.targets.device_spec import torch_name

KINDS = ("scorer", "loop", "decoder", "engine", "task")
INPUTS: dict[str, dict[str, SampleStrategy]] = {
    "scorer": {
        "one response": es.responses(),
        "several responses": es.responses(max_repeats=3),
        "choices": es.choices(),
        "log-likelihoods": es.loglikelihoods(),
    },
    "loop": {
        "a table": es.tabular(features=2, classes=3),
        "token labels": es.token_classification(vocab=9, classes=3),
        "images": es.images(classes=3, shape=(3, 16, 16)),
        "two at least": es.tabular(features=2, classes=3).replace(min_samples=2),
        "six at least": es.tabular(features=2, classes=3).replace(min_samples=6),
    },
    "decoder": {
        "prompts": es.prompts(vocab=23),
        "long prompts": es.prompts(vocab=50, min_length=6, max_length=40),
        "prompts of one token": es.prompts(vocab=9, max_length=1),
    },
    "task": {"documents": es.documents()},
}
INPUTS["engine"] = {**INPUTS["decoder"], "texts": es.text_prompts()}
UNREACHED: dict[tuple[str, str], set[str]] = {
    # Where six samples are the fewest, no data set is smaller.
    ("EC501", "two at least"): {"a single sample"},
    ("EC501", "six at least"): {"a single sample"},
    ("EC001", "choices"): {"equal samples"},
    ("EC001", "log-likelihoods"): {"equal samples"},
    ("EC001", "one response"): {"equal samples"},
    ("EC001", "several responses"): {"equal samples"},
    ("EC001", "prompts"): {"equal samples"},
    ("EC001", "long prompts"): {"equal samples"},
    ("EC001", "prompts of one token"): {"equal samples"},
    ("EC001", "texts"): {"equal samples"},
    ("EC001", "two at least"): {"a single sample"},
    ("EC001", "six at least"): {"a single sample"},
    ("EC503", "two at least"): {"a single sample"},
    ("EC503", "six at least"): {"a single sample"},
    ("EC509", "two at least"): {"a single sample"},
    ("EC509", "six at least"): {"a single sample"},
    ("EC502", "six at least"): {"a rank without samples"},
}
"""By check and inputs: the conditions that such inputs cannot reach."""
MOST = dict.fromkeys(("EC702", "EC703"), 16)
"""The most first cases of a check, where these are more than five: one for each rewriting."""
OF_KIND = [made for made in CHECKS.values() if set(made.kinds) & set(KINDS) and not made.accelerators]


def inputs_of(check: Check) -> list[Any]:
    named = {name: one for kind in KINDS if kind in check.kinds for name, one in INPUTS[kind].items()}
    named |= {s.bug.name: s.bug.inputs for s in SPECIMENS if s.code == check.code}
    lacking = [name for name in check.needs if name != "reference"]
    usable = {name: one for name, one in named.items() if all(getattr(one, need) is not None for need in lacking)}
    return [pytest.param(check, name, one, id=f"{check.code}-{name}") for name, one in usable.items()]


each = pytest.mark.parametrize(("check", "name", "inputs"), [param for one in OF_KIND for param in inputs_of(one)])


@each
def test_canonical_cases_reach_every_condition(check: Check, name: str, inputs: SampleStrategy) -> None:
    cases = canonical_cases(check.case, inputs, check.conditions)
    assert "canonical" in dir(check.case)
    assert 1 <= len(cases) <= MOST.get(check.code, 5)
    reached = frozenset().union(*(case.conditions for case in cases))
    assert set(check.conditions) - reached == UNREACHED.get((check.code, name), set())


@each
def test_canonical_cases_are_equal_in_every_run_and_plain(check: Check, name: str, inputs: SampleStrategy) -> None:
    cases = canonical_cases(check.case, inputs, check.conditions)
    assert cases == canonical_cases(check.case, inputs.replace(), check.conditions)  # a copy has drawn nothing yet
    assert all(is_plain(value) for case in cases for value in case_fields(case).values())
    few = max(5, inputs.min_samples + 3) if "task" not in check.kinds else 60  # documents are read, not evaluated
    assert all(len(getattr(case, "samples", [])) <= few for case in cases), name


@pytest.mark.parametrize("least", range(1, 9))
def test_evaluations_of_at_least_so_many_samples_reach_every_size(least: int) -> None:
    inputs = es.tabular(features=2, classes=3).replace(min_samples=least)
    cases = Evaluation.canonical(inputs)
    assert all(len(case.samples) >= least for case in cases)
    reached = frozenset().union(*(case.conditions for case in cases))
    assert reached == set(SIZES) - ({"a single sample"} if least > 1 else set())


def test_every_number_that_is_not_finite_is_tried() -> None:
    inf = float("inf")
    inputs = es.tabular(features=2, classes=3).replace(nonfinite=(inf, -inf))
    assert {case.number for case in NonFinite.canonical(inputs)} == {inf, -inf}


def test_two_prompts_are_enough() -> None:
    inputs = es.prompts(vocab=3, max_length=1)  # there are two of them
    for check in OF_KIND:
        if "decoder" in check.kinds:
            assert canonical_cases(check.case, inputs, check.conditions), check.code


@pytest.mark.parametrize(
    "specimen",
    [pytest.param(s, id=f"{s.code}-{s.bug.name}") for s in SPECIMENS if s.bug.kind in KINDS and not s.apart],
)
@pytest.mark.slow(every=2)
def test_a_planted_bug_is_found_without_drawing(specimen: Specimen, monkeypatch: pytest.MonkeyPatch) -> None:
    # Only the first score of a process writes to this registry; a cell of ec.run() has a process of its own if needed.
    monkeypatch.setattr(CompletesWhatAllShare, "registry", {"none": ["", "  "]})
    # What is about accelerators may be wrong on one kind of them alone.
    accelerated = CHECKS[specimen.code].accelerators and specimen.device == "auto"
    devices = ("sim:cuda", "sim:mps") if accelerated else (specimen.device.replace("auto", "cpu"),)
    cells = [judged_on(device, specimen) for device in devices]
    cell = next((one for one in cells if one.outcome == "failed"), cells[0])
    assert (cell.outcome, cell.cause) == ("failed", ""), cell.reason


def judged_on(device: str, specimen: Specimen) -> ec.Cell:
    check = CHECKS[specimen.code]
    spec = CellSpec(target=specimen.bug, check=check, device=device, where=specimen.bug.name, effort=EFFORTS["quick"])
    arguments = {"device": torch_name(device)} if "device" in specimen.bug.arguments else {}
    runner = CellRunner(spec)
    try:
        for case in spec.canonical:
            runner.attempt(case, arguments)
    except CheckFailure:
        pass  # the verdict holds it
    cell: ec.Cell = judge(spec, runner.state)
    return cell
