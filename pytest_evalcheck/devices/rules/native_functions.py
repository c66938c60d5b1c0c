"""Kernels that the installed PyTorch registers for a device, from the file from which its dispatcher is generated.

`torchgen/packaged/ATen/native/native_functions.yaml` is part of every release. It is no more than divided at first use
(about 3 ms). The lines of an operator are read when its plan is made.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from pathlib import Path

import torch

_DISPATCH = re.compile(r"^    ([A-Z]\w*(?:, *[A-Z]\w*)*):", re.MULTILINE)
_DELEGATE = re.compile(r"^  structured_delegate: ([\w.]+)", re.MULTILINE)
_AUTOGEN = re.compile(r"^  autogen: (.+)", re.MULTILINE)
_UFUNC = "\n  ufunc_inner_loop:"
_UFUNC_KEYS = frozenset({"CPU", "CUDA"})  # torchgen/model.py, UFUNC_DISPATCH_KEYS
_COMPOSITE = frozenset({"CompositeImplicitAutograd", "CompositeExplicitAutograd"})
# Not for sparse tensors: c10/core/DispatchKeySet.cpp, non_functional_backend_dispatch_keyset
_NON_FUNCTIONAL = "CompositeExplicitAutogradNonFunctional"
_DENSE = frozenset({"CPU", "CUDA", "MPS"})


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """Statements of the file about one operator."""

    keys: frozenset[str]
    """The dispatch keys with a kernel of its own, those of composites included. None at all is a composite too."""
    delegate: str
    """The structured operator that does its work, or an empty string."""
    original: str
    """The operator that this one, which torchgen adds, is made of, or an empty string."""
    checked: bool
    """True where torchgen writes a check of devices in front of the kernel for CUDA, which takes no CPU scalars."""
    structured: bool = False
    """True where torchgen writes the kernel from a structured one."""


def file() -> Path | None:
    """The installed file, or None where a distribution of PyTorch leaves it out."""
    path = Path(torch.__file__).parent.parent / "torchgen" / "packaged" / "ATen" / "native" / "native_functions.yaml"
    return path if path.is_file() else None


@functools.cache
def _blocks() -> dict[str, str]:
    path = file()
    text = "" if path is None else path.read_text(encoding="utf-8")
    return {block[: block.index("(")]: block for block in text.split("\n- func: ")[1:]}


@functools.cache
def _generated() -> dict[str, str]:
    """The operators that torchgen adds (`autogen:`), each with the one that it is made of."""
    found: dict[str, str] = {}
    for name, block in _blocks().items():
        names = _AUTOGEN.search(block) if "autogen:" in block else None
        if names is not None:
            found |= {each.strip(): name for each in names.group(1).split(",")}
    return found


@functools.cache
def entry(name: str) -> Entry | None:
    """Return the entry of an operator, named as in the file: `mode`, `heaviside.out`. None where there is none."""
    block = _blocks().get(name)
    if block is None:
        original = _generated().get(name)
        return (
            None if original is None else Entry(frozenset({"CompositeExplicitAutograd"}), "", original, checked=False)
        )
    keys = {key.strip() for line in _DISPATCH.findall(block) for key in line.split(",")}
    if _UFUNC in block:
        keys |= _UFUNC_KEYS
    delegate = _DELEGATE.search(block)
    # torchgen/dest/register_dispatch_key.py, gen_device_check
    checked = ("CUDA" in keys or delegate is not None) and "\n  device_check: NoCheck" not in block
    return Entry(frozenset(keys), delegate.group(1) if delegate else "", "", checked, "structured" in block)


def operators() -> list[str]:
    """Return all operators: those of the file, and those that torchgen adds."""
    return [*_blocks(), *_generated()]


def lacking(name: str, key: str, on_cpu: str = "CPU") -> str:
    """The operator whose kernel is missing when `name` is called with tensors of the dispatch key `key`.

    An empty string means that nothing is missing, or that nothing is known. What has no kernel for the CPU either
    (`on_cpu`) cannot be called here. The missing one is another operator for a structured operator, whose kernel is
    that of its `.out` form, and for a form that torchgen makes of another one.
    """
    found = entry(name)
    if found is None:
        return ""
    if found.original:
        return lacking(found.original, key, on_cpu)
    if not found.keys and not found.delegate:  # a composite that is not declared as one
        return ""
    if key in found.keys or found.keys & _COMPOSITE:
        return ""
    if key in _DENSE:
        if _NON_FUNCTIONAL in found.keys:
            return ""
        if found.delegate:
            return lacking(found.delegate, key, on_cpu)
    return name if on_cpu in found.keys else ""
