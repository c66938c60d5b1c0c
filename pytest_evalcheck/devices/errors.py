"""Our own errors. What a device refuses is raised with the type and text that PyTorch has for it."""

from __future__ import annotations


class CannotSimulate(RuntimeError):
    """What was asked for exists on a real device but cannot be shown on a simulated one: not checkable here.

    `feature` is its short name (`"streams"`, `"torch.compile"`); the message says what to do.
    """

    def __init__(self, feature: str, advice: str) -> None:
        super().__init__(f"{feature} cannot be simulated: {advice}")
        self.feature = feature
        self.advice = advice

    def __reduce__(self) -> tuple[type[CannotSimulate], tuple[str, str]]:
        return type(self), (self.feature, self.advice)


class SimulationError(ValueError):
    """A simulation that is not possible: of an unknown device, of one that the machine has, or inside of another."""
