"""Figures of the package's structure beside their budgets: lines by folder, files that a check reaches, options, words.

``python benchmarks/house.py`` prints them, and exits 1 where a figure is above its budget in ``benchmarks/house.toml``;
``--before FOLDER`` adds those of another checkout, ``--pages`` the words of each page of the site. A module of checks
reaches every file of the rooms of the kinds that it imports, directly or through others, in functions too: the files
that a reader opens to understand a check. Files that all of them use (comparisons, guard, strategies) are not counted.
"""

from __future__ import annotations

import argparse
import ast
import functools
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
BUDGETS = Path(__file__).with_suffix(".toml")
ROOMS = ("checks", "kinds", "subjects", "strategies/cases")
"""The folders of checks, subjects and cases, in the layout of today and in the one before it."""
KINDS = ("metric", "wrapper", "decoder", "scorer", "loop", "task", "engine", "device")


def imports(path: Path, package: Path) -> set[Path]:
    """Return the files of the package that a file imports; packages count where they hold code."""
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
    """Return the files that a file reaches, without itself."""
    seen, todo = {start}, [start]
    while todo:
        new = imports(todo.pop(), package) - seen
        seen |= new
        todo += new
    return seen - {start}


def in_a_room(path: Path, package: Path) -> bool:
    """Return whether a file belongs to the checks, the subjects or the cases."""
    return path.relative_to(package).as_posix().startswith(tuple(f"{room}/" for room in ROOMS))


def checks(package: Path) -> dict[str, list[Path]]:
    """Return the modules of checks by kind, in the layout of today and in the one before it."""
    rooms = package / "kinds"
    if rooms.is_dir():
        return {kind: sorted((rooms / kind).glob("checks*.py")) for kind in KINDS}
    flat = package / "checks"
    return {kind: sorted(flat.glob(f"{kind}_*.py")) or sorted(flat.glob(f"{kind}s.py")) for kind in KINDS}


@functools.cache
def figures(root: Path) -> dict[str, int]:
    """Return every figure by its name."""
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
    made["options"] = len(
        re.findall(r'addoption\(\s*"--evalcheck', (package / "plugin.py").read_text(encoding="utf-8"))
    )
    folders: Counter[str] = Counter()
    for path, count in lines.items():
        parts = path.relative_to(package).parts
        folders[parts[0] if len(parts) > 1 else "(root)"] += count
        if parts[0] == "kinds" and len(parts) > 2:
            folders["/".join(parts[:2])] += count
    made |= {f"lines, {folder}": count for folder, count in sorted(folders.items())}
    made["lines, all"] = sum(lines.values())
    texts = [text for _, text in docstrings(package)]
    made["docstrings, percent that begin with a verb or a noun"] = 100 - 100 * sum(map(begins_badly, texts)) // len(
        texts
    )
    made["lines of README.md"] = len((root / "README.md").read_text(encoding="utf-8").splitlines())
    words: Counter[str] = Counter()
    for group, count in pages(root).values():
        words[group] += count
    made |= {f"words, {group}": count for group, count in words.items()}
    made["words, all pages"] = sum(words.values())
    return made


def pages(root: Path) -> dict[str, tuple[str, int]]:
    """Return the group in the navigation of the site and the number of words of each page of ``docs/``.

    A word is what stands between blanks and has a letter or a digit, code and tables included.
    """
    made, group = {}, ""
    for line in (root / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2].splitlines():
        top, name = re.match(r"  - (.+?):", line), re.search(r"([\w./-]+\.md)$", line)
        group = top[1] if top else group
        file = root / "docs" / name[1] if name else root
        if file.is_file():
            # The hook of the site adds the pages of checks to their list.
            read = file.parent.glob("*.md") if file.name == "README.md" else [file]
            words = [word for page in read for word in page.read_text(encoding="utf-8").split()]
            made[file.relative_to(root).as_posix()] = group, sum(bool(re.search(r"\w", word)) for word in words)
    return made


_NO_BEGINNING = {"What", "That", "Of", "Those", "So", "Whether", "How", "Which", "Where", "Why", "When", "As"}
"""First words of a docstring that is neither a sentence with a verb nor a noun phrase."""
_NO_NAME = re.compile(
    "a|about|above|across|after|against|along|among|an|and|around|as|at|before|behind|below|beneath|beside|between"
    "|beyond|but|by|down|during|each|either|every|except|few|for|from|how|if|in|inside|into|it|its|like|many|neither|no"
    "|none|nor|of|off|on|one|or|other|out|outside|over|own|per|same|since|so|some|such|than|that|the|their|them|then"
    "|these|they|this|those|through|to|toward|under|until|up|upon|via|what|when|where|whether|which|while|who|whose|why"
    "|with|within|without"
)
"""Prepositions, articles, pronouns and conjunctions."""
_USUAL = {"of", "to"}
"""The usual names of a second constructor, and of what moves an object to a device."""


def begins_badly(docstring: str) -> bool:
    """Return whether a docstring begins with neither a verb nor a noun.

    >>> begins_badly("What is left."), begins_badly("Return what is left."), begins_badly("Asked questions.")
    (True, False, False)
    """
    return (docstring.split() or [""])[0].rstrip(",.:;") in _NO_BEGINNING


def is_no_name(name: str) -> bool:
    """Return whether the name of a function is made of prepositions alone, or is a genitive.

    >>> [is_no_name(name) for name in ("_with_the", "of_pair", "with_model_cache", "of", "_", "__and__")]
    [True, True, False, False, False, False]
    """
    parts = [part for part in name.split("_") if part]
    if not parts or name.startswith("__") or (len(parts) == 1 and name in _USUAL):
        return False
    return parts[0] == "of" or all(map(_NO_NAME.fullmatch, parts))


def docstrings(folder: Path) -> Iterator[tuple[Path, str]]:
    """Return the docstrings of modules, classes, functions and attributes, with their files."""
    for path, node in _nodes(folder):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            if text := ast.get_docstring(node):
                yield path, text
            for before, after in zip(node.body, node.body[1:], strict=False):
                value = after.value if isinstance(after, ast.Expr) else None
                documented = isinstance(before, (ast.Assign, ast.AnnAssign)) and isinstance(value, ast.Constant)
                if documented and isinstance(value.value, str):  # type: ignore[union-attr]
                    yield path, value.value  # type: ignore[union-attr]


def functions(folder: Path) -> Iterator[tuple[Path, str]]:
    """Return the names of functions and methods, with their files; those of targets say what is evaluated."""
    for path, node in _nodes(folder):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if not (path.parent.name == "targets" and node.decorator_list):
            yield path, node.name


def _nodes(folder: Path) -> Iterator[tuple[Path, ast.AST]]:
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            yield path, node


def budgets(file: Path) -> dict[str, int]:
    """Return the budget of each figure that has one, by its name."""
    import tomllib

    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    return {f"{topic}, {name}" if name else topic: most for topic, of in tables.items() for name, most in of.items()}


@functools.cache
def layers() -> int:
    """Return the number of layers of the architecture test; a folder of kinds is no layer."""
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
    parser.add_argument("--pages", action="store_true", help="the words of each page of docs, by its group")
    parser.add_argument("--budgets", type=Path, default=BUDGETS, help="the file of budgets")
    parser.add_argument("--smoke", action="store_true", help="the same: it ends within seconds")
    given = parser.parse_args(arguments)
    now = {**figures(ROOT), "layers": layers()}
    before = figures(given.before) if given.before else {}
    most = budgets(given.budgets)
    over = [name for name, budget in most.items() if now.get(name, 0) > budget]
    print(f"{'':52} {'before':>8} {'now':>8} {'budget':>8}")
    for name in dict.fromkeys([*now, *before]):
        mark = "  above its budget" if name in over else ""
        print(f"{name:52} {before.get(name, ''):>8} {now.get(name, ''):>8} {most.get(name, ''):>8}{mark}")
    if given.pages:
        for page, (group, count) in sorted(pages(ROOT).items(), key=lambda each: (each[1][0], -each[1][1])):
            print(f"{group:12} {page:39} {count:>8}")
    unknown = sorted(most.keys() - now.keys())
    for name in unknown:
        print(f"{given.budgets.name} has a budget of {name!r}, which is no figure")
    return int(bool(over or unknown))


if __name__ == "__main__":
    sys.exit(main())
