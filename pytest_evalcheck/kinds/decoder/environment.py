"""What belongs to a decoder and is not its cache: weights, modes, configurations."""

from __future__ import annotations

from typing import Any

from pytest_evalcheck.guard import Snapshot
from pytest_evalcheck.kinds.decoder.record import Decoder


class Surroundings:
    """What a decoder is made of, as it was."""

    def __init__(self, record: Decoder) -> None:
        self._model, self._modes = record.model, _modes(record.model)
        self._weights = Snapshot(_weights(record.model), "weights")
        given = record.configuration or (lambda: _configurations(record.model))
        self._configuration = Snapshot(given(), "configuration")

    def changes(self) -> list[str]:
        """What is different now."""
        # A cache may be a module as well, and come or go.
        now = {name: mode for name, mode in _modes(self._model).items() if self._modes.get(name, mode) != mode}
        modes = [f"{name or 'the model'}.training became {mode}" for name, mode in now.items()]
        return [*self._configuration.changes(), *self._weights.changes(), *modes]


def _modes(model: Any) -> dict[str, bool]:
    found = model.named_modules() if hasattr(model, "named_modules") else ()
    return {name: bool(getattr(module, "training", False)) for name, module in found}


def _weights(model: Any) -> dict[str, Any]:
    return dict(model.named_parameters()) if hasattr(model, "named_parameters") else {}


def _configurations(model: Any) -> dict[str, Any]:
    return {name: getattr(model, name) for name in ("config", "generation_config") if hasattr(model, name)}
