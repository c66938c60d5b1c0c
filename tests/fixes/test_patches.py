"""Patches: each mends what its test shows, is undone, and is refused where it cannot be applied."""

from __future__ import annotations

import copy
import importlib.metadata
import json
import pickle
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest

from pytest_evalcheck import upstream
from pytest_evalcheck.__main__ import main
from pytest_evalcheck.fixes import PatchError, patched
from pytest_evalcheck.fixes.patches import applying
from pytest_evalcheck.fixes.patches.editing import edited
from pytest_evalcheck.fixes.patches.patch import Library, append, begin, body, put_after, replace

ALL = [(library, patch) for library in applying.all_libraries() for patch in library.patches]
CACHE = "torchmetrics-compute-returns-its-cache"
COMPILED = """
import torch
from torchmetrics.aggregation import SumMetric
from pytest_evalcheck.fixes import patched

def merged(value):
    one, other = SumMetric(), SumMetric()
    one.update(value)
    one.compute()
    other.update(value)
    one.merge_state(other)
    return one.compute()

compiled = torch.compile(merged, backend="eager")
assert compiled(torch.tensor(2.0)) == 2
with patched("torchmetrics"):
    assert compiled(torch.tensor(2.0)) == 4
"""


@pytest.mark.parametrize("library", applying.all_libraries(), ids=lambda library: library.name)
class TestEveryPatch:
    @pytest.mark.slow(every=4)
    def test_mends_what_its_test_shows_is_undone_and_its_diff_applies(self, library: Library) -> None:
        if why := applying.why_not_tested(library):
            pytest.skip(why)
        command = [sys.executable, "-W", "ignore", str(Path(__file__).parent / "patch_proof.py"), library.name]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr[-2000:]
        found = json.loads(ended.stdout)
        assert not found["problems"]
        assert len(found["proved"]) + len(found["left"]) == len(library.patches)
        assert found["proved"] or not library.patches

    def test_mends_registered_faults(self, library: Library) -> None:
        faults = [(name, upstream.find(name)) for patch in library.patches for name in patch.mends]
        assert not [name for name, fault in faults if fault is None or fault.library != library.name]


def test_no_fault_is_mended_twice_and_ids_are_unique() -> None:
    mended = [fault for _, patch in ALL for fault in patch.mends]
    assert len(mended) == len(set(mended))


class TestApplying:
    def test_objects_of_before_and_names_of_before_are_patched_too(self) -> None:
        from torchmetrics.aggregation import SumMetric

        one, other = SumMetric(), SumMetric()
        one.update(1.0)
        other.update(2.0)
        one.compute()
        with patched("torchmetrics"):
            one.merge_state(other)
            assert one.compute() == 3

    def test_nests_and_a_second_undo_does_nothing(self) -> None:
        from torchmetrics.metric import Metric

        own = Metric._wrap_compute.__code__
        outer = patched("torchmetrics", only=[CACHE])
        inner = patched("torchmetrics", only=[CACHE])
        inner.undo()
        inner.undo()
        assert Metric._wrap_compute.__code__ is not own
        outer.undo()
        assert Metric._wrap_compute.__code__ is own

    def test_threads_apply_and_undo(self) -> None:
        from torchmetrics.metric import Metric

        own = Metric._wrap_compute.__code__
        errors: list[Exception] = []

        def apply_many() -> None:
            try:
                for _ in range(20):
                    with patched("torchmetrics", only=[CACHE]):
                        assert Metric._wrap_compute.__code__ is not own
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=apply_many) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors
        assert Metric._wrap_compute.__code__ is own

    def test_objects_are_copied_and_pickled(self) -> None:
        from torchmetrics.aggregation import SumMetric

        with patched("torchmetrics"):
            metric = SumMetric()
            metric.update(2.0)
            for again in (copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))):
                again.compute().add_(1)
                assert again.compute() == 2
            stored = pickle.dumps(metric)
        assert pickle.loads(stored).compute() == 2

    @pytest.mark.slow
    def test_a_function_that_is_compiled_has_the_patch(self) -> None:
        # In a process of its own: a test may have imported modules of sympy, which the compiler uses, a second time.
        ended = subprocess.run([sys.executable, "-c", COMPILED], capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr[-2000:]

    def test_an_import_of_the_fixes_imports_no_library(self) -> None:
        code = "import sys, pytest_evalcheck.fixes.patches.applying as a; a.all_libraries(); a.patch_of('x')\n"
        code += "print({'torchmetrics', 'transformers', 'lm_eval', 'keras', 'pytest', 'hypothesis', 'torch'} & {*sys.modules})"
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert ended.stdout.strip() == "set()"


class TestRefusals:
    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            (
                ("torchmetric",),
                "no patches of 'torchmetric' are known.*, pytorch-ignite, .*did you mean 'torchmetrics'",
            ),
            ((None,), "no patches of None are known"),
            (("torchmetrics", [3]), "no patch of torchmetrics mends 3"),
            (("torchmetrics", [CACHE + "s"]), f"mends '{CACHE}s'; did you mean '{CACHE}'"),
            (("torchmetrics", CACHE), "is a text; expected a list of ids"),
        ],
    )
    def test_unknown_names(self, arguments: tuple[Any, ...], text: str) -> None:
        with pytest.raises(PatchError, match=text):
            patched(arguments[0], only=arguments[1] if len(arguments) > 1 else None)

    def test_another_release(self, monkeypatch: pytest.MonkeyPatch) -> None:
        importlib.import_module("torchmetrics.metric")  # which looks at versions of its own
        monkeypatch.setattr("importlib.metadata.version", lambda _: "99.0")
        with pytest.raises(
            PatchError, match=f"tested from 1.9 and before 1.10, and 99.0 is installed; missing='warn'.*{CACHE}"
        ):
            patched("torchmetrics", only=[CACHE])
        with (
            pytest.warns(UserWarning, match="99.0 is installed"),
            patched("torchmetrics", only=[CACHE], missing="warn") as done,
        ):
            assert done.ids == (CACHE,)

    def test_a_library_that_is_not_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def missing(_: str) -> str:
            raise importlib.metadata.PackageNotFoundError

        monkeypatch.setattr("importlib.metadata.version", missing)
        with pytest.raises(PatchError, match="it is not installed"):
            patched("torchmetrics", missing="warn")

    def test_a_function_that_somebody_else_replaced(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from torchmetrics.metric import Metric

        own = Metric.merge_state
        monkeypatch.setattr(Metric, "merge_state", lambda self, other: own(self, other))
        with pytest.raises(
            PatchError,
            match=r"Metric.merge_state was replaced by other code, .*test_patches.*\(.*test_patches.py:\d+\)",
        ):
            patched("torchmetrics", only=["torchmetrics-merge-state-keeps-the-cached-value"])

    def test_a_function_that_somebody_else_replaced_while_it_was_patched(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from torchmetrics.metric import Metric

        merging = "torchmetrics-merge-state-keeps-the-cached-value"
        own, code = Metric.merge_state, Metric.merge_state.__code__
        with patched("torchmetrics", only=[merging]):
            monkeypatch.setattr(Metric, "merge_state", lambda self, other: None)
            with pytest.raises(PatchError, match=r"merge_state was replaced by other code, .*test_patches.py:\d+\)"):
                patched("torchmetrics", only=[merging])
            assert own.__code__ is not code
        assert own.__code__ is code

    def test_a_source_that_is_not_available(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(importlib.import_module("torchmetrics.metric"), "__loader__", None)
        text = "the source of torchmetrics.metric is not available, so that no patch can edit it"
        with pytest.raises(PatchError, match=f"the patch {CACHE} cannot be applied: {text}"):
            patched("torchmetrics", only=[CACHE])
        assert main(["fixes", "torchmetrics", "--write", str(tmp_path)]) == 1
        assert f"no diff of {CACHE}: {text}" in capsys.readouterr().err

    def test_what_was_applied_is_undone_where_a_later_patch_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from torchmetrics.metric import Metric

        own = Metric._wrap_compute.__code__
        monkeypatch.setattr(Metric, "merge_state", lambda self, other: None)
        with pytest.raises(PatchError):
            patched("torchmetrics", only=[CACHE, "torchmetrics-merge-state-keeps-the-cached-value"])
        assert Metric._wrap_compute.__code__ is own

    def test_lines_that_are_not_there(self) -> None:
        with pytest.raises(PatchError, match="does not have the line that is edited: 'no such line'"):
            edited("torchmetrics.metric", {"Metric.merge_state": (replace("no such line", ""),)})
        with pytest.raises(PatchError, match="has 2 times the line that is edited: 'x = 1'"):
            edited("colorsys", {"rgb_to_hls": (begin("x = 1"), begin("x = 1"), replace("x = 1", ""))})
        with pytest.raises(PatchError, match=r"colorsys has no rgb_to_cmyk"):
            edited("colorsys", {"rgb_to_cmyk": (begin("pass"),)})


class TestEdits:
    def test_every_kind_of_edit(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "edited_library.py").write_text(
            textwrap.dedent(
                """
                class Base:
                    def name(self): return "base"

                class Mean(Base):
                    def value(self, numbers):
                        \"\"\"Docstring.\"\"\"
                        total = sum(numbers)
                        if total:
                            total = total / len(numbers)
                        return total

                def double(number):
                    return number
                """
            )
        )
        monkeypatch.syspath_prepend(tmp_path)
        text = edited(
            "edited_library",
            {
                "Mean.value": (
                    begin("numbers = list(numbers)"),
                    put_after("total = total /", "total += 0"),
                    replace("if total", "if numbers"),
                ),
                "Mean": (append("def name(self):\n    return super().name() + 'd'"),),
                "double": (body("return 2 * number"),),
                "": (append("LAST = double(2)"),),
            },
        )
        made: dict[str, Any] = {}
        exec(compile(text, "edited", "exec"), made)
        assert made["Mean"]().value(iter([1.0, 3.0])) == 2
        assert made["Mean"]().name() == "based"
        assert made["LAST"] == 4


class TestPullRequests:
    def test_files_of_every_patch(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["fixes", "torchmetrics", "--write", str(tmp_path / "out")]) == 0
        written = {path.name for path in (tmp_path / "out").iterdir()}
        assert {f"{CACHE}{end}" for end in (".diff", ".md", ".py")} <= written
        test = tmp_path / "out" / "test_torchmetrics_compute_returns_its_cache.py"
        assert "def test_torchmetrics_compute_returns_its_cache():" in test.read_text()
        assert capsys.readouterr().out.count(".diff") == len(applying.load("torchmetrics").patches)

    def test_bad_input(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "file").write_text("")
        assert main(["fixes", "torchmetrics", "--write", str(tmp_path / "file")]) == 4
        assert main(["fixes", "torchmetric"]) == 4
        assert main(["fixes", "--write", "x"]) == 4
        errors = capsys.readouterr().err
        assert "did you mean 'torchmetrics'" in errors
        assert "--write needs a library" in errors
        assert "file is a file; expected a folder for the diffs" in errors


TARGET = """
import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es
from torchmetrics.regression import MeanSquaredError


@ec.metric(inputs=es.regression())
def mse():
    return MeanSquaredError()
"""


class TestRunsWithPatches:
    def test_what_is_known_passes_with_its_patch_and_says_so_without(self, pytester: pytest.Pytester) -> None:
        pytester.makepyfile(evalcheck_patches=TARGET)
        arguments = ["--evalcheck", "--evalcheck-select=EC234", "--evalcheck-effort=quick"]
        plain = pytester.runpytest_subprocess(*arguments)
        plain.stdout.fnmatch_lines(
            ["*mended by pytest_evalcheck.fixes.patched('torchmetrics')*", "*evalcheck: ok: 1 known*"]
        )
        pytester.runpytest_subprocess(*arguments, "--evalcheck-patched").stdout.fnmatch_lines(
            ["*evalcheck: ok: 1 passed*"]
        )
