"""From a class or a function to targets: how it is made, what it is fed with, and how that is known."""

from __future__ import annotations

import ast
import inspect
import itertools
import math
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

from pytest_evalcheck import adapters
from pytest_evalcheck import strategies as es
from pytest_evalcheck.discovery import guesses, options
from pytest_evalcheck.discovery.candidates import Candidate
from pytest_evalcheck.discovery.examples import Observed, observe, parts
from pytest_evalcheck.discovery.meant import inapplicable
from pytest_evalcheck.discovery.placement import on_device
from pytest_evalcheck.discovery.schemas import Schema
from pytest_evalcheck.discovery.words import OF_TIME, snake_case
from pytest_evalcheck.engine.preflight import no_value
from pytest_evalcheck.expectations.comparison import Raised, Tolerance, difference
from pytest_evalcheck.expectations.failures import CheckFailure
from pytest_evalcheck.kinds.common.call_facts import describe_value
from pytest_evalcheck.kinds.common.process_state import isolated_process
from pytest_evalcheck.kinds.metric.subject import MetricSubject
from pytest_evalcheck.strategies.samples import Arguments, SampleStrategy

FEEDING = ("update", "update_state", "__call__", "forward", "add_batch")
"""Methods that feed an object of a class."""
_MOST_CONFIGURATIONS = 4
"""Of one way to make an object."""
_MOST_TARGETS = 8
"""Of one candidate."""
_MOST_BY_WORDS = 24
"""Strategies that are tried by the words of a name alone."""
_LEAST = (1, 2, 3, 4, 6, 8, 24)
"""So few samples have a value, where one alone has none."""
_OF_PREFLIGHT = 4
"""How many samples the plain call before the checks has."""
_PLAIN = 8
"""So many samples must have a value, unless it is not a number."""


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A target that nobody wrote, as source of its parts."""

    candidate: Candidate
    label: str
    """The options that are not the default, in words; empty for the first configuration."""
    construction: str
    imports: tuple[str, ...]
    inputs: str
    """The strategy, as source: ``es.binary()``."""
    origin: str
    """How construction and inputs were inferred."""
    placed: str = ""
    """The construction, on ``device`` where something puts it there; empty for a function."""
    setup: tuple[str, ...] = ()
    """Methods that are called before it is fed."""
    not_applicable: Mapping[str, str] = field(default_factory=dict)
    """By code: why a promise does not apply to it."""


@dataclass(kw_only=True)
class Proposed:
    """What came of one candidate."""

    targets: list[Proposal] = field(default_factory=list)
    why: str = ""
    """Why there is no target."""
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


def propose(candidate: Candidate) -> Proposed:
    """The targets of a candidate. Its code is called here: run it where it may print, hang or end the process."""
    thing = candidate.load()
    proposed = Proposed()
    if OF_TIME.search(snake_case(candidate.name)) and not candidate.call:
        proposed.why = "by its name it measures time, which is another one in every run"
        return proposed
    problems: list[str] = []
    bases = list(_bases(candidate, thing, problems))
    examples = [call for base in bases if base.observed for call in base.observed.calls[:2]]
    refused: list[str] = []
    for form in _forms(candidate, thing, bases, proposed):
        used = [target.inputs for target in proposed.targets]
        inputs, why = _inputs(candidate, thing, form, used, examples)
        if inputs is None:
            proposed.left[form.construction] = why
            refused.append(why)
        else:
            proposed.targets.append(_proposal(candidate, thing, form, *inputs))
    if not proposed.targets:
        proposed.why = "; ".join(refused[:1] or problems) or "nothing was found to feed it"
        if candidate.is_class and "raised NotImplementedError" in proposed.why:
            proposed.why = f"abstract: {proposed.why}"
        proposed.left = {}
    return proposed


def _proposal(candidate: Candidate, thing: Any, form: _Form, source: str, origin: str) -> Proposal:
    meant, placed = {}, ""
    if candidate.is_class:
        meant = inapplicable(candidate.name, form.make(), _given(thing, form))
        placed = on_device(form.construction, _parameters(thing), partial(_evaluated, form.imports))
    return Proposal(
        candidate=candidate,
        label=form.label,
        construction=form.construction,
        imports=form.imports,
        inputs=source,
        origin=f"{form.origin}; {origin}",
        setup=form.observed.setup if form.observed else (),
        placed=placed,
        not_applicable=meant,
    )


def _forms(candidate: Candidate, thing: Any, bases: Sequence[_Form], proposed: Proposed) -> Iterator[_Form]:
    """Every way to make the object once, then these with options changed, in turn, up to a limit."""
    turns = itertools.zip_longest(*(_configurations(candidate, thing, base, proposed) for base in bases))
    forms = {form.construction: form for turn in turns for form in turn if form is not None}
    ordered = sorted(forms.values(), key=lambda form: bool(form.label))
    yield from ordered[:_MOST_TARGETS]
    for form in ordered[_MOST_TARGETS:]:
        proposed.left[form.construction] = "beyond the limit of configurations"


def _bases(candidate: Candidate, thing: Any, problems: list[str]) -> Iterator[_Form]:
    """The ways to make the object: that of the request, those of its examples, that of its signature."""
    home = f"from {candidate.module} import {candidate.name}"
    found, no_example = observe(thing, FEEDING)
    if candidate.call:
        form = _form(candidate.call, (home,), "constructed as the request says")
        yield _with_calls(form, found)
        return
    yielded = 0
    for observed in found:
        shown = _of_observed(candidate, thing, observed, home)
        if shown is not None:
            yielded += 1
            yield shown
    if yielded:
        return
    if no_example:
        problems.append(no_example)
    try:
        given = options.required(_parameters(thing), _annotations(thing)) if candidate.is_class else {}
    except options.MissingArgument as error:
        example = f"{candidate.module}:{candidate.name}({error}=...)"
        problems.append(f"its constructor needs {error}, of which no value is known; give it: {example!r}")
        return
    construction = _written(candidate.name, given) if candidate.is_class else candidate.name
    form = _form(construction, (home,), "constructed by its signature")
    yield _with_calls(form, found)


def _of_observed(candidate: Candidate, thing: Any, observed: Observed, home: str) -> _Form | None:
    if candidate.is_class:
        if _options_of(observed.construction).get("dim"):
            return None  # its samples lie along another dimension than those of batches
        imports = tuple(line if not line.endswith(f" import {candidate.name}") else home for line in observed.imports)
        return _form(observed.construction, imports, "constructed as in its docstring", observed)
    defaults = {each.name: each.default for each in _parameters(thing)}
    data = list(observed.calls[0])[:2]
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


def _with_calls(form: _Form, found: Sequence[Observed]) -> _Form:
    return _form(form.construction, form.imports, form.origin, found[0]) if found else form


def _form(construction: str, imports: tuple[str, ...], origin: str, observed: Observed | None = None) -> _Form:
    def make() -> Any:
        made = _evaluated(imports, construction, {})
        for method in observed.setup if observed else ():
            getattr(made, method)()
        return made

    return _Form(
        construction=construction,
        imports=imports,
        make=make,
        options=_options_of(construction),
        observed=observed,
        origin=origin,
    )


def _evaluated(imports: Iterable[str], source: str, names: Mapping[str, Any]) -> Any:
    known: dict[str, Any] = {}
    exec("\n".join(imports), known)
    return eval(source, {**known, **names})


def _positional(form: _Form) -> int:
    """How many arguments its call has by position."""
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
    """The base, and the base with options changed."""
    yield base
    if candidate.call:
        return
    parameters = [each for each in _parameters(thing)[_positional(base) :] if each.name not in base.options]
    changeable = options.varied(parameters, _annotations(thing))
    if not candidate.is_class:  # the first two parameters are the data
        changeable = {name: values for name, values in changeable.items() if name in list(_names(thing))[2:]}
    configurations, cut = options.covering(changeable, _MOST_CONFIGURATIONS)
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
    candidate: Candidate, thing: Any, form: _Form, used: Sequence[str], examples: Sequence[Mapping[str, Any]]
) -> tuple[tuple[str, str] | None, str]:
    """The first strategy that passes the control, with its origin; or why there is none."""
    try:
        with isolated_process():
            record = adapters.record("metric", form.make())
    except Exception as error:
        return None, f"constructing it raised {_first_line(error)}"
    tried, why = 0, ""
    for source, origin in _sources(candidate, thing, form, used, examples, record):
        refusal, corrected = _control(source, form.make)
        refusal = refusal or _ranking_of_rows(corrected, form.make, _given(thing, form))
        if not refusal:
            return _with_nan(corrected, origin, form, _given(thing, form)), ""
        tried += 1
        why = why or refusal
    return None, f"none of {tried} strategies is accepted: {why}" if tried else "no strategy fits its arguments"


def _with_nan(source: str, origin: str, form: _Form, given: Mapping[str, Any]) -> tuple[str, str]:
    """Inputs with some NaN where an option says what one counts: that it leaves no trace is meant there."""
    option = options.about_nan(given)
    if not option or strategy_of(source).corrupted is None:
        return source, origin
    refusal, _ = _control(f"{source}.with_nan()", form.make)
    change = "but(corrupted=None)" if refusal else "with_nan()"
    return f"{source}.{change}", f"{origin}; {option}={given[option]!r} says what becomes of NaN"


def _sources(
    candidate: Candidate,
    thing: Any,
    form: _Form,
    used: Sequence[str],
    examples: Sequence[Mapping[str, Any]],
    record: Any,
) -> Iterator[tuple[str, str]]:
    used_up: set[str] = set()
    fed = _fed_parameters(record) if candidate.is_class else _parameters(thing)
    names = [each.name for each in fed]
    calls = form.observed.calls if form.observed else []
    shown = [(call, _data(call, fed)) for call in (*calls[:3], *examples)]
    tuned = [
        (f"{source}{_naming(data, names)}", f"inputs like those of its example: {_shown(call)}")
        for call, data in shown
        for source in guesses.from_example(data, form.options, candidate.name)
    ]
    every = [[Schema.of(value) for value in data.values()] for _, data in shown]
    told = [[schema.container for schema in each] for each in every]  # neither a number nor an object is a form
    forms = [each for each, seen in zip(every, told, strict=True) if {*seen} - {"number"} and "objects" not in seen]
    guessed = guesses.from_words(candidate.name, names, _given(thing, form))
    fitting = (source for source in guessed if _fits(source, forms, loosely=bool(form.label)))
    worded = [
        (source, f"inputs by its name and its parameters ({', '.join(names[:3])})")
        for source in itertools.islice(fitting, _MOST_BY_WORDS)
    ]
    again = [(source, "inputs of another configuration of it") for source in dict.fromkeys(used)]
    for source, origin in [*tuned[:1], *again, *tuned[1:], *worded]:
        if source not in used_up:
            used_up.add(source)
            yield source, origin


def _fits(source: str, forms: Sequence[Sequence[Schema]], *, loosely: bool) -> bool:
    """Whether a strategy collates arguments like those of an example: an option may add a dimension to them."""
    if not forms:
        return True
    try:
        inputs = strategy_of(source)
        collated = Arguments.of(inputs.collate(inputs.fixed(max(3, inputs.min_samples))))
    except Exception:  # a strategy that this release has not
        return False
    made = [Schema.of(value) for value in (*collated.args, *collated.kwargs.values())]
    if len(made) > 1 and all(each.kind == "float" for each in made):  # labels are no numbers to be measured
        forms = [shown for shown in forms if any(each.kind != "int" for each in shown)]
    return any(
        len(made) == len(shown)
        and all(one.like(other, loosely=loosely) for one, other in zip(made, shown, strict=True))
        for shown in forms
    )


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


def _naming(data: Mapping[str, Any], names: Sequence[str]) -> str:
    """How a strategy gets the names of the parts of a batch, for a metric that takes all of them as one argument."""
    named = not names and len(data) > 1 and not any(name.isdigit() for name in data)
    return f".named({', '.join(map(repr, data))})" if named else ""


def _fed_parameters(record: Any) -> list[inspect.Parameter]:
    try:
        parameters = inspect.signature(record.update).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [each for each in parameters if each.kind in kinds]


@cache
def strategy_of(source: str) -> SampleStrategy:
    """The strategy that a source such as ``es.binary()`` stands for.

    Raises:
        Exception: what its evaluation raises.
    """
    made: SampleStrategy = eval(source, {"es": es})
    return made


def _control(source: str, make: Callable[[], Any]) -> tuple[str, str]:
    """Why a strategy is not used, empty where it is; and its source with what was found out."""
    try:
        inputs = strategy_of(source)
    except Exception as error:
        return f"{source}: {_first_line(error)}", source
    for least in _LEAST:
        corrected = source if least <= inputs.min_samples else f"{source}.but(min_samples={least})"
        refusal, of_few = _refusal(strategy_of(corrected), make)
        if not refusal:
            return "", corrected
        if not of_few:
            break
    return f"{source}: {refusal}", source


def _refusal(inputs: SampleStrategy, make: Callable[[], Any]) -> tuple[str, bool]:
    """Why the control is not passed, empty where it is; and whether more samples may help."""
    subject = _subject(inputs, make)
    try:
        with isolated_process():
            rows = inputs.fixed(max(_PLAIN, inputs.min_samples))
            for part in (rows, rows[: max(_OF_PREFLIGHT, inputs.min_samples)], rows[: inputs.min_samples]):
                value = subject.plain_result(part)
                if isinstance(value, Raised):
                    return str(value).splitlines()[0][:160], part is not rows
                if missing := no_value(value):
                    return f"its value is {missing}", True
            return _randomness(subject, rows) or _indifference(subject) or _of_whole_batches(subject, rows), False
    except CheckFailure as failure:
        return str(failure.about)[:160], False
    except Exception as error:
        return _first_line(error), False


def _subject(inputs: SampleStrategy, make: Callable[[], Any]) -> MetricSubject:
    return MetricSubject(
        build=lambda: adapters.record("metric", make()), inputs=inputs, tolerance=Tolerance(), device="cpu"
    )


def _randomness(subject: MetricSubject, rows: Sequence[Any]) -> str:
    """That the same samples have another value each time; empty where they do not."""
    first, second = subject.value([rows]), subject.value([rows])
    if difference(first, second, subject.tolerance) is None:
        return ""
    return f"it is random, {describe_value(first)} and then {describe_value(second)} for the same samples; seed it"


def _indifference(subject: MetricSubject) -> str:
    """That right and wrong predictions have the same value; empty where they differ."""
    inputs = subject.inputs
    if inputs.wrong is not None and inputs.contrast:
        rows = list(inputs.contrast) * math.ceil(inputs.min_samples / len(inputs.contrast))
        right = subject.value([[inputs.right(row) if inputs.right else row for row in rows]])
        wrong = subject.value([[inputs.wrong(row) for row in rows]])
        values = [right, wrong]
        refused = isinstance(right, Raised) and isinstance(wrong, Raised)
        if not refused and difference(right, wrong, subject.tolerance) is not None:
            return ""
    else:
        many = inputs.fixed(3 * max(4, inputs.min_samples))
        parts = [many[i : i + size] for size in (len(many) // 3, 2, 1) for i in range(0, 2 * len(many) // 3, size)]
        values = [subject.value([part]) for part in parts if len(part) >= inputs.min_samples]
        good = [value for value in values if not isinstance(value, Raised)]
        if any(difference(good[0], value, subject.tolerance) is not None for value in good[1:]):
            return ""
    return f"right and wrong predictions have the same value, {describe_value(values[0])}"


def _of_whole_batches(subject: MetricSubject, rows: Sequence[Any]) -> str:
    """That a batch is no set of samples to it: one sample itself, or refused where it is small; empty otherwise."""
    half = len(rows) // 2
    whole, halves = (
        subject.value([rows[i : i + size] for i in range(0, len(rows), size)]) for size in (2 * half, half)
    )
    shapes = [tuple(getattr(value, "shape", ())) for value in (whole, halves)]
    if half > 1 and [shape[:1] for shape in shapes] == [(2 * half,), (half,)]:
        return "its value has one number for each row of a batch: a batch is taken for one sample"
    # Too few samples have no value in one batch, but in several; a fault of the second batch is none of the first.
    plans = [[rows[i : i + size] for i in range(0, stop, size)] for size in (1, 2) for stop in (size, len(rows))]
    small = [subject.value(plan) for plan in plans]
    if not isinstance(whole, Raised) and all(isinstance(value, Raised) for value in small):
        return f"it refuses small batches: {str(small[-1]).splitlines()[0]}"[:160]
    return ""


def _ranking_of_rows(source: str, make: Callable[[], Any], given: Mapping[str, Any]) -> str:
    """That ``top_k`` ranks the rows of a batch, since each has one score: fewer are refused; empty otherwise."""
    most = next((given[name] for name in ("top_k", "k") if type(given.get(name)) is int), 1)
    inputs = strategy_of(source)
    rows = inputs.fixed(max(_PLAIN, inputs.min_samples))
    made = [Schema.of(value) for value in Arguments.of(inputs.collate(rows)).args]
    if not 1 < most <= len(rows) or not made or any(len(each.shape) > 1 for each in made):
        return ""
    subject = _subject(inputs, make)
    with isolated_process():
        fewer, enough = (subject.value([rows[:count]]) for count in (most - 1, most))
    if isinstance(fewer, Raised) and not isinstance(enough, Raised):
        return f"it ranks the rows of a batch, and refuses fewer than {most}: {str(fewer).splitlines()[0]}"[:160]
    return ""


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


def _annotations(thing: Any) -> dict[str, Any]:
    functions = [thing]
    if inspect.isclass(thing):
        functions = [vars(thing).get("__new__", thing.__init__), thing.__init__]
    found: dict[str, Any] = {}
    for function in functions:
        try:
            found = {**typing.get_type_hints(getattr(function, "__func__", function)), **found}
        except Exception:  # a name of an annotation is not there at run time
            continue
    return found


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


def _first_line(error: BaseException) -> str:
    text = re.sub(r"\s+", " ", str(error)).strip()
    return f"{type(error).__name__}: {text}"[:160] if text else type(error).__name__


def _equal(first: Any, second: Any) -> bool:
    if isinstance(first, float) and isinstance(second, float) and math.isnan(first) and math.isnan(second):
        return True
    try:
        return bool(first == second)
    except Exception:  # arrays
        return first is second
