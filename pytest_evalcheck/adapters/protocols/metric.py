"""Metrics of any class and plain functions, recognised by their methods and parameters and not by their library.

`protocol_of` decides for a class, `protocol_of_function` for a function, without calling either. Methods are looked up
statically: what ``__getattr__`` answers is no method.
"""

from __future__ import annotations

import copy
import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from inspect import Parameter
from types import SimpleNamespace
from typing import Any

from pytest_evalcheck.adapters.lookup import adapter_for
from pytest_evalcheck.adapters.protocols.collecting import Collected
from pytest_evalcheck.adapters.protocols.merging import gathering, merging
from pytest_evalcheck.adapters.protocols.one_sample import DESCRIBED, Listed, by_sample, takes_one_sample
from pytest_evalcheck.adapters.protocols.three_arrays import three_arrays
from pytest_evalcheck.errors import nearest, safe_text
from pytest_evalcheck.expectations.call_log import called, pickled
from pytest_evalcheck.kinds.common.convention import Convention
from pytest_evalcheck.kinds.metric.record import Metric


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """Names of the methods that feed a metric and give its value."""

    feed: str
    """The method that takes a batch: ``update``, ``update_state``, ``__call__``."""
    value: str = ""
    """The method that gives the value of what was fed; empty where the object is a function of all samples."""
    reset: str = ""
    """The method that starts again; empty where there is none."""
    one_tuple: bool = False
    """True if ``feed`` takes all arguments as one tuple, as in ``update((y_pred, y))``."""
    targets_first: bool | None = None
    """True if its first two parameters are named as targets and predictions, as in ``(y_true, y_pred)``; None where
    the names do not say which is which. A record takes its arguments in the order of the method."""
    one_sample: bool = False
    """True if ``feed`` takes one sample a call, by its annotations, as in ``update(y_true: float, y_pred: float)``."""

    @property
    def accumulates(self) -> bool:
        """Return whether it is fed batch by batch, and not called once with all samples."""
        return bool(self.value)


@dataclass(frozen=True)
class _Family:
    feed: str
    value: str
    resets: tuple[str, ...]
    needs_reset: bool = True
    """True if the first two names alone may mean something else: a mapping has ``update`` and ``get``. Parameters of
    ``feed`` that are named as predictions and targets say as much as a reset."""


_FAMILIES = (
    _Family("update_state", "result", ("reset_state", "reset_states"), needs_reset=False),
    _Family("update", "compute", ("reset",), needs_reset=False),
    _Family("add_batch", "compute", ("reset",)),
    _Family("add", "compute", ("reset",)),
    _Family("update", "accumulate", ("reset",)),
    _Family("update", "get", ("reset",)),
    _Family("__call__", "aggregate", ("reset",)),
    _Family("__call__", "get_metric", ("reset",)),
)
_MERGES = ("merge_state", "merge")
_ONE_TUPLE = ("output", "outputs")
"""Names of the single parameter that takes what a model and a loader gave, together."""
_PREDICTIONS = re.compile(
    r"pred(iction|icted)?s?|y?hat|scores?|prob(a|s|as)?|logits?|inputs?|outputs?|hypothes[ie]s|candidates?"
    r"|simulat(ion|ed)s?|sim|forecast(ed)?s?|fct|results?|est(imate[sd]?)?"
)
_TARGETS = re.compile(
    r"y|true|truth|targets?|labels?|gt|golds?|references?|observ(ation|ed)s?|obs|actuals?|evaluations?"
)
"""Words in the names of parameters."""
_WEIGHTS = ("sample_weight", "sample_weights", "weight", "weights")
"""Names of the parameter that takes weights of samples, the one that says so first."""


def protocol_of(cls: type) -> Protocol | None:
    """The protocol of the objects of a class; None where they are no metrics. Nothing is called.

    >>> class Mean:
    ...     def update(self, values): ...
    ...     def compute(self): ...
    >>> protocol_of(Mean)
    Protocol(feed='update', value='compute', reset='', one_tuple=False, targets_first=None)
    >>> protocol_of(dict) is None
    True
    """
    return _protocol(cls)


def protocol_of_function(function: Callable[..., Any]) -> Protocol | None:
    """The protocol of a function of predictions and targets, known by the names of its first parameters.

    >>> def accuracy(y_true, y_pred, normalize=True): ...
    >>> protocol_of_function(accuracy).targets_first
    True
    >>> protocol_of_function(len) is None
    True
    """
    signature = _signature(function)
    if three_arrays(signature) is not None:
        return Protocol(feed="__call__")
    order = _targets_first(signature)
    return None if order is None else Protocol(feed="__call__", targets_first=order)


def is_function(made: Any) -> bool:
    """Return whether it keeps no state: a function, a method of something else, or a partial of one."""
    return inspect.isroutine(made) or isinstance(made, functools.partial)


def recognises(made: Any) -> bool:
    """Return whether `record` describes it: an object with a protocol, or a function that takes arguments."""
    if isinstance(made, type):
        return False
    if is_function(made):
        return any(_is_positional(each) or _is_required(each) for each in _signature(made))
    return _protocol(made) is not None


def record(made: Any) -> Metric:
    """The record of a metric object or of a function, in whatever order it takes its arguments.

    Raises:
        TypeError: where it has no protocol, not even by ``__getattr__``.
    """
    if is_function(made) and recognises(made):
        return _collecting_record(made)
    protocol = None if isinstance(made, type) else _protocol(made)
    if protocol is None:
        missing = [name for name in ("update", "compute") if not callable(getattr(made, name, None))]
        if missing:
            raise TypeError(f"{type(made).__name__} has no method {' and no '.join(missing)}; a metric needs both")
        # Whoever describes an object by hand may mean methods that it passes on to another one.
        reset = "reset" if callable(getattr(made, "reset", None)) else ""
        protocol = Protocol(feed="update", value="compute", reset=reset)
    return _accumulator(made, protocol) if protocol.accumulates else _collecting_record(made)


def _one_at_a_time(known: Metric) -> Metric:
    """The record with an ``update`` that gives the object one sample a call."""
    listed = Listed(known.source) if is_function(known.source) else None
    if listed is not None:
        around = functools.wraps(known.source, assigned=DESCRIBED)
        of_each = around(lambda *args, **kwargs: listed.update(*args, **kwargs))
        known = replace(known, update=of_each, compute=listed.compute, weights="")
    feed = by_sample(known.update, listed)
    # What a method would return for a batch, and other ways to call it, are of single samples here.
    conventions = by_name(feed, _signature(known.update))
    return replace(known, update=feed, forward=None, function=None, conventions=conventions)


def with_conventions(known: Metric, again: Callable[[Any], Metric], conventions: Mapping[str, Convention]) -> Metric:
    """The record with more conventions; copies of its object are described by ``again``, with theirs."""
    copies = copies_by(known, again)
    return replace(known, copies=copies, conventions={**known.conventions, **conventions})


def copies_by(known: Metric, again: Callable[[Any], Metric]) -> dict[str, Callable[[], Metric]]:
    """The methods to copy a metric, whose copies are described by ``again``."""

    def described(copied: Callable[[], Metric]) -> Callable[[], Metric]:
        return lambda: again(copied().source)

    return {name: described(copied) for name, copied in known.copies.items()}


def adapted(source: Any, merge: str | None, one_sample: bool, changes: Mapping[str, Any]) -> Metric:
    """The record of `Metric.of`: that of the adapter or of the protocol, with some fields changed.

    Raises:
        TypeError: see `Metric.of`.
    """
    _require_fields(changes)
    if one_sample and "update" in changes:
        changes = {**changes, "update": by_sample(changes["update"])}
    bound = {name: _bound(value, source) for name, value in changes.items()}
    loose = {name for name in _FED if name in changes and bound[name] is changes[name] is not None}

    def again(other: Any) -> Metric:
        return adapted(other, merge, one_sample, changes)

    def ways(known: Metric) -> dict[str, Convention]:
        # What the author calls otherwise is not called past the author.
        given = {name: _bound_convention(each, source) for name, each in changes.get("conventions", {}).items()}
        return {**({} if changes.keys() & {*_FED} else known.conventions), **given}

    if isinstance(source, Metric):
        known: Metric = _one_at_a_time(source) if one_sample else source
        function = None if changes.keys() & {"update", "compute"} else known.function
        return replace(known, **{"function": function, **changes, "conventions": ways(source)})
    if merge is not None and not callable(getattr(source, merge, None)):
        methods = [name for name in dir(source) if not name.startswith("_")]
        raise TypeError(f"{type(source).__name__} has no method {merge!r} to merge by{nearest(merge, methods)}")
    by_class = adapter_for("metric", source)
    base: Metric = record(source) if by_class is None else by_class(source)
    base = _one_at_a_time(base) if one_sample else base
    names = [*(base.merges if by_class is None else ()), *([merge] if merge else ())]
    merges = {**base.merges, **{name: merging(name, again) for name in names}}
    copies = {} if loose else copies_by(base, again)
    kept: dict[str, Any] = {"merges": {} if "compute" in loose else merges, "copies": copies}
    if not (_VALUES | ({"update"} if is_function(source) else set())) & changes.keys():
        kept["stock"] = source
    if changes.keys() & {"update", "compute"}:
        kept["function"] = None
    return replace(base, **{**kept, **bound, "conventions": ways(base)}, changed=frozenset(changes))


Metric.describe = adapted
_VALUES = {"compute", "forward", "reset", "merges", "copies"}
"""Callables in which a known fault of a library may be; a fault in its ``update`` is known by its owner. A function is
called with what its ``update`` is given, and has no other."""
_FED = ("update", "forward", "reset", "compute")
"""The callables that a copy needs of its own."""


def _require_fields(changes: Mapping[str, Any]) -> None:
    names = [each.name for each in fields(Metric)]
    for name, value in changes.items():
        if name not in names:
            raise TypeError(f"ec.Metric has no field {name!r}{nearest(name, names)}")
        if name in ("merges", "copies"):
            if not isinstance(value, Mapping) or not all(map(callable, value.values())):
                raise TypeError(f"{name}={safe_text(value)}; expected a mapping from names to functions")
        elif (
            name not in ("source", "stock", "changed", "conventions", "collective", "intervals")
            and not callable(value)
            and (value is not None or name in ("update", "compute"))
        ):
            raise TypeError(f"{name}={safe_text(value)}; expected a function")


def _bound(value: Any, source: Any) -> Any:
    """A callable that asks for the metric, with this one; anything else as it is."""
    if not callable(value):
        return value
    first = next(iter(_signature(value)), None)
    return functools.partial(value, source) if first is not None and first.name == "metric" else value


def _bound_convention(convention: Any, source: Any) -> Any:
    """A convention whose callables have this metric; what is no convention is refused by the record."""
    if not isinstance(convention, Convention) or not convention.supported:
        return convention
    changes = {name: _bound(value, source) for name, value in convention.changes.items()}
    return Convention(convention.documented, **changes)


def _accumulator(made: Any, protocol: Protocol) -> Metric:
    def again(other: Any) -> Metric:
        return _accumulator(other, protocol)

    saves = all(_offers(made, name) for name in ("state_dict", "load_state_dict"))
    merge = next((name for name in _MERGES if _offers(made, name)), "")
    feed = _feed(made, protocol)
    known = Metric(
        update=feed,
        compute=getattr(made, protocol.value),
        reset=getattr(made, protocol.reset) if protocol.reset else None,
        forward=made.forward if protocol.feed == "update" and _offers(made, "forward") else None,
        merges={merge: merging(merge, again)} if merge else {},
        synchronised=gathering(made, merge, again) if merge else None,
        copies={
            "deepcopy": lambda: again(called(copy.deepcopy, made)),
            "pickle": lambda: again(pickled(made)),
        },
        save=made.state_dict if saves else None,
        load=made.load_state_dict if saves else None,
        state=made.state_dict if saves else None,
        to=made.to if _offers(made, "to") else None,
        device=(lambda: made.device) if _static(made, "device") is not None else None,
        weights="" if protocol.one_tuple else weights_of(getattr(made, protocol.feed)),
        conventions={} if protocol.one_tuple else by_name(feed, _parameters(made, protocol.feed) or []),
        source=made,
    )
    return _one_at_a_time(known) if protocol.one_sample else known


def _collecting_record(function: Callable[..., Any]) -> Metric:
    """A record that collects the batches; merging, copying and resetting would be its own doing and say nothing."""
    collected = Collected(function)
    feed = _signature(function) if is_function(function) else _called(function)
    return Metric(
        update=collected.update,
        compute=collected.compute,
        weights=weights_of(function),
        conventions=by_name(collected.update, feed),
        function=function,
        source=function,
    )


def weights_of(feed: Callable[..., Any]) -> str:
    """The optional parameter that takes one weight per sample, by its name; empty where there is none.

    Beside ``sample_weight``, ``weights`` means something else, as it does with a default that is neither None nor a
    number, such as one weight for each length of words. A ``w`` is one where it is 1 unless it is given.

    >>> def kappa(y1, y2, *, weights=None, sample_weight=None): ...
    >>> weights_of(kappa)
    'sample_weight'
    """
    optional = {each.name: each.default for each in _signature(feed) if not _is_required(each)}
    optional = {name: default for name, default in optional.items() if not isinstance(default, (tuple, list, str))}
    found = next((name for name in _WEIGHTS if name in optional), "")
    return found or ("w" if type(optional.get("w")) in (int, float) and optional["w"] == 1 else "")


def by_name(update: Callable[..., Any], parameters: Sequence[Parameter]) -> dict[str, Convention]:
    """The conventions that arguments of a batch are given by the names of their parameters, where all have one."""
    positional = [each for each in parameters if _is_positional(each)]
    names = [each.name for each in positional if each.kind is Parameter.POSITIONAL_OR_KEYWORD]
    if not names or len(names) < len(positional):
        return {}

    def positional_first(count: int) -> Callable[..., Any]:
        def named(*args: Any, **kwargs: Any) -> Any:
            # More arguments than there are names are an error of their own.
            named = dict(zip(names[count:], args[count:], strict=False))
            return called(update, *args[:count], *args[len(names) :], **named, **kwargs)

        return named

    sentence = f"The signature names them: ({', '.join(map(str, parameters))})."
    ways = {"arguments by name": Convention(sentence, update=positional_first(0))}
    if len(names) > 1:
        ways["the first argument by position, the others by name"] = Convention(sentence, update=positional_first(1))
    return ways


def _feed(made: Any, protocol: Protocol) -> Callable[..., Any]:
    """Return the function that takes the arguments of a batch."""
    method: Callable[..., Any] = getattr(made, protocol.feed)
    if not protocol.one_tuple:
        return method
    given = _parameters(made, "iteration_completed")
    if given is not None and len(given) == 1 and given[0].name == "engine":
        # What an engine calls after every iteration; it transforms the output of the engine before it updates.
        method = lambda output: made.iteration_completed(_Engine(output))  # noqa: E731

    def update(*args: Any, **kwargs: Any) -> Any:
        if kwargs and not args:
            return called(method, kwargs)
        return called(method, args[0] if len(args) == 1 else args)

    return update


class _Engine:
    """Minimal stand-in for ignite's Engine: its state, with the output of one iteration."""

    def __init__(self, output: Any) -> None:
        self.state = SimpleNamespace(output=output, metrics={})


def _protocol(thing: Any) -> Protocol | None:
    for family in _FAMILIES:
        feed, value = _parameters(thing, family.feed), _parameters(thing, family.value)
        if not feed or not _takes_nothing(value):
            continue
        reset = next((name for name in family.resets if _takes_nothing(_parameters(thing, name))), "")
        one_tuple = _is_one_tuple(feed)
        order = None if one_tuple else _targets_first(feed)
        if reset or not family.needs_reset or order is not None:
            return Protocol(
                feed=family.feed,
                value=family.value,
                reset=reset,
                one_tuple=one_tuple,
                targets_first=order,
                one_sample=not one_tuple and takes_one_sample(_annotated(thing, family.feed, feed)),
            )
    order = _targets_first(_called(thing))
    return None if order is None else Protocol(feed="__call__", targets_first=order)


def _annotated(thing: Any, name: str, feed: list[Parameter]) -> list[Parameter]:
    """The parameters of a method that are given by position; of a base class, where its own have no annotations."""
    cls = thing if isinstance(thing, type) else type(thing)
    inherited = (_parameters(base, name) or [] for base in cls.__mro__ if name in vars(base))
    found = (positional for each in (feed, *inherited) if (positional := [*filter(_is_positional, each)]))
    return next((each for each in found if any(one.annotation is not one.empty for one in each)), [])


def _takes_nothing(parameters: list[Parameter] | None) -> bool:
    return parameters is not None and not any(map(_is_required, parameters))


def _called(thing: Any) -> list[Parameter]:
    """The parameters of a call; a module passes them all on to its ``forward``."""
    found = _parameters(thing, "__call__") or []
    passes_on = bool(found) and all(each.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD) for each in found)
    return (_parameters(thing, "forward") or []) if passes_on else found


def _parameters(thing: Any, name: str) -> list[Parameter] | None:
    """The parameters of a method without ``self``; None where the class or the object has no such method."""
    raw = _static(thing, name)
    if raw is None or not (callable(raw) or isinstance(raw, (staticmethod, classmethod, functools.partialmethod))):
        return None
    if not isinstance(thing, type):
        return _signature(getattr(thing, name))
    if isinstance(raw, functools.partialmethod):
        raw = functools.partial(raw.func, *raw.args, **raw.keywords)
    parameters = _signature(getattr(raw, "__func__", raw))
    return parameters if isinstance(raw, staticmethod) else parameters[1:] or parameters[:0]


def _static(thing: Any, name: str) -> Any:
    """An attribute of an object or of a class, without running code of it; None where there is none."""
    if isinstance(thing, type):  # not those of its metaclass, which has a ``__call__``
        return next((vars(base)[name] for base in thing.__mro__ if name in vars(base)), None)
    return inspect.getattr_static(thing, name, None)


def _offers(made: Any, name: str) -> bool:
    """Return whether an object has this method; the ``forward`` that torch.nn.Module has for all modules is none."""
    owner = next((base for base in type(made).__mro__ if name in vars(base)), None)
    unimplemented = owner is not None and (owner.__module__, name) == ("torch.nn.modules.module", "forward")
    return not unimplemented and _parameters(made, name) is not None


def _signature(function: Callable[..., Any]) -> list[Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # written in another language: anything may be given
        return [Parameter("args", Parameter.VAR_POSITIONAL)]


def _is_positional(parameter: Parameter) -> bool:
    kinds = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.VAR_POSITIONAL)
    return parameter.kind in kinds


def _is_required(parameter: Parameter) -> bool:
    open_ended = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    return parameter.kind not in open_ended and parameter.default is Parameter.empty


def _is_one_tuple(feed: list[Parameter]) -> bool:
    positional = [each for each in feed if _is_positional(each)]
    return len(positional) == 1 and positional[0].name in _ONE_TUPLE


def _targets_first(feed: list[Parameter]) -> bool | None:
    names = [each.name.lower() for each in feed if _is_positional(each)][:2]
    first, second, *_ = [*map(role, names), "", ""]
    if len(names) == 2 and not {first, second} & {"predictions"}:
        if first == "targets" and _is_compared_with(names[1], names[0]):
            return True
        if second == "targets" and _is_compared_with(names[0], names[1]):
            return False
        if not first and not second and is_numbered_pair(*names):
            return False  # which is which makes no difference
    return None if {first, second} != {"predictions", "targets"} else first == "targets"


def _is_compared_with(name: str, target: str) -> bool:
    """Return whether a name is one of tested data beside a target: ``test``, or ``image_test`` with ``image_true``."""
    return name == "test" or (name.endswith("_test") and name.rpartition("_")[0] == target.rpartition("_")[0])


def is_numbered_pair(name: str, other: str) -> bool:
    """Return whether two names are a pair by their numbers: ``image0`` and ``image1``, ``s1`` and ``s2``."""
    stem, number = name[:-1], name[-1:]
    return bool(stem) and other == {"0": f"{stem}1", "1": f"{stem}2"}.get(number)


def role(name: str) -> str:
    """``predictions`` or ``targets``, as the name of a parameter says; empty where it says neither."""
    words = re.split(r"[_\d]+", name.lower())
    if any(map(_PREDICTIONS.fullmatch, words)):
        return "predictions"
    return "targets" if any(map(_TARGETS.fullmatch, words)) else ""
