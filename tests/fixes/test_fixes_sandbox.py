"""Sandboxed scoring: whatever a candidate does costs the candidate, never the run."""

from __future__ import annotations

import os
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from sandbox_candidates import ENDLESS, HARMLESS, HOSTILE, LIBC, RIGHT, TESTS, WRONG

from fixtures.targets import _programs
from pytest_evalcheck.fixes.scoring import sandbox_run
from pytest_evalcheck.fixes.scoring.sandbox import VERDICTS, SandboxError, passes, run_program

pytestmark = pytest.mark.skipif(os.name != "posix", reason="candidates need POSIX")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_candidate_fails(name: str):
    candidate, verdict = HOSTILE[name]
    outcome = passes(candidate, TESTS, seconds=0.5 if verdict == "timeout" else 20)
    assert outcome.verdict == verdict, outcome
    assert not outcome


@pytest.mark.parametrize("name", HARMLESS)
def test_a_right_candidate_passes(name: str):
    outcome = passes(HARMLESS[name], TESTS, seconds=20)
    assert (outcome.verdict, outcome.exit_code, outcome.error) == ("passed", 0, ""), outcome
    assert outcome


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


# A child and a grandchild in a session of their own, which say their ids; the candidate goes on when both have.
STRAY = (
    "read, write = os.pipe()\nif {fork}() == 0:\n    {setsid}()\n    {fork}()\n"
    "    os.write(1, b'%d\\n' % {getpid}())\n    os.write(write, b'.')\n    time.sleep(1000)\n"
    "for _ in range(2): os.read(read, 1)\n"
)
IN_C = STRAY.format(fork="libc.fork", setsid="libc.setsid", getpid="libc.getpid")
IN_PYTHON = STRAY.format(fork="os.fork", setsid="os.setsid", getpid="os.getpid")


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="only Linux finds a process that left its session")
@pytest.mark.parametrize(
    ("candidate", "processes", "verdict"),
    [
        (IN_C + RIGHT, False, "passed"),
        (IN_C + "libc.kill(os.getppid(), 9)\n" + ENDLESS, False, "crashed"),
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
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="only Linux finds a process that left its session")
def test_a_family_of_processes_is_gone():
    bomb = (
        "import os, time\nread, write = os.pipe()\nroot = os.getpid()\n"
        "for _ in range(5):\n    os.fork()\n    os.getpid() % 2 or os.setpgid(0, 0)\n"
        "os.write(1, b'%d\\n' % os.getpid())\nos.write(write, b'.')\n"
        "for _ in range(32): os.getpid() == root and os.read(read, 1)\n"
        "os.getpid() == root or time.sleep(1000)\nos._exit(0)\n"
    )
    outcome = passes(bomb, TESTS, seconds=20, processes=True)
    pids = [int(line) for line in outcome.stdout.splitlines()]
    assert (outcome.verdict, len(pids)) == ("exited", 32)
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]


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
    start = sandbox_run._start
    monkeypatch.setattr(sandbox_run, "_start", lambda *args: started.append(start(*args)) or started[-1])
    monkeypatch.setattr(sandbox_run._Watch, "_listen", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        passes(ENDLESS, TESTS)
    assert started[0].returncode is not None


def test_a_large_candidate_and_large_tests_arrive_whole():
    padding = "# " + "x" * 500_000 + "\n"
    assert passes(padding + RIGHT, padding + TESTS, seconds=20)


def test_a_late_start_is_not_the_candidates_fault(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sandbox_run, "START_SECONDS", 0.0)
    with pytest.raises(SandboxError, match="did not reach the candidate within 0 seconds"):
        passes(RIGHT, TESTS)


@pytest.mark.parametrize(
    ("launch", "message"),
    [("raise SystemExit('no luck')", "did not reach the candidate: no luck"), ("raise SystemExit(3)", "exit code 3")],
)
def test_a_sandbox_that_breaks_is_not_the_candidates_fault(monkeypatch: pytest.MonkeyPatch, launch: str, message: str):
    monkeypatch.setattr(sandbox_run, "_LAUNCH", launch)
    with pytest.raises(SandboxError, match=message):
        passes(RIGHT, TESTS)


def test_no_interpreter_is_an_error_of_the_sandbox(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    with pytest.raises(SandboxError, match=r"did not start: .*No such file"):
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
    with pytest.raises(TypeError, match=r"^candidate: expected a str of Python source, got bytes$"):
        passes(b"pass", TESTS)


def test_windows_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sandbox_run, "os", type("Windows", (), {"name": "nt"}))
    with pytest.raises(NotImplementedError, match="which Windows lacks"):
        passes(RIGHT, TESTS)


def test_time_is_the_candidates_own():
    began = time.monotonic()
    outcome = run_program("import time\ntime.sleep(0.3)", seconds=20)
    assert 0.3 <= outcome.seconds <= time.monotonic() - began


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
