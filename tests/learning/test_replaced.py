"""Judges that tests patch into a module: what they replied takes their place for as long as a target calls."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pytest_evalcheck as ec
from pytest_evalcheck.discovery.candidates import Candidate
from pytest_evalcheck.discovery.proposals import propose
from pytest_evalcheck.errors import UsageError
from pytest_evalcheck.learning import corpus
from pytest_evalcheck.learning.watching import Watcher

PACKAGE = {
    "clients": """
        class Endpoint:
            def send(self, prompt):
                raise ConnectionError(prompt)

        class Small(Endpoint):
            pass

        def connect(key=None):
            raise ConnectionError(key)

        def ask(prompt):
            raise ConnectionError(prompt)

        def settings():
            raise FileNotFoundError("settings.toml")
    """,
    "metrics": """
        import json

        from patched_project import clients
        from patched_project.clients import Small, ask, connect, settings


        def chained(answer, source):
            client = connect(key=None)
            reply = client.models.generate(model="small", contents=f"Judge {answer} by {source}")
            return {"score": json.loads(reply.text)["score"] / 5, "reason": "as it said"}


        def simple(answer, source):
            limit = settings()["limit"]
            return float(ask(f"Is {answer} in {source}?") == "yes") * limit


        def helped(answer, source):
            return clients.connect().complete(f"Compare {answer} with {source}")["score"]


        class Judge:
            def __init__(self, strict):
                self.endpoint, self.limit = Small(), settings()["limit"] / (2 if strict else 1)

            async def measure(self, answer, source):
                return float(self.endpoint.send(f"Rate {answer} for {source}")) * self.limit


        def doubled(answer, source):
            return 2 * (ask(f"Is {answer} in {source}?") == "yes")


        def plain(answer, source):
            return float(answer == source)
    """,
}
TESTS = """
    from unittest.mock import MagicMock, patch

    from patched_project import clients, metrics

    PAIRS = [("it is good", "it is"), ("it is not", "it is"), ("some thing", "else")]


    class Client:
        def complete(self, prompt):
            return {"score": len(prompt) / 64}


    def said(prompt):
        return "no" if "not" in prompt else "yes"


    def sent(self, prompt):
        return "0.5" if "not" in prompt else "0.75"


    def test_simple(monkeypatch):
        monkeypatch.setattr(metrics, "settings", lambda: {"limit": 2.0})
        monkeypatch.setattr("patched_project.metrics.ask", said)
        assert [metrics.simple(*pair) for pair in PAIRS] == [2.0, 0.0, 2.0]
        assert [metrics.doubled(*pair) for pair in PAIRS] == [2, 0, 2]


    @patch("patched_project.metrics.connect")
    def test_chained(connect):
        connect.return_value = client = MagicMock()
        client.models.generate.return_value.text = '{"score": 4}'
        assert {metrics.chained(*pair)["score"] for pair in PAIRS} == {0.8}
        assert metrics.plain("a", "a") == 1


    def test_helped(monkeypatch):
        monkeypatch.setattr(clients, "connect", lambda key=None: Client())
        assert all(metrics.helped(*pair) for pair in PAIRS)


    async def test_method(monkeypatch):
        monkeypatch.setattr(metrics.Small, "send", sent, raising=False)
        monkeypatch.setattr(metrics, "settings", MagicMock(return_value={"limit": 2.0}))
        for strict in (False, True):
            judge = metrics.Judge(strict)
            assert [await judge.measure(*pair) for pair in PAIRS] == [1.5 / (1 + strict), 1 / (1 + strict), 1.5 / (1 + strict)]
"""
METRICS = "patched_project.metrics"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("patched")
    (folder / "patched_project").mkdir()
    (folder / "patched_project" / "__init__.py").write_text("")
    for name, source in PACKAGE.items():
        (folder / "patched_project" / f"{name}.py").write_text(textwrap.dedent(source))
    (folder / "test_of_patched.py").write_text(textwrap.dedent(TESTS))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setenv(corpus.PLACE, str(folder / corpus.FOLDER))
        tests = importlib.import_module("test_of_patched")
        watcher = Watcher(["patched_project"], lambda: "test_it")
        with watcher.watch():
            for name in ("simple", "helped", "method"):
                with pytest.MonkeyPatch.context() as given:
                    ran = getattr(tests, f"test_{name}")(given)
                    if name == "method":
                        asyncio.run(ran)
            tests.test_chained()
        corpus.write(watcher.seen, folder / corpus.FOLDER, ["patched_project"])
        yield folder


def _target(name: str) -> Any:
    is_class = isinstance(getattr(sys.modules[METRICS], name), type)
    return propose(Candidate(module=METRICS, name=name, is_class=is_class)).targets[0]


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("simple", ["metrics:ask", "metrics:settings"]),
        ("doubled", ["metrics:ask"]),
        ("chained", ["metrics:connect"]),
        ("helped", ["clients:connect"]),
        ("Judge", ["clients:Small.send", "metrics:settings"]),
        ("plain", []),
    ],
)
def test_what_is_patched_while_a_call_runs_and_asked_by_it_is_kept(project: Path, name: str, places: list[str]) -> None:
    assert corpus.patches_of(f"{METRICS}:{name}") == [f"patched_project.{place}" for place in places]


@pytest.mark.parametrize("name", ["simple", "chained", "helped"])
def test_code_whose_judge_is_patched_is_a_scorer(project: Path, name: str) -> None:
    target = _target(name)
    called = f"ec.replaced('{METRICS}:{name}', lambda: made(responses[0], **document))"
    assert (target.kind, target.described) == ("scorer", f"ec.Scorer.of(lambda responses, document: {called})")


def test_an_object_is_made_and_asked_with_what_is_patched(project: Path) -> None:
    target = _target("Judge")
    assert target.construction == f"ec.replaced('{METRICS}:Judge', lambda: Judge(strict=False))"
    called = f"ec.replaced('{METRICS}:Judge', lambda: asyncio.run(made.measure(responses[0], **document)))"
    assert target.described == f"ec.Scorer.of(lambda responses, document: {called})"


def test_replies_are_those_of_the_tests(project: Path) -> None:
    metrics = sys.modules[METRICS]
    for answer, source, score in (("it is good", "it is", 2.0), ("it is not", "it is", 0.0)):
        assert ec.replaced(f"{METRICS}:simple", lambda: metrics.simple(answer, source)) == score  # noqa: B023
    scores = {
        ec.replaced(f"{METRICS}:chained", lambda: metrics.chained(str(i), "x")["score"])  # noqa: B023
        for i in range(16)
    }
    assert len(scores) > 1
    with pytest.raises(FileNotFoundError):
        metrics.simple("it is good", "it is")


def test_all_is_as_it_was_after_the_last_call_of_several_threads(project: Path) -> None:
    metrics = sys.modules[METRICS]
    before = metrics.ask
    first, second = threading.Event(), threading.Event()

    def wait() -> None:
        first.set()
        second.wait(10)

    thread = threading.Thread(target=lambda: ec.replaced(f"{METRICS}:simple", wait))
    thread.start()
    first.wait(10)
    with pytest.raises(KeyError):
        ec.replaced(f"{METRICS}:simple", lambda: {}["no"])
    assert metrics.ask is not before  # the other call still runs
    second.set()
    thread.join()
    assert metrics.ask is before
    ec.replaced(f"{METRICS}:Judge", lambda: metrics.Judge(strict=True))
    assert "send" not in vars(metrics.Small)


def test_a_place_of_another_package_and_a_name_that_is_not_there_are_errors(
    project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=r"the corpus has no patched_project.metrics:simpel.*did you mean"):
        ec.replaced(f"{METRICS}:simpel", str)
    text = (project / corpus.FOLDER / "patched_project.json").read_text("utf-8")
    (tmp_path / "patched_project.json").write_text(text.replace("patched_project.metrics:settings", "os:getcwd"))
    monkeypatch.setenv(corpus.PLACE, str(tmp_path))
    before = dict(vars(sys.modules[METRICS]))
    with pytest.raises(UsageError, match=r"os:getcwd is no name of the package of patched_project.metrics:simple"):
        ec.replaced(f"{METRICS}:simple", str)
    assert dict(vars(sys.modules[METRICS])) == before  # what was patched before the error is as it was


def test_a_corpus_with_what_was_patched_is_read_as_it_was_written(project: Path) -> None:
    text = (project / corpus.FOLDER / "patched_project.json").read_text("utf-8")
    assert json.loads(text)["entries"]
    read = corpus.read(project / corpus.FOLDER).entries
    [(again, _)] = corpus.texts(read, ["patched_project"]).values()
    *_, entries = corpus.parsed(again, "here")
    assert {f"{each.module}:{each.name}": each for each in entries} == read


def test_the_checks_of_patched_judges_pass(project: Path) -> None:
    def scorer(device: str) -> Any:
        metrics = sys.modules[METRICS]
        return ec.Scorer.of(
            lambda responses, document: ec.replaced(
                f"{METRICS}:simple", lambda: metrics.simple(responses[0], **document)
            )
        )

    target = ec.scorer(inputs=ec.learned(f"{METRICS}:simple", documents=True), budget=None)(scorer)
    cells = ec.run(target, effort="quick").cells
    assert {cell.outcome for cell in cells} <= {"passed", "not applicable"}, [each.reason for each in cells]
    assert any(cell.outcome == "passed" for cell in cells)
