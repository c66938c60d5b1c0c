"""What a result of another project's test says about the simulation, and the causes that were looked into."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

DEVICE, LIMIT, REFUSAL, ACCEPTANCE = "as the device", "documented limit", "false refusal", "wrong acceptance"
SKIPPED, MISSING, PLAIN = "skipped by the test", "needs what is not installed", "fails without a simulation too"
COUNTED, NOT_COUNTED = (DEVICE, LIMIT, REFUSAL, ACCEPTANCE), (SKIPPED, MISSING, PLAIN)


@dataclasses.dataclass(frozen=True)
class Cause:
    """Why some tests fail: patterns of their names and errors, what that says, and the reason."""

    verdict: str
    why: str
    test: str = ""
    error: str = ""

    def explains(self, line: dict[str, Any]) -> bool:
        """Whether this is the cause of a failure."""
        text = " | ".join([f"{line.get('type')}: {line.get('text')}", *line.get("caused", ()), *line.get("frames", ())])
        return bool(re.search(self.test, line["test"]) and re.search(self.error, text))


@dataclasses.dataclass(frozen=True)
class Judged:
    """One test with what its result says. `why` is empty where nobody has looked into it."""

    suite: str
    test: str
    verdict: str
    why: str = ""
    error: str = ""


_NUMERICS = "the device's own numerics: every value is the CPU's"
_SCIPY = "the installed SciPy or NumPy refuses what the test gives to it"

CAUSES: tuple[Cause, ...] = (
    Cause(PLAIN, _SCIPY, error=r"Parameter Nx=0|'tuple' object does not support item assignment"),
)
_MISSING = r"ModuleNotFoundError|ImportError|offline mode|LocalEntryNotFoundError|OfflineModeIsEnabled|Couldn't connect"
_NOT_RAISED = r"not raised|DID NOT RAISE|UnexpectedSuccess"


def judge(line: dict[str, Any], plain: dict[str, Any] | None) -> Judged:
    """What a record of a simulated run says; `plain` is the record of the same test without a simulation."""
    suite, test, outcome = line["suite"], line["test"], line["outcome"]
    if outcome == "passed":
        return Judged(suite, test, DEVICE)
    if outcome == "skipped":
        return Judged(suite, test, SKIPPED)
    if outcome == "begun":
        return Judged(suite, test, REFUSAL, error="the process died")
    error = f"{line['type']}: {line['text']}".split("\n")[0][:150]
    limits = line["limits"] or line.get("refused")
    if limits:
        return Judged(suite, test, LIMIT, re.sub(r"cuda:\d|\(.*\)", "", f"CannotSimulate: {limits[0]}"), error)
    cause = next((one for one in CAUSES if one.explains(line)), None)
    if cause is not None:
        return Judged(suite, test, cause.verdict, cause.why, error)
    if plain is not None and plain["outcome"] not in ("passed", "skipped"):
        same = (plain.get("type"), plain.get("text")) == (line.get("type"), line.get("text"))
        return Judged(suite, test, PLAIN, "" if same else "with another error", error)
    if re.search(_MISSING, " ".join([error, *line.get("caused", ())])):
        return Judged(suite, test, MISSING, error=error)
    return Judged(suite, test, ACCEPTANCE if re.search(_NOT_RAISED, error) else REFUSAL, error=error)
