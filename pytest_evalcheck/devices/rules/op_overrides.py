"""Operators that do not follow the general rule, as data: the operator, and what is different about it.

The general rule: all tensors of a call are on one device, CPU tensors without dimensions excepted, and so is the
result. An operator is named as in `torch.ops`; without an overload the line holds for all overloads of it.
"""

from __future__ import annotations


def _aten(names: str) -> frozenset[str]:
    return frozenset(f"aten::{name}" for name in names.split())


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

# No size is read where the caller gives it: aten/src/ATen/native/cuda/Repeat.cu
SYNCS_WITHOUT = {"aten::repeat_interleave.Tensor": "output_size"}

# Indices on the CPU are copied to the device, and the host waits for a mask, whose hits are a size: modes/indexing.py
READS_INDICES = _aten("index _unsafe_index index_put index_put_ _index_put_impl_ _unsafe_index_put")

# A CPU tensor without dimensions is refused too, which the generated check of a kernel does (`native_functions.py`).
# These have no such check. A TensorIterator that allows no CPU scalars: aten/src/ATen/native/cuda/Loss.cu,
# binary_cross_entropy; TensorAdvancedIndexing.cpp, index_fill_; cuda/Indexing.cu, masked_fill_. A tolerance that is
# given a dimension first: LinearAlgebra.cpp, linalg_pinv. A kernel that takes pointers alone, whatever its
# TensorIterator allows (cuda/Loops.cuh: "expected a CUDA device but found cpu"): as a device answered, with torch 2.11.
STRICT = _aten(
    "binary_cross_entropy index_fill_ masked_fill_.Scalar masked_fill_.Tensor linalg_pinv.atol_rtol_tensor "
    "addcdiv addcdiv_ addcmul addcmul_ lerp lerp_ mse_loss smooth_l1_loss"
)

# Their one argument that may be a number of the CPU all the same. cuda/PointwiseOpsKernel.cu: "CPU Scalar support for
# tensor2 is supported"; cuda/Lerp.cu has a kernel for such a weight.
SCALARS = {
    **dict.fromkeys(_aten("addcmul addcmul_"), "tensor2"),
    **dict.fromkeys(_aten("lerp.Tensor lerp_.Tensor"), "weight"),
}

# CUDA's kernel counts integers, that of the CPU does not: they are counted as numbers of float64, which holds them.
# aten/src/ATen/native/cuda/SummaryOps.cu, _histc_cuda. Mixtures of experts in transformers count tokens so.
COUNTS_INTEGERS = _aten("histc")

# The result is made beside the first tensor and given to a TensorIterator, which takes none on the CPU: a CPU tensor
# without dimensions may not come first. aten/src/ATen/native: BinaryOps.cpp, comparison_op; Loss.cpp, soft_margin_loss
FIRST_DECIDES = _aten("logical_and logical_or logical_xor soft_margin_loss")

# Composites that call other kernels where their tensors are on the CPU, so that their parts here decide nothing.
# aten/src/ATen/native/Convolution.cpp, _select_conv_backend
SELECTS_BY_DEVICE = _aten("convolution convolution_backward _convolution")

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
