"""The process between pytest and a cluster: the client of Dask or Ray, which submits items as tasks.

It is not the process of pytest, because Ray ends its client where the cluster is gone, and because threads, signal
handlers and exit functions of both would be in the process that reports.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import queue
import re
import signal
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from pytest_evalcheck.integration.process.cluster_worker import end_run, run_item
from pytest_evalcheck.integration.process.messages import Channel

MOST_DEATHS = 3
"""Deaths of workers after which their item is taken to be the reason. The last try is alone."""
_PATIENCE = 30.0
"""Seconds without any worker after which a run ends: Dask and Ray replace workers that died."""
_CONNECT = 10.0
_START = 120.0
_BEAT = 0.2
INSTALL = {"dask": "pip install 'distributed>=2025.1'", "ray": "pip install 'ray>=2.40'"}
_START_COMMANDS = {
    "dask": "dask scheduler --port 8786 & dask worker tcp://127.0.0.1:8786 --nworkers 2 --nthreads 1",
    "ray": "ray start --head --port 6379",
}
_PROBE = (
    "{{**{{name: next((d.version for d in __import__('importlib.metadata').metadata.distributions(name=name)), None)"
    " for name in {names!r}}}, 'python': __import__('platform').python_version(),"
    " 'package': __import__('importlib.util').util.find_spec('pytest_evalcheck') is not None,"
    " 'folder': __import__('os').path.isdir({folder!r})}}"
)
"""Needs nothing on the worker, not even this package, nor the same Python."""


class ClusterError(Exception):
    """Raised where a cluster cannot be used, or is gone."""


class Lost(Exception):
    """Raised where the worker of a task died."""


class Tasks(Protocol):
    """Items as tasks of a cluster."""

    def slots(self) -> int:
        """Return how many items run at the same time; 0 where there is no worker."""

    def probe(self, expression: str) -> dict[str, Any]:
        """Return the value of an expression on each worker, by the name of the worker."""

    def submit(self, *arguments: Any) -> Any:
        """Start a task, and return the ticket by which `done` names it."""

    def done(self, seconds: float) -> tuple[Any, Callable[[], dict[str, Any]]] | None:
        """Return the next task that has ended, and its result, which raises `Lost` or `ClusterError`."""

    def close(self, key: str) -> None:
        """End what is left, and a cluster that was started for this run."""


class DaskTasks:
    """Tasks of Dask: a cluster of local processes, or the one at an address."""

    def __init__(self, address: str, workers: int) -> None:
        dask, distributed = _imported("dask", "dask"), _imported("distributed", "dask")
        # A worker that died costs one try: how many an item has is decided here.
        dask.config.set(
            {
                "distributed.scheduler.allowed-failures": 0,
                "distributed.admin.large-graph-warning-threshold": "1GB",
                "distributed.worker.profile.enabled": False,  # it samples the stack of a cell 100 times a second
            }
        )
        self._cluster = None
        if not address:
            self._cluster = distributed.LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address=None, memory_limit=None
            )
        try:
            self._client = distributed.Client(self._cluster or address, timeout=_CONNECT, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ClusterError(f"no scheduler of Dask answers at {address}: {error}") from error
        self._ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        until = time.monotonic() + (_CONNECT if address else _START)
        while self.slots() < (1 if address else workers):
            if time.monotonic() > until:
                raise ClusterError(f"the cluster of Dask {f'at {address} ' if address else ''}has no workers")
            time.sleep(0.1)

    def slots(self) -> int:
        return sum(self._client.nthreads().values())

    def probe(self, expression: str) -> dict[str, Any]:
        return dict(self._client.run(eval, expression))

    def submit(self, *arguments: Any) -> Any:
        future = self._client.submit(run_item, *arguments, pure=False)
        future.add_done_callback(self._ended.put)
        return future.key

    def done(self, seconds: float) -> tuple[Any, Callable[[], dict[str, Any]]] | None:
        try:
            future = self._ended.get(timeout=seconds)
        except queue.Empty:
            if self._client.status != "running":
                raise ClusterError("the connection to the scheduler of Dask was lost") from None
            return None
        return future.key, lambda: self._result(future)

    def _result(self, future: Any) -> dict[str, Any]:
        killed = importlib.import_module("distributed.scheduler").KilledWorker
        if future.status in ("cancelled", "lost"):
            raise ClusterError(f"the scheduler of Dask lost a task ({future.status})")
        try:
            return dict(future.result(timeout=_CONNECT))
        except killed as error:
            raise Lost(str(getattr(error, "last_worker", ""))) from error

    def close(self, key: str) -> None:
        with contextlib.suppress(Exception):
            self._client.run(end_run, key)
        with contextlib.suppress(Exception):
            self._client.close(timeout=2)
        if self._cluster is not None:
            self._cluster.close(timeout=5)


class RayTasks:
    """Tasks of Ray: a cluster that is started here, or the one at an address."""

    def __init__(self, address: str, workers: int) -> None:
        # Without a GPU of its own, a task would see none: cells would be collected for other devices than in the run.
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        self._ray = ray = _imported("ray", "ray")
        local: dict[str, Any] = {} if address else {"num_cpus": workers, "include_dashboard": False}
        try:
            ray.init(
                address=address or "local",
                log_to_driver=False,
                logging_level="error",
                configure_logging=False,
                **local,
            )
        except Exception as error:
            raise ClusterError(f"Ray cannot be used{f' at {address}' if address else ''}: {error}") from error
        self._task = ray.remote(num_cpus=1, max_retries=0)(run_item)
        self._running: list[Any] = []

    def slots(self) -> int:
        alive = [node for node in self._ray.nodes() if node["Alive"]]
        return int(sum(node["Resources"].get("CPU", 0) for node in alive))

    def probe(self, expression: str) -> dict[str, Any]:
        strategy = importlib.import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
        asked = {}
        for node in self._ray.nodes():
            if node["Alive"] and node["Resources"].get("CPU"):
                there = self._ray.remote(num_cpus=0, scheduling_strategy=strategy(node["NodeID"], soft=False))
                asked[str(node["NodeManagerAddress"])] = there(lambda text: eval(text)).remote(
                    expression
                )  # sent by value
        if not asked:
            raise ClusterError("the cluster of Ray has no node with a CPU")
        return {name: self._ray.get(reference, timeout=_START) for name, reference in asked.items()}

    def submit(self, *arguments: Any) -> Any:
        self._running.append(self._task.remote(*arguments))
        return self._running[-1]

    def done(self, seconds: float) -> tuple[Any, Callable[[], dict[str, Any]]] | None:
        if not self._running:
            time.sleep(seconds)
            return None
        ended, self._running = self._ray.wait(self._running, num_returns=1, timeout=seconds)
        return (ended[0], lambda: self._result(ended[0])) if ended else None

    def _result(self, reference: Any) -> dict[str, Any]:
        errors = self._ray.exceptions
        try:
            return dict(self._ray.get(reference, timeout=_CONNECT))
        except (
            errors.WorkerCrashedError,
            errors.NodeDiedError,
            errors.OutOfMemoryError,
            errors.ObjectLostError,
        ) as error:
            raise Lost(str(error).strip().splitlines()[0]) from error

    def close(self, key: str) -> None:  # noqa: ARG002 - Ray ends the workers of a client that leaves
        self._ray.shutdown()


TASKS: dict[str, Callable[[str, int], Tasks]] = {"dask": DaskTasks, "ray": RayTasks}


def _imported(name: str, library: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ClusterError(f"--evalcheck-run={library} needs {name} ({error}): {INSTALL[library]}") from error


def require_listener(library: str, address: str) -> None:
    """Raise `ClusterError` where nobody listens at an address; Dask and Ray wait longer, and say less."""
    found = re.fullmatch(r"(?:[a-z+]+://)?\[?([^\[\]/]+?)\]?:(\d+)/?", address)
    if found is None:
        return
    try:
        socket.create_connection((found[1], int(found[2])), timeout=5).close()
    except (OSError, OverflowError) as error:
        raise ClusterError(
            f"no process listens at {address} ({error}); start a cluster there, such as with\n"
            f"    {_START_COMMANDS[library]}\nor omit the address: --evalcheck-run={library} starts a local cluster"
        ) from error


def require_same_versions(library: str, found: Mapping[str, Mapping[str, Any]], expected: Mapping[str, Any]) -> None:
    """Raise `ClusterError` where a worker has other versions, or lacks what the run needs."""
    lines = []
    for worker, there in found.items():
        if not there["package"]:
            lines.append(f"{worker} lacks pytest-evalcheck {expected['pytest-evalcheck']}")
            continue
        other = [
            f"{name} {there.get(name) or 'not at all'} instead of {version or 'none'}"
            for name, version in expected.items()
            if there.get(name) != version
        ]
        if other:
            lines.append(f"{worker} has {', '.join(other)}")
        elif not there["folder"]:
            lines.append(f"{worker} lacks the folder of this run: share the files, or use the same image")
    if lines:
        raise ClusterError(f"workers of {library} differ from the process of pytest:\n    " + "\n    ".join(lines))


class Schedule:
    """Submits items in order, and again where a worker died."""

    def __init__(
        self, tasks: Tasks, run: Mapping[str, Any], items: Sequence[Sequence[Any]], patience: float = _PATIENCE
    ) -> None:
        self.tasks, self.run, self.items, self.patience = tasks, run, items, patience
        self._waiting, self._alone = deque(range(len(items))), deque[int]()
        self._running: dict[Any, int] = {}
        self._deaths: Counter[int] = Counter()
        self._slots = max(1, tasks.slots())
        self._looked = self._seen = time.monotonic()

    def results(self, send: Callable[..., None], stopped: Callable[[], bool]) -> None:
        """Run all items, and send what each of them gave, as they end.

        Raises:
            ClusterError: when the cluster, or all of its workers, are gone, or cannot run these items.
        """
        while (self._waiting or self._alone or self._running) and not stopped():
            self._submit()
            ended = self.tasks.done(_BEAT)
            if ended is None:
                self._look()
                continue
            self._seen = time.monotonic()
            ticket, result = ended
            index = self._running.pop(ticket)
            try:
                answer = result()
            except Lost as lost:
                answer = {"died": f"its worker died {lost}".strip()}
            except ClusterError:
                raise
            except Exception as error:
                raise ClusterError(f"a task ended in an error: {type(error).__name__}: {error}") from error
            if "refused" in answer:
                send("refused", answer["refused"])
                return
            if "messages" in answer:
                send("item", index, answer["messages"])
            else:
                self._again(index, answer["died"], send)

    def _submit(self) -> None:
        # One more for each slot waits at its worker, so that it need not wait for this process.
        room = self._slots + min(self._slots, 4)
        while self._waiting and not self._tries_alone and len(self._running) < room:
            self._start(self._waiting.popleft())
        if self._alone and not self._running:
            self._start(self._alone.popleft())

    @property
    def _tries_alone(self) -> bool:
        return any(self._deaths[index] >= MOST_DEATHS - 1 for index in self._running.values())

    def _start(self, index: int) -> None:
        self._running[self.tasks.submit(self.run, *self.items[index])] = index

    def _again(self, index: int, how: str, send: Callable[..., None]) -> None:
        self._deaths[index] += 1
        if self._deaths[index] >= MOST_DEATHS:
            send("died", index, how)
        elif self._deaths[index] == MOST_DEATHS - 1:
            self._alone.append(index)  # it may have been beside the one at which its workers died
        else:
            self._waiting.appendleft(index)

    def _look(self) -> None:
        now = time.monotonic()
        if now - self._looked < 1:
            return
        self._looked = now
        slots = self.tasks.slots()
        self._slots = slots or self._slots
        self._seen = now if slots else self._seen
        if now - self._seen > self.patience:
            raise ClusterError(f"the cluster has had no worker for {self.patience:g} seconds")


def main(reader: int, writer: int) -> None:
    """Be the client of a cluster for the run at the other end, until that is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = Channel(reader, writer)
    left = threading.Event()
    commands = channel.queue(left.set)
    tasks: Tasks | None = None
    key, problem = "", ""
    try:
        if (asked := commands.get()) is None:
            return
        library, address, workers, versions, folder = asked
        require_listener(library, address)
        tasks = TASKS[library](address, workers)
        expression = _PROBE.format(names=sorted(versions), folder=folder)
        require_same_versions(library, tasks.probe(expression), versions)
        channel.send("ready", tasks.slots())
        if (work := commands.get()) is not None:
            run, items = work
            key = run["key"]
            Schedule(tasks, run, items).results(channel.send, left.is_set)
    except ClusterError as error:
        problem = str(error)
    except Exception as error:  # what the libraries raise where a cluster is gone differs from release to release
        problem = f"the cluster failed: {type(error).__name__}: {error}"
    finally:
        # What a library waits for while it is closed must not keep the run waiting.
        threading.Timer(_CONNECT, lambda: os._exit(1)).start()
        with contextlib.suppress(OSError):
            channel.send("problem", problem) if problem else None
        if tasks is not None:
            tasks.close(key)
        os._exit(0)
