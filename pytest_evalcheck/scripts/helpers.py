"""Functions that stand in a script as they stand here: each imports nothing but what `NEEDS` says."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import random
import tempfile
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import numpy
import torch

NEEDS = {
    "same": {"import numpy"},
    "close": {"import numpy"},
    "visible": {"import numpy"},
    "on_ranks": {
        "import multiprocessing",
        "import os",
        "import pickle",
        "import tempfile",
        "import torch",
        "import torch.distributed",
        "from datetime import timedelta",
    },
    "seed": {"import random", "import numpy", "import torch"},
    "next_random_numbers": {"import random", "import numpy", "import torch"},
    "set_modes": {"import torch"},
    "without_loader_seeds": {"from contextlib import contextmanager", "import torch", "import torch.utils.data"},
}


def same(actual: Any, expected: Any, rtol: float, atol: float) -> bool:
    """Whether two results are equal within a tolerance; two errors of one type are."""
    if isinstance(actual, Exception) or isinstance(expected, Exception):
        return type(actual) is type(expected)
    if isinstance(actual, dict) and isinstance(expected, dict):
        return actual.keys() == expected.keys() and all(same(actual[k], expected[k], rtol, atol) for k in actual)
    if isinstance(actual, (list, tuple)) and isinstance(expected, (list, tuple)):
        pairs = zip(actual, expected)  # noqa: B905
        return len(actual) == len(expected) and all(same(a, e, rtol, atol) for a, e in pairs)
    if isinstance(actual, (list, tuple)) or isinstance(expected, (list, tuple)):
        return False
    if isinstance(actual, (str, bytes, type(None))) or isinstance(expected, (str, bytes, type(None))):
        return bool(actual == expected)
    a, e = (numpy.asarray(one.detach().double() if hasattr(one, "detach") else one) for one in (actual, expected))
    return a.shape == e.shape and bool(numpy.allclose(a, e, rtol=rtol, atol=atol, equal_nan=True))


def close(actual: Any, expected: Any, rtol: float, atol: float) -> bool:
    """Whether two numbers or tensors are equal within a tolerance."""
    if isinstance(actual, Exception):
        return False
    a, e = (numpy.asarray(one.detach().double() if hasattr(one, "detach") else one) for one in (actual, expected))
    return a.shape == e.shape and bool(numpy.allclose(a, e, rtol=rtol, atol=atol, equal_nan=True))


def visible(value: Any) -> bool:
    """Whether a NaN, an infinity or an error is anywhere in a result."""
    if isinstance(value, Exception):
        return True
    if isinstance(value, (dict, list, tuple)):
        return any(map(visible, value.values() if isinstance(value, dict) else value))
    numbers = numpy.asarray(value.detach().double() if hasattr(value, "detach") else value)
    return not numpy.isfinite(numbers).all()


def on_ranks(world: Any, count: int, seconds: float = 60.0) -> list[Any]:
    """What ``world(rank)`` returns in each process of a gloo group; an error where one fails, or does not end."""

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


def new(factory: Any) -> Any:
    """A new loop; the weights that it draws are the same each time."""
    seed()
    return factory()


def numbers(function: Any, *args: Any, **options: Any) -> Any:
    """The numbers of an evaluation by name, or its error."""
    seed()
    try:
        result = function(*args, **options)
    except Exception as error:
        return error
    return result and {name: float(number) for name, number in getattr(result, "numbers", result).items()}


def evaluated(function: Any, *args: Any, **options: Any) -> Any:
    """The numbers and the records of an evaluation, or its error."""
    seed()
    try:
        result = function(*args, **options)
    except Exception as error:
        return error
    return {"numbers": dict(result.numbers), "records": sorted(result.records, key=lambda record: record[0])}


def several(function: Any, *args: Any, **options: Any) -> Any:
    """The numbers of several evaluations of one run, by name, or its error."""
    seed()
    try:
        found = function(*args, **options)
        return {name: dict(getattr(result, "numbers", result)) for name, result in found.items()}
    except Exception as error:
        return error


def of_ranks(function: Any, *args: Any, **options: Any) -> Any:
    """The numbers that each rank reports, or the error."""
    seed()
    try:
        return [result and dict(getattr(result, "numbers", result)) for result in function(*args, **options)]
    except Exception as error:
        return error


def trained(train: Any, data: Any, between: Any) -> Any:
    """What comes of a training in the middle of which ``between`` is called, or its error."""
    seed()
    try:
        return train(data, between)
    except Exception as error:
        return error


def set_modes(model: Any, trains: Any) -> None:
    """Modes and gradients as between two steps of training."""
    for index, module in enumerate(model.modules()):
        module.training = trains(index)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.grad = torch.ones_like(parameter)


def next_random_numbers() -> Any:
    """What the generators would draw next."""
    states = random.getstate(), numpy.random.get_state(), torch.get_rng_state()
    drawn = [random.random(), numpy.random.rand(), torch.rand(()).item()]
    random.setstate(states[0])
    numpy.random.set_state(states[1])
    torch.set_rng_state(states[2])
    return drawn


@contextmanager
def without_loader_seeds() -> Any:
    """Take back the one seed that a DataLoader draws where an iteration over it begins: that is no fault."""
    iterator: Any = torch.utils.data.dataloader._BaseDataLoaderIter
    begin = iterator.__init__

    def begins(*args: Any, **kwargs: Any) -> None:
        before = torch.get_rng_state()
        begin(*args, **kwargs)
        generator = torch.Generator()
        generator.set_state(before)
        torch.empty((), dtype=torch.int64).random_(generator=generator)
        if torch.equal(torch.get_rng_state(), generator.get_state()):
            torch.set_rng_state(before)

    iterator.__init__ = begins
    try:
        yield
    finally:
        iterator.__init__ = begin


def in_training(function: Any, *args: Any, **options: Any) -> Any:
    """An evaluation in the middle of a training, whose random numbers go on."""
    try:
        with without_loader_seeds():
            return function(*args, **options)
    except Exception as error:
        return error


def failing(kind: Any) -> Any:
    """A metric function that raises an error of this type."""

    def metric(*_: Any, **__: Any) -> None:
        raise kind("this metric cannot score what it was given")

    return metric


def passed_on(error: Any, kind: Any) -> bool:
    """Whether an error is that of the metric function, or names it as its cause."""
    while isinstance(error, Exception):
        if type(error).__name__ == kind and "this metric cannot score what it was given" in str(error):
            return True
        error = error.__cause__
    return False


FUNCTIONS = [name for name, value in [*globals().items()] if getattr(value, "__module__", "") == __name__]
"""The names of these functions, in an order in which each is defined before it is used."""
