"""Requests to a server that speaks the protocol of OpenAI: JSON and streams of events. An error is one sentence."""

from __future__ import annotations

import http.client
import ipaddress
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


class EngineError(RuntimeError):
    """A server that is not there, ends, hangs, or answers with something else than the protocol says."""


class EngineRefusal(ValueError):
    """A request that a server refuses: a status from 400 to 499."""


_SHOWN = 200
_PIECE = 65536


@dataclass(frozen=True)
class Client:
    """A client of one server. A key is read from the environment for every request, and kept nowhere."""

    url: str
    """The address, such as ``http://127.0.0.1:8000/v1``."""
    key: str = ""
    """The name of the environment variable that holds the key; empty for none."""
    timeout: float = 60.0
    """Seconds that one request may take as a whole."""
    remote: bool = False
    """True if the server may be on another machine."""

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
            raise ValueError(
                f"the address {_without_user(self.url)!r}; expected one such as 'http://127.0.0.1:8000/v1'"
            )
        if not (self.remote or _is_loopback(parts.hostname)):
            raise ValueError(f"{parts.hostname} is another machine; expected 127.0.0.1 or localhost, or remote=True")
        if self.key and self.key not in os.environ:
            raise ValueError(f"the environment has no variable {self.key!r}, which key= names")

    def get(self, path: str) -> Any:
        """The JSON of a page.

        Raises:
            EngineError: see `EngineError`.
            EngineRefusal: where the server refuses the request.
        """
        return self._json("GET", path, None)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The JSON of the answer to a request; it raises what `get` raises."""
        return self._json("POST", path, body)

    def touch(self, method: str, path: str) -> None:
        """Make a request whose answer is not read; it raises what `get` raises."""
        with closing(self._connection()) as connection:
            self._response(connection, method, path, {} if method == "POST" else None)

    def events(self, path: str, body: Mapping[str, Any]) -> Iterator[Any]:
        """The JSON of each event of a stream. Closing the iterator closes the connection, which cancels the request."""
        ended, count, deadline = False, 0, time.monotonic() + self.timeout
        with closing(self._connection()) as connection:
            response = self._response(connection, "POST", path, body)
            lines = self._lines(response, deadline)
            for line in lines:
                data = line.removeprefix("data:").strip() if line.startswith("data:") else ""
                if data == "[DONE]":
                    ended = True
                    break
                if data:
                    count += 1
                    event = self._parsed(data)
                    ended = ended or _finishes(event)  # some servers end without [DONE]
                    yield event
        if not ended:
            raise EngineError(f"{self._place(path)}: the stream ended after {count} events without 'data: [DONE]'")

    def _json(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        deadline = time.monotonic() + self.timeout
        with closing(self._connection()) as connection:
            response = self._response(connection, method, path, body)
            return self._parsed(b"".join(self._pieces(response, deadline)).decode("utf-8", "replace"))

    def _connection(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        return kind(parts.hostname or "", parts.port, timeout=self.timeout)

    def _response(self, connection: http.client.HTTPConnection, method: str, path: str, body: Any) -> Any:
        headers = {"Content-Type": "application/json"}
        if self.key:
            headers["Authorization"] = f"Bearer {os.environ.get(self.key, '')}"
        try:
            whole = urlsplit(self.url).path.rstrip("/") + path
            connection.request(method, whole, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
        except TimeoutError as error:
            raise EngineError(f"{self._place(path)} gave no answer in {self.timeout:g} s") from error
        except (OSError, http.client.HTTPException) as error:
            raise EngineError(f"{self._place(path)} does not answer: {type(error).__name__}: {error}") from error
        if response.status >= 400:
            page = b"".join(self._pieces(response, time.monotonic() + self.timeout)).decode("utf-8", "replace")
            kind = EngineRefusal if response.status < 500 else EngineError
            raise kind(f"{self._place(path)} answers {response.status}: {_message(self._safe(page))}")
        return response

    def _pieces(self, response: Any, deadline: float) -> Iterator[bytes]:
        while True:
            if time.monotonic() > deadline:
                raise EngineError(f"{self.url} did not end its answer in {self.timeout:g} s")
            try:
                piece = response.read1(_PIECE)
            except TimeoutError as error:
                raise EngineError(f"{self.url} did not end its answer in {self.timeout:g} s") from error
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise EngineError(f"{self.url} broke its answer off: {type(error).__name__}: {error}") from error
            if not piece:
                if response.length:
                    raise EngineError(f"{self.url} broke its answer off: {response.length} bytes are missing")
                return
            yield piece

    def _lines(self, response: Any, deadline: float) -> Iterator[str]:
        rest = b""
        for piece in self._pieces(response, deadline):
            *lines, rest = (rest + piece).split(b"\n")
            yield from (line.decode("utf-8", "replace").rstrip("\r") for line in lines)
        yield rest.decode("utf-8", "replace")

    def _parsed(self, text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError as error:
            raise EngineError(f"{self.url} answers with no JSON: {self._safe(text)[:_SHOWN]!r}") from error

    def _place(self, path: str) -> str:
        return f"{self.url}{path}"

    def _safe(self, text: str) -> str:
        """A text of the server without the key, which an error page may repeat."""
        secret = os.environ.get(self.key, "") if self.key else ""
        return text.replace(secret, "***") if secret else text


def _finishes(event: Any) -> bool:
    choices = event.get("choices") if isinstance(event, Mapping) else None
    return (
        isinstance(choices, list)
        and bool(choices)
        and all(isinstance(one, Mapping) and one.get("finish_reason") for one in choices)
    )


def _message(text: str) -> str:
    """The message of an error page."""
    try:
        found = json.loads(text)
        error = found.get("error", found.get("detail", found))
        text = str(error.get("message", error) if isinstance(error, Mapping) else error)
    except (ValueError, AttributeError):
        pass
    return " ".join(text.split())[:_SHOWN]


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _without_user(url: str) -> str:
    return url.rpartition("@")[2]
