"""Code that would load something from a network, which is not used here: its errors, and what it prints."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib import import_module
from importlib.util import find_spec
from io import StringIO

_LOADERS = ("evaluate.loading", "datasets.load", "nltk.data", "huggingface_hub", "requests", "urllib3", "httpx")
"""Modules, and packages, that find what is to be loaded on this machine or in a network."""


def loads(error: BaseException) -> bool:
    """Return whether an error comes from loading data, a metric or a model that is not on this machine."""
    names = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
    return any(f"{name}.".startswith(f"{loader}.") for name in names for loader in _LOADERS)


@contextmanager
def offline() -> Iterator[None]:
    """Loading a data set, or a metric of evaluate, that is not on this machine fails at once."""
    import huggingface_hub.constants

    places = [(huggingface_hub.constants, "HF_HUB_OFFLINE")]
    for library, name in (("datasets", "HF_DATASETS_OFFLINE"), ("evaluate", "HF_EVALUATE_OFFLINE")):
        if find_spec(library):
            places.append((import_module(f"{library}.config"), name))
    before = [getattr(place, name) for place, name in places]
    for place, name in places:
        setattr(place, name, True)
    try:
        yield
    finally:
        for (place, name), value in zip(places, before, strict=True):
            setattr(place, name, value)


@contextmanager
def quiet() -> Iterator[None]:
    """Code of a task may log, print and show progress."""
    from datasets.utils.logging import disable_progress_bar

    disable_progress_bar()
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            yield
    finally:
        logging.disable(level)
