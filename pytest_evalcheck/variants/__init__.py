"""Named configurations of an evaluation, and how far the numbers of each may differ from the plain one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_evalcheck.expectations.comparison import Tolerance, show


@dataclass(frozen=True)
class Variant:
    """A configuration of the same evaluation, which may be faster, and how far its numbers may differ.

    >>> Variant({"dtype": "bf16"}, within=1e-2, budget=0.02, number="accuracy").tolerance
    Tolerance(rtol=0.01, atol=0.01)

    Raises:
        TypeError: when a field is of another type.
        ValueError: when a field has a value without meaning.
    """

    config: Mapping[str, Any]
    """The keywords of ``evaluate``."""
    within: Tolerance | float | None = field(default=None, kw_only=True)
    """Allowed difference of its numbers from the plain ones; a float is both the relative and the absolute tolerance.
    None: the tolerance of the target."""
    budget: float | None = field(default=None, kw_only=True)
    """Allowed loss of ``number``, as an average over the samples: 0.02 is two points of an accuracy. The
    budget then judges that number, sample by sample, and not ``within``."""
    number: str | None = field(default=None, kw_only=True)
    """The number that the budget limits: a field of the records with a number for every sample. Needed where numbers
    and records have more than one name in common."""
    less_is_better: bool = field(default=False, kw_only=True)
    """True where a higher number is a loss, as of a cross entropy."""
    by: str | None = field(default=None, kw_only=True)
    """A field of the records, such as the label: the budget then limits every group of samples that share it."""
    why: str = field(default="", kw_only=True)
    """Its purpose, for the reader."""

    def __post_init__(self) -> None:
        if not isinstance(self.config, Mapping) or not all(isinstance(name, str) for name in self.config):
            raise TypeError(f"config={self.config!r}; expected keywords of evaluate, such as {{'batch_size': 4}}")
        if not self.config:
            raise ValueError("config={} is the plain configuration; expected what is different, such as {'workers': 2}")
        if self.within is not None and not isinstance(self.within, Tolerance) and not _is_at_least_0(self.within):
            raise ValueError(f"within={self.within!r}; expected a number of at least 0, or ec.Tolerance(rtol=, atol=)")
        if self.budget is not None and not _is_at_least_0(self.budget):
            raise ValueError(f"budget={self.budget!r}; expected the loss allowed, a finite number of at least 0")
        for name in ("number", "by"):
            text = getattr(self, name)
            if text is not None and not (isinstance(text, str) and text):
                raise TypeError(f"{name}={text!r}; expected the name of a field of the records")
        for name in ("number", "by", "less_is_better"):
            if getattr(self, name) and self.budget is None:
                raise ValueError(f"{name}={getattr(self, name)!r} describes a budget; expected budget= as well")
        object.__setattr__(self, "config", dict(self.config))

    @property
    def tolerance(self) -> Tolerance | None:
        """``within`` as a tolerance, None where the variant declares none."""
        if self.within is None or isinstance(self.within, Tolerance):
            return self.within
        return Tolerance(rtol=float(self.within), atol=float(self.within))

    @property
    def lossless(self) -> bool:
        """Return whether it claims to change nothing: it declares neither a tolerance nor a budget."""
        return self.within is None and self.budget is None


def _is_at_least_0(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf


def read(variants: Any, problems: list[str]) -> dict[str, Variant]:
    """Variants by name, from `Variant` or from mappings of keywords; errors in them are added to ``problems``.

    >>> read({"batch of 4": {"batch_size": 4}, "int8": Variant({"int8": True}, budget=0.01)}, [])["batch of 4"].config
    {'batch_size': 4}
    """
    if variants is None:
        return {}
    if not isinstance(variants, Mapping):
        example = "{'batches of 4': {'batch_size': 4}}"
        problems.append(f"variants={show(variants)}; expected them by name, such as {example}")
        return {}
    result: dict[str, Variant] = {}
    for name, entry in variants.items():
        if not isinstance(name, str) or not name.strip() or name == PLAIN:
            problems.append(f"variants has the name {name!r}; expected a text of your own, but not {PLAIN!r}")
            continue
        try:
            result[name] = entry if isinstance(entry, Variant) else Variant(_keywords(entry))
        except (TypeError, ValueError) as error:
            problems.append(f"variants[{name!r}]: {error}")
    return result


PLAIN = "plain"
"""The name of the configuration that all variants are compared with."""
_DECLARATIONS = ("within", "budget", "number", "less_is_better", "by", "why")


def _keywords(entry: Any) -> Any:
    if not isinstance(entry, Mapping):
        raise TypeError(f"{show(entry)}; expected ec.Variant({{...}}, within=...) or a mapping of keywords of evaluate")
    declared = [name for name in entry if name in _DECLARATIONS]
    if declared:
        rest = {name: value for name, value in entry.items() if name not in _DECLARATIONS}
        raise TypeError(
            f"{declared[0]!r} is no keyword of evaluate; did you mean ec.Variant({rest!r}, {declared[0]}=...)?"
        )
    return entry
