"""The fixtures for ordinary tests, and what they are made of."""

from __future__ import annotations

import json

import pytest

from pytest_evalcheck.testing import Project


class TestInATest:
    def test_the_guard_within_with(self, project: Project) -> None:
        project.write(
            """
            def test_kept(evalcheck_unchanged):
                with evalcheck_unchanged({"labels": [1, 2]}) as batch:
                    sum(batch["labels"])

            def test_broken(evalcheck_unchanged):
                with evalcheck_unchanged({"labels": [1, 2]}, name="inputs") as batch:
                    batch.pop("labels")
            """,
            name="test_example.py",
            header="",
        )
        result = project.run(code=1, evalcheck=False)
        assert result.outcomes == {"passed": 1, "failed": 1}
        result.shows("CheckFailure: the inputs was changed", "inputs['labels'] is gone")

    def test_the_guard_until_the_end_of_the_test(self, project: Project) -> None:
        project.write(
            """
            import torch

            def test_kept(evalcheck_unchanged):
                evalcheck_unchanged({"labels": [1, 2]})

            def test_broken(evalcheck_unchanged):
                batch = {"labels": torch.tensor([[1, 7]])}
                evalcheck_unchanged(batch)
                batch["labels"].data[0, 1] = -100
            """,
            name="test_example.py",
            header="",
        )
        result = project.run(code=1, evalcheck=False)
        assert result.outcomes == {"passed": 2, "errors": 1}
        result.shows("ERROR at teardown of test_broken", "batch['labels'][0, 1]: 7 became -100")

    def test_every_batch_that_changed_is_told(self, project: Project) -> None:
        project.write(
            """
            def test_broken(evalcheck_unchanged):
                first, second = {"n": 1}, {"n": 1}
                evalcheck_unchanged(first, name="first")
                evalcheck_unchanged(second, name="second")
                first["n"] = second["n"] = 2
            """,
            name="test_example.py",
            header="",
        )
        project.run(code=1, evalcheck=False).shows("first['n']: 1 became 2", "second['n']: 1 became 2")

    def test_the_guard_brings_no_torch_into_a_test_without_tensors(self, pytester: pytest.Pytester) -> None:
        pytester.makeconftest(
            "import json, sys\n"
            "def pytest_unconfigure(config):\n"
            "    with open('modules.json', 'w') as out: json.dump(sorted(sys.modules), out)"
        )
        pytester.makepyfile("def test_one(evalcheck_unchanged): evalcheck_unchanged([1])")
        pytester.runpytest_subprocess("-p", "no:hypothesispytest", "-p", "no:randomly").assert_outcomes(passed=1)
        loaded = set(json.loads((pytester.path / "modules.json").read_text()))
        assert "pytest_evalcheck.guard" in loaded
        assert not loaded & {"torch", "hypothesis", "pytest_evalcheck.integration.session"}
