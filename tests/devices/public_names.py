"""The public names of PyTorch's modules about devices, in the release that is installed, and a minimal use of each."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import types
import typing
from typing import Any

import torch

from pytest_evalcheck.devices.release import TORCH_RELEASE

PACKAGES = ("torch.cuda", "torch.mps", "torch.accelerator", "torch.backends", "torch.amp", "torch.profiler")
_NOT_IMPORTED = ("torch.backends.xeon",)  # a script

# What a parameter of this name is given. `kind` is the type of the device, `d` the device, `x` a matrix on it.
PARAMETERS = {
    "_enabled": "True",
    "alloc_fn_name": "'allocate'",
    "allocator": "None",
    "autocast_instance": "torch.autocast(kind)",
    "bwd": "abs",
    "callables": "torch.nn.Linear(2, 2).to(d)",
    "cudaStream": "0",
    "cuda_graph": "None",
    "data_ptr": "0",
    "debug_mode": "0",
    "device": "d",
    "device_id": "0",
    "device_index": "0",
    "device_type": "kind",
    "devices": "[0]",
    "dir_name": "'traces'",
    "duration": "30",
    "enable": "False",
    "enabled": "True",
    "file": "'trace.gputrace'",
    "filename": "'results.csv'",
    "filename_pattern": "'*.csv'",
    "fraction": "0.5",
    "free_fn_name": "'free'",
    "func": "abs",
    "fwd": "abs",
    "getter": "abs",
    "index": "0",
    "inputs": "[x]",
    "iterations": "100",
    "major": "14",
    "mem_ptr": "0",
    "minor": "0",
    "msg": "'message'",
    "name": "'name'",
    "new_state": "torch.default_generator.get_state()",
    "new_states": "[torch.default_generator.get_state()]",
    "fname": "'trace.gputrace'",
    "num_gpus": "1",
    "obj": "x",
    "output_file": "'profile.txt'",
    "outputs": "[x]",
    "path": "'library.metallib'",
    "path_to_so_file": "'allocator.so'",
    "peer": "d",
    "peer_device": "d",
    "pool": "None",
    "range_id": "1",
    "buffer_size": "-1",
    "s": "torch.UntypedStorage(8)",
    "sample_args": "(x,)",
    "seed": "1",
    "setter": "abs",
    "size": "8",
    "source": "'kernel'",
    "stream": "module.current_stream()",
    "stream_ptr": "0",
    "tensor": "x",
    "tensors": "[x]",
    "val": "False",
    "value": "1",
}
# The arguments of a name whose parameters do not say enough.
ARGUMENTS = {
    "torch.amp.autocast": "kind",
    "torch.amp.autocast_mode.autocast": "kind",
    "torch.amp.autocast_mode.custom_bwd": "device_type=kind",
    "torch.amp.autocast_mode.custom_fwd": "device_type=kind",
    "torch.amp.custom_bwd": "device_type=kind",
    "torch.amp.custom_fwd": "device_type=kind",
    "torch.backends.cuda.SDPAParams": "x[None, None], x[None, None], x[None, None], None, 0.0, False{gqa}",
    "torch.backends.cuda.can_use_cudnn_attention": "{sdpa}",
    "torch.backends.cuda.can_use_efficient_attention": "{sdpa}",
    "torch.backends.cuda.can_use_flash_attention": "{sdpa}",
    "torch.backends.mha.set_fastpath_enabled": "True",
    "torch.backends.mkl.verbose": "0",
    "torch.backends.mkldnn.verbose": "0",
    "torch.backends.nnpack.set_flags": "True",
    "torch.cuda.CudaError": "1",
    "torch.cuda.DeferredCudaCallError": "'message'",
    "torch.cuda.OutOfMemoryError": "'message'",
    "torch.cuda.AcceleratorError": "'message'",
    "torch.cuda.check_error": "0",
    "torch.cuda.comm.broadcast": "x, [0]",
    "torch.cuda.comm.gather": "[x]",
    "torch.cuda.comm.scatter": "x, [0]",
    "torch.cuda.gds.GdsFile": "'file', 0",
    "torch.cuda.mem_get_info": "d",
    "torch.cuda.profiler.check_error": "0",
    "torch.cuda.set_stream": "torch.cuda.current_stream()",
    "torch.cuda.stream": "None",
    "torch.cuda.tunable.enable": "False",
    "torch.cuda.tunable.tuning_enable": "True",
    "torch.profiler.schedule": "wait=1, warmup=1, active=1",
    "torch.profiler.profiler.schedule": "wait=1, warmup=1, active=1",
}
# What has no module of its own, or is a method.
EXPRESSIONS = (
    "torch.device(0)",
    "torch.device(kind, 0)",
    "torch.get_device_module()",
    "torch.get_device_module(d)",
    "torch.get_default_device()",
    "torch.set_default_device(torch.get_default_device())",
    "torch.Generator(d).get_state()",
    "torch.UntypedStorage(8, device=d)",
    "torch.ones(2).to(0)",
    "torch.ones(2, device=0)",
    "torch.nn.Linear(1, 1).to(0)",
    "torch.autocast(kind)(abs)(1)",
    "torch.is_autocast_enabled(kind)",
    "torch.get_autocast_dtype(kind)",
    "torch.set_autocast_dtype(kind, torch.get_autocast_dtype(kind))",
    "torch.amp.GradScaler(kind).scale(x.sum())",
    "torch.amp.GradScaler(kind).state_dict()",
    "torch.random.fork_rng(devices=[0], device_type=kind).__enter__()",
    "torch.random.manual_seed(1)",
    "torch.to_dlpack(x)",
    "torch.utils.dlpack.to_dlpack(x)",
    "torch.from_dlpack(x)",
    "torch.autograd.profiler.profile(use_device=kind).__enter__()",
    "torch.autograd.profiler.emit_nvtx().__enter__()",
    "torch.utils.data.DataLoader([0], pin_memory=True).__iter__().__next__()",
    "torch.nn.DataParallel(torch.nn.Linear(2, 2).to(d))(x)",
)
OF_CUDA = (
    "x.record_stream(torch.get_device_module(d).current_stream())",
    "torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]).__enter__()",
    "torch.backends.cuda.cufft_plan_cache.max_size",
    "torch.backends.cuda.cufft_plan_cache.size",
    "torch.backends.cuda.cufft_plan_cache[0].clear()",
    "torch.cuda.cudart().cudaProfilerStart()",
    "torch.cuda.cudart().cudaMemGetInfo(0)",
    "torch.cuda.cudart().cudaHostRegister(0, 8, 0)",
    "torch.cuda.default_generators[0].get_state()",
    "torch.rand(2, device=d, generator=torch.cuda.default_generators[0])",
    "torch.cuda.jiterator._create_jit_fn('template <typename T> T f(T x) { return x; }')(x)",
    "torch.cuda.memory._record_memory_history()",
    "torch.cuda.memory._dump_snapshot('snapshot.pickle')",
    "torch.cuda.nccl.version()",
    "torch.cuda.nccl.unique_id()",
    "torch.cuda.current_stream().synchronize()",
    "torch.cuda._sleep(1)",
    "torch.cuda.FloatTensor([1.0])",
    "torch.cuda.FloatStorage(2)",
    "torch.version.cuda.split('.')",
)


def modules() -> list[str]:
    """Return those packages with their public modules, where this release has them."""
    found = []
    for name in PACKAGES:
        if not hasattr(torch, name.partition(".")[2]):
            continue
        below = [module.name for module in pkgutil.iter_modules(importlib.import_module(name).__path__, f"{name}.")]
        found += [name, *(each for each in below if not each.rpartition(".")[2].startswith("_"))]
    return [name for name in found if name not in _NOT_IMPORTED]


def names_of(module: str) -> list[str]:
    """Return the public names of a module: `__all__`, or else what is defined in it."""
    owner = importlib.import_module(module)
    owner = getattr(owner, "m", owner)  # torch.backends replaces modules by objects with properties
    listed = getattr(owner, "__all__", None)
    if listed is None:
        listed = [name for name, value in vars(owner).items() if getattr(value, "__module__", None) == module]
    values = {name: inspect.getattr_static(owner, name, None) for name in sorted(set(listed))}
    module_object = importlib.import_module(module)

    def is_public(name: str, value: Any) -> bool:
        if name.startswith("_") or isinstance(value, (types.ModuleType, typing.TypeVar)):
            return False
        machinery = isinstance(value, type) and issubclass(value, types.ModuleType)
        return not machinery and hasattr(module_object, name)

    return [name for name, value in values.items() if is_public(name, value)]


def arguments_of(module: str, name: str) -> str:
    """Python for the arguments of a minimal call. Raises LookupError where a parameter has no value above."""
    full = f"{module}.{name}"
    if full in ARGUMENTS:
        gqa = ", False" if TORCH_RELEASE >= (2, 5) else ""
        sdpa = "torch.backends.cuda.SDPAParams({})".format(ARGUMENTS["torch.backends.cuda.SDPAParams"])
        return ARGUMENTS[full].replace("{sdpa}", sdpa).replace("{gqa}", gqa)
    try:
        parameters = inspect.signature(getattr(importlib.import_module(module), name)).parameters.values()
    except (TypeError, ValueError):
        return ""
    open_ended = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    required = [each for each in parameters if each.default is each.empty and each.kind not in open_ended]
    if missing := [each.name for each in required if each.name not in PARAMETERS]:
        raise LookupError(f"{full}: add {', '.join(missing)} to PARAMETERS, or the name to ARGUMENTS")
    return ", ".join(
        f"{each.name}={PARAMETERS[each.name]}" if each.kind is each.KEYWORD_ONLY else PARAMETERS[each.name]
        for each in required
    )


def expressions(module: str) -> list[str]:
    """Python that uses each name of a module: it is read, and called where that is possible."""
    owner = importlib.import_module(module)
    found = []
    for name in names_of(module):
        value = inspect.getattr_static(getattr(owner, "m", owner), name, None)
        is_called = callable(value) and not hasattr(value, "__members__")  # an enumeration is read
        found.append(f"{module}.{name}({arguments_of(module, name)})" if is_called else f"{module}.{name}")
    return found


def use(expression: str, kind: str) -> Any:
    """Evaluate such an expression, and enter and leave what is a context."""
    device = torch.device(kind)
    module = (
        importlib.import_module(expression.partition("(")[0].rpartition(".")[0]) if "module." in expression else None
    )
    names = {"torch": torch, "module": module, "kind": kind, "d": device, "x": torch.ones(2, 2, device=device)}
    result = eval(expression, names)
    if hasattr(type(result), "__enter__") and hasattr(type(result), "__exit__"):
        with result:
            pass
    return result
