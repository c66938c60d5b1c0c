"""The data of the registry of upstream faults."""

from __future__ import annotations

import importlib
import importlib.metadata
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
from packaging.specifiers import SpecifierSet

from pytest_evalcheck import upstream
from pytest_evalcheck.expectations import old_signatures
from pytest_evalcheck.kinds.registry import shipped
from pytest_evalcheck.upstream import FOLDER, Fault, faults, read_faults

ROOT = FOLDER.parent.parent
EACH = pytest.mark.parametrize("fault", faults(), ids=lambda fault: fault.id)


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^##+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def resolved(name: str) -> Any:
    """The class or function of a qualified name."""
    parts = name.split(".")
    for end in range(len(parts) - 1, 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            found = getattr(found, part)
        return found
    raise AssertionError(f"{name} cannot be imported")


def test_ids_are_unique_and_name_their_library() -> None:
    ids = [fault.id for path in FOLDER.glob("*.json") for fault in read_faults(path)]
    assert len(set(ids)) == len(ids)
    assert len(ids) == len(faults())
    assert all(fault.id.startswith(fault.library.replace("_", "-") + "-") for fault in faults())
    assert all(path.stem == fault.library for path in FOLDER.glob("*.json") for fault in read_faults(path))


@EACH
def test_a_fault_is_described(fault: Fault) -> None:
    page, _, anchor = fault.finding.partition("#")
    assert anchor in anchors(ROOT / "docs" / "findings" / page)
    assert re.fullmatch(r"[\w.-]+/[\w.-]+#\d+|", fault.see)
    assert fault.reason == " ".join(fault.reason.split())


@EACH
def test_signatures_begin_with_the_codes_of_checks(fault: Fault) -> None:
    codes = {made.code for made in shipped()}
    assert fault.signatures
    assert set(fault.codes) <= codes
    for signature in fault.signatures:
        assert re.fullmatch(r"EC\d{3}: \S.*", signature)
        assert fault.shows(signature.replace("*", "anything"))
        assert not old_signatures.problem(signature)


@EACH
def test_the_versions_are_a_closed_range(fault: Fault) -> None:
    clauses = SpecifierSet(fault.versions)
    assert any(clause.operator in ("==", "<", "<=") for clause in clauses)
    assert not any(clauses.contains(version) for version in ("0.0.1", "99.0"))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of a library that is imported
@EACH
def test_classes_and_methods_exist(fault: Fault) -> None:
    assert bool(fault.classes) or not fault.owner_of, "without a class no method is looked for"
    try:
        importlib.metadata.version(fault.library)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{fault.library} is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a library warns of when it is imported
        classes = [resolved(name) for name in fault.classes]
    named = [f"{made.__module__}.{made.__qualname__}" for made in classes]
    assert named == list(fault.classes), "a class is named by the module that defines it"
    are_classes = [isinstance(made, type) for made in classes]
    assert any(are_classes) == bool(fault.owner_of), "of a class it is said which methods are at fault"
    for method in fault.owner_of:
        assert any(hasattr(made, method) for made in classes)


def test_every_fault_is_shown_by_a_target_or_a_test() -> None:
    tests = Path(__file__).parent.glob("test_faults_of_*.py")
    paths = [
        *(ROOT / "fixtures" / "targets").glob("*.py"),
        ROOT / "tests" / "engine" / "test_known_upstream.py",
        *tests,
    ]
    sources = "".join(path.read_text(encoding="utf-8") for path in paths)
    unused = [fault.id for fault in faults() if f'"{fault.id}"' not in sources]
    assert not unused


def test_a_pattern_has_one_wildcard() -> None:
    fault = Fault(
        id="x-y",
        library="x",
        versions="==1.*",
        reason="why",
        finding="",
        signatures=("EC203: a-*: NaN [b]?", "EC204: d"),
    )
    assert fault.codes == ("EC203", "EC204")
    assert fault.shows("EC203: a-c: NaN [b]?")
    assert fault.shows("EC204: d")
    assert not fault.shows("EC203: a-c: NaN b")
    assert not fault.shows("EC204: d: NaN")


def test_the_nearest_id_is_named() -> None:
    name = faults()[0].id
    assert upstream.find(name) is faults()[0]
    assert upstream.find(name[:-1]) is None
    assert upstream.nearest_id(name[:-1]) == f"; did you mean {name!r}?"


def test_a_fault_of_the_class_comes_before_one_of_its_base() -> None:
    torchmetrics = pytest.importorskip("torchmetrics.clustering")
    signature = "EC210: after-rejected-forward: another number"
    found = upstream.match(signature, torchmetrics.AdjustedRandScore())
    assert found is not None
    assert found.id == "torchmetrics-clustering-keeps-malformed-batch"
    with_base_only = upstream.match(signature, importlib.import_module("torchmetrics.regression").R2Score())
    assert with_base_only is not None
    assert with_base_only.id == "torchmetrics-forward-resets-first"
