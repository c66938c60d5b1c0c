"""Kinds, checks and adapters from outside of the package."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_evalcheck.kinds.registry import kinds, shipped
from pytest_evalcheck.testing import Project

TOY = (Path(__file__).parent / "toy_kind.py").read_text(encoding="utf-8")
TARGETS = """
import pytest_evalcheck as ec
from hypothesis import strategies as st
from pytest_evalcheck import strategies as es
from toy_kind import Sampler

numbers = es.samples(st.integers(0, 9), collate=lambda rows: rows, name="numbers")

@ec.target("sampler", inputs=numbers)
def correct():
    return Sampler(lambda samples, count: samples[:count])

@ec.target("sampler", inputs=numbers)
def drops_the_last():
    return Sampler(lambda samples, count: samples[:count][: len(samples) - 1])
"""


@pytest.fixture
def toy(evalcheck_project: Project) -> Project:
    """A project that registers the toy kind in its conftest."""
    project = evalcheck_project
    project.write(TOY, name="toy_kind.py", header="")
    register = "import pytest_evalcheck as ec\nimport toy_kind\nec.register(*toy_kind.EVERYTHING)\n"
    project.write(register, name="conftest.py", header="")
    return project.write(TARGETS, header="")


def distribution(project: Project, value: str, *, name: str = "evalcheck-toys", entry: str = "toys") -> None:
    """A distribution with one entry point, as pip lays it out, in the folder of the project."""
    folder = project.path / f"{name.replace('-', '_')}-1.2.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    (folder / "entry_points.txt").write_text(f"[pytest_evalcheck]\n{entry} = {value}\n")


class TestToyKind:
    def test_it_takes_at_most_80_lines(self) -> None:
        assert len(TOY.splitlines()) <= 80

    def test_it_runs_fails_shrinks_and_reports(self, toy: Project) -> None:
        result = toy.spawn("--evalcheck", code=1).assert_outcomes(passed=1, failed=1)
        kept, broken = result.cell("TOY101", "::correct"), result.cell("TOY101", "::drops_the_last")
        assert set(kept.conditions) == {"all of them", "some of them"}
        assert (kept.unreached, broken.kind) == ((), "sampler")
        assert broken.failure is not None
        assert broken.failure.case == {"samples": [0], "count": 1}
        assert (broken.failure.expected, broken.failure.actual) == ("1", "0")
        result.shows(
            "TOY101 a_sampler_returns_as_many_as_asked",
            "A sampler returns as many samples as it is asked for.",
            "samples=[0]",
            "usual cause  an index that stops one too early.",
            "2 targets, 2",
        )

    def test_it_replays(self, toy: Project) -> None:
        (command,) = toy.spawn("--evalcheck", code=1).reproduce
        node, blob = re.search(r"'(.*)' (--evalcheck-replay=\S+)", command).groups()  # type: ignore[union-attr]
        result = toy.spawn("--evalcheck", node, blob, code=1).assert_outcomes(failed=1)
        assert result.cell("TOY101").examples == 2  # the case, and once more for errors alone

    def test_it_is_explained_and_selected(self, toy: Project) -> None:
        toy.spawn("--evalcheck-explain=TOY101", code=0).shows("Why: a sampler that drops some", "Fix: samples[:count]")
        toy.spawn("--evalcheck", "--evalcheck-select=TOY", code=1).assert_outcomes(passed=1, failed=1)

    def test_a_wrong_return_value_is_described(self, toy: Project) -> None:
        source = """
        @ec.target("sampler", inputs=numbers)
        def nothing():
            pass
        """
        result = toy.write(TARGETS, source, header="").spawn("--evalcheck", "-k", "nothing", code=1)
        result.shows("the factory returned None", "expected  a Sampler", "`Sampler(take=...)`")


class TestEntryPoints:
    def test_what_a_distribution_names_is_registered(self, evalcheck_project: Project) -> None:
        project = evalcheck_project.write(TOY, name="toy_kind.py", header="").write(TARGETS, header="")
        distribution(project, "toy_kind:EVERYTHING")
        project.pytester.syspathinsert()
        project.spawn("--evalcheck", code=1).assert_outcomes(passed=1, failed=1)

    @pytest.mark.parametrize(
        ("source", "messages"),
        [
            pytest.param("1 / 0", ["ZeroDivisionError: division by zero"], id="raises"),
            pytest.param("thing = 3", ["3 cannot be registered", "expected an ec.Check, ec.KindSpec"], id="a number"),
            pytest.param(
                "from pytest_evalcheck.kinds.registry import shipped\nthing = [shipped()[0], shipped()[1]]\n"
                "import dataclasses\nthing = dataclasses.replace(thing[0])",
                ["the code EC001", "is registered twice"],
                id="a code twice",
            ),
            pytest.param(
                TOY.replace("EVERYTHING = [a_sampler_returns_as_many_as_asked, SAMPLER]", "")
                + "thing = a_sampler_returns_as_many_as_asked",
                ["TOY101", "for the kind 'sampler', which does not exist", "expected one of decoder, engine, loop"],
                id="a kind that is not there",
            ),
            pytest.param(
                "import pytest_evalcheck as ec\nthing = ec.Adapter(kind='metrics', cls='a.B', record=print)",
                ["there is no kind 'metrics'", "did you mean 'metric'?"],
                id="an adapter of no kind",
            ),
            pytest.param(
                "import dataclasses\nfrom pytest_evalcheck.kinds.registry import kind_of\n"
                "thing = dataclasses.replace(kind_of('metric'), name='metric')",
                ["the kind 'metric' is registered twice"],
                id="a kind twice",
            ),
        ],
    )
    @pytest.mark.slow(every=3)
    def test_a_bad_one_is_one_clear_error_and_nothing_else_is_lost(
        self, evalcheck_project: Project, source: str, messages: list[str]
    ) -> None:
        project = evalcheck_project.write(source, name="bad_toys.py", header="")
        distribution(project, "bad_toys:thing")
        target = """
        from hypothesis import strategies as st

        class Count:
            def __init__(self): self.count = 0
            def update(self, values): self.count += len(values)
            def compute(self): return float(self.count)

        @ec.metric(inputs=es.samples(st.integers(0, 9), collate=lambda rows: (rows,), name="numbers"))
        def counts():
            return ec.Metric.of(Count())
        """
        project.pytester.syspathinsert()
        result = project.write(target).spawn("--evalcheck", "--evalcheck-select=EC201", code=1)
        result.assert_outcomes(passed=1)
        result.shows("the entry point toys = 'bad_toys:thing' of evalcheck-toys 1.2 is left out", *messages)
        assert len(re.findall("ERROR: .* is left out", result.output)) == 1  # and in the last line, which says why


class TestShipped:
    def test_every_kind_has_checks_and_says_what_it_takes(self) -> None:
        for kind in kinds():
            assert any(kind.name in check.kinds for check in shipped())
            assert kind.subject.kind == kind.name
            assert kind.example
            assert kind.expected
