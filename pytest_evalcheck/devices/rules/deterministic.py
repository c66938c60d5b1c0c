"""Operators that CUDA refuses under `torch.use_deterministic_algorithms(True)`, or warns of with `warn_only=True`.

What it refuses is in the docstring of that function, in the installed release: "will throw a RuntimeError". The table
says which operator of the dispatcher each line is about, in which calls, and what PyTorch's error names. What raises on
every device (`MaxUnpool2d`) is raised by the kernel of the CPU.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import warnings
from collections.abc import Callable
from typing import Any

import torch

from pytest_evalcheck.devices.release import TORCH_RELEASE

Condition = Callable[[dict[str, Any]], bool]
LINE = ""  # the key of the docstring's line among the arguments of a condition


@dataclasses.dataclass(frozen=True, slots=True)
class Alert:
    """An operator without a deterministic kernel: what the error names, and in which calls it is raised.

    The condition takes the arguments by name. None is every call.
    """

    caller: str
    condition: Condition | None = None


def _is_float(arguments: dict[str, Any]) -> bool:
    return bool(arguments["self"].is_floating_point() or arguments["self"].is_complex())


# aten/src/ATen/native/cuda: the caller is what each passes to `alertNotDeterministic`.
_ALERTS: dict[str, dict[str, Alert]] = {
    "torch.nn.AvgPool3d": {"avg_pool3d_backward": Alert("avg_pool3d_backward_cuda")},
    "torch.nn.AdaptiveAvgPool2d": {"_adaptive_avg_pool2d_backward": Alert("adaptive_avg_pool2d_backward_cuda")},
    "torch.nn.AdaptiveAvgPool3d": {"_adaptive_avg_pool3d_backward": Alert("adaptive_avg_pool3d_backward_cuda")},
    "torch.nn.AdaptiveMaxPool2d": {"adaptive_max_pool2d_backward": Alert("adaptive_max_pool2d_backward_cuda")},
    "torch.nn.FractionalMaxPool2d": {"fractional_max_pool2d_backward": Alert("fractional_max_pool2d_backward_cuda")},
    "torch.nn.FractionalMaxPool3d": {"fractional_max_pool3d_backward": Alert("fractional_max_pool3d_backward_cuda")},
    "torch.nn.MaxPool3d": {"max_pool3d_with_indices_backward": Alert("max_pool3d_with_indices_backward_cuda")},
    # Other modes are computed by deterministic operators: torch/nn/functional.py, interpolate
    "torch.nn.functional.interpolate": {
        "upsample_linear1d_backward": Alert("upsample_linear1d_backward_out_cuda"),
        "upsample_bicubic2d_backward": Alert("upsample_bicubic2d_backward_out_cuda"),
        **(
            {"upsample_trilinear3d_backward": Alert("upsample_trilinear3d_backward_out_cuda")}
            if TORCH_RELEASE < (2, 9)
            else {}
        ),
    },
    "torch.nn.ReflectionPad1d": {"reflection_pad1d_backward": Alert("reflection_pad1d_backward_out_cuda")},
    "torch.nn.ReflectionPad2d": {"reflection_pad2d_backward": Alert("reflection_pad2d_backward_cuda")},
    "torch.nn.ReflectionPad3d": {"reflection_pad3d_backward": Alert("reflection_pad3d_backward_out_cuda")},
    "torch.nn.ReplicationPad1d": {"replication_pad1d_backward": Alert("replication_pad1d_backward_cuda")},
    "torch.nn.ReplicationPad3d": {"replication_pad3d_backward": Alert("replication_pad3d_backward_cuda")},
    # Only sums and means over a map of classes add atomically: cuda/NLLLoss2d.cu
    "torch.nn.NLLLoss": {
        "nll_loss2d_forward": Alert(
            "nll_loss2d_forward_out_cuda_template", lambda arguments: bool(arguments["reduction"] != 0)
        )
    },
    "torch.nn.CTCLoss": {"_ctc_loss_backward": Alert("ctc_loss_backward_gpu")},
    "torch.nn.EmbeddingBag": dict.fromkeys(
        ("_embedding_bag_backward", "_embedding_bag_dense_backward"),
        Alert("embedding_bag_backward_cuda_max", lambda arguments: bool(arguments["mode"] == 2)),
    ),
    # Without accumulating, the kernel of the CPU raises too: TensorAdvancedIndexing.cpp, put_
    # `put` is `put_` on a copy, below the dispatcher.
    "torch.Tensor.put_": dict.fromkeys(("put_", "put"), Alert("put_", lambda arguments: bool(arguments["accumulate"]))),
    "torch.histc": {
        "histc": Alert("_histc_cuda with floating point input", _is_float)
        if TORCH_RELEASE >= (2, 8)
        else Alert("_histc_cuda")
    },
    "torch.bincount": {"bincount": Alert("_bincount_cuda", lambda arguments: arguments["weights"] is not None)},
    "torch.kthvalue": {"kthvalue": Alert("kthvalue CUDA")},
    "torch.median": {"median.dim": Alert("median CUDA with indices output")},
    "torch.nn.functional.grid_sample": {
        "grid_sampler_2d_backward": Alert("grid_sampler_2d_backward_cuda"),
        "grid_sampler_3d_backward": Alert("grid_sampler_3d_backward_cuda"),
    },
    # Listed still, and deterministic since 2.6: cuda/ScanKernels.cpp; test/test_torch.py, test_deterministic_cumsum
    "torch.cumsum": {"cumsum": Alert("cumsum_cuda_kernel", _is_float)} if TORCH_RELEASE < (2, 6) else {},
    "torch.Tensor.scatter_reduce": {
        "scatter_reduce.two": Alert(
            "scatter_reduce_cuda", lambda arguments: f"reduce='{arguments['reduce']}'" in arguments[LINE]
        )
    },
    # On every device, or of quantized tensors: the kernel of the CPU raises.
    "torch.nn.MaxUnpool1d": {},
    "torch.nn.MaxUnpool2d": {},
    "torch.nn.MaxUnpool3d": {},
    "torch.Tensor.resize_": {},
}

# Until 2.12 the docstring names a variable of the environment, without which cuBLAS is not deterministic:
# aten/src/ATen/Context.cpp, alertCuBLASConfigNotDeterministic
_CUBLAS = frozenset({"mm", "bmm", "mv", "addmm", "baddbmm", "addmv", "addbmm"})
_CUBLAS_VARIABLE, _CUBLAS_VALUES = "CUBLAS_WORKSPACE_CONFIG", (":4096:8", ":16:8")
_NEEDS_CUBLAS = (
    "Deterministic behavior was enabled with either `torch.use_deterministic_algorithms(True)` or "
    "`at::Context::setDeterministicAlgorithms(true)`, but this operation is not deterministic because it uses CuBLAS "
    "and you have CUDA >= 10.2. To enable deterministic behavior in this case, you must set an environment variable "
    "before running your PyTorch application: CUBLAS_WORKSPACE_CONFIG=:4096:8 or CUBLAS_WORKSPACE_CONFIG=:16:8. "
    "For more information, go to https://docs.nvidia.com/cuda/cublas/index.html#results-reproducibility"
)
# aten/src/ATen/Context.cpp, alertNotDeterministic
_WARNS = (
    "{} does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms(True, "
    "warn_only=True)'. You can file an issue at https://github.com/pytorch/pytorch/issues to help us prioritize "
    "adding deterministic support for this operation."
)
_RAISES = (
    "{} does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms(True)'. You can "
    "turn off determinism just for this operation, or you can use the 'warn_only=True' option, if that's acceptable "
    "for your application. You can also file an issue at https://github.com/pytorch/pytorch/issues to help us "
    "prioritize adding deterministic support for this operation."
)


def listed(docstring: str) -> dict[str, str]:
    """The lines of the docstring that say what will throw, by the name of the function or class."""
    _, _, rest = docstring.partition("operations will throw a\n")
    rest = re.split(r"\n\s*\n\s*(?=[A-Z])", rest)[0]
    found: dict[str, str] = {}
    for item in re.split(r"\n\s*\* ", rest)[1:]:
        name = re.match(r":\w+:`~?([\w.]+)`", item)
        if name is not None:
            found[name.group(1)] = f"{found.get(name.group(1), '')} {' '.join(item.split())}".strip()
    return found


@functools.cache
def _installed() -> tuple[dict[str, tuple[Alert, str]], bool]:
    """The alerts of the installed release by operator, each with its line, and whether cuBLAS needs the variable."""
    docstring = torch.use_deterministic_algorithms.__doc__ or ""
    found: dict[str, tuple[Alert, str]] = {}
    for name, line in listed(docstring).items():
        found |= {operator: (alert, line) for operator, alert in _ALERTS.get(name, {}).items()}
    return found, _CUBLAS_VARIABLE in docstring


def alert_for(func: Any) -> tuple[Alert, str] | None:
    """The alert of an operator on CUDA, with its line of the docstring; None where it is deterministic."""
    namespace, _, name = func.name().partition("::")
    alerts, needs_variable = _installed()
    if namespace != "aten":
        return None
    base = name.partition(".")[0]
    if needs_variable and base in _CUBLAS:
        return Alert(_CUBLAS_VARIABLE), ""
    # A form that writes to `out=` or to a gradient has the kernel of the one that does not.
    return alerts.get(name) or alerts.get(base) or alerts.get(name.partition("_values")[0])


def require_deterministic(alert: tuple[Alert, str], func: Any, args: Any, kwargs: dict[str, Any]) -> None:
    """Raise PyTorch's error where determinism is required and the call has none; warn with `warn_only=True`."""
    if not torch.are_deterministic_algorithms_enabled():
        return
    found, line = alert
    arguments = {
        argument.name: args[number] if number < len(args) else kwargs.get(argument.name, argument.default_value)
        for number, argument in enumerate(func._schema.arguments)
    }
    arguments[LINE] = line
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    if found.caller == _CUBLAS_VARIABLE:
        if os.environ.get(_CUBLAS_VARIABLE) in _CUBLAS_VALUES:
            return
        text = _NEEDS_CUBLAS
    elif found.condition is None or found.condition(arguments):
        text = (_WARNS if warn_only else _RAISES).format(found.caller)
    else:
        return
    if not warn_only:
        raise RuntimeError(text)
    warnings.warn(text, UserWarning, stacklevel=2)
