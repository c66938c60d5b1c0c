"""Whatever is wrong with what the user wrote gets one clear error at the user's line, and no other cell is lost."""

from __future__ import annotations

import pytest
from target_files import CORRECT

from pytest_evalcheck.kinds.registry import shipped
from pytest_evalcheck.testing import Project

ONE = "--evalcheck-select=EC201"
ALL_KEPT = "1 target, 1 check: 1 passed"


@pytest.mark.parametrize(
    ("decorator", "factory", "said"),
    [
        (
            "inputs=numbers, known_failure={}",
            "(device)",
            ["unknown keyword 'known_failure'; did you mean 'known_failures'?"],
        ),
        (
            "input=numbers",
            "(device)",
            ["unknown keyword 'input'; did you mean 'inputs'?", "inputs=None; expected samples"],
        ),
        ("inputs=st.integers()", "(device)", ["inputs=integers(); expected samples"]),
        (
            "inputs=numbers, known_failures={'EC2O1': ec.KnownFailure('x')}",
            "(device)",
            ["known_failures names no check: 'EC2O1'; did you mean 'EC2"],
        ),
        (
            "inputs=numbers, not_applicable={'reset_restores_initial_state': 'x'}",
            "(device)",
            ["did you mean 'reset_restores_the_initial_state'?"],
        ),
        ("inputs=numbers, known_failures={'EC201': 'a reason'}", "(device)", ['expected ec.KnownFailure("why")']),
        ("inputs=numbers, not_applicable={'EC201': ''}", "(device)", ["not_applicable['EC201'] gives no reason"]),
        (
            "inputs=numbers, not_applicable={'EC201': 'a'}, known_failures={'EC201': ec.KnownFailure('x')}",
            "(device)",
            ["EC201 is both"],
        ),
        ("inputs=numbers, requires='torch'", "(device)", ["expected a tuple, such as ('torch',)"]),
        ("inputs=numbers, requires=('torch=>2',)", "(device)", ["requires 'torch=>2'"]),
        ("inputs=numbers, fresh='always'", "(device)", ["fresh='always'; expected 'example' or 'check'"]),
        ("inputs=numbers, timeout=0", "(device)", ["timeout=0; expected seconds above 0"]),
        ("inputs=numbers, tolerance='wide'", "(device)", ["tolerance='wide'", "expected a relative tolerance"]),
        ("inputs=numbers, tolerance=-1.0", "(device)", ["expected finite numbers of at least 0"]),
        ("inputs=numbers, extra_checks=[print]", "(device)", ["expected functions decorated with @ec.check"]),
        (
            "inputs=numbers",
            "(devise)",
            ["asks for 'devise', which is neither `device` nor a fixture; did you mean 'device'?"],
        ),
        ("inputs=numbers", "(tmp_paht)", ["did you mean 'tmp_path'?"]),
        ("inputs=numbers", "(*args)", ["the factory takes *args; expected `device` and fixtures by name"]),
    ],
)
@pytest.mark.slow(every=3)
def test_a_wrong_target_is_one_collection_error(
    project: Project, decorator: str, factory: str, said: list[str]
) -> None:
    source = f"@ec.metric({decorator})\ndef wrong{factory}:\n    return ec.Metric.of(Mean())\n"
    result = project.write(source, CORRECT).run(ONE, code=1)
    line = (project.pytester.path / "evalcheck_example.py").read_text().splitlines().index(
        f"@ec.metric({decorator})"
    ) + 1
    result.shows(f"evalcheck_example.py:{line}: target wrong: ", *said, ALL_KEPT)
    assert result.outcomes == {"passed": 1, "errors": 1}


def test_a_decorated_class_is_refused(project: Project) -> None:
    project.write("@ec.metric(inputs=numbers)\nclass wrong: pass\n", CORRECT)
    project.run(ONE, code=1).shows("a target is a decorated function", ALL_KEPT)


def test_two_targets_of_one_name(project: Project) -> None:
    result = project.write(CORRECT, CORRECT.replace("Mean()", "Mean() "), CORRECT.replace("def mean", "def other")).run(
        ONE, code=1
    )
    result.shows("target mean: 2 functions have this name (lines ", "only the last one would run", ALL_KEPT)


def test_no_target_file(project: Project) -> None:
    project.run(code=5).shows("no target was run", "evalcheck_*.py")


def test_a_file_that_fails_to_import(project: Project) -> None:
    project.write("import no_such_library", name="evalcheck_other.py").write(CORRECT)
    result = project.run(ONE, code=1)
    result.shows("No module named 'no_such_library'", "evalcheck_other.py", ALL_KEPT)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "raise ValueError('no weights')",
            ["the factory raised an error", "ValueError: no weights", "evalcheck_example.py:"],
        ),
        ("raise SystemExit(3)", ["the factory raised an error", "SystemExit: 3"]),
        ("pass", ["the factory returned None (does it end without `return`?)"]),
        ("return Mean", ["the factory returned the class Mean, not an instance of it"]),
        (
            "return type('Asks', (Mean,), {'compute': lambda self, average: 0})()",
            ["or its compute() asks for arguments: return `ec.Metric(update=..., compute=...)`."],
        ),
        ("return ec.Metric.of(object())", ["object has no method update and no compute"]),
        ("return 7", ["the factory returned an object of type builtins.int"]),
    ],
)
def test_a_factory_that_gives_no_metric(project: Project, body: str, said: list[str]) -> None:
    source = f"@ec.metric(inputs=numbers)\ndef wrong(device):\n    {body}\n"
    result = project.write(source, CORRECT).run(ONE, code=1)
    result.shows(*said, "2 targets, 2 checks: 1 passed, 1 failed")


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ("st.nothing()", ["the inputs of the target draw nothing that can be tried"]),
        (
            "st.integers().filter(lambda i: i > 5 and i < 4)",
            ["the inputs of the target draw nothing that can be tried"],
        ),
        # Nothing else is wrong with it: the screen has no address, no change of the arguments, no empty line.
        (
            "st.builds(object)",
            ["a sample is not plain Python", "make tensors in the collate", "actual    <object object>"],
        ),
    ],
)
def test_a_strategy_that_draws_nothing_of_use(project: Project, inputs: str, said: list[str]) -> None:
    source = f"""
    odd = es.samples({inputs}, collate=lambda rows: (rows,))
    @ec.metric(inputs=odd)
    def wrong(device): return ec.Metric.of(Mean())
    """
    result = project.write(source, CORRECT).run(ONE, code=1).shows(*said, "1 passed, 1 failed")
    result.lacks("With one change", "in an example call", "expected  \n")


@pytest.mark.parametrize(
    ("collate", "said"),
    [
        ("lambda rows: rows[99]", ["the collate raised an error", "IndexError"]),
        ("lambda rows: rows", ["collate returned list", "For a single argument return `(batch,)`"]),
    ],
)
def test_a_collate_that_fails(project: Project, collate: str, said: list[str]) -> None:
    source = f"""
    odd = es.samples(st.integers(0, 9), collate={collate})
    @ec.metric(inputs=odd)
    def wrong(device): return ec.Metric.of(Mean())
    """
    project.write(source, CORRECT).run(ONE, code=1).shows(*said, "1 passed, 1 failed")


def test_a_metric_that_refuses_everything_is_not_green(project: Project) -> None:
    source = """
    class Refuses(Mean):
        def update(self, values): raise TypeError("tensors only")
    @ec.metric(inputs=numbers)
    def refuses(device): return ec.Metric.of(Refuses())
    """
    project.write(source).run(ONE, code=1).shows(
        "an ordinary batch raises an error", "update raised TypeError: tensors only"
    )


def test_a_check_that_raises_is_told_apart_from_a_broken_promise(project: Project) -> None:
    source = '''
    from pytest_evalcheck.kinds.metric.cases import Stream
    from pytest_evalcheck.kinds.metric.subject import MetricSubject

    @ec.check("MY101")
    def divides(metric: MetricSubject, case: Stream) -> None:
        """Divides."""
        1 / 0

    @ec.check("MY102")
    def compares_nothing(metric: MetricSubject, case: Stream) -> None:
        """Compares nothing."""

    @ec.metric(inputs=numbers, extra_checks=[divides, compares_nothing])
    def mean(device): return ec.Metric.of(Mean())
    '''
    result = project.write(source).run("--evalcheck-select=EC201,MY", code=1)
    result.shows(
        "the check itself raised an error", "ZeroDivisionError", "the check compared nothing", "1 passed, 2 failed"
    )


def test_a_target_of_which_nothing_is_tried_is_an_error(project: Project) -> None:
    source = """
    from pytest_evalcheck.kinds.registry import shipped
    @ec.metric(inputs=numbers, not_applicable={made.code: "no reason at all" for made in shipped() if "metric" in made.kinds})
    def silent(device): return ec.Metric.of(Mean())
    """
    project.write(source, CORRECT).run(code=1).shows("ERROR: no check of evalcheck_example.py::silent was tried")


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--evalcheck-select=EC999", "no check matches 'EC999'"),
        ("--evalcheck-ignore=rset", "no check matches 'rset'"),
        ("--evalcheck-select=resett", "--evalcheck-select=resett: no check matches 'resett'; did you mean 'reset'?"),
        ("--evalcheck-select=symmetric", "did you mean 'a_symmetric_metric_is_symmetric'?"),
        ("--evalcheck-effort=fast", "--evalcheck-effort=fast: expected one of quick, normal, thorough"),
        ("--evalcheck-optional=torch>=2", "'torch>=2' is no name; expected names of distributions without versions"),
        ("--evalcheck-optional=sim:cuda", "did you mean 'cuda'?"),
        (
            "--evalcheck-device=gpu",
            "device 'gpu'; expected cpu, cuda, mps, sim:cuda, sim:mps, auto or an index as in cuda:1",
        ),
        ("--evalcheck-timeout=soon", "--evalcheck-timeout=soon: expected seconds"),
        ("--evalcheck-report=json", "has no path: write FORMAT=PATH"),
        ("--evalcheck-report=jsn=x", "did you mean 'json'?"),
        ("--evalcheck-report=json=.", "is a folder"),
        ("--evalcheck-report=html=.", "name a file, such as 'evalcheck.html'"),
    ],
)
def test_an_option_that_cannot_be_meant_is_a_usage_error(project: Project, option: str, said: str) -> None:
    project.write(CORRECT).run(option, code=4).shows(said)


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("pyproject.toml", "[tool.pytest.ini_options]\nevalcheck_efort = 'quick'", "did you mean 'evalcheck_effort'?"),
        (
            "pyproject.toml",
            "[tool.pytest.ini_options]\nevalchek_optional = 'cuda'",
            "did you mean 'evalcheck_optional'?",
        ),
        ("pytest.ini", "[pytest]\nevalcheck_optinal = cuda", "pytest.ini: there is no setting evalcheck_optinal"),
        (
            "pytest.ini",
            "[pytest]\nevalcheck_effort = fast",
            "pytest.ini: evalcheck_effort = fast: expected one of quick, ",
        ),
        (
            "pytest.ini",
            "[pytest]\nevalcheck_optional = torch>=2",
            "pytest.ini: evalcheck_optional = torch>=2: 'torch>=2'",
        ),
        (
            "pyproject.toml",
            "[tool.evalcheck]\neffort = 'quick'\noptinal = 'cuda'",
            "pytest does not read [tool.evalcheck]; expected [tool.pytest.ini_options] with evalcheck_effort, "
            "evalcheck_optional",
        ),
        (
            "setup.cfg",
            "[tool:pytest]\n[tool:evalcheck]\neffort = quick",
            "expected [tool:pytest] with evalcheck_effort",
        ),
    ],
)
def test_a_setting_that_pytest_does_not_read_is_a_usage_error(
    project: Project, file: str, text: str, said: str
) -> None:
    (project.path / file).write_text(f"{text}\n", encoding="utf-8")
    project.write(CORRECT).run(code=4).shows(said)


def test_a_table_of_this_plugin_beside_another_configuration(project: Project) -> None:
    (project.path / "pytest.ini").write_text("[pytest]\nevalcheck_effort = quick\n", encoding="utf-8")
    (project.path / "pyproject.toml").write_text("[tool.pytest-evalcheck]\n", encoding="utf-8")
    project.write(CORRECT).run(ONE, code=4).shows("pyproject.toml: pytest does not read [tool.pytest-evalcheck]")
    (project.path / "pyproject.toml").write_text("[tool.other]\n", encoding="utf-8")
    project.run(ONE, code=0)


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_an_unknown_optional_name_is_reported_before_any_check_runs(project: Project, workers: tuple[str, ...]) -> None:
    if workers:
        pytest.importorskip("xdist")
    source = """
    from pathlib import Path
    @ec.metric(inputs=numbers)
    def mean():
        Path("ran").touch()
        return ec.Metric.of(Mean())
    """
    project.write(source)
    ini = "[pytest]\nevalcheck_optional = mosaicml\nevalcheck_select = EC201\n"
    (project.path / "pytest.ini").write_text(ini, encoding="utf-8")
    result = project.spawn("--evalcheck", *workers, code=4)
    result.shows("evalcheck_optional names 'mosaicml'; expected a kind of device (cuda, mps), skipped, or ")
    assert not (project.path / "ran").exists()


@pytest.mark.parametrize("name", ["select", "ignore", "optional", "device", "known", "since"])
def test_a_list_of_toml_is_told_to_be_one_text(project: Project, name: str) -> None:
    text = f'[tool.pytest.ini_options]\nevalcheck_{name} = ["EC201", "EC203"]\n'
    (project.path / "pyproject.toml").write_text(text, encoding="utf-8")
    said = f'pyproject.toml: expected evalcheck_{name} = "EC201,EC203", not a list'
    project.write(CORRECT).run(code=4).shows(said)


def test_options_that_do_nothing_alone_say_so(project: Project) -> None:
    project.write(CORRECT).run(ONE, evalcheck=False, code=4).shows(
        "--evalcheck-select does nothing without --evalcheck"
    )


def test_explaining_a_check_that_does_not_exist(project: Project) -> None:
    project.run("--evalcheck-explain=EC777", code=4).shows("no check matches 'EC777'")


def test_explaining_a_check(project: Project) -> None:
    result = project.run("--evalcheck-explain=EC203", evalcheck=False, code=0)
    result.shows(
        "EC203 merging_shards_gives_the_value_of_the_whole", "Why:", "Usual cause:", "Fix: pytest_evalcheck.fixes."
    )


def test_explaining_several_checks_is_a_line_each(project: Project) -> None:
    printed = project.run("--evalcheck-explain=EC2", evalcheck=False, code=0).text.splitlines()
    checks = [check for check in shipped() if check.code.startswith("EC2")]
    assert [line.split()[0] for line in printed if line.startswith("EC2")] == [check.code for check in checks]
    assert len(printed) <= len(checks) + 2


def test_a_cell_that_hangs_ends_and_the_others_go_on(project: Project) -> None:
    source = """
    import time
    class Slow(Mean):
        def compute(self):
            while True:
                try: time.sleep(60)
                except BaseException as error:
                    if type(error).__name__ != "CellTimeout": raise
                    if not hasattr(self, "again"): self.again = True
                    else: raise
    @ec.metric(inputs=numbers, timeout=0.5)
    def hangs(device): return ec.Metric.of(Slow())
    """
    result = project.write(source, CORRECT).run(ONE, code=1)
    result.shows("cases were tried within 0.5 seconds", "1 passed", "1 incomplete")


def test_a_cell_that_kills_its_process_says_so_when_it_is_isolated(project: Project) -> None:
    source = """
    import os
    class Killer(Mean):
        def compute(self): os.abort()
    @ec.metric(inputs=numbers, isolated=True)
    def killer(device): return ec.Metric.of(Killer())
    @ec.metric(inputs=numbers, isolated=True)
    def isolated(device): return ec.Metric.of(Mean())
    @ec.metric(inputs=numbers, isolated=True)
    def wrong(device): return ec.Metric.of(MeanOfMeans())
    """
    result = project.write(source, CORRECT).run(ONE, code=1)
    result.shows(
        "the process of the check died", "killed by SIGABRT", "samples=[0, 0, 1]", "4 checks: 2 passed, 2 failed"
    )


def test_a_process_that_is_killed_from_outside_says_nothing_about_its_target(project: Project) -> None:
    source = """
    import os, resource
    class Busy(Mean):
        def compute(self):
            resource.setrlimit(resource.RLIMIT_CPU, (1, 1))  # the system sends SIGKILL
            while True: pass
    @ec.metric(inputs=numbers, isolated=True)
    def busy(device): return ec.Metric.of(Busy())
    """
    result = project.write(source, CORRECT).run(ONE, code=1)
    result.shows("its process was killed from outside", "2 checks: 1 passed, 1 incomplete")


def test_a_worker_that_dies_is_a_broken_cell(project: Project) -> None:
    source = """
    import os
    class Killer(Mean):
        def compute(self): os._exit(9)
    @ec.metric(inputs=numbers)
    def killer(device): return ec.Metric.of(Killer())
    """
    result = project.write(source, CORRECT).spawn("--evalcheck", ONE, "-n", "2", code=1)
    result.shows("exit code 9, before the check had ended", "2 targets, 2 checks: 1 passed, 1 failed")


def test_a_code_of_another_kind_is_said_to_be_one(project: Project) -> None:
    source = """
    @ec.metric(inputs=numbers, not_applicable={"EC101": "no wrapper"})
    def mean(device): return ec.Metric.of(Mean())
    """
    project.write(source).run(code=1).shows(
        "not_applicable['EC101']: that check is about a wrapper, not about this kind"
    )


def test_workers_that_never_come_to_collect_end_the_run(project):
    """A run whose workers all fail in their configuration restarted them for ever: each cell may cost its worker."""
    pytest.importorskip("xdist")
    project.write(CORRECT)
    project.write(
        "import pytest\ndef pytest_configure(config):\n"
        "    if hasattr(config, 'workerinput'):\n        raise pytest.UsageError('not here')\n",
        name="conftest.py",
        header="",
    )
    result = project.spawn("--evalcheck", "-n", "2")
    assert result.code not in (0, 5)
    assert "no worker of xdist came to collect, 5 ended: pytest.UsageError: not here" in result.text
    assert result.text.splitlines()[-1].startswith("evalcheck: not ok: ")
