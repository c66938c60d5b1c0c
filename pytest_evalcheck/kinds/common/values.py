"""Looking at results and states: order, copies, precision."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from pytest_evalcheck.kinds.common.tensors import each_tensor


def carries_order(result: Any, samples: int) -> bool:
    """Whether the result is a sequence with one entry a sample."""
    return hasattr(result, "shape") and len(result.shape) > 0 and int(result.shape[0]) == samples


def as_multiset(result: Any) -> list[Any]:
    """The entries of a result, sorted, so that only their order is forgotten."""
    return sorted(result.tolist(), key=repr)


def detached(result: Any) -> Any:
    """A copy that shares no memory with the result."""
    return copy.deepcopy(each_tensor(result, lambda t: t.detach().clone()))


def resolution(result: Any) -> float:
    """The relative spacing of the coarsest floating dtype in a result: 2**-10 for float16, 2**-7 for bfloat16."""
    import torch

    found = [0.0]

    def see(tensor: Any) -> Any:
        if tensor.is_floating_point():
            found.append(torch.finfo(tensor.dtype).eps)
        return tensor

    each_tensor(result, see)
    return max(found)


def changed_dtypes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """One line for every state tensor whose dtype is another one than before."""
    return [
        f"{name}: {before[name].dtype} became {now.dtype}"
        for name, now in after.items()
        if hasattr(now, "dtype") and hasattr(before.get(name), "dtype") and now.dtype != before[name].dtype
    ]
