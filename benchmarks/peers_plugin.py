"""A pytest plugin that runs other projects' tests on a simulated device, and writes what became of each.

`peers.py` starts pytest with it. What to do is in the environment variable PEERS, as JSON: `device` ("cuda:1", empty
for the machine as it is), `records` (a file of JSON lines, to which every test adds a line), `limit` (seconds of
processor time a test may take), `stride` (of how many tests one is run; which one depends on its name alone), `only`
(a file of test ids, or empty).
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import unittest
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from pytest_evalcheck.devices import CannotSimulate, simulate

OURS = str(Path(__file__).parents[1] / "pytest_evalcheck")
HERE = str(Path(__file__).parent)
asked: dict[str, Any] = json.loads(os.environ["PEERS"])
inside = ExitStack()
refusals: list[str] = []


class TooLong(BaseException):
    """A test took longer than it may. Not an Exception, as tests catch those."""


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Enter the simulation before any of the tests is imported: they ask for devices when they are."""
    if asked["device"]:
        inside.enter_context(simulate(asked["device"], even_if_real=True))
        count_refusals()
    if asked["suite"] in ("pytorch", "generated"):
        import peers_pytorch

        peers_pytorch.prepare()


def count_refusals() -> None:
    """Remember every `CannotSimulate`, also one that a test catches."""
    plain = CannotSimulate.__init__

    def init(self: CannotSimulate, feature: str, advice: str) -> None:
        refusals.append(feature)
        plain(self, feature, advice)

    CannotSimulate.__init__ = init  # type: ignore[method-assign]


def pytest_unconfigure() -> None:
    inside.close()


def name_of(item: pytest.Item) -> str:
    """A test's name: its file below the tests' root, its class and its function."""
    return item.nodeid


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what was run before, and all but a few of many."""
    number = Counter(line["test"] for line in lines(asked["records"]))
    done = {test for test, times in number.items() if times > 1}  # begun and ended, or begun twice: it ends the process
    only = set(Path(asked["only"]).read_text().split("\n")) if asked["only"] else None
    kept, left = [], []
    for item in items:
        name = name_of(item)
        wanted = zlib.crc32(name.encode()) % asked["stride"] == 0 if only is None else name in only
        (kept if wanted and name not in done else left).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left)


def lines(file: str) -> list[dict[str, Any]]:
    """The records of a file, which may not be there."""
    path = Path(file)
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def write(**record: Any) -> None:
    with open(asked["records"], "a") as file:
        file.write(json.dumps({"suite": asked["suite"], **record}) + "\n")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Run a test within the limit, and write its record. One that is begun and never ended took the process down."""
    write(test=name_of(item), outcome="begun")
    refusals.clear()
    item.stash[PHASES] = []

    def stop(*_: int | FrameType | None) -> None:
        raise TooLong

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, asked["limit"])  # of processor time, as the machine may be busy
    started = time.process_time()
    try:
        return (yield)
    except TooLong:
        item.stash[PHASES].append(("failed", {"type": "TooLong", "text": ""}))
        return True  # type: ignore[return-value]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        phases = item.stash[PHASES]
        chosen = next((phase for phase in phases if phase[0] == "failed"), None)
        chosen = chosen or next((phase for phase in phases if phase[0] == "skipped"), None)
        outcome, details = chosen or ("passed", {})
        seconds = round(time.process_time() - started, 2)
        write(test=name_of(item), outcome=outcome, seconds=seconds, refused=sorted(set(refusals)), **details)
        reset()


PHASES = pytest.StashKey[list[tuple[str, dict[str, Any]]]]()


def reset() -> None:
    """Undo what a test that failed in the middle leaves behind for the others."""
    import torch

    torch.set_default_device(None)
    torch.set_default_dtype(torch.float32)
    torch.use_deterministic_algorithms(False)
    torch.set_grad_enabled(True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[Any]:
    report = yield
    details: dict[str, Any] = {}
    if report.outcome == "skipped":
        details = {"text": str(report.longrepr)[-200:]}
    elif report.outcome == "failed" and call.excinfo is None:  # an expected failure that did not fail
        details = {"type": "UnexpectedSuccess", "text": str(report.longrepr)[:200]}
    elif report.outcome == "failed" and call.excinfo is not None:
        details = described(call.excinfo.value)
    item.stash[PHASES].append((report.outcome, details))
    return report


def described(error: BaseException) -> dict[str, Any]:
    """Return what is worth keeping of an error: its type, its text, what it came from, and the lines that led to it."""
    chain: list[BaseException] = []
    todo: list[BaseException | None] = [error]
    while todo:
        one = todo.pop()
        if one is not None and one not in chain:
            chain.append(one)
            todo += [one.__context__, one.__cause__]
    limits = [one.feature for one in chain if isinstance(one, CannotSimulate)]
    frames = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if not code.co_filename.startswith((HERE, sys.prefix + "/lib/python3.11/site-packages/_pytest")):
            frames.append(f"{'/'.join(code.co_filename.split('/')[-2:])}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    return {
        "type": type(error).__name__,
        "text": str(error)[:600],
        "caused": [f"{type(one).__name__}: {str(one)[:200]}" for one in chain[1:4]],
        "limits": limits,
        "frames": frames[-10:],
        "is_skip": isinstance(error, unittest.SkipTest),
    }
