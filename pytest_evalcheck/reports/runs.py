"""Run metadata, which must match when reports are merged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Shard:
    """A part of a run: ``--evalcheck-shard=2/4``."""

    number: int
    """From 1."""
    of: int
    selection: str
    """A digest of all cells of the run, with the number of the shard of each."""

    @property
    def text(self) -> str:
        """``2/4``, as the option is written."""
        return f"{self.number}/{self.of}"


@dataclass(frozen=True, kw_only=True)
class Run:
    """Fields that are empty are not known: a report that was built by hand has none."""

    effort: str = ""
    devices: tuple[str, ...] = ()
    versions: Mapping[str, str | None] = field(default_factory=dict)
    """By distribution, and ``python``."""
    shard: Shard | None = None
    chosen: tuple[str, ...] = ()
    """The selection of the command line: files, ``-k 'f1'``, ``--evalcheck-select=EC201``."""
    left_out: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By what leaves them out, such as the marker ``full``, and by target: how many cells."""
    environments: tuple[Mapping[str, str | None], ...] = ()
    """The versions of each environment, where reports of several were merged."""

    def as_json(self) -> dict[str, Any]:
        """All but the versions, which stand at the top of a report."""
        return {
            "effort": self.effort,
            "devices": list(self.devices),
            "shard": vars(self.shard) if self.shard else None,
            "chosen": list(self.chosen),
            "left_out": {name: dict(counts) for name, counts in self.left_out.items()},
            "environments": [dict(versions) for versions in self.environments],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], versions: Mapping[str, str | None]) -> Run:
        """Read what `as_json` wrote.

        Raises:
            TypeError, ValueError, AttributeError: when it cannot be read.
        """
        shard = data.get("shard")
        return cls(
            effort=str(data.get("effort", "")),
            devices=tuple(map(str, data.get("devices", ()))),
            versions=dict(versions),
            shard=Shard(**shard) if shard else None,
            chosen=tuple(map(str, data.get("chosen", ()))),
            left_out={str(name): dict(counts) for name, counts in data.get("left_out", {}).items()},
            environments=tuple(dict(each) for each in data.get("environments", ())),
        )
