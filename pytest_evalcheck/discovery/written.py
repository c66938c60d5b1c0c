"""Targets as a file: what was inferred is a comment, and every line can be edited."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Container, Iterable, Mapping, Sequence

from pytest_evalcheck.discovery.proposals import Proposal
from pytest_evalcheck.discovery.words import snake_case

_WIDTH = 120


def write(title: str, proposals: Sequence[Proposal], left: Mapping[str, str], summary: Sequence[str]) -> str:
    """The source of a file of targets.

    Args:
        title: what it is about, in one line.
        proposals: the targets, in their order.
        left: by name, what has no target, with the reason.
        summary: lines about how many of what has targets.
    """
    taken: set[str] = set()
    imported = {alias.asname or alias.name for each in proposals for alias in _imported(each)}
    parts = [_head(title, left, summary), _imports(proposals)]
    parts += [_target(each, _name(each, taken, imported)) for each in proposals]
    return "\n\n\n".join([f"{parts[0]}\n\n{parts[1]}", *parts[2:]]) + "\n"


def _head(title: str, left: Mapping[str, str], summary: Sequence[str]) -> str:
    lines = [f'"""{_doc(title)}', ""]
    for line in summary:
        lines += textwrap.wrap(_doc(line), _WIDTH)
    if left:
        lines += ["", "Without a target:"]
        for name, why in left.items():
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


def _imported(proposal: Proposal) -> Iterable[ast.alias]:
    found = (node for line in proposal.imports for node in ast.parse(line).body)
    return [alias for node in found if isinstance(node, (ast.Import, ast.ImportFrom)) for alias in node.names]


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
    decorator = f"@ec.metric(inputs={proposal.inputs}, budget=None)"
    if len(decorator) > _WIDTH or proposal.not_applicable:
        reasons = _not_applicable(proposal.not_applicable)
        decorator = f"@ec.metric(\n    inputs={proposal.inputs},\n    budget=None,\n{reasons})"
    construction = proposal.placed or proposal.construction
    body = [f"return {construction}"]
    if proposal.setup:
        body = [f"made = {construction}", *(f"made.{each}()" for each in proposal.setup), "return made"]
    return "\n".join([*comment, decorator, f"def {name}(device):", *(f"    {line}" for line in body)])


def _not_applicable(reasons: Mapping[str, str]) -> str:
    lines = [f"        {code!r}: {reason!r},\n" for code, reason in reasons.items()]
    return f"    not_applicable={{\n{''.join(lines)}    }},\n" if lines else ""


def _name(proposal: Proposal, taken: set[str], imported: Container[str]) -> str:
    """A name of a function: that of the class in small letters, with the options; it hides nothing that is imported."""
    snake = snake_case(proposal.candidate.name)
    words = re.sub(r"[^a-z0-9]+", "_", proposal.label.lower()).strip("_")
    name = "_".join(filter(None, [snake, words]))[:80].rstrip("_")
    if name in imported:
        name = f"{name}_target"
    unique, number = name, 2
    while unique in taken:
        unique, number = f"{name}_{number}", number + 1
    taken.add(unique)
    return unique
