"""Endpoints of the protocol of OpenAI: the stub server with and without its faults, and what it leaves behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from sampling import ALL_CASES

import pytest_evalcheck as ec
from fixtures.gallery.engine_server import FAULTS
from fixtures.gallery.engines_correct import CONTEXT, SUPPORTED, Tiny, TinyOfTexts
from fixtures.gallery.table import SPECIMENS
from pytest_evalcheck.adapters.openai_api.client import EngineError, EngineRefusal
from pytest_evalcheck.kinds.engine.subject import EngineUnderTest, joined, plain
from pytest_evalcheck.reports.failure_text import format_failure

COMMAND = (sys.executable, "-m", "fixtures.gallery.engine_server", "--port", "{port}")
GREEDY = {"max_tokens": 4, "temperature": 0.0, "logprobs": True}
SECRET = "sesame-of-the-test"
SAID = {
    "half a stream": "the stream ended after 2 events without 'data: [DONE]'",
    "half an answer": "bytes are missing",
    "error page": "answers 500: <html>Internal error Bearer ***</html>",
    "other JSON": "answers with JSON without choices: {'status': 'ok'}",
    "another model": "answers as the model 'llama'; expected 'tiny'",
    "no log-probabilities": "gives no log-probabilities; name what it supports: supports=(...) without 'logprobs'",
    "hang": "gave no answer in 0.5 s",
    "dies": "does not answer: RemoteDisconnected",
}
UNSEEN = ("EC803", "EC805", "EC815")
"""Codes whose bugs no client of the stub sees: its threads are its own, and it has sent a short stream before a client
cancels it or empties the prefix cache."""
BUGS = {s.bug.name: s.code for s in SPECIMENS if s.bug.kind == "engine" and s.code not in UNSEEN}


def endpoint(url: str, **fields: Any) -> ec.Endpoint:
    given = {"supports": SUPPORTED, "evict": "/reset_prefix_cache", "context": CONTEXT, "template": Tiny().template}
    return ec.Endpoint(url=f"{url}/v1", **{**given, **fields})


def target(url: str, inputs: Any = Tiny.inputs, **fields: Any) -> ec.Target:
    @ec.target("engine", inputs=inputs)
    def served() -> ec.Endpoint:
        return endpoint(url, **fields)

    return served


@pytest.fixture(scope="module")
def honest() -> Iterator[str]:
    with ec.serving(COMMAND) as url:
        yield url


def test_an_honest_server_gives_the_answers_of_its_engine(honest: str) -> None:
    served, tiny = endpoint(honest), Tiny()
    prompts = [[1, 2, 3], [4], []]
    answers, expected = (made.complete(prompts, {**GREEDY, "n": 2}) for made in (served, tiny))
    assert [list(map(plain, own)) for own in answers] == [list(map(plain, own)) for own in expected]
    assert joined(list(served.stream([1, 2], GREEDY))) == plain(tiny.complete([[1, 2]], GREEDY)[0][0])
    chat = [{"role": "user", "content": "a cab"}]
    assert served.chat(chat, GREEDY) == tiny.chat(chat, GREEDY)


def test_an_honest_server_passes(honest: str) -> None:
    codes = "EC80,EC81" if ALL_CASES else "EC802,EC804,EC812,EC813"
    report = ec.run(target(honest), select=codes, effort="quick")
    assert [format_failure(cell) for cell in report.of("failed")] == []
    assert report.count("passed") >= 4


def test_prompts_of_a_server_without_batches_are_requests_of_their_own(honest: str) -> None:
    prompts = [[1, 2, 3], [4], [5, 6]]
    assert [own for (own,) in endpoint(honest, batches=False).complete(prompts, GREEDY)] == [
        own for (own,) in Tiny().complete(prompts, GREEDY)
    ]


@pytest.mark.parametrize("name", sorted(BUGS))
@pytest.mark.slow(every=7)
def test_a_bug_of_a_served_engine_is_found(name: str) -> None:
    with ec.serving((*COMMAND, "--engine", name)) as url:
        inputs = TinyOfTexts.inputs if BUGS[name] == "EC814" else Tiny.inputs
        report = ec.run(target(url, inputs), select=BUGS[name], effort="quick")
    assert [cell.outcome for cell in report.cells] == ["failed"]


def test_every_fault_has_its_sentence() -> None:
    assert {*SAID, ""} == {*FAULTS}


@pytest.mark.parametrize("fault", SAID)
def test_a_fault_of_a_server_is_an_error_that_says_what_is_wrong(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STUB_KEY", SECRET)
    began = time.monotonic()
    with ec.serving((*COMMAND, "--fault", fault)) as url:
        made = endpoint(url, key="STUB_KEY", timeout=0.5 if fault == "hang" else 20.0)
        engine = EngineUnderTest(ec.Engine(made.complete, stream=made.stream))
        ask = engine.streamed if fault == "half a stream" else lambda prompt, given: engine.ask([prompt], given)
        result = ask([1, 2, 3], GREEDY)
    assert SAID[fault] in str(result.error)
    assert SECRET not in f"{result.error!r} {made!r}"
    assert time.monotonic() - began < 60


def test_what_is_refused_says_so(honest: str) -> None:
    with pytest.raises(EngineRefusal, match=r"answers 400: top_p is not supported; expected some of temperature"):
        endpoint(honest).complete([[1]], {**GREEDY, "top_p": 0.5})


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"url": "http://example.com/v1"},
            "example.com is another machine; expected 127.0.0.1 or localhost, or remote=",
        ),
        ({"url": "127.0.0.1:8000"}, "the address '127.0.0.1:8000'; expected one such as 'http://127.0.0.1:8000/v1'"),
        ({"url": "http://me:word@127.0.0.1/v1"}, "the address '127.0.0.1/v1'"),
        ({"url": "http://127.0.0.1:1/v1", "key": "NO_SUCH_KEY"}, "the environment has no variable 'NO_SUCH_KEY'"),
    ],
)
def test_an_address_that_cannot_be_meant_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said.replace("(", r"\(")):
        ec.Endpoint(**fields)


def test_another_machine_needs_an_explicit_option() -> None:
    assert ec.Endpoint(url="http://192.0.2.1/v1", remote=True).url == "http://192.0.2.1/v1"


def test_another_model_is_named(honest: str) -> None:
    with pytest.raises(EngineError, match=r"has no model 'tinny'; expected model= one of tiny; did you mean 'tiny'\?"):
        endpoint(honest, model="tinny").complete([[1]], GREEDY)


def test_a_server_that_is_not_there_is_an_error_of_its_target_alone() -> None:
    report = ec.run(target(f"http://127.0.0.1:{free_port()}"), effort="quick")
    assert "does not answer: ConnectionRefusedError" in str([cell.failure for cell in report.of("failed")])
    assert len(report.of("failed")) == 1


def test_a_server_that_ends_shows_what_it_printed() -> None:
    command = (sys.executable, "-c", "print('no such weights'); raise SystemExit(7)")
    with (
        pytest.raises(EngineError, match=r"ended with code 7 before it answered. It printed:\nno such weights"),
        ec.serving(command),
    ):
        pass


def test_a_server_that_never_answers_is_given_up() -> None:
    command = (sys.executable, "-c", "import time; time.sleep(600)")
    with (
        pytest.raises(EngineError, match=r"was not ready in 0\.3 s: .* does not answer"),
        ec.serving(command, timeout=0.3),
    ):
        pass


def test_a_port_in_use_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        command = [word.replace("{port}", str(taken.getsockname()[1])) for word in COMMAND]
        with pytest.raises(EngineError, match=r"Address already in use"), ec.serving(command):
            pass


@pytest.mark.parametrize("killed", [False, True])
def test_nothing_is_left_behind(tmp_path: Path, killed: bool) -> None:
    # The server starts a process of its own, as engines do.
    server = (
        "import http.server, os, subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(tmp_path / 'pids')!r}, 'w').write(f'{{os.getpid()}} {{child.pid}} {{sys.argv[1]}}')\n"
        "http.server.HTTPServer(('127.0.0.1', int(sys.argv[1])), http.server.SimpleHTTPRequestHandler).serve_forever()\n"
    )
    script = (
        "import os, signal, sys, pytest_evalcheck as ec\n"
        f"with ec.serving([sys.executable, '-c', {server!r}, '{{port}}'], health='/'):\n"
        f"    {'os.kill(os.getpid(), signal.SIGKILL)' if killed else 'pass'}\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=False)
    assert done.returncode == (-signal.SIGKILL if killed else 0)
    *pids, port = map(int, (tmp_path / "pids").read_text().split())
    deadline = time.monotonic() + 20
    while any(map(is_running, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(is_running, pids))
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
        pass


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text() if Path("/proc").is_dir() else True


@cache
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
