"""Cost of running on a simulated device, beside the plain CPU and beside FakeTensorMode, in turn.

    python benchmarks/simulated_cost.py [--rounds 15] [--calls 400] [--smoke]

For single operators on four numbers: microseconds of processor time on top of the operator. Shown are also the two
empty modes that every simulation of this kind needs, which is the floor, and what an operator between CPU tensors pays
inside a simulation. For whole programs: how many times the time of the CPU. The goal is less than 10 us on top of an
operator of one kernel, and less than FakeTensorMode. Least of the rounds, one thread. FakeTensorMode has no values, so
programs that read values are not run there: torchmetrics then corrupts memory, and the process aborts later.
`--smoke` runs everything but the language models once, in seconds, to see that it works: its figures mean nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from pytest_evalcheck.devices import simulate

Run = Callable[[], object]
DEVICE = "cuda"


class EmptyFunction(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **kwargs) if kwargs else func(*args)


class EmptyDispatch(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **kwargs) if kwargs else func(*args)


@contextlib.contextmanager
def empty_modes() -> Iterator[None]:
    with EmptyFunction(), EmptyDispatch():
        yield


def operators(device: str) -> dict[str, Run]:
    x, y = torch.ones(4, device=device), torch.ones(4, device=device)
    weight, index = torch.ones(8, 4, device=device), torch.tensor([0, 1], device=device)
    return {
        "x + y": lambda: x + y,
        "x + 1": lambda: x + 1,
        "x.exp()": lambda: x.exp(),
        "x.add_(y)": lambda: x.add_(y),
        "x.view(2, 2)": lambda: x.view(2, 2),
        "x[index]": lambda: x[index],
        "cat": lambda: torch.cat([x, y]),
        "softmax": lambda: x.softmax(-1),
        "topk (two results)": lambda: x.topk(2),
        "linear (two kernels)": lambda: torch.nn.functional.linear(x, weight),
        "zeros(device=)": lambda: torch.zeros(4, device=device),
        "x.to(device), there": lambda: x.to(device),
        "x.device": lambda: x.device,
    }


def forward(device: str) -> Run:
    model, ids = language_model(device), torch.full((2, 8), 3, device=device)
    return lambda: model(ids, attention_mask=torch.ones_like(ids)).logits


def generate(device: str) -> Run:
    model, ids = language_model(device), torch.full((2, 4), 3, device=device)
    options = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    return lambda: model.generate(ids, attention_mask=torch.ones_like(ids), **options)


def language_model(device: str) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = {"vocab_size": 40, "n_layer": 2, "n_head": 2, "n_embd": 16, "n_positions": 32}
    return placed(GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=1, eos_token_id=1)).eval(), device)


def placed(module: Any, device: str) -> Any:
    """On the device. FakeTensorMode cannot move a module, and need not, as it is asked for the CPU."""
    return module if device == "cpu" else module.to(device)


def metric(device: str) -> Run:
    from torchmetrics.classification import MulticlassAccuracy

    accuracy = placed(MulticlassAccuracy(5, validate_args=False), device)
    scores, labels = torch.rand(64, 5).to(device), torch.zeros(64, dtype=torch.long, device=device)
    return lambda: accuracy.update(scores, labels)


def step(device: str) -> Run:
    model = placed(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)), device)
    optimiser, x = torch.optim.SGD(model.parameters(), lr=0.01), torch.ones(4, 8, device=device)

    def run() -> None:
        optimiser.zero_grad()
        model(x).sum().backward()
        optimiser.step()

    return run


PROGRAMS: dict[str, Callable[[str], Run]] = {
    "GPT-2 forward": forward,
    "GPT-2 generate, 6 tokens": generate,
    "torchmetrics update": metric,
    "training step": step,
}


READS_VALUES = {"GPT-2 generate, 6 tokens", "torchmetrics update"}
LANGUAGE_MODELS = {"GPT-2 forward", "GPT-2 generate, 6 tokens"}
FAKE = "fake"


def least(function: Run, calls: int) -> float:
    """Seconds of processor time for one call, in one round."""
    started = time.process_time()
    for _ in range(calls):
        function()
    return (time.process_time() - started) / calls


def measure(
    kinds: dict[str, tuple[Callable[[], AbstractContextManager[Any]], str]],
    make: Callable[[str, str], dict[str, Run]],
    rounds: int,
    calls: int,
) -> dict[str, dict[str, float]]:
    """The least time of every row under every kind, measured in turn. A row that a kind refuses is missing there.

    `make` is called with the name of the kind and with a device, and returns the rows.
    """
    found: dict[str, dict[str, float]] = {}
    for _ in range(rounds):
        for kind, (context, device) in kinds.items():
            with context():
                for row, function in make(kind, device).items():
                    try:
                        function()
                        taken = least(function, calls)
                    except Exception:
                        continue
                    times = found.setdefault(row, {})
                    times[kind] = min(taken, times.get(kind, taken))
    return found


def programs(kind: str, device: str, left_out: set[str]) -> dict[str, Run]:
    """The programs that a kind can run."""
    left_out = left_out | READS_VALUES if kind == FAKE else left_out
    return {name: safely(make, device) for name, make in PROGRAMS.items() if name not in left_out}


def safely(make: Callable[[str], Run], device: str) -> Run:
    """A program that fails when it is run, rather than when it is made, so that the other rows go on."""
    try:
        return make(device)
    except Exception as error:
        failure = error

        def fail() -> None:
            raise failure

        return fail


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=400)
    parser.add_argument("--smoke", action="store_true", help="run everything but the language models once")
    given = parser.parse_args()
    rounds, calls = (1, 1) if given.smoke else (given.rounds, given.calls)
    kinds: dict[str, tuple[Callable[[], AbstractContextManager[Any]], str]] = {
        "cpu": (contextlib.nullcontext, "cpu"),
        "empty modes": (empty_modes, "cpu"),
        "simulated": (lambda: simulate(DEVICE), DEVICE),
        "simulated mps": (lambda: simulate("mps"), "mps"),
        "cpu inside": (lambda: simulate(DEVICE), "cpu"),
        FAKE: (FakeTensorMode, "cpu"),
    }
    shown = [kind for kind in kinds if kind != "cpu"]
    with torch.no_grad():
        rows = measure(kinds, lambda _, device: operators(device), rounds, calls)
    print(f"microseconds on top of the operator, least of {rounds} rounds of {calls} calls")
    print(f"{'':28}{'cpu':>8}" + "".join(f"{kind:>15}" for kind in shown))
    for row, times in rows.items():
        added = [f"{1e6 * (times[kind] - times['cpu']):15.1f}" if kind in times else f"{'-':>15}" for kind in shown]
        print(f"{row:28}{1e6 * times['cpu']:8.1f}" + "".join(added))
    left_out = LANGUAGE_MODELS if given.smoke else set()
    rounds, calls = (1, 1) if given.smoke else (max(3, rounds // 3), 5)
    whole = measure(kinds, lambda kind, device: programs(kind, device, left_out), rounds, calls)
    print(f"\n{'times the CPU':28}{'cpu, ms':>8}" + "".join(f"{kind:>15}" for kind in shown))
    for row, times in whole.items():
        ratios = [f"{times[kind] / times['cpu']:15.2f}" if kind in times else f"{'-':>15}" for kind in shown]
        print(f"{row:28}{1e3 * times['cpu']:8.2f}" + "".join(ratios))


if __name__ == "__main__":
    main()
