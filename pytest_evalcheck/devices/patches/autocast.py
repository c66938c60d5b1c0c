"""`torch.autocast` for a simulated device: its lists of operators, applied at the Python API.

PyTorch's own switches are set as usual, but apply to the kernels of the real device, so CPU tensors do not see them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from pytest_evalcheck.devices.device_marks import device_of
from pytest_evalcheck.devices.patches.patches import Patches
from pytest_evalcheck.devices.state import Simulation

# https://pytorch.org/docs/stable/amp.html, "CUDA Op-Specific Behavior"; in the source: aten/src/ATen/autocast_mode.h
_LOWER = (
    "__matmul__ __rmatmul__ matmul addbmm addmm addmv addr baddbmm bmm chain_matmul multi_dot conv1d conv2d "
    "conv3d conv_transpose1d conv_transpose2d conv_transpose3d linear mm mv prelu einsum "
    "scaled_dot_product_attention multi_head_attention_forward lstm gru rnn_tanh rnn_relu lstm_cell gru_cell "
    "rnn_tanh_cell rnn_relu_cell"
)
_FLOAT32 = (
    "__pow__ __rpow__ __rdiv__ __rtruediv__ acos asin binary_cross_entropy_with_logits cosh "
    "cosine_embedding_loss cdist cosine_similarity cross_entropy cumprod cumsum dist erfinv exp expm1 "
    "group_norm hinge_embedding_loss kl_div l1_loss layer_norm log log10 log_softmax log1p log2 "
    "margin_ranking_loss mse_loss multilabel_margin_loss multi_margin_loss nll_loss norm normalize pdist "
    "poisson_nll_loss pow prod reciprocal rsqrt sinh smooth_l1_loss soft_margin_loss softmax softmin softplus "
    "sum renorm tan triplet_margin_loss logsumexp"
)
_WIDEST = "addcdiv addcmul atan2 bilinear cross dot grid_sample index_put scatter_add tensordot cat stack"
LOWER, FLOAT32, WIDEST = (frozenset(names.split()) for names in (_LOWER, _FLOAT32, _WIDEST))
UNSAFE = (
    "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
    "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
    "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
    "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\nsafe to autocast."
)
_LISTED = LOWER | FLOAT32 | WIDEST | {"binary_cross_entropy"}


class Autocast(TorchFunctionMode):  # type: ignore[misc]
    """Casts the arguments of listed functions. One is entered for each `with torch.autocast(...)`."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name not in _LISTED or not torch.is_autocast_enabled(self.kind):
            return func(*args, **kwargs)
        dtypes = {value.dtype for value in tree_leaves((args, kwargs)) if self._casts(value)}
        if name == "binary_cross_entropy" and dtypes & {torch.float16, torch.bfloat16}:
            raise RuntimeError(UNSAFE)
        target = self._target(name, dtypes)
        if target is not None and kwargs.get("dtype") is None:
            args, kwargs = tree_map(lambda value: value.to(target) if self._casts(value) else value, (args, kwargs))
        return func(*args, **kwargs)

    def _casts(self, value: Any) -> bool:
        if not isinstance(value, Tensor) or not value.is_floating_point() or value.dtype is torch.float64:
            return False
        return bool(device_of(value).type == self.kind)

    def _target(self, name: str, dtypes: set[torch.dtype]) -> torch.dtype | None:
        if name in LOWER:
            dtype: torch.dtype = torch.get_autocast_dtype(self.kind)
            return dtype
        if name in FLOAT32 or (name in WIDEST and torch.float32 in dtypes and len(dtypes) > 1):
            return torch.float32
        return None


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
