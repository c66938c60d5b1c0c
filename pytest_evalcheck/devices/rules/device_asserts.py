"""Values that a CUDA kernel checks by an assert, and valid ones in their place.

The CPU raises for such values at once, and so does CUDA for those that it reads on the host first: `index_put` with
`accumulate=True`, `multinomial` without replacement, `bincount`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Arguments = dict[str, Any]
Valid = tuple[Arguments, str]
"""The arguments to replace, and the assertion that fails for the ones that were given."""

_INDEX = '-sizes[i] <= index && index < sizes[i] && "index out of bounds"'
_SCATTER = 'idx_dim >= 0 && idx_dim < index_size && "index out of bounds"'
_SELECT = "srcIndex < srcSelectDimSize"
_ADD = "dstIndex < dstAddDimSize"
_COPY = 'idx >= 0 && idx < self_dim_size && "index_copy_(): index out of bounds"'
_FILL = 'idx >= -self_dim_size && idx < self_dim_size && "index out of bounds"'
_TAKE = 'idx < numel && idx >= -numel && "cuda_take_put_kernel() index out of bounds"'
_BAG = "input_row >= 0 && input_row < numRows"
_CLASS = "t >= 0 && t < n_classes"
_MARGIN = 'target_k >= 0 && target_k < dim && "target index is out of bounds"'
_UNIT = "input_val >= zero && input_val <= one"
_CHANCE = "0 <= p4.x && p4.x <= 1"
_DISTRIBUTION = "cumdist[size - 1] > static_cast<scalar_t>(0)"


def valid_arguments(func: Any, args: Any, kwargs: Arguments) -> tuple[Any, Arguments, str] | None:
    """The arguments of an operator with valid values, and the assertion; None where no assert of CUDA is about them."""
    rule = _RULES.get(func._schema.name)
    if rule is None:
        return None
    names = [argument.name for argument in func._schema.arguments]
    defaults = {
        argument.name: argument.default_value for argument in func._schema.arguments if argument.has_default_value()
    }
    found = rule({**defaults, **dict(zip(names, args, strict=False)), **kwargs})
    if found is None:
        return None
    changed, assertion = found
    new_args = tuple(changed.get(name, value) for name, value in zip(names, args, strict=False))
    return new_args, {name: changed.get(name, value) for name, value in kwargs.items()}, assertion


def _clamped(values: Tensor, low: float, high: float) -> Tensor | None:
    """The values between two bounds, or None where they are so already. NaN is no valid value."""
    if bool(((values >= low) & (values <= high)).all()):
        return None
    return values.nan_to_num(nan=low).clamp(low, high) if values.is_floating_point() else values.clamp(low, high)


def _bounded(name: str, size: Callable[[Arguments], int], assertion: str, *, negative: bool = False) -> Any:
    """A rule for one argument of indices."""

    def rule(given: Arguments) -> Valid | None:
        index, count = given[name], size(given)
        if not isinstance(index, Tensor) or count == 0:
            return None
        valid = _clamped(index, -count if negative else 0, count - 1)
        return None if valid is None else ({name: valid}, assertion)

    return rule


def _size_along(given: Arguments) -> int:
    """The size of the dimension that is indexed."""
    tensor: Tensor = given["self"]
    return int(tensor.size(given["dim"])) if tensor.dim() else 1


def _numel(given: Arguments) -> int:
    return int(given["self"].numel())


def _rows(given: Arguments) -> int:
    return int(given["weight"].size(0))


def _classes(given: Arguments) -> int:
    tensor: Tensor = given["self"]
    return int(tensor.size(1 if tensor.dim() > 1 else 0))


def _indices(given: Arguments) -> Valid | None:
    """Indexing with a list: an entry without a value takes a dimension, a mask as many as it has."""
    if given.get("accumulate"):
        return None  # read on the host: aten/src/ATen/native/cuda/Indexing.cu, wrapIndexOnce
    dimension, valid, changed = 0, list(given["indices"]), False
    for position, index in enumerate(valid):
        if index is None:
            dimension += 1
            continue
        if index.dtype in (torch.bool, torch.uint8):
            dimension += index.dim()
            continue
        size = given["self"].size(dimension)
        within = _clamped(index, -size, size - 1) if size else None
        dimension += 1
        if within is not None:
            valid[position], changed = within, True
    return ({"indices": valid}, _INDEX) if changed else None


def _labels(given: Arguments) -> Valid | None:
    target, ignored = given["target"], given["ignore_index"]
    valid = _clamped(target.masked_fill(target == ignored, 0), 0, _classes(given) - 1)
    return None if valid is None else ({"target": valid.masked_fill(target == ignored, ignored)}, _CLASS)


def _probabilities(assertion: str) -> Any:
    def rule(given: Arguments) -> Valid | None:
        name = "p" if isinstance(given.get("p"), Tensor) else "self"
        valid = _clamped(given[name], 0, 1)
        return None if valid is None else ({name: valid}, assertion)

    return rule


def _distribution(given: Arguments) -> Valid | None:
    if not given["replacement"] or given["num_samples"] == 1:
        return None  # read on the host: aten/src/ATen/native/Distributions.cpp, multinomial_out
    return {"self": torch.ones_like(given["self"])}, _DISTRIBUTION


def _condition(given: Arguments) -> Valid | None:
    return {"self": torch.ones_like(given["self"])}, given.get("assert_msg") or "input[0] != 0"


_RULES: dict[str, Callable[[Arguments], Valid | None]] = {
    # aten/src/ATen/native/cuda/IndexKernel.cu
    **dict.fromkeys(("aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"), _indices),
    **dict.fromkeys(("aten::index_copy", "aten::index_copy_"), _bounded("index", _size_along, _COPY)),
    **dict.fromkeys(("aten::index_fill", "aten::index_fill_"), _bounded("index", _size_along, _FILL, negative=True)),
    **dict.fromkeys(("aten::take", "aten::put", "aten::put_"), _bounded("index", _numel, _TAKE, negative=True)),
    # aten/src/ATen/native/cuda/Indexing.cu
    "aten::index_select": _bounded("index", _size_along, _SELECT),
    **dict.fromkeys(
        ("aten::index_add", "aten::index_add_", "aten::index_reduce", "aten::index_reduce_"),
        _bounded("index", _size_along, _ADD),
    ),
    "aten::embedding": _bounded("indices", _rows, _SELECT),
    # aten/src/ATen/native/cuda/ScatterGatherKernel.cu
    **dict.fromkeys(
        (
            "aten::gather",
            *(f"aten::{name}{ending}" for name in ("scatter", "scatter_add", "scatter_reduce") for ending in ("", "_")),
        ),
        _bounded("index", _size_along, _SCATTER),
    ),
    # aten/src/ATen/native/cuda/EmbeddingBag.cu
    **dict.fromkeys(("aten::_embedding_bag", "aten::_embedding_bag_forward_only"), _bounded("indices", _rows, _BAG)),
    # aten/src/ATen/native/cuda/Loss.cu, NLLLoss2d.cu, MultiMarginLoss.cu
    **dict.fromkeys(("aten::nll_loss_forward", "aten::nll_loss2d_forward"), _labels),
    "aten::multi_margin_loss": _bounded("target", _classes, _MARGIN),
    "aten::binary_cross_entropy": _probabilities(_UNIT),
    # aten/src/ATen/native/cuda/DistributionBernoulli.cu, MultinomialKernel.cu, TensorCompare.cu
    **dict.fromkeys(("aten::bernoulli", "aten::bernoulli_"), _probabilities(_CHANCE)),
    "aten::multinomial": _distribution,
    "aten::_assert_async": _condition,
}
