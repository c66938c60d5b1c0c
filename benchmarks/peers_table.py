"""The table of `peers.py`: how many results of each suite say what, and the failures by their cause."""

from __future__ import annotations

from collections import Counter, defaultdict

import torch
from peers_causes import ACCEPTANCE, COUNTED, DEVICE, LIMIT, NOT_COUNTED, REFUSAL, Judged

_FIRST = """# Other projects' device tests, simulated

Written by `benchmarks/peers.py --table` with torch {version}. "counted" is what was run, without tests that say nothing
about the simulation: those skipped by themselves, without what they need, or failing without a simulation too.
"""


def written(found: list[Judged]) -> str:
    """All of it, as Markdown."""
    suites: dict[str, list[Judged]] = defaultdict(list)
    for one in found:
        suites[one.suite].append(one)
    rows = [_row(name, of) for name, of in sorted(suites.items())]
    rows += [_row("all", found)] if len(suites) > 1 else []
    head = ["suite", "counted", *COUNTED, "as the device or a limit", *NOT_COUNTED]
    parts = [_FIRST.format(version=torch.__version__.partition("+")[0]), _table(head, rows)]
    for verdict in (REFUSAL, ACCEPTANCE, LIMIT, *NOT_COUNTED[1:]):
        causes = _causes([one for one in found if one.verdict == verdict])
        if causes:
            parts += [f"\n## {verdict[0].upper()}{verdict[1:]}\n", _table(["tests", "cause", "for example"], causes)]
    return "\n".join(parts) + "\n"


def _row(name: str, found: list[Judged]) -> list[str]:
    number = Counter(one.verdict for one in found)
    counted = sum(number[verdict] for verdict in COUNTED)
    share = (number[DEVICE] + number[LIMIT]) / counted if counted else 0.0
    return [
        name,
        f"{counted:,}",
        *(f"{number[verdict]:,}" for verdict in COUNTED),
        f"{share:.2%}",
        *(f"{number[verdict]:,}" for verdict in NOT_COUNTED),
    ]


def _causes(found: list[Judged]) -> list[list[str]]:
    groups: dict[str, list[Judged]] = defaultdict(list)
    for one in found:
        groups[one.why or f"not looked into: {one.error}"].append(one)
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    return [
        [str(len(of)), why.replace("|", "\\|"), f"`{min(one.test.rpartition('::')[2] for one in of)}`"]
        for why, of in ordered
    ]


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
