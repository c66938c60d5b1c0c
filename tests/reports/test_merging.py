"""One report of several: shards of one run, and environments that exclude each other."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from report_samples import cell

from pytest_evalcheck.reports import ReportError
from pytest_evalcheck.reports.merging import merged
from pytest_evalcheck.reports.results import Cell, Report
from pytest_evalcheck.reports.runs import Run, Shard

RUN = Run(effort="normal", devices=("auto",), versions={"python": "3.11.7", "torch": "2.9.0", "composer": None})
OLDER = replace(RUN, versions={"python": "3.11.7", "torch": "2.7.0", "composer": "0.32"})
A, B, C = Path("a.json"), Path("b.json"), Path("c.json")


def kept(target: str, **more) -> Cell:
    return replace(cell(), target=target, outcome="passed", **more)


def shard(number: int, of: int, *targets: str, run: Run = RUN, selection: str = "s", **more) -> Report:
    run = replace(run, shard=Shard(number=number, of=of, selection=selection))
    return Report([kept(target) for target in targets], run=run, **more)


def test_shards_are_joined_in_the_order_of_files():
    one = shard(1, 2, "b.py::x", "a.py::y", problems=["p"], optional=["cuda"], unchanged="3 not selected")
    two = shard(2, 2, "a.py::x", problems=["p", "q"], narrowed=True)
    whole = merged([(A, two), (B, one)])
    assert [each.target for each in whole] == ["a.py::y", "a.py::x", "b.py::x"]
    assert whole.problems == ("p", "q")
    assert whole.optional == ("cuda",)
    assert whole.narrowed
    assert whole.run == RUN
    assert whole.unchanged == "3 not selected"
    assert merged([(A, whole)]) is whole


@pytest.mark.parametrize(
    ("reports", "message"),
    [
        ([], "there is no report to merge"),
        ([Report([kept("a.py::x")])], "'a.json' does not name its run"),
        ([shard(1, 3, "a.py::x"), shard(3, 3, "b.py::x")], "shard 2/3 is missing; expected the reports of all 3"),
        ([shard(3, 3, "a.py::x")], "the shards 1/3, 2/3 are missing"),
        ([shard(1, 2, "a.py::x"), shard(1, 2, "a.py::x")], "shard 1/2 is there twice: 'a.json' and 'b.json'"),
        ([shard(1, 2, "a.py::x"), shard(2, 3, "b.py::x")], "'a.json' is shard 1/2, and 'b.json' is shard 2/3"),
        (
            [shard(1, 2, "a.py::x"), shard(2, 2, "b.py::x", selection="t")],
            "'a.json' and 'b.json' are shards of different selections: other targets, checks or files were selected, or",
        ),
        ([shard(1, 2, "a.py::x"), shard(2, 2, "a.py::x")], "'b.json' has a check that is also in another shard"),
        (
            [shard(1, 2, "a.py::x"), shard(2, 2, "b.py::x", run=replace(RUN, effort="quick"))],
            "the effort of 'a.json' and of 'b.json' differ: normal and quick",
        ),
        (
            [shard(1, 2, "a.py::x"), shard(2, 2, "b.py::x", run=replace(RUN, devices=("cpu", "mps")))],
            "the devices of 'a.json' and of 'b.json' differ: auto and cpu,mps",
        ),
        (
            [shard(1, 2, "a.py::x"), shard(2, 2, "b.py::x", run=OLDER)],
            "'a.json' and 'b.json' are of other versions: torch 2.9.0 and 2.7.0, composer is missing and 0.32; "
            "shards need the same ones, and environments that exclude each other are merged with --environments",
        ),
        (
            [shard(1, 2, "a.py::x"), Report([kept("b.py::x")], run=RUN)],
            "'b.json' is the report of a whole run; expected shards of one run: --evalcheck-shard=K/N",
        ),
        (
            [Report([kept("a.py::x")], run=RUN), Report([kept("b.py::x")], run=RUN)],
            "is the report of a whole run; expected shards of one run",
        ),
    ],
)
def test_what_does_not_belong_together_is_refused(reports, message):
    with pytest.raises(ReportError, match=re.escape(message)):
        merged(list(zip((A, B), reports, strict=False)))


def not_run(target: str) -> Cell:
    return replace(kept(target), outcome="not run", missing=("composer",), examples=0)


def test_a_cell_is_that_of_the_environment_that_ran_it():
    here = Report([kept("a.py::x"), not_run("c.py::x"), not_run("d.py::x")], run=RUN, optional=["composer"])
    there = Report([kept("c.py::x")], run=OLDER)
    for order in ([(A, here), (B, there)], [(B, there), (A, here)]):
        whole = merged(order, environments=True)
        assert {each.target: each.outcome for each in whole} == {
            "a.py::x": "passed",
            "c.py::x": "passed",
            "d.py::x": "not run",
        }
        assert whole.run is not None
        assert [dict(each) for each in whole.run.environments] == [dict(r.run.versions) for _, r in order]
        assert whole.ok


def test_what_an_environment_left_out_and_another_ran_is_not_left_out():
    left_out = {"full": {"a.py::x": 3, "b.py::x": 2}}
    here = Report([kept("c.py::x")], run=replace(RUN, left_out=left_out))
    whole = merged([(A, here), (B, Report([kept("a.py::x")], run=OLDER))], environments=True)
    assert whole.run is not None
    assert whole.run.left_out == {"full": {"b.py::x": 2}}


def test_a_cell_that_two_environments_ran_is_refused():
    reports = [(A, Report([kept("a.py::x")], run=RUN)), (B, Report([kept("a.py::x")], run=OLDER))]
    with pytest.raises(ReportError, match="expected environments in which different checks run"):
        merged(reports, environments=True)


def test_shards_of_environments_are_joined_first():
    reports = [(A, shard(1, 2, "a.py::x")), (B, shard(2, 2, "b.py::x")), (C, Report([kept("c.py::x")], run=OLDER))]
    assert len(merged(reports, environments=True)) == 3
    with pytest.raises(ReportError, match="shard 2/2 is missing"):
        merged([reports[0], reports[2]], environments=True)
