"""From a class or a function to targets: how it is made, what it is fed with, and how that is known."""

from __future__ import annotations

import inspect
import itertools
import re
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from inspect import Parameter
from typing import Any

from pytest_evalcheck import adapters
from pytest_evalcheck.adapters.protocols.one_sample import is_by_sample
from pytest_evalcheck.adapters.protocols.three_arrays import ThreeArrays, three_arrays
from pytest_evalcheck.discovery import forms, learned, options, other_kinds
from pytest_evalcheck.discovery.candidates import Candidate
from pytest_evalcheck.discovery.control import (
    BY_ORDER,
    DEPENDS_ON_ORDER,
    SELECTS_ROWS,
    WRITES,
    decision,
    first_line,
    gives_numbers,
    is_flat,
    left_out,
    order_of_updates_counts,
    parts_of_a_row,
    ranking_of_rows,
    try_strategy,
)
from pytest_evalcheck.discovery.examples import observe, parts, signature_of
from pytest_evalcheck.discovery.inputs import Inputs
from pytest_evalcheck.discovery.not_applicable import inapplicable
from pytest_evalcheck.discovery.observed import Observed, written
from pytest_evalcheck.discovery.placement import on_device
from pytest_evalcheck.discovery.schemas import Schema
from pytest_evalcheck.kinds.common.call_facts import describe_value
from pytest_evalcheck.kinds.common.combinations import annotations_of, covering
from pytest_evalcheck.kinds.common.process_state import isolated_process, nothing_written
from pytest_evalcheck.learning.annotated import GUESSES, ORIGIN, plain_types, seen_in_annotations
from pytest_evalcheck.learning.watching import Seen

FEEDING = ("update", "update_state", "__call__", "forward", "add_batch")
"""Methods that feed an object of a class."""
_MOST_CONFIGURATIONS = 4
"""Result for one way to make an object."""
_RANKS = (0, 1, 2)
"""Sources of inputs, the surest first: batches that were observed, or words where nobody called it; single samples that
were observed; words beside observed calls. A later one is tried only where none before it gives a target."""
MOST_TARGETS = 8
"""Result for one candidate."""
FEW_TARGETS = 2
"""Result for one candidate at quick effort."""
_MOST_BY_WORDS = 24
"""Strategies that are tried by the words of a name alone."""
_OF_EXAMPLE = "inputs like those of its example"
_USUAL_NAMES = (("predictions", "labels"), ("logits", "labels"), ("preds", "target"))
"""Strategies for a metric that takes any argument by name, and shows none."""
_NUMBERS = (float, int, bool, "float", "int", "bool")
"""Annotations of one number."""


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


@dataclass(frozen=True)
class _Code:
    """The class or the function of a candidate."""

    candidate: Candidate
    thing: Any

    @property
    def home(self) -> str:
        """The line that imports it."""
        return f"from {self.candidate.module} import {self.candidate.name}"

    def imported(self, lines: Sequence[str]) -> tuple[str, ...]:
        """Return lines of imports that import it from the module of the request."""
        return tuple(self.home if line.endswith(f" import {self.candidate.name}") else line for line in lines)

    @cached_property
    def parameters(self) -> list[Parameter]:
        """The parameters of a constructor or a function; those of the class that ``__new__`` takes where it differs."""
        target = thing = self.thing
        if inspect.isclass(thing) and thing.__init__ is object.__init__ and thing.__new__ is not object.__new__:
            target = thing.__new__
        elif inspect.isclass(thing) and "__new__" in vars(thing):
            target = getattr(vars(thing)["__new__"], "__func__", vars(thing)["__new__"])
        found = signature_of(target)
        return found[1:] if isinstance(target, types.FunctionType) and inspect.isclass(thing) else found

    @cached_property
    def three(self) -> ThreeArrays | None:
        """The three arrays that a function takes by the names of its parameters."""
        return None if self.candidate.is_class else three_arrays(self.parameters)

    @property
    def data(self) -> list[str]:
        """The leading parameters of a function that are its data."""
        count = 0 if self.candidate.is_class else 2 if self.three is None else 3
        return [each.name for each in self.parameters[:count]]

    @cached_property
    def knows_tensors(self) -> bool:
        """Return whether a module of its package imports torch or something of it."""
        package = str(getattr(self.thing, "__module__", "")).partition(".")[0]
        loaded = [
            vars(module) for name, module in [*sys.modules.items()] if name.partition(".")[0] == package and module
        ]
        return any(_is_of_torch(value) for names in loaded for value in [*names.values()])


def propose(candidate: Candidate, most: int = MOST_TARGETS) -> Proposed:
    """The targets of a candidate. Its code is called here: run it where it may print, hang or end the process."""
    code, proposed = _Code(candidate, candidate.load()), Proposed()
    problems: list[str] = []
    refused: list[str] = []
    entry = learned.entry_of(code.thing)
    known = bool(entry or candidate.call or adapters.recognised("metric", code.thing))
    for by_types in (False, True) if known else (True, False):  # words say more of types that they know
        if proposed.targets or _operates(refused):
            break
        with nullcontext() if known else nothing_written(str(code.thing.__module__).partition(".")[0]):
            if not by_types:
                bases = [*_bases(code, problems)]
                examples = [call for base in bases for call in base.calls[:2]]
                refused += _try_ways(code, entry, [*_ways(code, bases, proposed, most)], examples, proposed)
            elif not (entry or candidate.call):
                refused += _try_types(code, proposed)
    if any("tried to end the process" in why for why in refused):
        proposed.targets, proposed.decided = [], "with some inputs it ends the process, as a command does"
    proposed.decided = "" if proposed.targets else proposed.decided
    if not proposed.targets:
        nothing = learned.why_untried(entry) if entry else "nothing was found to feed it"
        proposed.why = "; ".join(refused[:1] or problems) or nothing
        if candidate.is_class and "raised NotImplementedError" in proposed.why:
            proposed.why = f"abstract: {proposed.why}"
        proposed.left = {}
    return proposed


def _try_types(code: _Code, proposed: Proposed) -> list[str]:
    refused: list[str] = []
    for guess in range(len(GUESSES)):
        settled = proposed.targets or _operates(refused)
        entry = None if settled else seen_in_annotations(code.thing, guess)
        if entry is not None:
            refused += _try_ways(code, entry, [*_ways_of_runs(code, entry)], (), proposed)
    first = {(target.construction, target.described): target for target in reversed(proposed.targets)}
    proposed.targets = [*reversed(first.values())]  # which of the types it takes was a guess
    return refused


def _try_ways(
    code: _Code,
    entry: Seen | None,
    ways: Sequence[Observed],
    examples: Sequence[Mapping[str, Any]],
    proposed: Proposed,
) -> list[str]:
    """Add the targets of the ways of the first rank that has one, and return the reasons of those that have none."""
    refused: list[str] = []
    in_order: set[str] = set()
    for rank in _RANKS:
        settled = _operates(refused) or (rank == _RANKS[-1] and decision(proposed.decided, observed=False))
        for way in ways if not (rank and (proposed.targets or settled)) else ():
            if way.rank != rank:
                continue
            used = [target.inputs for target in proposed.targets]
            inputs, why, decided = _inputs(code, way, used, examples)
            if decided and (of_samples := _without_what_is_of_the_call(way)):
                inputs, why, decided = _inputs(code, of_samples, used, examples)
                way = of_samples if inputs else way
            if not (code.candidate.is_class or way.inputs) and (inputs is None or _may_be_one_text(code, inputs[0])):
                way, one = _inputs_of_one_sample(code, way)
                inputs = one or inputs
            if inputs is None:
                proposed.left[way.construction] = why
                refused.append(why)
                proposed.decided = proposed.decided or decided
                if way.inputs and decided.startswith(BY_ORDER):
                    in_order.add(way.construction)
            else:
                proposed.targets.append(_proposal(code, way, *inputs))
        if rank == 0 and in_order:  # what ranks rows does so with other options, too, where few samples do not show it
            proposed.targets = [each for each in proposed.targets if each.construction not in in_order]
        if rank == 0 and not (proposed.targets or _operates(refused)):
            proposed.targets += [_proposal_of_kind(code, each) for each in other_kinds.found(code.thing, entry)]
    return refused


def _without_what_is_of_the_call(way: Observed) -> Observed | None:
    """Return a function of a batch without times, identifiers and places in its result; None where it has none."""
    names = [] if way.described or not way.inputs else left_out(way.inputs[0].strategy, way.make)
    if not names or inspect.isclass(made := way.make()) or hasattr(made, "compute"):
        return None
    left = ", ".join(map(repr, names))
    called = f"({way.construction})" if way.construction.startswith("lambda") else way.construction
    return replace(way, construction=f"lambda *args, **kwargs: ec.leave_out({called}(*args, **kwargs), {left})")


def _operates(refused: Sequence[str]) -> bool:
    """Return whether something selects rows of its arguments, or writes into them: it does, however it is fed."""
    return any(SELECTS_ROWS in why or WRITES in why for why in refused)


def _proposal(code: _Code, way: Observed, inputs: Inputs, origin: str) -> Proposal:
    placed, made = "", way.make()
    by_order = partial(order_of_updates_counts, inputs.strategy, way.make)
    not_applicable = inapplicable(code.candidate.name, made, way.given(code.parameters), by_order)
    if code.candidate.is_class and not inspect.isroutine(made):
        placed = on_device(way.construction, code.parameters, way.evaluated)
    return Proposal(
        candidate=code.candidate,
        label=way.label,
        construction=way.construction,
        imports=way.imports,
        inputs=inputs,
        origin=f"{way.how}; {origin}",
        setup=way.setup_of(made),
        one_sample=way.one_sample,
        described=way.described,
        placed=placed,
        not_applicable=not_applicable,
    )


def _proposal_of_kind(code: _Code, found: other_kinds.OfKind) -> Proposal:
    return Proposal(
        candidate=code.candidate,
        label="" if found.kind == "scorer" else found.kind,
        construction=found.construction,
        imports=(code.home, *found.imports),
        inputs=found.inputs,
        origin=found.origin,
        described=found.described,
        kind=found.kind,
    )


def _ways(code: _Code, bases: Sequence[Observed], proposed: Proposed, most: int) -> Iterator[Observed]:
    """Every way to make the object once, then these with options changed, in turn, up to a limit for each rank."""
    turns = itertools.zip_longest(*(_configurations(code, base, proposed) for base in bases))
    ways = {(way.construction, way.inputs): way for turn in turns for way in turn if way is not None}
    for rank in _RANKS:
        ordered = sorted((way for way in ways.values() if way.rank == rank), key=lambda way: bool(way.label))
        yield from ordered[:most]
        for way in ordered[most:]:
            proposed.left[way.construction] = "beyond the limit of configurations"


def _bases(code: _Code, problems: list[str]) -> Iterator[Observed]:
    """The ways to make the object: that of the request, those of its examples, that of its signature."""
    candidate, nothing = code.candidate, Observed(construction="")
    shown, no_example = observe(code.thing, FEEDING)
    runs = [*_ways_of_runs(code, learned.entry_of(code.thing))]
    if candidate.call:
        seen, how = [*runs, *shown, nothing][0], "constructed as the request says"
        yield replace(seen, construction=candidate.call, imports=(code.home,), how=how)
        return
    yield from runs
    examples = [way for each in shown for way in _ways_of_example(code, each)]
    yield from examples
    entry = learned.entry_of(code.thing)
    if examples or (entry and not adapters.recognised("metric", code.thing)):
        return
    if no_example:
        problems.append(no_example)
    parameters = [each for each in code.parameters if each.name not in code.data]
    try:
        given = options.required(parameters, annotations_of(code.thing))
    except options.MissingArgument as error:
        example = f"{candidate.module}:{candidate.name}({error}=...)"
        hint = f"its constructor needs {error}, of which no value is known; give it: {example!r}"
        problems.append(hint if candidate.is_class else f"it needs {error}, of which no value is known: write a target")
        return
    seen, how = [*shown, nothing][0], "constructed by its signature"
    yield replace(_constructed(code, seen, given), how=how, rank=2 if entry else 0)


def _ways_of_runs(code: _Code, entry: Seen | None) -> Iterator[Observed]:
    for run in learned.observed(code.thing, entry, FEEDING):
        yield replace(run, imports=code.imported(run.imports), rank=int(run.one_sample))


def _constructed(code: _Code, way: Observed, given: Mapping[str, Any]) -> Observed:
    name, is_class = code.candidate.name, code.candidate.is_class
    imports = (code.home,) if is_class or not given else ("from functools import partial", code.home)
    return replace(way, construction=written(name, given, is_class=is_class), imports=imports)


def _ways_of_example(code: _Code, observed: Observed) -> Iterator[Observed]:
    if code.candidate.is_class:
        # Else its samples lie along another dimension than those of batches.
        if observed.options.get("dim") in (None, 0, -1):
            yield replace(observed, imports=code.imported(observed.imports), how="constructed as in its docstring")
        return
    call, how = observed.calls[0], "called as in its docstring"
    data = [*call][: len(code.data)]
    defaults = {each.name: each.default for each in code.parameters if each.name not in data}
    changed = {name: call[name] for name in call if name in defaults and not _equal(call[name], defaults[name])}
    if all(isinstance(value, (str, int, float, bool, type(None))) for value in changed.values()):
        yield replace(_constructed(code, observed, changed), calls=[{name: call[name] for name in data}], how=how)


def _configurations(code: _Code, base: Observed, proposed: Proposed) -> Iterator[Observed]:
    """The base, and the base with options changed; what was learned is tried with the options that were seen."""
    yield base
    if code.candidate.call or base.inputs:
        return
    known = {*base.options, *code.data}
    parameters = [each for each in code.parameters[len(base.call.args) :] if each.name not in known]
    changeable = options.varied(parameters, annotations_of(code.thing))
    configurations, cut = covering(changeable, _MOST_CONFIGURATIONS)
    if cut:
        proposed.left[f"{cut} more combinations of {', '.join(changeable)}"] = "beyond the limit of configurations"
    yield from (base.with_options(changed, is_class=code.candidate.is_class) for changed in configurations[1:])


def _inputs(
    code: _Code, way: Observed, used: Sequence[Inputs], examples: Sequence[Mapping[str, Any]]
) -> tuple[tuple[Inputs, str] | None, str, str]:
    """The first strategy that passes the control, with its origin; or why there is none, and what that decides."""
    try:
        with isolated_process():
            record = adapters.record("metric", way.make())
    except Exception as error:
        return None, f"constructing it raised {first_line(error)}", ""
    fed = _without_variable(signature_of(record.update))
    one_by_one = is_by_sample(record.update) and not way.inputs
    if fed and fed[0].annotation in _NUMBERS and not is_by_sample(record.update) and not way.inputs:
        return None, f"its parameter {fed[0].name} is one number by its annotation, and no batch", ""
    tried, why, decided, given = 0, "", "", way.given(code.parameters)
    a_series = False
    known: set[Inputs] = set()
    for source, origin in _sources(code, way, used, examples, record):
        if source in known or (one_by_one and not _are_single_values(source.collated, fed)):
            continue
        known.add(source)
        refusal, corrected = try_strategy(source, way.make, by_trial=bool(way.described))
        if DEPENDS_ON_ORDER in refusal or not refusal:
            flat = is_flat(source)
            # Single numbers are a series to it: other ones, of which their order does not show it, are as well.
            refusal = refusal or (f"{DEPENDS_ON_ORDER}, with others" if flat and a_series else "")
            a_series = a_series or flat
        refusal = refusal or ranking_of_rows(corrected.strategy, way.make, given)
        if not refusal:
            return _with_nan(corrected, origin, way, given), "", ""
        tried += 1
        why = why or refusal
        by_run = bool(way.inputs) and ORIGIN not in origin
        decided = decided or decision(refusal, observed=by_run or _OF_EXAMPLE in origin)
        if way.inputs and DEPENDS_ON_ORDER in refusal:
            break  # rows without changes may only not show it
    none = f"none of {tried} strategies is accepted: {why}" if tried else "no strategy fits its arguments"
    return None, none, decided


def _may_be_one_text(code: _Code, inputs: Inputs) -> bool:
    """Return whether texts are data whose parameters have no plural: a text has a length and can be compared, too."""
    plural = any(re.search(r"[^is]s$|^y_", name) for name in code.data)
    return not plural and all(isinstance(part, str) for part in parts_of_a_row(inputs))


def _inputs_of_one_sample(code: _Code, way: Observed) -> tuple[Observed, tuple[Inputs, str] | None]:
    """The way and the inputs of a function that takes one image, signal or text; None where it does not either."""
    one = replace(way, one_sample=True)
    names = [each.name for each in code.parameters]
    known = forms.Known(name=code.candidate.name, parameters=names)
    other = code.three or any(not isinstance(value, str) for value in plain_types(code.thing))
    for source in [] if other else forms.by_words_of_one_sample(known):
        refusal, corrected = try_strategy(source, one.make)
        if not refusal and gives_numbers(corrected.strategy, one.make):
            return one, (corrected, f"one sample a call, by its name and its parameters ({', '.join(names[:2])})")
    return way, None


def _with_nan(inputs: Inputs, origin: str, way: Observed, given: Mapping[str, Any]) -> tuple[Inputs, str]:
    """Inputs with some NaN where an option says what one counts: that it leaves no trace is meant there."""
    option = options.about_nan(given)
    if not option or inputs.strategy.corrupted is None:
        return inputs, origin
    refusal, _ = try_strategy(inputs.with_nan(), way.make)
    changed = inputs.replace(corrupted=None) if refusal else inputs.with_nan()
    return changed, f"{origin}; {option}={given[option]!r} says what becomes of NaN"


def _sources(
    code: _Code, way: Observed, used: Sequence[Inputs], examples: Sequence[Mapping[str, Any]], record: Any
) -> Iterator[tuple[Inputs, str]]:
    """Yield strategies in the order in which they are tried, with their origin."""
    if way.inputs:  # what was seen decides: words are for what nobody calls
        yield from ((source, way.origin) for source in way.inputs)
        return
    if code.three is not None:  # two arrays would be its first two arguments
        for source in forms.by_parameters(code.three, tensors=code.knows_tensors):
            yield source, f"inputs by its parameters ({', '.join(code.data)})"
        return
    parameters = signature_of(record.update) if code.candidate.is_class else code.parameters
    fed = _without_variable(parameters)
    shown = [(call, _data(call, fed)) for call in (*way.calls[:3], *examples)]
    told = [{Schema.of(value).container for value in data.values()} for _, data in shown]
    tensors = any("tensor" in each for each in told) or code.knows_tensors
    tuned = (
        (_named(source, _names_given(data, parameters)), f"{_OF_EXAMPLE}: {_shown(call)}")
        for near in (False, True)
        for call, data in shown
        for guess in forms.by_example(forms.Known(name=code.candidate.name, options=way.options), data, near=near)
        for source in ([guess] if tensors else forms.in_arrays(guess))
    )
    given = way.given(code.parameters)
    yield from itertools.islice(tuned, 1)
    for each in used:
        again = each.ignoring(given["ignore_index"]) if "ignore_index" in given else each
        yield again, "inputs of another configuration of it"
    yield from tuned
    if is_by_sample(record.update):
        counted = forms.by_annotations({each.name: each.annotation for each in fed})
        yield from ((source, "inputs by its annotations") for source in counted)
    if not any(each - {"number"} and "objects" not in each for each in told):  # neither of them is a form
        yield from _by_words(code, parameters, given, tensors=tensors)


def _by_words(
    code: _Code, parameters: Sequence[Parameter], given: Mapping[str, Any], *, tensors: bool
) -> Iterator[tuple[Inputs, str]]:
    names = [each.name for each in _without_variable(parameters)]
    told_names = names or (_USUAL_NAMES[0] if parameters else ())
    known = forms.Known(name=code.candidate.name, parameters=told_names, options=given)
    namings: Sequence[Sequence[str]] = [_names_given(dict.fromkeys(names[:2]), parameters) if names[1:] else ()]
    if parameters and all(each.kind is each.VAR_KEYWORD for each in parameters):
        namings = _USUAL_NAMES
    told = [Schema.of(value).container for value in ([] if code.candidate.is_class else plain_types(code.thing))]
    words = (
        each
        for each in forms.by_words(known, tensors=tensors)
        if not told or told == [schema.container for schema in each.collated]
    )
    found = [*itertools.islice(words, _MOST_BY_WORDS // len(namings))]
    for naming in namings:
        origin = f"inputs by its name and its parameters ({', '.join(names[:3] or naming)})"
        yield from ((_named(source, naming), origin) for source in found)


def _is_of_torch(value: Any) -> bool:
    name = value.__name__ if isinstance(value, types.ModuleType) else getattr(type(value), "__module__", "")
    if isinstance(value, type):
        name = value.__module__
    return str(name).partition(".")[0] == "torch"


def _are_single_values(collated: Sequence[Schema], fed: Sequence[Parameter]) -> bool:
    """Return whether a sample has one value for each argument, and a whole number where the annotation says so."""
    whole = [each.annotation in (int, "int") for each in fed]
    fractions = any(one and each.kind == "float" for one, each in zip(whole, collated, strict=False))
    return not fractions and all(len(each.shape) <= 1 for each in collated)


def _data(call: Mapping[str, Any], fed: Sequence[Parameter]) -> dict[str, Any]:
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


def _names_given(data: Mapping[str, Any], parameters: Sequence[Parameter]) -> tuple[str, ...]:
    """Return the names of the parts of a batch, if the metric takes them by name or as one; empty where it does not."""
    by_position = [
        each
        for each in parameters
        if each.kind is each.VAR_POSITIONAL or (each.kind is not each.KEYWORD_ONLY and each.name in data)
    ]
    together = not _without_variable(parameters) and len(data) > 1
    named = data and (together or (parameters and not by_position)) and not any(name.isdigit() for name in data)
    return tuple(data) if named else ()


def _without_variable(parameters: Sequence[Parameter]) -> list[Parameter]:
    return [each for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]


def _shown(call: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={describe_value(value)}" for name, value in call.items() if value is not None)[:160]


def _equal(first: Any, second: Any) -> bool:
    try:
        return bool(first == second or (first != first and second != second))  # NaN is not equal to itself
    except Exception:  # arrays
        return first is second
