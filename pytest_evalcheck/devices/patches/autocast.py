"""`torch.autocast` for a simulated device: its lists of operators, applied at the Python API.

PyTorch's own switches are set as usual. Those of a simulated kind have no effect on CPU tensors, so the casts are made
here; that of the CPU would have one on simulated tensors, so it is off for calls with a tensor on a device.
"""

from __future__ import annotations

import copy
import functools
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from pytest_evalcheck.devices.device_marks import device_of, first_simulated_device
from pytest_evalcheck.devices.modes.function_mode import SimulationFunctionMode
from pytest_evalcheck.devices.patches.patches import Patches
from pytest_evalcheck.devices.state import ACTIVE

# https://pytorch.org/docs/stable/amp.html, "CUDA Op-Specific Behavior"; in the source: aten/src/ATen/autocast_mode.h
_LOWER = (
    "__matmul__ __rmatmul__ matmul addbmm addmm addmv addr baddbmm bmm chain_matmul linalg_multi_dot linalg_vecdot "
    "conv_tbc conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d linear mm mv prelu einsum "
    "scaled_dot_product_attention multi_head_attention_forward lstm gru rnn_tanh rnn_relu lstm_cell gru_cell "
    "rnn_tanh_cell rnn_relu_cell"
)
_FLOAT32 = (
    "__pow__ __rpow__ __rdiv__ __rtruediv__ acos asin binary_cross_entropy_with_logits cosh "
    "cosine_embedding_loss cdist cosine_similarity cross_entropy cumprod cumsum dist erfinv exp expm1 "
    "group_norm hinge_embedding_loss huber_loss interpolate kl_div l1_loss layer_norm linalg_matrix_norm linalg_norm "
    "linalg_vector_norm log log10 log_softmax log1p log2 "
    "margin_ranking_loss mse_loss multilabel_margin_loss multi_margin_loss nll_loss norm normalize pdist "
    "poisson_nll_loss pow prod reciprocal rms_norm rsqrt sinh smooth_l1_loss soft_margin_loss softmax softmin softplus "
    "sum renorm tan triplet_margin_loss logsumexp"
)
_WIDEST = "addcdiv addcmul atan2 bilinear cross dot grid_sample index_put scatter_add tensordot vdot cat stack"
LOWER, FLOAT32, WIDEST = (frozenset(names.split()) for names in (_LOWER, _FLOAT32, _WIDEST))
BANNED = "binary_cross_entropy"
UNSAFE = (
    "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
    "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
    "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
    "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\nsafe to autocast."
)
_OPERATORS = {"interpolate": "upsample_nearest2d", "grid_sample": "grid_sampler"}
_BY_CUDNN = frozenset(["lstm", "gru", "rnn_tanh", "rnn_relu"])  # aten/src/ATen/cudnn/AutocastRNN.cpp


@functools.cache
def names_for(kind: str) -> frozenset[str]:
    """The listed functions that are cast on a kind of device: those for whose operator PyTorch registers a cast."""
    names = LOWER | FLOAT32 | WIDEST | {BANNED}
    return frozenset(name for name in names if _is_cast(name, kind))


def _is_cast(name: str, kind: str) -> bool:
    if name in _BY_CUDNN:
        return kind == "cuda"
    operator = _OPERATORS.get(name, name)
    if operator == "norm" or not _has_kernel(operator, "AutocastCUDA"):
        return operator not in _OPERATORS.values() and name not in ("huber_loss", "rms_norm")
    return _has_kernel(operator, f"Autocast{kind.upper()}")


def _has_kernel(operator: str, key: str) -> bool:
    packet = getattr(torch.ops.aten, operator, None)
    overloads = [] if packet is None else packet.overloads()
    full = [f"aten::{operator}" + ("" if each == "default" else f".{each}") for each in overloads]
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(each, key) for each in full)


@functools.cache
def keeps_gradients() -> bool:
    """Return whether a weight that is first cast without gradients has one afterwards, which releases differ in."""
    weight = torch.ones(1, 1, device="cpu", requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with torch.no_grad():
            torch.mm(weight, weight)
        with torch.enable_grad():
            return bool(torch.mm(weight, weight).requires_grad)


class Autocast:
    """The casts of one thread, which its function mode asks for while a switch is on."""

    def __init__(self, mode: SimulationFunctionMode) -> None:
        # Older releases have no autocast for MPS.
        self._kinds = tuple(kind for kind in mode.state.simulation.kinds if torch.amp.is_autocast_available(kind))
        self._without = copy.copy(mode)
        self._without.autocast = None
        self._kept: dict[int, tuple[Tensor, Tensor]] = {}

    def is_enabled(self) -> bool:
        """Return whether a switch is on that this has to do with."""
        return any(torch.is_autocast_enabled(kind) for kind in ("cpu", *self._kinds))

    def call(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Let the mode handle a function, with the arguments that autocast gives it."""
        name = getattr(func, "__name__", "")
        for kind in self._kinds:
            if name in names_for(kind) and torch.is_autocast_enabled(kind):
                args, kwargs = self._cast(name, kind, args, kwargs or {})
        if torch.is_autocast_enabled("cpu") and first_simulated_device((args, kwargs)) is not None:
            with torch._C._DisableAutocast():
                return self._without.__torch_function__(func, types, args, kwargs)
        return self._without.__torch_function__(func, types, args, kwargs)

    def _cast(self, name: str, kind: str, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        dtypes = {value.dtype for value in tree_leaves((args, kwargs)) if _is_eligible(value, kind)}
        if name == BANNED and dtypes:
            raise RuntimeError(UNSAFE)
        target = _target(name, kind, dtypes)
        if target is None or kwargs.get("dtype") is not None:
            return args, kwargs

        def cast(value: Any) -> Any:
            return self._cast_tensor(value, kind, target) if _is_eligible(value, kind) else value

        cast_args, cast_kwargs = tree_map(cast, (args, kwargs))
        return cast_args, cast_kwargs

    def _cast_tensor(self, tensor: Tensor, kind: str, target: torch.dtype) -> Tensor:
        """A weight is cast once in a region, whatever changes later. aten/src/ATen/autocast_mode.cpp, cached_cast."""
        if tensor.dtype is target:
            return tensor
        is_kept = (
            target is torch.get_autocast_dtype(kind)
            and tensor.dtype is torch.float32
            and tensor.requires_grad
            and tensor.is_leaf
            and not tensor._is_view()
            and torch.is_autocast_cache_enabled()
        )
        if not is_kept:
            return tensor.to(target)
        if id(tensor) not in self._kept:
            with torch.set_grad_enabled(keeps_gradients() or torch.is_grad_enabled()):
                self._kept[id(tensor)] = tensor, tensor.to(target)
        return self._kept[id(tensor)][1]

    def clear(self) -> None:
        """Forget the weights that were cast."""
        self._kept.clear()


def _is_eligible(value: Any, kind: str) -> bool:
    if not isinstance(value, Tensor) or not value.is_floating_point() or value.dtype is torch.float64:
        return False
    return bool(device_of(value).type == kind)


def _target(name: str, kind: str, dtypes: set[torch.dtype]) -> torch.dtype | None:
    if name in LOWER:
        dtype: torch.dtype = torch.get_autocast_dtype(kind)
        return dtype
    if name in FLOAT32 or (name in WIDEST and torch.float32 in dtypes and len(dtypes) > 1):
        return torch.float32
    return None


def install(patches: Patches) -> None:
    """Watch PyTorch's switches, and the regions that are open."""
    keeps_gradients()  # now, as inside this would be simulated
    for name in _switches():
        patches.set(torch, name, _then_refresh(getattr(torch, name)))
    patches.set(torch, "clear_autocast_cache", _then_clear(torch.clear_autocast_cache))
    enter, leave = torch.autocast.__enter__, torch.autocast.__exit__

    def entered(self: Any) -> Any:
        result = enter(self)
        state = ACTIVE.state
        vars(self).pop("_evalcheck_closed", None)
        if state is not None:
            state.open_regions.append(_Region(self, leave))
        return result

    def left(self: Any, *failure: Any) -> Any:
        state: Any = ACTIVE.state
        for region in [] if state is None else reversed(state.open_regions):
            if region.autocast is self:
                state.open_regions.remove(region)
                break
        else:
            if vars(self).get("_evalcheck_closed"):
                return False  # when its simulation ended
        return leave(self, *failure)

    patches.set(torch.autocast, "__enter__", entered)
    patches.set(torch.autocast, "__exit__", left)


@functools.cache
def _switches() -> tuple[str, ...]:
    """The functions that turn autocast on and off. Nothing is added to PyTorch later."""
    found = (name for name in dir(torch) if name.startswith("set_autocast_") and name.endswith("enabled"))
    return tuple(name for name in found if "cache" not in name)


class _Region:
    """One `with torch.autocast(...)` that is open. A simulation that ends before it closes it."""

    def __init__(self, autocast: Any, leave: Any) -> None:
        self.autocast = autocast
        self._leave = leave

    def close(self) -> None:
        self._leave(self.autocast, None, None, None)
        self.autocast._evalcheck_closed = True


def refresh(state: Any) -> None:
    """Let the function mode of a thread ask for casts where a switch is on."""
    if state.autocast is None:
        state.autocast = Autocast(state.function_mode)
    state.function_mode.autocast = state.autocast if state.autocast.is_enabled() else None


def _then_refresh(set_enabled: Any) -> Any:
    @functools.wraps(set_enabled)
    def set_and_refresh(*args: Any) -> None:
        set_enabled(*args)
        if ACTIVE.state is not None:
            refresh(ACTIVE.state)

    return set_and_refresh


def _then_clear(clear_cache: Any) -> Any:
    @functools.wraps(clear_cache)
    def clear() -> None:
        clear_cache()
        if ACTIVE.state is not None and ACTIVE.state.autocast is not None:
            ACTIVE.state.autocast.clear()

    return clear
