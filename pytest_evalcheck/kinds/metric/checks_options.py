"""EC227 and EC228: combinations of options compute, and options that mean nothing are refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_evalcheck.expectations.comparison import EXACT, Raised, difference, show
from pytest_evalcheck.expectations.failures import TargetError, expect, refused
from pytest_evalcheck.kinds.common.calling import is_clear_refusal
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.common.combinations import covering
from pytest_evalcheck.kinds.metric.cases_data import Combined, FewKinds
from pytest_evalcheck.kinds.metric.subject import MetricSubject

_MOST = 60
"""So many combinations of the options of one target are tried, at most."""
_NO_VALUE = "evalcheck-has-no-such-value"


@check("EC227", regimes=("several batches",), needs=("options",), after=("EC222",))
def every_combination_of_options_computes(metric: MetricSubject, case: Combined) -> None:
    """Every documented combination of options gives a value, or is refused clearly; so is a value that does not exist.

    Why: an option that works with the default of another one fails on the one night on which both are needed.
    Usual cause: each option is handled by a branch of its own, and tests try one branch at a time.
    Fix: test every pair of values, and refuse in the constructor what does not fit.
    """
    values = metric.option_values
    for chosen in _combinations(values, case):
        value = _value(metric, case, chosen)
        expect(value).holds(
            not isinstance(value, Raised) or is_clear_refusal(value.error),
            about="a combination of options neither gives a value nor is refused clearly",
            detail=f"options  {_shown(chosen)}\nactual   {show(value)}",
        )
    for name in [name for name, listed in values.items() if any(isinstance(value, str) for value in listed)]:
        value = _value(metric, case, {name: _NO_VALUE})
        expect(value).holds(
            isinstance(value, Raised),
            about=f"{name} takes a value that does not exist",
            detail=f"options  {name}={_NO_VALUE!r}\nactual   {show(value)}",
        )


@check("EC228", regimes=("several batches",), needs=("options",), examples=4, after=("EC227",))
def an_option_changes_the_value_or_is_refused(metric: MetricSubject, case: Combined) -> None:
    """The values of an option do not all give one result, whatever the other options are: else it is refused.

    A warning that it means nothing is as good as a refusal.

    Why: who sets an option that has no effect believes that the score is another one than it is.
    Usual cause: one branch of the code returns before the option is looked at.
    Fix: raise a ValueError, or warn, where an option means nothing beside another one.
    """
    values = metric.option_values
    streams = [case.cut, *([list(one.samples)] for one in FewKinds.canonical(metric.inputs))]
    for name, listed in values.items():
        others = {other: each for other, each in values.items() if other != name}
        for context in _combinations(others, case):
            seen = [list(_told(metric, streams, {**context, name: value})) for value in listed]
            expect(seen).holds(
                len(listed) < 2 or _some_differ(seen),
                about=f"{name} has no effect, in silence",
                detail=f"beside  {_shown(context)}\nvalues  {', '.join(map(repr, listed))}: {show(seen[0][0])}",
            )


def _combinations(values: Mapping[str, Sequence[Any]], case: Combined) -> list[dict[str, Any]]:
    """The part of the combinations that this case tries, each with a value for every option."""
    usual = {name: listed[0] for name, listed in values.items()}
    return [{**usual, **changed} for changed in covering(values, _MOST)[0]][case.part :: case.PARTS]


def _value(metric: MetricSubject, case: Combined, chosen: Mapping[str, Any]) -> Any:
    """The value with these options, or the error, that of the constructor included."""
    return next(iter(_told(metric, [case.cut], chosen, warned=False)))


def _told(metric: MetricSubject, streams: Any, chosen: Mapping[str, Any], *, warned: bool = True) -> Iterator[Any]:
    """For each stream, the value with these options or the error; with ``warned`` also the warnings."""
    for batches in streams:
        try:
            value, texts = metric.value_and_all_warnings(batches, **chosen)
        except TargetError as error:
            if error.cause != "factory" or error.__cause__ is None:
                raise
            value, texts = Raised(error.__cause__, "the constructor"), []
            refused(value)
        yield (value, texts) if warned and texts else value


def _some_differ(seen: list[list[Any]]) -> bool:
    """Whether two values of an option differ in some stream: in a number, a shape, an error or a warning."""
    first, *others = seen
    return any(difference(a, b, EXACT) is not None for other in others for a, b in zip(first, other, strict=True))


def _shown(chosen: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in chosen.items()) or "no other option"
