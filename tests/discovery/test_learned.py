"""Targets from a corpus: what words do not tell is learned from the project's own tests."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_evalcheck.engine import judging
from pytest_evalcheck.expectations.failures import CheckFailure, TargetError
from pytest_evalcheck.learning.corpus import nearest, read
from pytest_evalcheck.reports.results import DECLARED, REFUSES

PACKAGE = """
    import numpy as np


    def share(inp, targ, axis=-1):
        return float((inp.argmax(axis) == targ).float().mean())


    class Tally:
        def __init__(self, labels):
            self.labels = labels
            self.reset()

        def reset(self):
            self.right, self.total = 0, 0

        def update(self, inp, targ):
            self.right += int((inp == targ).sum())
            self.total += len(targ)

        def compute(self):
            return self.right / max(self.total, 1)


    class Gap:
        def __init__(self, bins):
            self.bins = bins

        def measure(self, conf, hit):
            conf, hit = np.asarray(conf), np.asarray(hit)
            edges = np.minimum((conf * self.bins).astype(int), self.bins - 1)
            parts = [edges == number for number in range(self.bins)]
            return float(sum(one.mean() * abs(conf[one].mean() - hit[one].mean()) for one in parts if one.any()))


    class Model:
        def __init__(self):
            self.words, self.counts = [], {}

        def train(self, texts):
            self.words = sorted({*texts})
            self.counts = {each: self.counts.get(each, 0) + texts.count(each) for each in texts}

        def to_dict(self):
            return {"words": self.words, "counts": self.counts}


    class Pile:
        def begin(self):
            self.values = []

        def push(self, inp, targ):
            self.values.append(float((inp - targ).abs().mean()))

        @property
        def value(self):
            return sum(self.values) / len(self.values)
"""
TESTS = """
    import numpy as np
    import torch
    from learned_project.metrics import Gap, Model, Pile, Tally, share


    def test_model():
        model = Model()
        model.train(["a", "b", "a"])
        model.train(["b", "c"])
        assert model.to_dict()["words"] == ["b", "c"]


    def test_share():
        inp = torch.tensor([[0.1, 0.9, 0.0], [0.8, 0.1, 0.1], [0.2, 0.2, 0.6]])
        assert share(inp, torch.tensor([1, 0, 0])) > 0.6


    def test_tally():
        tally = Tally(labels=["a", "b"])
        tally.update(torch.tensor([0, 1, 1]), torch.tensor([0, 1, 0]))
        tally.update(torch.tensor([0]), torch.tensor([0]))
        assert tally.compute() == 0.75


    def test_gap():
        assert Gap(4).measure(np.array([0.9, 0.2, 0.6, 0.55]), np.array([1, 0, 1, 0])) > 0


    def test_pile():
        pile = Pile()
        pile.begin()
        pile.push(torch.tensor([1.0, 2.0]), torch.tensor([1.5, 2.0]))
        pile.push(torch.tensor([4.0]), torch.tensor([1.0]))
        assert pile.value == 1.625


    def test_that_fails():
        assert share(torch.eye(3), torch.tensor([0, 1, 1])) == 2
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> Path:
    pytester.syspathinsert()
    root = pytester.path
    (root / "learned_project").mkdir()
    (root / "learned_project" / "__init__.py").write_text("")
    (root / "learned_project" / "metrics.py").write_text(textwrap.dedent(PACKAGE))
    (root / "tests").mkdir()
    (root / "tests" / "test_metrics.py").write_text(textwrap.dedent(TESTS))
    return Path(root)


def _learn(pytester: pytest.Pytester, *arguments: str) -> Any:
    return pytester.runpytest_subprocess("--evalcheck-learn=learned_project", "tests", *arguments)


def test_a_project_that_no_word_describes_is_tried_after_its_tests_have_run(
    pytester: pytest.Pytester, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned = _learn(pytester)
    learned.assert_outcomes(passed=5, failed=1)
    learned.stdout.fnmatch_lines(
        [
            "evalcheck: learned learned_project: 14 calls of 1 functions and 4 classes",
            "evalcheck: wrote evalcheck-corpus/learned_project.json",
            "evalcheck: next: pytest --evalcheck-target=learned_project",
        ]
    )
    (tmp_path / "of_others.py").write_text("import pytest_evalcheck as ec\n\n@ec.metric(inputs=1)\ndef other(): ...\n")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    ran = pytester.runpytest_subprocess("--evalcheck", "--evalcheck-select=EC201", "-rA")
    ran.stdout.fnmatch_lines(
        ["inferred: learned_project: 4 of 5 metrics in * configurations", "evalcheck: not ok: 1 failed*"]
    )
    ran.stdout.no_fnmatch_line("*of_others*")
    failed = [line for line in ran.outlines if line.startswith("FAILED")]
    assert len(failed) == 1
    assert "pile::splitting_a_stream_does_not_change_the_value" in failed[0]
    again = pytester.runpytest_subprocess("--evalcheck-target=learned_project.metrics", "--evalcheck-select=EC201")
    again.stdout.fnmatch_lines(["evalcheck: not ok: 1 failed*"])


def test_where_no_package_is_named_those_of_the_project_are_watched(pytester: pytest.Pytester, project: Path) -> None:
    (project / "src").mkdir()
    (project / "tests" / "__init__.py").write_text("")
    ran = pytester.runpytest_subprocess("tests", "--evalcheck-learn")
    ran.stdout.fnmatch_lines(["evalcheck: learned learned_project: 14 calls*", "evalcheck: next: *=learned_project"])


@pytest.mark.slow
def test_what_is_written_names_the_methods_that_were_found_by_trial(
    pytester: pytest.Pytester, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _learn(pytester, "-n", "2").stdout.fnmatch_lines(["evalcheck: learned learned_project: 14 calls*"])
    written = pytester.runpython_c(
        "from pytest_evalcheck.__main__ import main; main(['write', '--from-corpus', '-o', 'made.py'])"
    )
    assert written.ret == 0
    text = (project / "made.py").read_text()
    assert "return Gap(bins=4).measure" in text
    assert "return ec.Metric(update=made.push, compute=lambda: made.value, reset=made.begin)" in text
    assert "return Tally(labels=['a', 'b'])" in text
    assert "@ec.metric(inputs=ec.learned('learned_project.metrics:share'), budget=None)" in text


@pytest.mark.slow
def test_another_release_a_name_that_is_gone_and_a_hostile_file(pytester: pytest.Pytester, project: Path) -> None:
    _learn(pytester)
    corpus = project / "evalcheck-corpus" / "learned_project.json"
    text = corpus.read_text()
    corpus.write_text(text.replace('"release": ""', '"release": "0.1"').replace("metrics:Tally", "metrics:Gone"))
    ran = pytester.runpytest_subprocess("--evalcheck-target=learned_project.metrics", "--evalcheck-select=EC201")
    ran.stdout.fnmatch_lines(
        [
            "inferred: the corpus of learned_project was learned from 0.1, none is installed",
            "*not tried: learned_project.metrics.Gone: it is in the corpus, and not in the module",
        ]
    )
    hostile = text.replace('{"bins": 4}', '{"bins": {"name": "os:system"}}')
    assert hostile != text
    corpus.write_text(hostile)
    ran = pytester.runpytest_subprocess("--evalcheck-target=learned_project.metrics:Gap", "--evalcheck-select=EC201")
    ran.stderr.fnmatch_lines(["*none of 1 metric could be tried*"])
    corpus.write_text("{")
    ran = pytester.runpytest_subprocess("--evalcheck", "--evalcheck-select=EC201")
    ran.stderr.fnmatch_lines(["ERROR: *learned_project.json is not JSON*"])


def test_a_script_is_watched(pytester: pytest.Pytester, project: Path) -> None:
    (project / "run.py").write_text(
        "import torch\nfrom learned_project.metrics import share\n"
        "print(share(torch.eye(3), torch.tensor([0, 1, 1])))\nraise ValueError('end')\n"
    )
    command = ("-m", "pytest_evalcheck", "learn", "learned_project", "run.py")
    ran = pytester.run("python", *command)
    ran.stdout.fnmatch_lines(
        [
            "run.py raised ValueError: end; what was seen before is kept",
            "learned learned_project: 1 calls of 1 functions and 0 classes",
            "wrote evalcheck-corpus/learned_project.json",
        ]
    )
    assert pytester.run("python", "-m", "pytest_evalcheck", "learn", "learned_projec", "run.py").ret == 4
    (project / "start.py").write_text("import subprocess, sys\nsubprocess.run([sys.executable, 'run.py'])\n")
    ran = pytester.run("python", *command[:-1], "start.py")
    ran.stdout.fnmatch_lines(["learned learned_project: 1 calls of 1 functions and 0 classes"])
    assert [*read(project / "evalcheck-corpus").entries["learned_project.metrics:share"].tests] == ["start.py"]


def test_what_a_package_exports_beside_a_class_is_found_where_a_run_has_called_it(
    pytester: pytest.Pytester, project: Path
) -> None:
    (project / "learned_project" / "__init__.py").write_text("from learned_project.metrics import Tally, share\n")
    _learn(pytester)
    ran = pytester.runpytest_subprocess(
        "--evalcheck-target=learned_project", "--evalcheck-select=EC201", "--collect-only", "-q"
    )
    ran.stdout.fnmatch_lines(["learned_project::share*::*"])
    ran.stdout.fnmatch_lines(["learned_project::tally*::*"])


def test_a_module_is_watched(pytester: pytest.Pytester, project: Path) -> None:
    (project / "learned_project" / "run.py").write_text(
        "import sys, torch\nfrom learned_project.metrics import share\n"
        "if __name__ == '__main__': print(sys.argv[1:], share(torch.eye(3), torch.tensor([0, 1, 1])))\n"
    )
    command = ("python", "-m", "pytest_evalcheck", "learn", "learned_project")
    ran = pytester.run(*command, "learned_project.run", "--quick")
    ran.stdout.fnmatch_lines(["[[]'--quick'] 0.66*", "learned learned_project: 1 calls of 1 functions*"])
    [(test, _)] = read(project / "evalcheck-corpus").entries["learned_project.metrics:share"].calls
    assert test == "learned_project.run"
    for wrong in ("learned_project.runn", "no_such.run", "run.py"):
        ran = pytester.run(*command, wrong)
        assert ran.ret == 4
        ran.stderr.fnmatch_lines([f"*there is no script and no module {wrong}*"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--evalcheck-learn=no_such_package",), "there is no package 'no_such_package' to learn from*"),
        (
            ("--evalcheck-learn-exclude=a",),
            "--evalcheck-learn-exclude has a new form: --evalcheck-learn='PACKAGES,!PATTERN'",
        ),
        (("--evalcheck-learn=!a",), "'!a' names no package to learn from; expected PACKAGES or PACKAGES,!PATTERN"),
        (("--evalcheck-learn",), "there is no package in * or its src; expected --evalcheck-learn=PACKAGE"),
        (("--evalcheck-learn", "here"), "here has nothing but tests; expected --evalcheck-learn=PACKAGE, or *"),
        (
            ("--evalcheck-learn", "here/test_two.py"),
            "here/test_two.py is no package; expected *, or the option behind *",
        ),
        (("--evalcheck-learn=json", "--evalcheck"), "--evalcheck-learn watches ordinary tests: leave --evalcheck out"),
    ],
)
def test_bad_input(pytester: pytest.Pytester, arguments: tuple[str, ...], message: str) -> None:
    pytester.makepyfile("def test_one(): pass")
    pytester.makepyfile(**{"here/test_two": "def test_two(): pass"})
    pytester.runpytest_subprocess(*arguments).stderr.fnmatch_lines([f"ERROR: {message}"])


def test_tests_that_call_nothing_say_so(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_one(): pass")
    ran = pytester.runpytest_subprocess("--evalcheck-learn=colorsys")
    ran.stdout.fnmatch_lines(["evalcheck: no call of a public function or method of colorsys was seen"])
    assert ran.ret == 0


_ENDS = """
    import os
    import torch
    from learned_project.metrics import share


    def test_share():
        share(torch.eye(3), torch.tensor([0, 1, 1]))


    def test_that_ends_its_process():
        os._exit(3)
"""


def test_what_was_seen_before_a_test_ends_the_process_is_kept_and_said(
    pytester: pytest.Pytester, project: Path
) -> None:
    (project / "tests" / "test_metrics.py").write_text(textwrap.dedent(_ENDS))
    assert _learn(pytester, "-p", "no:randomly").ret == 3
    unfinished = project / "evalcheck-corpus" / "unfinished"
    assert [*read(unfinished / "main").entries] == ["learned_project.metrics:share"]
    assert [*nearest().entries] == ["learned_project.metrics:share"]
    (unfinished / "main" / "broken.json").write_text("{")
    assert not nearest().entries
    (unfinished / "main" / "broken.json").unlink()
    ran = pytester.runpytest_subprocess(
        "--evalcheck-target=learned_project.metrics:Tally(3)", "--evalcheck-select=EC201"
    )
    ran.stdout.fnmatch_lines([f"inferred: {unfinished} is of a run of tests that did not end, used *: run them again"])
    workers = _learn(pytester, "-p", "no:randomly", "-n1", "--dist=load", "--max-worker-restart=0")
    workers.stdout.fnmatch_lines(["*learned learned_project: 1 calls of 1 functions and 0 classes"])
    assert not unfinished.exists()
    assert [*nearest().releases] == ["learned_project"]


@pytest.mark.parametrize("workers", [(), ("-n", "1")])
@pytest.mark.slow(every=2)
def test_processes_in_which_nothing_is_seen_are_named(pytester: pytest.Pytester, project: Path, workers: Any) -> None:
    source = """
        import subprocess, sys
        from learned_project.metrics import share


        def test_of_a_command():
            subprocess.run([sys.executable, "-c", ""], check=True)
            subprocess.run([sys.executable, "-c", ""], check=True)


        def test_of_another_program():
            subprocess.run(["git", "--version"])
    """
    (project / "tests" / "test_metrics.py").write_text(textwrap.dedent(source))
    ran = pytester.runpytest_subprocess("--evalcheck-learn=learned_project", *workers)
    line = "evalcheck: nothing was seen in the processes that 1 test started, such as tests/test_metrics.py::test_of_a_command; "
    ran.stdout.fnmatch_lines([f"{line}of a script: python -m pytest_evalcheck learn learned_project SCRIPT"])


@pytest.mark.parametrize("workers", [(), ("-n", "1")])
@pytest.mark.slow(every=2)
def test_processes_that_tests_start_are_watched(
    pytester: pytest.Pytester, project: Path, workers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = """
        import multiprocessing, os, subprocess, sys
        from pathlib import Path

        import pytest
        import torch

        HERE = Path(__file__).parent


        @pytest.fixture(autouse=True)
        def of_the_project(monkeypatch):
            monkeypatch.syspath_prepend(HERE.parent)
            monkeypatch.setenv("PYTHONPATH", str(HERE.parent), prepend=os.pathsep)


        def measure(label):
            from learned_project.metrics import share

            share(torch.eye(3), torch.full((3,), label))


        def test_of_a_command():
            code = "import sys, os, metrics_command; print(sys.place, sys.argv[1:], [each for each in sys.path if 'started' in each])"
            script = f"import sys; sys.path.insert(0, {str(HERE)!r}); {code}"
            ran = subprocess.run([sys.executable, "-c", script, "one"], check=True, capture_output=True, text=True)
            assert ran.stdout == "the command\\nenvironment ['one'] []\\n" and not ran.stderr


        def test_of_processes():
            for way in ("fork", "spawn"):
                process = multiprocessing.get_context(way).Process(target=measure, args=(0,))
                process.start()
                process.join()
                assert process.exitcode == 0


        def test_of_a_pool():
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                pool.map(measure, [1])  # and its workers are ended by a signal


        def test_of_nothing():
            subprocess.run([sys.executable, "-c", "print(1)"], check=True)


        def test_in_its_own_process():
            assert "EVALCHECK_LEARN_TEST" in os.environ
    """
    tests = project / "tests"
    (tests / "test_metrics.py").write_text(textwrap.dedent(source))
    (tests / "environment").mkdir()
    (tests / "environment" / "sitecustomize.py").write_text("import sys\nsys.place = 'environment'\n")
    (tests / "metrics_command.py").write_text(
        "import torch\nfrom learned_project.metrics import Tally\nTally(['a']).update(torch.tensor([0]), torch.tensor([0]))\n"
        "print('the command')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tests / "environment"), prepend=os.pathsep)
    left = project / "evalcheck-corpus" / "unfinished" / "processes" / "earlier"
    left.mkdir(parents=True)
    (left / "learned_project.json").write_text("{}")
    ran = pytester.runpytest_subprocess("--evalcheck-learn=learned_project", *workers)
    ran.assert_outcomes(passed=5)
    entries = read(project / "evalcheck-corpus").entries
    tests_of = {name: sorted(each.tests) for name, each in entries.items()}
    assert tests_of == {
        "learned_project.metrics:Tally": ["tests/test_metrics.py::test_of_a_command"],
        "learned_project.metrics:share": [f"tests/test_metrics.py::test_of_{each}" for each in ("a_pool", "processes")],
    }
    returned = [call.returned for _, call in entries["learned_project.metrics:share"].calls]
    assert returned == [pytest.approx(1 / 3)] * 2
    assert not (project / "evalcheck-corpus" / "unfinished").exists()
    line = "evalcheck: nothing was seen in the processes that 1 test started, such as tests/test_metrics.py::test_of_nothing; *"
    ran.stdout.fnmatch_lines([line])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_process_that_a_test_has_forked_writes_no_corpus(pytester: pytest.Pytester, project: Path) -> None:
    source = """
        import atexit, os, time
        import torch
        from learned_project.metrics import share

        CHILD = os.getpid()


        def test_that_forks():
            global CHILD
            CHILD = os.fork()
            if CHILD == 0:
                time.sleep(1)  # it goes on as pytest, and ends after the run
            else:
                atexit.register(os.waitpid, CHILD, 0)


        def test_share():
            if CHILD:
                share(torch.eye(3), torch.tensor([0, 1, 1]))
            else:
                share(torch.eye(2), torch.tensor([0, 1]))
    """
    (project / "tests" / "test_metrics.py").write_text(textwrap.dedent(source))
    ran = _learn(pytester, "-p", "no:randomly")
    ran.stdout.fnmatch_lines(
        ["evalcheck: nothing was seen in the processes that 1 test started, *::test_that_forks; *"]
    )
    [(_, call)] = read(project / "evalcheck-corpus").entries["learned_project.metrics:share"].calls
    assert call.arguments["targ"]["shape"] == [3]


UNDECLARED = """
    from datetime import datetime


    def stamped(inp, targ):
        return {"gap": float(abs(inp - targ).mean()), "at": datetime.now().timestamp()}


    def pace(inp, targ):
        first = inp[0] if len(inp) == 5 else 0
        return float(abs(inp - targ).mean() + first)


    def declared_pace(y_true, y_pred):
        return pace(y_true, y_pred)


    def narrow(inp, targ):
        return float(abs(inp - targ).mean()) + (None if len(inp) == 5 else 0)


    def emptied(inp, targ):
        inp[:] = 0.5 if len(inp) == 5 else inp
        return float(abs(inp - targ).mean())
"""
CALLS = """
    import numpy as np
    import pytest
    from learned_project.metrics import declared_pace, emptied, narrow, pace, stamped


    @pytest.mark.parametrize("of", [declared_pace, emptied, narrow, pace, stamped])
    def test_numbers(of):
        assert of(np.array([0.1, 0.9, 0.3, 0.2]), np.array([0.3, 0.8, 0.2, 0.7]))
        assert of(np.array([0.6, 0.4, 0.5]), np.array([0.5, 0.1, 0.6]))
"""


@pytest.mark.parametrize(
    ("cause", "decides", "said"),
    [("check", True, ""), ("error", True, ""), ("collate", False, REFUSES), ("", True, DECLARED), ("", False, "")],
)
def test_an_error_of_a_check_is_no_refusal(cause: str, decides: bool, said: str) -> None:
    spec = SimpleNamespace(check=SimpleNamespace(code="EC208", decides=decides, severity="number"))
    failure = TargetError("it fails", cause=cause) if cause else CheckFailure("it fails")
    assert judging._undecided(spec, failure).partition(":")[0] == said  # type: ignore[arg-type]


def _failed(ran: Any) -> set[str]:
    lines = (line.partition("::")[2].partition("[")[0] for line in ran.outlines if line.startswith("FAILED"))
    return {line.replace("_target::", "::") for line in lines}


@pytest.mark.slow
def test_what_nobody_declared_a_metric_is_no_failure_where_its_order_counts_or_it_refuses_rows(
    pytester: pytest.Pytester, project: Path
) -> None:
    (project / "learned_project" / "metrics.py").write_text(textwrap.dedent(UNDECLARED))
    (project / "tests" / "test_metrics.py").write_text(textwrap.dedent(CALLS))
    _learn(pytester).assert_outcomes(passed=5)
    options = ("--evalcheck", "--evalcheck-select=EC206,EC208,EC222,EC240", "-rA")
    ran = pytester.runpytest_subprocess(*options)
    order = "order_does_not_change_the_value"
    found = {f"declared_pace::{order}"}
    assert _failed(ran) == found
    title = "Declared not a function of a set of samples: 3 checks"
    ran.stdout.fnmatch_lines([title, "*changed its arguments (EC206)", "*emptied*"])
    ran.stdout.fnmatch_lines([title, "*another order*(EC208)", "*pace*", "*write its target*"])
    ran.stdout.fnmatch_lines(["*it refuses rows that nobody said it takes*narrow*"])

    written = "from pytest_evalcheck.__main__ import main; main(['write', '--from-corpus', '-o', 'evalcheck_made.py'])"
    assert pytester.runpython_c(written).ret == 0
    refuses = "narrow::ordinary_data_is_scored_or_clearly_refused"
    assert _failed(pytester.runpytest_subprocess(*options, "evalcheck_made.py")) == {
        f"pace::{order}",
        "stamped::the_same_stream_twice_gives_the_same_bits",
        "emptied::update_does_not_change_its_inputs",
        refuses,
        *found,
    }
