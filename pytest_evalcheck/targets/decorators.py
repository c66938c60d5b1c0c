"""The decorators that make a target of a factory, and the validation of their keywords."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from pytest_evalcheck.errors import UsageError, nearest
from pytest_evalcheck.expectations.comparison import Tolerance
from pytest_evalcheck.kinds.common.check import Check
from pytest_evalcheck.kinds.common.kind import KindSpec
from pytest_evalcheck.kinds.registry import kind_of, shipped
from pytest_evalcheck.strategies.samples import SampleStrategy
from pytest_evalcheck.targets.device_spec import KINDS
from pytest_evalcheck.targets.target import KnownFailure, Target, requirement
from pytest_evalcheck.variants import Variant

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Keywords(TypedDict, total=False):
    """What every decorator of a target takes, as keywords."""

    inputs: SampleStrategy
    """What draws samples: one of `pytest_evalcheck.strategies`. The only keyword that is needed."""
    known_failures: Mapping[str, KnownFailure]
    """By the code or the name of a check: why its promise is known to be broken."""
    not_applicable: Mapping[str, str]
    """By the code or the name of a check: why its promise does not apply here."""
    examples: Sequence[Sequence[Any]]
    """Lists of samples that every check tries first."""
    devices: Sequence[str]
    """The kinds of device that the target can run on."""
    requires: Sequence[str]
    """Distributions (``"transformers>=5"``) without which the target is not run."""
    extra_checks: Sequence[Check]
    """Checks of your own, made with `check`."""
    tolerance: Tolerance | float
    """A relative one, or a `Tolerance`."""
    reference: Callable[[Any], Any]
    """From samples to the value that is right."""
    fresh: Literal["example", "cell"]
    """With ``"cell"`` the factory is called once a cell, and what it gave is copied for every use."""
    isolated: bool
    """Whether every cell runs in a process of its own."""
    timeout: float
    """Seconds a cell."""
    budget: Mapping[str, int]
    """What scoring one batch on an accelerator may cost: ``{"transfers": 0, "syncs": 1}``. Nothing by default."""


class LoopKeywords(Keywords, total=False):
    """What `loop` takes beside them."""

    variants: Mapping[str, Variant | Mapping[str, Any]]
    """By name, optimised configurations of the same loop: a `Variant`, or keywords of ``evaluate``."""


Decorator = Callable[[Callable[..., Any]], Target]


def metric(**keywords: Unpack[Keywords]) -> Decorator:
    """Make a metric target of a factory: ``factory(device, ...)`` gives a new metric every time it is called.

    The keywords are those of `Keywords`: ``inputs`` draws samples (`pytest_evalcheck.strategies`), ``reference`` maps
    samples to the value that is right.
    """
    return _decorator("metric", keywords)


def wrapper(**keywords: Unpack[Keywords]) -> Decorator:
    """Make a wrapper target of a factory: it gives a model in its wrapper, new every time it is called.

    The keywords are those of `Keywords`. ``inputs`` draws the rows of a batch, e.g. ``strategies.causal_lm(vocab=40)``.
    The factory starts from the same random numbers every time, so that weights are the same in every object.
    """
    return _decorator("wrapper", keywords)


def decoder(**keywords: Unpack[Keywords]) -> Decorator:
    """Make a decoder target of a factory: it gives what generates with a cache, new every time it is called.

    The keywords are those of `Keywords`. ``inputs`` draws prompts, e.g. ``strategies.prompts(vocab=64)``. Logits may
    lie apart by 1e-3, or by the ``tolerance``.
    """
    return _decorator("decoder", keywords)


def scorer(**keywords: Unpack[Keywords]) -> Decorator:
    """Make a scorer target of a factory: it gives what makes scores of responses and documents, new every time.

    The keywords are those of `Keywords`. ``inputs`` draws documents with their responses, e.g.
    ``strategies.responses(max_repeats=3)``; ``reference`` maps them to the list of scores that is right.
    """
    return _decorator("scorer", keywords)


def loop(**keywords: Unpack[LoopKeywords]) -> Decorator:
    """Make a loop target of a factory: it gives a whole evaluation of a data set, new every time it is called.

    The keywords are those of `LoopKeywords`. ``inputs`` draws the samples of a data set, e.g.
    ``strategies.tabular(features=3, classes=4)``; ``reference`` maps them to the numbers that are right, by name.
    """
    return _decorator("loop", keywords)


def target(kind: str, **keywords: Any) -> Decorator:
    """Make a target of any kind of a factory, such as one that another distribution registered.

    The keywords are those of `Keywords`, and those that the kind adds.
    """
    return _decorator(kind, keywords)


def _decorator(kind: str, keywords: Any) -> Decorator:
    def decorate(factory: Callable[..., Any]) -> Target:
        problems: list[str] = []
        spec = _kind(kind, problems)
        options = spec.options if spec else {}
        names = [*_DEFAULTS, *options]
        given: dict[str, Any] = {**_DEFAULTS, **{name: keywords[name] for name in _DEFAULTS if name in keywords}}
        problems += [f"unknown keyword {n!r}{nearest(n, names)}" for n in keywords if n not in names and spec]
        if not isinstance(given["inputs"], SampleStrategy):
            example = spec.example if spec else "multiclass(classes=5)"
            problems.append(
                f"inputs={given['inputs']!r}; expected samples, e.g. pytest_evalcheck.strategies.{example}, "
                "or strategies.samples(strategy, collate=...) for your own"
            )
        problems += _check_factory(factory)
        problems += [
            f"extra_checks holds {e!r}; expected functions decorated with @ec.check"
            for e in given["extra_checks"]
            if not isinstance(e, Check)
        ]
        extras = tuple(e for e in given["extra_checks"] if isinstance(e, Check))
        problems += _check_extras(kind, extras)
        checks = (*(check for check in shipped() if kind in check.kinds), *extras)
        failures, inapplicable = dict(given["known_failures"] or {}), dict(given["not_applicable"] or {})
        problems += _check_codes("known_failures", failures, checks, KnownFailure)
        problems += _check_codes("not_applicable", inapplicable, checks, str)
        both = set(failures) & set(inapplicable)
        problems += [f"{code} is both a known failure and not applicable" for code in sorted(both)]
        problems += _check_requirements(given["requires"])
        if given["fresh"] not in ("example", "cell"):
            problems.append(f"fresh={given['fresh']!r}; expected 'example' or 'cell'")
        if given["timeout"] is not None and not given["timeout"] > 0:
            problems.append(f"timeout={given['timeout']!r}; expected seconds above 0")
        return Target(
            kind=kind,
            factory=factory,
            inputs=given["inputs"],  # a wrong one is among the problems
            known_failures=failures,
            not_applicable=inapplicable,
            examples=tuple(list(rows) for rows in given["examples"]),
            devices=None if given["devices"] is None else tuple(given["devices"]),
            requires=tuple(given["requires"]),
            extra_checks=extras,
            tolerance=_tolerance(given["tolerance"], spec, problems),
            reference=given["reference"],
            fresh=given["fresh"],
            isolated=given["isolated"],
            timeout=given["timeout"],
            budget=_budget(given["budget"], problems),
            options={
                name: option.read(keywords.get(name, option.default), problems) for name, option in options.items()
            },
            problems=tuple(problems),
        )

    return decorate


def _kind(name: str, problems: list[str]) -> KindSpec | None:
    try:
        return kind_of(name)
    except UsageError as error:
        problems.append(str(error))
        return None


_DEFAULTS: dict[str, Any] = {
    "inputs": None,
    "known_failures": None,
    "not_applicable": None,
    "examples": (),
    "devices": None,
    "requires": (),
    "extra_checks": (),
    "tolerance": None,
    "reference": None,
    "fresh": "example",
    "isolated": False,
    "timeout": None,
    "budget": None,
}
BUDGETS = ("transfers", "syncs")


def _check_factory(factory: Any) -> list[str]:
    if not inspect.isfunction(factory):
        return [f"a target is a decorated function, got {factory!r}"]
    odd = [
        p.name for p in inspect.signature(factory).parameters.values() if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    return [f"the factory takes *{name}; expected `device` and fixtures by name" for name in odd]


def _check_extras(kind: str, extras: Sequence[Check]) -> list[str]:
    taken = {made.code: made.name for made in shipped()}
    problems = []
    for made in extras:
        if made.code in taken:
            problems.append(f"extra check {made.name} has the code {made.code}, which is {taken[made.code]}")
        if kind not in made.kinds:
            problems.append(f"extra check {made.name} is about a {made.kinds[0]}, this target is a {kind}")
    return problems


def _check_codes(table: str, entries: Mapping[str, Any], checks: Sequence[Check], kind: type) -> list[str]:
    words = [word for made in checks for word in (made.code, made.name)]
    others = {word: made.kinds[0] for made in shipped() for word in (made.code, made.name)}
    problems = [
        f"{table}[{key!r}]: that check is about a {others[key]}, not about this kind of target"
        if key in others
        else f"{table} names no check: {key!r}{nearest(str(key), words)}"
        for key in entries
        if key not in words
    ]
    for key, entry in entries.items():
        if not isinstance(entry, kind):
            wanted = 'ec.KnownFailure("why")' if kind is KnownFailure else "a reason as text"
            problems.append(f"{table}[{key!r}] is {entry!r}; expected {wanted}")
        elif isinstance(entry, KnownFailure) and entry.devices is not None and not set(entry.devices) <= set(KINDS):
            problems.append(f"{table}[{key!r}] is about {entry.devices!r}; expected some of {KINDS}")
        elif not str(entry.reason if isinstance(entry, KnownFailure) else entry).strip():
            problems.append(f"{table}[{key!r}] gives no reason")
    return problems


def _check_requirements(requires: Sequence[str]) -> list[str]:
    problems = []
    if isinstance(requires, str):
        return [f"requires={requires!r}; expected a tuple, such as ({requires!r},)"]
    for text in requires:
        try:
            requirement(text)
        except ValueError as error:
            problems.append(f"requires {text!r}: {str(error).splitlines()[0]}")
    return problems


def _budget(given: Any, problems: list[str]) -> dict[str, int]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        problems.append(f"budget={given!r}; expected a mapping such as {{'syncs': 1}}")
        return {}
    for name, count in given.items():
        if name not in BUDGETS:
            problems.append(f"budget has {name!r}; expected {' or '.join(BUDGETS)}{nearest(str(name), BUDGETS)}")
        elif isinstance(count, bool) or not isinstance(count, int) or count < 0:
            problems.append(f"budget[{name!r}] is {count!r}; expected how many a batch, at least 0")
    return dict(given)


def _tolerance(given: Tolerance | float | None, spec: KindSpec | None, problems: list[str]) -> Tolerance:
    if given is None:
        return spec.tolerance if spec else Tolerance()
    if isinstance(given, Tolerance):
        return given
    try:
        return Tolerance(rtol=float(given))
    except (TypeError, ValueError) as error:
        problems.append(f"tolerance={given!r}: {error}; expected a relative tolerance or ec.Tolerance(rtol=, atol=)")
        return Tolerance()
