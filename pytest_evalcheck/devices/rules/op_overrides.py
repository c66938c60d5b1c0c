"""Which operators do not follow the general rule, as data: the operator, and what is different about it.

The general rule: all tensors of a call are on one device, CPU tensors without dimensions excepted, and so is the
result. An operator is named as in `torch.ops`; without an overload the line holds for all overloads of it.
"""

from __future__ import annotations


def _aten(names: str) -> frozenset[str]:
    return frozenset(f"aten::{name}" for name in names.split())


# Kinds of device that have no kernel. torchgen/packaged/ATen/native/native_functions.yaml
NO_KERNEL = dict.fromkeys(
    _aten("histogram _histogramdd_bin_edges _histogramdd_from_bin_cts _histogramdd_from_bin_tensors"),
    frozenset({"cuda"}),
)

# The first tensor decides, the others are indices: on the same device or on the CPU.
# aten/src/ATen/native/TensorAdvancedIndexing.cpp, index(): "indices should be either on ..."
INDEXED = _aten(
    "index _unsafe_index index_put index_put_ _index_put_impl_ _unsafe_index_put _unsafe_masked_index "
    "_unsafe_masked_index_put_accumulate"
)

# Operators that the dispatch mode treats in a way of their own.
SPECIAL = {
    # The first tensor is written, the other is read, wherever it is. aten/src/ATen/native/Copy.cpp
    "copy": _aten("copy_ copy _foreach_copy_ _foreach_copy"),
    # The result is where the call says. aten/src/ATen/native/TensorConversions.cpp
    "cast": _aten("_to_copy"),
    # The memory of another tensor, which is on the same device. aten/src/ATen/native/Resize.h, checkSetStorage
    "set": _aten("set_"),
    # Data that becomes a tensor. Operators without tensors among their arguments are treated in this way too.
    "create": _aten("lift_fresh lift lift_fresh_copy"),
}

# Lists are gone through one by one where they cannot be taken at once. aten/src/ATen/native/ForeachUtils.h
FOREACH = "aten::_foreach_"

# Operators among processes. rules/collectives.py
COLLECTIVES = ("c10d::", "_c10d_functional::")

# The host waits, as a value or a size is read. Which ones: the kernels that call item() or copy a count to the host.
SYNCS = _aten(
    "_local_scalar_dense allclose equal masked_select nonzero _unique _unique2 unique_consecutive unique_dim "
    "unique_dim_consecutive bincount repeat_interleave.Tensor"
)

# The host waits where an index is a mask, as the number of hits is a size.
SYNCS_ON_MASK = _aten("index _unsafe_index")

# A CPU tensor without dimensions is refused too: the check is of the generated wrapper, not of TensorIterator.
# native_functions.yaml: those without `device_check: NoCheck` that can be given such a tensor
STRICT = _aten(
    "bucketize.Tensor clamp.Tensor clamp_.Tensor clamp_max.Tensor clamp_max_.Tensor clamp_min.Tensor "
    "clamp_min_.Tensor complex embedding equal gather gcd gcd_ huber_loss igamma igamma_ igammac igammac_ "
    "index_add index_add_ index_copy index_copy_ index_reduce index_reduce_ index_select isin lcm lcm_ "
    "logaddexp logaddexp2 masked_scatter_ masked_select multi_margin_loss nextafter nextafter_ "
    "nll_loss_forward polar put_ scatter scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_ "
    "searchsorted take addbmm addmm addmv addr baddbmm multilabel_margin_loss_forward _prelu_kernel _scaled_mm "
    "_fused_adam_ _fused_adamw_ _fused_sgd_ _fused_adagrad_ normal.Tensor_Tensor native_dropout_backward "
    # made of operators that are so, or with a TensorIterator that allows no CPU scalars
    "index_fill index_fill_ masked_fill.Scalar masked_fill.Tensor masked_fill_.Scalar "
    "masked_fill_.Tensor put binary_cross_entropy linalg_pinv.atol_rtol_tensor"
)

# Arguments that may be on any device, as only their values, or their shape, are read.
# aten/src/ATen/native: TensorShape.cpp, whose *_scatter copy into a view; Resize.cpp; RangeFactories.cpp;
# Fill.cpp; cuda/Indexing.cu; TensorAdvancedIndexing.cpp
FREE = {
    **dict.fromkeys(_aten("slice_scatter diagonal_scatter select_scatter as_strided_scatter"), "src"),
    **dict.fromkeys(_aten("resize_as_"), "the_template"),
    **dict.fromkeys(_aten("is_same_size"), "self other"),
    **dict.fromkeys(_aten("linspace logspace"), "start end"),
    **dict.fromkeys(_aten("fill.Tensor fill_.Tensor masked_fill.Tensor masked_fill_.Tensor"), "value"),
    **dict.fromkeys(_aten("index_fill.int_Tensor index_fill_.int_Tensor"), "value"),
}

# These take tensors on several devices; the first marked one determines where the result is.
# Lengths are read on the CPU: aten/src/ATen/native/PackedSequence.cpp.
MIXED = _aten("_pack_padded_sequence _pack_padded_sequence_backward")
