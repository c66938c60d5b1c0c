"""benchmarks/registry.py: what follows for an entry from what is shown in another release."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from pytest_evalcheck.upstream import FOLDER, read_faults

ROOT = FOLDER.parent.parent


@pytest.fixture(scope="module")
def registry() -> ModuleType:
    spec = importlib.util.spec_from_file_location("another_release", ROOT / "benchmarks" / "registry.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["another_release"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("versions", "release", "expected"),
    [
        ("==1.9.*", "1.10.2", ">=1.9,<1.11"),
        ("==1.9.*", "1.9.4", "==1.9.*"),
        ("==0.4.13", "0.4.14", ">=0.4.13,<0.4.15"),
        (">=1.7.4,<1.10", "1.10.0", ">=1.7.4,<1.11"),
        (">=1.0,<1.10", "1.12.1", ">=1.0,<1.13"),
        ("==5.23.*", "6.0.0", ">=5.23,<6.1"),
        ("==1.9.*", "1.8.2", ">=1.8.2,<1.10"),
        ("==22.4", "23", ">=22.4,<24"),
    ],
)
def test_a_range_takes_a_release_in(registry: ModuleType, versions: str, release: str, expected: str) -> None:
    assert registry.widened(versions, release) == expected


def test_an_entry_is_there_mended_to_be_read_or_not_seen(registry: ModuleType) -> None:
    before = {
        "1": ("known", "there"),
        "2": ("known", "there"),
        "3": ("known", "mended"),
        "4": ("known", "changed"),
        "5": ("known", "gone"),
        "6": ("passed", ""),
        "7": ("known", "covered"),
    }
    after = {
        "1": ("known", "there"),
        "2": ("passed", ""),
        "3": ("passed", ""),
        "4": ("failed", ""),
        "6": ("known", "new there"),
        "7": ("known", "there"),
    }
    ids = ["there", "mended", "changed", "gone", "new there", "covered", "never"]
    found = {name: one.verdict for name, one in registry.judge(before, after, ids).items()}
    assert found == {
        "there": "as before",
        "mended": "mended",
        "changed": "to be read",
        "gone": "to be read",
        "new there": "as before",
        "covered": "to be read",
        "never": "not seen",
    }


def test_the_file_keeps_one_range_for_most_and_closes_what_is_mended(registry: ModuleType, tmp_path: Path) -> None:
    entry = {"reason": "why", "finding": "x.md#y", "signatures": ["EC203: value: another number"]}
    data = {
        "library": "x",
        "versions": "==1.9.*",
        "faults": [{"id": f"x-{name}", **entry} for name in ("a", "b", "mended", "unseen")],
    }
    verdicts = {"x-a": "as before", "x-b": "as before", "x-mended": "mended", "x-unseen": "not seen"}
    changed = registry.updated(data, verdicts, "1.10.0", {"x-mended": "o/x#7"})
    (tmp_path / "x.json").write_text(json.dumps(changed), encoding="utf-8")
    faults = {fault.id: fault for fault in read_faults(tmp_path / "x.json")}
    assert {name: (one.versions, one.mended, one.mended_by) for name, one in faults.items()} == {
        "x-a": (">=1.9,<1.11", "", ""),
        "x-b": (">=1.9,<1.11", "", ""),
        "x-mended": ("==1.9.*", "1.10.0", "o/x#7"),
        "x-unseen": ("==1.9.*", "", ""),
    }
    assert list(changed["faults"][2])[:2] == ["id", "versions"]
    assert registry.updated(data, {}, "1.10.0", {}) == data


def test_every_file_is_written_as_it_is_read(registry: ModuleType) -> None:
    for path in FOLDER.glob("*.json"):
        data = json.loads(path.read_text(encoding="utf-8"))
        assert registry.updated(data, {}, "99", {}) == data, path
        assert json.dumps(data, indent=2, ensure_ascii=False) + "\n" == path.read_text(encoding="utf-8"), path
