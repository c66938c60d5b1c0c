"""Kinds are decided by a trial with observed calls; what is no function of samples is said, and blanks are written."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_evalcheck.discovery import inputs as inputs_module
from pytest_evalcheck.discovery.blanks import with_blanks
from pytest_evalcheck.discovery.candidates import Candidate
from pytest_evalcheck.discovery.proposals import Proposed, propose
from pytest_evalcheck.discovery.target_source import write
from pytest_evalcheck.errors import UsageError
from pytest_evalcheck.learning import corpus
from pytest_evalcheck.learning.watching import Watcher

SOURCE = """
    import asyncio
    import random
    import time
    import uuid
    from dataclasses import dataclass, field
    from datetime import datetime

    import torch


    class Net(torch.nn.Module):
        def __init__(self, width, out=2):
            super().__init__()
            self.layer = torch.nn.Linear(width, out)

        def forward(self, x):
            return self.layer(x)


    def run_eval(model, loader, scale=1.0):
        right = [float((model(x).argmax(1) == y).float().mean()) for x, y in loader]
        return {"accuracy": scale * sum(right) / len(right)}


    @dataclass
    class Case:
        question: str
        answer: str


    class Judge:
        def __init__(self, strict=False):
            self.strict = strict

        def judge(self, said, case):
            return {"exact": said == case.answer, "length": len(said) / len(case.answer)}


    class Contains:
        def __init__(self, words):
            self.words = words

        async def evaluate(self, case):
            await asyncio.sleep(0)
            found = [each for each in self.words if each in case.answer]
            return {"name": "contains", "score": len(found) / len(self.words), "reason": f"{len(found)} found"}


    class Begins:
        def __init__(self, prefix):
            self.prefix = prefix

        def evaluate(self, case):
            return {"name": "begins", "score": float(case.answer.startswith(self.prefix))}


    class Measured:
        def __init__(self, threshold=0.5):
            self.threshold, self.score = threshold, None

        def measure(self, case):
            self.score = len({*case.question.split()} & {*case.answer.split()}) / len(case.answer.split())
            return Result(self.score, self.score >= self.threshold)


    @dataclass
    class Result:
        score: float
        passed: bool


    @dataclass
    class Box:
        size: float
        score: float = 0.0


    def attached(boxes, scores):
        for box, score in zip(boxes, scores, strict=True):
            box.score = score * box.size
        return sum(box.score for box in boxes) / len(boxes)


    def clipped(boxes, scores):
        # The bug: it writes into the list of its caller.
        scores[:] = [min(score, 0.75) for score in scores]
        return sum(score * box.size for box, score in zip(boxes, scores, strict=True)) / len(boxes)


    def installed(steps, name=None):
        steps.append(name)
        return steps


    def moved(state, gain):
        return state.add_(gain.clamp_(min=0) * 0.5)


    def named_gap(inp, model=None, *, targ):
        return float((inp - targ).abs().mean()) if model is None else 0.0


    def named_only(*, said, expected):
        return float(said == expected)


    async def awaited_gap(inp, targ):
        await asyncio.sleep(0)
        return float((inp - targ).abs().mean())


    def table_gap(table, expected):
        return float((table["score"] - expected).abs().mean())


    def table_gap_of_the_first(table, expected):
        # The bug: the rows of a table are read by their place in the first batch, of three.
        return float(sum(abs(table["score"][i] - expected[i]) for i in range(3)) / 3)


    def overlap(said, expected):
        a, b = {*said.split()}, {*expected.split()}
        return len(a & b) / max(1, len(a | b))


    def begins_alike(said, true, mode):
        if mode not in ("letters", "words"):
            raise ValueError(mode)
        return sum(a == b for a, b in zip(said, true)) / max(len(said), len(true))


    def trend(inp, targ):
        return float(sum(i * (a - b) for i, (a, b) in enumerate(zip(inp, targ))))


    def coin(inp, targ):
        return random.random()


    class Plan:
        def __init__(self, rewards, width):
            self.rewards, self.width = rewards, width

        def to_dict(self):
            return {"rewards": self.rewards.tolist(), "mean": float(self.rewards.mean()), "width": self.width}


    def cost(model, place):
        if (model in ("small", "tiny")) != (place == "here"):
            raise SystemExit(1)
        return len(model) * len(place)


    def hit(ranked, relevant, k):
        return float(any(each in relevant for each in ranked[:k]))


    def checked(weights, count):
        if len(weights) != count:
            raise ValueError("one weight for each")
        return weights.double()


    def one(inp, targ):
        return 1.0


    class KeptTokens:
        def __init__(self, rows, width):
            self.memory = torch.zeros(rows, 0, width)


    class Decoder(torch.nn.Module):
        def __init__(self, vocab, width=8, scale=1.0):
            super().__init__()
            self.embed, self.head = torch.nn.Embedding(vocab, width), torch.nn.Linear(width, vocab)
            self.scale = scale

        def step(self, ids, kept=None):
            new = self.embed(ids)
            past = new[:, :0] if kept is None else kept.memory
            whole = torch.cat([past, new], 1)
            if kept is not None:
                kept.memory = whole * self.scale
            sums = whole.cumsum(1) / torch.arange(1, whole.shape[1] + 1)[:, None]
            return self.head(sums[:, past.shape[1] :])


    class Pile:
        def __init__(self):
            self.values = []

        def push(self, inp, targ):
            self.values.append(float((inp - targ).abs().mean()))

        @property
        def value(self):
            return sum(self.values) / len(self.values)


    class Fit:
        once = False

        def fit(self, inp):
            if self.once and hasattr(self, "mean"):
                raise RuntimeError("it is fitted")
            self.mean = float(inp.mean())
            return self

        def spread(self):
            return 2 * self.mean


    class FitOnce(Fit):
        once = True


    class FitAlone(Fit):
        pass


    class Odd:
        def __init__(self, hue):
            self.hue, self.n = hue, 0

        def grow(self, inp):
            self.n += len(inp)

        def total(self):
            return self.n


    class Session:
        def __init__(self):
            self.active, self.count = False, 0

        def start(self):
            self.active = True

        def record(self, values):
            self.count += sum(values)

        def many(self):
            return self.count


    class Round(Session):
        def start(self):
            self.active, self.count = True, 0


    class Smoothed:
        def __init__(self):
            self.last = 0.0

        def update(self, said, weight):
            self.last = 0.5 * self.last + len(said) * weight
            return self.last


    class Placed:
        def __init__(self, weight, /, power=1):
            self.weight, self.power = weight, power

        def score(self, said, true):
            return self.weight * overlap(said, true) ** self.power


    class Failures:
        def check(self, case, said):
            return [] if case.answer in said else [f"{case.answer} is missing"]


    class Audited:
        def __init__(self):
            self.log = []

        def judge(self, said, expected):
            self.log.append(overlap(said, expected))
            return self.log[-1]


    class Noted:
        def __init__(self):
            self.log = []

        def gap(self, inp, targ):
            self.log.append(float((inp - targ).abs().mean()))
            return self.log[-1]


    class RunningGap:
        def __init__(self):
            self.total, self.n = 0.0, 0

        def gap(self, inp, targ):
            self.total, self.n = self.total + float((inp - targ).abs().sum()), self.n + len(inp)
            return self.total / self.n


    class Agent:
        def __init__(self):
            self.seen = []

        def observe(self, values):
            self.seen += values.tolist()

        def next(self):
            return self.seen[-1] - self.seen[0]


    class Fitted:
        def fit(self, inp):
            self.mean = float(inp.mean())
            return self

        def distance(self, inp):
            return float((inp - self.mean).abs().mean())


    @dataclass
    class Line:
        place: str
        right: bool


    @dataclass
    class Lines:
        lines: list
        share: float
        begun: float = field(default_factory=time.time)
        of: str = field(default_factory=lambda: uuid.uuid4().hex)


    def lined(inp, targ):
        lines = [Line(f"case-{place}", bool(a == b)) for place, (a, b) in enumerate(zip(inp, targ))]
        return Lines(lines, sum(line.right for line in lines) / len(lines))


    class Faded:
        # Each batch counts as much as what came before: batches have an order, and rows have none.
        def __init__(self):
            self.level = None

        def add(self, values):
            mean = float(values.mean())
            self.level = mean if self.level is None else 0.5 * self.level + 0.5 * mean

        def current(self):
            return self.level


    class OfMeans:
        # A mean of means is a fault, and has no order.
        def __init__(self):
            self.means = []

        def add(self, values):
            self.means.append(float(values.mean()))

        def current(self):
            return sum(self.means) / len(self.means)


    class Best:
        def __init__(self):
            self.most = 0.0

        def add(self, values):
            self.most = max(self.most, float(values.max()))

        def current(self):
            return self.most


    class Rates:
        def __init__(self, good, bad):
            self.good, self.bad = good, bad

        def names(self):
            return ["good", "bad"]

        def to_dict(self):
            return {"good": self.good.tolist(), "name": "rates"}

        def gap(self, threshold):
            return float((self.good >= threshold).float().mean() - (self.bad >= threshold).float().mean())


    @dataclass
    class Tally:
        __slots__ = ("right", "total")
        right: int
        total: int

        def share(self):
            return self.right / self.total


    def report(said, expected):
        return Tally(len({*said.split()} & {*expected.split()}), len(expected.split()))


    def counted(scores, count):
        if len(scores) != count:
            raise ValueError("unexpected count")
        return sum(scores) / count


    def rate(matrix):
        return float(matrix[0, 1] / matrix.sum())


    class Words:
        def gap(self, said, true):
            return abs(len(said.split()) - len(true.split()))


    def polite(said):
        return {"passed": "x" not in said, "reason": f"{len(said)} characters"}


    def cleaned(said):
        return {"text": said.strip().lower(), "changed": False}


    def known(name):
        return {"a b": {"id": "ab", "steps": 3}, "a": {"id": "a", "steps": 1}, "x y z": {"id": "x", "steps": 2}}[name]


    def stamped(said, true):
        return {"longer": len(said) > len(true), "at": int(time.time() // 1000)}


    def covered(case, said):
        return len({*said.split()} & {*case.answer.split()}) / len(case.answer.split())


    class Context:
        def __init__(self, most):
            self.most, self.cache = most, {}


    def remembered(said, true, context):
        key = ("length", said, true)
        if key not in context.cache:
            context.cache[key] = abs(len(said) - len(true))
        return context.cache[key]


    class Opened:
        sources = {}

        def __init__(self, name):
            self.name = name

        def share(self, values):
            return sum(values) / self.sources[self.name]


    def judged(said, true, judge):
        return judge.gap(said, true) / 4


    def sampled(scores, client):
        return float(sum(scores) / len(scores)) if client else 0.0


    def dated(said, true):
        return {"gap": len(said) - len(true), "of": {"of": str(uuid.uuid4())}, "at": datetime.now().isoformat()}


    def drawn(said, true):
        return {"gap": len(said) - len(true), "score": random.SystemRandom().random()}


    def readable(text):
        return 1 / len(text.split())


    def scored(said, metrics):
        return {name: metric(said) for name, metric in metrics.items()}


    def entry(client, names):
        return 1.0


    def colour(name):
        return None


    def extracted(said, choices):
        return next((each for each in choices if each in said), "none")
"""


def use(code: Any) -> None:
    """Call it as tests would."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(0)
    data = TensorDataset(torch.randn(12, 3), torch.randint(0, 2, (12,)))
    code.run_eval(code.Net(3), DataLoader(data, batch_size=5))
    judge = code.Judge(strict=True)
    for said, answer in (("a b", "a b"), ("a", "a b"), ("x y z", "a")):
        judge.judge(said, code.Case("q", answer))
        code.overlap(said, answer)
        code.covered(code.Case("q", "a b"), said)
        code.polite(said)
        code.known(said)
        code.report(said, answer).share()
        code.extracted(said, answer.split()[::-1])
    for scale in (1.0, 0.5):  # the memory of the second one is damaged with every step
        decoder = code.Decoder(11, scale=scale)
        decoder.step(torch.tensor([[1, 2, 3]]), code.KeptTokens(1, width=8))
    pile = code.Pile()
    pile.push(torch.tensor([1.0, 2.0]), torch.tensor([1.5, 2.0]))
    pile.push(torch.tensor([4.0]), torch.tensor([1.0]))
    assert pile.value == 1.625
    alone = code.FitAlone()
    alone.fit(torch.tensor([0.5, 1.0, 3.0, 2.5]))
    assert alone.spread() == 3.5
    for fit in (code.Fit(), code.FitOnce()):
        fit.fit(torch.tensor([1.0, 2.0, 4.0]))
        fit.spread()
        if not fit.once:
            fit.fit(torch.tensor([3.0, 2.5])).spread()
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"score": [0.5, 1.0, 3.0], "group": ["a", "b", "a"]})
    for function in (code.table_gap, code.table_gap_of_the_first):
        function(table, pandas.Series([1.0, 1.5, 2.0], name="expected"))
    asyncio.run(code.awaited_gap(torch.tensor([0.5, 1.0, 3.0, 0.25]), torch.tensor([1.0, 1.5, 2.0, 4.0])))
    for answer in ("a", "a b", "c", "b c"):
        asyncio.run(code.Contains(["a", "b"]).evaluate(code.Case("q", answer)))
        code.Measured(0.5).measure(code.Case("a b", answer))
        code.installed([code.rate] if "a" in answer else [])
        code.named_only(said=answer[:1], expected=answer)
    for count in (4, 3):
        code.moved(torch.arange(count).float(), torch.linspace(-1, 2, count))
    for function in (code.attached, code.clipped):
        function([code.Box(1.0), code.Box(2.0), code.Box(0.5)], [0.5, 0.25, 1.0])
        function([code.Box(3.0), code.Box(4.0)], [0.75, 0.1])
    code.named_gap(torch.tensor([0.5, 1.0, 3.0]), targ=torch.tensor([1.0, 1.5, 2.0]))
    code.named_gap(torch.tensor([0.5, 2.0]), object(), targ=torch.tensor([1.0, 1.5]))
    for prefix, answer in (("a", "a b"), ("c", "d"), ("", "x")):  # one call for each way to make it
        code.Begins(prefix).evaluate(code.Case("q", answer))
    for function in (code.trend, code.coin, code.one):
        function(torch.tensor([0.5, 1.0, 3.0, 0.25]), torch.tensor([1.0, 1.5, 2.0, 4.0]))
    for noted in (code.Noted(), code.RunningGap()):
        noted.gap(torch.tensor([0.5, 1.0, 3.0, 0.25]), torch.tensor([1.0, 1.5, 2.0, 4.0]))
        noted.gap(torch.tensor([0.75, 2.0, 1.0]), torch.tensor([1.0, 0.5, 2.5]))
    for said, true in (("a b", "a"), ("c", "d"), ("x y z", "z y")):
        code.Failures().check(code.Case("q", true), said)
        code.Placed(0.5, power=2).score(said, true)
    audited = code.Audited()
    for said, true in (("a b", "a"), ("c", "d"), ("x y z", "z y"), ("a", "a b c")):
        audited.judge(said, true)
    agent = code.Agent()
    agent.observe(torch.tensor([0.5, 1.0, 0.25, 3.0]))
    agent.next()
    for inp in ([1.0, 2.0], [0.5, 3.0, 7.0]):
        code.Fitted().fit(torch.tensor(inp)).distance(torch.tensor([*inp, 4.0]))
    code.lined(["a", "b", "b"], ["a", "b", "c"])
    code.lined(["c", "a"], ["a", "a"])
    for added in (code.Faded(), code.OfMeans(), code.Best()):
        added.add(torch.tensor([0.5, 1.0, 0.25]))
        added.add(torch.tensor([3.0, 2.5]))
        assert added.current() > 1
    for session in (code.Session(), code.Round()):
        session.start()
        session.record([1.0, 2.5])
        session.record([3.5, 0.5])
        assert session.many() == 7.5
    smoothed = code.Smoothed()
    for said in ("a", "a b", "c d e"):
        smoothed.update(said, len(said) / 2)
    for start in (0.0, 0.5):
        rates = code.Rates(torch.tensor([0.75, 0.5, 1.0]) - start, torch.tensor([0.25, 0.75, start]))
        rates.names()
        rates.to_dict()
        rates.gap(0.5)
    for values in ([0.5, 1.0, 3.0], [2.0, 0.25, 0.75]):
        code.Plan(torch.tensor(values), 3).to_dict()
    for model in ("small", "medium", "large", "tiny", "mini"):
        code.cost(model, "here" if model in ("small", "tiny") else "there")
    for k in (1, 30):
        for ranked in ([1, 2, 3, 4], [2, 1, 5, 6], [3, 2, 5, 6], [7, 8, 9]):
            code.hit(ranked, {3}, k)
    for weights in ([0.5, 1.0], [2.0, 0.25, 0.75], [1.5, 3.0, 1.0], [0.1, 0.2]):
        code.checked(torch.tensor(weights), len(weights))
    code.counted([0.5], 1)
    code.counted([0.5, 1.0], 2)
    code.counted([0.5, 1.0, 0.0], 3)
    code.rate(torch.tensor([[3, 1], [2, 6]]))
    code.entry(object(), ["a"])
    code.Opened.sources["first"] = 4
    assert [code.Opened("first").share(values) for values in ([1, 2], [3, 5, 4])] == [0.75, 3.0]
    code.Opened.sources.clear()
    for said, true in (("a b", "a"), ("c d e", "d"), ("f", "g h i")):
        code.judged(said, true, code.Words())
        code.remembered(said, true, code.Context(len(said)))
        code.stamped(said, true)
        code.cleaned(said)
        code.dated(said, true)
        code.drawn(said, true)
        code.scored(said, {"length": lambda text: len(text)})
        code.sampled([0.5, len(said) / 8, len(true) / 8], object())
    code.colour("a")
    code.begins_alike("hello", "help", "letters")
    code.readable("a text of one call alone")


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("kinds")
    (folder / "kinds_project.py").write_text(textwrap.dedent(SOURCE))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setenv("PYTHONPATH", os.pathsep.join((str(folder), os.environ.get("PYTHONPATH", ""))))
        patch.setenv(corpus.PLACE, str(folder / corpus.FOLDER))
        module = importlib.import_module("kinds_project")
        watcher = Watcher(["kinds_project"], lambda: "test_it")
        with watcher.watch():
            use(module)
        corpus.write(watcher.seen, folder / corpus.FOLDER, ["kinds_project"])
        yield module


def _proposed(code: Any, name: str) -> Proposed:
    return propose(Candidate(module="kinds_project", name=name, is_class=isinstance(getattr(code, name), type)))


@pytest.mark.parametrize(
    ("name", "kind", "described"),
    [
        ("Net", "wrapper", "ec.Wrapper(forward=lambda batch: made(*batch), model=made)"),
        ("run_eval", "loop", "ec.Loop(evaluate=lambda data, batch_size=2: made(loader=data.loader(batch_size)))"),
        ("Judge", "scorer", "ec.Scorer.of(lambda responses, document: made.judge(responses[0], **document))"),
        (
            "Contains",
            "scorer",
            "ec.Scorer.of(lambda responses, document: asyncio.run(made.evaluate(responses[0], **document)))",
        ),
        ("Measured", "scorer", "ec.Scorer.of(lambda responses, document: made.measure(responses[0], **document))"),
        ("named_only", "scorer", "ec.Scorer.of(lambda responses, document: made(said=responses[0], **document))"),
        ("Begins", "scorer", "ec.Scorer.of(lambda responses, document: made.evaluate(responses[0], **document))"),
        ("overlap", "scorer", "ec.Scorer.of(lambda responses, document: made(responses[0], **document))"),
        ("extracted", "scorer", "ec.Scorer.of(lambda responses, document: made(responses[0], **document))"),
        ("report", "scorer", "ec.Scorer.of(lambda responses, document: made(responses[0], **document))"),
        (
            "scored",
            "scorer",
            "ec.Scorer.of(lambda responses, document: made(responses[0], **document, "
            "metrics={'length': ec.stand_in('kinds_project:scored', 'metrics')}))",
        ),
        (
            "dated",
            "scorer",
            "ec.Scorer.of(lambda responses, document: ec.leave_out(made(responses[0], **document), 'of', 'at'))",
        ),
        ("readable", "scorer", "ec.Scorer.of(lambda responses, document: made(responses[0], **document))"),
        ("Placed", "scorer", "ec.Scorer.of(lambda responses, document: made.score(responses[0], **document))"),
        ("Failures", "scorer", "ec.Scorer.of(lambda responses, document: made.check(responses[0], **document))"),
        ("Audited", "scorer", "ec.Scorer.of(lambda responses, document: made.judge(responses[0], **document))"),
        (
            "begins_alike",
            "scorer",
            "ec.Scorer.of(lambda responses, document: made(responses[0], **document, true='help', mode='letters'))",
        ),
        ("Session", "metric", "ec.Metric(update=made.record, compute=made.many)"),
        ("Round", "metric", "ec.Metric(update=made.record, compute=made.many, reset=made.start)"),
        ("OfMeans", "metric", "ec.Metric(update=made.add, compute=made.current)"),
        ("Best", "metric", "ec.Metric(update=made.add, compute=made.current)"),
        ("polite", "scorer", "ec.Scorer.of(lambda responses, document: made(responses[0], **document))"),
        (
            "covered",
            "scorer",
            "ec.Scorer.of(lambda responses, document: made(said=responses[0], **document, "
            "case=Case(question='q', answer='a b')))",
        ),
    ],
)
def test_a_kind_is_found_by_trial(code: Any, name: str, kind: str, described: str) -> None:
    [target] = _proposed(code, name).targets
    assert (target.kind, target.described) == (kind, described)


@pytest.mark.parametrize(
    ("name", "kind", "construction"),
    [
        ("Rates", "metric", "lambda *args, **kwargs: Rates(*args, **kwargs).gap(threshold=0.5)"),
        ("Noted", "metric", "Noted().gap"),
        ("Tally", "metric", "lambda *args, **kwargs: Tally(*args, **kwargs).share()"),
        ("awaited_gap", "metric", "lambda *args, **kwargs: asyncio.run(awaited_gap(*args, **kwargs))"),
        ("named_gap", "metric", "named_gap"),
        ("clipped", "metric", "clipped"),
        ("rate", "scorer", "rate"),
        ("judged", "scorer", "judged"),
        (
            "Fit",
            "metric",
            "lambda *args, **kwargs: (lambda made: (made.fit(*args, **kwargs), made.spread())[1])(Fit())",
        ),
        (
            "FitAlone",
            "metric",
            "lambda *args, **kwargs: (lambda made: (made.fit(*args, **kwargs), made.spread())[1])(FitAlone())",
        ),
        (
            "FitOnce",
            "metric",
            "lambda *args, **kwargs: (lambda made: (made.fit(*args, **kwargs), made.spread())[1])(FitOnce())",
        ),
        (
            "lined",
            "metric",
            "lambda *args, **kwargs: ec.leave_out(lined(*args, **kwargs), 'begun', 'of', 'place')",
        ),
        (
            "Fitted",
            "metric",
            "(lambda made: (made.fit(inp=torch.tensor([1.0, 2.0], dtype=torch.float32)), made)[-1])(Fitted()).distance",
        ),
        ("trend", "scorer", "trend"),
        ("hit", "scorer", "hit"),
    ],
)
def test_what_is_made_of_data_or_was_called_once_is_tried(code: Any, name: str, kind: str, construction: str) -> None:
    target = _proposed(code, name).targets[0]
    assert (target.kind, target.construction) == (kind, construction)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("remembered", "no repetition of its calls that were watched gives a value of its own"),
        ("known", "no repetition of its calls that were watched gives a value of its own"),
        ("cleaned", "no repetition of its calls that were watched gives a value of its own"),
        ("drawn", "no repetition of its calls that were watched gives a value of its own"),
        ("stamped", "no repetition of its calls that were watched gives a value of its own"),
        ("Opened", "a repetition of its calls that were watched raised KeyError: 'first'"),
        ("sampled", "its argument client has a builtins.object, which a corpus cannot keep"),
        ("entry", "its argument client has a builtins.object, which a corpus cannot keep"),
        ("RunningGap", "no repetition of its calls that were watched gives a value of its own"),
        ("Smoothed", "no repetition of its calls that were watched gives a value of its own"),
        ("colour", "no call of it that was watched returned a number or a text"),
    ],
)
def test_what_the_watched_calls_lack_is_said(code: Any, name: str, why: str) -> None:
    proposed = _proposed(code, name)
    assert not proposed.targets
    assert proposed.why.startswith(why)


def test_a_command_is_given_what_was_seen_alone(code: Any) -> None:
    [target] = _proposed(code, "cost").targets
    assert (target.kind, str(target.inputs)) == (
        "scorer",
        "ec.learned('kinds_project:cost', documents=True, changes=False)",
    )


def test_arguments_that_follow_from_each_other_are_not_changed(code: Any) -> None:
    [target] = _proposed(code, "counted").targets
    assert str(target.inputs) == "ec.learned('kinds_project:counted', documents=True, changes=False)"


def test_a_table_of_pandas_is_rows(code: Any) -> None:
    proposed = {name: _proposed(code, name) for name in ("table_gap", "table_gap_of_the_first")}
    [target] = proposed["table_gap"].targets
    assert (target.kind, str(target.inputs)) == ("metric", "ec.learned('kinds_project:table_gap')")
    assert not proposed["table_gap_of_the_first"].targets
    assert "KeyError" in proposed["table_gap_of_the_first"].why or proposed["table_gap_of_the_first"].decided


def test_a_decoder_is_a_step_with_a_cache_of_the_package(code: Any, pytester: pytest.Pytester) -> None:
    [target] = _proposed(code, "Decoder").targets
    assert (target.kind, str(target.inputs)) == ("decoder", "es.prompts(vocab=11)")
    assert "make_cache=lambda rows: KeptTokens(rows=rows, width=8)" in target.described
    damaged = replace(target, construction="Decoder(vocab=11, width=8, scale=0.5)", label="damaged")
    pytester.makepyfile(evalcheck_made=write("Targets.", [target, damaged], {}, []))
    ran = pytester.runpytest_subprocess("--evalcheck", "--evalcheck-select=EC301", "-p", "no:cacheprovider", "-rA")
    lines = [line for line in ran.outlines if line.startswith(("PASSED", "FAILED"))]
    assert sorted(("damaged" in line, line.partition(" ")[0]) for line in lines) == [
        (False, "PASSED"),
        (True, "FAILED"),
    ]


def test_a_loop_keeps_the_model_that_its_test_has_made(code: Any) -> None:
    [target] = _proposed(code, "run_eval").targets
    assert target.construction == "partial(run_eval, model=Net(width=3, out=2), scale=1.0)"


def test_what_is_written_runs(code: Any, pytester: pytest.Pytester) -> None:
    targets = [each for name in ("Net", "run_eval", "Judge") for each in _proposed(code, name).targets]
    pytester.makepyfile(evalcheck_made=write("Targets.", targets, {}, []))
    ran = pytester.runpytest_subprocess(
        "--evalcheck", "--evalcheck-select=EC101,EC402,EC501", "-p", "no:cacheprovider", "-rA"
    )
    outcomes = {
        line.split("::")[1]: line.partition(" ")[0] for line in ran.outlines if "::" in line and line[1:2].isupper()
    }
    # A mean of batch means is planted in the loop.
    assert outcomes == {"net_wrapper": "PASSED", "judge": "PASSED", "run_eval_loop": "FAILED"}


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Agent", "its value depends on the order of rows"),
        ("Faded", "its value depends on the order of rows"),
        ("coin", "it is random"),
        ("checked", "it returns rows of its arguments"),
        ("installed", "it returns rows of its arguments"),
        ("moved", "it returns rows of its arguments: one of them itself"),
        ("attached", "it writes into objects of its arguments, batch[0][0].score: 0.0 became "),
        ("Plan", "it returns rows of its arguments, as a record of them"),
        ("one", "right and wrong predictions have the same value, 1.0"),
    ],
)
def test_what_is_no_function_of_samples_is_decided(code: Any, name: str, why: str) -> None:
    proposed = _proposed(code, name)
    assert not proposed.targets
    assert proposed.decided.startswith(why)


def test_blanks_name_what_is_missing_and_run_when_they_are_filled(code: Any, pytester: pytest.Pytester) -> None:
    source = with_blanks(Candidate(module="kinds_project", name="Odd", is_class=True))
    assert "hue of the constructor; a list of two rows or more of inp" in source
    assert "return ec.Metric(update=made.grow, compute=made.total)" in source
    filled = source.replace("Odd(hue=FILL_IN)", "Odd(hue=1)").replace("es.rows(FILL_IN, dtypes=FILL_IN)", "es.values()")
    assert filled.count("FILL_IN") == 1  # in the docstring
    pytester.makepyfile(evalcheck_odd=filled)
    pytester.runpytest_subprocess(
        "--evalcheck", "--evalcheck-select=EC201", "-p", "no:cacheprovider"
    ).stdout.fnmatch_lines(["*ok*"])


@pytest.mark.parametrize(
    "arguments",
    [
        {"said": [{"object": "subprocess:Popen", "fields": {"args": ["touch", "PLACE"]}}] * 2, "expected": [1, 2]},
        {"said": [1, 2], "expected": {"made": "subprocess:Popen", "arguments": {"args": ["touch", "PLACE"]}}},
        {"said": [1, 2], "a=open('PLACE', 'w'), b": 1},
        {
            "ids": {"array": "torch", "dtype": "torch.int64", "shape": [1, 2], "rows": [[1, 2]]},
            "kept": {"made": "subprocess:Popen", "arguments": {"args": ["touch", "PLACE"]}},
        },
        {
            "ids": {"array": "torch", "dtype": "torch.int64", "shape": [1, 2], "rows": [[1, 2]]},
            "kept": {"made": "kinds_project:KeptTokens(open('PLACE', 'w'), 1) or KeptTokens", "arguments": {}},
        },
    ],
)
@pytest.mark.parametrize("name", ["overlap", "Decoder"])
def test_a_hostile_corpus_runs_nothing(
    code: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, arguments: dict[str, Any]
) -> None:
    logits = {"array": "torch", "dtype": "torch.float32", "shape": [1, 2, 11], "rows": []}
    call = {
        "arguments": json.loads(json.dumps(arguments).replace("PLACE", str(tmp_path / "there"))),
        "returned": logits,
    }
    made = [{"made": {"vocab": 11}, "test": "t", "calls": [{"method": "step", **call}]}]
    entry: dict[str, Any] = {"name": f"kinds_project:{name}"}
    entry |= {"calls": [], "objects": made} if name == "Decoder" else {"calls": [{"test": "t", **call}], "objects": []}
    entry["kind"] = "class" if name == "Decoder" else "function"
    folder = tmp_path / corpus.FOLDER
    folder.mkdir()
    whole = {"format": 1, "package": "kinds_project", "release": "", "entries": [entry]}
    (folder / "kinds_project.json").write_text(json.dumps(whole))
    monkeypatch.setenv(corpus.PLACE, str(folder))
    with contextlib.suppress(UsageError):
        _proposed(code, name)
    inputs_module._made.cache_clear()
    assert not (tmp_path / "there").exists()


def test_a_failure_with_other_data_than_that_of_tests_says_so(code: Any, pytester: pytest.Pytester) -> None:
    [target] = _proposed(code, "Pile").targets
    pytester.makepyfile(evalcheck_pile=write("Targets.", [target], {}, []))
    for code_of_check, lines in (("EC202", 1), ("EC201", 0)):
        ran = pytester.runpytest_subprocess(
            "--evalcheck", f"--evalcheck-select={code_of_check}", "-p", "no:cacheprovider"
        )
        ran.stdout.fnmatch_lines(["evalcheck: not ok: 1 failed*"])
        assert ran.stdout.str().count("outside of what your tests use: an empty batch") == lines
