"""One candidate, from the start of its sandbox to the end of the last of its processes."""

from __future__ import annotations

import math
import os
import secrets
import selectors
import shutil
import site
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from pytest_evalcheck.fixes.scoring.sandbox_inside import DEFINED, RAISED, STARTED, TOKEN_BYTES, frame

LEAST_MEGABYTES = 32
START_SECONDS = 60.0
END_SECONDS = 30.0
_POLL_SECONDS = 0.05
_CHUNK = 65536

# The folder comes last and goes again, so that no file in it can stand before one of the standard library.
_LAUNCH = """\
import sys
sys.path[:1] = []
sys.path.append(sys.argv[1])
import sandbox_inside
sys.path.pop()
sandbox_inside.main(sys.argv[2:])
"""


class SandboxError(RuntimeError):
    """The sandbox itself did not work. This says nothing about the candidate."""


@dataclass(frozen=True)
class Limits:
    """What a candidate may use; see `pytest_evalcheck.fixes.scoring.sandbox.run_program`."""

    seconds: float
    megabytes: int
    output_bytes: int
    file_megabytes: int
    stdin: str
    processes: bool

    def __post_init__(self) -> None:
        if isinstance(self.seconds, bool) or not isinstance(self.seconds, (int, float)):
            raise TypeError(f"seconds: expected a number, got {self.seconds!r}")
        if not 0 < self.seconds < math.inf:
            raise ValueError(f"seconds: expected a finite number above 0, got {self.seconds!r}")
        for name, least in (("megabytes", LEAST_MEGABYTES), ("output_bytes", 0), ("file_megabytes", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"{name}: expected a whole number, got {value!r}")
            if value < least:
                raise ValueError(f"{name}: expected at least {least}, got {value}")
        if not isinstance(self.stdin, str):
            raise TypeError(f"stdin: expected a str, got {type(self.stdin).__name__}")
        if not isinstance(self.processes, bool):
            raise TypeError(f"processes: expected True or False, got {self.processes!r}")


@dataclass(frozen=True)
class Ending:
    """How a candidate ended, not judged yet: ``stopped`` is the verdict where the sandbox ended it, or empty."""

    exit_code: int
    stopped: str
    said: bytes
    secret: bytes
    stdout: bytes
    stderr: bytes
    seconds: float


def ending_of(source: str, tests: str | None, limits: Limits) -> Ending:
    """Run a candidate; without tests it is a program. All of its processes are gone when this returns."""
    if os.name != "posix":
        raise NotImplementedError("candidates need POSIX sessions and limits, which Windows lacks; WSL has them")
    with ExitStack() as stack:
        folder = stack.enter_context(_folder())
        channel, other_end = socket.socketpair()
        stack.enter_context(channel)
        stdin = stack.enter_context(tempfile.TemporaryFile())
        stdin.write(limits.stdin.encode("utf-8", "surrogatepass"))
        stdin.seek(0)
        with other_end:
            process = _start(
                folder, other_end.fileno(), stdin.fileno(), "program" if tests is None else "tests", limits
            )
        with process:
            watch = _Watch(process, channel, limits, source, tests)
            try:
                watch.until_it_ends()
            finally:
                _end(process)
            return watch.ending()


@contextmanager
def _folder() -> Iterator[str]:
    path = tempfile.mkdtemp(prefix="candidate-")
    try:
        yield path
    finally:
        try:
            shutil.rmtree(path)
        except (OSError, RecursionError):
            # Nested deeper than Python can follow, or without permissions: neither stops this.
            subprocess.run(["chmod", "-R", "u+rwx", path], stderr=subprocess.DEVNULL, check=False)
            subprocess.run(["rm", "-rf", path], stderr=subprocess.DEVNULL, check=False)


def _start(folder: str, channel: int, stdin: int, mode: str, limits: Limits) -> subprocess.Popen[bytes]:
    here = str(Path(__file__).parent)
    processes = "processes" if limits.processes else "alone"
    arguments = [channel, stdin, limits.megabytes, limits.file_megabytes, processes, mode, *_installed()]
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "PYTHONHOME") if name in os.environ}
    try:
        return subprocess.Popen(
            [sys.executable, "-s", "-S", "-B", "-c", _LAUNCH, here, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            pass_fds=(channel, stdin),
            cwd=folder,
            env={
                **kept,
                "PATH": os.environ.get("PATH", os.defpath),
                "HOME": folder,
                "TMPDIR": folder,
                "LANG": "C.UTF-8",
                "PYTHONHASHSEED": "0",
                "OMP_NUM_THREADS": "1",
                "OPENBLAS_NUM_THREADS": "1",
                "MKL_NUM_THREADS": "1",
            },
            start_new_session=True,
        )
    except OSError as error:
        raise SandboxError(f"the sandbox did not start: {error}") from error


def _installed() -> list[str]:
    users = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    return [path for path in [*site.getsitepackages(), *users] if os.path.isdir(path)]


def _end(process: subprocess.Popen[bytes]) -> None:
    leash: Any = process.stdin
    # Said, not only closed: a process that another thread forked meanwhile may hold this pipe open.
    with suppress(OSError):
        leash.write(b".")
    with suppress(OSError):
        leash.close()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise SandboxError(f"the processes of a candidate did not end within {END_SECONDS:g} seconds") from None


class _Watch:
    """Feeds the channel, reads the outputs up to their limit, and keeps the time."""

    def __init__(
        self, process: subprocess.Popen[bytes], channel: socket.socket, limits: Limits, source: str, tests: str | None
    ) -> None:
        self.process, self.channel, self.limits, self.tests = process, channel, limits, tests
        self.secret = secrets.token_hex(TOKEN_BYTES // 2).encode()
        self.to_send, self.said, self.stopped = frame(source), b"", ""
        self.began, self.started, self.ended = time.monotonic(), math.nan, math.nan
        self.outputs: dict[Any, bytearray] = {process.stdout: bytearray(), process.stderr: bytearray()}
        self.selector = selectors.DefaultSelector()
        self.open = True

    def until_it_ends(self) -> None:
        """Return when the candidate has ended or passed a limit."""
        self.channel.setblocking(False)
        with self.selector:
            self.selector.register(self.channel, selectors.EVENT_READ | selectors.EVENT_WRITE)
            for output in self.outputs:
                os.set_blocking(output.fileno(), False)
                self.selector.register(output, selectors.EVENT_READ)
            while self.open and not self.stopped and self.process.poll() is None:
                left = self._left()
                for key, events in self.selector.select(max(0.0, min(left, _POLL_SECONDS))):
                    self._serve(key.fileobj, events)
                # What was ready at the limit has been read: a result in time is not lost to a late reader.
                if left <= 0 and self.open and self.process.poll() is None:
                    self._too_late()
                    break
        self.ended = time.monotonic()

    def ending(self) -> Ending:
        """What there is to know once all processes are gone, what still was in the pipes included."""
        for output in self.outputs:
            while self._read(output):
                pass
        while self.open:
            self._listen()
        stdout, stderr = (bytes(each[: self.limits.output_bytes]) for each in self.outputs.values())
        if not self.said.startswith(STARTED):
            told = stderr.decode("utf-8", "replace").strip() or f"exit code {self.process.returncode}"
            raise SandboxError(f"the sandbox did not reach the candidate: {told}")
        seconds = self.ended - self.started
        return Ending(self.process.returncode, self.stopped, self.said, self.secret, stdout, stderr, seconds)

    def _left(self) -> float:
        if math.isnan(self.started):
            return self.began + START_SECONDS - time.monotonic()
        return self.started + self.limits.seconds - time.monotonic()

    def _too_late(self) -> None:
        if math.isnan(self.started):
            raise SandboxError(f"the sandbox did not reach the candidate within {START_SECONDS:g} seconds")
        if not self.said.endswith(self.secret) and RAISED not in self.said:
            self.stopped = self.stopped or "timeout"

    def _serve(self, file: Any, events: int) -> None:
        if file is not self.channel:
            if not self._read(file):
                self.selector.unregister(file)
            return
        if events & selectors.EVENT_WRITE:
            self._send()
        if events & selectors.EVENT_READ:
            self._listen()
            if self.open:
                self._answer()

    def _read(self, output: IO[bytes]) -> bool:
        """Take in what is there; False at the end, or where nothing is there."""
        data = output.read(_CHUNK)
        self.outputs[output] += data or b""
        if sum(map(len, self.outputs.values())) > self.limits.output_bytes:
            self.stopped = self.stopped or "output"
        return bool(data)

    def _send(self) -> None:
        try:
            self.to_send = self.to_send[self.channel.send(self.to_send) :]
        except BlockingIOError:
            return
        except OSError:
            self.to_send = b""
        if not self.to_send:
            self.selector.modify(self.channel, selectors.EVENT_READ)

    def _listen(self) -> None:
        try:
            data = self.channel.recv(_CHUNK)
        except OSError:
            data = b""
        if not data or len(self.said) > _CHUNK:
            self.open = False
            return
        self.said += data
        if math.isnan(self.started):
            self.started = time.monotonic()

    def _answer(self) -> None:
        if self.tests is None or not self.said.endswith(DEFINED):
            return
        if self.said == STARTED + DEFINED:
            self.to_send = self.secret + frame(self.tests)
            self.selector.modify(self.channel, selectors.EVENT_READ | selectors.EVENT_WRITE)
        else:
            # It waits for tests, but not all of this is from the sandbox.
            self.stopped = self.stopped or "tampered"
