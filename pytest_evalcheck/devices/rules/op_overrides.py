"""Which operators do not follow the general rule, as data: the operator, and what is different about it.

The general rule: all tensors of a call are on one device, CPU tensors without dimensions excepted, and so is the
result. An operator is named as in `torch.ops`; without an overload the line holds for all overloads of it.
"""

from __future__ import annotations

# The first tensor decides, the others are indices: on the same device or on the CPU.
# aten/src/ATen/native/TensorAdvancedIndexing.cpp, index(): "indices should be either on ..."
INDEXED = {
    "aten::index",
    "aten::_unsafe_index",
    "aten::index_put",
    "aten::index_put_",
    "aten::_index_put_impl_",
    "aten::_unsafe_index_put",
    "aten::_unsafe_masked_index",
    "aten::_unsafe_masked_index_put_accumulate",
}

# The first tensor is written, the other is read, wherever it is. aten/src/ATen/native/Copy.cpp
COPIES = {"aten::copy_", "aten::copy", "aten::_foreach_copy_", "aten::_foreach_copy"}

# The result is where the call says. aten/src/ATen/native/TensorConversions.cpp
CASTS = {"aten::_to_copy"}

# The host waits, as a value or a size is read. Which ones: the kernels that call item() or copy a count to the host.
SYNCS = {
    "aten::_local_scalar_dense",
    "aten::allclose",
    "aten::equal",
    "aten::masked_select",
    "aten::nonzero",
    "aten::_unique",
    "aten::_unique2",
    "aten::unique_consecutive",
    "aten::unique_dim",
    "aten::unique_dim_consecutive",
    "aten::bincount",
    "aten::repeat_interleave.Tensor",
}

# The host waits where an index is a mask, as the number of hits is a size.
MASKED = {"aten::index", "aten::_unsafe_index"}

# A CPU tensor without dimensions is refused too: the check is of the generated wrapper, not of TensorIterator.
# native_functions.yaml: those without `device_check: NoCheck` that can be given such a tensor
_STRICT = (
    "bucketize.Tensor clamp.Tensor clamp_.Tensor clamp_max.Tensor clamp_max_.Tensor clamp_min.Tensor "
    "clamp_min_.Tensor complex embedding equal gather gcd gcd_ huber_loss igamma igamma_ igammac igammac_ "
    "index_add index_add_ index_copy index_copy_ index_reduce index_reduce_ index_select isin lcm lcm_ "
    "logaddexp logaddexp2 masked_scatter_ masked_select multi_margin_loss nextafter nextafter_ "
    "nll_loss_forward polar put_ scatter scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_ "
    "searchsorted take addbmm addmm addmv addr baddbmm multilabel_margin_loss_forward _prelu_kernel _scaled_mm "
    "normal.Tensor_Tensor native_dropout_backward "
    # made of operators that are so, or with a TensorIterator that allows no CPU scalars
    "index_fill index_fill_ masked_fill.Scalar masked_fill.Tensor masked_fill_.Scalar "
    "masked_fill_.Tensor put binary_cross_entropy linalg_pinv.atol_rtol_tensor"
)
STRICT = {f"aten::{name}" for name in _STRICT.split()}

# Arguments that may be anywhere, as only their values, or their shape, are read.
# aten/src/ATen/native: TensorShape.cpp, whose *_scatter copy into a view; Resize.cpp; RangeFactories.cpp;
# Fill.cpp; cuda/Indexing.cu; TensorAdvancedIndexing.cpp
FREE = {
    "aten::slice_scatter": "src",
    "aten::diagonal_scatter": "src",
    "aten::select_scatter": "src",
    "aten::as_strided_scatter": "src",
    "aten::resize_as_": "the_template",
    "aten::linspace": "start end",
    "aten::logspace": "start end",
    "aten::fill.Tensor": "value",
    "aten::fill_.Tensor": "value",
    "aten::masked_fill.Tensor": "value",
    "aten::masked_fill_.Tensor": "value",
    "aten::index_fill.int_Tensor": "value",
    "aten::index_fill_.int_Tensor": "value",
}

# Lists are gone through one by one where they cannot be taken at once. aten/src/ATen/native/ForeachUtils.h
EACH = "aten::_foreach_"

# Kinds of device that have no kernel. torchgen/packaged/ATen/native/native_functions.yaml
LACKING = {
    "aten::histogram": {"cuda"},
    "aten::_histogramdd_bin_edges": {"cuda"},
    "aten::_histogramdd_from_bin_cts": {"cuda"},
    "aten::_histogramdd_from_bin_tensors": {"cuda"},
}

# These take tensors of several devices, and give what the first marked one says.
# The state of an optimiser counts its steps on the CPU: aten/src/ATen/native/ForeachUtils.h, "except `step` tensors".
# Lengths are read on the CPU: aten/src/ATen/native/PackedSequence.cpp.
ANYWHERE = {
    "aten::_fused_adam_",
    "aten::_fused_adamw_",
    "aten::_fused_sgd_",
    "aten::_fused_adagrad_",
    "aten::_pack_padded_sequence",
    "aten::_pack_padded_sequence_backward",
}
