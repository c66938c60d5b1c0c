"""The checks of devices that PyTorch generates, read from the file that it generates them from.

An operator with a kernel of its own for CUDA is wrapped in a check that all its tensors are on one device, those
without dimensions too, unless the file says `device_check: NoCheck` (torchgen/dest/register_dispatch_key.py).
What has no such check may still refuse: TensorIterator, and kernels, check for themselves.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import torchgen

FILE = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native" / "native_functions.yaml"
OWN_KERNEL = re.compile(r"^    [^#\n]*\bCUDA\b[^:\n]*:|^  structured_delegate:", re.MULTILINE)


@functools.cache
def exact() -> frozenset[str]:
    """The operators with a generated check, as `aten.add.Tensor`."""
    blocks = re.split(r"^- func: ", FILE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return frozenset(_name(each) for each in blocks if OWN_KERNEL.search(each) and "device_check: NoCheck" not in each)


def checked(func: Any) -> bool:
    """Return whether an operator has one."""
    return str(func) in exact()


def _name(block: str) -> str:
    name = block.partition("(")[0]
    return f"aten.{name}" if "." in name else f"aten.{name}.default"
