"""Places where the package is mutated, by part, and the choice of those that are tried."""

from __future__ import annotations

import ast
import dataclasses
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cosmic_ray.plugins
import parso.python.tree
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator

SEED = "14"
# How many mutants of which files.
PARTS = {
    "checks": (85, ["kinds/[!d]*/checks*.py", "kinds/decoder/checks*.py"]),
    "subjects": (42, ["kinds/*/subject.py"]),
    "strategies": (36, ["strategies/*.py"]),
    "engine": (40, ["engine/*.py"]),
    "devices": (40, ["devices/rules/*.py", "kinds/device/*.py"]),
    "fixes": (60, ["fixes/**/*.py"]),
}
# Composer has an environment of its own.
LEFT_OUT = ("fixes/composer.py", "fixes/composer_devices.py")


class CallRemover(Operator):
    """Remove a call whose result is not used."""

    def mutation_positions(self, node: Any) -> Iterator[Any]:
        if node.type in ("atom_expr", "power") and node.parent.type == "simple_stmt" and _is_call(node):
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:  # noqa: ARG002
        return parso.python.tree.Name("None", node.start_pos, node.get_first_leaf().prefix)

    @classmethod
    def examples(cls) -> tuple[Any, ...]:
        return ()


def _is_call(node: Any) -> bool:
    return bool(node.children[-1].type == "trailer" and node.children[-1].children[0].value == "(")


def _operators() -> dict[str, Operator]:
    """All but those that need arguments; `is` for `==` differs for no small number and no short string."""
    names = [name.split("/")[-1] for name in cosmic_ray.plugins.operator_names() if name.startswith("core/")]
    left_out = ("VariableReplacer", "VariableInserter", "NoOp")
    names = [name for name in names if name not in left_out and not name.endswith(("_Is", "_IsNot"))]
    found: dict[str, Operator] = {name: cosmic_ray.plugins.get_operator(f"core/{name}")() for name in names}
    found |= {
        name: cosmic_ray.plugins.get_operator(f"core/{name}")()
        for name in ("ReplaceComparisonOperator_Is_IsNot", "ReplaceComparisonOperator_IsNot_Is")
    }
    return found | {"CallRemover": CallRemover()}


OPERATORS = _operators()


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One mutation of one file; `id` is made of what the place says, not of where it is."""

    id: str
    part: str
    module: str
    function: str
    line: int
    operator: str
    occurrence: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.id} {self.module}:{self.line} {self.function} {self.operator}: {self.before} -> {self.after}"

    def mutated(self, source: str) -> str:
        """The text of the whole file with this mutation."""
        return str(mutate_code(source, OPERATORS[self.operator], self.occurrence))


@dataclasses.dataclass(frozen=True)
class Place:
    rank: str
    where: tuple[int, int]
    file: Path
    function: str
    operator: str
    occurrence: int


def chosen(root: Path, part: str) -> list[Mutant]:
    """The mutants of a part: of each place one at most, the places with the smallest hashes."""
    number, patterns = PARTS[part]
    package = root / "pytest_evalcheck"
    files = sorted({file for pattern in patterns for file in package.glob(pattern)})
    files = [file for file in files if file.relative_to(package).as_posix() not in LEFT_OUT]
    places = sorted((place for file in files for place in _places(root, file)), key=lambda place: place.rank)
    taken: set[tuple[Path, tuple[int, int]]] = set()
    found: list[Mutant] = []
    for place in places:
        if (place.file, place.where) in taken:
            continue
        mutant = _mutant(root, part, place)
        if mutant is not None:
            taken.add((place.file, place.where))
            found.append(mutant)
        if len(found) == number:
            break
    return found


def _mutant(root: Path, part: str, place: Place) -> Mutant | None:
    source = place.file.read_text(encoding="utf-8")
    mutated = str(mutate_code(source, OPERATORS[place.operator], place.occurrence))
    try:
        # Cosmic Ray takes the star of an argument for an operator.
        compile(mutated, str(place.file), "exec", dont_inherit=True)
    except SyntaxError:
        return None
    if ast.dump(ast.parse(mutated)) == ast.dump(ast.parse(source)):
        return None
    before, after = _changed(source.splitlines(), mutated.splitlines())
    module = place.file.relative_to(root).as_posix()
    return Mutant(
        place.rank[:10], part, module, place.function, place.where[0], place.operator, place.occurrence, before, after
    )


def _changed(before: list[str], after: list[str]) -> tuple[str, str]:
    """The lines that differ, of both texts."""
    start = next(i for i, (old, new) in enumerate(zip(before, after, strict=False)) if old != new)
    end = 0
    while before[-1 - end] == after[-1 - end] and len(before) - end > start + 1 and len(after) - end > start + 1:
        end += 1
    return tuple(" ".join(map(str.strip, text[start : len(text) - end])) for text in (before, after))  # type: ignore


def _places(root: Path, file: Path) -> Iterator[Place]:
    source = file.read_text(encoding="utf-8")
    lines, tree = source.splitlines(), ast.parse(source)
    annotations, functions = list(_annotations(tree)), list(_functions(tree))
    counts, seen = dict.fromkeys(OPERATORS, 0), dict[str, int]()
    for node in _nodes(parso.parse(source)):
        for name, operator in OPERATORS.items():
            for index, (start, _) in enumerate(operator.mutation_positions(node)):
                occurrence, counts[name] = counts[name], counts[name] + 1
                if any(first <= start < last for first, last in annotations):
                    continue
                function = next((text for first, last, text in functions if first <= start[0] <= last), "")
                text = lines[start[0] - 1]
                column = start[1] - len(text) + len(text.lstrip())
                said = f"{file.relative_to(root).as_posix()}\n{function}\n{text.strip()}\n{column} {name} {index}"
                seen[said] = seen.get(said, -1) + 1
                rank = hashlib.sha256(f"{SEED}\n{said}\n{seen[said]}".encode()).hexdigest()
                yield Place(rank, start, file, function, name, occurrence)


def _nodes(node: Any) -> Iterator[Any]:
    """All nodes, in the order of Cosmic Ray's visitor."""
    yield node
    for child in getattr(node, "children", ()):
        yield from _nodes(child)


def _annotations(tree: ast.AST) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """From where to where there are types, which nothing runs."""
    for node in ast.walk(tree):
        parts = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            parts.append(node)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("cast", "TypeVar"):
            parts.append(node)
        for part in parts:
            if part is not None:
                yield (part.lineno, part.col_offset), (part.end_lineno, part.end_col_offset)


def _functions(tree: ast.AST) -> Iterator[tuple[int, int, str]]:
    """First and last line of each function of a module or a class, its decorators included, and its name."""
    scopes = [(tree, "")]
    for scope, prefix in scopes:
        for node in ast.iter_child_nodes(scope):
            if isinstance(node, ast.ClassDef):
                scopes.append((node, f"{prefix}{node.name}."))
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
                yield first, node.end_lineno or node.lineno, prefix + node.name
