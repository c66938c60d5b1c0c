"""``--evalcheck-target``: no file, no lines; the denominator on the screen and in the report."""

import json

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
