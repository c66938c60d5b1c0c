"""EC227 and EC228: combinations of options compute, and options that mean nothing are refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_evalcheck.expectations.comparison import EXACT, Raised, difference, show
from pytest_evalcheck.expectations.failures import TargetError, expect, inconclusive
from pytest_evalcheck.expectations.ids import slug
from pytest_evalcheck.kinds.common.calling import is_clear_refusal
from pytest_evalcheck.kinds.common.case import fixed_up_to
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.common.combinations import covering
from pytest_evalcheck.kinds.metric.cases import Combined, FewKinds
from pytest_evalcheck.kinds.metric.subject import MetricSubject
from pytest_evalcheck.strategies.samples import Bulk

_MOST = 60
"""Number of combinations of the options of one target that are tried, at most."""
_NO_VALUE = "evalcheck-has-no-such-value"


@check("EC227", conditions=("several batches",), needs=("options",), after=("EC222",))
def every_combination_of_options_computes(metric: MetricSubject, case: Combined) -> None:
    """Every documented combination of options gives a value, or is refused clearly; so is a value that does not exist.

    Why: an option that works with the default of another one fails on the one night on which both are needed.
    Usual cause: each option is handled by a branch of its own, and tests try one branch at a time.
    Fix: test every pair of values, and `raise ValueError` in the constructor for what does not fit.
    """
    values = metric.option_values
    for chosen in _combinations(values)[case.part :: case.PARTS]:
        value = _value_and_warnings(metric, case.split, chosen)
        expect(value).holds(
            not isinstance(value, Raised) or is_clear_refusal(value.error),
            about="a combination of options neither gives a value nor is refused clearly",
            id="combination-of-options",
            detail=f"options  {_shown(chosen)}\nactual   {show(value)}",
        )
    for name in [name for name, listed in values.items() if any(isinstance(value, str) for value in listed)]:
        value = _value_and_warnings(metric, case.split, {name: _NO_VALUE})
        expect(value).holds(
            isinstance(value, Raised),
            about=f"{name} takes a value that does not exist",
            id=f"unknown-value-of-{slug(name)}",
            form="error",
            detail=f"options  {name}={_NO_VALUE!r}\nactual   {show(value)}",
        )


@check("EC228", conditions=("several batches",), needs=("options",), examples=4, after=("EC227",))
def an_option_changes_the_value_or_is_refused(metric: MetricSubject, case: Combined) -> None:
    """The values of an option do not all give one result, whatever the other options are: else it is refused.

    A warning that it means nothing is as good as a refusal. An option that has no effect anywhere is not judged: the
    samples may hold nothing that it is about, such as a NaN. Beside a number, such as a limit of 1, it may have none.

    Why: who sets an option that has no effect believes that the score is another one than it is.
    Usual cause: one branch of the code returns before the option is looked at.
    Fix: `raise ValueError`, or warn, in the constructor where an option means nothing beside another one.
    """
    values, streams = metric.option_values, [case.split, *_streams(metric)]
    for name in list(values)[case.part :: case.PARTS]:
        contexts = _combinations({other: each for other, each in values.items() if other != name})
        branches: dict[str, list[tuple[bool | None, Mapping[str, Any]]]] = {}
        for context in contexts:
            effect = _effect(metric, streams, name, values[name], context)
            branches.setdefault(_shown(_names(context)), []).append((effect, context))
        if not any(effect for tried in branches.values() for effect, _ in tried):
            inconclusive(f"the samples hold nothing that {name} is about")
            continue
        for branch, tried in branches.items():
            silent = [] if any(effect for effect, _ in tried) else [each for effect, each in tried if effect is False]
            results = _values_and_warnings(metric, streams, name, values[name], silent[0], contexts) if silent else []
            expect(results[-1] if results else None).holds(
                not silent,
                about=f"{name} has no effect, in silence",
                id=f"no-effect-of-{slug(name)}",
                form="different",
                beside=results[0] if results else None,
                detail=f"beside  {branch}\nvalues  {', '.join(map(repr, values[name]))}",
            )


def _names(context: Mapping[str, Any]) -> dict[str, Any]:
    """The values that choose a branch; a number is a limit, and another option may mean nothing at the limit."""
    number = (int, float)
    return {name: value for name, value in context.items() if isinstance(value, bool) or not isinstance(value, number)}


def _values_and_warnings(
    metric: MetricSubject,
    streams: Sequence[Any],
    name: str,
    listed: Sequence[Any],
    context: Mapping[str, Any],
    contexts: Sequence[Mapping[str, Any]],
) -> list[Any]:
    """The result, with warnings, for each value of an option that has no effect beside these values of the others.

    The stream is one in which the option has an effect beside other values, where there is such a stream.
    """
    silent = [each for each in streams if _differ(metric, each, name, listed, context) is False]
    telling = (each for each in silent if any(_differ(metric, each, name, listed, other) for other in contexts))
    batches = next(telling, silent[0])
    return [_value_and_warnings(metric, batches, {**context, name: value}) for value in listed]


def _streams(metric: MetricSubject) -> list[Any]:
    """Streams in which an option has an effect, if it has one at all: many samples, few, and samples of few kinds."""
    inputs = metric.inputs
    rows = fixed_up_to(inputs, _MANY)
    few = [one.samples for one in FewKinds.canonical(inputs)]
    many = [list(inputs.bulk(Bulk(seed=0, rows=2 * _MANY)))] if inputs.bulk is not None else []
    parts = [rows[start : start + _FEW] for start in range(0, len(rows), _FEW)]
    return [[each] for each in (*many, rows, rows[::2], rows[1::2], *few, *parts) if len(each) >= inputs.min_samples]


_MANY, _FEW = 24, 4


def _effect(
    metric: MetricSubject, streams: Sequence[Any], name: str, listed: Sequence[Any], context: Mapping[str, Any]
) -> bool | None:
    """Return whether an option has an effect beside these values of the others; None where they are refused anyway."""
    results = set()
    for each in streams:
        effect = _differ(metric, each, name, listed, context)
        if effect:
            return True
        results.add(effect)
    return False if False in results else None


def _differ(
    metric: MetricSubject, batches: Any, name: str, listed: Sequence[Any], context: Mapping[str, Any]
) -> bool | None:
    """Return whether one value of an option is refused for this stream, or two give another number, shape or warning.

    None where all are refused: that is the effect of the context, or of the stream.
    """
    results = [_value_and_warnings(metric, batches, {**context, name: value}) for value in listed]
    refused = [isinstance(each, Raised) for each in results]
    if all(refused):
        return None
    return any(refused) or any(difference(results[0], other, EXACT) is not None for other in results[1:])


def _combinations(values: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Combinations in which every pair of values occurs, each with a value for every option."""
    usual = {name: listed[0] for name, listed in values.items()}
    return [{**usual, **changed} for changed in covering(values, _MOST)[0]]


def _value_and_warnings(metric: MetricSubject, batches: Any, chosen: Mapping[str, Any]) -> Any:
    """The value with these options, and the warnings where there are any; or the error, also of the constructor."""
    try:
        value, texts = metric.value_and_all_warnings(batches, **chosen)
    except TargetError as error:
        if error.cause != "factory" or error.__cause__ is None:
            raise
        return Raised(error.__cause__, "the constructor")
    return (value, texts) if texts and not isinstance(value, Raised) else value


def _shown(chosen: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in chosen.items()) or "no other option"
