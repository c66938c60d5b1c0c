"""What the trainings of all loops have in common: how long they are, and what becomes of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

STEPS = 4
"""How many steps a training takes; it is interrupted after half of them."""


def outcome(losses: Sequence[float], model: Any) -> dict[str, Any]:
    """The loss of every step, and the parameters at the end."""
    parameters = {name: each.detach().clone() for name, each in model.named_parameters()}
    return {"losses": list(losses), "parameters": parameters}
