"""What a run is asked to do, and what it says of what it did."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_evalcheck.fixes.scoring.backends import DASK, SERIAL, THREADS, checked_backend
from pytest_evalcheck.fixes.scoring.cache import ScoreCache

ERRORS = ("raise", "record")


@dataclass
class RunReport:
    """What a run did: where, with how many workers and why there; its documents; how often workers were lost."""

    backend: str = ""
    n_jobs: int = 1
    why: str = ""
    documents: int = 0
    computed: int = 0
    cached: int = 0
    failed: int = 0
    lost_workers: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Options:
    """The keywords of `stream_scores`, checked."""

    n_jobs: int | None = None
    backend: str = "auto"
    timeout: float | None = None
    errors: str = "raise"
    seed: int | None = 0
    chunk: int | str = "auto"
    window: int | None = None
    cache: ScoreCache | str | os.PathLike[str] | None = None
    depends_on: Mapping[str, Any] = field(default_factory=dict)
    document_id: str | Callable[[Any], Any] = "id"
    guard: bool = False
    progress: bool | Callable[[int], Any] = False

    def __post_init__(self) -> None:
        checked_backend(self.backend)
        if self.n_jobs is not None:
            _whole("n_jobs", self.n_jobs, low=None)
            if self.n_jobs == 0:
                raise ValueError("n_jobs: expected a number of workers, or -1 for all cores, got 0")
        if self.chunk != "auto":
            if isinstance(self.chunk, str):
                raise ValueError(f'chunk: expected "auto" or a number of documents, got {self.chunk!r}')
            _whole("chunk", self.chunk, low=1)
        if self.window is not None:
            _whole("window", self.window, low=1)
        if self.seed is not None:
            _whole("seed", self.seed, low=None)
        if self.errors not in ERRORS:
            raise ValueError(f"errors: expected one of {', '.join(map(repr, ERRORS))}, got {self.errors!r}")
        if not isinstance(self.depends_on, Mapping):
            raise TypeError(f"depends_on: expected a mapping of names to values, got {type(self.depends_on).__name__}")
        if not (isinstance(self.document_id, str) or callable(self.document_id)):
            raise TypeError(f"document_id: expected a key or a function of a document, got {self.document_id!r}")
        self._check_timeout()

    def _check_timeout(self) -> None:
        if self.timeout is None:
            return
        if isinstance(self.timeout, bool) or not isinstance(self.timeout, (int, float)) or not self.timeout > 0:
            raise ValueError(f"timeout: expected a number of seconds above 0, or None, got {self.timeout!r}")
        refuse_timeout(self.backend)

    def opened_cache(self) -> ScoreCache | None:
        """Return the cache, opened where it was named."""
        if self.cache is None or isinstance(self.cache, ScoreCache):
            return self.cache
        if isinstance(self.cache, (str, os.PathLike)):
            return ScoreCache(self.cache)
        raise TypeError(f"cache: expected a path or a ScoreCache, got {type(self.cache).__name__}")


def refuse_timeout(backend: str) -> None:
    """Raise where nothing could stop a document: a thread cannot be stopped from outside."""
    if backend in (SERIAL, THREADS, DASK):
        where = {SERIAL: "in this process", THREADS: "in threads", DASK: "in the threads of Dask's workers"}[backend]
        raise ValueError(
            f'timeout: documents are scored {where} with backend="{backend}", where nothing can stop one for good; use '
            'backend="processes" or "ray", or give the score function a limit of its own'
        )


def _whole(name: str, value: Any, *, low: int | None) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}: expected a whole number, got {value!r}")
    if low is not None and value < low:
        raise ValueError(f"{name}: expected {low} or more, got {value}")
