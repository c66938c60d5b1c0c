"""The dependency arrows of docs/design.md, and the size of files."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "pytest_evalcheck"

# What a module of each layer may import of ours; the order reads from the outside in.
MAY_IMPORT = {
    "plugin": {"axis", "devices", "explain", "guard", "session", "streams", "target", "variants"},
    "session": {"cell", "checks", "collect", "isolate", "options", "reports", "target"},
    "isolate": {"cell", "engine", "options", "plan", "reports", "subjects"},
    "collect": {"axis", "checks", "engine", "options", "plan", "screen", "select", "target"},
    "options": {"axis", "checks", "effort", "literals", "reports", "select", "target"},
    "standalone": {"axis", "cell", "effort", "engine", "literals", "plan", "screen", "select", "target"},
    "explain": {"checks", "target"},
    "select": {"checks", "target"},
    "engine": {
        "ambient",
        "axis",
        "building",
        "cell",
        "limits",
        "literals",
        "plan",
        "screen",
        "strategies",
        "subjects",
        "trial",
        "violation",
    },
    "trial": {"literals", "subjects", "violation"},
    "building": {"adapters", "ambient", "guard", "limits", "screen", "subjects", "target"},
    "plan": {"axis", "checks", "effort", "strategies", "subjects", "target"},
    "decorators": {"axis", "checks", "compare", "strategies", "target", "variants"},
    "axis": {"devices", "target"},
    "target": {"checks", "compare", "strategies", "variants"},
    "screen": {"checks", "literals", "violation"},
    "checks": {"ambient", "compare", "guard", "strategies", "subjects", "variants", "violation"},
    "adapters": {"subjects", "strategies"},
    "subjects": {"ambient", "compare", "guard", "strategies", "variants", "violation"},
    "variants": {"compare", "violation"},
    "strategies": set(),
    "violation": {"compare"},
    "streams": {"compare", "violation"},
    "guard": {"compare", "violation"},
    "compare": set(),
    "literals": set(),
    "limits": set(),
    "ambient": set(),
    "effort": set(),
    "reports": {"cell"},
    "cell": set(),
    "devices": set(),
    "fixes": set(),
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
    assert _imported(path) - {layer} <= MAY_IMPORT[layer]


def test_every_layer_is_there() -> None:
    assert {_layer(path) for path in MODULES} == set(MAY_IMPORT)


def test_the_arrows_have_no_circle() -> None:
    left = {layer: set(below) for layer, below in MAY_IMPORT.items()}
    while left:
        ends = {layer for layer, below in left.items() if not below & set(left)}
        assert ends, f"a circle among {sorted(left)}"
        left = {layer: below for layer, below in left.items() if layer not in ends}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_files_stay_small(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 330


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
            assert _layer(path) in {
                "plugin",
                "session",
                "isolate",
                "collect",
                "options",
                "explain",
                "engine",
                "building",
            }
        if _layer(path) == "fixes":
            assert not imported & {"pytest", "hypothesis"}


def test_no_check_names_a_library() -> None:
    for path in (PACKAGE / "checks").glob("*.py"):
        code = "\n".join(line for line in path.read_text().splitlines() if "Fix:" not in line)
        assert not {"torchmetrics", "transformers", "composer", "sklearn", "lm_eval"} & set(
            code.replace(".", " ").split()
        )


def test_no_module_hides_a_public_name() -> None:
    import pytest_evalcheck as ec

    assert not {path.stem for path in PACKAGE.iterdir()} & set(ec.__all__)
