"""Code that would load something from a network, which is not used here: its errors, and what it prints."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO

_LOADERS = ("evaluate.loading", "datasets.load", "nltk.data", "huggingface_hub", "requests", "urllib3", "httpx")
"""Modules, and packages, that find what is to be loaded on this machine or in a network."""


def loads(error: BaseException) -> bool:
    """Return whether an error comes from loading data, a metric or a model that is not on this machine."""
    names = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
    return any(f"{name}.".startswith(f"{loader}.") for name in names for loader in _LOADERS)


@contextmanager
def offline() -> Iterator[None]:
    """Loading a data set that is not on this machine fails at once."""
    import datasets
    import huggingface_hub.constants

    before = datasets.config.HF_DATASETS_OFFLINE, huggingface_hub.constants.HF_HUB_OFFLINE
    datasets.config.HF_DATASETS_OFFLINE = huggingface_hub.constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        datasets.config.HF_DATASETS_OFFLINE, huggingface_hub.constants.HF_HUB_OFFLINE = before


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
