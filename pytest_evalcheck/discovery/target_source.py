"""Targets as a file: what was inferred is a comment, and every line can be edited."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from keyword import iskeyword
from types import MappingProxyType

from pytest_evalcheck.discovery.examples import Renamed
from pytest_evalcheck.discovery.forms import snake_case
from pytest_evalcheck.discovery.proposals import Proposal
from pytest_evalcheck.reports.results import DECLARED

_WIDTH = 120
_OWN = ("ec", "es", "device")
"""Names of the file itself."""


def write(
    title: str,
    proposals: Sequence[Proposal],
    left: Mapping[str, str],
    summary: Sequence[str],
    decided: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """The source of a file of targets.

    Args:
        title: what it is about, in one line.
        proposals: the targets, in their order.
        left: by name, what has no target, with the reason.
        summary: lines about how many of what has targets.
        decided: by name, what is no function of a set of samples, with the reason.
    """
    # The targets of the first candidate run before the others are known: their names must not depend on these.
    first = [each for each in proposals if each.candidate == proposals[0].candidate]
    proposals = _with_names_of_their_own(proposals, [*_OWN, *_names(_with_names_of_their_own(first, _OWN))])
    parts = [_head(title, {"Without a target": left, DECLARED.capitalize(): decided}, summary), _imports(proposals)]
    parts += map(_target, proposals, _names(proposals))
    return "\n\n\n".join([f"{parts[0]}\n\n{parts[1]}", *parts[2:]]) + "\n"


def _with_names_of_their_own(proposals: Sequence[Proposal], own: Iterable[str]) -> list[Proposal]:
    """The proposals, where no two import different things by one name, and none uses a name of the file itself."""
    lines: dict[str, list[str]] = {name: [""] for name in own}
    for line in (line for each in proposals for line in each.imports):
        for alias in _aliases(line):
            known = lines.setdefault(_bound(alias), [])
            known.extend([line] if line not in known else [])
    taken = set(lines)
    new = {(line, name): _unique(name, taken) for name, found in lines.items() for line in found[1:]}

    def renamed_proposal(proposal: Proposal) -> Proposal:
        names = {name: new[line, name] for line, name in new if line in proposal.imports}
        if not names:
            return proposal
        renamed = Renamed(names)
        sources = {name: getattr(proposal, name) for name in ("construction", "placed", "described")}
        sources = {name: source and renamed.of(ast.parse(source)) for name, source in sources.items()}
        imports = tuple(renamed.of(ast.parse(line)) for line in proposal.imports)
        return replace(proposal, imports=imports, **sources)

    return [renamed_proposal(each) for each in proposals]


def _aliases(line: str) -> list[ast.alias]:
    return [
        alias for node in ast.parse(line).body if isinstance(node, (ast.Import, ast.ImportFrom)) for alias in node.names
    ]


def _bound(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _head(title: str, lists: Mapping[str, Mapping[str, str]], summary: Sequence[str]) -> str:
    lines = [f'"""{_doc(title)}', ""]
    for line in summary:
        lines += textwrap.wrap(_doc(line), _WIDTH)
    for head, named in lists.items():
        lines += ["", f"{head}:"] if named else []
        for name, why in named.items():
            lines += textwrap.wrap(_doc(f"* {name}: {why}"), _WIDTH, subsequent_indent="  ", break_long_words=False)
    return "\n".join([*lines, '"""'])


def _doc(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"""', "'''")


def _imports(proposals: Iterable[Proposal]) -> str:
    """The imports, and then the functions that examples define."""
    ours = ["import pytest_evalcheck as ec", "from pytest_evalcheck import strategies as es"]
    lines = _joined(line for each in proposals for line in each.imports)
    functions = sorted(line for line in lines if line.startswith("def "))
    return "\n\n\n".join(["\n".join([*sorted(lines.difference(functions)), "", *ours]), *functions])


def _joined(lines: Iterable[str]) -> set[str]:
    """The lines, with the names from one module in one line."""
    names: dict[str, set[str]] = {}
    whole = set()
    for line in lines:
        match = re.fullmatch(r"from (\S+) import (\w+)", line)
        if match:
            names.setdefault(match[1], set()).add(match[2])
        else:
            whole.add(line)
    return whole | {_import_line(module, sorted(found)) for module, found in names.items()}


def _import_line(module: str, names: Sequence[str]) -> str:
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= _WIDTH:
        return line
    return "\n".join([f"from {module} import (", *(f"    {name}," for name in names), ")"])


def _target(proposal: Proposal, name: str) -> str:
    comment = textwrap.wrap(
        proposal.origin + ".", _WIDTH - 2, initial_indent="# ", subsequent_indent="# ", break_long_words=False
    )
    # Nobody declared what a batch may cost on an accelerator, and what one does cost is no wrong number.
    decorator = f"@ec.{proposal.kind}(inputs={proposal.inputs}, budget=None)"
    if len(decorator) > _WIDTH or proposal.not_applicable:
        reasons = _not_applicable(proposal.not_applicable)
        decorator = f"@ec.{proposal.kind}(\n    inputs={proposal.inputs},\n    budget=None,\n{reasons})"
    construction = proposal.placed or proposal.construction
    kept = proposal.setup or proposal.described
    made = "made" if kept else construction
    body = [f"made = {construction}", *(f"made.{each}()" for each in proposal.setup)] if kept else []
    returned = proposal.described or made
    body.append(f"return ec.Metric.of({returned}, one_sample=True)" if proposal.one_sample else f"return {returned}")
    return "\n".join([*comment, decorator, f"def {name}(device):", *(f"    {line}" for line in body)])


def _not_applicable(reasons: Mapping[str, str]) -> str:
    lines = [f"        {code!r}: {reason!r},\n" for code, reason in reasons.items()]
    return f"    not_applicable={{\n{''.join(lines)}    }},\n" if lines else ""


def _names(proposals: Iterable[Proposal]) -> list[str]:
    bound = {*_OWN, *(_bound(alias) for each in proposals for line in each.imports for alias in _aliases(line))}
    taken = {*bound}
    return [_name(each, taken, bound) for each in proposals]


def _name(proposal: Proposal, taken: set[str], bound: Container[str]) -> str:
    """A name of a function: that of the class in small letters, with the options; it hides no other name."""
    snake = snake_case(proposal.candidate.name)
    words = re.sub(r"[^a-z0-9]+", "_", proposal.label.lower()).strip("_")
    name = "_".join(filter(None, [snake, words]))[:80].rstrip("_")
    if name in bound or iskeyword(name):
        name = f"{name}_target"
    return _unique(name, taken)


def _unique(name: str, taken: set[str]) -> str:
    """The name, with the first number that makes it another one than those that are taken; it is taken then."""
    unique, number = name, 2
    while unique in taken:
        unique, number = f"{name}_{number}", number + 1
    taken.add(unique)
    return unique
