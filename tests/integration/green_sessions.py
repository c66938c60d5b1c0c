"""Sessions whose green would mean nothing: marks, options, configurations, hooks of others, and ends that are none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from target_files import BROKEN, CORRECT

ONE = "--evalcheck-select=EC201"
BY_LIST = (
    '{made.code: "no reason" for made in __import__("pytest_evalcheck.kinds.registry").kinds.registry.shipped()'
    ' if "metric" in made.kinds}'
)


@dataclass(frozen=True)
class Session:
    """A project, how pytest is called, and what it must say; it must not end in 0."""

    says: tuple[str, ...]
    source: str = CORRECT
    arguments: tuple[str, ...] = (ONE,)
    conftest: str = ""
    ini: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    code: int | None = None
    """The exit code, where it is not 1."""
    later: Mapping[str, str] | None = None
    """Files that are written after all else was committed to a new repository, as ``v1``; None for no repository."""
    spawn: bool = False
    """True if the run needs a process of its own."""


def metric(keywords: str = "inputs=numbers", body: str = "return ec.Metric.of(Mean())", marks: str = "") -> str:
    return f"import pytest\nimport os, sys\n{marks}\n@ec.metric({keywords})\ndef silent(device):\n    {body}\n"


def hook(source: str) -> str:
    return f"import pytest\n{source}\n"


NOT_RUN = "evalcheck: not ok: 1 not run "
SESSIONS: dict[str, Session] = {
    "a broken check": Session(("evalcheck: not ok: 1 failed",), BROKEN),
    # Marks and skips.
    "a skip mark": Session(("skipped: later",), metric(marks="@pytest.mark.skip(reason='later')") + CORRECT),
    "a skip mark without a reason": Session(
        (NOT_RUN, "skipped: unconditional skip"), metric(marks="@pytest.mark.skip") + CORRECT
    ),
    "a skipif mark": Session(
        (NOT_RUN, "skipped: slow"), metric(marks="@pytest.mark.skipif(True, reason='slow')") + CORRECT
    ),
    "a skip in the factory": Session((NOT_RUN, "no data"), metric(body="pytest.skip('no data')") + CORRECT),
    "a skip in update": Session(
        (NOT_RUN, "not today"),
        metric(body="return ec.Metric(update=lambda values: pytest.skip('not today'), compute=lambda: 1.0)") + CORRECT,
    ),
    "a skip in a fixture": Session(
        (NOT_RUN, "skipped: no server"),
        "import pytest\n@pytest.fixture\ndef server(): pytest.skip('no server')\n"
        "@ec.metric(inputs=numbers)\ndef silent(device, server): return ec.Metric.of(Mean())\n" + CORRECT,
    ),
    "a skip mark of a whole file": Session(
        ("skipped: old",), "import pytest\npytestmark = pytest.mark.skip(reason='old')\n" + CORRECT
    ),
    "a file that skips itself": Session(
        ("evalcheck_example.py was skipped (not here)",),
        "import pytest\npytest.skip('not here', allow_module_level=True)\n" + CORRECT,
        files={"evalcheck_other.py": CORRECT},
    ),
    "a file that imports or skips": Session(
        ("was skipped (could not import 'no_such_library'",),
        "import pytest\npytest.importorskip('no_such_library')\n" + CORRECT,
        files={"evalcheck_other.py": CORRECT},
    ),
    "an xfail mark over what is broken": Session(
        ("1 failed", "is marked xfail", "known_failures="),
        metric(body="return ec.Metric.of(MeanOfMeans())", marks="@pytest.mark.xfail"),
    ),
    "an xfail mark over what is kept": Session(("is marked xfail",), metric(marks="@pytest.mark.xfail")),
    "a strict xfail mark": Session(("is marked xfail",), metric(marks="@pytest.mark.xfail(strict=True)")),
    "an xfail mark that runs nothing": Session(
        (NOT_RUN, "is marked xfail"), metric(marks="@pytest.mark.xfail(run=False)")
    ),
    "an xfail mark of a whole file": Session(
        ("is marked xfail", "1 failed"), "import pytest\npytestmark = pytest.mark.xfail\n" + BROKEN
    ),
    "an xfail mark by a conftest": Session(
        ("is marked xfail", "1 failed"),
        BROKEN,
        conftest=hook(
            "def pytest_collection_modifyitems(items):\n    for item in items: item.add_marker(pytest.mark.xfail)"
        ),
    ),
    "pytest.xfail in the factory": Session(("not ok",), metric(body="pytest.xfail('later')")),
    # What is missing.
    "a requirement that is not installed": Session(
        (NOT_RUN, "no-such-thing is not installed"), metric("inputs=numbers, requires=('no-such-thing',)") + CORRECT
    ),
    "a misspelt requirement": Session(
        (NOT_RUN, "toch is not installed"), metric("inputs=numbers, requires=('toch',)") + CORRECT
    ),
    "a version that does not exist": Session(
        (NOT_RUN, ">=999 is required"), metric("inputs=numbers, requires=('pytest>=999',)") + CORRECT
    ),
    "a requirement of every target": Session(
        ("nothing was tried",),
        metric("inputs=numbers, requires=('no-such-thing',)"),
        (ONE, "--evalcheck-optional=no-such-thing"),
    ),
    "an optional name of no target": Session(
        ("evalcheck_optional names 'mosaicml'",),
        arguments=(),
        ini="evalcheck_optional = mosaicml\nevalcheck_select = EC201",
        code=4,
    ),
    "a misspelt optional name": Session(
        ("did you mean 'no-such-thing'?",),
        metric("inputs=numbers, requires=('no-such-thing',)") + CORRECT,
        (ONE, "--evalcheck-optional=no-such-thin"),
        code=4,
    ),
    "an optional device of another name": Session(
        ("did you mean 'cuda'?",), arguments=(ONE, "--evalcheck-optional=gpu"), code=4
    ),
    "one of two requirements is optional": Session(
        (NOT_RUN,), metric("inputs=numbers, requires=('no-a', 'no-b')") + CORRECT, (ONE, "--evalcheck-optional=no-a")
    ),
    "a device that is not here": Session(("nothing was tried", "1 not run"), arguments=(ONE, "--evalcheck-device=mps")),
    "an optional device and no other": Session(
        ("nothing was tried",), arguments=(ONE, "--evalcheck-device=mps", "--evalcheck-optional=mps")
    ),
    "only for cuda": Session(
        (NOT_RUN, "only for cuda; this run is on cpu"),
        metric("inputs=numbers, devices=('cuda',)") + CORRECT,
        (ONE, "--evalcheck-device=cpu"),
    ),
    "only for mps": Session(
        (NOT_RUN, "only for mps; this run is on cpu"),
        metric("inputs=numbers, devices=('mps',)") + CORRECT,
        (ONE, "--evalcheck-device=cpu"),
    ),
    "only for a device, and asked for another": Session(
        (NOT_RUN, "only for cpu; this run is on mps"),
        metric("inputs=numbers, devices=('cpu',)"),
        (ONE, "--evalcheck-device=mps"),
    ),
    "a declared device that the factory does not take": Session(
        (NOT_RUN, "devices= names mps, but the factory takes no device"),
        "@ec.scorer(inputs=es.responses(), devices=('cpu', 'mps'))\n"
        "def silent():\n    return ec.Scorer.of(lambda own, document: own[0] == document['answer'])\n" + CORRECT,
        ("--evalcheck-select=EC201,EC401,EC610",),
    ),
    # What is chosen.
    "everything is declared away": Session(
        ("no check was tried of evalcheck_example.py::silent",),
        metric(f"inputs=numbers, not_applicable={BY_LIST}") + CORRECT,
        ("--evalcheck-effort=quick",),
    ),
    "all that -k takes is not applicable": Session(("nothing was tried",), arguments=("-k", "reference")),
    "all that --evalcheck-select takes is not applicable": Session(
        ("nothing was tried",), arguments=("--evalcheck-select=EC217",)
    ),
    "a node id that is not applicable": Session(
        ("nothing was tried",), arguments=("evalcheck_example.py::mean::the_value_equals_the_reference[cpu]",)
    ),
    "-k takes nothing": Session(("nothing was tried",), arguments=("-k", "nowhere"), code=5),
    "-m takes nothing": Session(("nothing was tried",), arguments=("-m", "mps and cuda"), code=5),
    "--deselect takes all": Session(("nothing was tried",), arguments=(ONE, "--deselect=evalcheck_example.py"), code=5),
    "the ini ignores every check": Session(
        ("evalcheck_ignore = EC0,EC2,EC6", "exclude all of its checks"),
        arguments=(),
        ini="evalcheck_ignore = EC0,EC2,EC6",
    ),
    "the ini selects checks of another kind": Session(
        ("evalcheck_select = EC101", "exclude all of its checks"), arguments=(), ini="evalcheck_select = EC101"
    ),
    "the ini leaves what is not applicable": Session(
        ("no check was tried of",), arguments=(), ini="evalcheck_select = EC217"
    ),
    "addopts -k leave what is not applicable": Session(
        ("not selected, by the configuration: -k 'reference'", "no check was tried of"),
        arguments=(),
        ini="addopts = -k reference",
    ),
    "the environment leaves what is not applicable": Session(
        ("not selected, by the configuration: -k 'reference'", "no check was tried of"),
        arguments=(),
        environment={"PYTEST_ADDOPTS": "-k reference"},
    ),
    "a code that no check has": Session(("no check matches 'EC999'",), arguments=("--evalcheck-select=EC999",), code=4),
    "a code of another kind": Session(("nothing was tried",), arguments=("--evalcheck-select=EC101",), code=5),
    "an effort of no name": Session(("did you mean 'quick'?",), arguments=("--evalcheck-effort=quik",), code=4),
    "an effort of no name in the ini": Session(("did you mean 'thorough'?",), ini="evalcheck_effort = thorogh", code=4),
    "a device of no name": Session(("did you mean 'cuda'?",), arguments=("--evalcheck-device=gpu",), code=4),
    "a device of no name in the ini": Session(("did you mean 'mps'?",), ini="evalcheck_device = metal", code=4),
    "a limit of nothing": Session(("timeout=1e-9: expected seconds",), arguments=("--evalcheck-timeout=1e-9",), code=4),
    "a limit of infinity": Session(("timeout=inf: expected seconds",), arguments=("--evalcheck-timeout=inf",), code=4),
    "a limit that overflows": Session(
        ("timeout=1e400: expected seconds",), arguments=("--evalcheck-timeout=1e400",), code=4
    ),
    "a limit that is no number": Session(
        ("evalcheck_timeout = nan: expected seconds",), ini="evalcheck_timeout = nan", code=4
    ),
    "a negative limit": Session(("timeout=-1: expected seconds",), arguments=("--evalcheck-timeout=-1",), code=4),
    "no pattern of files": Session(("evalcheck_files has no pattern",), ini="evalcheck_files =", code=4),
    # Files.
    "no file": Session(("no target was run",), "", code=5),
    "a file of another name": Session(
        ("no target was run", "not collected: targets in evalchek_other.py"),
        files={"evalchek_other.py": CORRECT, "evalcheck_example.py": "gone"},
        code=5,
    ),
    "a pattern that matches nothing": Session(
        ("no target was run", "not collected: targets in evalcheck_example.py"),
        ini="evalcheck_files = targets_*.py",
        code=5,
    ),
    "a folder that does not exist": Session(("not found: ",), arguments=("targets",), code=4),
    "a file without a target": Session(
        ("evalcheck_other.py holds no target",),
        files={"evalcheck_other.py": "def mean(device): return ec.Metric.of(Mean())\n"},
    ),
    "an empty file": Session(("evalcheck_other.py holds no target",), files={"evalcheck_other.py": ""}),
    "a syntax error": Session(("1 error while collecting",), files={"evalcheck_other.py": "def ("}),
    "an import error": Session(
        ("No module named 'no_such_library'",), files={"evalcheck_other.py": "import no_such_library"}
    ),
    "a target in a conftest": Session(
        ("target hidden stands in a conftest.py; move it to a file named evalcheck_*.py",),
        conftest="import pytest_evalcheck as ec\n@ec.metric(inputs=None)\ndef hidden(device): pass\n",
    ),
    "a file that collect_ignore names, and no other": Session(
        ("not selected: evalcheck_example.py, which the configuration ignores", "nothing was tried"),
        conftest="collect_ignore = ['evalcheck_example.py']",
        code=5,
    ),
    # Ends that are none.
    "sys.exit at import": Session(
        ("tried to end the process: SystemExit(0)",), "import sys\nsys.exit(0)\n", files={"evalcheck_other.py": CORRECT}
    ),
    "pytest.exit at import": Session(
        (
            "1 error while collecting",
            "Exit: done",
        ),
        "import pytest\npytest.exit('done', returncode=0)\n",
        files={"evalcheck_other.py": CORRECT},
    ),
    "sys.exit in the factory": Session(("1 failed",), metric(body="sys.exit(0)")),
    "pytest.exit in the factory": Session(
        (
            "1 failed",
            "Exit: done",
        ),
        metric(body="pytest.exit('done', returncode=0)"),
    ),
    "os._exit at import": Session(
        ("os._exit(0) was called", "nothing was tried"), "import os\nos._exit(0)\n", spawn=True
    ),
    "-x after the first": Session(("1 failed", "1 of 2 selected checks did not run"), BROKEN + CORRECT, (ONE, "-x")),
    "--maxfail": Session(("1 of 2 selected checks did not run",), BROKEN + CORRECT, (ONE, "--maxfail=1")),
    "--setup-only": Session((NOT_RUN, "its check was not called"), arguments=(ONE, "--setup-only")),
    "--setup-plan": Session((NOT_RUN, "its check was not called"), arguments=(ONE, "--setup-plan")),
    "a limit in which nothing can happen": Session(
        ("evalcheck: not ok: 1 ",), metric(body="__import__('time').sleep(9)"), (ONE, "--evalcheck-timeout=0.01")
    ),
    # Hooks and plugins.
    "a hook drops the items": Session(
        ("1 check of evalcheck_example.py::mean taken out by a hook",),
        conftest=hook("def pytest_collection_modifyitems(items): items[:] = [i for i in items if 'mean[' in i.name]"),
        code=5,
    ),
    "a hook drops some items": Session(
        ("1 check of evalcheck_example.py::mean taken out by a hook",),
        arguments=("--evalcheck-select=EC201,EC205",),
        conftest=hook("def pytest_collection_modifyitems(items): del items[0]"),
    ),
    "a hook answers for the protocol": Session(
        ("1 of 1 selected check did not run",), conftest=hook("def pytest_runtest_protocol(item): return True")
    ),
    "a hook answers for the call": Session(
        (NOT_RUN, "its check was not called"),
        conftest=hook(
            "@pytest.hookimpl(wrapper=False, tryfirst=True)\ndef pytest_runtest_call(item): item.runtest = lambda: None"
        ),
    ),
    "a hook answers for the loop": Session(
        ("1 of 1 selected check did not run",),
        conftest=hook("@pytest.hookimpl(tryfirst=True)\ndef pytest_runtestloop(session): return True"),
    ),
    "a hook answers for the collection": Session(
        ("nothing was tried",),
        conftest=hook(
            "@pytest.hookimpl(tryfirst=True)\ndef pytest_collection(session): session.items = []; return True"
        ),
        code=5,
    ),
    "a hook answers for the main program": Session(
        ("pytest ended before a session was started",),
        conftest=hook("@pytest.hookimpl(tryfirst=True)\ndef pytest_cmdline_main(config): return 0"),
    ),
    "a hook makes no item of a target": Session(
        ("target mean is not collected",),
        conftest=hook(
            "@pytest.hookimpl(tryfirst=True)\ndef pytest_pycollect_makeitem(name): return [] if name == 'mean' else None"
        ),
    ),
    "a hook sets the exit status": Session(
        ("1 failed",),
        BROKEN,
        conftest=hook("@pytest.hookimpl(trylast=True)\ndef pytest_sessionfinish(session): session.exitstatus = 0"),
    ),
    "a hook exits at the end": Session(
        ("1 failed",), BROKEN, conftest=hook("def pytest_sessionfinish(session): pytest.exit('done', returncode=0)")
    ),
    "a hook calls a failure passed": Session(
        ("1 failed",),
        BROKEN,
        conftest=hook(
            "@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item):\n    r = yield\n    r.get_result().outcome = 'passed'"
        ),
    ),
    "a hook takes out the suite": Session(
        ("not ok",),
        conftest=hook(
            "def pytest_collection(session): session.config.pluginmanager.unregister(name='pytest_evalcheck_session')"
        ),
        code=1,
    ),
    "a hook takes out the collection": Session(
        ("not ok",),
        conftest=hook(
            "def pytest_collection(session): session.config.pluginmanager.unregister(name='pytest_evalcheck_collection')"
        ),
        code=5,
    ),
    "-p no: of the session": Session(
        ("removes a plugin that --evalcheck needs",), arguments=(ONE, "-p", "no:pytest_evalcheck_session"), code=4
    ),
    "-p no: of the collection": Session(
        ("removes a plugin that --evalcheck needs",), arguments=(ONE, "-p", "no:pytest_evalcheck_collection"), code=4
    ),
    "-p no: of the plugin": Session(
        ("unrecognized arguments",), arguments=(ONE, "-p", "no:pytest_evalcheck"), code=4, spawn=True
    ),
    "a fixture that fails": Session(
        (NOT_RUN, "its fixtures could not be set up"),
        "import pytest\n@pytest.fixture\ndef disk(): raise OSError('full')\n@ec.metric(inputs=numbers)\ndef silent(device, disk): return ec.Metric.of(Mean())\n"
        + CORRECT,
    ),
    "a fixture that needs what the target requires": Session(
        (NOT_RUN, "no-such-package is not installed"),
        "import pytest\n@pytest.fixture\ndef server(): raise ImportError('no such package')\n@ec.metric(inputs=numbers, requires=('no-such-package',))\ndef silent(device, server): return ec.Metric.of(Mean())\n"
        + CORRECT,
    ),
    "a fixture that needs the device that the target is for": Session(
        (NOT_RUN, "only for cuda; this run is on cpu"),
        "import pytest\n@pytest.fixture\ndef card(): raise OSError('no card')\n@ec.metric(inputs=numbers, devices=('cuda',))\ndef silent(device, card): return ec.Metric.of(Mean())\n"
        + CORRECT,
        (ONE, "--evalcheck-device=cpu"),
    ),
    "a fixture that fails at its end": Session(
        ("1 failed in pytest beside the outcomes of checks",),
        "import pytest\n@pytest.fixture\ndef disk():\n    yield 1\n    raise OSError('full')\n@ec.metric(inputs=numbers)\ndef silent(device, disk): return ec.Metric.of(Mean())\n",
    ),
    "an ordinary test that fails": Session(
        ("1 failed in pytest beside the outcomes of checks",),
        arguments=(ONE, "--evalcheck-with-tests"),
        files={"test_other.py": "def test_one(): assert 0\n"},
    ),
    # Known failures, and checks that check nothing.
    "everything is a known failure": Session(
        ("1 failed", "listed as a known failure"),
        metric(f"inputs=numbers, known_failures={{code: ec.KnownFailure(why) for code, why in {BY_LIST}.items()}}"),
    ),
    "a check that compares nothing": Session(
        ("1 failed", "the check compared nothing"),
        "from pytest_evalcheck.kinds.metric.cases import Stream\nfrom pytest_evalcheck.kinds.metric.subject import MetricSubject\n"
        '@ec.check("MY101")\ndef silent_check(metric: MetricSubject, case: Stream) -> None:\n    """Nothing."""\n    try: metric.value(case.whole)\n    except BaseException: pass\n'
        "@ec.metric(inputs=numbers, extra_checks=[silent_check])\ndef silent(device): return ec.Metric.of(Mean())\n",
        ("--evalcheck-select=MY101",),
    ),
    "a metric that refuses everything": Session(
        ("not ok",),
        "class Refuses(Mean):\n    def update(self, values): raise TypeError('no')\n"
        + metric(body="return ec.Metric.of(Refuses())"),
    ),
    "a strategy that draws nothing": Session(
        ("1 failed",), metric("inputs=es.samples(st.nothing(), collate=lambda rows: (rows,))")
    ),
    "a profile of one case": Session(
        ("1 failed",),
        BROKEN,
        conftest="from hypothesis import settings\nsettings.register_profile('one', max_examples=1)\n",
        arguments=(ONE, "--hypothesis-profile=one"),
        spawn=True,
    ),
    "a profile without phases": Session(
        ("1 failed",),
        BROKEN,
        conftest="from hypothesis import settings\nsettings.register_profile('none', phases=[])\n",
        arguments=(ONE, "--hypothesis-profile=none"),
        spawn=True,
    ),
    # Reports.
    "two reports on one path": Session(
        ("have the same path",),
        arguments=(ONE, "--evalcheck-report=json=a.out", "--evalcheck-report=html=./a.out"),
        code=4,
    ),
    "a report over the source of a target": Session(
        ("the name of source code",), arguments=(ONE, "--evalcheck-report=json=evalcheck_example.py"), code=4
    ),
    "a report over a file of the user": Session(
        ("a file that is not a json report",),
        arguments=(ONE, "--evalcheck-report=json=notes.txt"),
        files={"notes.txt": "mine\n"},
        code=4,
    ),
    "a report in a package": Session(
        ("inside of a Python package",),
        arguments=(ONE, "--evalcheck-report=json=package/out.json"),
        files={"package/__init__.py": ""},
        code=4,
    ),
    "a report in a folder": Session(("is a folder",), arguments=(ONE, "--evalcheck-report=json=."), code=4),
    "a report that is lost meanwhile": Session(
        ("the json report could not be written",),
        "import pathlib\npathlib.Path('out').rmdir(); pathlib.Path('out').write_text('')\n" + CORRECT,
        (ONE, "--evalcheck-report=json=out/a.json"),
    ),
    # Over workers, and without asserts.
    "over two workers": Session(
        (
            "skipped: later",
            "is marked xfail",
            "target lost is not collected",
            "1 failed",
            "evalcheck_b.py was skipped (not here)",
        ),
        metric(marks="@pytest.mark.skip(reason='later')")
        + "@pytest.mark.xfail\n"
        + BROKEN.lstrip()
        + "both = [ec.metric(inputs=numbers)(lambda device: None)]\n".replace(
            "lambda device: None", "lost_factory"
        ).replace("both", "def lost_factory(device): pass\nlost_factory.__name__ = 'lost'\nboth"),
        (ONE, "-n", "2"),
        files={"evalcheck_b.py": "import pytest\npytest.skip('not here', allow_module_level=True)\n"},
        spawn=True,
    ),
}

SAID: dict[str, Session] = {
    "all is well": Session(("evalcheck: ok: 1 passed",)),
    # Green is right here, and the screen says what was left out.
    "addopts -m leave a part": Session(
        (
            "not selected, by the configuration: -m 'not slow'",
            "not selected: 1 check of evalcheck_example.py::silent, which pytest calls deselected",
        ),
        metric(marks="@pytest.mark.slow") + CORRECT,
        (ONE,),
        ini="addopts = -m 'not slow'\nmarkers = slow",
    ),
    "the ini ignores a part": Session(
        ("not selected, by the configuration: evalcheck_ignore = EC202",),
        arguments=("-k", "splitting"),
        ini="evalcheck_ignore = EC202",
    ),
    "since, and a part changed": Session(
        (
            "evalcheck: ok: 1 passed, 1 not selected (unchanged since v1)",
            "1 check of 1 target unchanged since v1; --evalcheck-since= runs them",
        ),
        arguments=(ONE, "--evalcheck-since=v1"),
        later={"evalcheck_other.py": CORRECT},
    ),
    "since, and nothing changed": Session(
        ("evalcheck: ok: nothing changed since v1, 1 check not selected",),
        arguments=(ONE, "--evalcheck-since=v1"),
        later={},
    ),
    "collect_ignore leaves a file": Session(
        ("not selected: evalcheck_other.py, which the configuration ignores",),
        conftest="collect_ignore = ['evalcheck_other.py']",
        files={"evalcheck_other.py": CORRECT},
    ),
    "a hook leaves a file": Session(
        ("not selected: evalcheck_other.py, which the configuration ignores",),
        conftest=hook(
            "def pytest_ignore_collect(collection_path): return True if collection_path.name == 'evalcheck_other.py' else None"
        ),
        files={"evalcheck_other.py": CORRECT},
    ),
    "--ignore in the ini": Session(
        ("not selected: evalcheck_other.py, which the configuration ignores",),
        ini="addopts = --ignore=evalcheck_other.py",
        files={"evalcheck_other.py": CORRECT},
    ),
    "a folder that collect_ignore names": Session(
        ("not selected: old, which the configuration ignores",),
        conftest="collect_ignore = ['old']",
        files={"old/evalcheck_other.py": CORRECT},
    ),
    "a hook that reports what it takes out": Session(
        ("not selected: 1 check of evalcheck_example.py::mean",),
        arguments=("--evalcheck-select=EC201,EC205",),
        conftest=hook(
            "def pytest_collection_modifyitems(config, items): config.hook.pytest_deselected(items=[items.pop()])"
        ),
    ),
    "an optional requirement": Session(
        ("1 not run (optional: no-such-thing is not installed)",),
        metric("inputs=numbers, requires=('no-such-thing',)") + CORRECT,
        (ONE,),
        ini="evalcheck_optional = no_such_thing",
    ),
    "an optional requirement whose name has capitals and underscores": Session(
        ("1 not run (optional: No_Such_Thing is not installed)",),
        metric("inputs=numbers, requires=('No_Such_Thing',)") + CORRECT,
        (ONE, "--evalcheck-optional=No_Such_Thing"),
    ),
    "an optional skip": Session(
        ("1 not run (optional: skipped: later)",),
        metric(marks="@pytest.mark.skip(reason='later')") + CORRECT,
        (ONE, "--evalcheck-optional=skipped"),
    ),
    "an optional file": Session(
        ("evalcheck_other.py was skipped (not here)",),
        arguments=(ONE, "--evalcheck-optional=skipped"),
        files={"evalcheck_other.py": "import pytest\npytest.skip('not here', allow_module_level=True)\n"},
    ),
    "an optional device": Session(
        ("1 not run (optional: only for cuda; this run is on cpu)",),
        metric("inputs=numbers, devices=('cuda',)") + CORRECT,
        (ONE, "--evalcheck-device=cpu", "--evalcheck-optional=cuda"),
    ),
    "a misnamed file beside others": Session(
        ("not collected: targets in evalchek_other.py",),
        files={"evalchek_other.py": "import pytest_evalcheck as ec\n" + CORRECT},
    ),
    "-k takes one of two": Session(
        ("not selected: 1 check of evalcheck_example.py::mean_of_means",),
        CORRECT + BROKEN,
        (ONE, "-k", "not mean_of_means"),
    ),
}
