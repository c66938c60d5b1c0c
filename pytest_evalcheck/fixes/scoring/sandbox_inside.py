"""What runs inside of a sandbox: three processes, of which only the last one knows the candidate.

The warden adopts whatever the candidate leaves behind and kills it. The shield is the parent that a candidate
sees, so that a candidate that kills its parent has not killed the warden. Each of them ends as the one below
it did, so that the caller reads how the candidate ended off the warden.

This file is a program of its own: it is imported by a bare interpreter, and loads no more than it must, since
that is most of what a candidate costs.
"""

# ruff: noqa: SIM105 - importing contextlib takes longer than all that is written here
from __future__ import annotations

import builtins
import os
import sys
import time

# Importing typing takes as long as starting the interpreter.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

STARTED, DEFINED, RAISED = b"started\n", b"defined\n", b"raised "
TOKEN_BYTES = 32
LENGTH_BYTES = 8
RESERVE = 4 << 20
HEADROOM = 32 << 20
# POSIX fixes this number; the signal module costs as much as starting half an interpreter.
SIGKILL = 9
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36

STARTING = frozenset(
    {"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn", "subprocess.Popen"}
)


def frame(text: str) -> bytes:
    """A text as it travels: its length, then itself. Lone surrogates and NULs, which models do write, survive."""
    data = text.encode("utf-8", "surrogatepass")
    return len(data).to_bytes(LENGTH_BYTES, "big") + data


def main(arguments: list[str]) -> NoReturn:
    """Run the sandbox that the arguments describe: warden, shield and candidate."""
    channel, stdin, megabytes, file_megabytes, processes, mode, *path = arguments
    warden(
        int(channel),
        lambda: candidate(
            int(channel), int(stdin), (int(megabytes), int(file_megabytes)), processes == "processes", mode, path
        ),
    )


def warden(channel: int, run: Callable[[], NoReturn]) -> NoReturn:
    """Wait until the candidate ended or the caller pulls the leash (file 0), then leave no process behind."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    alive, held = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(alive)
        shield(held, run)
    os.close(held)
    _give_away_outputs()
    import select

    ready, _, _ = select.select([0, alive], [], [])
    status = None
    if alive in ready:
        _, status = os.waitpid(pid, 0)
    end_all(pid)
    os.close(channel)
    end_like(0 if status is None else status)


def shield(held: int, run: Callable[[], NoReturn]) -> NoReturn:
    """Be the parent that a candidate sees, in a session of its own."""
    prctl(PR_SET_PDEATHSIG, SIGKILL)
    os.setsid()
    pid = os.fork()
    if pid == 0:
        prctl(PR_SET_PDEATHSIG, SIGKILL)
        os.close(held)
        run()
    _give_away_outputs()
    _, status = os.waitpid(pid, 0)
    end_like(status)


def candidate(
    channel: int, stdin: int, megabytes: tuple[int, int], processes: bool, mode: str, path: list[str]
) -> NoReturn:
    """Run the program, then the tests where there are any, and say so with the token that came with the tests."""
    write, leave, own = os.write, os._exit, os.getpid()
    outputs, default_hook = (sys.stdout, sys.stderr), sys.__excepthook__
    os.dup2(stdin, 0)
    os.close(stdin)
    source = _text(channel)
    lift = _limit(*megabytes)
    # Given up where memory has run out: raising the limit takes some already.
    reserve: bytes | None = bytes(RESERVE)
    sys.path[:] = [*sys.path, *path]
    sys.argv[:] = ["candidate.py"]
    # As the site module would have done, which takes longer than all of the rest.
    vars(builtins).update(exit=sys.exit, quit=sys.exit)
    module = type(sys)("__main__" if mode == "program" else "candidate")
    sys.modules[module.__name__] = module
    # Held here, since the candidate may replace it.
    execute, translate, namespace = exec, compile, module.__dict__
    if not processes:
        sys.addaudithook(_refusal(own, STARTING, None))
    else:
        sys.addaudithook(_refusal(own, frozenset(), frozenset({0, 1, os.getppid()})))
    write(channel, STARTED)
    try:
        execute(translate(source, "candidate.py", "exec"), namespace)
        if os.getpid() == own and mode == "tests":
            write(channel, DEFINED)
            token = _exactly(channel, TOKEN_BYTES)
            execute(translate(_text(channel), "tests.py", "exec"), namespace)
            if os.getpid() == own:
                _flush(outputs)
                write(channel, token)
        _flush(outputs)
        leave(0)
    except SystemExit as ended:
        # The way out of a program; within tests it is a way around them.
        if mode == "tests" and os.getpid() == own:
            write(channel, RAISED + b"SystemExit\n")
        code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
        if isinstance(ended.code, str):
            _say(outputs, ended.code)
        _flush(outputs)
        leave(code & 255)
    except BaseException as error:
        reserve = None  # noqa: F841
        lift()
        if os.getpid() == own:
            # What NumPy raises is one, too.
            name = "MemoryError" if isinstance(error, MemoryError) else type(error).__name__
            write(channel, RAISED + name.replace("\n", " ").encode("utf-8", "replace")[:200] + b"\n")
        _flush(outputs)
        sys.stdout, sys.stderr = outputs
        # Without the frame of this function, which says nothing about the candidate.
        own_frame = error.__traceback__
        default_hook(type(error), error.with_traceback(own_frame and own_frame.tb_next), None)
        _flush(outputs)
        leave(1)
    finally:
        leave(1)


def end_all(group: int) -> None:
    """Kill the session of the shield at one blow, then whatever left it, until the warden has no children."""
    try:
        os.killpg(group, SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    while True:
        try:
            reaped, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if reaped:
            continue
        for pid in descendants(os.getpid()):
            try:
                os.kill(pid, SIGKILL)
            except OSError:
                pass
        # Killed is not dead yet, and what was killed may just have forked: another look a moment later.
        time.sleep(0.001)


def descendants(root: int) -> list[int]:
    """Ids of all the processes below one, from /proc; none where there is no /proc."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    # The name of a process stands in brackets and may hold anything, brackets too.
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(name))
    found, queue = [], [root]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def end_like(status: int) -> NoReturn:
    """End this process as the one whose status this is ended."""
    if os.WIFSIGNALED(status):
        import signal

        number = os.WTERMSIG(status)
        if number != SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 1)


def prctl(option: int, value: int) -> None:
    """Call prctl on Linux; elsewhere there is none."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _give_away_outputs() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.close(nowhere)


def _limit(megabytes: int, file_megabytes: int) -> Callable[[], None]:
    import resource

    def limit(kind: int, soft: int, hard: int) -> None:
        # An outer limit may be lower, and cannot be raised.
        outer = resource.getrlimit(kind)[1]
        if outer != resource.RLIM_INFINITY:
            soft, hard = min(soft, outer), min(hard, outer)
        resource.setrlimit(kind, (soft, hard))

    memory, most = megabytes << 20, (megabytes << 20) + HEADROOM
    try:
        limit(resource.RLIMIT_AS, memory, most)
    except ValueError:
        # Some releases of macOS refuse any such limit; none enforces it.
        if sys.platform != "darwin":
            raise
    limit(resource.RLIMIT_FSIZE, file_megabytes << 20, file_megabytes << 20)
    limit(resource.RLIMIT_CORE, 0, 0)

    def lift() -> None:
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))

    return lift


def _refusal(
    own: int, starting: frozenset[str], spared: frozenset[int] | None
) -> Callable[[str, tuple[Any, ...]], None]:
    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event in starting:
            raise PermissionError(f"{event}: a candidate may not start processes here")
        if event == "os.kill" or event == "os.killpg":
            pid = arguments[0]
            if pid != own if spared is None else pid < 0 or pid in spared:
                raise PermissionError(f"{event}: a candidate may not send signals to process {pid}")

    return refuse


def _exactly(channel: int, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = os.read(channel, count - len(data))
        if not more:
            os._exit(1)
        data += more
    return data


def _text(channel: int) -> str:
    return _exactly(channel, int.from_bytes(_exactly(channel, LENGTH_BYTES), "big")).decode("utf-8", "surrogatepass")


def _say(outputs: tuple[Any, ...], text: str) -> None:
    try:
        outputs[1].write(text + "\n")
    except (OSError, ValueError):
        pass


def _flush(outputs: tuple[Any, ...]) -> None:
    for output in outputs:
        try:
            output.flush()
        except (OSError, ValueError):
            pass
