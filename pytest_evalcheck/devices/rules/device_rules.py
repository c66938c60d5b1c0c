"""The rules of the simulated devices, as data: what each says, an example that runs, and where it comes from.

An example is Python with `torch`, `np`, `x` (four floats on the device `d`), `i` (two indices on `d`) and `h` (four
floats on the CPU). It ends on the device named in `gives`, or is refused with the error type and text in `refused`.
"""

from __future__ import annotations

import dataclasses

from pytest_evalcheck.devices.rules.unsupported_dtypes import NO_FLOAT64, NOT_ON_MPS

BOTH = ("cuda", "mps")
SAME = "Expected all tensors to be on the same device"
ITERATOR = "aten/src/ATen/TensorIterator.cpp, compute_types"
WRAPPER = "aten/src/ATen/core/op_registration/adaption.h, check_and_update_common_device"
INDEXING = "aten/src/ATen/native/TensorAdvancedIndexing.cpp"
COPY = "aten/src/ATen/native/Copy.cpp"
EMPTY_MPS = "aten/src/ATen/mps/EmptyTensor.cpp, MPS_ERROR_DOUBLE_NOT_SUPPORTED"
NUMPY = "torch/csrc/utils/tensor_numpy.cpp, tensor_to_numpy"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rule:
    """One rule. Exactly one of `gives` (a device, `{d}` is the simulated one) and `refused` is set."""

    name: str
    example: str
    source: str
    gives: str = ""
    refused: tuple[type[Exception], str] | None = None
    devices: tuple[str, ...] = BOTH


def _gives(name: str, example: str, gives: str, source: str, devices: tuple[str, ...] = BOTH) -> Rule:
    return Rule(name=name, example=example, gives=gives, source=source, devices=devices)


def _refuses(
    name: str, example: str, kind: type[Exception], text: str, source: str, devices: tuple[str, ...] = BOTH
) -> Rule:
    return Rule(name=name, example=example, refused=(kind, text), source=source, devices=devices)


RULES = (
    # Where results are.
    _gives("a result is where its inputs are", "x * 2 + x", "{d}", ITERATOR),
    _gives("a view is where its base is", "x.view(2, 2).T[0]", "{d}", "aten/src/ATen/native/TensorShape.cpp"),
    _gives("several results are all on the device", "torch.topk(x, 2)[1]", "{d}", WRAPPER),
    _gives("a new tensor is on the CPU", "torch.ones(2)", "cpu", "torch/csrc/utils/tensor_new.cpp"),
    _gives(
        "a tensor like another is where it is", "torch.zeros_like(x)", "{d}", "aten/src/ATen/native/TensorFactories.cpp"
    ),
    _gives(
        "a tensor of a tensor is where it is",
        "x.new_tensor([1.0])",
        "{d}",
        "torch/csrc/utils/tensor_new.cpp, new_tensor",
    ),
    _gives(
        "a default device is where new tensors are", "use(d, lambda: torch.ones(2))", "{d}", "torch/utils/_device.py"
    ),
    _gives(
        "the legacy constructor ignores a default device",
        "use(d, lambda: torch.Tensor([1.0]))",
        "cpu",
        "torch/utils/_device.py",
    ),
    _gives("what NumPy holds is on the CPU", "torch.from_numpy(np.ones(2))", "cpu", NUMPY),
    _gives(
        "a gradient is where its tensor is",
        "grad(lambda h: h.to(d).sum(), h)",
        "cpu",
        "torch/csrc/autograd/functions/tensor.cpp",
    ),
    _gives(
        "a gradient comes back from a CPU scalar",
        "grad(lambda s: (x * s).sum(), torch.tensor(1.0))",
        "cpu",
        "torch/csrc/autograd/engine.cpp, validate_outputs",
    ),
    # Devices that mix.
    _gives("a CPU tensor without dimensions goes with any device", "x + torch.tensor(1.0)", "{d}", ITERATOR),
    _gives("in either place", "torch.tensor(1.0) + x", "{d}", ITERATOR),
    _gives("in where too", "torch.where(x > 1, x, torch.tensor(0.0))", "{d}", ITERATOR),
    _gives(
        "as the value that is filled in",
        "x.masked_fill(x > 1, torch.tensor(0.0))",
        "{d}",
        "aten/src/ATen/native/cuda/IndexKernel.cpp",
    ),
    _gives("a number has no device", "torch.where(x > 1, x, 0.0)", "{d}", ITERATOR),
    _refuses(
        "a CPU tensor with dimensions does not",
        "x + h",
        RuntimeError,
        SAME + ", but found at least two devices, {d} and cpu!",
        ITERATOR,
    ),
    _refuses("one of one element has a dimension", "x + torch.ones(1)", RuntimeError, SAME, ITERATOR),
    _refuses(
        "in either place either",
        "h + x",
        RuntimeError,
        SAME + ", but found at least two devices, cpu and {d}!",
        ITERATOR,
    ),
    _refuses("what is written is on the device", "torch.tensor(1.0).add_(x[0])", RuntimeError, SAME, ITERATOR),
    _refuses("so is the place for a result", "torch.add(x, x, out=torch.empty(4))", RuntimeError, SAME, ITERATOR),
    _refuses("matrices are together", "torch.mm(x.view(2, 2), h.view(2, 2))", RuntimeError, SAME, WRAPPER),
    _refuses("weights and inputs are together", "torch.nn.functional.linear(h, x)", RuntimeError, SAME, WRAPPER),
    _refuses("what is joined is together", "torch.cat([x, h])", RuntimeError, SAME, WRAPPER),
    _refuses(
        "what is embedded is with its table",
        "torch.nn.functional.embedding(i.cpu(), x.view(2, 2))",
        RuntimeError,
        SAME,
        WRAPPER,
    ),
    _refuses(
        "an index without dimensions does not mix where indices are gathered",
        "torch.gather(x, 0, torch.tensor(0))",
        RuntimeError,
        SAME,
        WRAPPER,
    ),
    _refuses("nor a bound of clamp", "x.clamp(min=torch.tensor(0.0))", RuntimeError, SAME, WRAPPER),
    _refuses(
        "two devices of a kind do not mix",
        "x + x.to('cuda:1')",
        RuntimeError,
        SAME + ", but found at least two devices, cuda:0 and cuda:1!",
        ITERATOR,
        ("cuda",),
    ),
    _refuses(
        "nor do two kinds",
        "x + x.to('mps')",
        RuntimeError,
        SAME + ", but found at least two devices, cuda:0 and mps:0!",
        ITERATOR,
        ("cuda",),
    ),
    # Indices.
    _gives("a CPU index into a device tensor", "x[i.cpu()]", "{d}", INDEXING),
    _gives("a CPU mask into a device tensor", "x[h > 1]", "{d}", INDEXING),
    _gives("a CPU number put into a device tensor", "put(x, i, torch.tensor(1.0))", "{d}", INDEXING),
    _refuses(
        "not a device index into a CPU tensor",
        "h[i]",
        RuntimeError,
        "indices should be either on cpu or on the same device as the indexed tensor (cpu)",
        INDEXING,
    ),
    _refuses(
        "not a device mask into a CPU tensor",
        "h[x > 1]",
        RuntimeError,
        "indices should be either on cpu or on the same device as the indexed tensor (cpu)",
        INDEXING,
    ),
    _refuses("CPU values put at device indices", "put(x, i, torch.ones(2))", RuntimeError, SAME, INDEXING),
    _refuses(
        "not a device list of cuts",
        "torch.tensor_split(h, i)",
        RuntimeError,
        "tensor_split expected tensor_indices_or_sections to be on cpu, but it's on {d}",
        "aten/src/ATen/native/TensorShape.cpp",
    ),
    _refuses(
        "not device lengths of what is packed",
        "torch.nn.utils.rnn.pack_padded_sequence(x.view(2, 2, 1), i + 2, enforce_sorted=False)",
        RuntimeError,
        "'lengths' argument should be a 1D CPU int64 tensor, but got 1D {d} Long tensor",
        "aten/src/ATen/native/PackedSequence.cpp",
        ("cuda",),
    ),
    _gives(
        "what is packed keeps its counts on the CPU",
        "torch.nn.utils.rnn.pack_padded_sequence(x.view(2, 2, 1), torch.tensor([2, 1]))[1]",
        "cpu",
        "aten/src/ATen/native/PackedSequence.cpp",
    ),
    # What crosses.
    _gives("copy_ crosses to the device", "x.copy_(h)", "{d}", COPY),
    _gives("copy_ crosses from the device", "h.copy_(x)", "cpu", COPY),
    _gives("a slice is set across devices", "put(x, slice(2), torch.ones(2))", "{d}", INDEXING),
    _gives("to another tensor's device", "h.to(x)", "{d}", "torch/csrc/autograd/python_variable_methods.cpp"),
    _gives("to another tensor's type", "h.type_as(x)", "{d}", "torch/csrc/autograd/python_variable_methods.cpp"),
    _gives("by index", "h.to(0)", "{d}", "torch/csrc/utils/python_arg_parser.h, toDevice"),
    _gives(
        "by the old name of a type",
        "h.type('torch.cuda.FloatTensor')",
        "{d}",
        "torch/csrc/utils/tensor_types.cpp",
        ("cuda",),
    ),
    _gives("a module as a whole", "torch.nn.Linear(2, 2).to(d).weight", "{d}", "torch/nn/modules/module.py"),
    _gives("what is loaded where it is sent", "reload(h, d)", "{d}", "torch/serialization.py"),
    _gives("what is loaded where it was", "reload(x, None)", "{d}", "torch/serialization.py"),
    _refuses(
        "data does not become that of another device",
        "setattr(torch.ones(4, requires_grad=True), 'grad', x)",
        RuntimeError,
        "attempting to assign a gradient with device type '{k}' to a tensor with device type 'cpu'",
        "torch/csrc/autograd/python_variable.cpp, THPVariable_set_grad",
    ),
    # What only the CPU can do.
    _refuses(
        "no NumPy array shares device memory",
        "x.numpy()",
        TypeError,
        "can't convert {d} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.",
        NUMPY,
    ),
    _refuses(
        "nor does one come of itself",
        "np.asarray(x)",
        TypeError,
        "can't convert {d} device type tensor to numpy.",
        NUMPY,
    ),
    _refuses(
        "a function is applied to CPU tensors",
        "x.apply_(float)",
        TypeError,
        "apply_ is only implemented on CPU tensors",
        "torch/csrc/utils/tensor_apply.cpp",
    ),
    _refuses(
        "CPU memory is pinned",
        "x.pin_memory()",
        RuntimeError,
        "only dense CPU tensors can be pinned",
        "aten/src/ATen/native/Memory.cpp",
        ("cuda",),
    ),
    _refuses(
        "a generator draws on its own device",
        "torch.rand(2, device=d, generator=torch.Generator())",
        RuntimeError,
        "Expected a '{k}' device type for generator but found 'cpu'",
        "aten/src/ATen/core/Generator.h, check_generator",
    ),
    _refuses(
        "so it does in place",
        "h.normal_(generator=torch.Generator(d))",
        RuntimeError,
        "Expected a 'cpu' device type for generator but found '{k}'",
        "aten/src/ATen/core/Generator.h, check_generator",
    ),
    _refuses(
        "a device has a number that exists",
        "h.to('cuda:7')",
        RuntimeError,
        "CUDA error: invalid device ordinal",
        "c10/cuda/CUDAFunctions.cpp",
        ("cuda",),
    ),
    # What MPS unsupported_dtypes.
    _refuses(
        "float64 is not made on MPS",
        "torch.ones(2, dtype=torch.float64, device=d)",
        TypeError,
        NO_FLOAT64,
        EMPTY_MPS,
        ("mps",),
    ),
    _refuses("nor of data", "torch.tensor(np.ones(2), device=d)", TypeError, NO_FLOAT64, EMPTY_MPS, ("mps",)),
    _refuses(
        "nor of an array that stays",
        "torch.as_tensor(np.ones(2), device=d)",
        TypeError,
        NO_FLOAT64,
        EMPTY_MPS,
        ("mps",),
    ),
    _refuses("nor moved there", "h.double().to(d)", TypeError, NO_FLOAT64, EMPTY_MPS, ("mps",)),
    _refuses("nor moved there to be cast then", "h.double().to(d).float()", TypeError, NO_FLOAT64, EMPTY_MPS, ("mps",)),
    _refuses("nor cast there", "x.double()", TypeError, NO_FLOAT64, EMPTY_MPS, ("mps",)),
    _refuses("nor as the type of a sum", "x.sum(dtype=torch.float64)", TypeError, NO_FLOAT64, EMPTY_MPS, ("mps",)),
    _refuses(
        "nor by a default dtype",
        "of_double(lambda: torch.ones(2, device=d))",
        TypeError,
        NO_FLOAT64,
        EMPTY_MPS,
        ("mps",),
    ),
    _refuses("nor a module's", "torch.nn.Linear(2, 2).double().to(d)", TypeError, NO_FLOAT64, EMPTY_MPS, ("mps",)),
    _gives(
        "it is cast on the way",
        "h.double().to(d, torch.float32)",
        "{d}",
        "aten/src/ATen/native/mps/operations/Copy.mm",
        ("mps",),
    ),
    _gives(
        "or into what is there", "x.copy_(h.double())", "{d}", "aten/src/ATen/native/mps/operations/Copy.mm", ("mps",)
    ),
    _gives(
        "a CPU float64 without dimensions takes the other's type",
        "x * torch.tensor(2.0, dtype=torch.float64)",
        "{d}",
        ITERATOR,
        ("mps",),
    ),
    _refuses(
        "nor complex128",
        "x.to(torch.complex128)",
        TypeError,
        NOT_ON_MPS.format("ComplexDouble"),
        "aten/src/ATen/native/mps/OperationUtils.mm, getMPSDataType",
        ("mps",),
    ),
    _refuses(
        "nor float8",
        "h.to(d, torch.float8_e4m3fn)",
        TypeError,
        NOT_ON_MPS.format("Float8_e4m3fn"),
        "aten/src/ATen/native/mps/OperationUtils.mm, getMPSDataType",
        ("mps",),
    ),
    _gives("CUDA has float64", "h.double().to(d)", "{d}", "c10/core/ScalarType.h", ("cuda",)),
)
