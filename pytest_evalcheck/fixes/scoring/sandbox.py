"""Programs that a model wrote, run under bubblewrap (``bwrap``, Linux), where they can do little harm.

A sandbox has no network, a read-only system without the home folder, and its own ``/tmp``, ``/proc`` and ``/dev``.
Tests run in a second sandbox and call the candidate over a channel that carries plain data only: a candidate chooses
what its functions return, and has no other way to the verdict. docs/scoring.md says what this does not hold.
"""

from __future__ import annotations

import functools
import json
import math
import os
import secrets
import select
import shutil
import signal
import site
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["VERDICTS", "Limits", "Outcome", "SandboxError", "isolation_problem", "passes", "run_program"]

VERDICTS = ("passed", "failed", "timeout", "memory", "output", "crashed", "exited", "tampered")
START_SECONDS, END_SECONDS, MOST_TASKS, MOST_REPORT = 60.0, 30.0, 256, 65536
_INSIDE = Path(__file__).with_name("sandbox_inside.py").read_text(encoding="utf-8")


class SandboxError(RuntimeError):
    """The sandbox is missing or did not work. This says nothing about the candidate."""


@dataclass(frozen=True)
class Outcome:
    """End of a candidate. It is true where the candidate passed, and false for every other verdict.

    ``verdict``: "passed" (the tests, or a program with exit code 0); "failed" (an exception, or another exit code);
    "timeout", "memory", "output" (a limit was passed); "crashed" (by the signal ``-exit_code``; under bubblewrap exit
    codes above 128 count as signals); "exited" (before the tests had ended); "tampered" (something wrote to the
    channel of the sandbox). ``error`` is the type of the exception that ended it, or empty. ``exit_code`` is None where
    the sandbox ended it. ``seconds`` is wall time from the moment on at which the caller reads that it has begun.
    """

    verdict: str
    exit_code: int | None
    error: str
    stdout: str
    stderr: str
    seconds: float

    def __bool__(self) -> bool:
        return self.verdict == "passed"


@dataclass(frozen=True)
class Limits:
    """Resources that a candidate may use: the options of `run_program` and `passes`.

    ``seconds`` of wall time; ``megabytes`` of address space for each process, and of files in all (NumPy takes about
    100; not enforced on macOS); ``output_bytes`` of stdout and stderr together; ``file_megabytes`` for each file;
    ``stdin``, the text to read. Without ``processes`` it may start no process and signal none but itself, which C code
    gets around. ``unsafe`` runs it WITHOUT ISOLATION: it can read and change what the caller can, use the network,
    forge its verdict, end the caller and leave processes behind; only the limits hold.
    """

    seconds: float = 3.0
    megabytes: int = 256
    output_bytes: int = 65536
    file_megabytes: int = 16
    stdin: str = ""
    processes: bool = False
    unsafe: bool = False

    def __post_init__(self) -> None:
        for name, least in (("seconds", -math.inf), ("megabytes", 32), ("output_bytes", 0), ("file_megabytes", 0)):
            value, whole = getattr(self, name), name != "seconds"
            if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
                raise TypeError(f"{name}: expected a {'whole number' if whole else 'number'}, got {value!r}")
            if value < least:
                raise ValueError(f"{name}: expected at least {least}, got {value}")
        if not 0 < self.seconds < math.inf:
            raise ValueError(f"seconds: expected a finite number above 0, got {self.seconds!r}")
        if not isinstance(self.stdin, str):
            raise TypeError(f"stdin: expected a str, got {type(self.stdin).__name__}")
        for name in ("processes", "unsafe"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name}: expected True or False, got {getattr(self, name)!r}")


def run_program(source: str, **limits: Any) -> Outcome:
    """Run Python source as a program (``__name__ == "__main__"``), which passes where it ends with exit code 0.

    It starts in an empty folder of its own and with a small environment, and can import what is installed. May be
    called from several threads and processes at once. ``limits`` are those of `Limits`. Raises TypeError or ValueError
    for a limit that makes no sense, `SandboxError` where the sandbox is missing or did not work, NotImplementedError
    on Windows.
    """
    return _run(source, None, Limits(**limits))


def passes(candidate: str, tests: str, **limits: Any) -> Outcome:
    """Run tests that call a candidate in another process; true where they ran to their end.

    The candidate is a whole module, named ``candidate`` (for HumanEval: the prompt and the completion); the tests are
    source that raises where it is wrong (for HumanEval: the tests, then ``check(entry_point)``), and see its names
    that are not names of builtins. What crosses is a copy: None, numbers, str, bytes, list, tuple, dict and set. An
    object of another type can be called, iterated, read and passed back; comparing it is a TypeError. Tests that use
    no name of the candidate fail. ``limits`` and errors are those of `run_program`; ValueError for empty tests.

    `run_program` does the same for a whole program.

    Symptom: a program that a model wrote ends the evaluation, changes files, or passes the tests by changing them.

    Before::

        exec("def double(x): return 2 * x")
        exec("assert double(2) == 4")

    After::

        from pytest_evalcheck.fixes.scoring.sandbox import passes

        outcome = passes("def double(x): return 2 * x", "assert double(2) == 4", seconds=3)

    Costs: two processes for each program, about a tenth of a second.

    Limits: Linux with bubblewrap 0.7; the kernel is shared, so use a virtual machine against attacks on it.

    Shown by: EC404.
    """
    if isinstance(tests, str) and not tests.strip():
        raise ValueError("tests: expected source that calls the candidate, got none")
    if not isinstance(tests, str):
        raise TypeError(f"tests: expected a str of Python source, got {type(tests).__name__}")
    return _run(candidate, tests, Limits(**limits))


@functools.cache
def isolation_problem() -> str:
    """Return a reason why candidates cannot be isolated on this machine, else ''."""
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed (on Linux, install the package bubblewrap, 0.7 or newer)"
    done = subprocess.run([*_bubblewrap("/tmp/a", 64, "2"), "true"], capture_output=True, text=True, check=False)
    return f"bubblewrap does not work here: {done.stderr.strip()}" if done.returncode else ""


def _bubblewrap(folder: str, megabytes: int, info: str) -> list[str]:
    tmpfs = ["--size", str(megabytes << 20), "--tmpfs"]
    hidden = {os.path.realpath(each) for each in ("/run", "/var/tmp", os.path.expanduser("~")) if os.path.isdir(each)}
    hidden -= {"/", "/tmp"}
    kept = [each for path in (sys.prefix, sys.base_prefix, *_installed()) for each in (path, os.path.realpath(path))]
    return [
        *("bwrap", "--unshare-all", "--cap-drop", "ALL", "--die-with-parent", "--new-session", "--ro-bind", "/", "/"),
        *("--proc", "/proc", "--dev", "/dev", *tmpfs, "/dev/shm", "--remount-ro", "/dev", *tmpfs, "/tmp"),
        *(word for each in sorted(hidden) for word in ("--tmpfs", each)),
        *(word for each in sorted(set(kept)) for word in ("--ro-bind", each, each)),
        *(word for each in sorted(hidden) for word in ("--remount-ro", each)),
        *("--dir", folder, "--chdir", folder, "--info-fd", info, "--"),
    ]


def _installed() -> list[str]:
    users = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    return [path for path in [*site.getsitepackages(), *users] if os.path.isdir(path)]


def _start(stack: ExitStack, limits: Limits, stdout: int, stderr: int, **role: Any) -> subprocess.Popen[bytes]:
    """Start one interpreter, which ends with all that it started when the stack is closed."""
    config, stdin = (stack.enter_context(new()) for new in [tempfile.TemporaryFile] * 2)
    resources = {"AS": limits.megabytes << 20, "FSIZE": limits.file_megabytes << 20, "CORE": 0}
    resources["CPU"] = math.ceil(limits.seconds) * (os.cpu_count() or 1) + 1
    # Older kernels count all processes and threads of the user.
    if not limits.unsafe and tuple(map(int, os.uname().release.split(".")[:2])) >= (5, 14):
        resources["NPROC"] = MOST_TASKS
    settings = {"resources": resources, "processes": limits.processes, "path": _installed()}
    config.write(json.dumps({**role, "limits": settings}).encode())
    stdin.write(b"" if role["role"] == "tests" else limits.stdin.encode("utf-8", "surrogatepass"))
    config.seek(0), stdin.seek(0)
    folder, command, (info, told) = f"/tmp/candidate-{secrets.token_hex(8)}", [], os.pipe()
    if limits.unsafe:
        folder = tempfile.mkdtemp(prefix="candidate-")
        stack.callback(_remove, folder)
    else:
        command = _bubblewrap(folder, limits.megabytes, str(told))
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "PYTHONHOME") if name in os.environ}
    own = {"PATH": os.environ.get("PATH", os.defpath), "HOME": folder, "TMPDIR": folder, "LANG": "C.UTF-8"}
    numeric = {"PYTHONHASHSEED": "0", **{f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}}
    try:
        process: subprocess.Popen[bytes] = subprocess.Popen(
            [*command, sys.executable, "-s", "-S", "-B", "-c", _INSIDE, str(config.fileno())],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env={**kept, **own, **numeric},
            pass_fds=(config.fileno(), role["channel"], role["report"], *([] if limits.unsafe else [told])),
            cwd=folder if limits.unsafe else "/",
            start_new_session=True,
        )
        pids: list[int] = []
        stack.callback(_end, process, pids)
    except OSError as error:
        raise SandboxError(f"the sandbox did not start: {error}") from error
    finally:
        os.close(told)
    with open(info, "rb", buffering=0) as file:
        line = b""
        while not limits.unsafe and not line.rstrip().endswith(b"}") and (more := file.read(4096)):
            line += more
    with suppress(ProcessLookupError, ValueError):
        # The first process of the sandbox: when it has ended, the kernel has ended all others.
        pids.append(os.pidfd_open(json.loads(line)["child-pid"]))
    return process


def _end(process: subprocess.Popen[bytes], pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(pid, signal.SIGKILL)
        ended = _wait([pid], END_SECONDS)
        os.close(pid)
        if not ended:
            raise SandboxError(f"the processes of a candidate did not end within {END_SECONDS:g} seconds")
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(END_SECONDS)


def _wait(files: list[int], seconds: float) -> list[int]:
    poll = select.poll()
    for file in files:
        poll.register(file, select.POLLIN)
    return [file for file, _ in poll.poll(1000 * seconds)]


def _remove(folder: str) -> None:
    if os.path.islink(folder):
        os.unlink(folder)
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        pass
    except (OSError, RecursionError):
        # Nested deeper than Python can follow, or without permissions: neither stops these.
        subprocess.run(["chmod", "-R", "u+rwx", folder], stderr=subprocess.DEVNULL, check=False)
        subprocess.run(["rm", "-rf", folder], stderr=subprocess.DEVNULL, check=False)


def _run(source: str, tests: str | None, limits: Limits) -> Outcome:
    if os.name != "posix":
        raise NotImplementedError("candidates need POSIX sessions and limits, which Windows lacks; WSL has them")
    if not isinstance(source, str):
        name = "source" if tests is None else "candidate"
        raise TypeError(f"{name}: expected a str of Python source, got {type(source).__name__}")
    if not limits.unsafe and (problem := isolation_problem()):
        raise SandboxError(f"{problem}; unsafe=True runs candidates without isolation")
    began, started, stopped = time.monotonic(), math.nan, ""
    with ExitStack() as files:
        reads, writes = zip(*(os.pipe() for _ in range(3)), strict=True)
        for read in reads:
            files.callback(os.close, read)
            os.set_blocking(read, False)
        texts, left_open = dict.fromkeys(reads, b""), list(reads)
        with ExitStack() as stack:
            here, there = socket.socketpair()
            with ExitStack() as given, here, there:
                for write in writes:
                    given.callback(os.close, write)
                start = functools.partial(_start, stack, limits, *writes[:2])
                role, report = ("program", writes[2]) if tests is None else ("candidate", there.fileno())
                candidate = judge = start(role=role, source=source, channel=there.fileno(), report=report)
                if tests is not None:
                    judge = start(role="tests", source=tests, channel=here.fileno(), report=writes[2])
            while not stopped:
                now = time.monotonic()
                left = began + START_SECONDS - now if math.isnan(started) else started + limits.seconds - now
                _wait(left_open, max(0.0, min(left, 0.05 if left_open else 0.001)))
                ended = judge.poll() is not None  # looked at first: what it has reported by then is read below
                over = _read(texts, left_open) > limits.output_bytes
                if math.isnan(started) and texts[reads[2]]:
                    started = time.monotonic()
                judged = tests is not None and texts[reads[2]].endswith(b"]")
                gone = b'["gone"' in texts[reads[2]]
                if (judged and not gone) or (candidate.poll() is not None if gone else ended):
                    break
                if left <= 0 and math.isnan(started):
                    raise SandboxError(f"the sandbox did not reach the candidate within {START_SECONDS:g} seconds")
                stopped = "output" if over else "timeout" if left <= 0 else ""
                if len(texts[reads[2]]) > MOST_REPORT:
                    stopped = "tampered"
            seconds, codes = time.monotonic() - started, [each.poll() or 0 for each in (candidate, judge)]
        if _read(texts, left_open) > limits.output_bytes:
            stopped = "output"
    stdout, stderr = (texts[read][: limits.output_bytes].decode("utf-8", "replace") for read in reads[:2])
    first, _, said = texts[reads[2]].partition(b"\n")
    code = codes[0] if tests is None or gone else int(b'["passed"' not in said) if said else codes[1]
    code = code if code <= 128 else 128 - code
    if first != b"started" and not stopped:
        raise SandboxError(f"the sandbox did not reach the candidate: {stderr.strip() or f'exit code {code}'}")
    try:
        verdict, error = json.loads(said or '["", ""]')
        {*VERDICTS, "gone", ""}.remove(verdict)
    except (ValueError, TypeError, LookupError, RecursionError):
        verdict, error = "tampered", ""
    if stopped:
        return Outcome(stopped, None, "", stdout, stderr, seconds)
    if verdict in ("", "gone") or (verdict == "passed" and code):
        # A program says with its exit code alone whether it passed.
        verdict = "crashed" if code < 0 else "exited" if tests is not None else "failed" if code else "passed"
    return Outcome(verdict, code, str(error), stdout, stderr, seconds)


def _read(texts: dict[int, bytes], left_open: list[int]) -> int:
    """Take in what is there; the number of bytes of both outputs."""
    for file in list(left_open):
        with suppress(BlockingIOError):
            data = os.read(file, 1 << 20)
            texts[file] += data
            if not data:
                left_open.remove(file)
    return sum(map(len, list(texts.values())[:2]))
