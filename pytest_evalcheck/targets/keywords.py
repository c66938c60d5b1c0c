"""Reading the keywords of a target: each value is checked, and what is wrong is added to a list of problems.

A reader returns a value that can be used: the user's, or the default where the user's cannot be meant.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_evalcheck.errors import nearest, safe_text
from pytest_evalcheck.expectations.comparison import Tolerance
from pytest_evalcheck.expectations.old_signatures import problem as signature_problem
from pytest_evalcheck.kinds.common.check import Check
from pytest_evalcheck.kinds.registry import shipped
from pytest_evalcheck.strategies.samples import SampleStrategy
from pytest_evalcheck.targets.device_spec import KINDS, nearest_kind
from pytest_evalcheck.targets.target import KnownFailure, Target, requirement

Problems = list[str]

DEFAULTS: dict[str, Any] = {
    "inputs": None,
    "known_failures": {},
    "not_applicable": {},
    "examples": (),
    "devices": None,
    "requires": (),
    "extra_checks": (),
    "tolerance": None,
    "reference": None,
    "fresh": "example",
    "isolated": False,
    "timeout": None,
    "budget": {},
}
BUDGETS = ("transfers", "syncs")
LEAST_SECONDS, MOST_SECONDS = 0.01, 1e6


def inputs(given: Any, example: str, problems: Problems) -> Any:
    """Read the strategy of samples."""
    if not isinstance(given, SampleStrategy):
        problems.append(
            f"inputs={safe_text(given)}; expected samples, e.g. pytest_evalcheck.strategies.{example}, "
            "or strategies.samples(strategy, collate=...) for your own"
        )
    return given


def factory_problems(factory: Any) -> Problems:
    """Return the problems of what a decorator stands above."""
    if not inspect.isfunction(factory):
        return [f"a target is a decorated function, got {_kind_of_thing(factory)}"]
    for test, text in (
        (inspect.isasyncgenfunction, "an async generator"),
        (inspect.iscoroutinefunction, "an async function"),
        (inspect.isgeneratorfunction, "a generator: it has `yield`"),
    ):
        if test(factory):
            return [f"the factory is {text}; expected a function that returns what is to be checked"]
    try:
        parameters = list(inspect.signature(factory).parameters.values())
    except (TypeError, ValueError) as error:
        return [f"the signature of the factory cannot be read: {safe_text(error, str)}"]
    problems = []
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            problems.append(f"the factory takes *{parameter.name}; expected `device` and fixtures by name")
        elif parameter.kind is parameter.POSITIONAL_ONLY:
            problems.append(f"the factory takes {parameter.name!r} by position only; take the / out of its parameters")
        elif parameter.name in ("self", "cls"):
            problems.append(f"the factory takes {parameter.name!r}: it is a method; a target is a function of its file")
        elif parameter.name == "case":
            problems.append(
                "the factory asks for 'case', which is what checks are given; give the fixture another name"
            )
    return problems


def _kind_of_thing(factory: Any) -> str:
    if isinstance(factory, type):
        return f"the class {factory.__name__}; write a function that returns a new object of it"
    if isinstance(factory, Target):
        return f"the target {factory.name}: one decorator is enough"
    if isinstance(factory, functools.partial):
        return "a functools.partial; write a function that calls it"
    if isinstance(factory, (staticmethod, classmethod, property)):
        return f"a {type(factory).__name__}; a target is a function of its file, not a part of a class"
    return safe_text(factory)


def extra_checks(kind: str, given: Any, problems: Problems) -> tuple[Check, ...]:
    """Checks of the user's own."""
    found = []
    for item in _sequence("extra_checks", given, "[my_check]", problems):
        if isinstance(item, Check):
            found.append(item)
        else:
            problems.append(f"extra_checks holds {safe_text(item)}; expected functions decorated with @ec.check")
    taken = {made.code: made.name for made in shipped()}
    for made in found:
        if made.code in taken:
            problems.append(f"extra check {made.name} has the code {made.code}, which is {taken[made.code]}")
        taken[made.code] = made.name
        if kind not in made.kinds:
            problems.append(f"extra check {made.name} is about a {made.kinds[0]}, this target is a {kind}")
    return tuple(found)


def tables(known: Any, inapplicable: Any, checks: Sequence[Check], problems: Problems) -> dict[str, Any]:
    """``known_failures`` and ``not_applicable``, by the code or the name of a check."""
    read = {
        "known_failures": _table("known_failures", known, checks, KnownFailure, problems),
        "not_applicable": _table("not_applicable", inapplicable, checks, str, problems),
    }
    codes = {made.name: made.code for made in checks}
    named = [{codes.get(key, key) for key in table} for table in read.values()]
    problems += [f"{code} is both a known failure and not applicable" for code in sorted(named[0] & named[1])]
    return read


def _table(name: str, given: Any, checks: Sequence[Check], kind: type, problems: Problems) -> dict[str, Any]:
    wanted = 'ec.KnownFailure("why")' if kind is KnownFailure else "a reason as text"
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        problems.append(f"{name}={safe_text(given)}; expected a mapping such as {{'EC201': {wanted}}}")
        return {}
    words = [word for made in checks for word in (made.code, made.name)]
    others = {word: made.kinds[0] for made in shipped() for word in (made.code, made.name)}
    codes = {made.name: made.code for made in checks}
    entries = {}
    for key, entry in dict(given).items():
        if key in words:
            entries[key] = entry
        elif key in others:
            problems.append(f"{name}[{key!r}]: that check is about a {others[key]}, not about this kind of target")
        else:
            problems.append(f"{name} names no check: {safe_text(key)}{nearest(safe_text(key, str), words)}")
        several = kind is KnownFailure and isinstance(entry, (list, tuple)) and len(entry) > 0
        for one in entry if several else (entry,):
            if isinstance(one, kind):
                problems += _entry(f"{name}[{safe_text(key)}]", one, codes.get(key, key))
            else:
                problems.append(f"{name}[{safe_text(key)}] is {safe_text(one)}; expected {wanted}")
                entries.pop(key, None)
    return entries


def _entry(where: str, entry: Any, code: Any) -> Problems:
    if isinstance(entry, KnownFailure) and entry.upstream and (problem := entry.problem(str(code))):
        return [f"{where} {problem}"]
    reason = entry.reason if isinstance(entry, KnownFailure) else entry
    if not isinstance(reason, str):
        return [f"{where} gives the reason {safe_text(reason)}; expected text"]
    if not reason.strip():
        return [f"{where} gives no reason"]
    if not isinstance(entry, KnownFailure):
        return []
    problems = []
    if entry.devices is not None and not _are_kinds(entry.devices):
        problems.append(f"{where} is about {safe_text(entry.devices)}; expected some of {KINDS}")
    if entry.example is not None and not isinstance(entry.example, Mapping):
        problems.append(f"{where} has example={safe_text(entry.example)}; expected dict(samples=..., ...)")
    if isinstance(entry.signature, str) and (wrong := signature_problem(entry.signature)):
        problems.append(f"{where}: {wrong}")
    if not isinstance(entry.see, str):
        problems.append(f"{where} has see={safe_text(entry.see)}; expected text such as 'owner/repository#1'")
    return problems


def _are_kinds(given: Any) -> bool:
    return isinstance(given, (tuple, list, set, frozenset)) and all(isinstance(k, str) and k in KINDS for k in given)


def examples(given: Any, problems: Problems) -> tuple[list[Any], ...]:
    """Lists of samples that are tried first."""
    rows = _sequence("examples", given, "[[sample, sample], [sample]]", problems)
    wrong = [row for row in rows if not isinstance(row, (list, tuple))]
    if wrong:
        problems.append(f"examples holds {safe_text(wrong[0])}; expected lists of samples, such as [[sample, sample]]")
        return ()
    return tuple(list(row) for row in rows)


def devices(given: Any, problems: Problems) -> tuple[str, ...] | None:
    """The kinds of device that a target can run on; None for all."""
    if given is None:
        return None
    kinds = tuple(_sequence("devices", given, "('cpu', 'cuda')", problems))
    if not kinds and isinstance(given, (tuple, list, set, frozenset)):
        problems.append(f"devices={safe_text(given)} names no device, so nothing would be tried; leave it out for all")
    for kind in kinds:
        if not (isinstance(kind, str) and kind in KINDS):
            near = nearest_kind(kind) if isinstance(kind, str) else ""
            problems.append(f"devices holds {safe_text(kind)}; expected some of {', '.join(KINDS)}{near}")
    return kinds if kinds and _are_kinds(kinds) else None


def requires(given: Any, problems: Problems) -> tuple[str, ...]:
    """Distributions without which a target is not run."""
    found = []
    for text in _sequence("requires", given, "('torchmetrics>=1',)", problems):
        try:
            requirement(text)
            found.append(text)
        except Exception as error:  # packaging raises its own errors for text, and others for what is none
            problems.append(f"requires {safe_text(text)}: {(safe_text(error, str).splitlines() or [''])[0]}")
    return tuple(found)


def tolerance(given: Any, problems: Problems) -> Tolerance | None:
    """Read the tolerance; None for that of the kind."""
    if given is None:
        return None
    expected = "expected a relative tolerance such as 1e-3, or ec.Tolerance(rtol=, atol=)"
    if isinstance(given, Tolerance):
        made = given
    else:
        if isinstance(given, (bool, str, bytes)):
            problems.append(f"tolerance={safe_text(given)}; {expected}")
            return None
        try:
            made = Tolerance(rtol=float(given))
        except Exception as error:
            problems.append(f"tolerance={safe_text(given)}: {safe_text(error, str)}; {expected}")
            return None
    if made.rtol >= 1 or made.atol >= _MOST_ATOL:
        problems.append(
            f"tolerance={made}: any two values are equal within it; "
            f"expected a relative tolerance below 1 and an absolute one below {_MOST_ATOL:g}"
        )
        return None
    return made


_MOST_ATOL = 1000.0


def reference(given: Any, problems: Problems) -> Any:
    """From samples to the value that is right."""
    if given is None or callable(given):
        return given
    problems.append(f"reference={safe_text(given)}; expected a function from samples to the value that is right")
    return None


def fresh(given: Any, problems: Problems) -> Any:
    """Read how often the factory is called."""
    if isinstance(given, str) and given in ("example", "check"):
        return given
    problems.append(f"fresh={safe_text(given)}; expected 'example' or 'check'")
    return "example"


def isolated(given: Any, problems: Problems) -> bool:
    """Run every cell in a process of its own."""
    if isinstance(given, bool):
        return given
    problems.append(f"isolated={safe_text(given)}; expected True or False")
    return False


def timeout(given: Any, problems: Problems) -> float | None:
    """Seconds a cell; None for those of the run."""
    if given is None:
        return None
    if isinstance(given, (int, float)) and not isinstance(given, bool) and sensible_seconds(given):
        return float(given)
    problems.append(
        f"timeout={safe_text(given)}; expected seconds above 0, from {LEAST_SECONDS:g} to {MOST_SECONDS:g}, "
        "or None for those of the run"
    )
    return None


def sensible_seconds(seconds: float) -> bool:
    """Return whether a timer can be set to so many seconds, and something can happen before it ends."""
    return math.isfinite(seconds) and LEAST_SECONDS <= seconds <= MOST_SECONDS


def budget(given: Any, problems: Problems) -> dict[str, int] | None:
    """Read the allowed cost of one batch on an accelerator; None is no limit."""
    if given is None:
        return None
    if not isinstance(given, Mapping):
        problems.append(f"budget={safe_text(given)}; expected a mapping such as {{'syncs': 1}}, or None for no limit")
        return {}
    counts = {}
    for name, count in dict(given).items():
        if name not in BUDGETS:
            near = nearest(safe_text(name, str), BUDGETS)
            problems.append(f"budget has {safe_text(name)}; expected {' or '.join(BUDGETS)}{near}")
        elif isinstance(count, bool) or not isinstance(count, int) or count < 0:
            problems.append(f"budget[{name!r}] is {safe_text(count)}; expected how many a batch, at least 0")
        else:
            counts[name] = count
    return counts


READERS: dict[str, Callable[[Any, Problems], Any]] = {
    "examples": examples,
    "devices": devices,
    "requires": requires,
    "tolerance": tolerance,
    "reference": reference,
    "fresh": fresh,
    "isolated": isolated,
    "timeout": timeout,
    "budget": budget,
}
"""The keywords that are read alone; the others need the kind or the checks."""


def _sequence(name: str, given: Any, example: str, problems: Problems) -> Sequence[Any]:
    if given is None:
        return ()
    if isinstance(given, (list, tuple, set, frozenset)):
        return list(given)
    hint = f"a tuple, such as ({given!r},)" if isinstance(given, str) else f"a list or a tuple, such as {example}"
    problems.append(f"{name}={safe_text(given)}; expected {hint}")
    return ()
