"""The record that describes a decoder, as callables around a model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from pytest_evalcheck.kinds.common.convention import Convention, require_conventions
from pytest_evalcheck.kinds.decoder.log_probabilities import Sampler, TextScore
from pytest_evalcheck.strategies.samples import Side

Full = Callable[[Any, Any, Any], Any]
"""``full(ids, mask, positions)`` returns the logits ``[rows, n, vocab]``, without a cache."""
Step = Callable[[Any, Any, Any, Any], Any]
"""``step(ids, cache, mask, positions)`` returns the logits ``[rows, n, vocab]`` of new ids, or ``(logits, cache)``.

``ids`` and ``positions`` are int64 ``[rows, n]``, ``mask`` is int64 ``[rows, past + n]``: it covers what the cache
holds and the new ids, 1 for a token and 0 for padding. A position counts the tokens of its row, and is 0 at padding.
"""
Generate = Callable[[list[list[int]], Any, int, tuple[int, ...]], Sequence[Any]]
"""``generate(prompts, cache, max_new_tokens, stop)`` returns the new tokens of each prompt, greedily.

A row ends with its stop token or just before it; nothing may follow. ``stop`` may be empty.
"""

OPERATIONS = ("reset", "tear_down", "reorder", "select", "repeat", "crop")
REFUSALS = ("chunks", "smaller batches", "padding")
SIDES = ("left", "right")


def truncate_at_stop(tokens: Sequence[int], stop: Collection[int], *, keep_stop: bool = False) -> list[int]:
    """The tokens before the first stop token, or up to it with ``keep_stop``; all of them where none is one.

    >>> truncate_at_stop([4, 5, 6], {5}), truncate_at_stop([4, 5, 6], {5}, keep_stop=True)
    ([4], [4, 5])
    """
    first = next((index for index, token in enumerate(tokens) if token in stop), len(tokens))
    return list(tokens[: first + keep_stop])


@dataclass(frozen=True)
class Decoder:
    """Description of what generates, as callables. ``make_cache`` is required, and ``step`` or ``generate``.

    A check that needs a field which is left out is not applicable, e.g. EC310 without ``generate``. Only one cache of a
    record is in use at a time, so the cache may also be state inside the model.
    """

    model: Any
    """The module that decodes; its configuration, weights and modes must stay as they are."""
    _: KW_ONLY
    make_cache: Callable[[int], Any] | None
    """``make_cache(rows)`` returns a new, empty cache for up to so many rows, or a handle to one; never None.

    ``make_cache=None`` declares that there is no cache at all: every token is generated from the whole text.
    ``generate`` is then required and gets None for a cache, and the properties of caches do not apply.
    """
    step: Step | None = None
    """Function of one step. Where it is left out, and ``generate`` too, the adapter of a known library fills it in."""
    full: Full | None = None
    """Function to compare cached decoding with; where it is left out, ``step`` with None for a cache."""
    generate: Generate | None = None
    """A whole generation with a cache that is new or was reset."""
    operations: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """Operations that the cache offers, some of `OPERATIONS`. Each takes the cache, and returns a new one or None.

    ``reset(cache)``, ``tear_down(cache)``, ``reorder(cache, order)``: row ``i`` becomes what row ``order[i]`` was,
    ``select(cache, rows)``: fewer rows, ``repeat(cache, times)``: rows 0 0 1 1, ``crop(cache, length)``: the first
    tokens of every row. ``order`` and ``rows`` are int64 tensors.
    """
    capacity: int | None = None
    """Number of tokens of a row that the cache holds; None for one that grows."""
    max_rows: int | None = None
    """The most rows that a cache may be made for."""
    prefill: int | None = None
    """The most tokens of a row that the first call takes, such as the window of a sliding cache; None for any number.
    Of longer rows ``step`` gets the others one at a time; prompts of ``generate`` are no longer than this."""
    max_stops: int | None = None
    """Number of different stop tokens that ``generate`` takes at once; None for any number."""
    batch_invariant: bool = False
    """True if the logits of a row are claimed to have the same bits in every batch, and not only within rounding."""
    refuses: tuple[str, ...] = ()
    """Things that it refuses by design, some of `REFUSALS`: ``chunks`` are several tokens at once on a cache that
    is not empty."""
    sides: tuple[Side, ...] = ("left",)
    """The sides on which prompts may be padded for ``step``; none where rows must be of one length."""
    pad_token: int = 0
    """The id of padding, and of rows that only fill a batch."""
    suppressed: tuple[int, ...] = ()
    """Ids that ``generate`` never returns, whatever their logits."""
    tensors: Callable[[Any], Iterable[Any]] | None = None
    """``tensors(cache)`` returns the memory of a cache; by default the tensors that are found in its attributes."""
    configuration: Callable[[], Any] | None = None
    """State that decoding must not change; by default the ``config`` and ``generation_config`` of the model."""
    conventions: Mapping[str, Convention] = field(default_factory=dict)
    """Other documented ways to call it, by name: each must give the same logits and tokens. One that is legal
    without padding only has ``sides=()``."""
    samplers: Mapping[str, Sampler] = field(default_factory=dict)
    """Ways to draw tokens that report the log-probability of each, by name."""
    text_scores: Mapping[str, TextScore] = field(default_factory=dict)
    """Ways to get the log-probability of a text that is given, by name."""
    in_float32: Callable[[], Decoder] | None = None
    """The same decoder with the same weights in float32, for what is NaN otherwise (softmax of a masked row), or what
    differs in half precision."""

    def __post_init__(self) -> None:
        require_conventions(self)
        for name, known in (("operations", OPERATIONS), ("refuses", REFUSALS), ("sides", SIDES)):
            value = getattr(self, name)
            unknown = [value] if isinstance(value, str) else [item for item in value if item not in known]
            if unknown:
                raise TypeError(f"{name} has {unknown[0]!r}; expected some of {', '.join(map(repr, known))}")
        for name, kind in (("samplers", Sampler), ("text_scores", TextScore)):
            wrong = [key for key, each in getattr(self, name).items() if not isinstance(each, kind)]
            if wrong:
                made = type(getattr(self, name)[wrong[0]]).__name__
                raise TypeError(f"{name}[{wrong[0]!r}] is of type {made}; expected an ec.{kind.__name__}")
        for name in ("make_cache", "step", "full", "generate", "in_float32"):
            value = getattr(self, name)
            if not callable(value) and value is not None:
                raise TypeError(f"{name}={value!r}; expected a function")
        if self.make_cache is None and (self.generate is None or not self.complete):
            expected = "generate=..., and full=... to compare it with"
            raise TypeError(f"make_cache=None means no cache; expected {expected}")
        for name in ("capacity", "max_rows", "prefill", "max_stops"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise TypeError(f"{name}={value!r}; expected a number of at least 1, or None")

    @property
    def complete(self) -> bool:
        """True if it says how to decode, and what to compare that with."""
        return self.step is not None or (self.generate is not None and self.full is not None)

    @property
    def has_cache(self) -> bool:
        """True if it decodes with a cache."""
        return self.make_cache is not None

    def configurations(self) -> Any:
        """Return the configurations, which decoding must not change: ``configuration()``, or those of the model."""
        if self.configuration is not None:
            return self.configuration()
        names = ("config", "generation_config")
        return {name: getattr(self.model, name) for name in names if hasattr(self.model, name)}

    def contents(self) -> dict[str, Any]:
        """Return what must not change in a decoder that is only copied."""
        state = getattr(self.model, "state_dict", None)
        return dict(state() if callable(state) else getattr(self.model, "__dict__", {}))
