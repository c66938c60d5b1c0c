"""Scores that are kept on disk, under a key of all that they depend on."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_evalcheck.fixes.scoring.dependencies import content, fingerprint, undeclared
from pytest_evalcheck.fixes.scoring.pickling import dumps, loads

if TYPE_CHECKING:
    from pytest_evalcheck.fixes.scoring.worker import Outcome

# Part of every key: scores of a release that seeds or pickles differently are not found.
FORMAT = 4
_DIGEST = 16
_TABLE = "CREATE TABLE scores (key BLOB PRIMARY KEY, score BLOB)"
# Of the table, as SQLite keeps it in the file.
_RELEASE = 1


class ScoreCache:
    """A file of scores. Failures are not stored: they are scored again.

    Scores are pickled: open only files that you trust. A checksum finds damage, and no more than that. Several
    processes may use one file at a time.

    Raises:
        ValueError: for a path that is no file of scores, or one that cannot be read or written. A data base of
            something else is left as it is.

    Symptom: scores from a cache are those of another model, or of another version of the code.

    Before::

        KNOWN = {}

        def scores(score, documents, folder, model):
            keys = [(str(folder), repr(document)) for document in documents]
            return [KNOWN.setdefault(key, score(each)) for key, each in zip(keys, documents)]

    After::

        from pytest_evalcheck.fixes.scoring import score_documents

        def scores(score, documents, folder, model):
            return score_documents(score, documents, cache=folder / "scores.db", depends_on={"model": model})

    Costs: a hash of each document and one row of a database.

    Limits: only what is named in ``version`` and ``depends_on`` is looked at, besides the code of the function itself.

    Target: ec.scorer(inputs=es.responses()) with cached_scorer(scores)

    Shown by: EC408.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._connection: sqlite3.Connection | None = None
        self._process = -1

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """Give the open file."""
        try:
            if self._connection is None or self._process != os.getpid():  # a connection does not survive a fork
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._connection = sqlite3.connect(self.path, timeout=60, check_same_thread=False)
                self._process = os.getpid()
                _prepare(self._connection)
            yield self._connection
        except (sqlite3.Error, UnicodeDecodeError, OSError, _Foreign) as error:
            self.close()
            raise ValueError(
                f"cache: {self.path} is not a file of scores, or is damaged, full, locked or not writable ({error}); "
                "delete it if it is one, or name another file"
            ) from error

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Any]:
        """Return the scores of those keys that are known; one whose bytes were changed is not."""
        found: dict[bytes, Any] = {}
        for low in range(0, len(keys), 500):
            some = keys[low : low + 500]
            marks = ",".join("?" * len(some))
            with self._connected() as connection:
                rows = connection.execute(f"SELECT key, score FROM scores WHERE key IN ({marks})", some).fetchall()
            for key, score in rows:
                if isinstance(score, bytes) and score[:_DIGEST] == _digest(key, score[_DIGEST:]):
                    with suppress(Exception):  # of a class that does not exist any more
                        found[key] = loads(score[_DIGEST:])
        return found

    def put(self, scores: Mapping[bytes, Any]) -> None:
        """Store scores, at once: what was put survives whatever happens next. What cannot be pickled is left out."""
        packed: dict[bytes, bytes] = {}
        for key, score in scores.items():
            with suppress(Exception):
                packed[key] = dumps(score)
        with self._connected() as connection, connection:
            rows = ((key, _digest(key, score) + score) for key, score in packed.items())
            connection.executemany("INSERT OR REPLACE INTO scores VALUES (?, ?)", rows)

    def __len__(self) -> int:
        with self._connected() as connection:
            return int(connection.execute("SELECT COUNT(*) FROM scores").fetchone()[0])

    def close(self) -> None:
        """Close the file; it is opened again when it is used again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def __enter__(self) -> ScoreCache:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


class _Foreign(Exception):
    """A data base of something else."""


def _prepare(connection: sqlite3.Connection) -> None:
    """Create the table in an empty file; refuse to write into a data base of something else."""
    found = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type IN ('table', 'view', 'trigger')"))
    release = connection.execute("PRAGMA user_version").fetchone()[0]
    if release > _RELEASE:
        raise _Foreign("it was written by a later release of pytest-evalcheck")
    if not found:
        with connection:
            connection.execute(_TABLE.replace("TABLE", "TABLE IF NOT EXISTS"))
            connection.execute(f"PRAGMA user_version = {_RELEASE}")
    elif {name: " ".join(str(sql).split()) for name, sql in found.items()} != {"scores": _TABLE}:
        raise _Foreign(f"it holds {', '.join(sorted(found))} of something else")


def _digest(key: bytes, score: bytes) -> bytes:
    """Return a checksum of a score in the place of its key: a score that was moved to another key is found out."""
    return hashlib.blake2b(key + score, digest_size=_DIGEST).digest()


_UNDECLARED = (
    "cache: the scores of {name} are not kept: it {why}, and no dependency is declared. Pass version= a text that you "
    "change when its scores change, or depends_on= a list of the functions, modules, packages and files it uses"
)


class Lookup:
    """Access of a run to its cache; without one, nothing is known and nothing kept."""

    def __init__(
        self,
        cache: ScoreCache | str | os.PathLike[str] | None,
        *,
        score: Callable[..., Any],
        version: str | float | None,
        depends_on: Any,
        seed: int | None,
        guard: bool,
    ) -> None:
        self._cache = ScoreCache(cache) if isinstance(cache, (str, os.PathLike)) else cache
        if cache is not None and version is None and not depends_on and (why := undeclared(score)):
            self._cache = None
            name = getattr(score, "__qualname__", type(score).__qualname__)
            warnings.warn(_UNDECLARED.format(name=name, why=why), RuntimeWarning, stacklevel=4)
        if self._cache is not None:
            self._prefix = repr((FORMAT, fingerprint(score, version, depends_on), seed, guard)).encode()

    def find(self, documents: Sequence[Any]) -> tuple[list[bytes], dict[int, Any]]:
        """Return the keys of documents, and the known scores by place."""
        if self._cache is None:
            return [], {}
        keys = [self._key(document) for document in documents]
        found = self._cache.get([key for key in keys if key])
        return keys, {place: found[key] for place, key in enumerate(keys) if key in found}

    def _key(self, document: Any) -> bytes:
        try:
            found = content(document)
        except Exception:  # what cannot be seen is scored every time
            return b""
        return hashlib.blake2b(self._prefix + found.encode(), digest_size=20).digest()

    def keep(self, keys: Sequence[bytes], outcome: Outcome) -> None:
        """Store scores, but no failures."""
        if self._cache is None:
            return
        scores = enumerate(zip(keys, outcome.scores, strict=True))
        try:
            self._cache.put({key: score for place, (key, score) in scores if key and place not in outcome.failures})
        except ValueError as error:  # such as a full disk: what was scored is not to be lost with it
            self._cache = None
            warnings.warn(f"{error}; scores are not kept from here on", RuntimeWarning, stacklevel=2)
