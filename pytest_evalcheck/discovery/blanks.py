"""A target with blanks for what nothing was inferred for: its real names, and places to fill in."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from typing import Any

from pytest_evalcheck.adapters.protocols.metric import protocol_of
from pytest_evalcheck.discovery.candidates import Candidate
from pytest_evalcheck.discovery.forms import snake_case
from pytest_evalcheck.discovery.options import MissingArgument, required

BLANK = "FILL_IN"
_LOADERS = ("loader", "dataloader", "data_loader", "dataset", "eval_dataset", "batches")


def command(name: str) -> str:
    """Return the command that writes the target with blanks of ``module.Name``."""
    module, _, last = name.rpartition(".")
    return f"python -m pytest_evalcheck write --blanks {module}:{last}"


def with_blanks(candidate: Candidate, why: str = "") -> str:
    """Return the source of a target that runs once each ``FILL_IN`` in it is replaced. The candidate is not called."""
    thing = candidate.load()
    construction, missing = _construction(candidate, thing)
    kind, body, inputs = _kind_and_inputs(thing, construction)
    blanks = [*missing, *inputs[1]]
    head = [f"A target for {candidate}. Replace each {BLANK}: {'; '.join(blanks)}.", *([why] if why else [])]
    doc = "\n".join(textwrap.fill(line, 118) for line in head)
    return (
        f'"""{doc}\n"""\n\nfrom {candidate.module} import {candidate.name}\n\nimport pytest_evalcheck as ec\n'
        f"from pytest_evalcheck import strategies as es\n\n\n@ec.{kind}(inputs={inputs[0]}, budget=None)\n"
        f"def {snake_case(candidate.name)}_target(device):\n{textwrap.indent(body, '    ')}\n"
    )


def _kind_and_inputs(thing: Any, construction: str) -> tuple[str, str, tuple[str, list[str]]]:
    """Return the kind, the body of the factory, and the inputs with what is blank in them."""
    if not inspect.isclass(thing):
        names = _names(thing)
        loader = next((name for name in names if name in _LOADERS), "")
        if not loader:
            return "metric", f"return {construction}", _rows(names, [])
        given = ", ".join(f"{name}={'data.loader(batch_size)' if name == loader else BLANK}" for name in names)
        others = [f"{name} of the call" for name in names if name != loader]
        call = f"evaluate=lambda data, batch_size=2: {construction}({given})"
        return "loop", f"return ec.Loop({call})", _rows(["each part of a sample"], others)
    if hasattr(thing, "named_modules") and not callable(getattr(thing, "compute", None)):
        body = f"model = {construction}\nreturn ec.Wrapper(forward=lambda batch: model(*batch), model=model)"
        return "wrapper", body, _rows(_names(getattr(thing, "forward", None), 1) or ["input"], [])
    protocol = protocol_of(thing)
    feeds, values = _methods(thing)
    if protocol is not None:
        return "metric", f"return {construction}", _rows(_names(getattr(thing, protocol.feed), 1), [])
    feed, value = (found[0] if len(found) == 1 else BLANK for found in (feeds, values))
    names = _names(getattr(thing, feed, None), 1)
    if feed != BLANK and not values:
        return "metric", f"return {construction}.{feed}", _rows(names, [])
    blanks = [] if feed != BLANK else [f"the method that is fed, one of {', '.join(feeds) or 'none that is public'}"]
    blanks += [] if value != BLANK else [f"the method that gives the value, one of {', '.join(values) or 'none'}"]
    body = f"made = {construction}\nreturn ec.Metric(update=made.{feed}, compute=made.{value})"
    return "metric", body, _rows(names, blanks)


def _names(function: Any, skipped: int = 0) -> list[str]:
    return [each.name for each in _required(function)[skipped:]]


def _rows(names: list[str], blanks: list[str]) -> tuple[str, list[str]]:
    names = names or ["each argument"]
    columns = ", ".join([BLANK] * len(names))
    said = f"a list of two rows or more of {', '.join(names)}"
    dtypes = 'dtypes with one of "float32", "int64", "bool" or None (a list) for each of them'
    return f"es.rows({columns}, dtypes={BLANK})", [*blanks, said, dtypes]


def _construction(candidate: Candidate, thing: Any) -> tuple[str, list[str]]:
    if candidate.call or not candidate.is_class:
        return candidate.call or candidate.name, []
    given, missing = [], []
    for each in _required(thing):
        try:
            value = repr(required([each], {})[each.name])
        except MissingArgument:
            value = BLANK
            missing.append(f"{each.name} of the constructor")
        given.append(f"{each.name}={value}")
    return f"{candidate.name}({', '.join(given)})", missing


def _required(function: Any) -> list[inspect.Parameter]:
    """Return the parameters without a default; those of a method with ``self``."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [each for each in found if each.default is each.empty and each.kind not in variable]


def _methods(cls: type) -> tuple[list[str], list[str]]:
    """Return the public methods of a class that must be given something, and those that need not."""
    names = [*_public(cls)]
    takes = [name for name in names if len(_required(getattr(cls, name))) > 1]
    return takes, [name for name in names if name not in (*takes, "reset", "clear")]


def _public(cls: type) -> Iterator[str]:
    for base in cls.__mro__[:-1]:
        yield from (name for name, each in vars(base).items() if not name.startswith("_") and inspect.isfunction(each))
