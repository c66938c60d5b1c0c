"""Scores that are kept on disk, under a key of all that they depend on."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_evalcheck.fixes.scoring.errors import needed
from pytest_evalcheck.fixes.scoring.fingerprint import fingerprint
from pytest_evalcheck.fixes.scoring.pickling import dumps, loads

if TYPE_CHECKING:
    from pytest_evalcheck.fixes.scoring.worker import Outcome

# Part of every key: scores of a release that seeds or pickles differently are not found.
FORMAT = 2
_DIGEST = 16


class ScoreCache:
    """A file of scores. Failures are not stored: they are scored again.

    Scores are pickled: open only files that you trust. A checksum finds damage, and no more than that. Several
    processes may use one file at a time.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._connection: sqlite3.Connection | None = None
        self._process = -1

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """Give the open file; ValueError for one that SQLite cannot read or write."""
        try:
            if self._connection is None or self._process != os.getpid():  # a connection does not survive a fork
                self._connection = sqlite3.connect(self.path, timeout=60, check_same_thread=False)
                self._process = os.getpid()
                self._connection.execute("CREATE TABLE IF NOT EXISTS scores (key BLOB PRIMARY KEY, score BLOB)")
            yield self._connection
        except sqlite3.Error as error:
            self.close()
            raise ValueError(
                f"cache: {self.path} is not a file of scores, or is damaged or locked ({error}); delete it, or name "
                "another file"
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
        """Store scores, at once: what was put survives whatever happens next."""
        packed = {key: dumps(score) for key, score in scores.items()}
        with self._connected() as connection, connection:
            rows = ((key, _digest(key, score) + score) for key, score in packed.items())
            connection.executemany("INSERT OR REPLACE INTO scores VALUES (?, ?)", rows)

    def __len__(self) -> int:
        with self._connected() as connection:
            return int(connection.execute("SELECT COUNT(*) FROM scores").fetchone()[0])

    def close(self) -> None:
        """Close the file; it is opened again when it is used again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> ScoreCache:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def _digest(key: bytes, score: bytes) -> bytes:
    """Return a checksum of a score in the place of its key: a score that was moved to another key is found out."""
    return hashlib.blake2b(key + score, digest_size=_DIGEST).digest()


class Lookup:
    """What a run asks its cache; without one, nothing is known and nothing kept."""

    def __init__(
        self,
        cache: ScoreCache | str | os.PathLike[str] | None,
        *,
        score: Callable[..., Any],
        seed: int | None,
        depends_on: Mapping[str, Any],
    ) -> None:
        self._cache = ScoreCache(cache) if isinstance(cache, (str, os.PathLike)) else cache
        self._prefix = b""
        if cache is not None:
            self._hash = needed("joblib").hash
            parts = (
                FORMAT,
                fingerprint(score),
                seed,
                sorted((key, self._hashed(depends_on[key])) for key in depends_on),
            )
            self._prefix = repr(parts).encode()

    def _hashed(self, value: Any) -> str:
        return fingerprint(value) if callable(value) else str(self._hash(value))

    def find(self, documents: Sequence[Any]) -> tuple[list[bytes], dict[int, Any]]:
        """Return the keys of documents, and the known scores by place."""
        if self._cache is None:
            return [], {}
        keys = [self._key(document) for document in documents]
        found = self._cache.get([key for key in keys if key])
        return keys, {place: found[key] for place, key in enumerate(keys) if key in found}

    def _key(self, document: Any) -> bytes:
        try:
            content = self._hash(document)
        except Exception:  # what cannot be hashed is scored every time
            return b""
        return hashlib.blake2b(self._prefix + content.encode(), digest_size=20).digest()

    def keep(self, keys: Sequence[bytes], outcome: Outcome) -> None:
        """Store scores, but no failures."""
        if self._cache is not None:
            scores = enumerate(zip(keys, outcome.scores, strict=True))
            self._cache.put({key: score for place, (key, score) in scores if key and place not in outcome.failures})
