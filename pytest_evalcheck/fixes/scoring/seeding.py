"""Random numbers that depend on the document, and on nothing that happened before it."""

from __future__ import annotations

import hashlib
import importlib
import json
import random
import sys
from collections.abc import Callable
from typing import Any

from pytest_evalcheck.fixes.scoring.needs import needed

State = dict[str, Any]


def document_seed(seed: int, document: Any) -> int:
    """Return the seed of a document, of 64 bits: the same for equal documents, in every process.

    It comes from what the document holds, not from its place, so that a score does not depend on the order or the
    number of documents (EC407). A document that nothing can read, as it holds a lock, say, gets the seed of its type.

    >>> document_seed(0, {"a": 1, "b": 2}) == document_seed(0, {"b": 2, "a": 1})
    True
    """
    try:
        content = json.dumps(document, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        content = _hashed(document)
    digest = hashlib.blake2b(f"{seed}:{content}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def _hashed(document: Any) -> str:
    try:
        return str(needed("joblib").hash(document))
    except Exception:  # joblib pickles, and a document may raise anything then
        return type(document).__qualname__


class Generators:
    """The global generators of Python, NumPy and torch; of the latter two where they are imported."""

    def imported(self) -> tuple[str, ...]:
        """Name the libraries whose generators are in use now."""
        # A module may be half imported, by another thread.
        return tuple(name for name, sign in _SIGNS.items() if hasattr(sys.modules.get(name), sign))

    def take(self) -> State:
        """Return their states."""
        state: State = {"random": random.getstate()}
        for name in self.imported():
            state[name] = _LIBRARIES[name][0]()
        return state

    def give_back(self, state: State) -> None:
        """Set the states that `take` returned; a library that was imported since keeps its own."""
        random.setstate(state["random"])
        for name in state.keys() - {"random"}:
            _LIBRARIES[name][1](state[name])

    def seed(self, number: int) -> None:
        """Seed all of them with a number of 64 bits."""
        random.seed(number)
        for name in self.imported():
            _LIBRARIES[name][2](number)

    def same(self, one: State, other: State) -> bool:
        """Tell whether nobody drew in between; a library that was imported in between may have been drawn from."""
        return one.keys() == other.keys() and all(_equal(one[name], other[name]) for name in one)


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, (list, tuple)):
        if one and isinstance(one[-1], int):  # the 625 numbers of Python's own
            return bool(one == other)
        return len(one) == len(other) and all(map(_equal, one, other))
    if hasattr(one, "tobytes"):
        return bool(one.tobytes() == other.tobytes())
    if hasattr(one, "equal"):
        return bool(one.equal(other))
    return bool(one == other)


def _numpy() -> Any:
    return importlib.import_module("numpy.random")


def _torch() -> Any:
    return importlib.import_module("torch")


def _accelerators() -> list[Any]:
    torch = _torch()
    # Asking a device that nobody uses would start it.
    return [each for each in (torch.cuda, torch.xpu) if each.is_available() and each.is_initialized()]


def _torch_state() -> list[Any]:
    return [_torch().get_rng_state(), *(each.get_rng_state_all() for each in _accelerators())]


def _set_torch_state(state: list[Any]) -> None:
    _torch().set_rng_state(state[0])
    for device, states in zip(_accelerators(), state[1:], strict=False):
        device.set_rng_state_all(states)


def _seed_torch(number: int) -> None:
    # torch.manual_seed formats a stack for every device that is not in use, which takes longer than most documents.
    _torch().default_generator.manual_seed(number >> 1)
    for device in _accelerators():
        device.manual_seed_all(number >> 1)


_SIGNS = {"numpy.random": "get_state", "torch": "default_generator"}
_LIBRARIES: dict[str, tuple[Callable[[], Any], Callable[[Any], None], Callable[[int], None]]] = {
    "numpy.random": (
        lambda: _numpy().get_state(),
        lambda state: _numpy().set_state(state),
        lambda number: _numpy().seed(number >> 32),
    ),
    "torch": (_torch_state, _set_torch_state, _seed_torch),
}
