"""Write docs/fixes.md from the docstrings of the public names of the fixes, without importing them.

python docs/make_fixes.py
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))

sys.path.insert(0, str(ROOT))
from make_api import FIXES, Module, markdown  # noqa: E402

from pytest_evalcheck import upstream  # noqa: E402
from pytest_evalcheck.fixes.patches.applying import all_libraries  # noqa: E402

PAGE = ROOT / "docs" / "fixes.md"
SECTIONS = ("Symptom", "Before", "After", "Costs", "Shown by")
"""Sections that the docstring of a fix has; *Limits* and *Target*, how the tests run the code, may be added."""
_SECTION = re.compile(r"^(Symptom|Target|Before|After|Costs|Limits|Shown by):(.*?)(?=\n\n(?![ \n])|\Z)", re.M | re.S)
_INTRODUCTION = """\
# Fixes

Every fault with a fix that you can import: the symptom, the code before and after, what the fix costs, and the checks
that show the fault. `python docs/make_fixes.py` writes this page from the docstrings of the fixes; tests run its code.
The code before fails these checks, and the code after passes them. In the examples `model` is a module, and `Metric`
a base class of your own: its state is a `total`, a `count` and a list of `rows`, and `compute` divides the first two.
The [API](api.md#fixes) lists all names. A fix imports its library when it is first used.
"""


@dataclass(frozen=True)
class Fix:
    """A public name whose docstring describes a fault."""

    module: str
    name: str
    sections: dict[str, str]

    @property
    def checks(self) -> list[str]:
        """The codes of the checks that show the fault."""
        return re.findall(r"EC\d{3}", self.sections.get("Shown by", ""))


def sections(docstring: str) -> dict[str, str]:
    """The sections of a docstring by name: text on one line, or code without its indent."""
    found = {}
    for name, text in _SECTION.findall(inspect.cleandoc(docstring)):
        code = text.startswith(":\n\n")
        found[name] = inspect.cleandoc(text[1:]) if code else " ".join(text.split())
    return found


def exports() -> Iterator[tuple[str, str, ast.FunctionDef | ast.ClassDef | None]]:
    """Every public name of the fixes with its module and its definition; None for a class that is made when used."""
    for module, _, _ in FIXES:
        home = Module(module)
        yield from ((module, name, home.definition(name)) for name in home.exports())


def fixes() -> list[Fix]:
    """The public names that describe a fault, in the order of the page."""
    found = []
    for module, name, node in exports():
        docstring = node and ast.get_docstring(node)
        if docstring and _SECTION.search(docstring) and all(fix.name != name for fix in found):
            found.append(Fix(module, name, sections(docstring)))
    return found


def anchor(heading: str) -> str:
    """The anchor of a heading, as in the site."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def entry(fix: Fix) -> list[str]:
    """The section of a fix."""
    part = {name: markdown(text) for name, text in fix.sections.items()}
    lines = [f"### {fix.name}", "", f"**Symptom.** {_sentence(part['Symptom'])}", ""]
    for title in ("Before", "After"):
        lines += [f"{title}:", "", "```python", _spaced(fix.sections[title]), "```", ""]
    lines += [f"**Costs.** {_sentence(part['Costs'])}", ""]
    lines += [f"**Limits.** {_sentence(part['Limits'])}", ""] if "Limits" in part else []
    return [*lines, f"**Shown by** {', '.join(f'[{code}](checks/{code}.md)' for code in fix.checks)}.", ""]


def _spaced(code: str) -> str:
    """Code with two empty lines around functions and classes, as the formatter of pages wants it."""
    code = re.sub(r"(\n +[^\n]*)\n\n+(?=\S)", r"\1\n\n\n", code)
    return re.sub(r"\n\n+(?=def |class |@)", "\n\n\n", code)


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


_PATCHES = """
## Patches of installed libraries

`patched` corrects an installed library in this process, so that a number is right before the next release:

```python
from pytest_evalcheck.fixes import patched

patched("torchmetrics")  # to the end of the process; `with patched("torchmetrics"):` for a block
patched("torchmetrics", only=["torchmetrics-merge-state-keeps-the-cached-value"])
```

Each patch edits the smallest function that is at fault, for the releases that it was tested on. Another release is
refused by name (`missing="warn"` goes on with those patches whose lines are there), and so is a function that other
code has replaced. Patches nest and are undone by `undo()` or the end of the block; files stay as they are. Functions
are edited in place: objects, names and pickles of before have the patch, too. What an instance has made of its
methods (a decorated `compute`, for example) stays as it was made: call `patched` at the head of a script. Another
process calls it itself.

`pytest --evalcheck --evalcheck-patched` runs with all patches of tested releases, and what they mend is not known any
more: it fails where it comes back. `python benchmarks/patches.py torchmetrics` runs the checks of the mended faults
with the patches and without. `python -m pytest_evalcheck fixes torchmetrics --write DIR` writes for each patch what a
pull request needs: a diff against the installed source, a regression test, the text of an issue and a script.
"""


def patches() -> list[str]:
    """The patches by library."""
    lines = _PATCHES.rstrip().splitlines()
    for library in all_libraries():
        if library.patches:
            lines += ["", f"### {library.name}", "", f"Tested from {library.first} and before {library.end}.", ""]
            lines += ["| with the patch | mended faults |", "| --- | --- |"]
        for patch in library.patches:
            names = ", ".join(
                f"[{name}](findings/{fault.finding})" for name in patch.mends if (fault := upstream.find(name))
            )
            lines.append(f"| {_sentence(markdown(patch.says))} | {names} |")
    return lines


def page() -> str:
    """The whole page."""
    found = fixes()
    lines = [_INTRODUCTION, "| symptom | fix |", "| --- | --- |"]
    for fix in found:
        symptom = _sentence(markdown(fix.sections["Symptom"])).rstrip(".").replace("|", r"\|")
        lines.append(f"| {symptom} | [`{fix.name}`](#{anchor(fix.name)}) |")
    for module, _, subject in FIXES:
        inside = [fix for fix in found if fix.module == module]
        if inside:
            lines += ["", f"## {subject[0].upper()}{subject[1:]}", "", f"In `{module}`.", ""]
            for fix in inside:
                lines += entry(fix)
    lines += patches()
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
