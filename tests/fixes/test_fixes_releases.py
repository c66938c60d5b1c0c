"""A release of a library that a fix does not know: a sentence, as an error where the fix cannot work."""

from __future__ import annotations

import importlib.metadata
import re
import sys
import warnings
from pathlib import Path

import pytest

from pytest_evalcheck.fixes.releases import KNOWN, known_release

ROOT = Path(__file__).parents[2]


@pytest.fixture
def installed(monkeypatch):
    return lambda version: monkeypatch.setattr(importlib.metadata, "version", lambda _: version)


@pytest.mark.parametrize("version", ["5.0.0", "5.23.0", "5.99.1"])
def test_nothing_is_said_of_a_release_that_is_known(installed, version):
    installed(version)
    with warnings.catch_warnings(), known_release("transformers", "ResizableStaticCache"):
        warnings.simplefilter("error")


@pytest.mark.parametrize("version", ["4.57.1", "6.0.0", "6.0.0.dev0"])
def test_a_release_that_is_not_known_is_a_warning(installed, version):
    installed(version)
    said = f"ResizableStaticCache knows transformers from 5 and before 6, and {version} is installed; its results were"
    with pytest.warns(UserWarning, match=re.escape(said)), known_release("transformers", "ResizableStaticCache"):
        pass


def test_a_name_that_a_release_lacks_is_an_error_that_names_the_releases(installed):
    installed("4.40.0")
    said = (
        "StaticCache knows transformers from 5 and before 6, and 4.40.0 is installed, which lacks what it needs: cannot"
    )
    with pytest.raises(ImportError, match=re.escape(said)), known_release("transformers", "StaticCache"):
        from json import CacheLayerMixin  # noqa: F401


def test_a_library_that_is_missing_is_named_by_its_import():
    said = r"^No module named 'mosaicml_missing'$"
    with pytest.raises(ModuleNotFoundError, match=said), known_release("mosaicml", "HuggingFaceModel"):
        import mosaicml_missing  # noqa: F401


def test_a_fix_says_it_where_it_is_imported(installed, monkeypatch):
    pytest.importorskip("transformers")
    from pytest_evalcheck.fixes import caches

    installed("6.1.0")
    monkeypatch.delitem(sys.modules, "pytest_evalcheck.fixes.caches.transformers_cache", raising=False)
    monkeypatch.delitem(vars(caches), "ResizableStaticCache", raising=False)
    with pytest.warns(UserWarning, match="knows transformers from 5 and before 6, and 6.1.0 is installed"):
        assert caches.ResizableStaticCache


def test_the_known_releases_are_those_that_the_project_installs():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for library, (first, end) in KNOWN.items():
        required = re.findall(rf'"{library}>=([\d.]+)(?:,<([\d.]+))?"', text)
        assert required, library
        assert all(least == first and most in ("", end) for least, most in required), library
