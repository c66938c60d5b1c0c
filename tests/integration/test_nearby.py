"""A choice that matches nothing says what is near, and what a run does not reach is named."""

from __future__ import annotations

import json
import re

import pytest
from target_files import CORRECT, HEADER

from pytest_evalcheck.errors import nearest
from pytest_evalcheck.kinds.registry import shipped
from pytest_evalcheck.testing import Project

CELL = "evalcheck_example.py::mean::splitting_a_stream_does_not_change_the_value[cpu]"


@pytest.fixture
def project(evalcheck_project: Project) -> Project:
    evalcheck_project.header = HEADER
    return evalcheck_project.write(CORRECT, CORRECT.replace("def mean", "def median"))


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["-k", "EC201"], {"mean", "median"}),
        (["-k", "ec201 and not median"], {"mean"}),
        (["evalcheck_example.py::mean::EC201"], {"mean"}),
        (["evalcheck_example.py::median::ec201[cpu]"], {"median"}),
    ],
)
def test_a_code_chooses_as_its_name_does(project: Project, arguments: list[str], names: set[str]) -> None:
    result = project.run("--collect-only", "-q", *arguments, code=0)
    assert set(re.findall(r"::(\w+)::splitting_a_stream_does_not_change_the_value\[cpu\]", result.text)) == names
    assert len(re.findall("::.*::", result.text)) == len(names)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-k", "EC2O1"], "no id has 'EC2O1' in it, and no check has this code; did you mean 'EC201'?"),
        (["-k", "mediann and EC201"], "no id has 'mediann' in it, and no check has this code; did you mean 'median'"),
        (["-k", "spliting"], "did you mean 'splitting'?"),
        (["-k", "mean and median"], "-k 'mean and median' matches none of the checks of 2 targets"),
        (["-m", "cudaa"], "no marker is called 'cudaa'; did you mean 'cuda'?"),
        (["-m", "sweep"], "-m 'sweep' matches none of the checks here"),
        (["--evalcheck-select=EC401"], "EC401 is about targets of the kind scorer; here are 2 targets of the kind metric"),
        (["--evalcheck-select=MY201"], "no check matches 'MY201'"),
        (["evalcheck_example.py::meen"], "evalcheck_example.py has no target 'meen'; did you mean 'mean'?"),
        (["evalcheck_example.py::mean[EC201-cpu]"], "an id is evalcheck_example.py::mean::CHECK[DEVICE]"),
        (["evalcheck_example.py::mean::EC999"], "evalcheck_example.py::mean has no check 'EC999'; did you mean 'EC2"),
        (["evalcheck_example.py::mean::reset"], "did you mean 'reset_restores_the_initial_state'?"),
        (["evalcheck_example.py::mean::EC201[mps]"], "does not run on 'mps' here; --evalcheck-device names devices"),
        (["evalcheck_exmple.py"], "there is no file or folder evalcheck_exmple.py; did you mean 'evalcheck_example.py'?"),
        (["tests/evalcheck_example.py"], "there is no file or folder tests/evalcheck_example.py; there is evalcheck_example"),
    ],
)  # fmt: skip
def test_a_choice_that_matches_nothing_says_what_is_near(project: Project, arguments: list[str], said: str) -> None:
    result = project.run(*arguments)
    assert result.code in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED)
    result.shows(said, "evalcheck: not ok: nothing was tried")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--evalcheck-slect=EC201"], "there is no option --evalcheck-slect; did you mean '--evalcheck-select'?"),
        (["--evalcheck-rum=isolated"], "there is no option --evalcheck-rum; did you mean '--evalcheck-run'?"),
        (["-o", "evalcheck_slect=EC201"], "-o: there is no setting evalcheck_slect; did you mean 'evalcheck_select'?"),
        (["--evalcheck-isolate"], "--evalcheck-isolate has a new form: --evalcheck-run=isolated"),
        (["--evalcheck-in-process"], "--evalcheck-in-process has a new form: --evalcheck-run=in-process"),
        (["--evalcheck-on=dask"], "--evalcheck-on has a new form: --evalcheck-run=dask or --evalcheck-run=ray"),
        (["--evalcheck-on", "ray"], "--evalcheck-on has a new form: --evalcheck-run=dask or --evalcheck-run=ray"),
        (["--evalcheck-workers=2"], "--evalcheck-workers has a new form: --evalcheck-run=dask:workers=N"),
        (["--evalcheck-run=isolate"], "--evalcheck-run=isolate; expected supervised, isolated, in-process, "),
        (["--evalcheck-run=isolate"], "dask[:ADDRESS] or ray[:ADDRESS]; did you mean 'isolated'?"),
        (["--evalcheck-run=supervised:2"], "--evalcheck-run=supervised:2: only dask and ray have an address"),
        (["--evalcheck-durations=x.json"], "--evalcheck-durations has a new form: --evalcheck-shard=K/N:PATH"),
        (["--evalcheck-fresh"], "--evalcheck-fresh has a new form: --evalcheck-since= without a revision"),
        (["--evalcheck-accept"], "--evalcheck-accept has a new form: --evalcheck-known=accept"),
        (["--evalcheck-prune"], "--evalcheck-prune has a new form: --evalcheck-known=prune"),
        (["--evalcheck-write-tests=x.py"], "--evalcheck-write-tests has a new form: --evalcheck-scripts=FILE.py"),
        (["--evalcheck-known=acept"], "--evalcheck-known=acept; expected accept or prune, or both with a comma; did you"),
        (["--evalcheck-scripts=a", "--evalcheck-scripts=b"], "more than once; expected one folder and one FILE.py"),
        (["--evalcheck-list=metrics"], "--evalcheck-list=metrics; expected json, or kinds: decoder, engine, loop, metric, "),
        (["--evalcheck-list", "--evalcheck-select=EC2O1"], "no check matches 'EC2O1'; did you "),
    ],
)  # fmt: skip
def test_an_option_that_cannot_be_meant_names_the_nearest(project: Project, arguments: list[str], said: str) -> None:
    project.run(*arguments, code=4).shows(said)


def test_there_are_at_most_twenty_three_options(pytestconfig: pytest.Config) -> None:
    options = pytestconfig._parser.getgroup("evalcheck").options
    names = [name for option in options for name in option.names() if name.startswith("--evalcheck")]
    assert 15 < len(names) <= 23


def test_of_words_that_are_equally_near_the_one_that_begins_alike_is_named() -> None:
    assert nearest("EC2O1", ["EC521", "EC221", "EC201"]) == "; did you mean 'EC201'?"


def test_target_files_outside_of_testpaths_are_named(project: Project) -> None:
    (project.path / "tests").mkdir()
    project.write("def test_one(): pass\n", name="tests/test_one.py", header="")
    project.write("[pytest]\ntestpaths = tests\n", name="pytest.ini", header="")
    outside = "not selected: evalcheck_example.py: outside of testpaths = tests; pytest --evalcheck . runs it, or add the folder"
    tests = "not selected: the ordinary tests of tests/test_one.py; --evalcheck-with-tests runs them, too"
    project.run(code=5).shows(outside, tests, "no target was run")
    project.write(CORRECT, name="tests/evalcheck_inside.py").run("-k", "EC201", code=0).shows(outside, "ok: 1 passed")
    project.run("tests", "-k", "EC201", code=0).lacks("outside of testpaths")
    project.run("--evalcheck-with-tests", "-k", "EC201 or test_one", code=0).shows(outside, "2 passed").lacks(tests)


def test_the_list_has_every_check_with_its_promise(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    promise = "The value does not depend on how the stream is split into batches."
    for columns, line in (
        ("200", "EC201  splitting_a_stream_does_not_change_the_value  "),
        ("60", "EC201  splitting_a_"),
    ):
        monkeypatch.setenv("COLUMNS", columns)
        text = project.run("--evalcheck-list", evalcheck=False, code=0).shows(line).text
        assert promise in " ".join(text.split())
        assert all(made.code in text for made in shipped())
        assert max(map(len, text.splitlines())) <= max(int(columns), 9 + max(len(made.name) for made in shipped()))
    few = project.run("--evalcheck-list=metric", "--evalcheck-select=EC201,EC401", evalcheck=False, code=0)
    few.shows("metric: 1 check", "\n1 check; --evalcheck-explain").lacks("EC401")
    listed = json.loads(project.run("--evalcheck-list=json", "--evalcheck-ignore=EC2", evalcheck=False, code=0).text)
    assert [made["code"] for made in listed] == [made.code for made in shipped() if not made.code.startswith("EC2")]
    assert {"name", "kinds", "statement", "fix", "marks"} < listed[0].keys()
