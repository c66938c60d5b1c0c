"""A part of a run: `--evalcheck-shard=K/N`, and the report of all parts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from target_files import BROKEN, CORRECT

from pytest_evalcheck.errors import UsageError
from pytest_evalcheck.integration.choosing.sharding import split
from pytest_evalcheck.testing import Project

SELECT = "--evalcheck-select=EC201,EC202,EC203"
NAMES = st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 5)), min_size=1, max_size=30, unique=True)


def nodes(pairs: list[tuple[str, int]]) -> list[str]:
    return [f"evalcheck_{name}.py::target::check_{number}[cpu]" for name, number in pairs]


@given(NAMES, st.integers(1, 6), st.dictionaries(st.integers(0, 5), st.floats(0, 100)))
def test_each_cell_is_in_one_shard_with_its_target(pairs, of, durations):
    cells = nodes(pairs)
    seconds = {cell: durations[number] for cell, (_, number) in zip(cells, pairs, strict=True) if number in durations}
    targets = {name for name, _ in pairs}
    if len(targets) < of:
        with pytest.raises(UsageError, match=f"{of} shards; expected at most {len(targets)}"):
            split(cells, of, seconds)
        return
    shards = split(cells, of, seconds)
    assert shards == split(reversed(cells), of, seconds)  # whatever the order of the items is
    assert shards.keys() == set(cells)
    assert set(shards.values()) == set(range(1, of + 1)) or not all(seconds.get(cell, 1) for cell in cells)
    of_target = {
        name: {shards[cell] for cell, (n, _) in zip(cells, pairs, strict=True) if n == name} for name in targets
    }
    assert all(len(found) == 1 for found in of_target.values())


def test_it_splits_by_the_durations_that_it_is_given():
    cells = nodes([(name, number) for name in "abcd" for number in range(2)])
    slow = {cell: 10.0 if "_a.py" in cell else 1.0 for cell in cells}
    shards = split(cells, 2, slow)
    assert [cell for cell, shard in shards.items() if shard == 1] == [cell for cell in cells if "_a.py" in cell]
    assert sorted(split(cells, 2, {}).values()) == [1] * 4 + [2] * 4
    # What has no duration takes as long as the others: it is no reason to put all of them into one shard.
    assert sorted(split(cells, 2, {cells[0]: 3.0}).values()) == [1] * 4 + [2] * 4


def merge(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest_evalcheck", "merge", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def three(project: Project) -> Project:
    """Three targets of two files; one of them is broken."""
    more = CORRECT.replace("def mean(", "def other_mean(")
    return project.write(CORRECT, BROKEN).write(more, name="evalcheck_other.py")


def whole(report: Path) -> dict:
    return json.loads(report.read_text())


def outcomes(report: dict) -> dict[tuple[str, str], tuple]:
    return {(c["target"], c["code"]): (c["outcome"], c["examples"], c["failure"]) for c in report["checks"]}


def test_the_merged_report_is_that_of_the_whole_run(three: Project) -> None:
    folder = three.path
    options = (SELECT, "--hypothesis-seed=1")
    three.run(*options, "--evalcheck-report=json=whole.json", code=1)
    for number in (1, 2):
        shard = f"--evalcheck-shard={number}/2:whole.json"
        result = three.run(*options, shard, f"--evalcheck-report=json={number}.json", code=None)
        result.shows(f"shard {number}/2: ", "of 9 checks; python -m pytest_evalcheck merge joins the JSON reports")
    views = [f"--report={name}=all.{name}" for name in ("json", "jsonl", "html", "github")]
    done = merge(folder, "1.json", "2.json", *views)
    assert done.returncode == 1, done.stderr
    assert "EC201 splitting_a_stream_does_not_change_the_value\nfails for" in done.stdout
    assert done.stdout.rstrip().endswith(f"evalcheck: not ok: {whole(folder / 'whole.json')['summary']['why'][0]}")
    merged, run = whole(folder / "all.json"), whole(folder / "whole.json")
    assert outcomes(merged) == outcomes(run)
    assert merged["summary"] == run["summary"]
    assert merged["run"] == run["run"]
    assert all((folder / f"all.{name}").stat().st_size for name in ("jsonl", "html", "github"))


@pytest.mark.slow
def test_workers_take_the_same_shard(three: Project) -> None:
    alone = three.run(SELECT, "--evalcheck-shard=1/3").report
    spread = three.spawn("--evalcheck", SELECT, "--evalcheck-shard=1/3", "-n", "2").report
    assert {cell.target for cell in alone} == {cell.target for cell in spread}
    assert alone.run == spread.run


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one process", "workers"])
def test_more_shards_than_targets_are_refused(three: Project, workers: tuple[str, ...]) -> None:
    text = "--evalcheck-shard=4/4: 4 shards; expected at most 3, which is how many targets are selected"
    result = three.spawn("--evalcheck", SELECT, "--evalcheck-shard=4/4", *workers)
    assert result.report.ok is False
    result.shows(f"ERROR: {text}").lacks("INTERNALERROR")


@pytest.mark.parametrize("shard", ["0/2", "3/2", "2", "1/0", "a/b", "1/2/3"])
def test_a_shard_that_cannot_be_meant_is_refused(three: Project, shard: str) -> None:
    three.run(f"--evalcheck-shard={shard}", code=4).shows(f"shard '{shard}'; expected K/N with K from 1 to N")


def test_durations_that_cannot_be_read_are_refused(three: Project) -> None:
    (three.path / "other.json").write_text("{\n}")
    shard = "--evalcheck-shard=1/2"
    three.run(f"{shard}:none.json", code=4).shows("none.json' cannot be read: No such file")
    three.run(f"{shard}:other.json", code=4).shows("other.json' cannot be read: its schema is None")


def test_the_ini_can_name_the_durations(three: Project) -> None:
    three.run(SELECT, "--evalcheck-report=jsonl=times.jsonl", code=1)
    three.pytester.makeini("[pytest]\nevalcheck_durations = times.jsonl")
    named = three.run(SELECT, "--evalcheck-shard=1/2:times.jsonl").report
    assert three.run(SELECT, "--evalcheck-shard=1/2").report.run == named.run
