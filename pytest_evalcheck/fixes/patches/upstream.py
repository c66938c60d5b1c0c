"""Files of pull requests: for each patch a diff against the installed source, a regression test and the text."""

from __future__ import annotations

import difflib
import importlib
import re
import textwrap
from pathlib import Path

from pytest_evalcheck.fixes.patches.applying import load
from pytest_evalcheck.fixes.patches.editing import PatchError, edited, source_of
from pytest_evalcheck.fixes.patches.patch import Edit, Library, Patch


def diff(library: Library, patch: Patch) -> str:
    """Make a unified diff of the installed source, whose paths are those of the library's repository.

    Raises:
        PatchError: where the source is not available or has other lines.
    """
    modules: dict[str, dict[str, tuple[Edit, ...]]] = {}
    for where, edits in patch.edits.items():
        module, _, path = where.partition(":")
        modules.setdefault(module, {})[path] = edits
    parts: list[str] = []
    for module, by_path in modules.items():
        made = importlib.import_module(module)
        folder = module.replace(".", "/")
        file = f"{folder}/__init__.py" if hasattr(made, "__path__") else f"{folder}.py"
        old, new = (text.splitlines(keepends=True) for text in (source_of(made), edited(module, by_path)))
        parts += difflib.unified_diff(old, new, f"a/{library.source}{file}", f"b/{library.source}{file}")
    return "".join(parts)


def regression_test(patch: Patch) -> str:
    """Make the text of a test file in plain pytest."""
    name = re.sub(r"\W", "_", patch.id).lower()
    code = textwrap.dedent(patch.test).strip()
    return f'def test_{name}():\n    """{patch.says}."""\n{textwrap.indent(code, "    ")}\n'


def issue_text(library: Library, patch: Patch, version: str) -> str:
    """Make the text of an issue: the title, what happens, and a script."""
    code = textwrap.dedent(patch.test).strip()
    return (
        f"# {patch.says}\n\nWith {library.name} {version} this script ends in an AssertionError or another error; it "
        f"should pass:\n\n```python\n{code}\n```\n\nThe diff beside this text is a proposal, with a regression test.\n"
    )


def write(name: str, folder: Path, *, only: str = "") -> tuple[list[Path], list[str]]:
    """Write the four files of each patch of a library into a folder; return the diffs, and why others have none.

    Raises:
        PatchError: for an unknown library, one that is not installed, and a file in place of the folder.
        OSError: where the folder cannot be written.
    """
    import importlib.metadata

    library = load(name)
    try:
        version = importlib.metadata.version(library.name)
    except importlib.metadata.PackageNotFoundError:
        raise PatchError(f"{library.name} is not installed, and a diff is made against its installed source") from None
    if folder.is_file():
        raise PatchError(f"{folder} is a file; expected a folder for the diffs")
    folder.mkdir(parents=True, exist_ok=True)
    written, left = [], []
    for patch in library.patches:
        if only and patch.id != only:
            continue
        try:
            text = diff(library, patch)
        except (PatchError, ImportError) as error:
            left.append(f"{patch.id}: {error}")
            continue
        base = folder / patch.id
        test = folder / f"test_{re.sub(r'[^a-z0-9]', '_', patch.id.lower())}.py"
        base.with_suffix(".diff").write_text(text, encoding="utf-8")
        test.write_text(regression_test(patch), encoding="utf-8")
        base.with_suffix(".md").write_text(issue_text(library, patch, version), encoding="utf-8")
        base.with_suffix(".py").write_text(textwrap.dedent(patch.test).lstrip(), encoding="utf-8")
        written.append(base.with_suffix(".diff"))
    return written, left
