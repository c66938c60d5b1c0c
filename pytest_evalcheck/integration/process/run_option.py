"""``--evalcheck-run``: where cells run."""

from __future__ import annotations

import os
from dataclasses import dataclass

import pytest

from pytest_evalcheck.errors import UsageError, nearest

CLUSTERS = ("dask", "ray")
_WAYS = ("supervised", "isolated", "in-process", *CLUSTERS)
_MOST_WORKERS = 1024


@dataclass(frozen=True, kw_only=True)
class RunOption:
    """A way to run cells, and of a cluster its address or its number of local workers."""

    way: str = "supervised"
    address: str = ""
    workers: int = 0

    @classmethod
    def parse(cls, text: str) -> RunOption:
        """Return the way that a text names.

        Raises:
            UsageError: when it names none.
        """
        way, _, rest = text.partition(":")
        if way not in _WAYS:
            expected = "expected supervised, isolated, in-process, dask[:ADDRESS] or ray[:ADDRESS]"
            raise UsageError(f"--evalcheck-run={text}; {expected}{nearest(way, _WAYS)}")
        if way not in CLUSTERS:
            if rest:
                raise UsageError(f"--evalcheck-run={text}: only dask and ray have an address; expected {way}")
            return cls(way=way)
        name, equals, workers = rest.partition("=")
        if not (equals and name.isalpha()):
            return cls(way=way, address=rest, workers=0 if rest else _processors())
        if name != "workers" or not workers.isdecimal() or not 0 < int(workers) <= _MOST_WORKERS:
            expected = f"expected a number of local workers from 1 to {_MOST_WORKERS}, such as {way}:workers=4"
            raise UsageError(f"--evalcheck-run={text}; {expected}")
        return cls(way=way, workers=int(workers))

    @classmethod
    def read(cls, config: pytest.Config) -> RunOption:
        """Return the way that the command line names.

        Raises:
            UsageError: when it names none, or does not go with another option.
        """
        text, option = config.getoption("evalcheck_run"), config.option
        found = cls.parse(text or "supervised")
        if found.way not in CLUSTERS or hasattr(config, "workerinput"):
            return found
        given = f"--evalcheck-run={text}"
        if getattr(option, "numprocesses", None) or getattr(option, "tx", None):
            raise UsageError(f"{given} and -n: a run is distributed by a cluster or by pytest-xdist; use one of them")
        if getattr(option, "usepdb", False) or getattr(option, "trace", False):
            raise UsageError(f"{given} and --pdb or --trace: a debugger needs items in this process")
        if config.pluginmanager.hasplugin("_cov"):
            raise UsageError(f"{given} and --cov: pytest-cov measures this process, which runs no item")
        if not hasattr(os, "fork"):
            raise UsageError(f"{given} needs Linux or macOS")
        return found


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
