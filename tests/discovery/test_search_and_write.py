"""Targets of a whole module: nothing that one class does harms the others, and the file runs as it is."""

import os
import re
import subprocess
import sys
import textwrap
from dataclasses import replace

import pytest

from pytest_evalcheck.discovery import search, target_source
from pytest_evalcheck.discovery.candidates import Candidate
from pytest_evalcheck.discovery.proposals import Proposal
from pytest_evalcheck.discovery.search import discover
from pytest_evalcheck.errors import UsageError

LIBRARY = '''
    import os, sys, time

    class Share:
        """The share of hits.

        >>> import torch
        >>> m = Share()
        >>> m.update(torch.tensor([0, 2, 1]), torch.tensor([0, 1, 1]))
        """
        def __init__(self): self.hits = self.count = 0
        def update(self, preds, target):
            print("noise")
            self.hits, self.count = self.hits + int((preds == target).sum()), self.count + len(preds)
        def compute(self): return self.hits / self.count
        def reset(self): self.hits = self.count = 0

    class Constant(Share):
        def compute(self): return 1.0

    class Ends(Share):
        def __init__(self): os._exit(5)

    class Hangs(Share):
        def __init__(self):
            while True: pass

    class Waits(Share):
        def __init__(self):
            while True: time.sleep(1)

    class Fetches(Share):
        def __init__(self):
            import urllib.request
            urllib.request.urlopen("http://example.com/weights")

    class Serves(Share):
        def __init__(self):
            import http.server
            http.server.HTTPServer(("127.0.0.1", 0), None).serve_forever()

    class MeanOfMeans(Share):
        """A mean of the means of batches.

        >>> import torch
        >>> m = MeanOfMeans()
        >>> m.update(torch.tensor([0, 2, 1]), torch.tensor([0, 1, 1]))
        """
        def __init__(self): self.means = []
        def update(self, preds, target): self.means.append(float((preds == target).float().mean()))
        def compute(self): return sum(self.means) / len(self.means)
        def reset(self): self.means = []

    class Lacks(Share):
        def __init__(self):
            import a_package_that_nobody_has

    class Needs(Share):
        def __init__(self, codebook): super().__init__()

    def path_of(name): return name
'''


@pytest.fixture
def library(tmp_path, monkeypatch):
    (tmp_path / "sharelib.py").write_text(textwrap.dedent(LIBRARY))
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_one_class_that_hangs_or_ends_its_process_costs_itself(library, monkeypatch, capfd):
    monkeypatch.setattr(search, "SECONDS_PER_CANDIDATE", 25.0)
    monkeypatch.setattr(search, "SECONDS_IDLE", 5.0)
    lines = []
    found = discover(["sharelib"], progress=lines.append)
    assert sorted({str(each.candidate) for each in found.proposals}) == ["sharelib.MeanOfMeans", "sharelib.Share"]
    assert (found.tried, len(found.candidates), found.others) == (2, 10, 1)
    assert found.left["sharelib.Hangs"] == "looking at it took longer than 25 s"
    assert found.left["sharelib.Waits"] == "it waited for 5 s"
    assert found.left["sharelib.Ends"] == "looking at it ended its process"
    assert "no network while inputs are inferred" in found.left["sharelib.Fetches"]
    assert "no network while inputs are inferred" in found.left["sharelib.Serves"]
    assert "No module named 'a_package_that_nobody_has'" in found.left["sharelib.Lacks"]
    assert (
        "its constructor needs codebook, of which no value is known; give it: 'sharelib:Needs(codebook=...)'"
        in (found.left["sharelib.Needs"])
    )
    assert "right and wrong predictions have the same value, 1.0" in found.left["sharelib.Constant"]
    assert found.summary == [
        "sharelib: 2 of 10 metrics in 2 configurations",
        "1 other public name: no metric, by methods and by parameters",
    ]
    assert lines == ["inferring inputs for 10 metrics"]
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_what_two_modules_import_is_tried_once_and_functions_beside_classes_are_named(library):
    first = "def rate(preds, target): return float((preds == target).mean())\n"
    (library / "ratelib.py").write_text(first + "def error(preds, target): return 1 - rate(preds, target)\n")
    (library / "errorlib.py").write_text("from ratelib import rate, error\n__all__ = ['rate', 'error']\n")
    (library / "bothlib.py").write_text(textwrap.dedent(LIBRARY) + first)
    found = discover(["ratelib:rate", "errorlib:rate", "bothlib:Share", "bothlib:rate", "ratelib"])
    assert found.candidates == ["ratelib.rate", "bothlib.Share", "bothlib.rate", "ratelib.error"]
    assert len(found.proposals) == len({*found.candidates})
    (library / "bothlib.py").write_text(textwrap.dedent(LIBRARY[: LIBRARY.index("class Constant")]) + first)
    beside = "1 function beside these classes, each tried by name: bothlib:rate"
    assert beside in discover(["bothlib"]).summary
    assert beside not in discover(["bothlib", "bothlib:rate"]).summary


@pytest.mark.slow
def test_functions_beside_classes_are_tried_where_no_class_can_be(library):
    needs = """
    class Needs:
        def __init__(self, codebook): self.hits = 0
        def update(self, preds, target): self.hits += int((preds == target).sum())
        def compute(self): return self.hits
    """
    function = "def rate(preds, target): return float((preds == target).mean())\n"
    (library / "needslib.py").write_text(textwrap.dedent(needs) + function)
    found = discover(["needslib"])
    assert [str(each.candidate) for each in found.proposals] == ["needslib.rate"]
    assert (found.tried, found.candidates, found.functions) == (1, ["needslib.Needs", "needslib.rate"], [])
    assert found.summary == ["needslib: 1 of 2 metrics in 1 configuration"]
    assert "def rate_target(device):" in found.source("needslib")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sharelib:Shar", "sharelib has no Shar; did you mean 'Share'?"),
        (
            "sharelib:Constant",
            "sharelib:Constant: none of 1 metric could be tried\nthe way on is a target with blanks to fill in:",
        ),
        ("os.path", "os.path: no metric was found among"),
        ("sharelib.no", "there is no module sharelib.no"),
    ],
)
def test_what_gives_no_target_is_an_error(library, text, message):
    with pytest.raises(UsageError) as caught:
        discover([text])
    assert str(caught.value).startswith(message)


def test_a_module_whose_import_hangs_or_ends_the_process_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(search, "SECONDS_TO_IMPORT", 8.0)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "hangslib.py").write_text("import time\nwhile True: time.sleep(1)\n")
    (tmp_path / "endslib.py").write_text("import os\nos._exit(3)\n")
    (tmp_path / "raiseslib.py").write_text("raise RuntimeError('no licence')\n")
    for name, message in (
        ("hangslib", "importing hangslib took longer than 8 s"),
        ("endslib", "importing endslib ended its process: "),
        ("raiseslib", "importing raiseslib raised RuntimeError: no licence"),
    ):
        with pytest.raises(UsageError) as caught:
            discover([name])
        assert str(caught.value).startswith(message)


def test_an_import_is_repeated_here_after_it_has_ended_there(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(search, "SECONDS_TO_IMPORT", 8.0)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "endedlib.py").write_text("import warnings\nprint('one line')\nwarnings.warn('another')\n")
    (tmp_path / "waitslib").mkdir()
    (tmp_path / "waitslib" / "part.py").write_text("import endedlib\n")
    (tmp_path / "waitslib" / "__init__.py").write_text(
        "from waitslib import part\nimport time\nwhile True: time.sleep(1)"
    )
    with pytest.raises(UsageError, match="importing waitslib took longer than 8 s"):
        next(search.discover_in_parts(["waitslib"], workers=1, progress=len, few=True, importing=True))
    assert sys.modules.pop("endedlib")
    assert not {"waitslib", "waitslib.part"} & {*sys.modules}
    assert capfd.readouterr() == ("", "")


def write(*arguments, cwd):
    command = [sys.executable, "-m", "pytest_evalcheck", "write", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, env={**os.environ, "COLUMNS": "80"})


def test_a_written_file_runs_as_it_is(library, evalcheck_project):
    folder = evalcheck_project.path
    (folder / "sharelib.py").write_text((library / "sharelib.py").read_text())
    done = write("sharelib:Share", "sharelib:MeanOfMeans()", "-o", "evalcheck_shares.py", cwd=folder)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert done.stderr == (
        "inferring inputs for 2 metrics\nsharelib:Share, sharelib:MeanOfMeans(): 2 of 2 metrics in 2 configurations\n"
    )
    source = (folder / "evalcheck_shares.py").read_text()
    assert "# constructed as in its docstring; inputs like those of its example: preds=int64[3]" in source
    result = evalcheck_project.spawn("--evalcheck", "--evalcheck-effort=quick", "--evalcheck-device=cpu", code=1)
    cells = {(cell.target.rpartition("::")[2], cell.code): cell.outcome for cell in result.report.cells}
    assert cells["share", "EC201"] == "passed"
    assert cells["mean_of_means", "EC201"] == "failed"


def test_a_file_that_is_there_is_not_overwritten(library, tmp_path):
    (tmp_path / "mine.py").write_text("# mine\n")
    done = write("sharelib:Share", "-o", "mine.py", cwd=tmp_path)
    assert done.returncode == 4
    assert done.stderr == "error: mine.py exists; expected a new name, or --force to overwrite it\n"
    assert (tmp_path / "mine.py").read_text() == "# mine\n"
    assert write("sharelib:Share", "-o", "mine.py", "--force", cwd=tmp_path).returncode == 0
    assert "@ec.metric" in (tmp_path / "mine.py").read_text()


def test_a_request_that_cannot_be_meant_is_one_line(library, tmp_path):
    done = write("sharelib:Shar", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == "error: sharelib has no Shar; did you mean 'Share'?\n"


def test_a_file_holds_what_is_called_first_and_what_does_not_apply():
    candidate = Candidate(module="m", name="Tracker", is_class=True)
    target = Proposal(
        candidate=candidate,
        label="",
        construction="Tracker(window=2)",
        imports=("from m import Tracker",),
        inputs="es.values()",
        origin="as in its docstring",
        setup=("increment",),
        not_applicable={"EC201": "window=2 counts updates"},
    )
    source = target_source.write("Targets.", [target], {}, [])
    assert source.endswith(
        textwrap.dedent("""
            # as in its docstring.
            @ec.metric(
                inputs=es.values(),
                budget=None,
                not_applicable={
                    'EC201': 'window=2 counts updates',
                },
            )
            def tracker(device):
                made = Tracker(window=2)
                made.increment()
                return made
            """)
    )


def test_a_target_does_not_hide_what_another_one_imports():
    def target(name, construction, *imports):
        return Proposal(
            candidate=Candidate(module="m", name=name, is_class=True),
            label="",
            construction=construction,
            imports=imports,
            inputs="es.audio()",
            origin="as in its docstring",
        )

    first = target("SignalRatio", "SignalRatio()", "from m import SignalRatio")
    second = target("Best", "Best(signal_ratio)", "from m import Best", "from m.functional import signal_ratio")
    source = target_source.write("Targets.", [first, first, second], {}, [])
    # The first metric runs before the others are known: their names give way.
    assert "from m.functional import signal_ratio as signal_ratio_3" in source
    assert "return Best(signal_ratio_3)" in source
    names = re.findall(r"def (\w+)", source)
    assert names == ["signal_ratio", "signal_ratio_2", "best"]
    assert re.findall(r"def (\w+)", target_source.write("Targets.", [first, first], {}, [])) == names[:2]
    source = target_source.write("Targets.", [second, first, first], {}, [])
    assert re.findall(r"def (\w+)", source) == ["best", "signal_ratio_target", "signal_ratio_target_2"]


def test_a_name_in_small_letters_that_is_a_word_of_python_is_changed():
    """FOR is the false omission rate of a library."""
    wanted = Proposal(
        candidate=Candidate(module="library", name="FOR", is_class=True),
        label="",
        construction="FOR()",
        imports=("from library import FOR",),
        inputs="es.binary()",
        origin="",
    )
    source = target_source.write("Targets.", [wanted], {}, [])
    assert "def for_target(device):" in source
    compile(source, "targets", "exec")


def test_two_things_of_one_name_stay_two_and_the_names_of_the_file_stay_its_own():
    def target(module, name):
        return Proposal(
            candidate=Candidate(module=module, name=name, is_class=False),
            label="",
            construction=f"partial({name}, onehot=True)",
            imports=("from functools import partial", f"from {module} import {name}"),
            inputs="es.binary()",
            origin="called by its signature",
        )

    wanted = [target("m", "score"), target("m.core", "score"), target("m.core", "es"), target("m", "score")]
    wanted[1] = replace(wanted[1], described="ec.Metric.of(made, like=score)")
    source = target_source.write("Targets.", wanted, {}, [])
    compile(source, "targets", "exec")
    assert "from m import score\n" in source
    assert "from m.core import score as score_2\n" in source
    assert "from m.core import es as es_2\n" in source
    called = [line.strip() for line in source.splitlines() if "return" in line]
    assert called.pop(1) == "return ec.Metric.of(made, like=score_2)"
    assert called == [f"return partial({name}, onehot=True)" for name in ("score", "es_2", "score")]
    named = [line for line in source.splitlines() if line.startswith("def ")]
    assert named == [
        f"def {name}(device):" for name in ("score_target", "score_target_2", "es_target", "score_target_3")
    ]
