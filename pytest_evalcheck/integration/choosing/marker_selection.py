"""Markers whose cells run only where somebody asks for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

MARKERS = {
    "distributed": "starts real processes; runs when -m names it",
    "sweep": "checks a whole library; runs when -m names it",
    "full": "not part of the short run; runs when -m names it, or the command line names its file",
}
"""By name: what pytest says about the marker."""

_BY_FILE = ("full",)


@dataclass(frozen=True)
class Asked:
    """What the command line asks for: the expression of ``-m``, and the files and nodes that it names."""

    expression: str
    named: tuple[tuple[Path, tuple[str, ...]], ...]
    """Each argument as a resolved path and the names behind it, without parameters."""

    @classmethod
    def of(cls, config: pytest.Config) -> Asked:
        """What the command line of a run asks for."""
        folder = Path(config.invocation_params.dir)
        parts = [argument.split("[")[0].split("::") for argument in config.args]
        named = tuple(((folder / path).resolve(), tuple(names)) for path, *names in parts)
        return cls(str(config.option.markexpr), named)

    def names_node(self, path: Path, *names: str) -> bool:
        """Whether the command line names a target, a check of it, or a cell of that."""
        path = path.resolve()
        return any(where == path and given and given == names[: len(given)] for where, given in self.named)

    def left_out(self, markers: Iterable[str], path: Path, *names: str) -> str:
        """The marker for which a target, or a check of it, is left out; empty where it runs.

        ``names`` are that of the target, and that of the check where the markers are those of the check. A node that
        the command line names runs, and so does each target of a file that it names, but for sweeps and processes.
        """
        own = [marker for marker in MARKERS if marker in markers]
        found = [marker for marker in own if marker not in self.expression]
        if len(found) < len(own):  # what -m names runs in files that are not part of the short run, too
            found = [marker for marker in found if marker not in _BY_FILE]
        if not found:
            return ""
        path = path.resolve()
        nodes = [given for where, given in self.named if where == path]
        if any(given[: len(names)] == names for given in nodes):
            return ""
        return next((marker for marker in found if not (marker in _BY_FILE and () in nodes)), "")
