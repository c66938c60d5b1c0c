"""A metric that scores nothing and remembers what it was given."""

from __future__ import annotations

from typing import Any

from pytest_evalcheck.kinds.wrapper.outputs import settled


class Probe:
    """Looks like a metric on a device to whoever feeds it."""

    def __init__(self, device: str = "cpu") -> None:
        import torch

        self.device = torch.device(device)
        self.given: list[Any] = []

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Remember a copy of the arguments."""
        self.given.append({**{str(i): settled(arg) for i, arg in enumerate(args)}, **settled(kwargs)})

    __call__ = forward = update

    def compute(self) -> Any:
        """What every update was given."""
        return list(self.given)

    def reset(self) -> None:
        """Forget it."""
        self.given = []

    def to(self, *_: Any, **__: Any) -> Probe:
        """Stay where it is."""
        return self
