"""The decorators that make a target of a factory. They never raise: what is wrong is kept in `Target.problems`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from pytest_evalcheck.expectations.comparison import Tolerance
from pytest_evalcheck.kinds.common.check import Check
from pytest_evalcheck.kinds.metric.declared import Undefined
from pytest_evalcheck.strategies.samples import SampleStrategy
from pytest_evalcheck.targets.making import Decorator, decorator
from pytest_evalcheck.targets.target import KnownFailure
from pytest_evalcheck.variants import Variant

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Keywords(TypedDict, total=False):
    """Keywords of every decorator of a target."""

    inputs: SampleStrategy
    """The strategy of samples: one of `pytest_evalcheck.strategies`. The only keyword that is needed."""
    known_failures: Mapping[str, KnownFailure | Sequence[KnownFailure]]
    """By the code or the name of a check: why it is known to fail; a tuple of several reasons."""
    not_applicable: Mapping[str, str]
    """By the code or the name of a check: why it does not apply here."""
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
    fresh: Literal["example", "check"]
    """With ``"check"`` the factory is called once for a check, and its result is copied for every use."""
    isolated: bool
    """Run every cell in a process of its own."""
    timeout: float
    """Seconds a cell."""
    budget: Mapping[str, int] | None
    """The cost of one batch on an accelerator: ``{"transfers": 0, "syncs": 1}``. Nothing by default; None is
    no limit."""


class MetricKeywords(Keywords, total=False):
    """Further keywords of `metric`."""

    undefined: Mapping[str, Undefined]
    """By name, streams for which the metric has no value, each with what is documented for it."""
    symmetric: bool
    """Predictions and targets may be exchanged."""
    options: Mapping[str, Any]
    """By the name of an argument of the factory, the values that are documented for it; ``...`` for those that the
    annotation of the class lists."""


class LoopKeywords(Keywords, total=False):
    """Further keywords of `loop`."""

    variants: Mapping[str, Variant | Mapping[str, Any]]
    """By name, optimised configurations of the same loop: a `Variant`, or keywords of ``evaluate``."""


def metric(misplaced: Any = None, /, **keywords: Unpack[MetricKeywords]) -> Decorator:
    """Make a metric target of a factory: ``factory(device, ...)`` gives a new metric every time it is called.

    The keywords are those of `MetricKeywords`: ``inputs`` draws samples (`pytest_evalcheck.strategies`), ``reference``
    maps samples to the value that is right.
    """
    return decorator("metric", keywords, misplaced)


def wrapper(misplaced: Any = None, /, **keywords: Unpack[Keywords]) -> Decorator:
    """Make a wrapper target of a factory: it gives a model in its wrapper, new every time it is called.

    The keywords are those of `Keywords`. ``inputs`` draws the rows of a batch, e.g. ``strategies.causal_lm(vocab=40)``.
    The factory starts from the same random numbers every time, so that weights are the same in every object.
    """
    return decorator("wrapper", keywords, misplaced)


def decoder(misplaced: Any = None, /, **keywords: Unpack[Keywords]) -> Decorator:
    """Make a decoder target of a factory: it gives what generates with a cache, new every time it is called.

    The keywords are those of `Keywords`. ``inputs`` draws prompts, e.g. ``strategies.prompts(vocab=64)``. Logits may
    lie apart by 1e-3, or by the ``tolerance``.
    """
    return decorator("decoder", keywords, misplaced)


def scorer(misplaced: Any = None, /, **keywords: Unpack[Keywords]) -> Decorator:
    """Make a scorer target of a factory: it gives what makes scores of responses and documents, new every time.

    The keywords are those of `Keywords`. ``inputs`` draws documents with their responses, e.g.
    ``strategies.responses(max_repeats=3)``; ``reference`` maps them to the list of scores that is right.
    """
    return decorator("scorer", keywords, misplaced)


def loop(misplaced: Any = None, /, **keywords: Unpack[LoopKeywords]) -> Decorator:
    """Make a loop target of a factory: it gives a whole evaluation of a data set, new every time it is called.

    The keywords are those of `LoopKeywords`. ``inputs`` draws the samples of a data set, e.g.
    ``strategies.tabular(features=3, classes=4)``; ``reference`` maps them to the numbers that are right, by name.
    """
    return decorator("loop", keywords, misplaced)


def task(misplaced: Any = None, /, **keywords: Unpack[Keywords]) -> Decorator:
    """Make a task target of a factory: it gives a task, from a document to its score, new every time it is called.

    The keywords are those of `Keywords`. ``inputs`` may name documents, e.g. ``strategies.documents([...])``; without
    them they are those of the task.
    """
    return decorator("task", keywords, misplaced)


def target(kind: str = "", /, **keywords: Any) -> Decorator:
    """Make a target of any kind of a factory, such as one that another distribution registered.

    The keywords are those of `Keywords`, and those that the kind adds.
    """
    return decorator(kind, keywords)
