"""Ids of comparisons: of what ships, of checks of other distributions, and of signatures from before there were any."""

from __future__ import annotations

import ast
import functools
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import pytest_evalcheck as ec
from fixtures.gallery.table import SPECIMENS, Specimen
from pytest_evalcheck.expectations import failures, old_signatures
from pytest_evalcheck.expectations.ids import is_stable, slug
from pytest_evalcheck.kinds.common.check import Check
from pytest_evalcheck.kinds.metric.cases import Stream
from pytest_evalcheck.kinds.metric.subject import MetricSubject
from pytest_evalcheck.kinds.registry import shipped

SHIPPED = pytest.mark.parametrize("made", [pytest.param(made, id=made.code) for made in shipped()])
COMPARISONS = ("equals", "holds", "assert_same", "CheckFailure")
SHARED: dict[str, set[str]] = {
    # Two places compare the same two things: one where one of them is an error, one where both are values.
    "EC308": {"beyond-capacity-by-{}"},
    "EC502": {"numbers-over-ranks"},
    "EC511": {"numbers-over-ranks"},
    # Two ways to score in parallel have names of their own.
    "EC403": {"by-{}"},
    # Bit by bit where the record claims it, else within rounding.
    "EC316": {"rows-by-{}"},
}


@functools.cache
def tree_of(function: Any) -> ast.FunctionDef:
    source = inspect.getsource(function)
    tree = ast.parse("if True:\n" + source if source[0] == " " else source)
    return next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def functions_of(made: Check) -> Iterator[FunctionType]:
    """Yield the function of a check, and those of this package that it calls by name."""
    found, left = set(), [made.function]
    while left:
        function: Any = left.pop()
        if function in found:
            continue
        found.add(function)
        yield function
        for node in ast.walk(tree_of(function)):
            called = function.__globals__.get(node.id) if isinstance(node, ast.Name) else None
            if isinstance(called, FunctionType) and ".kinds." in called.__module__:
                left.append(called)


def comparisons(made: Check) -> list[tuple[str, ast.expr | None]]:
    """Return the place and the id of every comparison of a check."""
    found = []
    for function in functions_of(made):
        for node in ast.walk(tree_of(function)):
            name = getattr(node.func, "attr", getattr(node.func, "id", "")) if isinstance(node, ast.Call) else ""
            if isinstance(node, ast.Call) and name in COMPARISONS:
                given = {keyword.arg: keyword.value for keyword in node.keywords}
                found.append((f"{function.__module__}:{function.__name__}:{node.lineno}", given.get("id")))
    return found


@SHIPPED
def test_every_comparison_of_a_shipped_check_has_an_id(made: Check) -> None:
    assert comparisons(made)
    assert [place for place, id in comparisons(made) if id is None] == []


def template(id: ast.expr | None) -> str:
    """Return an id as it is written, with ``{}`` for what is put in; nothing for one that comes from elsewhere."""
    if isinstance(id, ast.Constant):
        return str(id.value)
    parts = id.values if isinstance(id, ast.JoinedStr) else []
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)


@SHIPPED
def test_no_two_comparisons_of_a_check_have_one_id(made: Check) -> None:
    written = [found for _, id in comparisons(made) if (found := template(id))]
    twice = {found for found in written if written.count(found) > 1}
    assert twice == SHARED.get(made.code, set())


@SHIPPED
def test_every_id_is_listed_with_those_that_stay(made: Check) -> None:
    listed = old_signatures.ids()[made.code]
    for place, id in comparisons(made):
        written = template(id)
        pattern = ".*".join(map(re.escape, written.split("{}")))
        found = not written or any(re.fullmatch(pattern, each) for each in listed)
        assert found or not old_signatures.problem(f"{made.code}: {written.replace('{}', 'x')}"), f"{place}: {written}"


def test_numbers_belong_to_no_id() -> None:
    assert slug("the convention 'state_dict', rank 2") == "the-convention-state-dict-rank"
    assert slug("int8 of 3") == "int8-of"
    assert slug("12") == "number"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("EC203: the value after merging the shards by *: NaN for *", "EC203: merged-by-*: NaN for *"),
        ("EC104: the results of a batch after another one (mode 'a b')", "EC104: batch-after-another-mode-a-b"),
        ("EC605: `.to('cuda:#')` left something behind", "EC605: left-behind-on-another-cuda"),
        ("EC503: the record of sample # of # with batch_size=#*: another str", "EC503: record*: another str"),
        (
            "EC505: an evaluation whose metric function raised an error left something changed: "
            "the model.training: True became False: ValueError",
            "EC505: modes-of-the-model-changed-after-metric-error: ValueError",
        ),
        ("EC201: split: NaN", ""),
        ("EC201: what nobody ever compared", ""),
        ("XY101: the value: NaN", ""),
    ],
)
def test_an_old_signature_has_a_new_form(old: str, new: str) -> None:
    assert old_signatures.migrated(old) == new
    assert old_signatures.problem(old) == (f"{old!r} is an old signature; write {new!r}" if new else "") or not new


@pytest.mark.parametrize(
    ("signature", "words"),
    [
        ("EC203: the value after merging the shards by sync: NaN", "write 'EC203: merged-by-sync: NaN'"),
        ("EC203: merget-by-sync: NaN", "'merget-by-sync', which is no id of EC203; did you mean 'merged-by-{method}'?"),
        ("EC201: what nobody ever compared", "which is no id of EC201; expected one of split"),
        ("EC203: merged-by-*: another number", ""),
        ("EC505: buffers-of-*-running-mean-changed*", ""),
        ("EC203: *", ""),
        ("XY101: anything: NaN", ""),
    ],
)
def test_a_signature_that_cannot_be_meant_is_named_with_the_right_one(signature: str, words: str) -> None:
    problem = old_signatures.problem(signature)
    assert problem.endswith(words)
    assert bool(problem) == bool(words)


def test_a_file_is_migrated_in_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = (
        "EC102: the results of the second call: another number for 'a \"b\"'",
        "EC102: second-call: another number",
    )
    file, other = tmp_path / "x.json", tmp_path / "y.json"
    file.write_text(json.dumps({"signatures": [old], "reason": "the results of the second call"}), encoding="utf-8")
    other.write_text("{}", encoding="utf-8")
    old_signatures.main([str(file), str(other)])
    assert json.loads(file.read_text(encoding="utf-8"))["signatures"] == [f"{new} for 'a \"b\"'"]
    assert capsys.readouterr().out == f"{file}: signatures have their new form\n"
    once = file.read_text(encoding="utf-8")
    assert old_signatures.migrate(once) == once


def test_a_known_failure_of_a_target_names_an_id_of_its_check() -> None:
    @ec.metric(
        inputs=ec.strategies.regression(), known_failures={"EC201": ec.KnownFailure("why", signature="EC201: spilt")}
    )
    def metric() -> None: ...

    assert [problem for problem in metric.problems if "did you mean 'split'?" in problem]


@ec.check("XY901")
def values_agree(metric: MetricSubject, case: Stream) -> None:
    """Values agree."""
    ec.expect(1).equals(1, about="one")
    ec.expect(case.samples).equals(
        case.samples,
        about="the samples",
    )
    ec.expect([metric.value(case.split)]).holds(False, about="a value")


@ec.check("XY902")
def values_assert(metric: MetricSubject, case: Stream) -> None:
    """Values are asserted."""
    assert metric.reference is None
    assert case.samples == [], "there are samples"


@ec.check("XY903")
def values_are_compared_twice(metric: MetricSubject, case: Stream) -> None:
    """Values are compared by one id."""
    ec.expect(metric.fresh().failed).equals(None, about="an error", id="twice")
    ec.expect(case.samples).equals(case.samples, about="the samples", id="twice")


def cell_of(made: Check) -> ec.Cell:
    @ec.metric(inputs=ec.strategies.regression(), extra_checks=[made])
    def mean() -> ec.Metric:
        values: list[float] = []
        return ec.Metric(update=lambda preds, target: values.append(float(preds.sum())), compute=lambda: sum(values))

    (cell,) = ec.run(mean, select=made.code, effort="quick")
    return cell


def test_comparisons_without_an_id_are_counted_in_their_function() -> None:
    assert cell_of(values_agree).signature == "XY901: values_agree#3"
    assert cell_of(values_assert).signature == "XY902: values_assert#2"


def test_an_id_from_an_order_is_not_stable() -> None:
    assert not is_stable("XY901: values_agree#3: another number")
    assert is_stable("XY901: after-write: another number for '#'")


def test_two_comparisons_with_one_id_are_named_with_their_places() -> None:
    cell = cell_of(values_are_compared_twice)
    assert cell.failure is not None
    assert (cell.outcome, cell.failure.about) == ("failed", "two comparisons of the check have the id 'twice'")
    first = inspect.getsourcelines(values_are_compared_twice.function)[1] + 3
    assert cell.failure.actual == f"{__file__}:{first} and {__file__}:{first + 1}"


@pytest.mark.parametrize(
    "specimen", [pytest.param(each, id=f"{each.code}-{each.bug.name}") for each in SPECIMENS if not each.apart]
)
@pytest.mark.slow(every=50)
def test_no_outcome_hangs_on_a_text(specimen: Specimen, monkeypatch: pytest.MonkeyPatch) -> None:
    def cells() -> list[tuple[str, ...]]:
        report = ec.run(specimen.bug, specimen.device, select=specimen.code, effort="quick", timeout=200)
        return [(cell.code, cell.device, cell.outcome, cell.cause, cell.signature) for cell in report.cells]

    written, made = cells(), failures.CheckFailure.__init__
    assert any(outcome == "failed" for _, _, outcome, _, _ in written)
    assert not any(old_signatures.problem(signature) for *_, signature in written)

    def in_other_words(self: failures.CheckFailure, about: str, **more: Any) -> None:
        made(self, "another word", **more)

    monkeypatch.setattr(failures.CheckFailure, "__init__", in_other_words)
    assert cells() == written
