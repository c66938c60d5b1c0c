"""Declarations of the target of a metric beside its inputs: symmetry, streams without a value, options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_evalcheck.errors import safe_text
from pytest_evalcheck.kinds.common.kind import KindOption
from pytest_evalcheck.strategies.samples import Sample


@dataclass(frozen=True, kw_only=True)
class Undefined:
    """Samples for which the definition of a metric gives no value, such as a recall without positives.

    No samples are such a stream, too: ``samples=[]``. There the metric gives NaN, an error or a warning, or the value
    that its documentation names::

        undefined={"no positives": ec.Undefined(samples=[(0.25, 0)], value=0.0, documented="returns 0 where ...")}
    """

    samples: Sequence[Sample]
    value: Any = None
    """The value that is documented for them; None where no ordinary value is."""
    documented: str = ""
    """The sentence of the documentation that names the value."""

    @property
    def problem(self) -> str:
        """Return what is wrong with it, or ''."""
        if isinstance(self.samples, str) or not isinstance(self.samples, Sequence):
            return f"has samples={safe_text(self.samples)}; expected a list of samples"
        if self.value is not None and not str(self.documented).strip():
            return "has a value and does not quote the documentation: documented='...'"
        return ""


def _undefined(given: Any, problems: list[str]) -> dict[str, Undefined]:
    example = "{'no positives': ec.Undefined(samples=[...])}"
    if not isinstance(given, Mapping):
        problems.append(f"undefined={safe_text(given)}; expected streams by name, such as {example}")
        return {}
    found = {}
    for name, entry in given.items():
        if not isinstance(entry, Undefined):
            problems.append(
                f"undefined[{safe_text(name)}] is {safe_text(entry)}; expected an ec.Undefined, as {example}"
            )
        elif entry.problem:
            problems.append(f"undefined[{safe_text(name)}] {entry.problem}")
        else:
            found[str(name)] = entry
    return found


def _symmetric(given: Any, problems: list[str]) -> bool:
    if not isinstance(given, bool):
        problems.append(f"symmetric={safe_text(given)}; expected True or False")
    return given is True


def _options(given: Any, problems: list[str]) -> dict[str, tuple[Any, ...]]:
    example = "{'average': ('micro', 'macro')}, or ... in place of the values for those of its annotation"
    if not isinstance(given, Mapping):
        problems.append(f"options={safe_text(given)}; expected the values of each option, such as {example}")
        return {}
    found = {}
    for name, values in given.items():
        listed = isinstance(values, (list, tuple)) and len(values) > 0
        if not isinstance(name, str) or not name.isidentifier() or not (listed or values is ...):
            problems.append(f"options[{safe_text(name)}]={safe_text(values)}; expected {example}")
        else:
            found[name] = tuple(values) if listed else ()
    return found


OPTIONS = {
    "undefined": KindOption(default={}, read=_undefined),
    "symmetric": KindOption(default=False, read=_symmetric),
    "options": KindOption(default={}, read=_options),
}
"""The keywords that targets of metrics take beside the common ones."""
