"""`torch.autocast` for a device that is not there: its lists of operators, applied at the Python API.

PyTorch's own switches are set as usual, but work on the kernels of the real device, so CPU tensors do not see them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from pytest_evalcheck.devices.device_marks import SimulatedDevice, simulated_device_of
from pytest_evalcheck.devices.patches.patches import Patches

if TYPE_CHECKING:
    from pytest_evalcheck.devices.simulation import Simulation


# https://pytorch.org/docs/stable/amp.html, "CUDA Op-Specific Behavior"; in the source: aten/src/ATen/autocast_mode.h
_LOWER = (
    "__matmul__ __rmatmul__ matmul addbmm addmm addmv addr baddbmm bmm chain_matmul multi_dot conv1d conv2d "
    "conv3d conv_transpose1d conv_transpose2d conv_transpose3d linear mm mv prelu einsum "
    "scaled_dot_product_attention multi_head_attention_forward lstm gru rnn_tanh rnn_relu lstm_cell gru_cell "
    "rnn_tanh_cell rnn_relu_cell"
)
LOWER = frozenset(_LOWER.split())
_FLOAT32 = (
    "__pow__ __rpow__ __rdiv__ __rtruediv__ acos asin binary_cross_entropy_with_logits cosh "
    "cosine_embedding_loss cdist cosine_similarity cross_entropy cumprod cumsum dist erfinv exp expm1 "
    "group_norm hinge_embedding_loss kl_div l1_loss layer_norm log log10 log_softmax log1p log2 "
    "margin_ranking_loss mse_loss multilabel_margin_loss multi_margin_loss nll_loss norm normalize pdist "
    "poisson_nll_loss pow prod reciprocal rsqrt sinh smooth_l1_loss soft_margin_loss softmax softmin softplus "
    "sum renorm tan triplet_margin_loss logsumexp"
)
FLOAT32 = frozenset(_FLOAT32.split())
_WIDEST = "addcdiv addcmul atan2 bilinear cross dot grid_sample index_put scatter_add tensordot cat stack"
WIDEST = frozenset(_WIDEST.split())
UNSAFE = (
    "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
    "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
    "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
    "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\nsafe to autocast."
)
_HALVES = (torch.float16, torch.bfloat16)


class Autocast(TorchFunctionMode):  # type: ignore[misc]
    """Casts the arguments of listed functions. One is entered for each `with torch.autocast(...)`."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        listed = name in LOWER or name in FLOAT32 or name in WIDEST or name == "binary_cross_entropy"
        if not listed or not torch.is_autocast_enabled(self.kind):
            return func(*args, **kwargs)
        seen: list[torch.dtype] = []
        _walk((args, kwargs), lambda tensor: _note(tensor, self.kind, seen))
        if not seen:
            return func(*args, **kwargs)
        if name == "binary_cross_entropy" and any(each in _HALVES for each in seen):
            raise RuntimeError(UNSAFE)
        target = self._target(name, seen)
        if target is not None and kwargs.get("dtype") is None:
            args, kwargs = _walk((args, kwargs), lambda tensor: _cast(tensor, self.kind, target))
        return func(*args, **kwargs)

    def _target(self, name: str, seen: list[torch.dtype]) -> torch.dtype | None:
        if name in LOWER:
            found: torch.dtype = torch.get_autocast_dtype(self.kind)
            return found
        if name in FLOAT32:
            return torch.float32
        return torch.float32 if torch.float32 in seen and len(set(seen)) > 1 else None


def _eligible(tensor: Tensor, kind: str) -> bool:
    place: SimulatedDevice | None = simulated_device_of(tensor)
    return place is not None and place.type == kind and tensor.is_floating_point() and tensor.dtype is not torch.float64


def _note(tensor: Tensor, kind: str, seen: list[torch.dtype]) -> Tensor:
    if _eligible(tensor, kind):
        seen.append(tensor.dtype)
    return tensor


def _cast(tensor: Tensor, kind: str, dtype: torch.dtype) -> Tensor:
    return tensor.to(dtype) if _eligible(tensor, kind) and tensor.dtype is not dtype else tensor


def _walk(value: Any, change: Any) -> Any:
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, dict):
        return {key: _walk(each, change) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_walk(each, change) for each in value)
    return value


def install(patches: Patches, simulation: Simulation) -> None:
    """Enter our mode with every `torch.autocast` for a simulated device."""
    kind = torch.autocast
    enter, leave = kind.__enter__, kind.__exit__

    def entered(self: Any) -> Any:
        result = enter(self)
        if self.device in simulation.kinds:
            mode = Autocast(self.device)
            mode.__enter__()
            self.__dict__.setdefault("_evalcheck_modes", []).append(mode)
        return result

    def left(self: Any, *failure: Any) -> Any:
        modes = self.__dict__.get("_evalcheck_modes")
        if modes:
            modes.pop().__exit__(None, None, None)
        return leave(self, *failure)

    patches.set(kind, "__enter__", entered)
    patches.set(kind, "__exit__", left)
