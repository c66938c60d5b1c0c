"""Random numbers that depend on the document, and on nothing that happened before it."""

from __future__ import annotations

import hashlib
import json
import random
import sys
from typing import Any

from pytest_evalcheck.fixes.scoring.errors import needed


def document_seed(seed: int, document: Any) -> int:
    """Return the seed of a document, of 64 bits: the same for equal documents, in every process.

    It is a hash of the content, not of the position, so that a score does not depend on the order or the number of
    documents (EC407). A document that cannot be hashed, because it holds a lock for example, gets the seed of its type.

    >>> document_seed(0, {"a": 1, "b": 2}) == document_seed(0, {"b": 2, "a": 1})
    True
    """
    try:
        content = json.dumps(document, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        joblib = needed("joblib")
        try:
            content = str(joblib.hash(document))
        except Exception:  # joblib pickles, and a document may raise anything then
            content = type(document).__qualname__
    digest = hashlib.blake2b(f"{seed}:{content}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def generators() -> dict[str, tuple[Any, Any, Any]]:
    """Return for every global generator in use the functions that get its state, set it, and seed it with 64 bits."""
    found: dict[str, tuple[Any, Any, Any]] = {"random": (random.getstate, random.setstate, random.seed)}
    numpy: Any = sys.modules.get("numpy.random")
    torch: Any = sys.modules.get("torch")
    if hasattr(numpy, "get_state"):  # else it is not imported, or another thread is importing it right now
        found["numpy"] = numpy.get_state, numpy.set_state, lambda seed: numpy.seed(seed >> 32)
    if hasattr(torch, "default_generator"):
        # torch.manual_seed formats a stack for each unused device, which takes longer than most documents.
        found["torch"] = torch.get_rng_state, torch.set_rng_state, _halved(torch.default_generator.manual_seed)
        for device in (torch.cuda, torch.xpu):
            if device.is_initialized():
                functions = device.get_rng_state_all, device.set_rng_state_all, _halved(device.manual_seed_all)
                found[device.__name__] = functions
    return found


def _halved(function: Any) -> Any:
    return lambda seed: function(seed >> 1)


def states() -> dict[str, Any]:
    """Return the states of all global generators in use."""
    return {name: get() for name, (get, _, _) in generators().items()}


def restore(before: dict[str, Any]) -> None:
    """Set the states that `states` returned; a generator that came into use since then keeps its own."""
    for name, (_, set_state, _) in generators().items():
        if name in before:
            set_state(before[name])


def are_same_states(one: Any, other: Any) -> bool:
    """Compare two results of `states`; a library that was imported in between makes a difference."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(are_same_states(one[name], other[name]) for name in one)
    if isinstance(one, (list, tuple)) and not isinstance(one[-1], int):  # not the 625 numbers of Python's own
        return len(one) == len(other) and all(map(are_same_states, one, other))
    if hasattr(one, "tobytes"):
        return bool(one.tobytes() == other.tobytes())
    return bool(one.equal(other) if hasattr(one, "equal") else one == other)
