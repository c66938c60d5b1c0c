"""An evaluation of a model that restores its state, and that of the process, afterwards."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from pytest_evalcheck.errors import nearest

Model = TypeVar("Model", bound=nn.Module)

MODES = ("eval", "train", "keep")


@contextmanager
def evaluating(
    model: Model,
    *,
    mode: str = "eval",
    grad: bool = False,
    buffers: bool = True,
    seed: int | None = None,
    generators: Iterable[torch.Generator | None] = (),
) -> Iterator[Model]:
    """Evaluate a model without gradients and in eval mode, and restore its state afterwards (EC106, EC505).

    ``mode`` is "eval", "train" or "keep"; ``grad=True`` leaves autograd on. Restored, also after an exception or a
    KeyboardInterrupt:

    * the ``training`` flag of every submodule, so that a frozen child stays frozen, which ``model.train()``
      would not do;
    * ``requires_grad`` and ``grad`` of every parameter: gradients are set aside, not copied, and are None within;
    * every buffer: the same tensor object with the values it had, such as BatchNorm statistics. This costs one copy
      of the buffers (not of the parameters), unless ``buffers=False``;
    * the random generators of torch (the CPU's and those of accelerators that are in use), of Python, and of
      NumPy where it is imported; the ``generators`` named, which are those that data loaders and samplers were
      given (None among them is skipped); the grad mode, the default dtype and the default device.

    With a ``seed`` all of these generators start from it, so that evaluating twice gives the same (EC504).

    Not restored: values and dtype of parameters. A submodule, parameter or buffer that is added within stays
    unchanged; one that is removed within gets its own state back, but is not added again.

    >>> model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5).eval())
    >>> with evaluating(model):
    ...     scores = model(torch.ones(1, 2))
    >>> [module.training for module in model], scores.requires_grad
    ([True, False], False)

    Symptom: after an evaluation frozen layers train, or dropout stays off after an error.

    Before::

        def forward(batch):
            model.eval()
            outputs = model(batch["input_ids"])
            model.train()
            return outputs

    After::

        from pytest_evalcheck.fixes import evaluating

        def forward(batch):
            with evaluating(model):
                return model(batch["input_ids"])

    Costs: a copy of the buffers and of the states of the generators; less than a millisecond for most models.

    Target: ec.wrapper(inputs=es.causal_lm(vocab=12)) with ec.Wrapper(forward=forward, model=model)

    Shown by: EC106.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model: expected a torch.nn.Module, got {type(model).__name__}")
    if mode not in MODES:
        hint = nearest(str(mode), MODES)
        raise ValueError(f"mode: expected one of {', '.join(map(repr, MODES))}, got {mode!r}{hint}")
    named = _named(generators)
    _check_seed(seed)
    # A stack, so that everything is restored even where restoring one of them fails.
    with ExitStack() as stack:
        stack.callback(_globals())
        for restore in _generators(named):
            stack.callback(restore)
        stack.callback(_flags(model))
        stack.callback(_parameters(model))
        if buffers:
            stack.callback(_buffers(model))
        torch.set_grad_enabled(grad)
        if mode != "keep":
            model.train(mode == "train")
        if seed is not None:
            _start(seed, named)
        yield model


def _globals() -> Callable[[], None]:
    grad, dtype, device = torch.is_grad_enabled(), torch.get_default_dtype(), _default_device()

    def restore() -> None:
        torch.set_grad_enabled(grad)
        torch.set_default_dtype(dtype)
        if _default_device() != device:
            # None removes an override; the CPU by name would leave a function mode active for every later call.
            torch.set_default_device(None if device.type == "cpu" else device)

    return restore


def _default_device() -> torch.device:
    # torch.get_default_device fails in some releases once a default was set and removed.
    return torch.empty(0).device


def _named(generators: Iterable[torch.Generator | None]) -> list[torch.Generator]:
    if isinstance(generators, torch.Generator):
        raise TypeError("generators: expected several, such as [loader.generator], got a single one")
    named = [each for each in generators if each is not None]
    for each in named:
        if not isinstance(each, torch.Generator):
            raise TypeError(f"generators: expected torch.Generator or None, got {type(each).__name__}")
    return named


def _check_seed(seed: int | None) -> None:
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**32):
        raise ValueError(f"seed: expected a whole number from 0 to 2**32 - 1, which is what NumPy takes, got {seed!r}")


def _start(seed: int, named: Iterable[torch.Generator]) -> None:
    random.seed(seed)
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed(seed)
    torch.manual_seed(seed)
    for each in named:
        each.manual_seed(seed)


def _generators(named: Iterable[torch.Generator]) -> Iterator[Callable[[], None]]:
    for each in named:
        yield partial(each.set_state, each.get_state())
    yield partial(random.setstate, random.getstate())
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        yield partial(numpy.set_state, numpy.get_state())
    yield partial(torch.set_rng_state, torch.get_rng_state())
    for device in (torch.cuda, torch.xpu):
        # Reading the state of an unused device would start it.
        if device.is_available() and device.is_initialized():
            yield partial(device.set_rng_state_all, device.get_rng_state_all())
    if torch.backends.mps.is_available():
        yield partial(torch.mps.set_rng_state, torch.mps.get_rng_state())


def _flags(model: nn.Module) -> Callable[[], None]:
    flags = [(module, module.training) for module in model.modules()]

    def restore() -> None:
        # A module's own train method does more than set a flag (it merges weights, for example), and may set flags
        # of its children; therefore the flags themselves are set last.
        for module, training in flags:
            if type(module).train is not nn.Module.train and module.training != training:
                module.train(training)
        for module, training in flags:
            module.training = training

    return restore


def _parameters(model: nn.Module) -> Callable[[], None]:
    held = [(parameter, parameter.requires_grad, parameter.grad) for parameter in model.parameters()]
    for parameter, _, _ in held:
        parameter.grad = None

    def restore() -> None:
        for parameter, requires_grad, grad in held:
            if parameter.requires_grad != requires_grad:
                parameter.requires_grad_(requires_grad)
            # Where the model was converted within, its gradients have to be converted too.
            parameter.grad = None if grad is None else grad.to(parameter.device, parameter.dtype)

    return restore


def _buffers(model: nn.Module) -> Callable[[], None]:
    places = [(module, name, each) for module in model.modules() for name, each in module._buffers.items()]
    found = {id(each): each for _, _, each in places if each is not None}
    copies = [(each, each.detach().clone()) for each in found.values() if not (each.is_meta or is_lazy(each))]

    def restore() -> None:
        for buffer, values in copies:
            restore_tensor(buffer, values)
        for module, name, buffer in places:
            if name in module._buffers and module._buffers[name] is not buffer:
                module._buffers[name] = buffer

    return restore


def restore_tensor(buffer: Tensor, values: Tensor) -> None:
    """Copy the values of an earlier copy into a tensor, in place."""
    if buffer.shape != values.shape or buffer.dtype != values.dtype or buffer.device != values.device:
        buffer.data = values
    elif buffer.layout != torch.strided or buffer.is_quantized or not torch.equal(buffer, values):
        # Only then: writing counts as a change for autograd, whose graph may need the buffer for backward.
        with torch.inference_mode(buffer.is_inference()), torch.no_grad():
            buffer.copy_(values)
