"""Formats as a run and as merged shards write them; JUnit is pytest's own."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from pytest_evalcheck.__main__ import main

SOURCE = r"""
    class Mean:
        def __init__(self):
            self.total, self.count = 0.0, 0

        def update(self, preds, target):
            if len(preds) == 2:
                raise ValueError("two \x00 \x1b[31m <&]]> \ud83d rows")
            self.total += float((preds - target).abs().mean())
            self.count += 1

        def compute(self):
            return self.total / self.count if self.count else 0.0

    @ec.metric(inputs=es.regression())
    def broken():
        return Mean()

    @ec.metric(inputs=es.regression())
    def also_broken():
        return Mean()
"""


@pytest.mark.parametrize("fork", [True, False])
def test_junit_has_each_failure_and_no_statistics_of_hypothesis(project, fork):
    project.write(SOURCE)
    project.write(
        "from hypothesis import given, strategies as st\n@given(st.integers())\ndef test_mine(number): pass\n",
        name="test_mine.py",
        header="",
    )
    more = () if fork else ("--evalcheck-run=in-process",)
    project.run("--junit-xml=j.xml", "--evalcheck-with-tests", "--evalcheck-select=EC201,EC205", *more, code=1)
    tree = ElementTree.parse(project.path / "j.xml")
    names = [one.get("name", "") for one in tree.iter("property")]
    own = [name for name in names if name.startswith("hypothesis-statistics-")]
    assert own == ([] if fork else ["hypothesis-statistics-test_mine.py::test_mine"])
    failures = {
        one.get("name"): one.find("failure") for one in tree.iter("testcase") if one.find("failure") is not None
    }
    shown = failures["splitting_a_stream_does_not_change_the_value[cpu]"].text
    assert "two #x00 #x1B[31m <&]]> " in shown, shown[:900]  # as pytest writes what XML cannot hold
    assert "smallest input" in shown
    assert "--evalcheck-replay=" in shown


def test_sarif_and_a_badge_of_shards_are_those_of_the_whole(project, capsys, monkeypatch):
    project.write(SOURCE, name="evalcheck_a.py").write(SOURCE, name="evalcheck_b.py")
    monkeypatch.chdir(project.path)
    shards = []
    for number in (1, 2):
        shards.append(f"{number}.json")
        views = (f"--evalcheck-report=json={number}.json", "--evalcheck-report=badge=part.json")
        project.run(f"--evalcheck-shard={number}/2", "--evalcheck-select=EC201", *views, code=1)
        assert json.loads((project.path / "part.json").read_text())["message"] == f"shard {number}/2: 2 failed"
    views = ("sarif=all.sarif", "badge=all.json")
    assert main(["merge", *(word for view in views for word in ("--report", view)), *shards, "-q"]) == 1
    capsys.readouterr()
    assert json.loads((project.path / "all.json").read_text())["message"] == "part: 4 failed"
    (run,) = json.loads((project.path / "all.sarif").read_text("utf-8"))["runs"]
    places = [one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in run["results"]]
    assert sum(one["properties"]["checks"] for one in run["results"]) == 4
    assert set(places) <= {"evalcheck_a.py", "evalcheck_b.py"}
    assert run["tool"]["driver"]["rules"][run["results"][0]["ruleIndex"]]["id"] == "EC201"
    (project.path / "mine.sarif").write_text('{"version": "2.1.0", "runs": []}')
    assert main(["merge", "--report", "sarif=mine.sarif", *shards]) == 4
    assert "a file that is not a sarif report of this plugin" in capsys.readouterr().err
