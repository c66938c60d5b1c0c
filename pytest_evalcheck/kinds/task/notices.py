"""Texts that code gives beside its result: warnings, and records of loggers."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


class _Kept(logging.Handler):
    def __init__(self, texts: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._texts = texts

    def emit(self, record: logging.LogRecord) -> None:
        self._texts.append(record.getMessage())


@contextmanager
def noticed() -> Iterator[list[str]]:
    """Give the texts of warnings in this block, of the module `warnings` and of all loggers."""
    texts: list[str] = []
    loggers = [each for each in logging.Logger.manager.loggerDict.values() if isinstance(each, logging.Logger)]
    # A logger that does not propagate would be missed at the root.
    handled = [logging.getLogger(), *(each for each in loggers if not each.propagate)]
    handler = _Kept(texts)
    for logger in handled:
        logger.addHandler(handler)
    try:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            yield texts
            texts += [str(each.message) for each in found]
    finally:
        for logger in handled:
            logger.removeHandler(handler)
