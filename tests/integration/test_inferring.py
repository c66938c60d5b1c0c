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
