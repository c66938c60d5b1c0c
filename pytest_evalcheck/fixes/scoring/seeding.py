"""Random numbers that depend on the document, and on nothing that happened before it."""

from __future__ import annotations

import hashlib
import json
import random
import sys
from typing import Any

from pytest_evalcheck.fixes.scoring.errors import needed

States = dict[str, Any]


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
        hashed = needed("joblib").hash
        try:
            content = str(hashed(document))
        except Exception:  # joblib pickles, and a document may raise anything then
            content = type(document).__qualname__
    digest = hashlib.blake2b(f"{seed}:{content}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def imported() -> list[str]:
    """Name the libraries with global generators that are imported; another thread may still be importing one."""
    ready = {"numpy.random": "get_state", "torch": "default_generator"}
    return [name for name, attribute in ready.items() if hasattr(sys.modules.get(name), attribute)]


def states() -> States:
    """Return the states of the global generators of Python and of the imported libraries."""
    found: States = {"random": random.getstate()}
    for name in imported():
        module = sys.modules[name]
        if name == "torch":
            found[name] = [module.get_rng_state(), *(each.get_rng_state_all() for each in _accelerators(module))]
        else:
            found[name] = module.get_state()
    return found


def restore(before: States) -> None:
    """Set the states that `states` returned; a library that was imported since then keeps its own."""
    random.setstate(before["random"])
    for name in before.keys() - {"random"}:
        module = sys.modules[name]
        if name == "torch":
            module.set_rng_state(before[name][0])
            for device, state in zip(_accelerators(module), before[name][1:], strict=False):
                device.set_rng_state_all(state)
        else:
            module.set_state(before[name])


def seed_all(number: int) -> None:
    """Seed the global generators with a number of 64 bits."""
    random.seed(number)
    for name in imported():
        module = sys.modules[name]
        if name == "torch":
            # torch.manual_seed formats a stack for each unused device, which takes longer than most documents.
            for generator in (module.default_generator, *_accelerators(module)):
                getattr(generator, "manual_seed_all", generator.manual_seed)(number >> 1)
        else:
            module.seed(number >> 32)


def same(one: Any, other: Any) -> bool:
    """Compare two results of `states`; a library that was imported in between makes a difference."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, tuple) and hasattr(one[1], "tobytes"):  # numpy's
        return bool(one[1].tobytes() == other[1].tobytes() and one[2:] == other[2:])
    return bool(one.equal(other) if hasattr(one, "equal") else one == other)


def _accelerators(torch: Any) -> list[Any]:
    # A query would start a device that is not in use.
    return [each for each in (torch.cuda, torch.xpu) if each.is_available() and each.is_initialized()]
