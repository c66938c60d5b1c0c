"""Figures of the package's structure: files that a check reaches, root modules, layers, lines by folder.

``python benchmarks/house.py`` prints them; ``--before FOLDER`` adds those of another checkout beside them. A module of
checks reaches every file of the rooms of the kinds that it imports, directly or through others, in functions too: what
a reader opens to understand a check. What all of them use (comparisons, guard, strategies) is not counted.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROOMS = ("checks", "kinds", "subjects", "strategies/cases")
"""The folders of checks, subjects and cases, in the layout of today and in the one before it."""
KINDS = ("metric", "wrapper", "decoder", "scorer", "loop", "device")


def imports(path: Path, package: Path) -> set[Path]:
    """The files of the package that a file imports; packages count where they hold code."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] != package.name or len(parts) == 1:
                continue
            file = package.joinpath(*parts[1:])
            candidates = (file.with_suffix(".py"), file / "__init__.py")
            found |= {candidate for candidate in candidates if candidate.is_file() and candidate.stat().st_size}
    return found


def reached(start: Path, package: Path) -> set[Path]:
    """The files that a file reaches, without itself."""
    seen, todo = {start}, [start]
    while todo:
        new = imports(todo.pop(), package) - seen
        seen |= new
        todo += new
    return seen - {start}


def in_a_room(path: Path, package: Path) -> bool:
    """Whether a file belongs to the checks, the subjects or the cases."""
    return path.relative_to(package).as_posix().startswith(tuple(f"{room}/" for room in ROOMS))


def checks(package: Path) -> dict[str, list[Path]]:
    """The modules of checks by kind, in the layout of today and in the one before it."""
    rooms = package / "kinds"
    if rooms.is_dir():
        return {kind: sorted((rooms / kind).glob("checks*.py")) for kind in KINDS}
    flat = package / "checks"
    return {kind: sorted(flat.glob(f"{kind}_*.py")) or sorted(flat.glob(f"{kind}s.py")) for kind in KINDS}


def figures(root: Path) -> dict[str, int]:
    """Every figure by its name."""
    package = root / "pytest_evalcheck"
    files = sorted(package.rglob("*.py"))
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    made: dict[str, int] = {}
    for kind, modules in checks(package).items():
        rooms = [{f for f in reached(module, package) if in_a_room(f, package)} for module in modules]
        most = max(map(len, rooms), default=0)
        made[f"files that a check reaches, {kind}"] = most
    made["modules at the root"] = len(list(package.glob("*.py")))
    made["files"] = len(files)
    folders: Counter[str] = Counter()
    for path, count in lines.items():
        parts = path.relative_to(package).parts
        folder = "/".join(parts[: 2 if parts[0] == "kinds" and len(parts) > 2 else 1]) if len(parts) > 1 else "(root)"
        folders[folder] += count
    made |= {f"lines, {folder}": count for folder, count in sorted(folders.items())}
    made["lines, all"] = sum(lines.values())
    return made


def layers() -> int:
    """How many layers the architecture test has; a folder of kinds is no layer."""
    tree = ast.parse((ROOT / "tests" / "test_architecture.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "LAYERS":
            assert isinstance(node.value, ast.Tuple)
            return len(node.value.elts)
    raise LookupError("tests/test_architecture.py has no LAYERS")


def main(arguments: list[str] | None = None) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="another checkout, to print beside this one")
    parser.add_argument("--smoke", action="store_true", help="the same: it ends within seconds")
    given = parser.parse_args(arguments)
    now = {**figures(ROOT), "layers": layers()}
    before = figures(given.before) if given.before else {}
    for name in dict.fromkeys([*now, *before]):
        print(f"{name:42} {before.get(name, ''):>8} {now.get(name, ''):>8}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
