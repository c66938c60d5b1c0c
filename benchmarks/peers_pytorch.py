"""What PyTorch's own tests of an older release need of the `torch.testing._internal` that is installed."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any


def same(test: Any = None, *_: Any, **__: Any) -> Any:
    """A decorator that changes nothing, with or without arguments."""
    return test if callable(test) else same


# Names that a release dropped, with what stands for them: the tests of releases before it import them.
DROPPED: dict[str, dict[str, Any]] = {
    "common_utils": {"skipIfMps": same, "BUILD_WITH_CAFFE2": False},
    "common_cuda": {"tf32_is_not_fp32": lambda: False},
    "common_mkldnn": {"bf32_on_and_off": same},
}


def prepare() -> None:
    """Add the names that are missing, for this process."""
    for name, values in DROPPED.items():
        module = importlib.import_module(f"torch.testing._internal.{name}")
        for key, value in values.items():
            if not hasattr(module, key):
                setattr(module, key, value)
    # Every test on CUDA would run on a stream of its own.
    devices = importlib.import_module("torch.testing._internal.common_device_type")
    devices.CUDATestBase._do_cuda_non_default_stream = False
    methods = importlib.import_module("torch.testing._internal.common_methods_invocations")
    if not hasattr(methods, "binary_ufuncs_and_refs"):
        references = [op for op in methods.python_ref_db if isinstance(op, methods.ElementwiseBinaryPythonRefInfo)]
        methods.binary_ufuncs_and_refs = [*methods.binary_ufuncs, *references]
    nn = importlib.import_module("torch.testing._internal.common_nn")
    if not hasattr(nn, "new_module_tests"):
        with contextlib.suppress(AttributeError):
            nn.new_module_tests = nn.get_new_module_tests()
