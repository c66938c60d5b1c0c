"""Names of a package that import their module on first access."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from pytest_evalcheck.errors import missing_attribute


def lazy_exports(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], list[str]]:
    """Return ``__getattr__`` and ``__all__`` of a package; ``modules`` gives the names of each submodule."""
    homes = {name: module for module, names in modules.items() for name in names.split()}
    return lazily(package, homes), sorted(homes)


def lazily(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package; ``homes`` maps each name to the submodule that defines it."""

    def get(name: str) -> Any:
        if name not in homes:
            raise missing_attribute(package, name, homes)
        value = getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return get
