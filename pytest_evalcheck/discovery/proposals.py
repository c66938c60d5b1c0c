"""From a class or a function to targets: how it is made, what it is fed with, and how that is known."""

from __future__ import annotations

import ast
import inspect
import itertools
import math
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest_evalcheck
from pytest_evalcheck import adapters
from pytest_evalcheck.adapters.protocols.one_sample import is_by_sample
from pytest_evalcheck.adapters.protocols.three_arrays import three_arrays
from pytest_evalcheck.discovery import forms, learned, options, other_kinds
from pytest_evalcheck.discovery.candidates import Candidate
from pytest_evalcheck.discovery.control import (
    DEPENDS_ON_ORDER,
    decision,
    first_line,
    gives_numbers,
    is_flat,
    ranking_of_rows,
    try_strategy,
)
from pytest_evalcheck.discovery.examples import Observed, observe, parts
from pytest_evalcheck.discovery.inputs import Inputs
from pytest_evalcheck.discovery.not_applicable import inapplicable
from pytest_evalcheck.discovery.placement import on_device
from pytest_evalcheck.discovery.schemas import Schema
from pytest_evalcheck.kinds.common.call_facts import describe_value
from pytest_evalcheck.kinds.common.combinations import annotations_of, covering
from pytest_evalcheck.kinds.common.process_state import isolated_process
from pytest_evalcheck.kinds.metric.record import Metric

FEEDING = ("update", "update_state", "__call__", "forward", "add_batch")
"""Methods that feed an object of a class."""
_MOST_CONFIGURATIONS = 4
"""Result for one way to make an object."""
_RANKS = (0, 1, 2)
"""Sources of inputs, the surest first: batches that were observed, or words where nobody called it; single samples that
were observed; words beside observed calls. A later one is tried only where none before it gives a target."""
_MOST_TARGETS = 8
"""Result for one candidate."""
_MOST_BY_WORDS = 24
"""Strategies that are tried by the words of a name alone."""
_OF_EXAMPLE = "inputs like those of its example"
_USUAL_NAMES = (("predictions", "labels"), ("logits", "labels"), ("preds", "target"))
"""Strategies for a metric that takes any argument by name, and shows none."""
_TIMING = re.compile(r"(^|_)(throughput|frequency|latency|speed|timer|duration)(_|$)")
"""Words in the name of a metric that say that it measures time, which is another one in every run."""


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A target that nobody wrote, as source of its parts."""

    candidate: Candidate
    label: str
    """The options that are not the default, in words; empty for the first configuration."""
    construction: str
    imports: tuple[str, ...]
    inputs: Inputs
    """The strategy, which is its source as text: ``es.binary()``."""
    origin: str
    """Origin of construction and inputs."""
    placed: str = ""
    """The construction, on ``device`` where something puts it there; empty for a function."""
    setup: tuple[str, ...] = ()
    """Methods that are called before it is fed."""
    one_sample: bool = False
    """True if it is fed with one sample a call."""
    described: str = ""
    """The source of its record, with the object as ``made``; empty where its methods say what it is."""
    not_applicable: Mapping[str, str] = field(default_factory=dict)
    """By code: why a property does not apply to it."""
    kind: str = "metric"
    """Kind of target."""


@dataclass(kw_only=True)
class Proposed:
    """Outcome of one candidate."""

    targets: list[Proposal] = field(default_factory=list)
    why: str = ""
    """Reason why there is no target."""
    decided: str = ""
    """Reason why it is no function of a set of samples; empty where that was not decided."""
    left: dict[str, str] = field(default_factory=dict)
    """By options: configurations that are not tried, with the reason."""


@dataclass(frozen=True, kw_only=True)
class _Form:
    """One way to make the object."""

    construction: str
    imports: tuple[str, ...]
    make: Callable[[], Any]
    options: Mapping[str, Any]
    label: str = ""
    observed: Observed | None = None
    origin: str = ""
    one_sample: bool = False
    rank: int = 0
    """One of `_RANKS`."""

    @property
    def learned(self) -> tuple[Inputs, ...]:
        """Strategies of rows that a run has given to it."""
        return self.observed.inputs if self.observed else ()


def propose(candidate: Candidate) -> Proposed:
    """The targets of a candidate. Its code is called here: run it where it may print, hang or end the process."""
    thing = candidate.load()
    proposed = Proposed()
    if _TIMING.search(forms.snake_case(candidate.name)) and not candidate.call:
        proposed.why = "by its name it measures time, which is another one in every run"
        return proposed
    problems: list[str] = []
    bases = list(_bases(candidate, thing, problems))
    examples = [call for base in bases if base.observed for call in base.observed.calls[:2]]
    refused: list[str] = []
    ways = [*_forms(candidate, thing, bases, proposed)]
    for rank in _RANKS:
        settled = rank == _RANKS[-1] and decision(proposed.decided, observed=False)
        for form in ways if not (rank and (proposed.targets or settled)) else ():
            if form.rank != rank:
                continue
            used = [target.inputs for target in proposed.targets]
            inputs, why, decided = _inputs(candidate, thing, form, used, examples)
            if inputs is None and not candidate.is_class and not form.learned:
                form, inputs = _inputs_of_one_sample(candidate, thing, form)
            if inputs is None:
                proposed.left[form.construction] = why
                refused.append(why)
                proposed.decided = proposed.decided or decided
            else:
                proposed.targets.append(_proposal(candidate, thing, form, *inputs))
        if rank == 0 and not proposed.targets:
            home = f"from {candidate.module} import {candidate.name}"
            others = other_kinds.found(thing, learned.entry_of(thing))
            proposed.targets += [_proposal_of_kind(candidate, each, home) for each in others]
    if any("tried to end the process" in why for why in refused):
        proposed.targets, proposed.decided = [], "with some inputs it ends the process, as a command does"
    proposed.decided = "" if proposed.targets else proposed.decided
    if not proposed.targets:
        seen = "no repetition of its calls that were watched gives a value of its own for each of several inputs"
        nothing = seen if learned.entry_of(thing) else "nothing was found to feed it"
        proposed.why = "; ".join(refused[:1] or problems) or nothing
        if candidate.is_class and "raised NotImplementedError" in proposed.why:
            proposed.why = f"abstract: {proposed.why}"
        proposed.left = {}
    return proposed


def _proposal(candidate: Candidate, thing: Any, form: _Form, inputs: Inputs, origin: str) -> Proposal:
    not_applicable, placed, made = {}, "", form.make()
    if candidate.is_class and not inspect.isroutine(made):
        not_applicable = inapplicable(candidate.name, made, _given(thing, form))
        placed = on_device(form.construction, _parameters(thing), partial(_evaluated, form.imports))
    return Proposal(
        candidate=candidate,
        label=form.label,
        construction=form.construction,
        imports=form.imports,
        inputs=inputs,
        origin=f"{form.origin}; {origin}",
        setup=_setup(made, form.observed),
        one_sample=form.one_sample,
        described=form.observed.described if form.observed else "",
        placed=placed,
        not_applicable=not_applicable,
    )


def _proposal_of_kind(candidate: Candidate, found: other_kinds.OfKind, home: str) -> Proposal:
    return Proposal(
        candidate=candidate,
        label="" if found.kind == "scorer" else found.kind,
        construction=found.construction,
        imports=(home, *found.imports),
        inputs=found.inputs,
        origin=found.origin,
        described=found.described,
        kind=found.kind,
    )


def _forms(candidate: Candidate, thing: Any, bases: Sequence[_Form], proposed: Proposed) -> Iterator[_Form]:
    """Every way to make the object once, then these with options changed, in turn, up to a limit."""
    turns = itertools.zip_longest(*(_configurations(candidate, thing, base, proposed) for base in bases))
    forms = {(form.construction, form.learned): form for turn in turns for form in turn if form is not None}
    ordered = sorted(forms.values(), key=lambda form: (form.rank, bool(form.label)))
    yield from ordered[:_MOST_TARGETS]
    for form in ordered[_MOST_TARGETS:]:
        proposed.left[form.construction] = "beyond the limit of configurations"


def _bases(candidate: Candidate, thing: Any, problems: list[str]) -> Iterator[_Form]:
    """The ways to make the object: that of the request, those of its examples, that of its signature."""
    home = f"from {candidate.module} import {candidate.name}"
    shown, no_example = observe(thing, FEEDING)
    runs = learned.observed(thing, FEEDING)
    if candidate.call:
        form = _form(candidate.call, (home,), "constructed as the request says")
        yield _with_observed_calls(form, [*runs, *shown])
        return
    yielded = 0
    for run in runs:
        imports = tuple(home if line.endswith(f" import {candidate.name}") else line for line in run.imports)
        form = _form(run.construction, imports, "called as in a run that was watched", run)
        yield replace(form, rank=int(run.one_sample))
    for observed in shown:
        form_shown = _form_from_example(candidate, thing, observed, home)
        if form_shown is not None:
            yielded += 1
            yield form_shown
    if yielded or (learned.entry_of(thing) and not adapters.recognised("metric", thing)):
        return
    if no_example:
        problems.append(no_example)
    parameters = _parameters(thing)
    if not candidate.is_class:
        data = {each.name for each in parameters[: _count_of_data(thing)]}
        parameters = [each for each in parameters if each.name not in data]
    try:
        given = options.required(parameters, annotations_of(thing))
    except options.MissingArgument as error:
        example = f"{candidate.module}:{candidate.name}({error}=...)"
        hint = f"its constructor needs {error}, of which no value is known; give it: {example!r}"
        problems.append(hint if candidate.is_class else f"it needs {error}, of which no value is known: write a target")
        return
    construction = _written(candidate.name, given, function=not candidate.is_class)
    imports = ("from functools import partial", home) if given and not candidate.is_class else (home,)
    form = _form(construction, imports, "constructed by its signature")
    yield replace(_with_observed_calls(form, shown), rank=2 if learned.entry_of(thing) else 0)


def _form_from_example(candidate: Candidate, thing: Any, observed: Observed, home: str) -> _Form | None:
    if candidate.is_class:
        if _options_of(observed.construction).get("dim"):
            return None  # its samples lie along another dimension than those of batches
        imports = tuple(line if not line.endswith(f" import {candidate.name}") else home for line in observed.imports)
        return _form(observed.construction, imports, "constructed as in its docstring", observed)
    defaults = {each.name: each.default for each in _parameters(thing)}
    data = list(observed.calls[0])[: _count_of_data(thing)]
    changed = {
        name: value
        for name, value in observed.calls[0].items()
        if name not in data and name in defaults and not _equal(value, defaults[name])
    }
    if not all(isinstance(value, (str, int, float, bool, type(None))) for value in changed.values()):
        return None
    imports = ("from functools import partial", home) if changed else (home,)
    fed = Observed(construction="", calls=[{name: observed.calls[0][name] for name in data}])
    return _form(_written(candidate.name, changed, function=True), imports, "called as in its docstring", fed)


def _with_observed_calls(form: _Form, found: Sequence[Observed]) -> _Form:
    return _form(form.construction, form.imports, form.origin, found[0]) if found else form


def _form(construction: str, imports: tuple[str, ...], origin: str, observed: Observed | None = None) -> _Form:
    def make() -> Any:
        made = _evaluated(imports, construction, {})
        for method in _setup(made, observed):
            getattr(made, method)()
        if observed and observed.described:
            made = eval(observed.described, {"ec": pytest_evalcheck, "made": made})
        return Metric.of(made, one_sample=True) if observed and observed.one_sample else made

    return _Form(
        construction=construction,
        imports=imports,
        make=make,
        options=_options_of(construction),
        observed=observed,
        origin=origin,
        one_sample=bool(observed and observed.one_sample),
    )


def _setup(made: Any, observed: Observed | None) -> tuple[str, ...]:
    """Return the methods that are called after an object was made; a module of torch is evaluated in its eval mode.

    A metric that is a module has no modes: what is meant is a module whose call is the metric.
    """
    given = observed.setup if observed else ()
    module = (made.source or made) if isinstance(made, Metric) else made
    has_modes = "torch" in sys.modules and isinstance(module, sys.modules["torch"].nn.Module)
    accumulates = any(callable(getattr(module, name, None)) for name in ("update", "compute"))
    return given if accumulates or not has_modes or {"eval", "train"} & {*given} else (*given, "eval")


def _count_of_data(function: Any) -> int:
    """Return the number of leading parameters of a function that are its data."""
    return 2 if three_arrays(_parameters(function)) is None else 3


def _evaluated(imports: Iterable[str], source: str, names: Mapping[str, Any]) -> Any:
    known: dict[str, Any] = {}
    exec("\n".join(imports), known)
    return eval(source, {**known, **names})


def _positional(form: _Form) -> int:
    """Return the number of positional arguments of its call."""
    node = ast.parse(form.construction, mode="eval").body
    return len(node.args) if isinstance(node, ast.Call) else 0


def _options_of(construction: str) -> dict[str, Any]:
    """The keyword arguments of a call that are literals."""
    node = ast.parse(construction, mode="eval").body
    found = {}
    for keyword in node.keywords if isinstance(node, ast.Call) else ():
        if keyword.arg and isinstance(keyword.value, ast.Constant):
            found[keyword.arg] = keyword.value.value
    return found


def _configurations(candidate: Candidate, thing: Any, base: _Form, proposed: Proposed) -> Iterator[_Form]:
    """The base, and the base with options changed; what was learned is tried with the options that were seen."""
    yield base
    if candidate.call or base.learned:
        return
    parameters = [each for each in _parameters(thing)[_positional(base) :] if each.name not in base.options]
    changeable = options.varied(parameters, annotations_of(thing))
    if not candidate.is_class:
        of_data = list(_names(thing))[: _count_of_data(thing)]
        changeable = {name: values for name, values in changeable.items() if name not in of_data}
    configurations, cut = covering(changeable, _MOST_CONFIGURATIONS)
    if cut:
        proposed.left[f"{cut} more combinations of {', '.join(changeable)}"] = "beyond the limit of configurations"
    for changed in configurations[1:]:
        construction = _extended(base.construction, changed, function=not candidate.is_class)
        imports = (
            base.imports
            if candidate.is_class
            else tuple(dict.fromkeys(("from functools import partial", *base.imports)))
        )
        form = _form(construction, imports, base.origin, base.observed)
        label = ", ".join(f"{name}={value!r}" for name, value in changed.items())
        yield replace(form, options={**base.options, **changed}, label=label)


def _inputs(
    candidate: Candidate, thing: Any, form: _Form, used: Sequence[Inputs], examples: Sequence[Mapping[str, Any]]
) -> tuple[tuple[Inputs, str] | None, str, str]:
    """The first strategy that passes the control, with its origin; or why there is none, and what that decides."""
    try:
        with isolated_process():
            record = adapters.record("metric", form.make())
    except Exception as error:
        return None, f"constructing it raised {first_line(error)}", ""
    if (one := _one_number(record)) and not form.learned:
        return None, f"its parameter {one} is one number by its annotation, and no batch", ""
    tried, why, decided, given = 0, "", "", _given(thing, form)
    a_series = False
    for source, origin in _sources(candidate, thing, form, used, examples, record):
        if (
            not form.learned
            and is_by_sample(record.update)
            and not _are_single_values(source.collated, _fed_parameters(record))
        ):
            continue
        refusal, corrected = try_strategy(source, form.make)
        if DEPENDS_ON_ORDER in refusal or not refusal:
            flat = is_flat(source)
            # Single numbers are a series to it: other ones, of which their order does not show it, are as well.
            refusal = refusal or (f"{DEPENDS_ON_ORDER}, with others" if flat and a_series else "")
            a_series = a_series or flat
        refusal = refusal or ranking_of_rows(corrected.strategy, form.make, given)
        if not refusal:
            return _with_nan(corrected, origin, form, given), "", ""
        tried += 1
        why = why or refusal
        decided = decided or decision(refusal, observed=bool(form.learned) or _OF_EXAMPLE in origin)
    none = f"none of {tried} strategies is accepted: {why}" if tried else "no strategy fits its arguments"
    return None, none, decided


def _inputs_of_one_sample(candidate: Candidate, thing: Any, form: _Form) -> tuple[_Form, tuple[Inputs, str] | None]:
    """The form and the inputs of a function that takes one image, signal or text; None where it does not either."""
    one = replace(form, one_sample=True, make=lambda: Metric.of(form.make(), one_sample=True))
    names = list(_names(thing))
    known = forms.Known(name=candidate.name, parameters=names)
    for source in [] if three_arrays(_parameters(thing)) else forms.by_words_of_one_sample(known):
        refusal, corrected = try_strategy(source, one.make)
        if not refusal and gives_numbers(corrected.strategy, one.make):
            return one, (corrected, f"one sample a call, by its name and its parameters ({', '.join(names[:2])})")
    return form, None


def _with_nan(inputs: Inputs, origin: str, form: _Form, given: Mapping[str, Any]) -> tuple[Inputs, str]:
    """Inputs with some NaN where an option says what one counts: that it leaves no trace is meant there."""
    option = options.about_nan(given)
    if not option or inputs.strategy.corrupted is None:
        return inputs, origin
    refusal, _ = try_strategy(inputs.with_nan(), form.make)
    changed = inputs.replace(corrupted=None) if refusal else inputs.with_nan()
    return changed, f"{origin}; {option}={given[option]!r} says what becomes of NaN"


def _sources(
    candidate: Candidate,
    thing: Any,
    form: _Form,
    used: Sequence[Inputs],
    examples: Sequence[Mapping[str, Any]],
    record: Any,
) -> Iterator[tuple[Inputs, str]]:
    if form.learned and form.observed:  # what was seen decides: words are for what nobody calls
        yield from ((source, form.observed.origin) for source in form.learned)
        return
    three = None if candidate.is_class else three_arrays(_parameters(thing))
    if three is not None:  # two arrays would be its first two arguments
        for source in forms.by_parameters(three, tensors=_knows_tensors(thing)):
            yield source, f"inputs by its parameters ({', '.join(itertools.islice(_names(thing), 3))})"
        return
    every_parameter = _signature_of(record.update) if candidate.is_class else _parameters(thing)
    fed = _without_variable(every_parameter)
    names = [each.name for each in fed]
    calls = form.observed.calls if form.observed else []
    shown = [(call, _data(call, fed)) for call in (*calls[:3], *examples)]
    every = [[Schema.of(value) for value in data.values()] for _, data in shown]
    told = [[schema.container for schema in each] for each in every]
    tensors = any("tensor" in each for each in told) or _knows_tensors(thing)
    tuned = [
        (_named(source, _names_given(data, every_parameter)), f"{_OF_EXAMPLE}: {_shown(call)}")
        for call, data in shown
        for guess in forms.by_example(forms.Known(name=candidate.name, options=form.options), data)
        for source in ([guess] if tensors else forms.in_arrays(guess))
    ]
    # Neither a number nor an object is a form.
    shapes = [each for each, seen in zip(every, told, strict=True) if {*seen} - {"number"} and "objects" not in seen]
    told_names = names or (list(_USUAL_NAMES[0]) if every_parameter else [])
    known = forms.Known(name=candidate.name, parameters=told_names, options=_given(thing, form))
    namings: Sequence[Sequence[str]] = [_names_given(dict.fromkeys(names[:2]), every_parameter) if names[1:] else ()]
    if every_parameter and all(each.kind is each.VAR_KEYWORD for each in every_parameter):
        namings = _USUAL_NAMES
    by_sample = {each.name: each.annotation for each in fed} if is_by_sample(record.update) else {}
    counted = [(source, "inputs by its annotations") for source in forms.by_annotations(by_sample)]
    words = (each for each in forms.by_words(known, tensors=tensors) if _fits(each, shapes, loosely=bool(form.label)))
    fitting = [*itertools.islice(words, _MOST_BY_WORDS // len(namings))]
    worded = [
        (_named(source, naming), f"inputs by its name and its parameters ({', '.join(names[:3] or naming)})")
        for naming in namings
        for source in fitting
    ]
    ignored = known.options.get("ignore_index")
    others = [each.ignoring(ignored) if "ignore_index" in known.options else each for each in used]
    again = [(source, "inputs of another configuration of it") for source in others]
    found: dict[Inputs, str] = {}
    for source, origin in [*tuned[:1], *again, *tuned[1:], *counted, *worded]:
        found.setdefault(source, origin)
    yield from found.items()


def _knows_tensors(thing: Any) -> bool:
    """Return whether a module of the package of a class or function imports torch or something of it."""
    package = str(getattr(thing, "__module__", "")).partition(".")[0]
    loaded = [vars(module) for name, module in [*sys.modules.items()] if name.partition(".")[0] == package and module]
    return any(_is_of_torch(value) for names in loaded for value in [*names.values()])


def _is_of_torch(value: Any) -> bool:
    name = value.__name__ if isinstance(value, types.ModuleType) else getattr(type(value), "__module__", "")
    if isinstance(value, type):
        name = value.__module__
    return str(name).partition(".")[0] == "torch"


def _fits(inputs: Inputs, shown: Sequence[Sequence[Schema]], *, loosely: bool) -> bool:
    """Return whether a strategy collates arguments like those of an example: an option may add a dimension to them."""
    if not shown:
        return True
    made = inputs.collated
    if len(made) > 1 and all(each.kind == "float" for each in made):  # labels are no numbers to be measured
        shown = [each for each in shown if any(schema.kind != "int" for schema in each)]
    return any(
        len(made) == len(each)
        and all(one.has_form_of(other, loosely=loosely) for one, other in zip(made, each, strict=True))
        for each in shown
    )


def _are_single_values(collated: Sequence[Schema], fed: Sequence[inspect.Parameter]) -> bool:
    """Return whether a sample has one value for each argument, and a whole number where the annotation says so."""
    whole = [each.annotation in (int, "int") for each in fed]
    fractions = any(one and each.kind == "float" for one, each in zip(whole, collated, strict=False))
    return not fractions and all(len(each.shape) <= 1 for each in collated)


def _data(call: Mapping[str, Any], fed: Sequence[inspect.Parameter]) -> dict[str, Any]:
    """The arguments of a call that are data: without options and defaults, one tuple of all of them as its parts."""
    names, defaults = [each.name for each in fed], {each.name: each.default for each in fed}
    values = list(call.values())
    if not names and len(values) == 1 and isinstance(values[0], (tuple, list, Mapping)):
        call = parts(values[0]) or call
    found: dict[str, Any] = {}
    scalars = (bool, int, float)
    batched = any(value is not None and not isinstance(value, (*scalars, str)) for value in call.values())
    for name, value in call.items():
        option = isinstance(value, bool) or (batched and isinstance(value, scalars))
        default = isinstance(value, scalars) and bool(found) and _equal(value, defaults.get(name))
        if value is not None and not option and not default and (name in names[:2] or not isinstance(value, str)):
            found[name] = value
    return found


def _named(inputs: Inputs, names: Sequence[str]) -> Inputs:
    return inputs.named(*names) if names else inputs


def _names_given(data: Mapping[str, Any], parameters: Sequence[inspect.Parameter]) -> tuple[str, ...]:
    """Return the names of the parts of a batch, if the metric takes them by name or as one; empty where it does not."""
    by_position = [
        each
        for each in parameters
        if each.kind is each.VAR_POSITIONAL or (each.kind is not each.KEYWORD_ONLY and each.name in data)
    ]
    together = not _without_variable(parameters) and len(data) > 1
    named = data and (together or (parameters and not by_position)) and not any(name.isdigit() for name in data)
    return tuple(data) if named else ()


def _without_variable(parameters: Sequence[inspect.Parameter]) -> list[inspect.Parameter]:
    return [each for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]


def _fed_parameters(record: Any) -> list[inspect.Parameter]:
    return _without_variable(_signature_of(record.update))


def _signature_of(function: Any) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []


def _one_number(record: Any) -> str:
    """The first parameter that it is fed with, where its annotation says one number; empty otherwise."""
    if is_by_sample(record.update):
        return ""
    first = next(iter(_fed_parameters(record)), None)
    numbers = (float, int, bool, "float", "int", "bool")
    return first.name if first is not None and first.annotation in numbers else ""


def _parameters(thing: Any) -> list[inspect.Parameter]:
    """The parameters of a constructor or a function; those of the class that ``__new__`` takes where it differs."""
    target = thing
    if inspect.isclass(thing) and thing.__init__ is object.__init__ and thing.__new__ is not object.__new__:
        target = thing.__new__
    elif inspect.isclass(thing) and "__new__" in vars(thing):
        target = vars(thing)["__new__"]
        target = getattr(target, "__func__", target)
    try:
        found = list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):
        return []
    return found[1:] if isinstance(target, types.FunctionType) and inspect.isclass(thing) else found


def _defaults(thing: Any) -> dict[str, Any]:
    return {each.name: each.default for each in _parameters(thing) if each.default is not each.empty}


def _given(thing: Any, form: _Form) -> dict[str, Any]:
    """The options of a form, those of the signature included, by name also where they are given by position."""
    node = ast.parse(form.construction, mode="eval").body
    values = node.args if isinstance(node, ast.Call) and inspect.isclass(thing) else []
    placed = zip((each.name for each in _parameters(thing)), values, strict=False)
    literal = {name: value.value for name, value in placed if isinstance(value, ast.Constant)}
    return {**_defaults(thing), **literal, **form.options}


def _names(thing: Any) -> Iterator[str]:
    return (each.name for each in _parameters(thing))


def _written(name: str, given: Mapping[str, Any], *, function: bool = False) -> str:
    arguments = ", ".join(f"{key}={_literal(value)}" for key, value in given.items())
    if function:
        return f"partial({name}, {arguments})" if arguments else name
    return f"{name}({arguments})"


def _literal(value: Any) -> str:
    return f"float({str(value)!r})" if isinstance(value, float) and not math.isfinite(value) else repr(value)


def _extended(construction: str, changed: Mapping[str, Any], *, function: bool) -> str:
    node = ast.parse(construction, mode="eval").body
    keywords = [ast.keyword(key, ast.parse(_literal(value), mode="eval").body) for key, value in changed.items()]
    if isinstance(node, ast.Call):
        kept = [each for each in node.keywords if each.arg not in changed]
        node.keywords = [*kept, *keywords]
        return ast.unparse(node)
    return _written(construction, changed, function=function)


def _shown(call: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={describe_value(value)}" for name, value in call.items() if value is not None)[:160]


def _equal(first: Any, second: Any) -> bool:
    if isinstance(first, float) and isinstance(second, float) and math.isnan(first) and math.isnan(second):
        return True
    try:
        return bool(first == second)
    except Exception:  # arrays
        return first is second
