"""Merging metrics by a method of theirs, whatever it takes: the other metrics, or one of them after the other."""

from __future__ import annotations

import copy
import inspect
import pickle
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from pytest_evalcheck.expectations.call_log import called
from pytest_evalcheck.expectations.failures import NotApplicable
from pytest_evalcheck.kinds.common.calling import pass_on_what_cannot_be_simulated
from pytest_evalcheck.kinds.metric.record import Metric

Form = Callable[[Any, str, Sequence[Any]], Any]

_WRONG_FORM = (TypeError, AttributeError)
"""Errors of a method that was given one metric where it iterates over several, or the other way round."""


def _list(into: Any, method: str, others: Sequence[Any]) -> Any:
    return _result(into, called(getattr(into, method), list(others)))


def _generator(into: Any, method: str, others: Sequence[Any]) -> Any:
    return _result(into, getattr(into, method)(other for other in others))


def _merge_one_by_one(into: Any, method: str, others: Sequence[Any]) -> Any:
    for other in others:
        into = _result(into, called(getattr(into, method), other))
    return into


def _result(into: Any, returned: Any) -> Any:
    """The merged metric: a new one where the method returns it, and otherwise the one that was merged into."""
    return returned if type(returned) is type(into) else into


def merging(method: str, record: Callable[[Any], Metric]) -> Callable[[Sequence[Metric]], Any]:
    """A function from the records of several ranks to the merged value; no rank is changed.

    Which form of arguments the method takes is found out by trying it. Where no form fits, or where the metrics cannot
    be copied, merging does not apply: what the method takes instead is not known.
    """

    def merged(ranks: Sequence[Metric]) -> Any:
        sources = [rank.source for rank in ranks]
        form = _fitting(method, sources)
        first, *others = map(_copied, sources)
        return called(record(form(first, method, others)).compute)

    return merged


def gathering(source: Any, method: str, record: Callable[[Any], Metric]) -> Callable[[], Any]:
    """``compute`` over all processes of the default group: every metric is gathered as a pickle, and all are merged."""
    merged = merging(method, record)

    def synchronised() -> Any:
        import torch.distributed as dist

        try:
            pickle.dumps(source)
        except Exception as error:  # EC209 says so of a metric that ought to
            text = f"{type(source).__name__} does not pickle, so that {method} gets none of another process ({error})"
            raise NotApplicable(text) from error
        ranks: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(ranks, source)
        return merged([record(rank) for rank in ranks])

    return synchronised


def _fitting(method: str, sources: Sequence[Any]) -> Form:
    """The form of arguments with which these metrics can be merged: each is merged with a copy of itself.

    Raises:
        NotApplicable: where every form raises an error that tells of a wrong form.
    """
    known = _found.setdefault(type(sources[0]), {})
    if method in known:
        return known[method]
    raises: Form | None = None
    told = ""
    for source in sources:
        for form in _forms(getattr(source, method)):
            into, other = _copied(source), _copied(source)
            try:
                form(into, method, [other])
            except _WRONG_FORM as error:
                told = told or f"{type(error).__name__}: {error}"
            except Exception:  # the form may well fit, and the method be at fault
                raises = raises or form
            else:
                known[method] = form
                return form
    if raises is None:
        name = type(sources[0]).__name__
        raise NotApplicable(f"{name}.{method} takes neither a list, nor a generator, nor one other metric ({told})")
    return raises


_found: weakref.WeakKeyDictionary[type, dict[str, Form]] = weakref.WeakKeyDictionary()
"""By class and method, the form with which merging was seen to work."""


def _forms(method: Callable[..., Any]) -> Sequence[Form]:
    """The forms to try, the likely ones first: a parameter with a plural name takes several metrics."""
    try:
        first = next(iter(inspect.signature(method).parameters.values()), None)
    except (TypeError, ValueError):
        first = None
    several = first is not None and first.kind is not inspect.Parameter.VAR_POSITIONAL and first.name.endswith("s")
    return (_list, _generator, _merge_one_by_one) if several else (_merge_one_by_one, _list, _generator)


def _copied(source: Any) -> Any:
    try:
        return called(copy.deepcopy, source)
    except Exception as error:
        pass_on_what_cannot_be_simulated(error)
        text = f"{type(error).__name__}: {error}"
        raise NotApplicable(f"{type(source).__name__} cannot be copied, and a merge may change it ({text})") from error
