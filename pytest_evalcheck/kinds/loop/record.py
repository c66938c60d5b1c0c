"""The record that describes a whole evaluation, as callables."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_evalcheck.kinds.loop.data import LoopData
from pytest_evalcheck.kinds.loop.reference_loop import PlainLoop, Score, call

Numbers = Mapping[str, float]

BATCH_SIZES = (1, 2, 3, 4, 7, 64)
OPTIONS: dict[str, tuple[Any, ...]] = {
    "batch_size": BATCH_SIZES,
    "workers": (0, 1, 2),
    "num_workers": (0, 1, 2),
    "prefetch": (None, 1, 4),
    "prefetch_factor": (None, 1, 4),
    "pin_memory": (False, True),
    "iterable": (False, True),
    "sorted": (False, True),
    "persistent_workers": (False, True),
}
"""By the name of a parameter of ``evaluate``: values that may not change the numbers. The first is the plain one."""
_NEED_WORKERS = ("prefetch", "prefetch_factor", "persistent_workers")


@dataclass(frozen=True, kw_only=True)
class Loop:
    """A whole evaluation of a data set, as callables. Only ``evaluate`` is needed.

    What is left out is reported as not applicable, e.g. EC507 without ``retries``.
    """

    evaluate: Callable[..., Any]
    """``evaluate(data, batch_size=2, **options)`` evaluates a `LoopData` and gives an `Evaluated`, or a mapping of
    numbers by name."""
    options: Mapping[str, Sequence[Any]] | None = None
    """By the name of a keyword of ``evaluate``: the values that may not change the numbers, the plain one first. None:
    those of `OPTIONS` that the signature of ``evaluate`` names."""
    exact: Callable[[LoopData], Numbers] | None = None
    """``exact(data)`` gives the numbers that are right: one sample at a time in float64, without the framework. It need
    not name all of them. The ``reference`` of the target does the same where no model is needed."""
    over_ranks: Callable[..., Sequence[Any]] | None = None
    """``over_ranks(data, ranks, batch_size=2)`` evaluates over so many ranks in this process and gives what each of
    them reports; None for one that reports nothing."""
    on_rank: Callable[..., Any] | None = None
    """``on_rank(data, batch_size=2)``, called in every process of a ``torch.distributed`` group, gives what this rank
    reports; None for nothing."""
    train: Callable[[LoopData, Callable[[], None]], Any] | None = None
    """``train(data, between)`` trains for a few steps, calls ``between()`` once in the middle, and gives what became of
    it: losses, the order of samples, parameters."""
    model: Any = None
    """The ``torch.nn.Module`` that is evaluated; its modes, parameters, buffers, gradients and outputs are watched."""
    optimizer: Any = None
    """Its state is to stay as it is."""
    retries: bool = False
    """Whether a batch is evaluated again, perhaps in parts, after an out-of-memory error."""
    evaluators: Callable[..., Mapping[str, Any]] | None = None
    """``evaluators({"first": data, "second": other}, order=("second", "first"), batch_size=2)``: several evaluations in
    one run, by name."""
    agree: Mapping[str, Callable[[Numbers], float]] = field(default_factory=dict)
    """By the name of a number: the same quantity, made of others of these numbers."""
    variants: Mapping[str, Any] = field(default_factory=dict)
    """Optimised configurations that need this object; others are a keyword of the decorator."""
    source: Any = None
    """The object behind the callables."""

    def __post_init__(self) -> None:
        for name in ("evaluate", "exact", "over_ranks", "on_rank", "train", "evaluators"):
            given = getattr(self, name)
            if not callable(given) and (given is not None or name == "evaluate"):
                raise TypeError(f"{name}={given!r}; expected a function")
        for name, values in (self.options or {}).items():
            if isinstance(values, str) or not isinstance(values, Sequence) or not values:
                raise TypeError(f"options[{name!r}]={values!r}; expected a list of values, the plain one first")
        for name, made in self.agree.items():
            if not callable(made):
                raise TypeError(f"agree[{name!r}]={made!r}; expected a function of the numbers by name")
        if self.model is not None and not callable(getattr(self.model, "named_modules", None)):
            raise TypeError(f"model is {type(self.model).__name__}; expected a torch.nn.Module")

    @property
    def offered(self) -> dict[str, tuple[Any, ...]]:
        """The options by name, with their values."""
        if self.options is not None:
            return {name: tuple(values) for name, values in self.options.items()}
        try:
            parameters = inspect.signature(self.evaluate).parameters
        except (TypeError, ValueError):  # some callables have none
            return {}
        return {name: OPTIONS[name] for name in parameters if name in OPTIONS}

    def plainly(self, name: str, value: Any) -> dict[str, Any]:
        """The keywords that give one option a value, with what torch's loader needs beside it."""
        if name in _NEED_WORKERS and value:
            others = next((one for one in ("workers", "num_workers") if one in self.offered), None)
            return {name: value, others: 1} if others else {}
        return {name: value}

    @classmethod
    def of(
        cls,
        model: Any,
        *,
        loss: Score | None = None,
        metrics: Mapping[str, Score] | None = None,
        forward: Callable[[Any, Any], Any] = call,
        **more: Any,
    ) -> Loop:
        """The record of a bare ``torch.nn.Module`` that is evaluated as it should be.

        ``loss(outputs, batch)``, and each of ``metrics`` by its name, gives a number a sample as a tensor ``[rows]``,
        or ``(sums, counts)``, both ``[rows]``, where a sample counts for as much as it has tokens. ``forward(model,
        batch)`` gives the outputs; by default the model is given those fields of a batch that its ``forward`` names.
        """
        scores = {**({} if loss is None else {"loss": loss}), **(metrics or {})}
        if not scores or not all(map(callable, scores.values())):
            raise TypeError(f"loss={loss!r}, metrics={metrics!r}; expected functions of outputs and a batch")
        plain = PlainLoop(model, scores, forward)
        return cls(**{"evaluate": plain.evaluate, "exact": plain.exact, "model": model, "source": model, **more})

    def contents(self) -> dict[str, Any]:
        """What nobody may change in a loop that is only copied."""
        return dict(getattr(self.source, "__dict__", {}))
