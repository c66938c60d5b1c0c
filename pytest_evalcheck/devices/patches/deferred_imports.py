"""A part of PyTorch keeps what it finds in other modules when it is imported: it must not find our answers."""

from __future__ import annotations

import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from pytest_evalcheck.devices.patches.patches import Patches

KEEPS = "torch._dynamo"


class _Finder:
    """Finds `torch._dynamo` as usual, and has it loaded with our patches away."""

    def __init__(self, patches: Patches) -> None:
        self.patches = patches

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        if name != KEEPS:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            self._wrap(spec.loader)
        return spec

    def _wrap(self, loader: Any) -> None:
        load = loader.exec_module

        def load_without_patches(module: ModuleType) -> None:
            with self.patches.suspended():
                load(module)

        loader.exec_module = load_without_patches


def install(patches: Patches) -> None:
    """Watch the import, for as long as the patches are in place."""
    if KEEPS not in sys.modules:
        finder: Any = _Finder(patches)
        sys.meta_path.insert(0, finder)
        patches.finally_(lambda: sys.meta_path.remove(finder))
