"""Programs that a model wrote, run where they can do little harm: what pass@k needs.

This is protection against accidents, not against malice. Candidates run as the same user, on the same file system
and network as the caller, and in one interpreter with the tests that judge them. An endless loop, a crash, a flood
of output, a way around the tests, or processes left behind cost the candidate its point and the run nothing. A
program that sets out to read files, to use the network or to cheat needs a container or a virtual machine.
"""

from __future__ import annotations

from dataclasses import dataclass

from pytest_evalcheck.fixes.scoring.sandbox_inside import DEFINED, RAISED, STARTED
from pytest_evalcheck.fixes.scoring.sandbox_run import Ending, Limits, SandboxError, ending_of

__all__ = ["VERDICTS", "Outcome", "SandboxError", "passes", "run_program"]

VERDICTS = ("passed", "failed", "timeout", "memory", "output", "crashed", "exited", "tampered")


@dataclass(frozen=True)
class Outcome:
    """How a candidate ended. It is true where the candidate passed, and false for every other verdict.

    ``verdict`` is one of `VERDICTS`:

    * "passed": the tests ran to their end, or, without tests, the program ended with exit code 0;
    * "failed": an exception, a failed assertion, or another exit code;
    * "timeout", "memory", "output": a limit was passed;
    * "crashed": ended by a signal, whose number is ``-exit_code``;
    * "exited": left before the tests had ended, whatever its exit code;
    * "tampered": something else than the sandbox wrote to the channel of the sandbox.

    ``error`` is the name of the type of the exception that ended it, or empty. ``exit_code`` is None where the sandbox
    ended it. ``stdout`` and ``stderr`` hold what was written, up to the limit. ``seconds`` is wall time from the first
    line of the candidate on, without the start of the interpreter.
    """

    verdict: str
    exit_code: int | None
    error: str
    stdout: str
    stderr: str
    seconds: float

    def __bool__(self) -> bool:
        return self.verdict == "passed"


def run_program(
    source: str,
    *,
    seconds: float = 3.0,
    megabytes: int = 256,
    output_bytes: int = 65536,
    file_megabytes: int = 16,
    stdin: str = "",
    processes: bool = False,
) -> Outcome:
    r"""Run Python source as a program (``__name__ == "__main__"``) in a process of its own.

    It passes where it ends with exit code 0. What it printed is in the outcome; comparing it is up to the caller.

    ``seconds`` is wall time, so a candidate at its limit fares worse on a busier machine. ``megabytes`` limits the
    address space of each process, with the interpreter (about 16) and all that it imports: NumPy takes about 100,
    torch for the CPU less than 1,024. macOS does not enforce it. ``output_bytes`` counts stdout and stderr together,
    ``file_megabytes`` each file (not their sum). ``stdin`` is what there is to read; then comes the end of the file.

    A candidate starts in an empty folder, which is removed, and with a small environment: no keys or tokens of the
    caller, ``PYTHONHASHSEED=0``, one thread for numeric libraries. It can import what is installed (without what
    ``.pth`` files add), and nothing from the folders of the caller.

    Unless ``processes`` is set it may start no process and signal none but itself. This is held within the
    interpreter, so C code gets around it. RLIMIT_NPROC is not used, as it counts all processes and threads of the
    user and does not hold for root. Processes that are left behind are killed before this returns; on Linux also
    those that took a session of their own.

    May be called from several threads and processes at once. Raises TypeError or ValueError for a limit that makes no
    sense, `SandboxError` where the sandbox itself did not work, NotImplementedError on Windows.

    >>> outcome = run_program("print(int(input()) + 1)", stdin="41")
    >>> outcome.verdict, outcome.stdout
    ('passed', '42\n')
    """
    limits = Limits(seconds, megabytes, output_bytes, file_megabytes, stdin, processes)
    return _judged(ending_of(_text("source", source), None, limits), tested=False)


def passes(
    candidate: str,
    tests: str,
    *,
    seconds: float = 3.0,
    megabytes: int = 256,
    output_bytes: int = 65536,
    file_megabytes: int = 16,
    stdin: str = "",
    processes: bool = False,
) -> Outcome:
    """Run a candidate and then tests in its namespace; true where the tests ran to their end.

    The candidate is a whole module (for HumanEval: the prompt and the completion). It is named ``candidate``, so what
    stands under ``if __name__ == "__main__"`` does not run. The tests are source that raises where the candidate is
    wrong (for HumanEval: the tests, then the line ``check(entry_point)``).

    The tests are handed over once the candidate has been executed, together with a secret that the sandbox says back
    when they have ended. Nothing else counts as a pass, so leaving early with exit code 0, or printing what a success
    would print, does not. The options are those of `run_program`, for candidate and tests together.

    >>> tests = "assert double(2) == 4"
    >>> bool(passes("def double(x): return 2 * x", tests))
    True
    >>> passes("def double(x): exit(0)", tests).verdict
    'exited'
    """
    limits = Limits(seconds, megabytes, output_bytes, file_megabytes, stdin, processes)
    return _judged(ending_of(_text("candidate", candidate), _text("tests", tests), limits), tested=True)


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected a str of Python source, got {type(value).__name__}")
    return value


def _judged(ending: Ending, *, tested: bool) -> Outcome:
    verdict, error = _verdict(ending, tested)
    return Outcome(
        verdict,
        None if ending.stopped else ending.exit_code,
        error,
        ending.stdout.decode("utf-8", "replace"),
        ending.stderr.decode("utf-8", "replace"),
        ending.seconds,
    )


def _verdict(ending: Ending, tested: bool) -> tuple[str, str]:
    """Verdict and name of the exception, from what was said over the channel and how the process ended."""
    if ending.stopped:
        return ending.stopped, ""
    told = ending.said.removeprefix(STARTED)
    if tested:
        told = told.removeprefix(DEFINED)
    if told.startswith(RAISED) and told.count(b"\n") == 1 and told.endswith(b"\n"):
        error = told[len(RAISED) : -1].decode("utf-8", "replace")
        return {"MemoryError": "memory", "SystemExit": "exited"}.get(error, "failed"), error
    if told not in (b"", ending.secret):
        return "tampered", ""
    if ending.exit_code < 0:
        return "crashed", ""
    if tested:
        return "passed" if told else "exited", ""
    return "failed" if told or ending.exit_code else "passed", ""
