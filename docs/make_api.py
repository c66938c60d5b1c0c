"""Write docs/api.md from the signatures and docstrings of the public names, without importing them.

python docs/make_api.py
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "pytest_evalcheck"
PAGE = ROOT / "docs" / "api.md"

Definition = ast.FunctionDef | ast.ClassDef

FIXES = (
    ("pytest_evalcheck.fixes", "fixes.md", "accumulators, and what goes around a model"),
    ("pytest_evalcheck.fixes.caches", "fixes.md#caches-that-accept-any-batch", "caches that accept any batch"),
    (
        "pytest_evalcheck.fixes.composer",
        "fixes.md#composers-wrapper-of-hugging-face-models",
        "Composer's wrapper of Hugging Face models",
    ),
    ("pytest_evalcheck.fixes.composer_devices", "fixes.md#composer-on-one-device", "Composer on one device"),
    (
        "pytest_evalcheck.fixes.devices",
        "fixes.md#outputs-batch-and-metric-on-one-device",
        "outputs, batch and metric on one device",
    ),
    (
        "pytest_evalcheck.fixes.loops",
        "fixes.md#loops-that-count-every-sample-once",
        "loops that count every sample once",
    ),
    ("pytest_evalcheck.fixes.scoring", "scoring.md", "scoring in parallel"),
    ("pytest_evalcheck.fixes.scoring.sandbox", "scoring.md#generated-programs", "running generated programs"),
    ("pytest_evalcheck.fixes.tasks", "fixes.md#the-steps-of-a-task", "the steps of a task"),
)
"""The packages of the fixes: name, page, subject."""

RECORDS = {
    **{name: name.lower() for name in ("Metric", "Wrapper", "Scorer", "Decoder", "Loop", "Task", "Engine")},
    **dict.fromkeys(("Counts", "Reducer", "Repeated", "Runner", "Several"), "scorer"),
    **dict.fromkeys(("Request", "Tally"), "task"),
    "Interval": "intervals",
    "Evaluated": "loop",
}
"""Classes whose fields are in docs/records.md, and the heading there."""


@dataclass(frozen=True)
class Module:
    """A module as its source."""

    name: str

    @property
    def path(self) -> Path:
        folder = ROOT.joinpath(*self.name.split("."))
        return folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")

    @property
    def tree(self) -> ast.Module:
        return ast.parse(self.path.read_text(encoding="utf-8"))

    def definition(self, name: str) -> Definition | None:
        """The function or class of this name, found through the imports of the module."""
        for node in self.tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
                return node
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("pytest_evalcheck"):
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        return Module(node.module).definition(alias.name)
        return None

    def exports(self) -> list[str]:
        """The names of ``__all__``, or those that its type-checking block imports."""
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.List):
                names = [target.id for target in node.targets if isinstance(target, ast.Name)]
                if names == ["__all__"]:
                    return sorted(ast.literal_eval(node.value), key=_by_letter)
        imported = (n for n in ast.walk(self.tree) if isinstance(n, ast.ImportFrom))
        return sorted({a.asname for node in imported for a in node.names if a.asname}, key=_by_letter)


def _by_letter(name: str) -> tuple[str, str]:
    return name.lower(), name


def text_of(node: ast.AST) -> str:
    """A docstring as Markdown; empty where there is none."""
    found = ast.get_docstring(node)  # type: ignore[arg-type]
    return markdown(found) if found else ""


def markdown(docstring: str) -> str:
    """A docstring as Markdown: sections with bullets, doctests in fences, single backticks."""
    text = re.sub(r"``(.+?)``", r"`\1`", inspect.cleandoc(docstring), flags=re.S)
    parts = []
    for part in re.split(r"\n\s*\n", text):
        head, _, rest = part.partition("\n")
        if head in ("Raises:", "Args:", "Returns:"):
            entries = re.split(r"\n(?=\S)", inspect.cleandoc(rest))
            part = "\n".join([f"{head}\n", *(f"* {' '.join(entry.split())}" for entry in entries)])
        elif head.startswith(">>>"):
            part = f"```pycon\n{part}\n```"
        elif not head.startswith("    "):
            part = part.removesuffix("::") + (":" if part.endswith("::") else "")
        parts.append(part)
    return "\n\n".join(parts)


def sentence(node: ast.AST | None) -> str:
    """The first sentence of a docstring, for a cell of a table."""
    first = text_of(node).split("\n\n")[0] if node else ""
    return re.split(r"(?<=[.])\s", " ".join(first.split()))[0].rstrip(":").replace("|", r"\|")


def signature(node: ast.FunctionDef, name: str = "", *, method: bool = False) -> str:
    """A signature as in the source, over several lines where it is long."""
    arguments = ast.parse(ast.unparse(node)).body[0].args  # type: ignore[attr-defined]
    if method and arguments.args:
        del arguments.args[0]
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    line = f"{name or node.name}({ast.unparse(arguments)}){returns}"
    if len(line) <= 110:
        return line
    parts = _split(ast.unparse(arguments))
    return f"{name or node.name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){returns}"


def _split(arguments: str) -> list[str]:
    """Arguments apart at the commas that stand outside of brackets and strings."""
    parts, depth, quote, begun = [], 0, "", 0
    for index, letter in enumerate(arguments):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        elif letter == "," and not depth:
            parts.append(arguments[begun:index].strip())
            begun = index + 1
    return [*parts, arguments[begun:].strip()]


def fields(node: ast.ClassDef) -> Iterator[str]:
    """One bullet for each annotated field, with the docstring below it."""
    for index, each in enumerate(node.body):
        if not isinstance(each, ast.AnnAssign) or not isinstance(each.target, ast.Name):
            continue
        annotation = ast.unparse(each.annotation)
        if each.target.id.startswith("_") or annotation.startswith("ClassVar"):
            continue
        after = node.body[index + 1] if index + 1 < len(node.body) else None
        documented = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        said = " ".join(markdown(str(after.value.value)).split()) if documented else ""  # type: ignore[union-attr]
        default = f" = {ast.unparse(each.value)}" if each.value is not None else ""
        if default.startswith(" = field("):
            default = " = ..."
        yield f"* `{each.target.id}: {annotation}{default}`" + (f": {said}" if said else "")


def methods(node: ast.ClassDef) -> Iterator[str]:
    """One bullet for each public method and property."""
    for each in node.body:
        if not isinstance(each, ast.FunctionDef) or each.name.startswith("_"):
            continue
        marks = {ast.unparse(mark) for mark in each.decorator_list}
        if marks & {"property", "cached_property"}:
            returns = f": {ast.unparse(each.returns)}" if each.returns else ""
            shown = f"{each.name}{returns}"
        else:
            shown = " ".join(signature(each, method="staticmethod" not in marks).split())
        said = sentence(each)
        yield f"* `{shown.replace('( ', '(').replace(', )', ')')}`" + (f": {said}" if said else "")


def entry(name: str, node: Definition) -> list[str]:
    """The section of one name."""
    lines = [f"### {name}", ""]
    if isinstance(node, ast.FunctionDef):
        return [*lines, "```python", signature(node, name), "```", "", text_of(node), ""]
    made = next((each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"), None)
    bases = f"({', '.join(ast.unparse(base) for base in node.bases)})" if node.bases else ""
    shown = f"class {name}{bases}"
    if made:
        shown = "class " + signature(made, name, method=True).removesuffix(" -> None")
    lines += ["```python", shown, "```", "", text_of(node), ""]
    if name in RECORDS:
        made_by = [each for each in methods(node) if each.startswith("* `of(")]
        return [*lines, f"Fields: [records.md](records.md#{RECORDS[name]}).", "", *made_by, ""]
    keywords = any("kw_only=True" in ast.unparse(mark) for mark in node.decorator_list)
    for title, found in (("Keywords" if keywords else "Fields", list(fields(node))), ("Methods", list(methods(node)))):
        lines += [f"{title}:", "", *found, ""] if found else []
    return lines


def section(module: str, title: str, introduction: str = "") -> list[str]:
    """Every public name of one module."""
    home = Module(module)
    lines = [f"## {title}", "", *([introduction, ""] if introduction else [])]
    for name in home.exports():
        node = home.definition(name)
        assert node is not None, f"{module}.{name} is defined nowhere"
        lines += entry(name, node)
    return lines


def keywords() -> list[str]:
    """The parameters that the decorators of targets take."""
    lines = ["## Keywords of the decorators", "", "`ec.metric`, `ec.wrapper`, `ec.decoder` and `ec.scorer` take:", ""]
    for name, introduction in (("Keywords", ""), ("LoopKeywords", "`ec.loop` also takes:")):
        node = Module("pytest_evalcheck.targets.decorators").definition(name)
        assert isinstance(node, ast.ClassDef)
        lines += [*([introduction, ""] if introduction else []), *fields(node), ""]
    return lines


def plugin() -> list[str]:
    """The fixtures and options of the plugin."""
    tree = Module("pytest_evalcheck.plugin").tree
    lines = ["## Fixtures", "", "They work in ordinary tests, without `--evalcheck`.", ""]
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and "pytest.fixture" in map(ast.unparse, node.decorator_list):
            lines += [f"### {node.name}", "", text_of(node), ""]
    lines += ["## Options", "", "| option | meaning |", "| --- | --- |"]
    ini = ["", "Keys of the ini file:", "", "| key | meaning |", "| --- | --- |"]
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        given = {key.arg: ast.literal_eval(key.value) for key in node.keywords if isinstance(key.value, ast.Constant)}
        first = node.args[0] if node.args else None
        if node.func.attr == "addoption" and isinstance(first, ast.Constant):
            value = f"={given['metavar']}" if "metavar" in given else ""
            lines.append(f"| `{first.value}{value.replace('|', chr(92) + '|')}` | {given['help']} |")
        elif node.func.attr == "addini" and isinstance(first, ast.Constant) and len(node.args) > 1:
            ini.append(f"| `{first.value}` | {ast.literal_eval(node.args[1])} |")
    return [*lines, *ini, ""]


def fixes() -> list[str]:
    """One line for each public name of the fixes."""
    lines = ["## Fixes", "", "Each imports what it needs when it is first used.", ""]
    for module, page, subject in FIXES:
        home = Module(module)
        link = f" ([page]({page}))" if page else ""
        lines += [f"`{module}`: {subject}{link}", "", "| name | what it is |", "| --- | --- |"]
        lines += [f"| `{name}` | {_one_line(home, name)} |" for name in home.exports()]
        lines.append("")
    return lines


def _one_line(home: Module, name: str) -> str:
    node = home.definition(name)
    if node is not None:
        return sentence(node)
    for each, after in zip(home.tree.body, home.tree.body[1:], strict=False):
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == name:
            documented = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            return markdown(str(after.value.value)) if documented else f"`{ast.unparse(each.value)}`"
    return sentence(home.tree)  # a class that is made from one of another library, when it is first used


def page() -> str:
    """The whole page."""
    lines = [
        "# API",
        "",
        "Every public name, from its docstring and signature. `python docs/make_api.py` writes this page; a test",
        "compares it with the code. [stability.md](stability.md) says what stays the same. Pages and examples use",
        "`import pytest_evalcheck as ec` and `from pytest_evalcheck import strategies as es`.",
        "",
        *section("pytest_evalcheck", "pytest_evalcheck"),
        *keywords(),
        *section("pytest_evalcheck.strategies", "pytest_evalcheck.strategies"),
        *section("pytest_evalcheck.devices", "pytest_evalcheck.devices"),
        "## pytest_evalcheck.testing",
        "",
        text_of(Module("pytest_evalcheck.testing").tree),
        "",
    ]
    for node in Module("pytest_evalcheck.testing").tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            lines += entry(node.name, node)
    text = "\n".join([*lines, *plugin(), *fixes()])
    return re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
