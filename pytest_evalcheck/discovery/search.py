"""Looking through a module for metrics, in processes of its own: code under test may print, hang or end its process."""

from __future__ import annotations

import io
import itertools
import math
import multiprocessing
import os
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import TimeoutError as LimitPassed
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from functools import partial, partialmethod
from importlib import import_module
from multiprocessing.connection import Connection
from types import ModuleType
from typing import Any

from pytest_evalcheck.adapters.lookup import registry_of
from pytest_evalcheck.discovery import learned
from pytest_evalcheck.discovery.blanks import command, with_blanks
from pytest_evalcheck.discovery.candidates import Candidate, Found, find
from pytest_evalcheck.discovery.proposals import FEW_TARGETS, MOST_TARGETS, Proposal, Proposed, propose
from pytest_evalcheck.discovery.requests import Request
from pytest_evalcheck.discovery.target_source import write
from pytest_evalcheck.discovery.tasks import find as find_tasks
from pytest_evalcheck.discovery.tasks import propose as propose_task
from pytest_evalcheck.errors import UsageError
from pytest_evalcheck.fixes.scoring.dependencies import distributions
from pytest_evalcheck.kinds.registry import shipped
from pytest_evalcheck.reports.results import DECLARED, plural

SECONDS_TO_IMPORT = 120.0
SECONDS_PER_CANDIDATE = 300.0
"""A limit against hangs: what is tried must not depend on how busy a machine is."""
SECONDS_IDLE = 30.0
"""Time without work after which a process waits for what does not come."""
_LEAST_WORK = 0.02
"""Share of that time in which a process works that does not wait, however busy the machine is."""
_WAITS = 75
"""Exit code of a process that waits."""
_PER_PROCESS = 100
"""Number of candidates that share one process: each process imports the library, which takes as long as 20 do."""
MANY = 20
"""Number of candidates above which the first targets are given before the others are looked at."""
_SHOWN = 3
"""Number of functions to name that are not tried."""
_SECONDS_BETWEEN = 0.03
"""Time after which a process looks again for modules that it has imported."""
_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}


@dataclass(kw_only=True)
class Discovery:
    """Findings in the modules of some requests."""

    requests: list[Request]
    proposals: list[Proposal] = field(default_factory=list)
    candidates: list[str] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)
    """By name: what has no target, with the reason; also submodules that cannot be imported."""
    decided: dict[str, str] = field(default_factory=dict)
    """By name: what is declared not a function of a set of samples, with the reason."""
    partly: dict[str, str] = field(default_factory=dict)
    """By construction: configurations of a candidate that are not tried, with the reason."""
    homes: dict[tuple[str, str], str] = field(default_factory=dict)
    """By identity of a candidate: the module that was asked for."""
    others: int = 0
    functions: list[Candidate] = field(default_factory=list)
    """Functions that look like metrics, and are not tried since there are classes beside them."""
    notes: list[str] = field(default_factory=list)
    """Sentences about the corpus."""
    whole: bool = False
    """True once every candidate was looked at."""

    @property
    def tried(self) -> int:
        """Number of candidates that have a target."""
        return len({str(each.candidate) for each in self.proposals})

    @property
    def summary(self) -> list[str]:
        """Return the numbers of candidates with and without targets, a line each."""
        names = ", ".join(request.text for request in self.requests)
        kinds = sorted({"task" if registry_of(request.module) else "metric" for request in self.requests})
        lines = [
            f"{names}: {self.tried} of {plural(len(self.candidates), ' or '.join(kinds))} "
            f"in {plural(len(self.proposals), 'configuration')}"
        ]
        if self.decided:
            lines.append(f"{plural(len(self.decided), 'metric')} declared not a function of a set of samples")
        if self.others:
            lines.append(f"{plural(self.others, 'other public name')}: no metric, by methods and by parameters")
        if self.functions:
            shown = ", ".join(f"{each.module}:{each.name}" for each in self.functions[:_SHOWN])
            more = f" and {len(self.functions) - _SHOWN} more" if len(self.functions) > _SHOWN else ""
            lines.append(
                f"{plural(len(self.functions), 'function')} beside these classes, each tried by name: {shown}{more}"
            )
        return [*lines, *self.notes]

    def targets_of(self, module: str = "") -> list[Proposal]:
        """Targets of one module that was asked for, or all."""
        return [each for each in self.proposals if module in ("", self.homes[each.candidate.identity])]

    def source(self, module: str = "") -> str:
        """A file of these targets, or of those of one module that was asked for."""
        requests = [request for request in self.requests if module in ("", request.module)]
        versions = "; ".join(dict.fromkeys(_version(request.module) for request in requests))
        names = ", ".join(request.text for request in requests)
        title = f"Targets for {names} ({versions}), inferred by pytest-evalcheck; read, edit and commit them."
        return write(title, self.targets_of(module), {**self.left, **self.partly}, self.summary, self.decided)


def discover(
    texts: Sequence[str],
    *,
    workers: int = 2,
    progress: Callable[[str], object] = len,
    learned_only: bool = False,
    few: bool = False,
) -> Discovery:
    """Look through the modules that these texts name.

    Args:
        texts: as `Request.parse` takes them.
        workers: how many processes look at candidates at a time, at most.
        progress: called with a line now and then.
        learned_only: whether names without an entry in the corpus are left out.
        few: whether a metric has two configurations at most, as at quick effort.

    Raises:
        UsageError: where a text cannot be read, a module or a name is not there, or nothing has a target.
    """
    *_, found = discover_in_parts(texts, workers=workers, progress=progress, learned_only=learned_only, few=few)
    return found


def discover_in_parts(
    texts: Sequence[str],
    *,
    workers: int,
    progress: Callable[[str], object],
    learned_only: bool = False,
    few: bool,
    importing: bool = False,
) -> Iterator[Discovery]:
    """Look through modules as `discover` does; yield what is found twice where there are more than `MANY` candidates.

    The first time it has the targets of the first candidate that has some, so that they can run while the processes
    go on; what is yielded is one object. A caller that needs no more closes the iterator, which ends the processes.
    With ``importing`` this process imports the modules meanwhile, each after another process has imported it to its
    end: an import may hang, or end its process.
    """
    discovery = Discovery(requests=[Request.parse(text) for text in texts])
    discovery.notes = learned.notes({request.module.partition(".")[0] for request in discovery.requests})
    with ExitStack() as stack:
        imported, names = multiprocessing.get_context("spawn").Pipe(duplex=False)
        pools = [stack.enter_context(_process(names if importing else None))]
        candidates: list[Candidate] = []
        for request in discovery.requests:
            finder = find_tasks if registry_of(request.module) else find
            task = pools[0].schedule(finder, args=(request,), timeout=SECONDS_TO_IMPORT)
            if importing:
                _import_meanwhile(task, imported)
            found = _found(task, request)
            known = {each.identity for each in candidates}
            new = [each for each in found.candidates if each.identity not in known]
            seen = {name.replace(":", ".") for name in learned.names_in(request.module)} if learned_only else set()
            new = [each for each in new if not learned_only or each.origin in seen]
            candidates += new
            discovery.homes.update((each.identity, request.module) for each in new)
            discovery.left.update(found.left)
            discovery.others += found.others
            discovery.functions += found.functions
            for each in found.functions:
                discovery.homes.setdefault(each.identity, request.module)
        known = {each.identity for each in candidates}
        discovery.functions = [each for each in discovery.functions if each.identity not in known]
        discovery.candidates = [*map(str, candidates)]
        progress(f"inferring inputs for {plural(len(candidates), 'metric')}")
        more = min(workers, math.ceil(len(candidates) / _PER_PROCESS)) - 1
        pools += [stack.enter_context(_process()) for _ in range(more)]
        # Functions beside classes mostly compute what the classes accumulate; where no class has a target, they do not.
        for some in (candidates, [] if learned_only else discovery.functions):
            if discovery.proposals:
                break
            if some is discovery.functions:
                discovery.candidates, discovery.functions = [*discovery.candidates, *map(str, some)], []
            tasks = [
                pool.schedule(_look_of(each, few), args=(each,), timeout=SECONDS_PER_CANDIDATE)
                for each, pool in zip(some, itertools.cycle(pools), strict=False)
            ]
            if importing:
                _import_quietly(*(request.module for request in discovery.requests))
            for candidate, task in zip(some, tasks, strict=True):
                proposed = _proposed(task)
                discovery.proposals += proposed.targets
                discovery.partly.update(proposed.left)
                if proposed.decided:
                    discovery.decided[str(candidate)] = proposed.decided
                elif not proposed.targets:
                    discovery.left[str(candidate)] = proposed.why
                if proposed.targets and discovery.tried == 1 and len(some) > MANY:
                    yield discovery
    if not discovery.proposals:
        raise UsageError(_nothing(discovery))
    discovery.whole = True
    yield discovery


def _look_of(candidate: Candidate, few: bool) -> Callable[[Candidate], Proposed]:
    if registry_of(candidate.module):
        return propose_task
    return partial(look, few=few, idle=SECONDS_IDLE)


def look(candidate: Candidate, *, few: bool, idle: float = SECONDS_IDLE) -> Proposed:
    """Return the targets of a candidate; after so many seconds without work this process is ended.

    Code under test is called here, which may print, hang or end the process.
    """
    done = threading.Event()

    def end_if_idle() -> None:
        spent = time.process_time()
        while not done.wait(idle):
            spent, before = time.process_time(), spent
            if spent - before < _LEAST_WORK * idle:
                os._exit(_WAITS)

    threading.Thread(target=end_if_idle, daemon=True).start()
    try:
        return propose(candidate, FEW_TARGETS if few else MOST_TARGETS)
    finally:
        done.set()


def blank_target(text: str) -> str:
    """Return the source of a target of ``package.module:Name`` with blanks to fill in.

    Raises:
        UsageError: where that is no name in a module.
    """
    request = Request.parse(text)
    if not request.name:
        raise UsageError(f"the target {text!r} is a module; expected a name in it ({request.module}:Name)")
    return with_blanks(find(request).candidates[0])


@contextmanager
def _process(names: Connection | None = None) -> Iterator[Any]:
    from pebble import ProcessPool

    context, given = multiprocessing.get_context("spawn"), (list(sys.path), names)
    with ProcessPool(max_workers=1, context=context, initializer=_prepare, initargs=given) as pool:
        try:
            yield pool
        except BaseException:  # what is still to do is not waited for
            pool.stop()
            raise


def _import_meanwhile(task: Any, imported: Connection) -> None:
    """Import what another process has imported, until its task has ended; before that what each check needs."""
    _import_quietly("torch")
    shipped()
    distributions()
    while not task.done():
        if imported.poll(_SECONDS_BETWEEN):
            _import_quietly(imported.recv())


def _import_quietly(*names: str) -> None:
    """Import modules; the targets import them again where they are collected, and report an error then."""
    sink = io.StringIO()
    with warnings.catch_warnings(), redirect_stdout(sink), redirect_stderr(sink):
        warnings.simplefilter("ignore")
        for name in names:
            with suppress(Exception):
                import_module(name)


def _tell_imports(names: Connection) -> None:
    """Send the name of each module whose import has ended, and that of its packages, once."""
    told: set[str] = set()
    while True:
        for name in [each for each in [*sys.modules] if each not in told]:
            if all(map(_is_imported, itertools.accumulate(name.split("."), "{}.{}".format))):
                told.add(name)
                names.send(name)
        time.sleep(_SECONDS_BETWEEN)


def _is_imported(name: str) -> bool:
    module = sys.modules.get(name)
    spec = vars(module).get("__spec__") if isinstance(module, ModuleType) else None
    return spec is not None and not getattr(spec, "_initializing", False)


def _found(task: Any, request: Request) -> Found:
    try:
        found: Found = task.result()
    except UsageError:
        raise
    except LimitPassed:
        raise UsageError(f"importing {request.module} took longer than {SECONDS_TO_IMPORT:g} s") from None
    except Exception as error:
        raise UsageError(f"importing {request.module} ended its process: {type(error).__name__}: {error}") from error
    return found


def _proposed(task: Any) -> Proposed:
    from pebble import ProcessExpired

    try:
        proposed: Proposed = task.result()
    except LimitPassed:
        return Proposed(why=f"looking at it took longer than {SECONDS_PER_CANDIDATE:g} s")
    except ProcessExpired as error:
        waits = error.exitcode == _WAITS
        return Proposed(why=f"it waited for {SECONDS_IDLE:g} s" if waits else "looking at it ended its process")
    except Exception as error:
        text = " ".join(str(error).split())
        return Proposed(why=f"looking at it raised {type(error).__name__}: {text}"[:200])
    return proposed


def _nothing(discovery: Discovery) -> str:
    names = ", ".join(request.text for request in discovery.requests)
    if not discovery.candidates:
        lines = [
            f"{names}: no metric was found among {plural(discovery.others, 'public name')}; "
            "expected classes with update and compute, or functions of predictions and targets; their calls in the "
            f"project's own tests say more: pytest --evalcheck-learn={names.partition('.')[0]}"
        ]
    else:
        lines = [f"{names}: none of {plural(len(discovery.candidates), 'metric')} could be tried"]
    if discovery.left and discovery.candidates:
        name = next((each for each in discovery.candidates if each in discovery.left), "")
        lines += [f"the way on is a target with blanks to fill in: {command(name)}"] if name else []
    declared = {name: f"{DECLARED}: {why}" for name, why in discovery.decided.items()}
    lines += [f"  {name}: {why}" for name, why in [*declared.items(), *discovery.left.items()][:20]]
    return "\n".join(lines)


def _version(module: str) -> str:
    from importlib import metadata

    top = module.partition(".")[0]
    return (
        ", ".join(f"{name} {metadata.version(name)}" for name in sorted(set(distributions().get(top, ())))[:1]) or top
    )


def _prepare(path: list[str], names: Connection | None) -> None:
    """Make a process ready for code that nobody knows: no output, no network, no warnings, the caller's modules."""
    sys.path[:] = path
    os.environ.update(_OFFLINE)
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    sys.stdout = sys.stderr = io.TextIOWrapper(os.fdopen(os.dup(sink), "wb"))
    warnings.simplefilter("ignore")
    socket.getaddrinfo = _no_network
    socket.socket.connect = partialmethod(_unless_local, socket.socket.connect)  # type: ignore[method-assign, assignment]
    socket.socket.bind = partialmethod(_unless_local, socket.socket.bind)  # type: ignore[method-assign, assignment]
    if names:
        threading.Thread(target=_tell_imports, args=(names,), daemon=True).start()


def _no_network(*_: Any, **__: Any) -> Any:
    raise OSError("there is no network while inputs are inferred")


def _unless_local(self: socket.socket, act: Callable[..., Any], address: Any) -> Any:
    """Connect or bind a socket between processes; another one would wait for others, or be reached by them."""
    return act(self, address) if self.family == getattr(socket, "AF_UNIX", None) else _no_network()
