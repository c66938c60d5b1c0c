"""Stand-ins: what tests give in place of a model is watched, and its replies take its place in targets."""

from __future__ import annotations

import asyncio
import copy
import gc
import importlib
import json
import pickle
import sys
import textwrap
import weakref
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

PACKAGE = """
    import json
    import threading
    import time
    from abc import ABC, abstractmethod
    from dataclasses import dataclass


    class Model(ABC):
        @abstractmethod
        def generate(self, prompt): ...

        def generate_json(self, prompt):
            return json.loads(self.generate(prompt))


    @dataclass
    class Result:
        score: float
        reason: str
        seconds: float = 0.0


    class Faithful:
        async def compute(self, answer, provider):
            began = time.perf_counter()
            claims = (await provider.complete(f"List the claims of: {answer}"))["claims"]
            verdicts = (await provider.complete(f"Judge {claims} of {answer}"))["verdicts"]
            good = sum(each["supported"] for each in verdicts)
            return Result(good / len(verdicts), f"{good} of {len(verdicts)}", time.perf_counter() - began)


    class Fluent:
        def __init__(self, model):
            if not isinstance(model, Model):
                raise TypeError("expected a Model")
            self.model = model

        def measure(self, text):
            return Result(self.model.generate_json(f"Rate: {text}")["score"] / 5, self.model.name)


    def rated(client, answer, reference):
        prompt = [{"role": "user", "content": f"Compare {answer} with {reference}"}]
        reply = client.chat.completions.create(model=client.model, messages=prompt)
        return float(reply.choices[0].message.content)


    def chatted(answer, client):
        rules = {"role": "system", "content": "You are a strict judge, who replies with one number from 1 to 5. " * 4}
        return client.create([rules, {"role": "user", "content": f"Rate {answer}"}])["score"]


    @dataclass(frozen=True)
    class Verdict:
        score: float
        reason: str


    def verdict_of(answer, judge):
        return judge.decide(f"Decide: {answer}").score


    def graded(answer, judge):
        if judge(answer) == answer * 2:
            raise ValueError("no answer")
        return float(judge(f"Is this right? {answer}").strip() == "yes")


    def grader(answer, judge):
        found = []
        thread = threading.Thread(target=lambda: found.append(judge(answer)))
        thread.start()
        thread.join()
        return float(found[0] == "yes")


    def near(one, other, distance):
        return distance(one, other)


    def silent(answer, logger):
        return len(answer)
"""
TESTS = """
    from contextlib import suppress
    from dataclasses import dataclass
    from types import SimpleNamespace
    from unittest.mock import AsyncMock, MagicMock

    from judged_project.metrics import Faithful, Fluent, Model, Verdict, chatted, verdict_of, graded, grader, near, rated, silent


    class Provider:
        region, _secret = "here", "no"

        def __init__(self, found=True):
            self.found, self.asked = found, []

        async def complete(self, prompt):
            return self._reply(prompt) if self.listed(prompt) else {"verdicts": [{"supported": self.found}, {"supported": True}]}

        def listed(self, prompt):
            return prompt.startswith("List")

        def _reply(self, prompt):
            return {"claims": ["a", "b"]}


    class Fake(Model):
        name = "fake"

        def generate(self, prompt):
            return '{"score": 4}'


    @dataclass
    class FakeWithFields(Fake):
        name: str = "fields"


    class Client:
        model = "small"

        def __init__(self):
            create = lambda **given: SimpleNamespace(choices=[SimpleNamespace(message=SimpleNamespace(content="0.75"))])
            self.chat = SimpleNamespace(completions=SimpleNamespace(create=create))


    def mocked():
        client = MagicMock(model="small")
        client.chat.completions.create.return_value.choices = [MagicMock(message=MagicMock(content="0.75"))]
        return client


    async def use():
        for answer in ("it is good", "it is not", "some thing else"):
            await Faithful().compute(answer, Provider(found="not" not in answer))
            Fluent(Fake()).measure(answer)
            Fluent(FakeWithFields()).measure(answer)
            rated(mocked(), answer, answer + " x")
            graded(answer, lambda prompt: "yes")
            verdict_of(answer, MagicMock(decide=MagicMock(return_value=Verdict(0.75, "it says so"))))
            chatted(answer, MagicMock(create=MagicMock(return_value={"score": 4})))
            grader(answer, MagicMock(return_value="yes"))
            near(len(answer), 2, lambda one, other: abs(one - other))
            silent(answer, MagicMock())
        with suppress(ValueError):
            graded("refused", lambda prompt: prompt * 2)
        provider = MagicMock(complete=AsyncMock(return_value={"claims": ["c"], "verdicts": [{"supported": False}]}))
        await Faithful().compute("one more", provider)
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("judged")
    (folder / "judged_project").mkdir()
    (folder / "judged_project" / "__init__.py").write_text("")
    (folder / "judged_project" / "metrics.py").write_text(textwrap.dedent(PACKAGE))
    (folder / "tests_of_judged.py").write_text(textwrap.dedent(TESTS))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setenv(corpus.PLACE, str(folder / corpus.FOLDER))
        tests = importlib.import_module("tests_of_judged")
        watcher = Watcher(["judged_project"], lambda: "test_it")
        with watcher.watch():
            asyncio.run(tests.use())
        corpus.write(watcher.seen, folder / corpus.FOLDER, ["judged_project"])
        yield folder


def _replies(name: str, argument: str) -> list[dict[str, Any]]:
    return corpus.nearest().entries[f"judged_project.metrics:{name}"].stand_ins[argument].replies


def test_replies_are_kept_by_the_text_that_was_asked(project: Path) -> None:
    asked = {(each["method"], each["text"]) for each in _replies("Faithful", "provider")}
    assert ("complete", "List the claims of: it is good") in asked
    assert ("complete", "Judge ['c'] of one more") in asked
    assert {method for method, _ in asked} == {"complete"}  # what a stand-in calls itself is no reply
    assert all(each["awaited"] for each in _replies("Faithful", "provider"))
    known = corpus.nearest().entries["judged_project.metrics:Faithful"].stand_ins["provider"]
    assert (known.name, known.attributes) == ("tests_of_judged.Provider", {"region": "here", "found": True})


def test_what_is_given_has_one_form_in_all_calls(project: Path) -> None:
    entry = corpus.nearest().entries["judged_project.metrics:Faithful"]
    given = [call.arguments["provider"] for each in entry.objects for call in each.calls]
    assert given == [{"stand_in": "provider", "of": "judged_project.metrics:Faithful"}] * 4


@pytest.mark.parametrize("name", ["rated", "graded", "grader"])
def test_mocks_functions_and_calls_in_threads_are_seen(project: Path, name: str) -> None:
    argument = "client" if name == "rated" else "judge"
    assert len(_replies(name, argument)) == 3 + 3 * (name == "graded")  # which asks twice; one was refused
    assert {each["method"] for each in _replies(name, argument)} == {
        "chat.completions.create" if name == "rated" else ""
    }


def test_what_is_asked_no_text_has_no_replies(project: Path) -> None:
    """The distance of two numbers follows from them: a reply that another call was given is none."""
    assert not _replies("near", "distance")
    assert not _replies("silent", "logger")


def test_a_stand_in_replies_as_the_tests_did_and_the_same_to_the_same_text(project: Path) -> None:
    provider = ec.stand_in("judged_project.metrics:Faithful", "provider")
    assert provider.region == "here"
    prompt = "Judge ['a', 'b'] of it is not"
    assert asyncio.run(provider.complete(prompt)) == {"verdicts": [{"supported": False}, {"supported": True}]}
    assert "claims" in asyncio.run(provider.complete("List the claims of: what nobody asked"))
    others = [asyncio.run(provider.complete(f"Judge ['a', 'b'] of {number}")) for number in range(16)]
    assert all({*each} == {"verdicts"} for each in others)
    assert len({*map(str, others)}) > 1
    assert others == [asyncio.run(provider.complete(f"Judge ['a', 'b'] of {number}")) for number in range(16)]
    with pytest.raises(AttributeError, match="has no embed: no test used it"):
        provider.embed("x")
    again = copy.deepcopy(pickle.loads(pickle.dumps(provider)))
    assert asyncio.run(again.complete(prompt)) == asyncio.run(provider.complete(prompt))


def test_a_single_reply_is_changed_by_the_text(project: Path) -> None:
    model = ec.stand_in("judged_project.metrics:Fluent", "model")
    scores = [
        json.loads(model.generate(f"Rate: {text}"))["score"] for text in ("it is good", "it is not", "some thing else")
    ]
    assert len({*scores}) == 3
    assert {*scores} <= {1, 2, 3, 4}
    judge = ec.stand_in("judged_project.metrics:graded", "judge")
    assert {judge(f"Is this right? {number}") for number in range(16)} == {"yes", "no"}
    client = ec.stand_in("judged_project.metrics:rated", "client")
    content = (
        client.chat.completions.create(model="small", messages=[{"content": "Compare 1"}]).choices[0].message.content
    )
    assert 0 <= float(content) <= 1


def test_a_stand_in_is_of_the_class_that_the_package_asks_for(project: Path) -> None:
    model = ec.stand_in("judged_project.metrics:Fluent", "model")
    assert isinstance(model, sys.modules["judged_project.metrics"].Model)
    assert set(model.generate_json("Rate: a")) == {"score"}  # its own method calls the one that replies


def test_one_that_is_not_there_is_an_error_with_the_nearest(project: Path) -> None:
    with pytest.raises(UsageError, match=r"has no stand-in for the argument modle of .*did you mean 'model'"):
        ec.stand_in("judged_project.metrics:Fluent", "modle")
    with pytest.raises(UsageError, match=r"has no stand-in for the argument model of judged_project.metrics:Fluend"):
        ec.stand_in("judged_project.metrics:Fluend", "model")


@pytest.mark.parametrize(
    ("name", "described"),
    [
        (
            "Faithful",
            "ec.leave_out(asyncio.run(made.compute(responses[0], **document, "
            "provider=ec.stand_in('judged_project.metrics:Faithful', 'provider'))), 'seconds'))",
        ),
        ("Fluent", "made.measure(responses[0], **document))"),
        (
            "rated",
            "made(answer=responses[0], **document, client=ec.stand_in('judged_project.metrics:rated', 'client')))",
        ),
        ("chatted", "made(responses[0], **document, client=ec.stand_in('judged_project.metrics:chatted', 'client')))"),
        (
            "verdict_of",
            "made(responses[0], **document, judge=ec.stand_in('judged_project.metrics:verdict_of', 'judge')))",
        ),
        ("graded", "made(responses[0], **document, judge=ec.stand_in('judged_project.metrics:graded', 'judge')))"),
        ("grader", "made(responses[0], **document, judge=ec.stand_in('judged_project.metrics:grader', 'judge')))"),
        ("silent", "made(responses[0], **document, logger=ec.stand_in('judged_project.metrics:silent', 'logger')))"),
    ],
)
def test_code_with_a_judge_is_a_scorer(project: Path, name: str, described: str) -> None:
    metrics = sys.modules["judged_project.metrics"]
    is_class = isinstance(getattr(metrics, name), type)
    target = propose(Candidate(module="judged_project.metrics", name=name, is_class=is_class)).targets[0]
    assert target.described == f"ec.Scorer.of(lambda responses, document: {described}"
    if name == "Fluent":
        assert target.construction == "Fluent(model=ec.stand_in('judged_project.metrics:Fluent', 'model'))"


def test_a_corpus_with_replies_is_read_as_it_was_written_and_joined(project: Path) -> None:
    read = corpus.read(project / corpus.FOLDER).entries
    joined = corpus.merged([read, read])
    name = "judged_project.metrics:Faithful"
    assert joined[name].stand_ins == read[name].stand_ins
    [(text, _)] = corpus.texts(read, ["judged_project"]).values()
    *_, entries = corpus.parsed(text, "here")
    assert {f"{each.module}:{each.name}": each for each in entries} == read


@pytest.mark.parametrize("method", ["__reduce__", "_replies", "a b", "chat..create"])
def test_a_corpus_with_another_name_of_a_method_is_refused(project: Path, method: str) -> None:
    text = (project / corpus.FOLDER / "judged_project.json").read_text("utf-8")
    with pytest.raises(UsageError, match="is no name of an attribute"):
        corpus.parsed(text.replace('"method": "generate"', f'"method": "{method}"'), "here")


def test_a_stand_in_is_let_go(project: Path) -> None:
    tests = importlib.import_module("tests_of_judged")
    watcher = Watcher(["judged_project"], lambda: "test_it")
    with watcher.watch():
        fake = tests.Fake()
        assert tests.Fluent(fake).measure("a").score == 0.8
    freed = weakref.ref(fake)
    del fake
    gc.collect()
    assert freed() is None
