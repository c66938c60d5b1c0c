"""Patches: corrections of installed libraries, applied in this process.

    from pytest_evalcheck.fixes import patched

    patched("torchmetrics")            # to the end of the process
    with patched("torchmetrics"): ...  # or of a block

A patch edits the source of the smallest function that is at fault, and gives the function the code of the edited
source. So its identity stays: who imported or pickled it has the patch, too, and ``python -m pytest_evalcheck fixes
torchmetrics --write DIR`` writes the same edit as a diff for upstream.
"""

from __future__ import annotations

from pytest_evalcheck.fixes.lazy import lazy_exports

__getattr__, __all__ = lazy_exports(__name__, {"applying": "Patched patched", "editing": "PatchError"})
