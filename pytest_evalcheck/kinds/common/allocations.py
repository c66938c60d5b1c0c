"""Size of the tensors that a call makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def largest_tensor(call: Callable[[], Any]) -> int:
    """The elements of the largest tensor that an operator returned while the call ran; 0 where there was none.

    >>> import torch
    >>> largest_tensor(lambda: torch.bincount(torch.tensor([0, 99])).nonzero())
    100
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    most = 0

    class Watch(TorchDispatchMode):  # type: ignore[misc]
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False  # the wrapper that this avoids imports torch._dynamo, for 1.2 s of CPU in each process

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal most
            result = func(*args, **(kwargs or {}))
            several = result if isinstance(result, (tuple, list)) else (result,)
            most = max(most, *(each.numel() if isinstance(each, torch.Tensor) else 0 for each in several), 0)
            return result

    with Watch():
        call()
    return most
