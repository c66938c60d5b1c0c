"""A plugin of pytest for runs over old releases: what targets and the registry say of the newest one holds for any.

Targets are tried whatever release they require. Entries of known failures name a case of the newest release, which must
fail; an older one may lack the fault. So they are left out, and the registry of upstream faults says what is known, by
the signature alone and for every release of the library. What has another signature is red.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import pytest_evalcheck as ec
from pytest_evalcheck import upstream


def pytest_configure() -> None:
    """Let the faults of the registry be known in every release."""
    registry = upstream._registry()
    for name, fault in registry.items():
        registry[name] = replace(fault, versions=">=0")


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(obj: object) -> None:
    """Take from a target what is said of the newest release."""
    if isinstance(obj, ec.Target):
        _set(obj, "requires", tuple(ec_name(text) for text in obj.requires))
        _set(obj, "known_failures", {})


def ec_name(text: str) -> str:
    """The distribution that is required, without its versions."""
    from packaging.requirements import Requirement

    return Requirement(text).name


def _set(target: ec.Target, field: str, value: Any) -> None:
    object.__setattr__(target, field, value)  # a target does not change: in an ordinary run
