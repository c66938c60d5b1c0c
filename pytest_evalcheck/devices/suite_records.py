"""Records of a run of a project's tests on simulated devices, as plain data: by test, and in sum."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pytest_evalcheck.devices.errors import CannotSimulate

if TYPE_CHECKING:
    from pytest_evalcheck.devices.ledger import Ledger

SCHEMA = "pytest-evalcheck-simulate/1"
Data = dict[str, Any]


@dataclasses.dataclass
class TestRecord:
    """One test: its outcome, what it cost, and why it failed."""

    __test__ = False  # no class of tests, though its name begins as theirs

    nodeid: str
    outcome: str = "passed"
    """`passed`, `failed`, `skipped`, `xfailed`, `xpassed`, or `not checkable`, which is skipped on request."""
    cause: str = ""
    """Kind of failure of a test: `cannot simulate`, `refused by the device` or `other`."""
    error: str = ""
    """The type and the first line of the error that made it fail."""
    feature: str = ""
    """Feature that cannot be simulated, where that is why the test failed or is not checkable."""
    advice: str = ""
    met: list[str] = dataclasses.field(default_factory=list)
    """Every feature that was refused with `CannotSimulate` during the test, also where the code caught it."""
    transfers: list[Data] = dataclasses.field(default_factory=list)
    """One entry for each line and direction: source, target, call, file, line, count, bytes."""
    syncs: list[Data] = dataclasses.field(default_factory=list)
    """One entry for each line: device, call, file, line, count."""
    races: list[Data] = dataclasses.field(default_factory=list)
    """One entry for each line that uses memory of a copy that is still in flight: text, file, line, count."""

    def total(self, name: str) -> int:
        """Return the number of transfers, syncs or races, or of `bytes`."""
        if name == "bytes":
            return sum(int(entry["bytes"]) for entry in self.transfers)
        return sum(int(entry["count"]) for entry in getattr(self, name))


@dataclasses.dataclass
class SuiteReport:
    """All tests of a run, in the order in which they ended."""

    devices: str
    tests: dict[str, TestRecord] = dataclasses.field(default_factory=dict)
    outside: TestRecord = dataclasses.field(default_factory=lambda: TestRecord("outside of tests"))
    """Events outside of tests, such as at the import of a module of tests."""

    def record(self, nodeid: str) -> TestRecord:
        """The record of a test."""
        return self.tests.setdefault(nodeid, TestRecord(nodeid))

    def everything(self) -> Iterator[TestRecord]:
        """The records of all tests, and that of what happened outside."""
        yield from self.tests.values()
        yield self.outside

    def total(self, name: str) -> int:
        """The sum of `TestRecord.total`."""
        return sum(record.total(name) for record in self.everything())

    def with_cause(self, cause: str) -> list[TestRecord]:
        """The tests that failed, or are not checkable, for one cause."""
        return [record for record in self.tests.values() if record.cause == cause]

    def as_dict(self) -> Data:
        """The whole report, ready for JSON. `schema` changes where a key is removed or changes its meaning."""
        import torch

        return {
            "schema": SCHEMA,
            "devices": self.devices.split(","),
            "torch": torch.__version__,
            "totals": {
                **{name: self.total(name) for name in ("transfers", "bytes", "syncs", "races")},
                "outcomes": dict(Counter(record.outcome for record in self.tests.values())),
                "causes": dict(Counter(record.cause for record in self.tests.values() if record.cause)),
            },
            "tests": [dataclasses.asdict(record) for record in self.tests.values()],
            "outside": {name: getattr(self.outside, name) for name in ("met", "transfers", "syncs", "races")},
        }


def costs(ledger: Ledger) -> Data:
    """A ledger with one entry for each line of code, rather than one for each event."""
    transfers: dict[tuple[Any, ...], list[int]] = {}
    for item in ledger.transfers:
        key = (item.source, item.target, item.call, item.file, item.line)
        transfers.setdefault(key, []).append(item.bytes)
    syncs = Counter((item.device, item.call, item.file, item.line) for item in ledger.syncs)
    races = Counter((item.text, item.use.file, item.use.line) for item in ledger.races)
    return {
        "transfers": [
            {**_named("source target call file line", key), "count": len(sizes), "bytes": sum(sizes)}
            for key, sizes in transfers.items()
        ],
        "syncs": [{**_named("device call file line", key), "count": count} for key, count in syncs.items()],
        "races": [{**_named("text file line", key), "count": count} for key, count in races.items()],
    }


def clear(ledger: Ledger) -> None:
    """Forget what was recorded: a session of many tests would keep all of it."""
    ledger.transfers.clear()
    ledger.syncs.clear()
    ledger.races.clear()


def _named(names: str, values: tuple[Any, ...]) -> Data:
    return dict(zip(names.split(), values, strict=True))


def why_it_failed(error: BaseException, inside: str) -> Data:
    """The `cause`, `error`, `feature` and `advice` of a `TestRecord`. `inside` is the folder of this package."""
    text = str(error).strip().splitlines()
    shown = f"{type(error).__name__}: {text[0] if text else ''}"
    for each in _chain(error):
        if isinstance(each, CannotSimulate):
            return {"cause": "cannot simulate", "error": shown, "feature": each.feature, "advice": each.advice}
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    refused = trace is not None and trace.tb_frame.f_code.co_filename.startswith(inside)
    return {"cause": "refused by the device" if refused else "other", "error": shown}


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error, those of its group, and those from which it follows."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        waiting += [each.__cause__, None if each.__suppress_context__ else each.__context__]
        waiting += list(getattr(each, "exceptions", ()))
