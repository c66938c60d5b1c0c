"""Prove the patches of one library in a process of its own: what they import stays out of the tests.

``python tests/fixes/patch_proof.py LIBRARY`` prints JSON: ``proved`` patches, ``left`` ones that need what is not
installed, and ``problems``, a line each.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import traceback
import warnings
from pathlib import Path
from typing import Any

from pytest_evalcheck.fixes import patched
from pytest_evalcheck.fixes.patches import applying, upstream
from pytest_evalcheck.fixes.patches.patch import Library, Patch


def error_of(patch: Patch) -> str:
    """Return the last line of the error of a regression test; empty where it passes."""
    try:
        exec(textwrap.dedent(patch.test), {"__name__": "regression"})
    except Exception:
        return traceback.format_exc().strip().splitlines()[-1]
    return ""


def problem_of(library: Library, patch: Patch) -> str:
    """Return a reason if a patch does not mend what its test shows, is not undone, or its diff does not apply."""
    for where in patch.edits:
        importlib.import_module(where.split(":")[0])
    if not error_of(patch):
        return "its test passes without it"
    with patched(library.name, only=[patch.id]) as done:
        if done.ids != (patch.id,):
            return f"{done.ids} were applied"
        if error := error_of(patch):
            return f"its test fails with it: {error}"
    if not error_of(patch):
        return "its test passes after it was undone"
    return diff_problem(library, patch)


def diff_problem(library: Library, patch: Patch) -> str:
    """Return a reason if the diff does not apply to the installed source, else ''."""
    with tempfile.TemporaryDirectory() as folder:
        for name in {where.split(":")[0] for where in patch.edits}:
            made = importlib.import_module(name)
            file = Path(folder) / library.source / name.replace(".", "/")
            file = file / "__init__.py" if hasattr(made, "__path__") else file.with_suffix(".py")
            file.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(inspect.getsourcefile(made) or "", file)
        (Path(folder) / "patch.diff").write_text(upstream.diff(library, patch), encoding="utf-8")
        ended = subprocess.run(["git", "apply", "patch.diff"], cwd=folder, capture_output=True, text=True, check=False)
        return f"its diff does not apply: {ended.stderr}" if ended.returncode else ""


def main(name: str) -> None:
    """Print what is proved of a library."""
    warnings.simplefilter("ignore")
    report = os.fdopen(os.dup(1), "w", encoding="utf-8")  # libraries print, too
    os.dup2(2, 1)
    library = applying.load(name)
    found: dict[str, Any] = {"proved": [], "left": [], "problems": []}
    for patch in library.patches:
        if absent := [one for one in patch.needs if importlib.util.find_spec(one) is None]:
            found["left"].append(f"{patch.id}: {', '.join(absent)} is not installed")
        elif problem := problem_of(library, patch):
            found["problems"].append(f"{patch.id}: {problem}")
        else:
            found["proved"].append(patch.id)
    json.dump(found, report)
    report.close()


if __name__ == "__main__":
    main(sys.argv[1])
