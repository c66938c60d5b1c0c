"""The state of the process that code under test may change, saved before every example and restored after it.

An example starts from the same random numbers, dtype, device, grad mode, environment and folder, whatever the
one before it did. What an example left changed is named, so that its cell can say so.
"""

from __future__ import annotations

import contextvars
import functools
import os
import random
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from pytest_evalcheck.expectations.call_log import note_seed

SEED = 0x5EED
"""The seed every example starts from; unusual, so that code which seeds by itself is noticed."""


@contextmanager
def isolated_process(*, variables: bool = True, draw: int = 0) -> Iterator[list[str]]:
    """Run code under test in this block; the list names what it left changed, and everything is restored.

    Without ``variables`` those of the environment are restored, and not named. Each ``draw`` has other random numbers.
    """
    with warnings.catch_warnings(), same_random_numbers(draw), restored_settings(variables=variables) as left:
        warnings.simplefilter("ignore")
        yield left


@contextmanager
def nothing_written(package: str) -> Iterator[None]:
    """Refuse, in this block, what code of a package asks for: to write or remove a file, a process, a connection.

    It is code that nobody has asked for by name, with arguments that were made up. What an import does is not refused.
    """
    _add_hook()
    _guarded.append(package)
    try:
        yield
    finally:
        _guarded.pop()


@functools.cache
def _add_hook() -> None:
    """Add the hook once: it stays for the life of the process."""
    sys.addaudithook(_refuse_writing)


_guarded: list[str] = []
"""Packages whose code may not write; the last one is meant. Threads that begin in a block see it, too."""
_WRITING = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.truncate", "os.system", "subprocess.Popen", "os.kill")


def _refuse_writing(event: str, arguments: tuple[Any, ...]) -> None:
    if not _guarded:
        return
    writes = event == "open" and isinstance(arguments[1], str) and not {*"wax+"}.isdisjoint(arguments[1])
    if not (writes or event in _WRITING or event == "socket.connect"):
        return
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith("importlib."):
            return
        if module.partition(".")[0] == _guarded[-1]:
            raise PermissionError(f"it calls {event} with arguments that were made up, which is refused")
        frame = frame.f_back


@contextmanager
def same_random_numbers(draw: int = 0) -> Iterator[None]:
    """Start this block from the same random numbers for the same ``draw``, and restore the generators after it."""
    numpy_random: Any = getattr(sys.modules.get("numpy"), "random", None)
    states, seed = random_states(), SEED + draw + _another.get()
    random.seed(seed)
    generators = torch_generators()
    for generator in generators:
        generator.manual_seed(seed)
    if numpy_random:
        numpy_random.seed(seed)
    note_seed()
    try:
        yield
    finally:
        random.setstate(states[0])
        for generator, state in zip(generators, states[1], strict=True):
            generator.set_state(state)
        if numpy_random:
            numpy_random.set_state(states[2])


_another: contextvars.ContextVar[int] = contextvars.ContextVar("another", default=0)


@contextmanager
def other_random_numbers(draw: int) -> Iterator[None]:
    """Start every `same_random_numbers` in this block from those of another draw, also where a target is built."""
    token = _another.set(draw)
    try:
        yield
    finally:
        _another.reset(token)


@contextmanager
def other_clock() -> Iterator[None]:
    """Let the clocks of `time` show another time in this block, and run faster: a value that has a time is another one.

    A clock that code has imported by its name stays as it is, and so does that of `datetime`.
    """
    clocks = {name: getattr(time, name) for each in _CLOCKS for name in (each, f"{each}_ns")}
    for name, clock in clocks.items():
        shift = SECONDS_LATER * (10**9 if name.endswith("_ns") else 1)
        setattr(time, name, functools.partial(_later, clock, clock(), shift))
    try:
        yield
    finally:
        for name, clock in clocks.items():
            setattr(time, name, clock)


_CLOCKS = ("time", "monotonic", "perf_counter")
SECONDS_LATER = 10_000_000
"""Time by which the other clock is later."""
_FASTER = 1000


def _later(clock: Callable[[], float], begun: float, shift: float) -> float:
    return begun + shift + _FASTER * (clock() - begun)


@contextmanager
def loader_seeds_not_counted() -> Iterator[None]:
    """In this block, take back the one seed that torch's `DataLoader` draws wherever an iteration over it begins.

    What is drawn besides, as by a sampler that shuffles, stays drawn.
    """
    import torch
    from torch.utils.data import dataloader

    # What loaders of other libraries return is derived from it as well; their `__iter__` need not call torch's.
    iterator: Any = dataloader._BaseDataLoaderIter
    begin = iterator.__init__

    @functools.wraps(begin)
    def without_seed(*args: Any, **kwargs: Any) -> None:
        before = torch.get_rng_state()
        begin(*args, **kwargs)
        if torch.equal(torch.get_rng_state(), _after_a_seed(before)):
            torch.set_rng_state(before)

    iterator.__init__ = without_seed
    try:
        yield
    finally:
        iterator.__init__ = begin


def _after_a_seed(state: Any) -> Any:
    """The state of torch's generator after one seed was drawn, as a `DataLoader` draws it."""
    import torch

    generator = torch.Generator()
    generator.set_state(state)
    torch.empty((), dtype=torch.int64, device="cpu").random_(generator=generator)
    return generator.get_state()


def torch_generators() -> list[Any]:
    """The default generators of torch: that of the CPU, and of each device that has been started."""
    import torch  # whose manual_seed() would also note, with a traceback, to seed devices that nobody has started

    found: list[Any] = [torch.default_generator]
    found += torch.cuda.default_generators if torch.cuda.is_initialized() else ()
    found += [torch.mps._get_default_mps_generator()] if torch.backends.mps.is_available() else []
    return found


def random_states() -> tuple[Any, Any, Any]:
    """The states of the generators of Python, torch and numpy; None for a numpy that is not imported."""
    numpy_random: Any = getattr(sys.modules.get("numpy"), "random", None)
    states = [generator.get_state() for generator in torch_generators()]
    return random.getstate(), states, numpy_random and numpy_random.get_state()


def drawn_since(states: tuple[Any, Any, Any]) -> list[str]:
    """Return whose random numbers were drawn since the generators had these states: Python's, torch's or numpy's."""
    pairs = zip(("Python", "torch", "numpy"), states, random_states(), strict=True)
    return [name for name, before, now in pairs if not _equal_states(before, now)]


def _equal_states(before: Any, after: Any) -> bool:
    if before is None or after is None:  # numpy may have been imported in between
        return True
    if isinstance(before, list):  # of torch: a device that was started in between has drawn nothing before
        return all(old.equal(now) for old, now in zip(before, after, strict=False))
    return bool(_without_arrays(before) == _without_arrays(after))


def _without_arrays(state: Any) -> Any:
    """The state of numpy's generator so that it can be compared; that of Python's as it is."""
    if any(hasattr(part, "tobytes") for part in state):
        return tuple(part.tobytes() if hasattr(part, "tobytes") else part for part in state)
    return state


@contextmanager
def restored_settings(*, seeds: bool = True, variables: bool = True) -> Iterator[list[str]]:
    """Restore the settings of the process after this block; the list names what it left changed. Random numbers go on.

    Without ``seeds`` a generator may also be seeded, without ``variables`` the environment may also be changed.
    """
    import torch

    before, seed = _settings(), torch.initial_seed()
    environment, folder, modules = _environment(), os.getcwd(), len(sys.modules)
    left: list[str] = []
    try:
        yield left
    finally:
        now = _settings()
        left += [f"{name}: {before[name]} became {now[name]}" for name in before if now[name] != before[name]]
        # A library sets variables when it is first imported, which a factory may do late: that is no leak. What
        # the target sets itself it sets in the next example again, and there it is reported.
        imported = len(sys.modules) > modules
        changed = _environment() != environment
        left += _environment_changes(environment) if changed and variables and not imported else []
        if seeds and torch.initial_seed() != seed:
            left.append(f"the torch seed: set to {torch.initial_seed()}")
        if _folder() != folder:
            left.append(f"the working folder: {folder} became {_folder()}")
            os.chdir(folder)
        _restore(before)
        if changed:
            os.environ.clear()
            os.environ.update(_decoded(environment))


def _settings() -> dict[str, Any]:
    import torch

    return {
        "the default dtype": torch.get_default_dtype(),
        # torch.get_default_device() fails before torch 2.8 once an override was removed.
        "the default device": torch.empty(0).device,
        "the grad mode": torch.is_grad_enabled(),
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "the number of threads": torch.get_num_threads(),
    }


def _restore(kept: dict[str, Any]) -> None:
    import torch

    torch.set_default_dtype(kept["the default dtype"])
    if torch.get_default_device() != kept["the default device"]:
        # None removes the override; naming the CPU would leave a function mode active for every later call.
        torch.set_default_device(
            None if kept["the default device"] == torch.device("cpu") else kept["the default device"]
        )
    torch.set_grad_enabled(kept["the grad mode"])
    if torch.are_deterministic_algorithms_enabled() != kept["deterministic algorithms"]:
        torch.use_deterministic_algorithms(kept["deterministic algorithms"])
    if torch.get_num_threads() != kept["the number of threads"]:
        torch.set_num_threads(kept["the number of threads"])


def _environment() -> dict[Any, Any]:
    """The environment as it is stored, where that can be read: decoding it took longer than all else here."""
    return dict(getattr(os.environ, "_data", os.environ))


def _decoded(environment: dict[Any, Any]) -> dict[str, str]:
    return {os.fsdecode(name): os.fsdecode(value) for name, value in environment.items()}


def _environment_changes(earlier: dict[Any, Any]) -> list[str]:
    before, now = _decoded(earlier), dict(os.environ)
    names = sorted(set(before) | set(now))
    changed = [name for name in names if before.get(name) != now.get(name) and name != "PYTEST_CURRENT_TEST"]
    return [f"the environment variable {name}: {before.get(name)!r} became {now.get(name)!r}" for name in changed]


def _folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return "a folder that is gone"
