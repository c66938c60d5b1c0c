"""The rules of the simulated devices, as data: what each says, an example that runs, and its source in PyTorch.

An example is Python with `torch`, `np`, `x` (four floats on the device `d`), `i` (two indices on `d`) and `h` (four
floats on the CPU). Its result is on the device named in `gives`, or it raises the error type and text in `refused`.
"""

from __future__ import annotations

import dataclasses

from pytest_evalcheck.devices.rules.unsupported_dtypes import NO_FLOAT64, NOT_ON_MPS

BOTH, CUDA, MPS = ("cuda", "mps"), ("cuda",), ("mps",)
SAME = "Expected all tensors to be on the same device"
NO_NUMPY = "can't convert {d} device type tensor to numpy."
TWO = SAME + ", but found at least two devices, {} and {}!"
AT_INDEX = "indices should be either on cpu or on the same device as the indexed tensor (cpu)"

ITERATOR = "aten/src/ATen/TensorIterator.cpp, compute_types"
WRAPPER = "aten/src/ATen/core/op_registration/adaption.h, check_and_update_common_device"
SHAPE = "aten/src/ATen/native/TensorShape.cpp"
INDEXING = "aten/src/ATen/native/TensorAdvancedIndexing.cpp"
CONVOLUTION = "aten/src/ATen/native/Convolution.cpp, check_input_same_type_as_parameters"
LINEAR_MPS = "aten/src/ATen/native/mps/operations/LinearAlgebra.mm, checkAllSameGPU"
COPY = "aten/src/ATen/native/Copy.cpp"
COPY_MPS = "aten/src/ATen/native/mps/operations/Copy.mm"
PACKED = "aten/src/ATen/native/PackedSequence.cpp"
EMPTY_MPS = "aten/src/ATen/mps/EmptyTensor.cpp, MPS_ERROR_DOUBLE_NOT_SUPPORTED"
DTYPES_MPS = "aten/src/ATen/native/mps/OperationUtils.mm, getMPSDataType"
NEW = "torch/csrc/utils/tensor_new.cpp"
NUMPY = "torch/csrc/utils/tensor_numpy.cpp, tensor_to_numpy"
METHODS = "torch/csrc/autograd/python_variable_methods.cpp"
DEFAULT = "torch/utils/_device.py"
SAVED = "torch/serialization.py"
GRADIENT = "torch/csrc/autograd/functions/tensor.cpp"
ENGINE = "torch/csrc/autograd/engine.cpp, validate_outputs"
FILL = "aten/src/ATen/native/cuda/IndexKernel.cpp"
LEGACY = "torch/csrc/utils/tensor_types.cpp"
APPLY = "torch/csrc/utils/tensor_apply.cpp"
PIN = "aten/src/ATen/native/Memory.cpp"
DRIVER = "c10/cuda/CUDAFunctions.cpp"
GENERATOR = "aten/src/ATen/core/Generator.h, check_generator"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rule:
    """One rule. Exactly one of `gives` (a device, `{d}` is the simulated one) and `refused` is set."""

    name: str
    example: str
    source: str
    gives: str = ""
    refused: tuple[type[Exception], str] | None = None
    devices: tuple[str, ...] = BOTH


def _gives(name: str, example: str, source: str, gives: str = "{d}", devices: tuple[str, ...] = BOTH) -> Rule:
    return Rule(name=name, example=example, gives=gives, source=source, devices=devices)


def _refuses(
    name: str,
    example: str,
    source: str,
    text: str = SAME,
    kind: type[Exception] = RuntimeError,
    devices: tuple[str, ...] = BOTH,
) -> Rule:
    return Rule(name=name, example=example, refused=(kind, text), source=source, devices=devices)


def _no_dtype(name: str, example: str, text: str = NO_FLOAT64, source: str = EMPTY_MPS) -> Rule:
    return _refuses(name, example, source, text, TypeError, MPS)


RESULTS = (
    _gives("a result is where its inputs are", "x * 2 + x", ITERATOR),
    _gives("a view is where its base is", "x.view(2, 2).T[0]", SHAPE),
    _gives("several results are all on the device", "torch.topk(x, 2)[1]", WRAPPER),
    _gives("a new tensor is on the CPU", "torch.ones(2)", NEW, "cpu"),
    _gives("zeros_like keeps the device", "torch.zeros_like(x)", "aten/src/ATen/native/TensorFactories.cpp"),
    _gives("new_tensor keeps the device", "x.new_tensor([1.0])", NEW + ", new_tensor"),
    _gives("a new tensor is on the default device", "use(d, lambda: torch.ones(2))", DEFAULT),
    _gives("the legacy constructor ignores a default device", "use(d, lambda: torch.Tensor([1.0]))", DEFAULT, "cpu"),
    _gives("a tensor from NumPy is on the CPU", "torch.from_numpy(np.ones(2))", NUMPY, "cpu"),
    _gives("a gradient is where its tensor is", "grad(lambda h: h.to(d).sum(), h)", GRADIENT, "cpu"),
    _gives("a CPU scalar has a CPU gradient", "grad(lambda s: (x * s).sum(), torch.tensor(1.0))", ENGINE, "cpu"),
)
MIXED_DEVICES = (
    _gives("a CPU tensor without dimensions goes with any device", "x + torch.tensor(1.0)", ITERATOR),
    _gives("a CPU tensor without dimensions may come first", "torch.tensor(1.0) + x", ITERATOR),
    _gives("where takes a CPU tensor without dimensions", "torch.where(x > 1, x, torch.tensor(0.0))", ITERATOR),
    _gives("masked_fill takes a CPU value", "x.masked_fill(x > 1, torch.tensor(0.0))", FILL),
    _gives("a number has no device", "torch.where(x > 1, x, 0.0)", ITERATOR),
    _refuses("a CPU tensor with dimensions does not mix", "x + h", ITERATOR, TWO.format("{d}", "cpu")),
    _refuses("a CPU tensor of one element has a dimension", "x + torch.ones(1)", ITERATOR),
    _refuses("a CPU tensor with dimensions may not come first", "h + x", ITERATOR, TWO.format("cpu", "{d}")),
    _refuses("a tensor that is written is on the device", "torch.tensor(1.0).add_(x[0])", ITERATOR),
    _refuses("out= is on the device", "torch.add(x, x, out=torch.empty(4))", ITERATOR),
    _refuses("matrices are on one device", "torch.mm(x.view(2, 2), h.view(2, 2))", WRAPPER, devices=CUDA),
    _refuses(
        "matrices are on one device, in the words of MPS",
        "torch.mm(x.view(2, 2), h.view(2, 2))",
        LINEAR_MPS,
        "Tensor for argument #2 'mat2' is on CPU, but expected it to be on GPU (while checking arguments for mm)",
        devices=MPS,
    ),
    _refuses("weights and inputs are on one device", "torch.nn.functional.linear(h, x)", WRAPPER),
    _refuses("tensors that are joined are on one device", "torch.cat([x, h])", WRAPPER),
    _refuses("numbers that are stacked are on one device", "torch.stack([x[0], h[0]])", SHAPE + ", stack"),
    _refuses(
        "blocks of a diagonal are on one device",
        "torch.block_diag(x, h)",
        SHAPE + ", block_diag",
        "must all be on the same device. Input 0 is on device {d} and input 1 is on device cpu",
    ),
    _refuses(
        "indices to take along a dimension are with the tensor",
        "torch.take_along_dim(x, i.cpu(), 0)",
        INDEXING + ", take_along_dim",
        "Expected tensor to have {d} Device, but got tensor with cpu Device (while checking arguments for "
        "torch.take_along_dim():)",
    ),
    _refuses(
        "which quantile is with the values",
        "torch.quantile(x, torch.tensor(0.5))",
        "aten/src/ATen/native/Sorting.cpp, quantile_checks",
        "quantile() q tensor must be on the same device as the input tensor",
    ),
    _gives("a composite takes what its parts take", "torch.dist(x, torch.tensor(1.0))", ITERATOR),
    _refuses(
        "ids of an embedding are with its table",
        "torch.nn.functional.embedding(i.cpu(), x.view(2, 2))",
        "aten/src/ATen/native/Embedding.cpp, embedding",
        "in method wrapper_CUDA__index_select)",
        devices=CUDA,
    ),
    _refuses(
        "what MPS makes a graph of is on the device",
        "torch.nn.functional.embedding(i.cpu(), x.view(2, 2))",
        "aten/src/ATen/native/mps/OperationUtils.mm, Placeholder",
        "Placeholder storage has not been allocated on MPS device!",
        devices=MPS,
    ),
    _refuses(
        "weights of a convolution are with its input",
        "torch.nn.functional.conv1d(x.view(1, 1, 4), torch.ones(1, 1, 1))",
        CONVOLUTION,
        "Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same",
        devices=CUDA,
    ),
    _refuses(
        "weights of a convolution are with its input, in the words of MPS",
        "torch.nn.functional.conv1d(x.view(1, 1, 4), torch.ones(1, 1, 1))",
        CONVOLUTION,
        "Input type (MPSFloatType) and weight type (torch.FloatTensor) should be the same",
        devices=MPS,
    ),
    _refuses(
        "the input of a convolution is with its weights",
        "torch.nn.functional.conv1d(h.view(1, 1, 4), x.view(1, 1, 4))",
        CONVOLUTION,
        "Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same",
        devices=CUDA,
    ),
    _refuses(
        "the input of a convolution is with its weights, in the words of MPS",
        "torch.nn.functional.conv2d(h.view(1, 1, 2, 2), x.view(1, 1, 2, 2))",
        "aten/src/ATen/native/mps/operations/Convolution.mm, slow_conv2d_forward_mps",
        "slow_conv2d_forward_mps: input(device='cpu') and weight(device={d}') must be on the same device",
        devices=MPS,
    ),
    _refuses(
        "the first state of a recurrent layer is with its input",
        "torch.nn.GRU(1, 1).to(d)(x.view(4, 1, 1), torch.zeros(1, 1, 1))",
        "aten/src/ATen/native/RNN.cpp, check_attributes",
        "Input and hidden tensors are not at the same device, found input tensor at {d} and hidden tensor at cpu",
    ),
    _refuses(
        "weights of a recurrent layer are with its input",
        "torch.nn.GRU(1, 1)(x.view(4, 1, 1))",
        "aten/src/ATen/native/RNN.cpp, check_attributes",
        "Input and parameter tensors are not at the same device, found input tensor at {d} and parameter tensor at cpu",
    ),
    _refuses(
        "a mask to fill is with what it fills",
        "x.masked_fill_(h > 1, 0.0)",
        "aten/src/ATen/native/cuda/IndexKernel.cpp and mps/operations/Indexing.mm, masked_fill_",
        "expected self and mask to be on the same device, but got mask on cpu and self on {d}",
    ),
    _refuses(
        "memory that a tensor is given is on its device",
        "torch.empty(0).set_(x.untyped_storage())",
        "aten/src/ATen/native/Resize.h, checkSetStorage",
        'storage of a tensor on device "cpu" to a storage on different device "{d}".',
    ),
    _refuses(
        "steps of a fused optimizer are on the device",
        "torch._fused_adamw_([x], [x], [x], [x], [], [torch.tensor(1.0)], lr=0.1, beta1=0.9, beta2=0.9,"
        " weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False)",
        WRAPPER,
        "in method wrapper_CUDA___fused_adamw_)",
        devices=CUDA,
    ),
    _refuses("gather takes no CPU index without dimensions", "torch.gather(x, 0, torch.tensor(0))", WRAPPER),
    _refuses("clamp takes no CPU bound without dimensions", "x.clamp(min=torch.tensor(0.0))", WRAPPER),
    _refuses(
        "two devices of a kind do not mix",
        "x + x.to('cuda:1')",
        ITERATOR,
        TWO.format("cuda:0", "cuda:1"),
        devices=CUDA,
    ),
    _refuses("two kinds do not mix", "x + x.to('mps')", ITERATOR, TWO.format("cuda:0", "mps:0"), devices=CUDA),
)
INDICES = (
    _gives("a CPU index into a device tensor", "x[i.cpu()]", INDEXING),
    _gives("a CPU mask into a device tensor", "x[h > 1]", INDEXING),
    _gives("a CPU number put into a device tensor", "put(x, i, torch.tensor(1.0))", INDEXING),
    _refuses("no device index into a CPU tensor", "h[i]", INDEXING, AT_INDEX),
    _refuses("no device mask into a CPU tensor", "h[x > 1]", INDEXING, AT_INDEX),
    _refuses("no CPU values put at device indices", "put(x, i, torch.ones(2))", INDEXING),
    _refuses(
        "tensor_split takes no indices on the device",
        "torch.tensor_split(h, i)",
        SHAPE,
        "tensor_split expected tensor_indices_or_sections to be on cpu, but it's on {d}",
    ),
    _refuses(
        "lengths of a packed sequence are on the CPU",
        "torch.nn.utils.rnn.pack_padded_sequence(x.view(2, 2, 1), i + 2, enforce_sorted=False)",
        PACKED,
        "'lengths' argument should be a 1D CPU int64 tensor, but got 1D {d} Long tensor",
        devices=CUDA,
    ),
    _gives(
        "counts of a packed sequence are on the CPU",
        "torch.nn.utils.rnn.pack_padded_sequence(x.view(2, 2, 1), torch.tensor([2, 1]))[1]",
        PACKED,
        "cpu",
    ),
)
TRANSFERS = (
    _gives("copy_ copies to the device", "x.copy_(h)", COPY),
    _gives("copy_ copies from the device", "h.copy_(x)", COPY, "cpu"),
    _gives("a slice is set across devices", "put(x, slice(2), torch.ones(2))", INDEXING),
    _gives("to another tensor's device", "h.to(x)", METHODS),
    _gives("to another tensor's type", "h.type_as(x)", METHODS),
    _gives("by index", "h.to(0)", "torch/csrc/utils/python_arg_parser.h, toDevice"),
    _gives("by the legacy name of a type", "h.type('torch.cuda.FloatTensor')", LEGACY, devices=CUDA),
    _gives("a module as a whole", "torch.nn.Linear(2, 2).to(d).weight", "torch/nn/modules/module.py"),
    _gives("load with map_location", "reload(h, d)", SAVED),
    _gives("load to the device that was saved", "reload(x, None)", SAVED),
    _refuses(
        "a gradient from another device is not assigned",
        "setattr(torch.ones(4, requires_grad=True), 'grad', x)",
        "torch/csrc/autograd/python_variable.cpp, THPVariable_set_grad",
        "attempting to assign a gradient with device type '{k}' to a tensor with device type 'cpu'",
    ),
)
CPU_ONLY = (
    _refuses(
        "no NumPy array shares device memory",
        "x.numpy()",
        NUMPY,
        NO_NUMPY + " Use Tensor.cpu() to copy the tensor to host memory first.",
        TypeError,
    ),
    _refuses("NumPy does not convert", "np.asarray(x)", NUMPY, NO_NUMPY, TypeError),
    _refuses("no apply_", "x.apply_(float)", APPLY, "apply_ is only implemented on CPU tensors", TypeError),
    _refuses("no pinning", "x.pin_memory()", PIN, "only dense CPU tensors can be pinned", devices=CUDA),
    _refuses(
        "a generator draws on its own device",
        "torch.rand(2, device=d, generator=torch.Generator())",
        GENERATOR,
        "Expected a '{k}' device type for generator but found 'cpu'",
    ),
    _refuses(
        "a generator draws on its own device in place",
        "h.normal_(generator=torch.Generator(d))",
        GENERATOR,
        "Expected a 'cpu' device type for generator but found '{k}'",
    ),
    _refuses(
        "a permutation is drawn on the very device of its generator",
        "torch.randperm(3, device=d, generator=torch.Generator())",
        "aten/src/ATen/native/TensorFactories.cpp, randperm_out",
        "Expected a '{d}' generator device but found 'cpu'",
    ),
    _refuses(
        "the state of random numbers is on the CPU",
        "torch.set_rng_state(torch.get_rng_state().to(d))",
        "aten/src/ATen/core/Generator.h, check_rng_state",
        "RNG state must be a torch.ByteTensor",
        TypeError,
    ),
    _refuses("no unknown index", "h.to('cuda:7')", DRIVER, "CUDA error: invalid device ordinal", devices=CUDA),
)
DTYPES = (
    _no_dtype("float64 from a factory", "torch.ones(2, dtype=torch.float64, device=d)"),
    _no_dtype("float64 from data", "torch.tensor(np.ones(2), device=d)"),
    _no_dtype("float64 from an array", "torch.as_tensor(np.ones(2), device=d)"),
    _no_dtype("float64 by a transfer", "h.double().to(d)"),
    _no_dtype("float64 by a transfer before a cast", "h.double().to(d).float()"),
    _no_dtype("float64 by a cast", "x.double()"),
    _no_dtype("float64 as the dtype of a sum", "x.sum(dtype=torch.float64)"),
    _no_dtype("float64 by a default dtype", "of_double(lambda: torch.ones(2, device=d))"),
    _no_dtype("float64 of a module", "torch.nn.Linear(2, 2).double().to(d)"),
    _gives("float64 is cast by the transfer", "h.double().to(d, torch.float32)", COPY_MPS, devices=MPS),
    _gives("float64 is cast by copy_", "x.copy_(h.double())", COPY_MPS, devices=MPS),
    _gives(
        "a CPU float64 without dimensions takes the other's type",
        "x * torch.tensor(2.0, dtype=torch.float64)",
        ITERATOR,
        devices=MPS,
    ),
    _no_dtype("complex128", "x.to(torch.complex128)", NOT_ON_MPS.format("ComplexDouble"), DTYPES_MPS),
    _no_dtype("float8", "h.to(d, torch.float8_e4m3fn)", NOT_ON_MPS.format("Float8_e4m3fn"), DTYPES_MPS),
    _gives("CUDA has float64", "h.double().to(d)", "c10/core/ScalarType.h", devices=CUDA),
)
TABLES = {
    "Where results are": RESULTS,
    "Tensors on several devices": MIXED_DEVICES,
    "Indices": INDICES,
    "Transfers": TRANSFERS,
    "What only the CPU does": CPU_ONLY,
    "Dtypes": DTYPES,
}
"""The rules by their subject."""
RULES = tuple(rule for rules in TABLES.values() for rule in rules)
