"""The checks inside ordinary tests, without ``--evalcheck``."""

from __future__ import annotations

import functools
import threading
from typing import Any

import pytest
import torch
from hypothesis import strategies as st

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es
from pytest_evalcheck.testing import Project

numbers = es.samples(
    st.integers(0, 9),
    collate=lambda rows: ([float(row) for row in rows],),
    name="numbers",
    wrong=lambda row: row + 1,
    contrast=(1, 2),
)


class Mean:
    def __init__(self, scale: float = 1.0) -> None:
        self.scale = scale
        self.reset()

    def reset(self) -> None:
        self.total, self.count = 0.0, 0

    def update(self, values: list[float]) -> None:
        self.total += sum(values)
        self.count += len(values)

    def compute(self) -> float:
        return self.scale * self.total / self.count if self.count else float("nan")


class MeanOfMeans(Mean):
    def update(self, values: list[float]) -> None:
        self.total += sum(values) / len(values)
        self.count += 1


class Locked(Mean):
    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


class Single(Mean):
    def __deepcopy__(self, memo: Any) -> Single:
        return self


def a_generator() -> Any:
    yield Mean()


class TestAssertKeeps:
    @pytest.mark.parametrize(
        "thing",
        [
            Mean,
            Mean(2.0),
            lambda: Mean(3.0),
            lambda device: Mean(3.0),
            lambda: ec.Metric.of(Mean()),
            functools.partial(Mean, 2.0),
            ec.metric(inputs=numbers)(lambda: ec.Metric.of(Mean())),
        ],
        ids=["class", "object", "factory", "factory with device", "record", "partial", "target"],
    )
    def test_what_is_right_gives_a_report(self, thing: Any) -> None:
        inputs = None if isinstance(thing, ec.Target) else numbers
        report = ec.assert_passes(thing, inputs=inputs, select="EC201,EC205,EC218", effort="quick")
        assert {cell.code: cell.outcome for cell in report} == dict.fromkeys(("EC201", "EC205", "EC218"), "passed")

    @pytest.mark.parametrize("thing", [MeanOfMeans, MeanOfMeans(2.0), lambda: MeanOfMeans()])
    def test_a_broken_promise_is_an_assertion_error_with_the_usual_screen(self, thing: Any) -> None:
        with pytest.raises(AssertionError) as raised:
            ec.assert_passes(thing, inputs=numbers, select="EC201,EC205", effort="quick")
        text = str(raised.value)
        assert text.startswith("evalcheck: not ok: 1 failed\n\nEC201 splitting_a_stream_does_not_change_the_value")
        assert "smallest input\n    samples=[0, 0, 1]\n    batches=[[0, 1], [2]]" in text
        assert "test_in_tests.py:" in text
        assert "pytest_evalcheck.assert_passes(" in text

    def test_a_failure_replays(self) -> None:
        with pytest.raises(AssertionError) as raised:
            ec.assert_passes(MeanOfMeans, inputs=numbers, select="EC201", effort="quick")
        blob = str(raised.value).rpartition("replay='")[2].rstrip("')")
        with pytest.raises(AssertionError, match="EC201 splitting_a_stream"):
            ec.assert_passes(MeanOfMeans, inputs=numbers, replay=blob)
        assert [cell.examples for cell in ec.assert_passes(Mean, inputs=numbers, replay=blob)] == [1]

    def test_an_object_is_tried_as_it_was_and_stays_so(self) -> None:
        made = Mean()
        ec.assert_passes(made, inputs=numbers, select="EC20", ignore="EC203", effort="quick")
        assert (made.total, made.count) == (0.0, 0)

    def test_a_known_failure_is_no_error_and_is_strict(self) -> None:
        known = {"EC201": ec.KnownFailure("a mean of means")}
        report = ec.assert_passes(MeanOfMeans, inputs=numbers, select="EC201", known_failures=known)
        assert report.count("known") == 1
        with pytest.raises(AssertionError, match="is listed as a known failure, but the check passed"):
            ec.assert_passes(Mean, inputs=numbers, select="EC201", known_failures=known)

    def test_where_nothing_was_tried_it_is_an_error(self) -> None:
        with pytest.raises(AssertionError, match=r"(?s)no check was tried of .*the metric offers no way to merge"):
            ec.assert_passes(Mean, inputs=numbers, select="EC203")
        with pytest.raises(AssertionError, match=r"1 not run \(absent is not installed"):
            ec.assert_passes(Mean, inputs=numbers, select="EC201", requires=("absent",))
        with pytest.raises(AssertionError, match="nothing was tried"):
            ec.assert_passes(Mean, inputs=numbers, select="EC201", requires=("absent",), optional=["absent"])

    def test_fixtures_devices_and_kinds(self) -> None:
        def made(device: str, start: float) -> Mean:
            assert device == "cpu"
            return Mean(start)

        assert ec.assert_passes(made, inputs=numbers, select="EC201", fixtures={"start": 2.0}).count("passed") == 1
        scorer = ec.Scorer.of(lambda responses, document: float(responses[0] == document["answer"]))
        assert (
            ec.assert_passes(lambda: scorer, kind="scorer", inputs=es.responses(), select="EC401").count("passed") == 1
        )

    def test_an_object_that_a_library_knows(self) -> None:
        torchmetrics = pytest.importorskip("torchmetrics")
        inputs = es.multiclass(classes=3)
        metric = torchmetrics.classification.MulticlassAccuracy(num_classes=3)
        report = ec.assert_passes(metric, inputs=inputs, select="EC201,EC203,EC219", effort="quick")
        assert {cell.code: cell.outcome for cell in report}["EC203"] == "passed"
        assert {cell.class_name for cell in report} == {"torchmetrics.classification.accuracy.MulticlassAccuracy"}

    @pytest.mark.parametrize(
        ("thing", "more", "said"),
        [
            (Locked(), {}, r"the object Locked cannot be copied \(TypeError: cannot pickle.*lambda: Locked\(\.\.\.\)"),
            (Single(), {}, "a copy of the object Single is the object itself"),
            (ec.Metric.of(Mean()), {}, "Metric is a record of callables, whose copy would use the same object"),
            (3, {}, "got 3; expected a target, a class, a function that returns a new object"),
            (None, {}, "got None; expected a target"),
            (torch.nn.Linear(2, 2), {}, r"got Linear.*Describe it: `ec\.Metric"),
            (a_generator, {}, "the factory is a generator"),
            (Mean, {"inputs": None}, "inputs=None; expected samples"),
            (Mean, {"kind": "metrics"}, "there is no kind 'metrics'.*did you mean 'metric'"),
            (Mean, {"known_failure": {}}, "unknown keyword 'known_failure'; did you mean 'known_failures'"),
            (Mean, {"select": "EC9"}, "no check matches"),
            (Mean, {"effort": "fast"}, "expected one of quick, normal, thorough"),
            (Mean, {"optional": "torch"}, "optional='torch'; expected a list of names"),
            (Mean, {"isolated": True}, "is isolated"),
            (lambda start: Mean(start), {}, "asks for the fixture 'start'"),
            (ec.metric(inputs=numbers)(lambda: Mean()), {}, "inputs= cannot be combined with the target <lambda>"),
        ],
    )
    def test_what_cannot_be_meant_is_said(self, thing: Any, more: dict[str, Any], said: str) -> None:
        with pytest.raises(ec.UsageError, match=f"(?s){said}"):
            ec.assert_passes(thing, **{"inputs": numbers, **more})

    def test_a_class_that_needs_arguments_is_red(self) -> None:
        class Needs(Mean):
            def __init__(self, k: int) -> None:
                super().__init__()

        with pytest.raises(AssertionError, match=r"(?s)the factory raised an error.*missing 1 required positional"):
            ec.assert_passes(Needs, inputs=numbers, select="EC201,EC205")


SOURCE = """
@ec.parametrize_with_checks([Mean, MeanOfMeans], inputs=numbers, effort="quick", {more})
def test_means(check):
    check()
"""


class TestParametrize:
    @pytest.fixture
    def tests(self, project: Project) -> Any:
        def write(source: str, **more: str) -> Project:
            return project.write(source, name="test_means.py", **more)

        return write

    def test_each_check_is_a_test(self, tests: Any) -> None:
        project = tests(SOURCE.format(more='select="EC201,EC203,EC205"'))
        result = project.run("-v", code=1, evalcheck=False)
        assert result.outcomes == {"passed": 3, "failed": 1, "skipped": 2}
        result.shows(
            "test_means[Mean-EC201] PASSED",
            "test_means[Mean-EC203] SKIPPED",
            "test_means[MeanOfMeans-EC201] FAILED",
            "EC201 splitting_a_stream_does_not_change_the_value",
            "fails for test_means.py::MeanOfMeans on cpu",
            "smallest input",
            "samples=[0, 0, 1]",
            "target       test_means.py:",
            "pytest 'test_means.py::test_means[MeanOfMeans-EC201]', or in the test: check(replay='",
        )
        result.lacks("in_tests.py", "results.py:")
        skipped = project.run("-rs", code=1, evalcheck=False)
        skipped.shows("not applicable: the metric offers no way to merge")

    def test_it_works_with_workers(self, tests: Any) -> None:
        pytest.importorskip("xdist")
        project = tests(SOURCE.format(more='select="EC201,EC203,EC205"'))
        result = project.spawn("-n", "2", "-p", "no:cacheprovider", code=1)
        assert result.outcomes == {"passed": 3, "failed": 1, "skipped": 2}

    def test_beside_cells(self, tests: Any) -> None:
        project = tests(SOURCE.format(more='select="EC201"')).write(
            "@ec.metric(inputs=numbers)\ndef mean(device):\n    return ec.Metric.of(Mean())\n"
        )
        result = project.run("--evalcheck-with-tests", "--evalcheck-select=EC201", code=1)
        assert [cell.target for cell in result.report.cells] == ["evalcheck_example.py::mean"]
        result.shows(
            "test_means.py .F", "1 failed, 2 passed", "evalcheck: not ok: 1 failed in pytest beside the outcomes"
        )

    def test_the_target_and_the_check(self, tests: Any) -> None:
        source = """
        @ec.metric(inputs=numbers)
        def mean(device, start):
            made = Mean()
            made.total = start
            return ec.Metric.of(made)

        class TestAll:
            @ec.parametrize_with_checks({"one": mean, "other": mean}, select="EC201,EC206", effort="quick")
            def test_it(self, target, check):
                assert target is mean
                cell = check(target, start=0.0)
                assert cell.outcome == "passed"
        """
        result = tests(source).run("-v", code=0, evalcheck=False)
        result.shows("test_it[one-EC201] PASSED", "test_it[other-EC206] PASSED")

    def test_a_known_failure_is_a_strict_xfail(self, tests: Any) -> None:
        more = 'select="EC201", known_failures={"EC201": ec.KnownFailure("a mean of means")}'
        project = tests(SOURCE.format(more=more))
        result = project.run("-rxf", code=1, evalcheck=False)
        assert result.outcomes == {"xfailed": 1, "failed": 1}
        result.shows("a mean of means", "EC201 is listed as a known failure, but the check passed")
        assert project.run("--runxfail", code=1, evalcheck=False).outcomes == {"failed": 2}

    def test_simulated_devices(self, tests: Any) -> None:
        source = """
        @ec.parametrize_with_checks([lambda device: Mean()], inputs=numbers, device="cpu,sim:mps", select="EC201")
        def test_means(check):
            check()
        """
        tests(source).run("-v", code=0, evalcheck=False).shows("[thing0-EC201]", "[thing0-EC201-sim:mps]")

    def test_a_misdescribed_target_is_one_failure(self, tests: Any) -> None:
        source = """
        def forgets():
            Mean()

        @ec.parametrize_with_checks([forgets], inputs=numbers, select="EC201,EC205,EC206")
        def test_means(check):
            check()
        """
        project = tests(source)
        result = project.run("-rs", code=1, evalcheck=False)
        assert result.outcomes == {"failed": 1, "skipped": 2}
        result.shows("could not be tried on", "target error: the error is that of the first check")
        assert project.run("-k", "EC206", code=1, evalcheck=False).outcomes == {"failed": 1, "deselected": 2}

    def test_what_was_not_tried_is_an_error(self, tests: Any) -> None:
        project = tests(SOURCE.format(more='select="EC203,EC214"'))
        result = project.run(code=1, evalcheck=False)
        assert result.outcomes == {"failed": 4}
        result.shows("no check was tried of MeanOfMeans: EC214 is not applicable: the metric is not a collection")

    def test_one_value_in_all_cases_is_an_error(self, tests: Any) -> None:
        source = """
        class Forgets(Mean):
            def compute(self):
                return 0.5

        class Differs(Mean):
            def compute(self):
                return float(self.total > 20)

        class Rare(Mean):
            def compute(self):
                return float(self.count > 4)  # the control draws fewer samples

        tame = numbers.replace(wrong=None, contrast=())

        @ec.parametrize_with_checks([{name}], inputs=tame, select="EC201,EC205,EC218")
        def test_means(check):
            check()
        """
        result = tests(source.replace("{name}", "Forgets")).run(code=1, evalcheck=False)
        assert result.outcomes == {"passed": 2, "failed": 1}
        result.shows("Forgets gave 0.5 in all cases of all checks, which tests nothing (give wrong=)")
        assert tests(source.replace("{name}", "Differs")).run(code=0, evalcheck=False).outcomes == {"passed": 3}
        rare = tests(source.replace("{name}", "Rare")).run("-rs", code=0, evalcheck=False)
        assert rare.outcomes == {"passed": 2, "skipped": 1}
        rare.shows("nothing tells right from wrong")

    def test_what_is_missing_is_an_error_unless_it_may_be(self, tests: Any) -> None:
        more = 'select="EC201", requires=("absent",)'
        result = tests(SOURCE.format(more=more)).run(code=1, evalcheck=False)
        result.shows(
            "EC201 of Mean was not run: absent is not installed; where it may be missing, write optional=['absent']"
        )
        result = tests(SOURCE.format(more=f'{more}, optional=["absent"]')).run("-rs", code=0, evalcheck=False)
        assert result.outcomes == {"skipped": 2}
        result.shows("not run: absent is not installed")

    def test_a_blob_replays(self, tests: Any) -> None:
        with pytest.raises(AssertionError) as raised:
            ec.assert_passes(MeanOfMeans, inputs=numbers, select="EC201", effort="quick")
        blob = str(raised.value).rpartition("replay='")[2].rstrip("')")
        project = tests(
            SOURCE.format(more='select="EC201"').replace("check()", f"assert check(replay={blob!r}).examples == 1")
        )
        assert project.run(code=1, evalcheck=False).outcomes == {"passed": 1, "failed": 1}
        project = tests(SOURCE.format(more='select="EC205"').replace("check()", f"check(replay={blob!r})"))
        project.run(code=1, evalcheck=False).shows("the blob is for EC201, but this check is EC205")

    @pytest.mark.parametrize(
        ("call", "said"),
        [
            (lambda: ec.parametrize_with_checks([]), "got nothing to check"),
            (lambda: ec.parametrize_with_checks(Mean, inputs=numbers), "takes a list of objects"),
            (lambda: ec.parametrize_with_checks([Locked()], inputs=numbers), "cannot be copied"),
            (lambda: ec.parametrize_with_checks([Mean]), "Mean: inputs=None; expected samples"),
            (
                lambda: ec.parametrize_with_checks([Mean], inputs=numbers, select="EC601"),
                "no check matches select='EC601'",
            ),
            (
                lambda: ec.parametrize_with_checks([ec.metric(inputs=numbers)(Mean.compute)], tolerance=1.0),
                "tolerance= cannot be combined with targets",
            ),
            (lambda: ec.parametrize_with_checks([Mean], inputs=numbers)(lambda: None), "takes `check`"),
            (lambda: ec.parametrize_with_checks([Mean], inputs=numbers)(Mean), "stands above"),
        ],
    )
    def test_what_cannot_be_meant_is_said(self, call: Any, said: str) -> None:
        with pytest.raises(ec.UsageError, match=said):
            call()

    def test_what_a_check_is_called_with(self, tests: Any) -> None:
        source = """
        @ec.parametrize_with_checks([lambda start: Mean()], inputs=numbers, select="EC201")
        def test_means(check):
            {call}
        """
        for call, said in {
            "check()": "thing0 asks for the fixture 'start'; write check(start=start) in the test",
            "check(3)": "check(target) checks thing0; got 3",
        }.items():
            tests(source.format(call=call)).run(code=1, evalcheck=False).shows(said)

    def test_things_of_one_name_are_numbered(self, tests: Any) -> None:
        source = """
        @ec.parametrize_with_checks([Mean, Mean(), MeanOfMeans], inputs=numbers, select="EC205", effort="quick")
        def test_means(check):
            check()
        """
        result = tests(source).run("-v", code=0, evalcheck=False)
        result.shows("[Mean0-EC205] PASSED", "[Mean1-EC205] PASSED", "[MeanOfMeans-EC205] PASSED")


def test_the_example_of_the_docstring_is_right() -> None:
    import doctest

    from pytest_evalcheck.integration.ordinary_tests import in_tests

    found = doctest.testmod(in_tests)
    assert found.attempted
    assert not found.failed
