"""Functions that stand in a script as they stand here, without their annotations."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import random
import tempfile
from datetime import timedelta
from typing import Any

import numpy
import torch


def are_same(actual: Any, expected: Any, rtol: float, atol: float) -> bool:
    """Return whether two results are equal within a tolerance; two errors of one type are."""
    if isinstance(actual, Exception) or isinstance(expected, Exception):
        return type(actual) is type(expected)
    if isinstance(actual, dict) and isinstance(expected, dict):
        return actual.keys() == expected.keys() and all(are_same(actual[k], expected[k], rtol, atol) for k in actual)
    if isinstance(actual, (list, tuple)) and isinstance(expected, (list, tuple)):
        pairs = zip(actual, expected)  # noqa: B905
        return len(actual) == len(expected) and all(are_same(a, e, rtol, atol) for a, e in pairs)
    if isinstance(actual, (list, tuple)) or isinstance(expected, (list, tuple)):
        return False
    plain = isinstance(actual, (str, bytes, type(None))) or isinstance(expected, (str, bytes, type(None)))
    if plain or hasattr(actual, "__dataclass_fields__"):
        return bool(actual == expected)
    a, e = (numpy.asarray(one.detach().double() if hasattr(one, "detach") else one) for one in (actual, expected))
    return a.shape == e.shape and bool(numpy.allclose(a, e, rtol=rtol, atol=atol, equal_nan=True))


def close(actual: Any, expected: Any, rtol: float, atol: float) -> bool:
    """Return whether two numbers or tensors are equal within a tolerance."""
    if isinstance(actual, Exception):
        return False
    a, e = (numpy.asarray(one.detach().double() if hasattr(one, "detach") else one) for one in (actual, expected))
    return a.shape == e.shape and bool(numpy.allclose(a, e, rtol=rtol, atol=atol, equal_nan=True))


def has_error(value: Any, without: str = "") -> bool:
    """Return whether an error is anywhere in a result; one that has not this word in its text, where one is given."""
    if isinstance(value, Exception):
        return not without or without not in str(value)
    return any(has_error(one, without) for one in value.values()) if isinstance(value, dict) else False


def visible(value: Any) -> bool:
    """Return whether a NaN, an infinity or an error is anywhere in a result."""
    if isinstance(value, Exception):
        return True
    if isinstance(value, (dict, list, tuple)):
        return any(map(visible, value.values() if isinstance(value, dict) else value))
    numbers = numpy.asarray(value.detach().double() if hasattr(value, "detach") else value)
    return not numpy.isfinite(numbers).all()


def on_ranks(world: Any, count: int, seconds: float = 30.0) -> list[Any]:
    """Return ``world(rank)`` of each process of a gloo group; an error where one fails, or does not end."""

    def work(rank: int, folder: str, pipe: Any) -> None:
        torch.set_num_threads(1)
        try:
            place, limit = f"file://{folder}/rendezvous", timedelta(seconds=2 * seconds)
            torch.distributed.init_process_group("gloo", init_method=place, rank=rank, world_size=count, timeout=limit)
            result = world(rank)
            torch.distributed.barrier()
        except Exception as error:
            result = RuntimeError(f"rank {rank}: {type(error).__name__}: {error}")
        pipe.send_bytes(pickle.dumps(result))
        os._exit(0)

    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        pipes = [context.Pipe() for _ in range(count)]
        started = [context.Process(target=work, args=(rank, folder, pipes[rank][1])) for rank in range(count)]
        for process in started:
            process.start()
        try:
            ended = [ours.poll(seconds) for ours, _ in pipes]
            texts = [f"rank {rank} did not end within {seconds:g} seconds" for rank in range(count)]
            return [
                pickle.loads(ours.recv_bytes()) if there else TimeoutError(text)
                for (ours, _), there, text in zip(pipes, ended, texts)  # noqa: B905
            ]
        finally:
            for process in started:
                process.kill()
                process.join()


def seed() -> None:
    """The same random numbers for every loop and every evaluation."""
    random.seed(0x5EED)
    numpy.random.seed(0x5EED)
    torch.manual_seed(0x5EED)


def numbers(result: Any) -> Any:
    """The numbers of an evaluation by name, as Python's own."""
    return {name: float(number) for name, number in getattr(result, "numbers", result).items()}


FUNCTIONS = [name for name, value in [*globals().items()] if getattr(value, "__module__", "") == __name__]
"""The names of these functions, in an order in which each is defined before it is used."""
