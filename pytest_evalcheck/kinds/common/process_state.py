"""The state of the process that code under test may change, kept and given back around every example.

An example starts from the same random numbers, dtype, device, grad mode, environment and folder, whatever the
one before it did. What an example left changed is named, so that its cell can say so.
"""

from __future__ import annotations

import os
import random
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SEED = 0x5EED
"""The seed every example starts from; unusual, so that code which seeds by itself is noticed."""


@contextmanager
def borrowed() -> Iterator[list[str]]:
    """Lend the process to code under test; the list names what it left changed once the block has ended."""
    with warnings.catch_warnings(), same_random_numbers(), kept() as left:
        warnings.simplefilter("ignore")
        yield left


@contextmanager
def same_random_numbers() -> Iterator[None]:
    """Start from the same random numbers whenever this block is entered, and give the streams back as they were."""
    import torch

    numpy_random: Any = getattr(sys.modules.get("numpy"), "random", None)
    streams = random_streams()
    random.seed(SEED)
    # torch.manual_seed() would also note, with a traceback, to seed devices that nobody has started.
    torch.default_generator.manual_seed(SEED)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(SEED)
    if numpy_random:
        numpy_random.seed(SEED)
    try:
        yield
    finally:
        random.setstate(streams[0])
        torch.set_rng_state(streams[1])
        if numpy_random:
            numpy_random.set_state(streams[2])


def random_streams() -> tuple[Any, Any, Any]:
    """Where the generators of Python, torch and numpy stand; None for a numpy that nobody has imported."""
    import torch

    numpy_random: Any = getattr(sys.modules.get("numpy"), "random", None)
    return random.getstate(), torch.get_rng_state(), numpy_random and numpy_random.get_state()


@contextmanager
def kept(*, seeds: bool = True) -> Iterator[list[str]]:
    """Keep the settings of the process; the list names what the block left changed. Random numbers go on.

    Without ``seeds`` a generator may also be seeded.
    """
    import torch

    before, seed = _settings(), torch.initial_seed()
    environment, folder, modules = dict(os.environ), os.getcwd(), len(sys.modules)
    left: list[str] = []
    try:
        yield left
    finally:
        now = _settings()
        left += [f"{name}: {before[name]} became {now[name]}" for name in before if now[name] != before[name]]
        # A library sets variables when it is first imported, which a factory may do late: that is no leak. What
        # the target sets itself it sets in the next example again, and there it is told.
        imported = len(sys.modules) > modules
        left += [] if imported else _environment_changes(environment)
        if seeds and torch.initial_seed() != seed:
            left.append(f"the torch seed: set to {torch.initial_seed()}")
        if _folder() != folder:
            left.append(f"the working folder: {folder} became {_folder()}")
            os.chdir(folder)
        _restore(before)
        os.environ.clear()
        os.environ.update(environment)


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


def _environment_changes(before: dict[str, str]) -> list[str]:
    names = sorted(set(before) | set(os.environ))
    changed = [name for name in names if before.get(name) != os.environ.get(name) and name != "PYTEST_CURRENT_TEST"]
    return [
        f"the environment variable {name}: {before.get(name)!r} became {os.environ.get(name)!r}" for name in changed
    ]


def _folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return "a folder that is gone"
