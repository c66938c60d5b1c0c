"""Messages between a process that runs items and the one that started it: JSON, each after its length."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import struct
import threading
from collections.abc import Callable
from typing import Any

_write, _read, _encode = os.write, os.read, json.JSONEncoder(default=str).encode
_HEADER = struct.Struct("!Q")


class Channel:
    """Sends messages to another process, and receives those of it. Both ends have one."""

    def __init__(self, reader: int, writer: int) -> None:
        self.reader, self.writer = reader, writer
        self.received: list[Any] = []
        """Complete messages that nobody has taken yet."""
        self._buffer = bytearray()
        self._open = {reader, writer}

    def send(self, *message: Any) -> None:
        """Send a message.

        Raises:
            OSError: when the other end is closed.
        """
        data = _encode(message).encode()
        data = _HEADER.pack(len(data)) + data
        while data:
            data = data[_write(self.writer, data) :]

    def receive(self) -> Any:
        """Return the next message; wait for it.

        Raises:
            EOFError: when the other end is closed.
        """
        while not self.received:
            self.read()
        return self.received.pop(0)

    def read(self) -> None:
        """Take what has arrived, and wait where nothing has.

        Raises:
            EOFError: when the other end is closed.
        """
        data = _read(self.reader, 1 << 20)
        if not data:
            raise EOFError
        self._buffer += data
        while len(self._buffer) >= _HEADER.size:
            end = _HEADER.size + _HEADER.unpack_from(self._buffer)[0]
            if len(self._buffer) < end:
                break
            self.received.append(json.loads(bytes(self._buffer[_HEADER.size : end])))
            del self._buffer[:end]

    def queue(self, at_end: Callable[[], None]) -> queue.SimpleQueue[Any]:
        """Return a queue of the messages, which a thread fills, and None at their end; then it calls ``at_end``."""
        messages: queue.SimpleQueue[Any] = queue.SimpleQueue()

        def fill() -> None:
            if hasattr(signal, "pthread_sigmask"):  # signals are for the main thread, which looks at who sent them
                signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            with contextlib.suppress(EOFError, OSError):
                while True:
                    messages.put(self.receive())
            messages.put(None)
            at_end()

        threading.Thread(target=fill, daemon=True).start()
        return messages

    def close(self, *descriptors: int) -> None:
        """Close both ends, or only the descriptors that are named, once."""
        for descriptor in self._open & {*(descriptors or self._open)}:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._open -= {*(descriptors or self._open)}
