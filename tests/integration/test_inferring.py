"""``--evalcheck-target``: no file, no lines; the denominator on the screen and in the report."""

import json
import shlex

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
QUICK = ("--evalcheck-effort=quick", "--evalcheck-device=cpu", "--evalcheck-select=EC201,EC218,EC219")


@pytest.fixture
def project(evalcheck_project, monkeypatch):
    evalcheck_project.write(LIBRARY, name="sharelib.py", header="")
    monkeypatch.syspath_prepend(evalcheck_project.path)
    return evalcheck_project


def report(project):
    return json.loads((project.path / "report.json").read_text())


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
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
    project.write(
        """
        from sharelib import Share

        @ec.metric(inputs=es.multiclass(classes=3))
        def by_hand(device):
            return Share()
        """
    )
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


FORGETS = LIBRARY.split("class Embedded", maxsplit=1)[0].replace(
    "self.hits + int((preds == target).sum()), self.count + len(preds)", "int((preds == target).sum()), len(preds)"
)
OTHER = """
@ec.metric(inputs=numbers)
def mean(device):
    return ec.Metric.of(Mean())
"""


@pytest.mark.parametrize("options", [(), ("--evalcheck-run=isolated",)])
def test_ids_and_places_name_the_source_of_the_user(project, options):
    project.write(FORGETS, name="forgetlib.py", header="")
    line = (project.path / "forgetlib.py").read_text().splitlines().index("class Share:") + 1
    path = project.path / "report.json"
    command = ("--evalcheck-target=forgetlib:Share", *QUICK, f"--evalcheck-report=json={path}", *options)
    result = project.spawn(*command, code=1)
    result.shows(f"target       forgetlib.py:{line}\n", "fails for forgetlib::share on cpu")
    result.shows("FAILED forgetlib::share::splitting_a_stream_does_not_change_the_value[cpu]")
    cells = report(project)["checks"]
    assert {cell["target"] for cell in cells} == {"forgetlib::share"}
    assert ("forgetlib.py", line) in {(cell["file"].rpartition("/")[2], cell["line"]) for cell in cells}
    if options:
        return
    project.spawn(*command, "-k", "share and EC201", code=1).assert_outcomes(failed=1)
    project.spawn(*command, "--lf", code=1).assert_outcomes(failed=1)
    (reproduce,) = result.reproduce
    project.spawn(*shlex.split(reproduce)[1:], code=1).assert_outcomes(failed=1)
    project.spawn(*command, "--evalcheck-known=accept", code=0)
    project.spawn(*command, code=0).shows("1 known")
    project.write(OTHER).run("--evalcheck-select=EC201", code=0).lacks("is not there")
