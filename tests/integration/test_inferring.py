"""``--evalcheck-target``: no file, no lines; the denominator on the screen and in the report."""

import json
import shlex
import shutil
from pathlib import Path

import pytest

LIBRARY = '''
class Share:
    """The share of hits.

    >>> import torch
    >>> m = Share()
    >>> m.update(torch.tensor([0, 2, 1]), torch.tensor([0, 1, 1]))
    """
    def __init__(self): self.hits = self.count = 0
    def update(self, preds, target):
        self.hits, self.count = self.hits + int((preds == target).sum()), self.count + len(preds)
    def compute(self): return self.hits / self.count
    def reset(self): self.hits = self.count = 0

class Embedded:
    def __init__(self, encoder): ...
    def update(self, preds, target): ...
    def compute(self): ...
'''
FORGETS = LIBRARY.split("class Embedded", maxsplit=1)[0].replace(
    "self.hits + int((preds == target).sum()), self.count + len(preds)", "int((preds == target).sum()), len(preds)"
)
BY_HAND = """
from sharelib import Share

@ec.metric(inputs=es.multiclass(classes=3))
def by_hand(device):
    return Share()
"""
QUICK = ("--evalcheck-effort=quick", "--evalcheck-device=cpu", "--evalcheck-select=EC201,EC218,EC219")


@pytest.fixture
def project(evalcheck_project, monkeypatch):
    evalcheck_project.write(LIBRARY, name="sharelib.py", header="")
    monkeypatch.syspath_prepend(evalcheck_project.path)
    return evalcheck_project


def report(project):
    return json.loads((project.path / "report.json").read_text())


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
@pytest.mark.slow(every=2)
def test_a_module_is_named_and_nothing_else(project, workers):
    project.write("def test_mine(): raise AssertionError('ordinary tests stay out')", name="test_mine.py", header="")
    path = project.path / "report.json"
    result = project.spawn("--evalcheck-target", "sharelib", *QUICK, f"--evalcheck-report=json={path}", *workers)
    lines = result.text.splitlines()
    assert result.code == 0, result.text + result.errors
    assert "inferred: sharelib: 1 of 2 metrics in 1 configuration" in lines
    assert any(line.startswith("  not tried: sharelib.Embedded: its docstring has no example; its") for line in lines)
    assert lines[-1].startswith("evalcheck: ok: 2 passed, 1 not applicable")
    data = report(project)
    assert (data["inferred"]["metrics"], data["inferred"]["tried"]) == (2, 1)
    assert list(data["inferred"]["not_tried"]) == ["sharelib.Embedded"]
    assert [cell["target"].rpartition("::")[2] for cell in data["checks"]] == ["share"] * 3


def test_it_runs_beside_files_that_are_named(project):
    project.write(BY_HAND)
    path = project.path / "report.json"
    result = project.spawn(
        "--evalcheck-target=sharelib:Share()", "evalcheck_example.py", *QUICK, f"--evalcheck-report=json={path}"
    )
    assert result.code == 0, result.text
    assert {cell["target"].rpartition("::")[2] for cell in report(project)["checks"]} == {"share", "by_hand"}


def test_what_cannot_be_meant_ends_the_run_before_it_begins(project):
    result = project.spawn("--evalcheck-target", "sharelib:Shar")
    assert result.code == 4
    assert "ERROR: sharelib has no Shar; did you mean 'Share'?" in result.errors


@pytest.mark.parametrize("options", [(), ("--evalcheck-run=isolated",)])
@pytest.mark.slow
def test_ids_and_places_name_the_source_of_the_user(project, options):
    project.write(FORGETS, name="forgetlib.py", header="")
    line = (project.path / "forgetlib.py").read_text().splitlines().index("class Share:") + 1
    command = ("--evalcheck", "--evalcheck-target=forgetlib:Share", *QUICK, *options)
    result = project.spawn(*command, code=1)
    result.shows(f"target       forgetlib.py:{line}\n", "fails for forgetlib::share on cpu")
    result.shows("FAILED forgetlib::share::splitting_a_stream_does_not_change_the_value[cpu]")
    assert {cell.target for cell in result.report.cells} == {"forgetlib::share"}
    cell = result.cell("EC201")
    assert (Path(cell.file), cell.line) == (project.path / "forgetlib.py", line)
    if options:
        return
    project.spawn(*command, "-k", "share and EC201", code=1).assert_outcomes(failed=1)
    project.spawn(*command, "--lf", code=1).assert_outcomes(failed=1)
    (reproduce,) = result.reproduce
    result.shows("reproduce    pytest --evalcheck-target=forgetlib:Share 'forgetlib::share::splitting_")
    replayed = project.spawn("--evalcheck", *shlex.split(reproduce)[1:], code=1)
    replayed.assert_outcomes(failed=1).shows("fails for forgetlib::share on cpu").lacks("inferring inputs")
    shutil.rmtree(project.path / ".pytest_cache")
    replayed = project.spawn("--evalcheck", *shlex.split(reproduce)[1:], code=1)
    replayed.assert_outcomes(failed=1).shows("inferring inputs")
    project.spawn(*command, "--evalcheck-known=accept", code=0)
    project.spawn(*command, code=0).shows("1 known")
    project.write(BY_HAND).run("--evalcheck-select=EC201", code=0).lacks("is not there")


SCORE = """
def score(preds, target):
    '''The share of hits.

    >>> import torch
    >>> score(torch.tensor([0, 2, 1]), torch.tensor([0, 1, 1]))
    '''
    return float((preds == target).float().mean()) if len(preds) else float("nan")
"""


@pytest.mark.slow
def test_ids_begin_with_the_module_of_each_target(project):
    project.write(FORGETS, name="forgetlib.py", header="").write(SCORE, name="scorelib.py", header="")
    asked = [f"--evalcheck-target={text}" for text in ("sharelib", "forgetlib:Share", "scorelib")]
    result = project.spawn("--evalcheck", *asked, *QUICK, code=1)
    names = {
        "sharelib::share": "sharelib.py",
        "forgetlib::share": "forgetlib.py",
        "scorelib::score_target": "scorelib.py",
    }
    assert {cell.target: Path(cell.file).name for cell in result.report.cells if cell.executed} == names
    assert [cell.target for cell in result.report.cells if cell.outcome == "failed"] == ["forgetlib::share"]
    result.shows("reproduce    pytest --evalcheck-target=forgetlib:Share 'forgetlib::share::splitting_")
    result = project.spawn("--evalcheck", *asked, *QUICK, "sharelib::share", "scorelib::score_target", code=0)
    assert {cell.target for cell in result.report.cells} == names.keys() - {"forgetlib::share"}
    project.spawn(*asked, "sharelib::shrae", code=4).shows("sharelib has no target 'shrae'; did you mean 'share'?")


@pytest.mark.slow
def test_a_check_whose_process_dies_names_the_source_of_the_user_too(project):
    # It is looked at before it is a target, and must not end its process there.
    project.write("def pytest_runtest_setup(item): open('armed', 'w')", name="conftest.py", header="")
    armed = "def __init__(self): __import__('os').path.exists('armed') and __import__('os')._exit(3); "
    project.write(FORGETS.replace("def __init__(self): ", armed), name="dielib.py", header="")
    line = (project.path / "dielib.py").read_text().splitlines().index("class Share:") + 1
    quick = ("--evalcheck-effort=quick", "--evalcheck-device=cpu", "--evalcheck-select=EC201")
    result = project.spawn("--evalcheck", "--evalcheck-target=dielib:Share", *quick, code=1)
    result.shows("the process of the check died", f"target       dielib.py:{line}\n")
    cell = result.cell("EC201")
    assert (cell.target, Path(cell.file), cell.line) == ("dielib::share", project.path / "dielib.py", line)


MANY = "\n".join(
    LIBRARY.split("class Embedded", maxsplit=1)[0].replace("Share", f"Share{number:02}") for number in range(21)
)
FIRST_AND_REST = {f"manylib::share{number:02}" for number in range(21)}


@pytest.fixture
def large_module(project):
    """A module of more metrics than are looked at before the first of them runs."""
    return project.write(MANY, name="manylib.py", header="")


@pytest.mark.slow
def test_the_first_metric_runs_while_the_others_are_looked_at(large_module):
    # The last one waits, where it is looked at, until a check of the first has run.
    waits = """
def _waits():
    import os, time
    while not os.path.exists("ran"): time.sleep(0.01)
"""
    made = "def __init__(self): "
    large_module.write((made + "_waits(); ").join(MANY.rsplit(made, maxsplit=1)) + waits, name="manylib.py", header="")
    large_module.write("def pytest_runtest_teardown(item): open('ran', 'w')", name="conftest.py", header="")
    result = large_module.spawn("--evalcheck", "--evalcheck-target=manylib", *QUICK, code=0)
    result.assert_outcomes(passed=42, not_applicable=21).shows(
        "inferred: manylib: 21 of 21 metrics in 21 configurations"
    )
    assert {cell.target for cell in result.report.cells} == FIRST_AND_REST
    listed = large_module.spawn("--evalcheck", "--evalcheck-target=manylib", *QUICK, "--collect-only", "-q", code=0)
    assert {line.rpartition("::")[0] for line in listed.text.splitlines() if line.endswith("[cpu]")} == FIRST_AND_REST


@pytest.mark.slow
def test_each_is_selected_and_judged_as_where_all_are_known(large_module):
    forgets = "int((preds == target).sum()), len(preds)"
    adds = "self.hits + int((preds == target).sum()), self.count + len(preds)"
    large_module.write(forgets.join(MANY.rsplit(adds, maxsplit=1)), name="manylib.py", header="")
    command = ("--evalcheck", "--evalcheck-target=manylib", *QUICK)
    result = large_module.spawn(*command, code=1)
    all_known = large_module.spawn(*command, "-n", "1", code=1)
    ids = [[(cell.target, cell.code, cell.outcome) for cell in each.report.cells] for each in (result, all_known)]
    assert sorted(ids[0]) == sorted(ids[1])
    assert len(ids[0]) == len(set(ids[0])) == 63
    (reproduce,) = result.reproduce
    large_module.spawn("--evalcheck", *shlex.split(reproduce)[1:], code=1).lacks("inferring inputs").assert_outcomes(
        failed=1
    )
    large_module.spawn(*command, "-k", "share07 and EC201", code=0).assert_outcomes(passed=1)
    large_module.spawn(*command, "-k", "share00 and EC201", code=0).assert_outcomes(passed=1)
    large_module.spawn(*command, "-p", "no:terminal", "-k", "share20 and EC201", code=1)


@pytest.mark.slow
def test_a_run_that_ends_early_says_that_not_all_were_looked_at(large_module):
    wrong = MANY.replace("self.hits + int", "int", 1)
    large_module.write(wrong, name="manylib.py", header="")
    result = large_module.spawn("--evalcheck", "--evalcheck-target=manylib", *QUICK, "-x", code=1)
    result.shows("inferred: the run ended before all of them were looked at", "did not run (manylib::share00)")
