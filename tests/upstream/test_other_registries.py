"""Registries beside the one of the package: what they replace, which errors they give, and which targets they are for."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_evalcheck import upstream
from pytest_evalcheck.errors import UsageError
from pytest_evalcheck.upstream import Fault

ENTRY = {"id": "x-y", "reason": "why", "finding": "", "signatures": ["EC201: after-a: NaN"]}


@pytest.fixture(autouse=True)
def _only_here(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(upstream, "_added", {})
    yield
    monkeypatch.undo()
    upstream._registry.cache_clear()
    upstream._packages.cache_clear()


def written(folder: Path, data: Any) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "x.json").write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return folder


def file_of(*entries: Any) -> dict[str, Any]:
    return {"library": "x", "versions": "==1.*", "faults": [*entries]}


def test_an_entry_is_added_or_takes_the_place_of_one_with_its_id(tmp_path: Path) -> None:
    first, count = upstream.faults()[0], len(upstream.faults())
    written(tmp_path / "more", file_of(ENTRY, {**ENTRY, "id": first.id, "library": first.library, "reason": "other"}))
    upstream.add_registry("more", tmp_path)
    found = upstream.find(first.id)
    assert found is not None
    assert (found.reason, len(upstream.faults())) == ("other", count + 1)
    assert upstream.find("x-y") == Fault(
        library="x", versions="==1.*", **{**ENTRY, "signatures": ("EC201: after-a: NaN",)}
    )


def test_a_package_is_imported_from_where_it_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "our_registry", file_of(ENTRY))
    monkeypatch.syspath_prepend(str(tmp_path))
    upstream.add_registry("our_registry", tmp_path / "elsewhere")
    assert upstream.find("x-y") is not None


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("{", "x.json is not JSON: "),
        ("[]", "x.json: expected an object with library, versions, faults, not list"),
        ({"library": "x", "version": "1", "faults": []}, "no field 'version'; did you mean 'versions'?"),
        ({"library": "x", "versions": "==1.*"}, "x.json: the field 'faults' is missing"),
        (file_of({**ENTRY, "clases": []}), "x.json, x-y: there is no field 'clases'; did you mean 'classes'?"),
        (file_of({"id": "x-y"}), "x.json, x-y: the field 'signatures' is missing"),
        (file_of("x-y"), "x.json, fault 1: expected an object with "),
    ],
)  # fmt: skip
def test_a_file_that_is_none_of_a_registry_is_named(tmp_path: Path, data: Any, said: str) -> None:
    written(tmp_path / "more", data)
    with pytest.raises(UsageError) as error:
        upstream.add_registry("more", tmp_path)
    assert said in str(error.value)


def test_no_folder_and_no_package(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no package 'nowhere'; expected one with JSON files"):
        upstream.add_registry("nowhere", tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="has no JSON file"):
        upstream.add_registry("empty", tmp_path)


def test_a_fault_applies_by_its_releases() -> None:
    fault = Fault(id="pytest-x", library="pytest", versions="==1.*", reason="", finding="", signatures=("EC201: a",))
    installed = fault.installed
    assert (fault.unverified, fault.applies(strict=False), fault.applies(strict=True)) == (
        f"unverified for pytest {installed}",
        True,
        False,
    )
    verified = replace(fault, versions=f"=={installed}")
    assert (verified.unverified, verified.applies(strict=True)) == ("", True)
    for mended in (installed, "1.0"):
        gone = replace(fault, mended=mended)
        assert (gone.unverified, gone.applies(strict=False)) == ("", False)
    assert replace(fault, mended="999").applies(strict=False)
    absent = replace(fault, library="no-such-distribution")
    assert (absent.unverified, absent.applies(strict=False)) == ("", False)


TARGET = """
import torchmetrics
import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es


@ec.metric(inputs=es.binary())
def accuracy():
    return torchmetrics.classification.BinaryAccuracy()
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project whose registry has the faults of torchmetrics for another release, EC234 without a class."""
    pytest.importorskip("torchmetrics")
    data = json.loads((upstream.FOLDER / "torchmetrics.json").read_text(encoding="utf-8"))
    for fault in data["faults"]:
        fault["versions"] = "==1.8.*"
        if any(signature.startswith("EC234") for signature in fault["signatures"]):
            fault |= {"classes": [], "owner_of": [], "versions": data["versions"]}
    written(pytester.path / "faults", data)
    pytester.makeini("[pytest]\nevalcheck_registry = faults\n")
    pytester.makepyfile(evalcheck_other=TARGET)
    return pytester


def run(project: pytest.Pytester, codes: str, *options: str) -> pytest.RunResult:
    return project.runpytest_subprocess(
        "--evalcheck", f"--evalcheck-select={codes}", "--evalcheck-device=cpu", "-p", "no:randomly", *options
    )


def test_a_run_reads_the_registry_of_its_ini_file(project: pytest.Pytester) -> None:
    result = run(project, "EC219")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*known upstream, unverified for*", "*evalcheck: ok: 1 known*"])


@pytest.mark.parametrize("way", ["supervised", "isolated"])
@pytest.mark.slow(every=2)
def test_strict_versions_fail(project: pytest.Pytester, way: str) -> None:
    result = run(project, "EC219", "--evalcheck-strict-versions", f"--evalcheck-run={way}")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*Note: the upstream fault torchmetrics-compute-returns-its-cache is recorded for*"])


def test_a_fault_without_classes_is_named_on_the_failure(project: pytest.Pytester) -> None:
    result = run(project, "EC234")
    assert result.ret == 1
    result.stdout.fnmatch_lines(['*known_failures={"EC234": ec.KnownFailure(upstream="torchmetrics-*")}.*'])


def test_a_registry_that_is_not_there_ends_the_run(project: pytest.Pytester) -> None:
    result = run(project, "EC219", "-o", "evalcheck_registry=nowhere")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*evalcheck_registry = nowhere: there is no folder *"])
