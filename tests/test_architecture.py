"""The layers of ARCHITECTURE.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Container
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "pytest_evalcheck"

LAYERS = (
    ("errors", "live_objects"),
    ("devices", "fixes", "upstream"),
    ("reports",),
    ("expectations", "strategies"),
    ("guard", "learning", "variants"),
    ("kinds",),
    ("adapters",),
    ("targets",),
    ("engine",),
    ("discovery", "scripts"),
    ("integration",),
    ("plugin", "testing", "__main__"),
)
"""From the bottom up. A module imports from its own package and from the layers below it."""
BELOW = {
    package: {other for lower in LAYERS[:height] for other in lower}
    for height, layer in enumerate(LAYERS)
    for package in layer
}
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def _layer(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def _imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = (
                [node.module] if node.module != "pytest_evalcheck" else [f"{node.module}.{a.name}" for a in node.names]
            )
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("pytest_evalcheck.")}
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_arrows_point_one_way(path: Path) -> None:
    layer = _layer(path)
    assert _imported(path) - {layer} <= BELOW[layer]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_text_names_a_higher_layer(path: Path) -> None:
    """A name that is imported later, or shown to a reader, is a dependency as well."""
    layer = _layer(path)
    named = {
        name
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for name in re.findall(rf"{PACKAGE.name}[./](\w+)", node.value)
    }
    assert named & set(BELOW) - {layer} <= BELOW[layer]


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports in functions and for types are counted: who reads a module must not come back to it."""
    names = {_name(path): path for path in MODULES}
    left = {name: _modules(path, names) - {name} for name, path in names.items()}
    while left:
        leaves = {name for name, imported in left.items() if not imported & set(left)}
        assert leaves, f"a circle among {sorted(left)}"
        left = {name: imported for name, imported in left.items() if name not in leaves}


def _name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _modules(path: Path, names: Container[str]) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            submodules = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {name if name in names else node.module for name in submodules}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name in names}


def test_every_layer_is_there() -> None:
    assert {_layer(path) for path in MODULES} == set(BELOW)


def test_only_the_plugin_side_knows_pytest_and_only_fixes_stand_alone() -> None:
    for path in MODULES:
        imported = {
            name.split(".")[0]
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            for name in (
                [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else [a.name for a in node.names]
                if isinstance(node, ast.Import)
                else []
            )
        }
        if "pytest" in imported:
            # The simulated devices are a plugin by themselves, `-p pytest_evalcheck.devices`, without all that is above.
            assert (
                _layer(path) in {"engine", "integration", "plugin", "scripts", "testing"}
                or path.name == "pytest_plugin.py"
            )
        if _layer(path) == "fixes":
            assert not imported & {"pytest", "hypothesis"}


def test_no_check_names_a_library() -> None:
    for path in (PACKAGE / "kinds").glob("*/checks*.py"):
        code = "\n".join(line for line in path.read_text().splitlines() if "Fix:" not in line)
        assert not {"torchmetrics", "transformers", "composer", "sklearn", "lm_eval"} & set(
            code.replace(".", " ").split()
        )


def test_no_module_hides_a_public_name() -> None:
    import pytest_evalcheck as ec

    assert not {path.stem for path in PACKAGE.iterdir()} & set(ec.__all__)


def test_modules_that_are_imported_by_their_bare_name_have_names_of_their_own() -> None:
    """Modules of one name: the one that is imported depends on what else ran before, in workers of a cluster too."""
    root = PACKAGE.parent
    places = [root / "benchmarks", root / "docs", *sorted({path.parent for path in root.glob("tests/**/*.py")})]
    found: dict[str, list[str]] = {}
    for path in (path for place in places for path in place.glob("*.py")):
        if path.name not in ("conftest.py", "__init__.py"):
            found.setdefault(path.name, []).append(str(path.relative_to(root)))
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}
