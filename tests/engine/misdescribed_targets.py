"""Descriptions of targets that users get wrong, with the words that the error must contain; and right ones of bugs.

The words are facts (what the function of the user was given, with types, dtypes and shapes, and what came back) and the
nearest remedy.
"""

from __future__ import annotations

from typing import NamedTuple


class Mistake(NamedTuple):
    """A target file in which one description is wrong."""

    name: str
    source: str
    words: tuple[str, ...]


HEADER = """
import torch
import pytest_evalcheck as ec
from hypothesis import strategies as st
from pytest_evalcheck import strategies as es

numbers = es.samples(st.tuples(st.integers(0, 8), st.integers(1, 3)), name="numbers",
                     collate=lambda rows: ([float(a) for a, _ in rows], [b for _, b in rows]))

class WeightedMean:
    def __init__(self):
        self.total, self.weight = 0.0, 0
    def update(self, values, weights):
        if len(values) != len(weights):
            raise ValueError(f"{len(values)} values and {len(weights)} weights")
        self.total += sum(v * w for v, w in zip(values, weights))
        self.weight += sum(weights)
    def compute(self):
        return self.total / self.weight if self.weight else float("nan")

class Linear(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(3, 4)
    def forward(self, x):
        return self.layer(x)

rows = es.tabular(features=3, classes=4)
"""

METRICS = [
    Mistake(
        "collate returns the rows themselves",
        """
        @ec.metric(inputs=numbers.replace(collate=lambda rows: rows))
        def target():
            return ec.Metric.of(WeightedMean())
        """,
        ("collate returned list", "expected a tuple of the positional arguments of update"),
    ),
    Mistake(
        "collate returns one list of pairs in a tuple",
        """
        @ec.metric(inputs=numbers.replace(collate=lambda rows: (rows,)))
        def target():
            return ec.Metric.of(WeightedMean())
        """,
        ("update(", "missing 1 required positional argument: 'weights'"),
    ),
    Mistake(
        "collate returns a tensor",
        """
        @ec.metric(inputs=numbers.replace(collate=lambda rows: torch.tensor(rows)))
        def target():
            return ec.Metric.of(WeightedMean())
        """,
        ("collate returned Tensor", "expected a tuple of the positional arguments of update"),
    ),
    Mistake(
        "collate returns a number",
        """
        @ec.metric(inputs=numbers.replace(collate=lambda rows: len(rows)))
        def target():
            return ec.Metric.of(WeightedMean())
        """,
        ("collate", "int", "tuple"),
    ),
    Mistake(
        "collate returns nothing",
        """
        def collate(rows):
            [a for a, _ in rows], [b for _, b in rows]

        @ec.metric(inputs=numbers.replace(collate=collate))
        def target():
            return ec.Metric.of(WeightedMean())
        """,
        ("collate", "None", "return"),
    ),
    Mistake(
        "collate gives names where update takes places",
        """
        @ec.metric(inputs=numbers.replace(collate=lambda rows: {"x": [float(a) for a, _ in rows], "n": [b for _, b in rows]}))
        def target():
            return ec.Metric.of(WeightedMean())
        """,
        ("update(x=", "unexpected keyword argument 'x'", "return a tuple: the arguments by position"),
    ),
    Mistake(
        "predictions and targets are swapped",
        """
        @ec.metric(inputs=es.multiclass(classes=3, of="logits").replace(collate=lambda rows: (
            torch.tensor([label for _, label in rows]), torch.tensor([scores for scores, _ in rows]))))
        def target():
            from torchmetrics.classification import MulticlassAccuracy
            return MulticlassAccuracy(num_classes=3)
        """,
        ("update(preds=int64[4], target=float32[4, 3])", "exchange the two arguments"),
    ),
    Mistake(
        "labels are floats",
        """
        class Entropy(WeightedMean):
            def update(self, logits, labels):
                loss = torch.nn.functional.cross_entropy(logits, labels, reduction="sum")
                self.total, self.weight = self.total + float(loss), self.weight + len(labels)

        @ec.metric(inputs=es.multiclass(classes=3, of="logits").replace(collate=lambda rows: (
            torch.tensor([scores for scores, _ in rows]), torch.tensor([float(label) for _, label in rows]))))
        def target():
            return ec.Metric.of(Entropy())
        """,
        ("update(", "float32[4, 3]", "float32[4]", "int64"),
    ),
    Mistake(
        "ids where scores are expected",
        """
        class Entropy(WeightedMean):
            def update(self, logits, labels):
                loss = torch.nn.functional.cross_entropy(logits, labels, reduction="sum")
                self.total, self.weight = self.total + float(loss), self.weight + len(labels)

        @ec.metric(inputs=es.multiclass(classes=3))
        def target():
            return ec.Metric.of(Entropy())
        """,
        ("update(", "int64[4]"),
    ),
    Mistake(
        "another number of classes",
        """
        @ec.metric(inputs=es.multiclass(classes=5, of="logits"))
        def target():
            from torchmetrics.classification import MulticlassAccuracy
            return MulticlassAccuracy(num_classes=3)
        """,
        ("update(", "float32[4, 5]"),
    ),
    Mistake(
        "samples of another kind",
        """
        @ec.metric(inputs=es.text_pairs())
        def target():
            from torchmetrics import MeanSquaredError
            return MeanSquaredError()
        """,
        ("update(", "list"),
    ),
    Mistake(
        "the factory forgets to return",
        """
        @ec.metric(inputs=numbers)
        def target():
            ec.Metric.of(WeightedMean())
        """,
        ("the factory returned None", "return"),
    ),
    Mistake(
        "the factory returns the class",
        """
        @ec.metric(inputs=numbers)
        def target():
            return WeightedMean
        """,
        ("the factory returned the class WeightedMean, not an instance of it",),
    ),
    Mistake(
        "the factory returns an object that needs a record",
        """
        class Tally(WeightedMean):
            add, computed = WeightedMean.update, WeightedMean.compute
            update = compute = None

        @ec.metric(inputs=numbers)
        def target():
            return Tally()
        """,
        ("the factory returned", "Tally", "ec.Metric(update="),
    ),
    Mistake(
        "the factory is asynchronous",
        """
        @ec.metric(inputs=numbers)
        async def target():
            return ec.Metric.of(WeightedMean())
        """,
        ("the factory is an async function",),
    ),
    Mistake(
        "the factory is a generator",
        """
        @ec.metric(inputs=numbers)
        def target():
            yield ec.Metric.of(WeightedMean())
        """,
        ("generator", "return"),
    ),
    Mistake(
        "update is asynchronous",
        """
        class Later(WeightedMean):
            async def update(self, values, weights):
                super().update(values, weights)

        @ec.metric(inputs=numbers)
        def target():
            return ec.Metric.of(Later())
        """,
        ("coroutine",),
    ),
    Mistake(
        "compute is a property",
        """
        class Shown(WeightedMean):
            @property
            def compute(self):
                return self.total / self.weight if self.weight else 0.0

        @ec.metric(inputs=numbers)
        def target():
            return ec.Metric.of(Shown())
        """,
        ("Shown has no method compute",),
    ),
    Mistake(
        "an import is missing in the factory",
        """
        @ec.metric(inputs=numbers)
        def target():
            return ec.Metric.of(np.mean)
        """,
        ("NameError", "name 'np' is not defined"),
    ),
    Mistake(
        "the factory returns the same object every time",
        """
        ONE = ec.Metric.of(WeightedMean())

        @ec.metric(inputs=numbers)
        def target():
            return ONE
        """,
        ("the same object", "a new one"),
    ),
    Mistake(
        "CUDA is written into the factory",
        """
        @ec.metric(inputs=es.multiclass(classes=3, of="logits"))
        def target():
            from torchmetrics.classification import MulticlassAccuracy
            return MulticlassAccuracy(num_classes=3).to("cuda")
        """,
        # A torch that is built with CUDA names the driver, and one without names CUDA.
        ("the factory raised an error", "argument device"),
    ),
]

WRAPPERS = [
    Mistake(
        "the forward takes another name",
        """
        @ec.wrapper(inputs=rows.replace(collate=lambda part: {"features": torch.tensor([x for _, x in part]),
                                                          "labels": torch.tensor([y for y, _ in part])}))
        def target():
            return ec.Wrapper.of(Linear())
        """,
        ("forward(", "features", "unexpected keyword argument 'features'"),
    ),
    Mistake(
        "the labels come first",
        """
        @ec.wrapper(inputs=rows.replace(collate=lambda part: (torch.tensor([y for y, _ in part]),
                                                          torch.tensor([x for _, x in part]))))
        def target():
            return ec.Wrapper.of(Linear())
        """,
        ("forward(", "int64[4]"),
    ),
    Mistake(
        "the module is a function",
        """
        @ec.wrapper(inputs=rows)
        def target():
            return lambda batch: batch
        """,
        ("the factory returned", "function", "ec.Wrapper("),
    ),
]

SCORERS = [
    Mistake(
        "responses and documents are swapped",
        """
        @ec.scorer(inputs=es.responses())
        def target():
            def score(documents, responses):
                return [float(r[0] == d["answer"]) for r, d in zip(responses, documents)]
            return ec.Scorer(score=score)
        """,
        ("score(responses=list of 4 list, documents=list of 4 dict)", "exchange the two arguments"),
    ),
    Mistake(
        "a scorer of one document",
        """
        @ec.scorer(inputs=es.responses())
        def target():
            def score(responses, document):
                return float(responses[0] == document["answer"])
            return ec.Scorer(score=score)
        """,
        ("score(responses=list of 4 list, documents=list of 4 dict)", "one score per document"),
    ),
    Mistake(
        "a scorer that returns one number",
        """
        @ec.scorer(inputs=es.responses())
        def target():
            return ec.Scorer(score=lambda responses, documents: 0.5)
        """,
        ("float: 0.5", "one score per document"),
    ),
    Mistake(
        "a scorer of texts that is given lists",
        """
        @ec.scorer(inputs=es.responses())
        def target():
            return ec.Scorer(score=lambda responses, documents: [float(r.strip() == d["answer"])
                                                                 for r, d in zip(responses, documents)])
        """,
        ("score(", "'list' object has no attribute 'strip'"),
    ),
]

LOOPS = [
    Mistake(
        "evaluate returns nothing",
        """
        @ec.loop(inputs=rows)
        def target():
            def evaluate(data, batch_size=2):
                {"count": len(data)}
            return ec.Loop(evaluate=evaluate)
        """,
        ("evaluate", "None", "return"),
    ),
    Mistake(
        "evaluate returns a text",
        """
        @ec.loop(inputs=rows)
        def target():
            return ec.Loop(evaluate=lambda data, batch_size=2: f"{len(data)} samples")
        """,
        ("evaluate", "'4 samples'"),
    ),
    Mistake(
        "the loop reads a tuple where collate gives a dict",
        """
        @ec.loop(inputs=rows.replace(collate=lambda part: {"x": torch.tensor([x for _, x in part]),
                                                       "y": torch.tensor([y for y, _ in part])}))
        def target():
            model = Linear()
            def evaluate(data, batch_size=2):
                right = 0
                for i in range(0, len(data), batch_size):
                    x, y = data.collate(data[i : i + batch_size])
                    right += int((model(x).argmax(1) == y).sum())
                return {"accuracy": right / len(data)}
            return ec.Loop(evaluate=evaluate, model=model)
        """,
        ("the collate(rows=[", "-> {x: float32[2, 3], y: int64[2]}", 'containers=("tuple",)'),
    ),
    Mistake(
        "evaluate takes no data",
        """
        @ec.loop(inputs=rows)
        def target():
            return ec.Loop(evaluate=lambda: {"accuracy": 1.0})
        """,
        ("evaluate", "takes 0 positional arguments"),
    ),
]

DECODERS = [
    Mistake(
        "a decoder without a cache",
        """
        @ec.decoder(inputs=es.prompts(vocab=20))
        def target():
            return ec.Decoder(Linear(), make_cache=lambda rows: None, step=lambda ids, cache, mask, positions: None)
        """,
        ("make_cache", "None"),
    ),
    Mistake(
        "ids where logits are expected",
        """
        @ec.decoder(inputs=es.prompts(vocab=20))
        def target():
            return ec.Decoder(Linear(), make_cache=lambda rows: {}, step=lambda ids, cache, mask, positions: ids)
        """,
        ("step(ids=int64[1, ", "expected a floating tensor of shape", "vocabulary"),
    ),
]

MISTAKES = [*METRICS, *WRAPPERS, *SCORERS, *LOOPS, *DECODERS]


class Bug(NamedTuple):
    """A target file with a right description of code with a bug."""

    name: str
    source: str


BUGS = [
    Bug(
        "a mean of batch means",
        """
        class Means:
            def __init__(self):
                self.means = []
            def update(self, values, weights):
                self.means.append(sum(values) / len(values))
            def compute(self):
                return sum(self.means) / len(self.means)

        @ec.metric(inputs=numbers)
        def target():
            return ec.Metric.of(Means())
        """,
    ),
    Bug(
        "a constant",
        """
        class Constant(WeightedMean):
            def compute(self):
                return 0.5

        @ec.metric(inputs=numbers)
        def target():
            return ec.Metric.of(Constant())
        """,
    ),
    Bug(
        "an error for a batch of one",
        """
        class Few(WeightedMean):
            def update(self, values, weights):
                if len(values) == 1:
                    raise ValueError("one value")
                super().update(values, weights)

        @ec.metric(inputs=numbers)
        def target():
            return ec.Metric.of(Few())
        """,
    ),
    Bug(
        "an error in reset",
        """
        class Stuck(WeightedMean):
            def reset(self):
                raise RuntimeError("no reset")

        @ec.metric(inputs=numbers)
        def target():
            return ec.Metric.of(Stuck())
        """,
    ),
    Bug(
        "NaN after a number",
        """
        class Spreads(WeightedMean):
            batches = 0
            def update(self, values, weights):
                super().update(values, weights)
                self.batches += 1
            def compute(self):
                return super().compute() if self.batches < 2 else float("nan")

        @ec.metric(inputs=numbers)
        def target():
            return ec.Metric.of(Spreads())
        """,
    ),
    Bug(
        "a wrapper that drops a row",
        """
        class Drops(Linear):
            def forward(self, x):
                return super().forward(x)[:-1] if len(x) > 1 else super().forward(x)

        @ec.wrapper(inputs=rows.replace(collate=lambda part: (torch.tensor([x for _, x in part]),
                                                          torch.tensor([y for y, _ in part]))))
        def target():
            return ec.Wrapper.of(Drops())
        """,
    ),
    Bug(
        "a scorer that loses a document",
        """
        @ec.scorer(inputs=es.responses())
        def target():
            def score(responses, documents):
                return [float(r[0] == d["answer"]) for r, d in zip(responses[:3], documents)]
            return ec.Scorer(score=score)
        """,
    ),
    Bug(
        "a scorer that gives each document the score of the one before",
        """
        @ec.scorer(inputs=es.responses())
        def target():
            def score(responses, documents):
                scores = [float(r[0] == d["answer"]) for r, d in zip(responses, documents)]
                return [0.0, *scores[:-1]] if scores else []
            return ec.Scorer(score=score)
        """,
    ),
    Bug(
        "a loop that drops the last batch",
        """
        @ec.loop(inputs=rows)
        def target():
            def evaluate(data, batch_size=2):
                whole = len(data) // batch_size * batch_size or len(data)
                return {"mean": sum(float(y) for y, _ in data[:whole]) / whole}
            return ec.Loop(evaluate=evaluate)
        """,
    ),
]
"""None of these is misdescribed, whatever its checks say; the planted bugs of the gallery are not either."""
