"""Operators that a device does not have: which ones, PyTorch's error for them, and which run on the CPU instead.

Which ones is derived from the installed release (`native_functions.py`). The tables hold what that file does not say.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from pytest_evalcheck.devices.device_marks import SimulatedDevice, simulated_device_of
from pytest_evalcheck.devices.release import TORCH_RELEASE
from pytest_evalcheck.devices.rules.native_functions import entry, lacking

KEYS = {"cuda": "CUDA", "mps": "MPS"}
_LAYOUTS = {
    torch.strided: "",
    torch.sparse_coo: "Sparse",
    **dict.fromkeys((torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc), "SparseCsr"),
}

# A function that is made of others selects one of these where its tensors are on the CPU, and another one on a device.
# aten/src/ATen/native/transformers/attention.cpp, scaled_dot_product_attention; RNN.cpp, use_mkldnn
SELECTED_ON_CPU = frozenset(
    (
        "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_flash_attention_for_cpu_backward",
        "_fused_sdp_choice",
        "mkldnn_rnn_layer",
        "mkldnn_rnn_layer_backward",
    )
)

# What a CompositeExplicitAutograd kernel calls, where that may be missing. aten/src/ATen/native: UnaryOps.cpp, frexp;
# BatchLinearAlgebra.cpp, linalg_lstsq; RangeFactories.cpp and TensorFactories.cpp, logspace;
# TensorAdvancedIndexing.cpp, put
PARTS = {
    "frexp.Tensor": "frexp.Tensor_out",
    "linalg_lstsq": "linalg_lstsq.out",
    **dict.fromkeys(
        ("logspace", "logspace.Tensor_Tensor", "logspace.Tensor_Scalar", "logspace.Scalar_Tensor"), "logspace.out"
    ),
    "put": "put_",
}

# Registered to run on the CPU whatever the environment says: aten/src/ATen/mps/MPSFallback.mm, of all releases since
# 2.4. The list got shorter whenever a kernel was added, so that only what the installed release lacks counts.
# The missing operator, and the one that is registered, which the warning names.
FALLS_BACK_ALWAYS = {
    "embedding_renorm_": "embedding_renorm_",
    "_linalg_svd.U": "linalg_svd",
    "im2col": "im2col",
    "col2im": "col2im",
    "upsample_nearest3d.out": "upsample_nearest3d.vec",
    "bitwise_left_shift.Tensor_out": "bitwise_left_shift.Tensor_out",
    "bitwise_right_shift.Tensor_out": "bitwise_right_shift.Tensor_out",
}

# `linalg_svd` is registered, but the missing operator is called by `linalg_svdvals` too, which these functions call.
# aten/src/ATen/native: BatchLinearAlgebra.cpp, LinearAlgebra.cpp
_CALLS_SVDVALS = frozenset(
    (
        "linalg_svdvals",
        "linalg_cond",
        "linalg_matrix_rank",
        "matrix_rank",
        "linalg_norm",
        "linalg_matrix_norm",
        "norm",
        "nuclear_norm",
    )
)

# These make their results without a size, and leave it to the kernel.
RESIZED_BY_CPU = frozenset({"linalg_lstsq.out"})

# aten/src/ATen/mps/MPSFallback.mm, mps_error_fallback, whose text changed with 2.6
_ASK = (
    "be added in priority during the prototype phase of this feature, please comment on "
    "https://github.com/pytorch/pytorch/issues/77764"
    if TORCH_RELEASE < (2, 6)
    else "be considered for addition please comment on https://github.com/pytorch/pytorch/issues/141287 "
    f"and mention use-case, that resulted in missing op as well as commit hash {torch.version.git_version}"
)
_ON_MPS = (
    "The operator 'aten::{name}' is not currently implemented for the MPS device. If you want this op to "
    f"{_ASK}. As a temporary fix, you can set the environment variable `PYTORCH_ENABLE_MPS_FALLBACK=1` to use the CPU "
    "as a fallback for this op. WARNING: this will be slower than running natively on MPS."
)
# aten/src/ATen/core/dispatch/OperatorEntry.cpp, reportError
_ELSEWHERE = (
    "Could not run 'aten::{name}' with arguments from the '{key}' backend. This could be because the operator doesn't "
    "exist for this backend, or was omitted during the selective/custom build process (if using custom build). If you "
    "are a Facebook employee using PyTorch on mobile, please visit https://fburl.com/ptmfixes for possible resolutions."
)
FALLS_BACK = (
    "The operator 'aten::{name}' is not currently supported on the MPS backend and will fall back to run on the CPU. "
    "This may have performance implications."
)


def missing_for(func: Any) -> dict[str, str]:
    """The dispatch keys of devices for which an operator of PyTorch has no kernel, each with what is missing."""
    namespace, _, name = func.name().partition("::")
    if namespace != "aten" or name in SELECTED_ON_CPU or entry(name) is None:
        return {}
    found = {}
    for layout in dict.fromkeys(_LAYOUTS.values()):
        for key in KEYS.values():
            missing = lacking(PARTS.get(name, name), layout + key, layout + "CPU")
            if missing:
                found[layout + key] = missing
    return found


def dispatch_key(tensors: Iterable[Tensor]) -> str:
    """The dispatch key of a call: the device of its tensors, with the layout before it. Empty on the CPU.

    An empty one also where the layout has other keys than those (quantized, nested, MKL-DNN).
    """
    device: SimulatedDevice | None = None
    layouts = set()
    for tensor in tensors:
        device = device or simulated_device_of(tensor)
        if tensor.is_quantized or tensor.is_nested or tensor.layout not in _LAYOUTS:
            return ""
        layouts.add(_LAYOUTS[tensor.layout])
    return "" if device is None else max(layouts, key=len) + KEYS[device.type]


def missing_kernel_error(name: str, key: str) -> NotImplementedError:
    """PyTorch's error for an operator that has no kernel for a dispatch key."""
    text = _ON_MPS if key == "MPS" else _ELSEWHERE
    return NotImplementedError(text.format(name=name, key=key))


def runs_on_cpu_always(missing: str, call: str) -> str:
    """The operator that is registered to run on the CPU and calls the missing one; empty where there is none.

    `call` is the name of the function of PyTorch that was called.
    """
    return "" if missing == "_linalg_svd.U" and call in _CALLS_SVDVALS else FALLS_BACK_ALWAYS.get(missing, "")
