from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_evalcheck import fixes

FOLDER = Path(fixes.__file__).parent


@pytest.mark.parametrize(
    ("imports", "loaded"),
    [
        ("import pytest_evalcheck.fixes", []),
        ("import pytest_evalcheck.fixes.scoring", []),
        ("from pytest_evalcheck.fixes import WeightedMean", ["torch"]),
        ("import pytest_evalcheck.fixes.devices", ["torch"]),
    ],
)
def test_importing_the_fixes_loads_torch_at_most(imports: str, loaded: list[str]):
    program = (
        f"import sys\n{imports}\n"
        "print(sorted({'torch', 'pytest', '_pytest', 'hypothesis', 'torchmetrics'} & set(sys.modules)))"
    )
    environment = {**os.environ, "PYTHONPATH": str(FOLDER.parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=environment,
        cwd=os.sep,
        timeout=120,
    )
    assert (done.stdout.strip(), done.stderr) == (repr(loaded), "")


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.py")), ids=lambda file: file.stem)
def test_the_fixes_import_nothing_but_torch_the_standard_library_and_each_other(file: Path):
    allowed = {"torch", *sys.stdlib_module_names}
    for node in ast.walk(ast.parse(file.read_text())):
        for name in imported(node):
            ours = name in ("pytest_evalcheck.fixes", "pytest_evalcheck.errors") or name.startswith(
                "pytest_evalcheck.fixes."
            )
            assert ours or name.split(".")[0] in allowed, f"{file.name} imports {name}"


def imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return ["." * node.level + (node.module or "")]
    return []
