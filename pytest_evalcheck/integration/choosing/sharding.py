"""``--evalcheck-shard=K/N``: parts of a run, split by the time that targets took before."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from pytest_evalcheck.errors import UsageError
from pytest_evalcheck.reports import ReportError, json, jsonl
from pytest_evalcheck.reports.results import Cell
from pytest_evalcheck.reports.runs import Shard


def parse(text: str) -> tuple[int, int] | None:
    """Return the number of the shard and how many there are; None for the whole run.

    Raises:
        UsageError: when it cannot be meant.
    """
    if not text:
        return None
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    number, of = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= number <= of:
        raise UsageError(f"shard {text!r}; expected K/N with K from 1 to N, such as 2/4 for the second of four")
    return number, of


def durations(path: Path) -> dict[str, float]:
    """Return the seconds of each cell of a JSON report or of a file of ``--evalcheck-report=jsonl``, by node id.

    Raises:
        UsageError: when it cannot be read.
    """
    try:
        with path.open("rb") as file:
            lines = file.readline().strip() != b"{"
        cells = [line.cell for line in jsonl.load(path)[1].values()] if lines else list(json.load(path).cells)
    except OSError as error:
        raise UsageError(f"the durations {str(path)!r} cannot be read: {error.strerror or error}") from error
    except ReportError as error:
        raise UsageError(f"the durations: {error}") from error
    return {_nodeid(cell): cell.seconds for cell in cells}


def split(nodeids: Iterable[str], of: int, seconds: Mapping[str, float]) -> dict[str, int]:
    """Return the number of the shard of each node id.

    A target is in one shard: what is built for it is built once, and what is said about all its cells is true in the
    report of its shard. The targets that take longest are placed first, each in the shard that has least so far. A cell
    that has no duration takes as long as the others do on average.

    Raises:
        UsageError: when there are fewer targets than shards.
    """
    nodeids = sorted(nodeids)
    known = [seconds[nodeid] for nodeid in nodeids if nodeid in seconds]
    usual = sum(known) / len(known) if known else 1.0
    weights: Counter[str] = Counter()
    for nodeid in nodeids:
        weights[_unit(nodeid)] += seconds.get(nodeid, usual)  # type: ignore[assignment]  # seconds are no whole numbers
    if len(weights) < of:
        raise UsageError(f"{of} shards; expected at most {len(weights)}, which is how many targets are selected")
    loads = [0.0] * of
    shards: dict[str, int] = {}
    for unit in sorted(weights, key=lambda unit: (-weights[unit], unit)):
        place = loads.index(min(loads))
        loads[place] += weights[unit]
        shards[unit] = place + 1
    return {nodeid: shards[_unit(nodeid)] for nodeid in nodeids}


def shard_of(
    items: Sequence[pytest.Item], number: int, of: int, seconds: Mapping[str, float]
) -> tuple[Shard, list[pytest.Item]]:
    """Return the shard of this number, and its items in their order.

    Raises:
        UsageError: when there are fewer targets than shards.
    """
    shards = split((item.nodeid for item in items), of, seconds)
    text = "\n".join(f"{shard} {nodeid}" for nodeid, shard in shards.items())
    selection = hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
    return Shard(number=number, of=of, selection=selection), [i for i in items if shards[i.nodeid] == number]


def _unit(nodeid: str) -> str:
    """Return the target of a cell; of an ordinary test its file, since its fixtures may be shared."""
    file, *names = nodeid.split("[")[0].split("::")
    return f"{file}::{names[0]}" if len(names) == 2 and nodeid.endswith("]") else file


def _nodeid(cell: Cell) -> str:
    return f"{cell.target}::{cell.check}[{cell.device}]"
