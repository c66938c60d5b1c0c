"""What a run is asked to do, and its report."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_evalcheck.fixes.scoring.cache import ScoreCache

AUTO, SERIAL, THREADS, PROCESSES, DASK, RAY, CONTEXT = "auto", "serial", "threads", "processes", "dask", "ray", "joblib"
# The names of joblib, for users who know those.
_ALIASES = {**{name: name for name in (AUTO, SERIAL, THREADS, PROCESSES, DASK, RAY, CONTEXT)}, "loky": PROCESSES}
_ALIASES |= {"sequential": SERIAL, "threading": THREADS}
_NOT_STOPPED = {SERIAL: "in this process", THREADS: "in threads", DASK: "in the threads of Dask's workers"}


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
    backend: str = AUTO
    timeout: float | None = None
    errors: str = "raise"
    seed: int | None = 0
    chunk: int | str = "auto"
    window: int | None = None
    cache: ScoreCache | str | os.PathLike[str] | None = None
    depends_on: Mapping[str, Any] | None = None
    document_id: str | Callable[[Any], Any] = "id"
    guard: bool = False
    progress: bool | Callable[[int], Any] = False

    def __post_init__(self) -> None:
        if self.backend not in set(_ALIASES.values()):
            near = difflib.get_close_matches(str(self.backend), _ALIASES, n=1)
            hint = f"; did you mean {_ALIASES[near[0]]!r}?" if near else ""
            expected = ", ".join(map(repr, dict.fromkeys(_ALIASES.values())))
            raise ValueError(f"backend: expected one of {expected}, got {self.backend!r}{hint}")
        if isinstance(self.chunk, str) and self.chunk != "auto":
            raise ValueError(f'chunk: expected "auto" or a number of documents, got {self.chunk!r}')
        for name, least in {"n_jobs": None, "chunk": 1, "window": 1, "seed": None}.items():
            value = getattr(self, name)
            if value is None or value == "auto":
                continue
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"{name}: expected a whole number, got {value!r}")
            if least is not None and value < least:
                raise ValueError(f"{name}: expected {least} or more, got {value}")
        if self.n_jobs == 0:
            raise ValueError("n_jobs: expected a number of workers, or -1 for all cores, got 0")
        if self.errors not in ("raise", "record"):
            raise ValueError(f"errors: expected one of 'raise', 'record', got {self.errors!r}")
        if not (self.depends_on is None or isinstance(self.depends_on, Mapping)):
            raise TypeError(f"depends_on: expected a mapping of names to values, got {type(self.depends_on).__name__}")
        if not (isinstance(self.document_id, str) or callable(self.document_id)):
            raise TypeError(f"document_id: expected a key or a function of a document, got {self.document_id!r}")
        if not (self.cache is None or isinstance(self.cache, (str, os.PathLike, ScoreCache))):
            raise TypeError(f"cache: expected a path or a ScoreCache, got {type(self.cache).__name__}")
        if self.timeout is not None:
            number = isinstance(self.timeout, (int, float)) and not isinstance(self.timeout, bool)
            if not (number and self.timeout > 0):
                raise ValueError(f"timeout: expected a number of seconds above 0, or None, got {self.timeout!r}")
        self.check_timeout(self.backend)

    def opened_cache(self) -> ScoreCache | None:
        """Return the cache, opened where it was named."""
        return ScoreCache(self.cache) if isinstance(self.cache, (str, os.PathLike)) else self.cache

    def check_timeout(self, backend: str) -> None:
        """Raise where no document could be stopped: a thread cannot be stopped from outside."""
        if self.timeout is not None and backend in _NOT_STOPPED:
            raise ValueError(
                f'timeout: documents are scored {_NOT_STOPPED[backend]} with backend="{backend}", where nothing can '
                'stop one for good; use backend="processes" or "ray", or give the score function a limit of its own'
            )
