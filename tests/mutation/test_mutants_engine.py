"""Selected checks, numbers of planned cases, and objects that a factory builds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import settings

import pytest_evalcheck as ec
from fixtures.gallery.table import SPECIMENS
from pytest_evalcheck import strategies as es
from pytest_evalcheck.engine.cell_spec import CellSpec
from pytest_evalcheck.engine.check_selection import CheckSelection
from pytest_evalcheck.engine.device_selection import SKIPPED, with_missing
from pytest_evalcheck.engine.effort import EFFORTS, Effort
from pytest_evalcheck.engine.factory import TargetFactory
from pytest_evalcheck.errors import UsageError
from pytest_evalcheck.expectations.failures import TargetError
from pytest_evalcheck.kinds.registry import shipped

CHECKS = {check.code: check for check in shipped()}


class TestSelection:
    @pytest.mark.parametrize(
        ("select", "ignore", "code", "selected"),
        [
            ("", "", "EC201", True),
            ("EC201", "", "EC201", True),
            ("ec201", "", "EC201", True),
            ("EC202", "", "EC201", False),
            ("EC2", "", "EC201", True),
            ("EC1, EC2", "", "EC201", True),
            ("EC1 EC2", "", "EC201", True),
            ("", "EC201", "EC201", False),
            ("", "EC202", "EC201", True),
            ("EC2", "EC201", "EC201", False),
            ("EC2", "EC201", "EC202", True),
        ],
    )
    def test_selects(self, select: str, ignore: str, code: str, selected: bool) -> None:
        assert CheckSelection.parse(select, ignore, list(CHECKS.values())).selects(CHECKS[code]) == selected

    def test_a_name_selects_as_a_code_does(self) -> None:
        check = CHECKS["EC201"]
        assert CheckSelection((check.name,)).selects(check)
        assert not CheckSelection((check.name,)).selects(CHECKS["EC202"])
        assert not CheckSelection(ignore=(check.name[:8],)).selects(check)

    def test_a_word_that_is_the_beginning_of_nothing_is_an_error(self) -> None:
        for words in (("EC2O1", ""), ("", "EC2O1"), ("EC201,nonsense", "")):
            with pytest.raises(UsageError, match="no check matches"):
                CheckSelection.parse(*words, list(CHECKS.values()))


class TestEffort:
    @pytest.mark.parametrize(
        ("name", "wanted", "cases"),
        [
            ("quick", None, 10),
            ("normal", None, 25),
            ("thorough", None, 200),
            ("quick", 3, 3),
            ("quick", 12, 5),
            ("quick", 1, 1),
            ("quick", 4, 4),
            ("quick", 60, 24),
            ("normal", 40, 40),
            ("normal", 2, 2),
            ("thorough", 3, 24),
            ("thorough", 1, 8),
        ],
    )
    def test_cases_with_the_usual_profile(self, name: str, wanted: int | None, cases: int) -> None:
        assert settings.default is not None
        share = settings.default.max_examples / 100
        assert share == 1, "these are the numbers of Hypothesis' own profile"
        assert EFFORTS[name].examples(wanted) == cases

    def test_seconds(self) -> None:
        seconds = {name: (effort.shrink_seconds, effort.measuring) for name, effort in EFFORTS.items()}
        assert seconds == {"quick": (5, 1 / 3), "normal": (15, 1), "thorough": (60, 10)}

    def test_it_does_not_change(self) -> None:
        with pytest.raises(AttributeError):
            EFFORTS["quick"].share = 1.0  # type: ignore[misc]
        assert replace(EFFORTS["quick"], share=0.0, measuring=0.0) == Effort(share=0.0, shrink_seconds=5, measuring=0.0)


class TestFactory:
    def target(self) -> ec.Target:
        return next(one.twin for one in SPECIMENS if one.bug.kind == "metric")

    def test_what_is_built_for_every_example_has_no_original(self) -> None:
        made = TargetFactory(self.target())
        first, second = made.record({"device": "cpu"}), made.record({"device": "cpu"})
        assert first.source is not second.source
        assert made.snapshot() is None

    def test_what_is_built_once_a_cell_is_copied_for_each_device(self) -> None:
        built: list[object] = []
        plain = self.target()

        def factory(**arguments: object) -> object:
            built.append(arguments.get("device"))
            return plain.factory(**arguments)

        made = TargetFactory(replace(plain, factory=factory, fresh="check"))
        first, second = made.record({"device": "cpu"}), made.record({"device": "cpu"})
        assert (built, first.source is second.source) == (["cpu"], False)
        snapshot = made.snapshot()
        assert snapshot is not None
        assert not snapshot.changes()
        made.record({"device": "cpu:0"})
        assert built == ["cpu", "cpu:0"]
        both = made.snapshot()
        assert both is not None
        assert not both.changes()

    def test_an_error_of_a_factory_is_an_error_of_the_target(self) -> None:
        def factory() -> object:
            raise OSError("no such file")

        with pytest.raises(TargetError, match="the factory raised an error"):
            TargetFactory(replace(self.target(), factory=factory)).record({})


@pytest.mark.parametrize("asked", [("cpu",), ("auto",)])
def test_a_cell_that_did_not_run_for_another_reason_wants_nothing(asked: tuple[str, ...]) -> None:
    @ec.metric(inputs=es.values())
    def mean() -> None:
        raise AssertionError("never built")

    (cell,) = ec.run(mean, select="EC201", effort="quick").cells
    not_run = replace(cell, outcome="not run", reason="its fixtures could not be set up")
    spec = CellSpec(target=mean, check=CHECKS["EC201"], device="cpu", where="here::mean", effort=EFFORTS["quick"])
    assert with_missing(not_run, spec, asked) == not_run
    assert with_missing(not_run, spec, asked, skipped=True).missing == (SKIPPED,)
