"""The checks as text: every one is documented, short, and names a fix that can be imported."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
from pathlib import Path
from typing import Any

import pytest

import pytest_evalcheck as ec
from docs import make_checks
from pytest_evalcheck.kinds.common.check import Check, CheckError, check, explain
from pytest_evalcheck.kinds.metric.cases import Stream
from pytest_evalcheck.kinds.metric.subject import MetricSubject
from pytest_evalcheck.kinds.registry import shipped

ROOT = Path(__file__).parents[2]
every_check = pytest.mark.parametrize("made", shipped(), ids=lambda made: made.code)


def test_codes_and_names_are_unique_and_sorted() -> None:
    codes = [made.code for made in shipped()]
    assert codes == sorted(set(codes))
    assert len({made.name for made in shipped()}) == len(codes)
    assert {f"EC{number}" for number in range(201, 219)} <= set(codes)


@every_check
def test_a_check_says_what_why_whence_and_how_to_mend(made: Check) -> None:
    assert made.statement.endswith(".")
    assert made.rationale.endswith(".")
    assert made.usual_cause.endswith(".")
    paths = re.findall(r"pytest_evalcheck\.fixes\.[\w.]*\w", made.fix)
    assert all(map(pkgutil.resolve_name, paths))
    assert paths or re.search(r"`[^`]+`", made.fix), (
        f"expected an import of the fixes, or code in backticks: {made.fix}"
    )
    assert len(made.fix) <= 240, "expected one or two lines of a screen"
    assert made.code in explain(made)


@every_check
def test_a_check_is_a_short_function(made: Check) -> None:
    (function,) = ast.parse(inspect.getsource(made.function)).body
    assert isinstance(function, ast.FunctionDef)
    body = function.body[1:]
    assert 1 <= (body[-1].end_lineno or 0) - body[0].lineno + 1 <= 27


@pytest.mark.parametrize(
    ("code", "function", "said"),
    [
        ("x1", lambda metric, case: None, "expected two or more capital letters and a number"),
        ("XY101", lambda metric: None, "expected two annotated parameters"),
        ("XY101", lambda metric, case: None, "expected two annotated parameters"),
    ],
)
def test_a_function_that_is_no_check_is_refused(code: str, function: Any, said: str) -> None:
    with pytest.raises(CheckError, match=said):
        check(code)(function)


def test_annotations_say_the_kind_and_the_case() -> None:
    def takes_a_stream(metric: MetricSubject, case: Stream) -> None:
        """Something."""

    made = check("XY101")(takes_a_stream)
    assert (made.kinds, made.case) == (("metric",), Stream)

    def takes_a_number(metric: int, case: Stream) -> None:
        """Something."""

    def takes_no_case(metric: MetricSubject, case: int) -> None:
        """Something."""

    def undocumented(metric: MetricSubject, case: Stream) -> None:
        pass

    for function, said in (
        (takes_a_number, "the first parameter"),
        (takes_no_case, "the second"),
        (undocumented, "no docstring"),
    ):
        function.__annotations__ = {**function.__annotations__}
        with pytest.raises(CheckError, match=said):
            check("XY101")(function)


def test_an_extra_check_may_not_take_a_shipped_code() -> None:
    def mine(metric: MetricSubject, case: Stream) -> None:
        """Something."""

    target = ec.metric(inputs=None, extra_checks=[check("EC201")(mine)])(lambda device: None)  # type: ignore[arg-type]
    assert any("has the code EC201, which is splitting_a_stream" in problem for problem in target.problems)


def test_the_pages_of_the_checks_are_what_the_checks_say() -> None:
    # What they print on a planted bug is compared where the bug is tried: test_gallery.py.
    written = {path.name: path.read_text(encoding="utf-8") for path in make_checks.FOLDER.glob("*.md")}
    assert written == make_checks.pages(make_checks.written_failure), "run: python docs/make_checks.py"
