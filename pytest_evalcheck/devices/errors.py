"""Our own errors. What a device refuses is raised with the type and text that PyTorch has for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class CannotSimulate(RuntimeError):
    """Error for what exists on a real device but cannot be shown on a simulated one: not checkable here.

    `feature` is its short name (`"streams"`, `"torch.compile"`); the message says what to do.
    """

    def __init__(self, feature: str, advice: str) -> None:
        super().__init__(f"{feature} cannot be simulated: {advice}")
        self.feature = feature
        self.advice = advice
        for listener in LISTENERS:
            listener(self)

    def __reduce__(self) -> tuple[type[CannotSimulate], tuple[str, str]]:
        return type(self), (self.feature, self.advice)


LISTENERS: list[Callable[[CannotSimulate], Any]] = []
"""Functions that are called with every new `CannotSimulate`: code under test may catch it as a `RuntimeError`."""


class SimulationError(ValueError):
    """A simulation that is not possible: of an unknown device, of one that the machine has, or inside of another."""


class UnsynchronizedAccess(RuntimeError):
    """Memory was used while the device could still be at work on it; on the device itself its values are undefined.

    `race` has both places: the `Race` in the ledger.
    """

    def __init__(self, race: Any) -> None:
        super().__init__(str(race))
        self.race = race

    def __reduce__(self) -> tuple[type[UnsynchronizedAccess], tuple[Any]]:
        return type(self), (self.race,)


class UnsynchronizedAccessWarning(UserWarning):
    """The same as a warning: `simulate` warns unless it is asked for an error."""
