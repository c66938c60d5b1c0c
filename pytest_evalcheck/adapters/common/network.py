"""Errors of code that loads something from a network, which is not used here."""

from __future__ import annotations

import traceback

_LOADERS = ("evaluate.loading", "datasets.load", "nltk.data", "huggingface_hub", "requests", "urllib3", "httpx")
"""Modules, and packages, that find what is to be loaded on this machine or in a network."""


def loads(error: BaseException) -> bool:
    """Return whether an error comes from loading data, a metric or a model that is not on this machine."""
    names = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
    return any(f"{name}.".startswith(f"{loader}.") for name in names for loader in _LOADERS)
