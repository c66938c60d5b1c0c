"""Without ``--evalcheck`` the plugin is as good as absent."""

from __future__ import annotations

import json

import pytest

PROBE = """
import json, sys
def pytest_unconfigure(config):
    with open("modules.json", "w") as out:
        json.dump(sorted(sys.modules), out)
"""


def test_a_run_without_the_option_imports_nothing_but_the_plugin(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(PROBE)
    pytester.makepyfile("def test_one(): pass")
    pytester.makepyfile(evalcheck_one="raise RuntimeError")
    # Asked at the very end: some plugins import what they need only then. Hypothesis' own plugin imports hypothesis.
    pytester.runpytest_subprocess("-p", "no:hypothesispytest", "-p", "no:randomly").assert_outcomes(passed=1)
    loaded = set(json.loads((pytester.path / "modules.json").read_text()))
    assert {name for name in loaded if name.startswith("pytest_evalcheck")} == {
        "pytest_evalcheck",
        "pytest_evalcheck.plugin",
    }
    assert not loaded & {"torch", "hypothesis", "numpy", "torchmetrics"}


def test_importing_the_package_is_light(pytester: pytest.Pytester) -> None:
    script = "import sys, pytest_evalcheck as ec; ec.__version__; print({'torch', 'hypothesis'} & set(sys.modules))"
    assert pytester.runpython_c(script).outlines == ["set()"]


def test_a_misspelt_public_name_says_what_is_near(pytester: pytest.Pytester) -> None:
    import pytest_evalcheck as ec

    with pytest.raises(AttributeError, match="did you mean 'KnownFailure'"):
        ec.KnownFailures  # noqa: B018
    assert set(ec.__all__) - {"__version__"} == set(ec._HOMES)
    assert all(getattr(ec, name) is not None for name in ec.__all__)
