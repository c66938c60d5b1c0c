"""The modules of simulated devices import one another in one direction, imports for types included."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import pytest_evalcheck

PACKAGE = Path(pytest_evalcheck.__file__).parent
NAME = "pytest_evalcheck.devices"
_BELOW = (
    "state asynchrony device_asserts stream_races race_reports queues memory_regions device_marks device_memory errors release "
    "ledger rules.unsupported_dtypes"
)


def imports_of_modules(folder: Path, name: str) -> dict[str, set[str]]:
    """The modules of a package, each with those of them that it imports, in any place of its code."""
    paths = {}
    for path in folder.rglob("*.py"):
        parts = path.relative_to(folder).with_suffix("").parts
        paths[".".join([name, *(part for part in parts if part != "__init__")])] = path
    found: dict[str, set[str]] = {module: set() for module in paths}
    for module, path in paths.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                assert not node.level, f"{path}: expected absolute imports"
                # `from a import b` imports the module a.b where there is one, else the name b of a
                names = [f"{node.module}.{alias.name}" for alias in node.names]
                names = [each if each in paths else str(node.module) for each in names]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                continue
            found[module] |= {each for each in names if each in paths}
    return found


def circle(imports: dict[str, set[str]]) -> list[str]:
    try:
        tuple(TopologicalSorter(imports).static_order())
    except CycleError as error:
        return list(error.args[1])
    return []


def test_there_is_no_circle() -> None:
    imports = imports_of_modules(PACKAGE / "devices", NAME)
    assert {f"{NAME}.state", f"{NAME}.modes.dispatch_mode"} <= imports[f"{NAME}.modes.function_mode"]
    assert circle(imports) == []


def test_handlers_and_patches_stand_on_the_shared_state() -> None:
    imports = imports_of_modules(PACKAGE / "devices", NAME)
    below = {f"{NAME}.{module}" for module in _BELOW.split()}
    for module in below:
        assert imports[module] <= below, module


@pytest.mark.parametrize(
    "source",
    [
        "from package.first import name",
        "import package.first",
        "from package import first",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from package.first import name",
        "def function():\n    from package.first import name",
    ],
)
def test_a_circle_is_found(tmp_path: Path, source: str) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "__init__.py").write_text("")
    (tmp_path / "first.py").write_text("from package.inner.second import name")
    (tmp_path / "inner" / "second.py").write_text(source)
    found = circle(imports_of_modules(tmp_path, "package"))
    assert set(found) == {"package.first", "package.inner.second"}
