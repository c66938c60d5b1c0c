"""Names that an older release's tests of PyTorch need and the installed `torch.testing._internal` lacks."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

import torch


def unchanged(test: Any = None, *_: Any, **__: Any) -> Any:
    """A decorator that changes nothing, with or without arguments."""
    return test if callable(test) else unchanged


# Names that a release dropped, with what stands for them: the tests of releases before it import them.
DROPPED: dict[str, dict[str, Any]] = {
    "common_utils": {"skipIfMps": unchanged, "BUILD_WITH_CAFFE2": False},
    "common_cuda": {"tf32_is_not_fp32": lambda: False},
    "common_mkldnn": {"bf32_on_and_off": unchanged},
}


class OwnStreams:
    """Runs a test on a stream of its own on every device, as PyTorch does, but by public functions."""

    def __enter__(self) -> None:
        self.current = torch.cuda.current_device()
        self.before = [torch.cuda.current_stream(device) for device in range(torch.cuda.device_count())]
        for device in range(len(self.before)):
            torch.cuda.set_stream(torch.cuda.Stream(device))
        torch.cuda.set_device(self.current)

    def __exit__(self, *_: object) -> None:
        current = torch.cuda.current_device()
        for stream in self.before:
            torch.cuda.set_stream(stream)
        torch.cuda.set_device(current)


def prepare() -> None:
    """Add the names that are missing, for this process."""
    for name, values in DROPPED.items():
        module = importlib.import_module(f"torch.testing._internal.{name}")
        for key, value in values.items():
            if not hasattr(module, key):
                setattr(module, key, value)
    importlib.import_module("torch.testing._internal.common_utils").CudaNonDefaultStream = OwnStreams
    methods = importlib.import_module("torch.testing._internal.common_methods_invocations")
    if not hasattr(methods, "binary_ufuncs_and_refs"):
        references = [op for op in methods.python_ref_db if isinstance(op, methods.ElementwiseBinaryPythonRefInfo)]
        methods.binary_ufuncs_and_refs = [*methods.binary_ufuncs, *references]
    nn = importlib.import_module("torch.testing._internal.common_nn")
    if not hasattr(nn, "new_module_tests"):
        with contextlib.suppress(AttributeError):
            nn.new_module_tests = nn.get_new_module_tests()
