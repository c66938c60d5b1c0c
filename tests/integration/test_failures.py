"""A failure, its replay, and what is known about it."""

from __future__ import annotations

import shlex

import pytest
from target_files import BROKEN, CORRECT

from pytest_evalcheck.testing import Project

ONE = "--evalcheck-select=EC201"


def test_a_failure_fits_one_screen_and_says_what_to_know(project: Project) -> None:
    result = project.write(BROKEN).run(ONE, code=1)
    lines = result.text.splitlines()
    (begin,), (end,) = ([i for i, line in enumerate(lines) if text in line] for text in ("[cpu] ____", "[100%]"))
    screen = lines[begin:end]
    assert len(screen) < 30
    result.shows(
        "EC201 splitting_a_stream_does_not_change_the_value",
        "fails for evalcheck_example.py::mean_of_means on cpu",
        "The value does not depend on how the stream is split into batches.",
        "samples=[0, 0, 1]",
        "batches=[[0, 1], [2]]",
        "expected  0.333333333",
        "actual    0.5",
        "usual cause",
        "target       evalcheck_example.py:",
    )
    assert screen[-1].startswith("reproduce    pytest --evalcheck ")


def test_the_printed_command_replays_the_failure(project: Project) -> None:
    (command,) = project.write(BROKEN, CORRECT).run(ONE, code=1).reproduce
    program, *arguments = shlex.split(command)
    assert program == "pytest"
    replayed = project.spawn(*arguments, code=1)
    assert replayed.outcomes == {"failed": 1}
    replayed.shows("samples=[0, 0, 1]", "batches=[[0, 1], [2]]")


def test_a_replay_tries_nothing_but_its_case(project: Project) -> None:
    source = """
    calls = []
    @ec.metric(inputs=numbers)
    def counted(device):
        with open("calls.txt", "a") as log: log.write("x")
        return ec.Metric.of(MeanOfMeans())
    """
    blob = project.write(source).run(ONE, code=1).reproduce[0].split("--evalcheck-replay=")[1]
    (project.pytester.path / "calls.txt").unlink()
    project.run(f"--evalcheck-replay={blob}", code=1)
    assert (
        project.pytester.path / "calls.txt"
    ).read_text() == "xxxxxxxx"  # a plain call builds two; one says that it accumulates, and the stream whole and cut,
    # and these three again, to see whether an error is behind the number


def test_a_replay_of_a_mended_target_passes(project: Project) -> None:
    blob = project.write(BROKEN).run(ONE, code=1).reproduce[0].split("--evalcheck-replay=")[1]
    project.write(BROKEN.replace("MeanOfMeans", "Mean")).run(f"--evalcheck-replay={blob}", code=0)


def test_non_finite_and_nested_samples_replay(project: Project) -> None:
    source = """
    import math
    odd = es.samples(st.tuples(st.just(float("nan")), st.just("a'b"), st.lists(st.none(), max_size=1)), name="odd",
                     collate=lambda rows: (rows,))
    @ec.metric(inputs=odd)
    def counts_batches(device):
        seen = []
        return ec.Metric(update=seen.append, compute=lambda: len(seen))
    """
    result = project.write(source).run(ONE, code=1)
    result.shows('samples=[(float("nan"), "a\'b", []), (float("nan"), "a\'b", [])]')
    (command,) = result.reproduce
    project.spawn(*shlex.split(command)[1:], code=1).shows('float("nan")')


@pytest.mark.parametrize(
    ("blob", "said"),
    [
        ("nonsense", "'nonsense' is not a replay blob"),
        ("eNqLVnJ1NjJSitVRSkpML", "is not a replay blob"),
    ],
)
def test_a_blob_that_is_none_is_refused_before_anything_runs(project: Project, blob: str, said: str) -> None:
    project.write(CORRECT).run(f"--evalcheck-replay={blob}", code=4).shows(said, "expected the complete text")


def test_a_stale_blob_says_what_does_not_fit(project: Project) -> None:
    from dataclasses import make_dataclass

    from pytest_evalcheck.reports.case_codec import encode_case

    old = make_dataclass("Old", ["samples", "cuts"])([1, 2], [0, 1])
    result = project.write(CORRECT).run(f"--evalcheck-replay={encode_case('EC201', old)}", code=1)
    result.shows(
        "the replay blob does not fit EC201", "expected  the fields samples, batches", "actual    samples, cuts"
    )


def test_a_blob_of_a_check_that_is_gone_runs_nothing_and_is_red(project: Project) -> None:
    from pytest_evalcheck.kinds.metric.cases import Stream
    from pytest_evalcheck.reports.case_codec import encode_case

    blob = encode_case("EC299", Stream(samples=[], batches=[]))
    project.write(CORRECT).run(f"--evalcheck-replay={blob}", code=4).shows("EC299")


KNOWN = """
@ec.metric(inputs=numbers, known_failures={{"EC201": ec.KnownFailure("averages batches", {more})}})
def listed(device):
    with open("calls.txt", "a") as log: log.write("x")
    return ec.Metric.of({metric}())
"""


def test_a_known_failure_is_listed_and_not_red(project: Project) -> None:
    source = KNOWN.format(more='see="our/repository#12"', metric="MeanOfMeans")
    result = project.write(source).run(ONE, "-rx", code=0)
    assert result.outcomes == {"xfailed": 1}
    result.shows("averages batches", "our/repository#12", "1 known")


def test_a_known_failure_without_a_report_says_so(project: Project) -> None:
    project.write(KNOWN.format(more="", metric="MeanOfMeans")).run(ONE, "-v", code=0).shows("no upstream report found")


def test_a_pinned_example_is_confirmed_and_the_search_goes_on(project: Project) -> None:
    more = "example=dict(samples=[0, 0, 1], batches=[[0, 1], [2]])"
    report = project.write(KNOWN.format(more=more, metric="MeanOfMeans")).run(ONE, code=0).report
    (cell,) = report.cells
    assert cell.failure is not None
    assert cell.failure.case == {"samples": [0, 0, 1], "batches": [[0, 1], [2]]}
    assert cell.examples >= cell.planned > 1


def test_a_known_failure_is_strict(project: Project) -> None:
    result = project.write(KNOWN.format(more="", metric="Mean")).run(ONE, code=1)
    result.shows("EC201 is listed as a known failure, but the check passed", "Take the entry out of known_failures")


def test_a_known_failure_does_not_cover_a_target_that_cannot_run(project: Project) -> None:
    result = project.write(KNOWN.format(more="", metric="Missing")).run(ONE, code=1)
    result.shows("the factory raised an error", "NameError", "could not be tried on")


def test_a_known_failure_with_runxfail_fails(project: Project) -> None:
    project.write(KNOWN.format(more="", metric="MeanOfMeans")).run(ONE, "--runxfail", code=1).shows(
        "smallest input", "1 known"
    )


def test_a_replay_of_a_known_failure_may_be_kept(project: Project) -> None:
    from pytest_evalcheck.kinds.metric.cases import Stream
    from pytest_evalcheck.reports.case_codec import encode_case

    project.write(KNOWN.format(more="", metric="MeanOfMeans"))
    fails, holds = Stream(samples=[0, 0, 1], batches=[[0, 1], [2]]), Stream(samples=[0], batches=[[0]])
    assert project.run(f"--evalcheck-replay={encode_case('EC201', fails)}", code=0).outcomes == {"xfailed": 1}
    assert project.run(f"--evalcheck-replay={encode_case('EC201', holds)}", code=0).outcomes == {"passed": 1}


def test_a_pinned_example_of_another_check_is_refused(project: Project) -> None:
    more = "example=dict(rows=[1])"
    result = project.write(KNOWN.format(more=more, metric="MeanOfMeans")).run(ONE, code=1)
    result.shows("the case of the known failure does not fit EC201")


def test_not_applicable_is_counted_with_its_reason(project: Project) -> None:
    source = """
    @ec.metric(inputs=numbers, not_applicable={"EC201": "batches are its unit"})
    def batches(device): return ec.Metric.of(MeanOfMeans())
    """
    result = project.write(source).run("--evalcheck-select=EC201,EC205", "-rs", code=0)
    result.shows("batches are its unit", "1 passed, 1 not applicable")


def test_a_requirement_that_is_not_installed_is_counted(project: Project) -> None:
    source = """
    @ec.metric(inputs=numbers, requires=("no-such-distribution>=2",))
    def absent(device): import no_such_distribution

    @ec.metric(inputs=numbers, requires=("pytest>=999",))
    def future(device): raise AssertionError
    """
    result = project.write(source, CORRECT).run(ONE, code=1)
    result.shows("no-such-distribution is not installed", ">=999 is required", "1 passed", "2 not run")
    result = project.run(ONE, "--evalcheck-optional=no_such_distribution, pytest", code=0)
    result.shows("evalcheck: ok: 1 passed, 2 not run (optional: no-such-distribution is not installed; pytest ")


def test_examples_of_the_target_are_tried_first(project: Project) -> None:
    source = """
    wide = es.samples(st.integers(0, 10**9), collate=lambda rows: ([float(row) for row in rows],))
    class Rare(Mean):
        def update(self, values):
            super().update(values)
            if values[:2] == [777.0, 778.0]: self.total += len(values)
    @ec.metric(inputs=wide, examples=[[777, 778, 3]])
    def listed(device): return ec.Metric.of(Rare())
    """
    project.write(source).run(ONE, code=1).shows("samples=[777, 778, 3]", "batches=[[0, 1], [2]]")


def test_one_cause_prints_once(project: Project) -> None:
    source = """
    @ec.metric(inputs=numbers)
    def missing(device): return nowhere
    """
    result = project.write(source).run(code=1)
    assert result.text.count("the factory raised an error\n") == 1
    result.shows("evalcheck: not ok: 1 failed, ")


def test_a_check_of_the_users_own(project: Project) -> None:
    source = '''
    from pytest_evalcheck.kinds.metric.cases import Stream
    from pytest_evalcheck.kinds.metric.subject import MetricSubject

    @ec.check("MY101", conditions=("several batches",))
    def the_value_is_below_five(metric: MetricSubject, case: Stream) -> None:
        """The value is below five.

        Why: because.
        """
        value = metric.value(case.whole)
        ec.expect(value).holds(value < 5, about="the value")

    @ec.check("MY102")
    def asserts_are_fine_too(metric: MetricSubject, case: Stream) -> None:
        """Nothing is above eight."""
        assert max(case.samples) < 8, "too large"

    @ec.metric(inputs=numbers, extra_checks=[the_value_is_below_five, asserts_are_fine_too])
    def mean(device): return ec.Metric.of(Mean())
    '''
    result = project.write(source).run("--evalcheck-select=MY", code=1)
    result.shows("MY101", "samples=[5]", "MY102", "too large", "samples=[8]", "2 failed")


def test_an_error_or_a_value_whose_text_raises_is_that_of_the_target(project: Project) -> None:
    source = """
    class Shy(Exception):
        def __str__(self): raise RuntimeError("no text")
        __repr__ = __str__

    class Raises(Mean):
        def update(self, values):
            if len(values) > 1: raise Shy
            super().update(values)

    class Value:
        def __repr__(self): raise RuntimeError("no text")

    @ec.metric(inputs=numbers)
    def raises(device): return ec.Metric.of(Raises())

    @ec.metric(inputs=numbers)
    def from_factory(device): raise Shy

    @ec.metric(inputs=numbers)
    def value(device): return ec.Metric(update=lambda values: None, compute=Value)
    """
    result = project.write(source).run(ONE, code=1)
    result.shows("<Shy whose str() raised RuntimeError>", "<Value whose repr() raised RuntimeError>", "3 failed")
    result.lacks("the check itself raised an error", "INTERNALERROR")


def test_a_command_is_quoted_for_a_shell(project: Project) -> None:
    folder = project.path / "it's a folder"
    folder.mkdir()
    (folder / "evalcheck_example.py").write_text(project.header + BROKEN, encoding="utf-8")
    (command,) = project.run(ONE, code=1).reproduce
    _, _, node, *_ = shlex.split(command)
    assert node.startswith("it's a folder/evalcheck_example.py::mean_of_means::")
