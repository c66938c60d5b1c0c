"""Observed calls of a corpus as examples: how an object is made, and what it is given."""

from __future__ import annotations

import asyncio
import copy
import inspect
import math
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest_evalcheck
from pytest_evalcheck import adapters
from pytest_evalcheck.discovery.control import first_line
from pytest_evalcheck.discovery.inputs import EC
from pytest_evalcheck.discovery.observed import Observed
from pytest_evalcheck.errors import UsageError
from pytest_evalcheck.expectations.comparison import Tolerance, difference
from pytest_evalcheck.kinds.common.process_state import isolated_process
from pytest_evalcheck.learning import corpus
from pytest_evalcheck.learning.annotated import ORIGIN
from pytest_evalcheck.learning.streams import streams_seen
from pytest_evalcheck.learning.values import TABLES, decoded, encoded, is_kept
from pytest_evalcheck.learning.watching import Call, Object, Seen

_MOST_GROUPS = 4
"""Forms of calls of one function or method that are tried."""
_MOST_TRIALS = 4
"""Objects of one construction whose calls are repeated."""
_OF_TORCH = ("torch.nn.modules.", "torch.nn.functional", "torch._C._nn")
"""Homes of names that a constructor may be given beside those of its own package: a corpus is data, and never code."""

_WRITTEN = {"list": "[{}]", "tuple": "({})", "set": "set([{}])", "frozenset": "frozenset([{}])"}
"""By kind: the source of a container of these parts."""


def observed(thing: Any, entry: Seen | None, methods: Sequence[str]) -> list[Observed]:
    """Return the ways in which calls have used a class or a function, each with streams of its rows.

    Those with batches come first, and then those with one sample a call.
    """
    if entry is None:
        return []
    home = f"from {entry.module} import {entry.name}"
    if not entry.is_class:
        if _lacks_an_argument(thing, entry):
            return []
        construction, imports = as_function(entry.name, thing)
        return _with_streams(Observed(construction=construction, imports=(home, *imports)), entry, "")
    found: dict[str, Observed] = {}
    package = entry.module.partition(".")[0]
    for number, construction, imports, alike in constructions(entry):
        one = Observed(construction=construction, imports=(home, *imports))
        if adapters.recognised("metric", thing):
            called = {call.method for each in alike for call in each.calls}
            ways = [(one, method) for method in methods if method in called][:1]
        else:
            trials = (_by_trial(one, each, package, []) for each in alike[:_MOST_TRIALS])
            ways = next(filter(None, trials), [])
        for described, method in ways:
            for each in _with_streams(described, entry, method, number):
                found.setdefault(f"{each.construction} {each.described} {each.inputs}", each)
    if not found and not adapters.recognised("metric", thing):
        for each in _values_of_data(entry, package, home):
            found.setdefault(f"{each.construction} {each.inputs}", each)
    return sorted(found.values(), key=lambda each: each.one_sample)


def constructions(entry: Seen) -> Iterator[tuple[int, str, tuple[str, ...], list[Object]]]:
    """Yield the ways to make an object that can be written: number, source, imports, and the objects with calls."""
    for number, made in enumerate(entry.ways):
        try:
            construction, imports = construction_of(entry.name, made or {}, entry.module.partition(".")[0])
        except UsageError:
            continue
        yield number, construction, imports, [each for each in entry.objects if each.made == made and each.calls]


def _lacks_an_argument(function: Any, entry: Seen) -> bool:
    """Return whether a corpus has no call of a function with all that it requires."""
    try:
        required = {name for name, each in inspect.signature(function).parameters.items() if each.default is each.empty}
    except ValueError:  # what stands for it says nothing
        return False
    package = entry.module.partition(".")[0]
    return not any(
        all(is_kept(value, package) for name, value in call.arguments.items() if name in required)
        for _, call in entry.calls
    )


def _values_of_data(entry: Seen, package: str, home: str) -> Iterator[Observed]:
    """Yield the methods that give numbers of the data of the constructor: each is a function of that data."""
    asked: dict[str, tuple[str, ...]] = {}
    for call in (call for each in entry.objects for call in each.calls if _is_measure(call.returned)):
        try:
            given, imports = construction_of("", call.arguments, package)
        except UsageError:
            continue
        static = inspect.getattr_static(getattr(sys.modules.get(entry.module), entry.name, None), call.method, None)
        asked[f".{call.method}{given if inspect.isroutine(static) else ''}"] = imports
    for source, imports in [*asked.items()][:_MOST_GROUPS]:
        made = f"lambda *args, **kwargs: {entry.name}(*args, **kwargs){source}"
        yield from _with_streams(Observed(construction=made, imports=(home, *imports)), entry, "__init__")


def as_function(source: str, function: Any) -> tuple[str, tuple[str, ...]]:
    """Return the source of a function, and what it imports: a coroutine is run to its end."""
    if not inspect.iscoroutinefunction(function):
        return source, ()
    return f"lambda *args, **kwargs: asyncio.run({source}(*args, **kwargs))", ("import asyncio",)


def entry_of(thing: Any) -> Seen | None:
    """Return what was seen of a class or a function; None where nothing was."""
    home, path = getattr(thing, "__module__", ""), getattr(thing, "__qualname__", "")
    return read().entries.get(f"{home}:{path}")


def how_called(place: str) -> str:
    """Say whose calls are repeated; ``place`` ends with the test that they are from."""
    return "called with values of its types" if place.endswith(ORIGIN) else "called as in a run that was watched"


def why_untried(entry: Seen) -> str:
    """Say what the calls that were watched lack to become a target."""
    calls = [call for _, call in entry.calls] + [call for each in entry.objects for call in each.calls]
    given = [*(each.made or {} for each in entry.objects), *(call.arguments for call in calls)]
    for name, value in (pair for arguments in given for pair in arguments.items()):
        if kind := _unknown(value):
            return f"its argument {name} has a {kind}, which a corpus cannot keep: write a target that makes one"
    if not any(has_number(call.returned) or isinstance(call.returned, str) for call in calls):
        return "no call of it that was watched returned a number or a text"
    if len(given) < 2 + bool(entry.objects):
        return "one call of it was watched, and no change of its numbers gives another value: call it with more inputs"
    package, home = entry.module.partition(".")[0], f"from {entry.module} import {entry.name}"
    errors: list[str] = []
    for _, construction, imports, alike in constructions(entry):
        for each in alike[:_MOST_TRIALS]:
            _by_trial(Observed(construction=construction, imports=(home, *imports)), each, package, errors)
            if errors:
                return f"a repetition of its calls that were watched raised {errors[0]}"
    return "no repetition of its calls that were watched gives a value of its own for each of several inputs"


def _unknown(value: Any) -> str:
    """Return the class of the first object in a value as JSON that was not kept, or the name that a test alone has."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, dict) and "opaque" in value:
        return str(value["opaque"])
    if isinstance(value, dict) and re.match(r"[\w.]+:.*<", str(value.get("name"))):
        return str(value["name"])
    return next(filter(None, map(_unknown, inside)), "")


def _with_streams(seen: Observed, entry: Seen, method: str, made: int = 0) -> list[Observed]:
    """Return a way to make an object with each form of its calls, those with one sample a call last."""
    name = f"{entry.module}:{entry.name}" + (f".{method}" if method else "")
    found = []
    # A judge replies to a batch otherwise than to its samples.
    for one_sample in (True,) if "ec.stand_in(" in seen.construction else (False, True):
        for number, stream in enumerate(streams_seen(entry, name, made, one_sample=one_sample)[:_MOST_GROUPS]):
            if one_sample and stream.is_text and not seen.described:
                continue  # a document, and so a scorer
            options = {"made": made, "group": number, "one_sample": one_sample, "types": entry.types}
            given: dict[str, Any] = {key: value for key, value in options.items() if value}
            inputs = EC.learned(name, **given), EC.learned(name, **given, changes=False)
            origin = f"inputs made of rows of {_shown(stream.tests)}"
            how = how_called(origin)
            found.append(replace(seen, inputs=inputs, origin=origin, how=how, one_sample=one_sample))
    return found


def _shown(tests: Sequence[str]) -> str:
    more = f" and {len(tests) - 1} more" if len(tests) > 1 else ""
    return f"{tests[0]}{more}"


def _by_trial(seen: Observed, observed: Object, package: str, errors: list[str]) -> list[tuple[Observed, str]]:
    """Find out what feeds an object, what gives its value and what starts again, by a repetition of its calls.

    A method that returns a value for data, and leaves the object as it is or keeps this value alone, is a function.
    Else the object accumulates: what is given data feeds it, and what is called or read without any, and returned a
    value then, gives it. Where nothing does, what returns the same value for the same data only notes its calls, and is
    a function; so is what returns a value for other data than it was fed with, and leaves it as it is, such as the
    score of a model that was fitted. Empty where the repetition gives other values than the run, or an error, which is
    added to ``errors``.
    """
    names: dict[str, Any] = {"ec": pytest_evalcheck}
    functions: dict[str, None] = {}
    changes: list[Call] = []
    asked: dict[str, list[Call]] = {}
    noting: dict[str, None] = {}
    fed, begun, value, again = "", "", "", False
    with isolated_process():
        try:
            exec("\n".join(seen.imports), names)
            made = eval(seen.construction, names)
            if is_model(made):
                return []
            for call in observed.calls:
                given = _given(call.arguments, package)
                before = state_of(made)
                result = _repeated(made, call.method, given)
                changed = state_of(made) != before
                gives = given and has_number(encoded(result))
                if gives and call.method != fed and not changed:
                    asked.setdefault(call.method, [*changes])
                changes += [call] if changed else []
                of_data = gives and not fed
                if of_data and (not changed or _keeps_the_last(made, call.method, given, result)):
                    functions[call.method] = None
                elif given and call.method not in functions:
                    if of_data and _only_notes(made, call, observed, result, package):
                        noting[call.method] = None
                    fed = fed or ("" if inspect.iscoroutinefunction(getattr(made, call.method)) else call.method)
                elif not given and not fed and result is None:
                    begun = call.method
                elif not given and call.method == begun:
                    again = True
                elif not given and fed and _is_measure(call.returned) and _returns_again(result, call.returned):
                    value = call.method  # the state of a model that is trained has texts, too
        except Exception as error:  # what it needs was not seen
            fed = ""
            errors.append(first_line(error))
    if not (fed and value):
        functions |= {} if errors else noting
        found = [(each, *as_function(f"{seen.construction}.{each}", getattr(made, each))) for each in functions]
        found += [] if errors or found else [*_after_changes(seen.construction, asked, package)]
        return [
            (replace(seen, construction=source, imports=(*seen.imports, *imports)), each)
            for each, source, imports in found
        ]
    is_method = inspect.isroutine(inspect.getattr_static(type(made), value, None))
    if _starts_anew(seen, names, observed, (begun, fed, value), package):
        called = f"(made.{fed}(*args, **kwargs), made.{value}{'()' if is_method else ''})[1]"
        return [
            (replace(seen, construction=f"lambda *args, **kwargs: (lambda made: {called})({seen.construction})"), fed)
        ]
    read = f"made.{value}" if is_method else f"lambda: made.{value}"
    resets = begun and (again or _resets(seen, names, observed, (begun, fed, value), package))
    reset = f", reset=made.{begun}" if resets else ""
    setup = (begun,) if begun else ()
    described = f"ec.Metric(update=made.{fed}, compute={read}{reset})"
    return [(replace(seen, setup=setup, described=described), fed)]


def _after_changes(
    construction: str, asked: dict[str, list[Call]], package: str
) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield methods with their source and its imports, of an object after the calls that have changed it."""
    for method, changes in asked.items():
        try:
            given = [construction_of(f"made.{each.method}", each.arguments, package) for each in changes]
        except UsageError:
            continue
        changed = ", ".join([*(source for source, _ in given), "made"])
        imports = tuple(dict.fromkeys(line for _, lines in given for line in lines))
        yield method, f"(lambda made: ({changed})[-1])({construction}).{method}", imports


def _starts_anew(
    seen: Observed, names: dict[str, Any], observed: Object, methods: tuple[str, str, str], package: str
) -> bool:
    """Return whether a second call of the method that is fed is refused, or forgets the first one, as a `fit` does.

    Where all calls are given the same, the second one is given half of its rows.
    """
    begun, fed, value = methods
    given = [_given(call.arguments, package) for call in observed.calls if call.method == fed]
    first, other = given[0], next((each for each in given[1:] if repr(each) != repr(given[0])), _half(given[0]))
    values = []
    with isolated_process():
        for batches in ([first], [other], [first, other], [other, first]):
            made = eval(seen.construction, names)
            try:
                for method, batch in ([(begun, {})] if begun else []) + [(fed, batch) for batch in batches]:
                    _repeated(made, method, batch)
                values.append(_repeated(made, value, {}))
            except Exception:
                return len(batches) > 1
    same = [difference(one, two, Tolerance(atol=1e-6)) is None for one in values[2:] for two in values[:2]]
    return same == [False, True, True, False]  # a maximum forgets in one order alone


def _half(given: dict[str, Any]) -> dict[str, Any]:
    """Return arguments with the last half of the rows, where they have as many as the first of them that has some."""
    lengths = {
        name: len(each) if isinstance(each, (list, tuple)) else [*getattr(each, "shape", ()), 0][0]
        for name, each in given.items()
    }
    count = next((length for length in lengths.values() if length > 1), None)
    return {name: each[count // 2 :] if count and lengths[name] == count else each for name, each in given.items()}


def _resets(
    seen: Observed, names: dict[str, Any], observed: Object, methods: tuple[str, str, str], package: str
) -> bool:
    """Return whether the method that is called first makes an object forget, as a `reset` does, and a `start` does not.

    No run has called it again.
    """
    begun, fed, value = methods
    given = next(_given(call.arguments, package) for call in observed.calls if call.method == fed)
    values = []
    with isolated_process():
        try:
            for times in (1, 2):
                made = eval(seen.construction, names)
                for _ in range(times):
                    _repeated(made, begun, {})
                    _repeated(made, fed, given)
                values.append(_repeated(made, value, {}))
        except Exception:
            return False
    return difference(values[0], values[1], Tolerance(atol=1e-6)) is None


def _repeated(made: Any, method: str, given: dict[str, Any]) -> Any:
    if not inspect.isroutine(inspect.getattr_static(type(made), method, None)):
        return getattr(made, method)
    positional = [value for name, value in given.items() if name.isdigit()]
    named = {name: value for name, value in given.items() if not name.isdigit()}
    result = getattr(made, method)(*positional, **named)
    return asyncio.run(result) if inspect.iscoroutine(result) else result


def state_of(made: Any) -> str:
    """Return the attributes of an object as text."""
    return repr(encoded(dict(getattr(made, "__dict__", {}))))


def _keeps_the_last(made: Any, method: str, given: dict[str, Any], result: Any) -> bool:
    """Return whether a second call with the same data changes nothing, as where a metric has its last score."""
    try:
        twin = copy.deepcopy(made)
        again = _repeated(twin, method, given)
    except Exception:  # what cannot be copied, or refuses
        return False
    return state_of(twin) == state_of(made) and difference(again, result, Tolerance()) is None


def _only_notes(made: Any, call: Call, observed: Object, result: Any, package: str) -> bool:
    """Return whether the same data has the same value after other data, as where a scorer writes a log of its calls."""
    others = [each for each in observed.calls if each.method == call.method and each.arguments != call.arguments]
    try:
        twin = copy.deepcopy(made)
        for each in (*others, call):
            again = _repeated(twin, call.method, _given(each.arguments, package))
    except Exception:  # what cannot be copied, or refuses
        return False
    return bool(others) and difference(again, result, Tolerance()) is None


def _is_measure(value: Any) -> bool:
    """Return whether a value as JSON is of numbers alone: what has texts, too, is mostly the data itself."""
    return all(isinstance(leaf, (bool, int, float)) for leaf in _leaves(value))


def has_number(value: Any) -> bool:
    """Return whether a value as JSON has a number."""
    return any(isinstance(leaf, (bool, int, float)) for leaf in _leaves(value))


def _leaves(value: Any) -> Iterator[Any]:
    """Yield what is in a value as JSON: 0.0 for an array or a number that is not finite, None for what is empty."""
    if isinstance(value, dict) and {"array", "float"} & {*value}:
        yield 0.0
    elif isinstance(value, (dict, list)):
        sizes = ("length", "characters")
        inside = [each for key, each in value.items() if key not in sizes] if isinstance(value, dict) else value
        for each in inside or [None]:
            yield from _leaves(each)
    else:
        yield value


def _returns_again(result: Any, returned: Any) -> bool:
    """Return whether a result is the one of a corpus, up to rounding."""
    return difference(encoded(result), returned, Tolerance(atol=1e-6)) is None


def names_in(module: str) -> list[str]:
    """Return the names that a corpus has of a module and its submodules, as ``module:name``."""
    return read().of(module)


def notes(packages: Collection[str]) -> list[str]:
    """Say where a corpus was learned from another release than the installed one, and where a run did not end."""
    found = []
    for package, before in read().releases.items():
        now = corpus.release(package)
        if package in packages and before != now:
            found.append(
                f"the corpus of {package} was learned from {before or 'no release'}, {now or 'none'} is installed"
            )
    if (unfinished := corpus.place() / corpus.UNFINISHED).is_dir():
        found.append(f"{unfinished} is of a run of tests that did not end, used where no other is: run them again")
    return found


def read() -> corpus.Corpus:
    """Return the corpus of this run; an empty one where there is none."""
    return corpus.nearest()


def _given(arguments: dict[str, Any], package: str) -> dict[str, Any]:
    """Return the arguments of a call that were kept."""
    return {name: decoded(value, package) for name, value in arguments.items() if is_kept(value, package)}


def is_model(made: Any) -> bool:
    """Return whether an object is a torch module with parameters: it is evaluated, and measures nothing."""
    return hasattr(made, "named_modules") and any(True for _ in made.parameters())


def own_name(name: Any, package: str) -> tuple[str, str]:
    """Return the module and the path of ``module:path``.

    Raises:
        UsageError: where it is no name, or none of the package.
    """
    module, _, path = str(name).partition(":")
    named = all(part.isidentifier() for part in (*module.split("."), *path.split(".")))
    if not named or module.partition(".")[0] != package:
        raise UsageError(f"{name!r} is no name of {package}")
    return module, path


def construction_of(name: str, made: dict[str, Any], package: str) -> tuple[str, tuple[str, ...]]:
    """Return the source that makes an object again, and its imports.

    Raises:
        UsageError: where an argument was not kept, or has no name.
    """
    if not all(key.isidentifier() or key.isdigit() for key in made):
        raise UsageError(f"{[*made]} are no names of parameters")
    imports: dict[str, None] = {}
    given = ", ".join(
        source_of(value, package, imports) if key.isdigit() else f"{key}={source_of(value, package, imports)}"
        for key, value in made.items()
    )
    return f"{name}({given})", tuple(imports)


def source_of(value: Any, package: str, imports: dict[str, None]) -> str:
    """Return the source of a value, and add what it needs to the imports.

    Raises:
        UsageError: where it was not kept, or names what is not of the package.
    """
    whole: dict[str, Any] = {"list": value} if isinstance(value, list) else value if isinstance(value, dict) else {}
    for kind, form in _WRITTEN.items():
        if kind in whole:
            inside = [source_of(each, package, imports) for each in whole[kind]]
            return form.format(", ".join(inside) + ("," if kind == "tuple" and len(inside) == 1 else ""))
    if {"dict", "pairs"} & {*whole}:
        pairs = whole["pairs"] if "pairs" in whole else whole["dict"].items()
        return f"{{{', '.join(': '.join(source_of(each, package, imports) for each in pair) for pair in pairs)}}}"
    if "name" in whole:
        module, _, path = str(value["name"]).partition(":")
        own = module.partition(".")[0] == package
        if not all(part.isidentifier() for part in (*module.split("."), *path.split("."))):
            raise UsageError(f"{value['name']} is no name")
        if not own and not f"{module}.".startswith(_OF_TORCH):
            raise UsageError(f"{value['name']} is neither of {package} nor a module of torch")
        imports[f"from {module} import {path.partition('.')[0]}"] = None
        return path
    if {"made", "object"} & {*whole}:
        module, path = own_name(value.get("made", value.get("object")), package)
        source, more = construction_of(path, value.get("arguments") or value.get("fields") or {}, package)
        imports.update(dict.fromkeys((f"from {module} import {path.partition('.')[0]}", *more)))
        return source
    if "stand_in" in whole:
        own_name(value.get("of"), package)
        return f"ec.stand_in({value['of']!r}, {str(value['stand_in'])!r})"
    if {"opaque", "loader", *TABLES} & {*whole}:
        raise UsageError(f"a value was not kept: {value}")
    if "torch" in whole:
        imports["import torch"] = None
        made = decoded(value)
        return str(made) if "dtype" in type(made).__name__ else f"torch.device({value['torch']!r})"
    plain = decoded(value)
    if "time" in whole:
        home = type(plain).__module__.partition(".")[0]
        imports[f"import {home}"] = None
        return f"{home}.{value['of']}({value['time']!r})" if home == "pandas" else repr(plain)
    if hasattr(plain, "dims"):
        raise UsageError("an array of xarray is no literal")
    if hasattr(plain, "dtype"):
        home = "torch" if type(plain).__module__.startswith("torch") else "numpy"
        imports[f"import {home}"] = None
        dtype = str(plain.dtype).removeprefix("torch.")
        numbers = re.sub(r"\b(nan|inf)\b", r"float('\1')", repr(plain.tolist()))
        if home == "numpy" and not plain.shape:  # an array has no hash
            return f"numpy.{dtype}({numbers})"
        return f"{home}.{'tensor' if home == 'torch' else 'array'}({numbers}, dtype={home}.{dtype})"
    if isinstance(plain, float) and not math.isfinite(plain):
        return f"float({str(plain)!r})"
    return repr(plain)
