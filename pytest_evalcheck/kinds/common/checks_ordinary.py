"""EC001: ordinary data is evaluated, whatever the kind of the target."""

from __future__ import annotations

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import expect, inconclusive
from pytest_evalcheck.kinds.common.calling import is_clear_refusal
from pytest_evalcheck.kinds.common.case import OrdinarySamples
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.common.subject import OrdinarySubject


@check("EC001", conditions=("a single sample", "equal samples"), examples=4, ordinary=True, severity="error")
def ordinary_data_is_evaluated_or_clearly_refused(subject: OrdinarySubject, case: OrdinarySamples) -> None:
    """Ordinary data gives a result or is refused clearly: one sample, equal samples, two that are equal beside another.

    A refusal is an error with a text that a `raise` statement raises, other than those of mistakes of the code: a
    lookup, an attribute, a name, a type, an assertion, a division. Another error ends an evaluation, in every
    configuration alike, so that no comparison of two configurations finds it.

    Why: real data has duplicates, and a part of it may have one sample; the run of a night must not end there.
    Usual cause: samples identified by their contents, an `assert` that all of them differ, a spread of one number.
    Fix: identify samples by their index, or `raise ValueError` that says what is missing.
    """
    result = subject.plain_result(case.samples)
    if isinstance(result, Raised) and is_clear_refusal(result.error):
        inconclusive(str(result))
        return
    nothing = subject.result_of_nothing(case.samples) if isinstance(result, Raised) else None
    if isinstance(nothing, Raised) and nothing.origin == result.origin:
        inconclusive(f"{result}, as without any sample: these hold nothing that counts")
        return
    expect(result).holds(
        not isinstance(result, Raised),
        about="ordinary data ended in an error that says nothing about the data",
        id="unclear-error",
        detail=str(result),
    )
