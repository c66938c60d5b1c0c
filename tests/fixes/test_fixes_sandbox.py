"""Sandboxed scoring: whatever a candidate does costs the candidate, never the run."""

from __future__ import annotations

import functools
import os
import pickle
import socket
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sandbox_candidates import ENDLESS, FORGERIES, HARMLESS, HOSTILE, LIBC, RIGHT, TESTS, WRONG

from fixtures.targets import _programs
from pytest_evalcheck.fixes.scoring import sandbox
from pytest_evalcheck.fixes.scoring.sandbox import VERDICTS, SandboxError, isolation_problem

pytestmark = pytest.mark.skipif(os.name != "posix", reason="candidates need POSIX")
isolated = pytest.mark.skipif(bool(isolation_problem()), reason=f"isolation: {isolation_problem()}")
# Where candidates cannot be isolated, what does not need that is tested without.
passes = functools.partial(sandbox.passes, unsafe=bool(isolation_problem()))
run_program = functools.partial(sandbox.run_program, unsafe=bool(isolation_problem()))


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.slow(every=3)
def test_a_hostile_candidate_fails(name: str):
    candidate, verdict = HOSTILE[name]
    if name == "killing its parent in C" and isolation_problem():
        pytest.skip("without isolation, the parent is this process")
    outcome = passes(candidate, TESTS, seconds=0.5 if verdict == "timeout" else 20)
    assert outcome.verdict == verdict, outcome
    assert not outcome


@pytest.mark.parametrize("name", HARMLESS)
def test_a_right_candidate_passes(name: str):
    outcome = passes(HARMLESS[name], TESTS, seconds=20)
    assert (outcome.verdict, outcome.exit_code, outcome.error) == ("passed", 0, ""), outcome
    assert outcome


@pytest.mark.parametrize("name", FORGERIES)
@isolated
def test_a_forgery_is_refused(name: str):
    candidate, verdict = FORGERIES[name]
    outcome = passes(candidate, TESTS, seconds=3)
    assert outcome.verdict == verdict, outcome
    assert not outcome


@pytest.mark.parametrize(
    "tests", ["# assert double(2) == 4", "def check(double): assert double(2) == 4", "assert abs(-4) == 4"]
)
def test_tests_that_use_nothing_of_the_candidate_fail(tests: str):
    outcome = passes(RIGHT + "abs = double\n", tests, seconds=20)
    assert (outcome.verdict, outcome.error) == ("failed", "AssertionError")
    assert "used no name of the candidate" in outcome.stderr


VALUES = (
    "[None, True, 1, -(10**5000), 0.1, float('inf'), 1 - 2j, 'a\\0\\ud800', b'a', bytearray(b'a'), (1, [2]), {1, (2,)}, "
    "frozenset('a'), {1: 'a', (1, 'b'): {}}]"
)


def test_plain_data_crosses_unchanged():
    candidate = "import collections\ndef same(x, *, y=0): return x\ndef count(x): return collections.Counter(x)\n"
    tests = (
        f"values = {VALUES}\nassert same(values) == values\nassert list(map(type, same(values))) == list(map(type, values))\n"
        "assert repr(same(float('nan'), y=1)) == 'nan'\nassert count('aab') == {'a': 2, 'b': 1}\n"
        "assert same(values) is not values\n"
    )
    outcome = passes(candidate, tests, seconds=20)
    assert outcome, outcome


def test_objects_of_a_candidate_can_be_used_but_not_compared():
    candidate = (
        "import math\nfrom types import SimpleNamespace\nclass Pair:\n    def __init__(self, a, b): self.a, self.b = a, b\n"
        "    def sum(self): return self.a + self.b\nclass Odd(ValueError): pass\ndef first(pairs): return pairs[0].a\n"
        "def odd(x):\n    if x % 2: raise Odd('odd number')\ndef upto(n): yield from range(n)\ndef apply(f, x): return f(x)\n"
    )
    tests = (
        "import candidate\nassert Pair(1, 2).sum() == candidate.Pair(1, 2).sum() == 3\nassert first([Pair(4, 5)]) == 4\n"
        "assert list(upto(3)) == [0, 1, 2]\nassert apply(lambda x: x + 1, 2) == 3\nassert math.floor(1.5) == 1\n"
        "try: odd(1)\nexcept ValueError as error: assert str(error) == 'odd number'\nelse: assert False\n"
    )
    outcome = passes(candidate, tests, seconds=20)
    assert outcome, outcome
    for compared in ("Pair(1, 2) == Pair(1, 2)", "not Pair(1, 2)", "Pair(1, 2) != 3", "{Pair(1, 2)}"):
        outcome = passes(candidate, f"assert {compared}", seconds=20)
        assert (outcome.verdict, outcome.error) == ("failed", "TypeError"), outcome
    assert passes(candidate, "odd(1)", seconds=20).error == "Odd"
    assert (
        "cannot leave its process: only plain data can be compared"
        in passes(candidate, "assert Pair(1, 2) == 3", seconds=20).stderr
    )


def test_numpy_does_not_read_where_a_candidate_says():
    candidate = (
        "class A:\n    __array_interface__ = {'shape': (1,), 'typestr': '|u1', 'data': (8, True), 'version': 3}\n"
        "def double(x): return A()\n"
    )
    tests = "import numpy\nnumpy.testing.assert_array_equal(double(2), [4])\n"
    assert passes(candidate, tests, seconds=30, megabytes=4096).verdict == "failed"


@isolated
def test_there_is_no_network():
    with socket.create_server(("127.0.0.1", 0)) as server:
        program = f"import socket\nsocket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5)"
        assert run_program(program, seconds=20).error in ("ConnectionRefusedError", "OSError")
        assert sandbox.run_program(program, seconds=20, unsafe=True)


@isolated
def test_the_files_of_the_caller_are_out_of_reach():
    with tempfile.TemporaryDirectory() as folder:
        program = f"import os\nassert not os.path.exists({folder!r})\nopen('/tmp/a', 'w').write('a')"
        assert run_program(program, seconds=20)
        assert not os.path.exists("/tmp/a")
    for place in ("/evil", "/usr/evil", "/dev/evil", "/run/evil", os.path.expanduser("~/evil"), f"{sys.prefix}/evil"):
        outcome = run_program(f"open({place!r}, 'w')", seconds=20)
        assert outcome.error in ("OSError", "PermissionError", "FileNotFoundError"), (place, outcome)
        assert not os.path.exists(place)


@isolated
def test_the_files_of_a_candidate_are_limited_together():
    program = "for i in range(100): open(str(i), 'wb').write(bytes(1 << 20))"
    assert run_program(program, seconds=20, megabytes=64).error == "OSError"


@isolated
def test_other_processes_are_not_seen():
    program = "import os\nprint(sorted(int(each) for each in os.listdir('/proc') if each.isdigit()))"
    assert run_program(program, seconds=20).stdout == "[1, 2]\n"


def test_without_bubblewrap_nothing_runs(monkeypatch: pytest.MonkeyPatch):
    isolation_problem.cache_clear()
    monkeypatch.setattr(sandbox.shutil, "which", lambda name: None)
    try:
        for run in (lambda: sandbox.passes(RIGHT, TESTS), lambda: sandbox.run_program("pass")):
            with pytest.raises(SandboxError, match=r"install the package bubblewrap.*; unsafe=True runs") as caught:
                run()
            assert "bubblewrap is not installed" in str(caught.value)
        assert sandbox.passes(RIGHT, TESTS, seconds=20, unsafe=True)
        assert not sandbox.passes(WRONG, TESTS, seconds=20, unsafe=True)
    finally:
        isolation_problem.cache_clear()


def test_where_namespaces_are_not_permitted_nothing_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    isolation_problem.cache_clear()
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    try:
        with pytest.raises(SandboxError, match=r"does not work here: bwrap: No permissions .*; unsafe=True runs"):
            sandbox.run_program("pass")
    finally:
        isolation_problem.cache_clear()


@pytest.mark.parametrize(
    ("candidate", "verdict"),
    [
        ("a wrong answer", "failed"),
        ("an endless loop", "timeout"),
        ("all memory", "memory"),
        ("a huge file", "failed"),
        ("a flood on stdout", "output"),
        ("an abort", "crashed"),
        ("sys.exit(0)", "exited"),
        ("a fork", "failed"),
    ],
)
def test_limits_hold_without_isolation(candidate: str, verdict: str):
    assert sandbox.passes(HOSTILE[candidate][0], TESTS, seconds=1, unsafe=True).verdict == verdict


def test_cleaning_up_does_not_follow_a_link(tmp_path: Path):
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("text")
    victim.chmod(0o500)
    program = (
        "import os\nhere = os.getcwd()\nprint(here)\nos.chdir('/')\nos.rmdir(here)\n"
        f"os.symlink({str(victim)!r}, here)\n"
    )
    outcome = sandbox.run_program(program, seconds=20, unsafe=True)
    assert outcome, outcome
    assert not os.path.lexists(outcome.stdout.strip())
    assert (victim / "file").read_text() == "text"
    assert victim.stat().st_mode & 0o777 == 0o500


def test_every_verdict_is_met():
    assert {verdict for _, verdict in HOSTILE.values()} | {"passed"} == set(VERDICTS)


def test_an_outcome_says_what_happened():
    outcome = passes("print('here')\n" + WRONG, TESTS, seconds=20)
    assert (outcome.verdict, outcome.error, outcome.exit_code, outcome.stdout) == (
        "failed",
        "AssertionError",
        1,
        "here\n",
    )
    assert outcome.stderr.splitlines()[:2] == [
        "Traceback (most recent call last):",
        '  File "tests.py", line 2, in <module>',
    ]
    assert 0 < outcome.seconds < 20
    assert pickle.loads(pickle.dumps(outcome)) == outcome


def test_the_signal_of_a_crash_is_its_exit_code():
    assert passes("import os\nos.abort()", TESTS, seconds=20).exit_code == -6


def test_what_is_over_the_limit_is_cut_off():
    outcome = run_program("print('x' * 1000)", seconds=20, output_bytes=100)
    assert (outcome.verdict, outcome.stdout, outcome.exit_code) == ("output", "x" * 100, None)
    assert run_program("print('x' * 99)", seconds=20, output_bytes=100)
    assert run_program("pass", seconds=20, output_bytes=0)


def test_a_program_is_judged_by_its_exit_code():
    assert run_program("print(int(input()) + 1)", stdin="41", seconds=20).stdout == "42\n"
    assert run_program("import sys\nprint(len(sys.stdin.read()))", stdin="ä" * 200_000, seconds=20).stdout == "200000\n"
    assert run_program("exit()", seconds=20)
    assert run_program("assert __name__ == '__main__'", seconds=20)
    assert run_program("import os\nprint('a', flush=True)\nos._exit(0)", seconds=20).stdout == "a\n"
    outcome = run_program("exit(3)", seconds=20)
    assert (outcome.verdict, outcome.exit_code) == ("failed", 3)
    outcome = run_program("exit('why')", seconds=20)
    assert (outcome.verdict, outcome.exit_code, outcome.stderr) == ("failed", 1, "why\n")


@pytest.mark.parametrize(
    "text", ["5", "[]", '["fine", ""]', "[[], 1]", "x", "[" * 60000, '["passed", ""]', "y" * 200_000]
)
def test_what_a_program_reports_is_not_trusted(text: str):
    program = (
        "import os\nfor each in range(3, 64):\n"
        f"    try: os.write(each, {text[:1]!r}.encode() * {len(text)} if {len(set(text)) == 1} else {text!r}.encode())\n"
        "    except OSError: pass\nos._exit(1)"
    )
    outcome = run_program(program, seconds=20)
    assert outcome.verdict == ("failed" if "passed" in text else "tampered"), outcome


def test_tests_are_not_there_while_the_candidate_is_defined():
    peek = (
        "import os, select\n"
        "ready = [f for f in range(3, 256) if os.path.exists(f'/proc/self/fd/{f}') and select.select([f], [], [], 0)[0]]\n"
        "assert not ready\n"
    )
    assert passes(peek + RIGHT, TESTS, seconds=20)


def test_the_folder_and_the_environment_are_its_own(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SOME_API_KEY", "secret")
    monkeypatch.setenv("PYTHONPATH", os.getcwd())
    program = "import os\nprint(os.getcwd(), os.listdir(), os.environ.get('SOME_API_KEY'), hash('a'))"
    outcomes = [run_program(program, seconds=20) for _ in range(2)]
    folders, rest = zip(*(outcome.stdout.split(" ", 1) for outcome in outcomes), strict=True)
    assert folders[0] != folders[1]
    assert rest[0] == rest[1]
    assert rest[0].startswith("[] None ")
    assert not any(os.path.exists(folder) for folder in folders)
    assert run_program("import fixtures", seconds=20).error == "ModuleNotFoundError"


def test_installed_packages_can_be_imported():
    assert run_program("import pytest", seconds=20)


@pytest.mark.parametrize("leave", ["os.mkdir('d'); os.chdir('d')", "open(str(i), 'w').close(); os.chmod('.', 0)"])
def test_any_folder_is_removed(leave: str):
    program = f"import os\nprint(os.getcwd(), flush=True)\nfor i in range(3000):\n    {leave}\n"
    outcome = run_program(program, seconds=20)
    assert outcome.verdict in ("passed", "failed")
    assert not os.path.exists(outcome.stdout.strip())


# A child and a grandchild in a session of their own; the candidate goes on when both are there. A sandbox has process
# ids of its own, so they are found by their name.
STRAY = (
    "libc.prctl(15, b'{name}', 0, 0, 0)\nread, write = os.pipe()\nif {fork}() == 0:\n    {setsid}()\n    {fork}()\n"
    "    os.write(1, b'%d\\n' % {getpid}())\n    os.write(write, b'.')\n    time.sleep(1000)\n"
    "for _ in range(2): os.read(read, 1)\n"
)
NAME = f"stray{os.getpid()}"
IN_C = STRAY.format(name=NAME, fork="libc.fork", setsid="libc.setsid", getpid="libc.getpid")
IN_PYTHON = STRAY.format(name=NAME, fork="os.fork", setsid="os.setsid", getpid="os.getpid")


def strays() -> list[str]:
    """Ids of the processes of this machine, those of sandboxes included, that have the name."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm") as file:
                found += [pid] * (file.read().strip() == NAME)
        except OSError:
            continue
    return found


@isolated
@pytest.mark.parametrize(
    ("candidate", "processes", "verdict"),
    [
        (IN_C + RIGHT, False, "passed"),
        (IN_C + "libc.kill(os.getppid(), 9)\n" + ENDLESS, False, "timeout"),
        (IN_C + "libc._exit(0)", False, "exited"),
        (IN_C + ENDLESS, False, "timeout"),
        (IN_C + "while True: print('x' * 1000)", False, "output"),
        (IN_PYTHON + RIGHT, True, "passed"),
        (IN_PYTHON + "1 / 0", True, "failed"),
        (IN_PYTHON + "os.kill(os.getppid(), 9)", True, "failed"),
    ],
)
def test_no_process_is_left(candidate: str, processes: bool, verdict: str):
    outcome = passes(LIBC + candidate, TESTS, seconds=2 if verdict == "timeout" else 20, processes=processes)
    pids = [int(line) for line in outcome.stdout.splitlines() if line.isdigit()]
    assert (outcome.verdict, len(pids)) == (verdict, 2)
    assert not strays()


@isolated
def test_a_candidate_sends_signals_to_itself_alone():
    """Signal 0 asks whether it may be sent, and does nothing."""
    program = (
        "import os\n"
        "def allowed(pid):\n"
        "    try:\n        os.kill(pid, 0)\n"
        "    except PermissionError:\n        return False\n"
        "    except ProcessLookupError:\n        pass\n"
        "    return True\n"
        "print(*[allowed(pid) for pid in (os.getpid(), os.getppid(), 1, 0, -1, os.getpid() - 1, os.getpid() + 1)])\n"
    )
    assert run_program(program, seconds=20).stdout == "True" + " False" * 6 + "\n"


@isolated
def test_strays_are_found_by_their_name():
    program = LIBC + IN_C + "time.sleep(1000)"
    with ThreadPoolExecutor(1) as pool:
        outcome = pool.submit(run_program, program, seconds=2, processes=True)
        found = []
        while not outcome.done() and len(found) < 3:
            found = strays()
        assert len(found) == 3
        assert outcome.result().verdict == "timeout"
    assert not strays()


@isolated
def test_a_family_of_processes_is_gone():
    bomb = (
        LIBC + f"libc.prctl(15, b'{NAME}', 0, 0, 0)\n"
        "read, write = os.pipe()\nroot = os.getpid()\n"
        "for _ in range(5):\n    os.fork()\n    os.getpid() % 2 or os.setpgid(0, 0)\n"
        "os.write(1, b'%d\\n' % os.getpid())\nos.write(write, b'.')\n"
        "for _ in range(32): os.getpid() == root and os.read(read, 1)\n"
        "os.getpid() == root or time.sleep(1000)\nos._exit(0)\n"
    )
    outcome = passes(bomb, TESTS, seconds=20, processes=True)
    pids = [int(line) for line in outcome.stdout.splitlines()]
    assert (outcome.verdict, len(pids)) == ("exited", 32)
    assert not strays()


def test_processes_may_be_allowed():
    pool = "import multiprocessing\nwith multiprocessing.get_context('fork').Pool(2) as pool:\n    assert pool.map(abs, [-1]) == [1]\n"
    assert passes(pool + RIGHT, TESTS, seconds=20, processes=True)
    command = "import subprocess\nassert subprocess.run(['echo', 'a'], capture_output=True).stdout == b'a\\n'\n"
    assert passes(command + RIGHT, TESTS, seconds=20, processes=True)


def test_a_twin_does_not_speak_for_the_candidate():
    twin = "import os, sys\nif os.fork() == 0: {}\nos.wait()\n"
    for ending in ("sys.exit(0)", "1 / 0", "pass"):
        outcome = passes(twin.format(ending).replace("os.wait()", "") + RIGHT, TESTS, seconds=20, processes=True)
        assert outcome.verdict == "passed", outcome
    outcome = passes("import os\nif os.fork(): os._exit(0)\n" + RIGHT, TESTS, seconds=20, processes=True)
    assert outcome.verdict == "exited"


def test_threads_do_not_disturb_each_other():
    kinds = {RIGHT: "passed", WRONG: "failed", "import os\nos._exit(0)": "exited", "print('x' * 10**6)": "output"}
    work = list(kinds.items()) * 6
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(lambda item: passes(item[0], TESTS, seconds=30), work))
    assert [outcome.verdict for outcome in outcomes] == [verdict for _, verdict in work]


def test_processes_of_joblib_give_the_same():
    joblib = pytest.importorskip("joblib")
    work = [RIGHT, WRONG, "import os\nos.abort()", "x = bytes(1 << 40)"]
    outcomes = joblib.Parallel(n_jobs=2)(joblib.delayed(passes)(each, TESTS, seconds=30) for each in work)
    joblib.externals.loky.get_reusable_executor().shutdown(wait=True)
    assert [outcome.verdict for outcome in outcomes] == ["passed", "failed", "crashed", "memory"]


def test_no_file_and_no_thread_stays_open():
    passes(RIGHT, TESTS, seconds=20)
    before = sorted(os.listdir("/dev/fd")), threading.active_count()
    for candidate in (RIGHT, WRONG, "print('x' * 10**6)", "import os\nos.abort()"):
        passes(candidate, TESTS, seconds=20)
    assert (sorted(os.listdir("/dev/fd")), threading.active_count()) == before


def test_an_interrupted_run_leaves_nothing(monkeypatch: pytest.MonkeyPatch):
    started = []
    start = sandbox.subprocess.Popen
    monkeypatch.setattr(
        sandbox.subprocess, "Popen", lambda *args, **options: started.append(start(*args, **options)) or started[-1]
    )
    monkeypatch.setattr(sandbox, "_read", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        passes(ENDLESS, TESTS)
    assert len(started) >= 2  # others remove the folder, where that takes more than one attempt
    assert all(process.returncode is not None for process in started)


def test_a_large_candidate_and_large_tests_arrive_whole():
    padding = "# " + "x" * 500_000 + "\n"
    assert passes(padding + RIGHT, padding + TESTS, seconds=20)


def test_a_late_start_is_not_the_candidates_fault(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sandbox, "START_SECONDS", 0.0)
    with pytest.raises(SandboxError, match="did not reach the candidate within 0 seconds"):
        passes(RIGHT, TESTS)


@pytest.mark.parametrize(
    ("launch", "message"),
    [("raise SystemExit('no luck')", "did not reach the candidate: no luck"), ("raise SystemExit(3)", "exit code 3")],
)
def test_a_sandbox_that_breaks_is_not_the_candidates_fault(monkeypatch: pytest.MonkeyPatch, launch: str, message: str):
    monkeypatch.setattr(sandbox, "_INSIDE", launch)
    with pytest.raises(SandboxError, match=message):
        passes(RIGHT, TESTS)


def test_no_interpreter_is_an_error_of_the_sandbox(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    with pytest.raises(
        SandboxError,
        match=r"did not (start|reach the candidate): .*/nowhere/python: No such file|No such file.*/nowhere/python",
    ):
        run_program("pass")


def test_the_limits_are_enough_for_their_least_values():
    assert passes(RIGHT, TESTS, seconds=20, megabytes=32, output_bytes=0, file_megabytes=0)


@pytest.mark.parametrize(
    ("limits", "error", "message"),
    [
        ({"seconds": 0}, ValueError, "seconds: expected a finite number above 0, got 0"),
        ({"seconds": -1.0}, ValueError, "seconds: expected a finite number above 0, got -1.0"),
        ({"seconds": float("nan")}, ValueError, "seconds: expected a finite number above 0, got nan"),
        ({"seconds": float("inf")}, ValueError, "seconds: expected a finite number above 0, got inf"),
        ({"seconds": "3"}, TypeError, "seconds: expected a number, got '3'"),
        ({"megabytes": 0}, ValueError, "megabytes: expected at least 32, got 0"),
        ({"megabytes": 64.0}, TypeError, "megabytes: expected a whole number, got 64.0"),
        ({"megabytes": True}, TypeError, "megabytes: expected a whole number, got True"),
        ({"output_bytes": -1}, ValueError, "output_bytes: expected at least 0, got -1"),
        ({"file_megabytes": -1}, ValueError, "file_megabytes: expected at least 0, got -1"),
        ({"stdin": b""}, TypeError, "stdin: expected a str, got bytes"),
        ({"processes": 4}, TypeError, "processes: expected True or False, got 4"),
    ],
)
def test_a_limit_without_sense_is_named(limits: dict, error: type[Exception], message: str):
    with pytest.raises(error) as caught:
        passes(RIGHT, TESTS, **limits)
    assert str(caught.value) == message
    with pytest.raises(error):
        run_program("pass", **limits)


def test_source_is_text():
    with pytest.raises(TypeError, match=r"^tests: expected a str of Python source, got NoneType$"):
        passes(RIGHT, None)
    with pytest.raises(ValueError, match=r"^tests: expected source that calls the candidate, got none$"):
        passes(RIGHT, " \n")
    with pytest.raises(TypeError, match=r"^candidate: expected a str of Python source, got bytes$"):
        passes(b"pass", TESTS)


def test_windows_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sandbox, "os", type("Windows", (), {"name": "nt"}))
    with pytest.raises(NotImplementedError, match="which Windows lacks"):
        passes(RIGHT, TESTS)


def test_time_is_the_candidates_own():
    # The caller reads of the start a little after it, and later still on a busy machine: half of it at least is counted.
    began = time.monotonic()
    outcome = run_program("import time\ntime.sleep(1)", seconds=20)
    assert 0.5 <= outcome.seconds <= time.monotonic() - began


@pytest.mark.parametrize("document", _programs.DOCUMENTS, ids=lambda document: document["entry_point"])
def test_problems_tell_right_completions_from_wrong_and_hostile_ones(document: dict):
    right, wrong = _programs.RIGHT[document["entry_point"]], _programs.WRONG[document["entry_point"]]
    assert _programs.score_candidates(right, document, seconds=20) == {"pass@1": 1.0, "pass@2": 1.0}
    assert _programs.score_candidates(wrong, document, seconds=20) == {"pass@1": 0.0, "pass@2": 0.0}
    mixed = [right[0], *wrong, None]
    assert _programs.score_candidates(mixed, document, seconds=20) == {"pass@1": 0.25, "pass@2": 0.5}


def test_hostile_completions_of_a_problem_fail():
    zero = {"pass@1": 0.0, "pass@2": 0.0}
    assert _programs.score_candidates(_programs.HOSTILE, _programs.DOCUMENTS[0]) == zero


def test_too_few_completions_for_pass_at_2_are_refused():
    with pytest.raises(ValueError, match=r"^k: expected 1 to n=1, got 2; pass@2 cannot be estimated"):
        _programs.score_candidates(["    pass\n"], _programs.DOCUMENTS[0])
