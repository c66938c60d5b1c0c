"""What two reports of one entry show: a pure function of both, and of what the stand-alone script shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

Outcome = Literal["caught", "caught, not kept", "missed", "cannot run", "not reproduced"]
OUTCOMES: tuple[Outcome, ...] = ("caught", "caught, not kept", "missed", "cannot run", "not reproduced")
REFERENCES = frozenset({"EC217", "EC410"})
"""The checks that compare with a number from elsewhere; all others compare the code with itself."""

Report = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Ran:
    """One run of the suite over one release."""

    cells: Sequence[Mapping[str, Any]] = ()
    """Those of the JSON report."""
    trouble: str = ""
    """Why there is no report."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The outcome of one entry."""

    outcome: Outcome
    why: str = ""
    """One line: the cell that shows it, or what is in the way."""
    codes: tuple[str, ...] = ()
    """The checks that are broken before and not after."""
    cells: tuple[str, ...] = ()
    """What they reported, a line each."""

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


def classify(promise: Sequence[str], before: Ran, after: Ran, shown: tuple[int, int] | None) -> Verdict:
    """The outcome of an entry.

    ``shown`` has the exit codes of the stand-alone script on both releases, or None where the entry has none. A cell
    shows the fault where it is red before and kept after, or red with another signature in a check that was predicted.
    So does a target that cannot be tried before, because a plain batch is an error there: only where the script shows
    it as well, since a target of today may also use what an older release lacks.
    """
    if shown is not None and shown != (1, 0):
        if 2 in shown:
            release = "before" if shown[0] == 2 else "after"
            return Verdict(outcome="cannot run", why=f"the script does not run on the release {release}")
        return Verdict(outcome="not reproduced", why=f"the script exits with {shown[0]} before and {shown[1]} after")
    if before.trouble and shown is None:
        return Verdict(outcome="cannot run", why=f"before: {before.trouble}")
    reds, greens = _red(before), _tried(after)
    mended = {
        key: signature
        for key, signature in reds.items()
        # Another signature after is another fault; where nothing was predicted, it may be the same one in other words.
        if key in greens and (not greens[key] or (greens[key] != signature and key[1] in promise))
    }
    if mended:
        cells = _lines(before, mended)
        return Verdict(outcome="caught", why=cells[0], codes=_codes(mended), cells=tuple(cells[:_MOST]))
    if shown == (1, 0) and (stopped := [key for key in _stopped(before) if greens.get(key) == ""]):
        cells = _lines(before, dict.fromkeys(stopped, ""))
        return Verdict(outcome="caught", why=cells[0], codes=_codes(dict.fromkeys(stopped, "")), cells=tuple(cells))
    still = {key: signature for key, signature in reds.items() if key[1] in promise}
    if still:
        cells = _lines(before, still)
        lost = after.trouble or "it is red after, too, with the same signature"
        if all(key not in greens for key in still) and not after.trouble:
            lost = "it is not tried after"
        return Verdict(
            outcome="caught, not kept", why=f"{cells[0]}: {lost}", codes=_codes(still), cells=tuple(cells[:_MOST])
        )
    if not any(_is_tried(cell) for cell in before.cells):
        why = before.trouble or _first_reason(before.cells)
        return Verdict(outcome="cannot run" if shown is None else "missed", why=f"nothing is tried before: {why}")
    return Verdict(outcome="missed", why="" if shown is not None else "no script has shown the fault yet")


_MOST = 6
Key = tuple[str, str, str]


def _key(cell: Mapping[str, Any]) -> Key:
    return str(cell["target"]).rpartition("::")[2], str(cell["code"]), str(cell["device"])


def _is_untestable(cell: Mapping[str, Any]) -> bool:
    failure = cell.get("failure") or {}
    return bool(failure.get("untestable"))


def _is_red(cell: Mapping[str, Any]) -> bool:
    """Whether a case has broken the promise, whether that is known or not."""
    return cell["outcome"] in ("broken", "known") and bool(cell["signature"]) and not _is_untestable(cell)


def _is_tried(cell: Mapping[str, Any]) -> bool:
    return _is_red(cell) or cell["outcome"] == "kept"


def _red(ran: Ran) -> dict[Key, str]:
    return {_key(cell): cell["signature"] for cell in ran.cells if _is_red(cell)}


def _stopped(ran: Ran) -> list[Key]:
    """The cells that say that nothing could be tried, since a plain batch raises an error."""
    return [_key(cell) for cell in ran.cells if cell["outcome"] == "broken" and _PLAIN in str(cell["reason"])]


_PLAIN = "a plain batch raises an error"


def _tried(ran: Ran) -> dict[Key, str]:
    """The signatures of the cells that were tried; an empty one where the promise is kept."""
    return {_key(cell): cell["signature"] if _is_red(cell) else "" for cell in ran.cells if _is_tried(cell)}


def _lines(ran: Ran, keys: Mapping[Key, str]) -> list[str]:
    told = [cell for cell in ran.cells if _key(cell) in keys]
    told.sort(key=lambda cell: (cell["outcome"] != "broken", cell["code"]))
    return [
        f"{cell['code']} {_key(cell)[0]}: {(cell.get('failure') or {}).get('about') or cell['reason']}" for cell in told
    ]


def _codes(keys: Mapping[Key, str]) -> tuple[str, ...]:
    return tuple(sorted({code for _, code, _ in keys}))


def _first_reason(cells: Sequence[Mapping[str, Any]]) -> str:
    return next((str(cell["reason"]) for cell in cells if cell["reason"]), "no cell")
