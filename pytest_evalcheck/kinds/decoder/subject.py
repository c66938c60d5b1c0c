"""A decoder under test: calling it with and without a cache, and comparing what the rows of a batch get."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from pytest_evalcheck.expectations.call_log import called
from pytest_evalcheck.expectations.comparison import Raised, Tolerance, difference, show
from pytest_evalcheck.expectations.failures import NotApplicable, TargetError, compared, expect, inconclusive, refused
from pytest_evalcheck.kinds.common.calling import attempt
from pytest_evalcheck.kinds.common.convention import with_convention
from pytest_evalcheck.kinds.common.subject import Rows, WholeSubject
from pytest_evalcheck.kinds.decoder.nan_reads import watching_nan
from pytest_evalcheck.kinds.decoder.record import Decoder
from pytest_evalcheck.strategies.samples import Side, padded

Ids = Sequence[Sequence[int]]
"""Rows of ids, of one length unless said otherwise."""

NEW_TOKENS = 3
"""Number of tokens that are generated where it is not the point."""


class DecoderUnderTest:
    """One decoder in one precision.

    Tensors are created new for every call. An error of the decoder is a result, `Raised`; a result that is no answer
    is a `TargetError`.
    """

    def __init__(
        self, record: Decoder, device: str, tolerance: Tolerance, *, last_precision: bool, is_copy: bool = False
    ) -> None:
        self.record, self.device, self.tolerance = record, device, tolerance
        self.last_precision, self.retry_in_float32 = last_precision, False
        self.is_copy, self.copy_raises = is_copy, False
        """True if it is the copy in float32; and whether that raised an error, which is no error of the decoder."""
        self._logits_by_ids: dict[Any, Any] = {}
        self._generated_from_nan = False
        self._half = False
        """True if logits came in half precision."""
        if hasattr(record.model, "eval"):
            called(record.model.eval)  # as every evaluation does first

    @property
    def methods(self) -> tuple[str, ...]:
        """Methods by which it decodes: ``step``, ``generate``, or both. Without a cache ``step`` is ``full``."""
        names = ("step", "generate") if self.record.has_cache else ("generate",)
        return tuple(name for name in names if getattr(self.record, name) is not None)

    def require_cache(self) -> None:
        """Let a check of caches pass over a decoder that has none.

        Raises:
            NotApplicable: where the record declares that there is no cache.
        """
        if not self.record.has_cache:
            raise NotApplicable("the decoder has no cache")

    def offers(self, operation: str) -> bool:
        """Return whether the cache has an operation."""
        return operation in self.record.operations

    def refuses(self, what: str) -> bool:
        """Return whether the record declares that the decoder refuses something."""
        return what in self.record.refuses

    def is_declared_refusal(self, actual: Any, what: str) -> bool:
        """Return whether this is an error that the record declares; such a case is inconclusive.

        It is raised on purpose: an error out of an operator says nothing of what the decoder refuses.
        """
        declared = isinstance(actual, Raised) and self.refuses(what) and actual.on_purpose
        if declared:
            inconclusive(f"the decoder declares that it refuses {what}, and does: {actual}")
        return declared

    def truncate(self, rows: Ids, spare: int = 0, *, whole: bool = False) -> list[list[int]]:
        """Return as many rows as a cache takes, each cut so that the cache has room for ``spare`` more tokens.

        With ``whole`` they may be longer than what the first call takes.
        """
        capacity, prefill = self.record.capacity, None if whole else self.record.prefill
        limits = [None if capacity is None else max(1, capacity - spare), prefill]
        longest = min((limit for limit in limits if limit is not None), default=None)
        return [list(row[:longest]) for row in rows[: self.record.max_rows]]

    def within_prefill(self, sizes: Sequence[int]) -> list[int]:
        """The sizes of chunks, of which those that are longer than the first call takes go on one token at a time."""
        most = self.record.prefill
        return [
            part for size in sizes for part in ([size] if not most or size <= most else [most, *[1] * (size - most)])
        ]

    def start(self, rows: int) -> CachedSequence:
        """A new cache for so many rows."""
        return CachedSequence(self, rows)

    def decode(self, method: str, sequence: CachedSequence, rows: Ids) -> Any:
        """Decode rows of one length; return their logits, or `NEW_TOKENS` tokens, or the error.

        By ``step`` the last token comes in a call of its own.
        """
        if method == "generate":
            return sequence.error or self.generate(rows, sequence.cache, NEW_TOKENS)
        length = len(rows[0])
        return sequence.decode_chunks(rows, [length - 1, 1] if length > 1 else [1])

    def decode_both(
        self, method: str, rows: Ids, *, chunks: Sequence[int] = (), count: int = NEW_TOKENS
    ) -> tuple[Any, Any]:
        """Decode rows of one length with a new cache, and without one.

        By ``step`` they come in ``chunks``, by ``generate`` they get ``count`` tokens.
        """
        sequence = self.start(len(rows))
        if method == "step":
            actual = sequence.decode_chunks(rows, chunks) if chunks else self.decode(method, sequence, rows)
            return actual, self.decode_uncached(rows)
        actual = sequence.error or all_rows_or_none(self.generate(rows, sequence.cache, count), rows)
        return actual, self.greedy(rows, actual, count)

    def decode_with_new_cache(self, method: str, rows: Ids, cache_rows: int = 0) -> Any:
        """The same with a new cache, for as many rows or for ``cache_rows``. None where a row is missing."""
        return all_rows_or_none(self.decode(method, self.start(cache_rows or len(rows)), rows), rows)

    def decode_in_turn(self, method: str, cache_rows: int, batches: Sequence[Ids]) -> list[Any]:
        """Decode batches one after the other with one cache, which is reset between them."""
        sequence, results = self.start(cache_rows), []
        for index, rows in enumerate(batches):
            if index:
                sequence.error = None  # what was refused must not stay in a cache that is reset
                sequence.apply("reset")
            results.append(self.decode(method, sequence, rows))
        return results

    def decode_uncached(self, rows: Ids) -> Any:
        """Return for each of these rows of one length the logits without a cache ``[n, vocab]``, or the error."""
        logits = self.full(rows)
        return logits if isinstance(logits, Raised) else list(logits)

    def greedy(self, prompts: Ids, actual: Any, count: int = NEW_TOKENS) -> Any:
        """Return for each prompt the ``count`` tokens that are generated without a cache, or the error.

        Where two logits are equal within the tolerance, the token of ``actual`` is right. Rows of ``actual`` may be
        shorter. None where ``actual`` does not have one row per prompt.
        """
        if actual is None or (not isinstance(actual, Raised) and len(actual) != len(prompts)):
            return None
        rows: Ids = [[] for _ in prompts] if isinstance(actual, Raised) else actual
        greedy = [self._greedy(list(prompt), row, count) for prompt, row in zip(prompts, rows, strict=True)]
        return next((row for row in greedy if isinstance(row, Raised)), greedy)

    def _greedy(self, prompt: list[int], actual: Sequence[int], count: int) -> Any:
        wanted = len(actual) if 0 < len(actual) < count else count
        tokens: list[int] = []
        while len(tokens) < wanted:
            # As long as tokens equal `actual`, these ids are the same, and their logits are kept: one forward for all.
            logits = self.full([[*prompt, *tokens, *actual[len(tokens) : wanted - 1]]])
            if isinstance(logits, Raised):
                return logits
            scores = logits[0][len(prompt) + len(tokens) - 1].clone()
            self._generated_from_nan |= bool(scores.isnan().any())
            scores[list(self.record.suppressed)] = float("-inf")
            token = actual[len(tokens)] if len(tokens) < len(actual) else -1
            atol = self.tolerance.atol + self._rounding(scores[scores.isfinite()])
            as_likely = 0 <= token < len(scores) and bool(scores[token] >= scores.max() - atol)
            tokens.append(token if as_likely else int(scores.argmax()))
        return tokens

    @contextmanager
    def called_by(self, convention: str) -> Iterator[None]:
        """Within the block it is called by one of the conventions of its record."""
        record, logits = self.record, self._logits_by_ids
        self.record, self._logits_by_ids = with_convention(record, convention), {}
        try:
            yield
        finally:
            self.record, self._logits_by_ids = record, logits

    def assert_same(
        self, actual: Any, expected: Any, *, about: str, id: str, refusable: str = "", detail: str = ""
    ) -> None:
        """Compare what a list of rows gets with what is expected.

        Where ``expected`` is an error, or lacks a row, another check fails, and the case is inconclusive. Tokens that
        were chosen from logits that are NaN are tried again in float32, as logits are, and so is whatever differs in
        half precision: what is no rounding differs there, too. ``refusable`` is what of
        `REFUSALS` the record could declare where ``actual`` is an error.
        """
        tokens_of_nan, self._generated_from_nan = self._generated_from_nan, False
        if self.is_copy and (isinstance(actual, Raised) or isinstance(expected, Raised)):
            self.copy_raises = True
        elif expected is None:
            inconclusive("rows are lost wherever rows are generated; see EC305")
        elif isinstance(expected, Raised):
            refused(expected)
        elif _has_nan(actual) or _has_nan(expected):
            if self.last_precision:
                raise TargetError("logits are NaN", actual=about, expected="numbers", cause="nan")
            self.retry_in_float32 = True
        elif tokens_of_nan and not self.last_precision:
            self.retry_in_float32 = True
        elif self._is_close(actual, expected):
            compared()
        elif self._half and not self.last_precision and not isinstance(actual, Raised):
            self.retry_in_float32 = True
        else:
            detail = _NAN_TOKENS if tokens_of_nan else detail
            if refusable and isinstance(actual, Raised):
                text = _UNCLEAR if self.refuses(refusable) else _UNDECLARED
                detail = text.format(refusable, f"({refusable!r},)")
            expect(actual).equals(expected, about=about, id=id, tolerance=self.tolerance, detail=detail)

    def agrees(self, actual: Any, expected: Any) -> bool:
        """Return whether two results are equal within the tolerance."""
        agrees = not self.differ(actual, expected)
        # What a check does where they are not may be wrong where the reason is rounding.
        self.retry_in_float32 |= not agrees and self._half and not self.last_precision
        return agrees

    def differ(self, first: Any, second: Any) -> bool:
        """Return whether two results differ by more than rounding, as they should; no other precision is tried."""
        return not self._is_close(first, second) and difference(first, second, self.tolerance) is not None

    def starts_with(self, actual: Any, expected: Any) -> bool:
        """Return whether the first rows of a result are the expected ones; true where ``expected`` is no list."""
        if not isinstance(expected, list):
            return True
        return isinstance(actual, list) and self.agrees(actual[: len(expected)], expected)

    def make_cache(self, rows: int) -> Any:
        """A new cache, or the error.

        Raises:
            TargetError: where it is None, and the record does not declare that there is no cache.
        """
        if self.record.make_cache is None:
            return None
        cache = self._call("make_cache", self.record.make_cache, rows)
        if cache is None:
            raise TargetError(
                "make_cache() gave None, which means no cache",
                expected="a cache, or any handle to one that is kept in the model",
                actual="None",
                cause="cache",
            )
        return cache

    def full(self, ids: Ids) -> Any:
        """The logits ``[rows, n, vocab]`` of rows of one length without a cache, kept by their ids; or the error."""
        key = tuple(map(tuple, ids))
        if key not in self._logits_by_ids:
            masks, positions = [[1] * len(row) for row in ids], [list(range(len(row))) for row in ids]
            run = self.record.full or (lambda *inputs: self._step(inputs[0], None, *inputs[1:])[0])
            self._logits_by_ids[key] = self._logits("full", run, ids, masks, positions)
        return self._logits_by_ids[key]

    def step(self, cache: Any, ids: Ids, masks: Ids, positions: Ids) -> tuple[Any, Any]:
        """The logits of new ids ``[rows, n, vocab]`` or the error, and the cache that holds them."""
        after = cache

        def run(ids: Any, mask: Any, positions: Any) -> Any:
            nonlocal after
            logits, after = self._step(ids, cache, mask, positions)
            return logits

        return self._logits("step", run, ids, masks, positions), after

    def generate(self, prompts: Ids, cache: Any, count: int, stop: tuple[int, ...] = ()) -> Any:
        """Return the new tokens of each prompt as a list, or the error.

        Raises:
            TargetError: where they are not lists of ids.
        """
        assert self.record.generate is not None
        with watching_nan(self.record.model, self._note_nan):
            rows = self._call("generate", self.record.generate, [list(row) for row in prompts], cache, count, stop)
        if isinstance(rows, Raised):
            return rows
        try:
            return [[int(token) for token in row] for row in rows]
        except (TypeError, ValueError) as error:
            raise TargetError(
                "generate() gave no tokens",
                expected="one list of new ids per prompt",
                actual=f"{type(rows).__name__}: {show(rows)}",
                cause="tokens",
            ) from error

    def draw(self, name: str, prompts: Ids, count: int, seed: int) -> Any:
        """Return the tokens of each prompt that a sampler draws, and their log-probabilities ``[n]``; or the error.

        Raises:
            TargetError: where there is no such pair of each prompt.
        """
        draw = self.record.samplers[name].draw
        drawn = self._call(f"samplers[{name!r}]", draw, [list(row) for row in prompts], count, seed)
        expected = f"{len(prompts)} pairs of {count} ids and their log-probabilities"
        return drawn if isinstance(drawn, Raised) else self._read(drawn, _drawn, len(prompts), expected)

    def score_texts(self, name: str, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Any:
        """Return of each pair its log-probability ``[1]`` or ``[n]``, and whether it is greedy or None; or the error.

        Raises:
            TargetError: where they are no numbers.
        """
        inputs = [list(row) for row, _ in pairs], [list(row) for _, row in pairs]
        scored = self._call(f"text_scores[{name!r}]", self.record.text_scores[name].score, *inputs)
        expected = f"{len(pairs)} log-probabilities, each a number or one of each token"
        return scored if isinstance(scored, Raised) else self._read(scored, _scored, len(pairs), expected)

    def _read(self, results: Any, read: Callable[[Any], Any], count: int, expected: str) -> Any:
        try:
            found = [read(result) for result in results]
        except (TypeError, ValueError):
            found = []
        if len(found) != count:
            actual = f"{type(results).__name__}: {show(results)}"
            raise TargetError("no log-probabilities came", expected=expected, actual=actual, cause="log-probabilities")
        return found

    def _note_nan(self) -> None:
        self._generated_from_nan = True

    def operate(self, name: str, cache: Any, *arguments: Any) -> Any:
        """The cache after one of its operations, or the error. Lists become tensors."""
        inputs = [self._int64(argument) if isinstance(argument, list) else argument for argument in arguments]
        after = self._call(name, self.record.operations[name], cache, *inputs)
        return cache if after is None else after

    def _int64(self, rows: Any) -> Any:
        import torch

        return torch.tensor(rows, dtype=torch.int64, device=self.device)

    def _step(self, ids: Any, cache: Any, mask: Any, positions: Any) -> tuple[Any, Any]:
        assert self.record.step is not None
        result = called(self.record.step, ids, cache, mask, positions)
        return result if isinstance(result, tuple) and len(result) == 2 else (result, cache)

    def _logits(self, where: str, run: Callable[..., Any], ids: Ids, masks: Ids, positions: Ids) -> Any:
        import torch

        logits = self._call(where, run, *map(self._int64, (ids, masks, positions)))
        if isinstance(logits, Raised):
            return logits
        size = len(ids), len(ids[0])
        floating = isinstance(logits, torch.Tensor) and logits.is_floating_point()
        if not (floating and logits.dim() == 3 and tuple(logits.shape[:2]) == size):
            shape = f"a tensor of shape {list(logits.shape)} and {logits.dtype}" if hasattr(logits, "shape") else ""
            raise TargetError(
                f"{where}() gave no logits of the ids",
                expected=f"a floating tensor of shape [{size[0]}, {size[1]}, vocabulary]",
                actual=shape or f"{type(logits).__name__}: {show(logits)}",
                cause="logits",
            )
        self._half |= logits.dtype.itemsize < 4
        return logits.detach().clone()  # the next call may write into them

    def _call(self, where: str, call: Callable[..., Any], *arguments: Any) -> Any:
        import torch

        with torch.no_grad():
            return attempt(where, call, *arguments)

    def _is_close(self, actual: Any, expected: Any) -> bool:
        import torch

        if not (isinstance(actual, list) and isinstance(expected, list) and len(actual) == len(expected)):
            return False
        rtol, atol = self.tolerance.rtol, self.tolerance.atol
        return all(
            isinstance(a, torch.Tensor)
            and isinstance(e, torch.Tensor)
            and a.shape == e.shape
            and torch.allclose(a, e.to(a.dtype), rtol=rtol, atol=atol + self._rounding(e))
            for a, e in zip(actual, expected, strict=True)
        )

    def _rounding(self, logits: Any) -> float:
        """Return how far rounding may move logits of half precision, where there are no weights in float32."""
        import torch

        if logits.dtype.itemsize >= 4 or not self.last_precision or not logits.numel():
            return 0.0
        return float(_ROUNDING * torch.finfo(logits.dtype).eps * logits.abs().max())


_ROUNDING = 16
"""Units in the last place of the largest logit. One layer costs about one; they add up like a random walk."""
_UNDECLARED = "Where it refuses {} by design, by an error that says so, declare it: ec.Decoder(..., refuses={})."
_UNCLEAR = "The record declares that it refuses {}, but no `raise` of the code under test says so: an operator failed."
_NAN_TOKENS = (
    "Some logits of the generation were NaN, of which the id 0 is chosen. Where that comes of float64 alone, as with a "
    "softmax in float32, give the same weights in float32: ec.Decoder(..., in_float32=...)."
)


class CachedSequence:
    """Rows that are decoded with one cache, and their masks. After an error every result is that error."""

    def __init__(self, decoder: DecoderUnderTest, rows: int) -> None:
        self._decoder = decoder
        self._masks: list[list[int]] = []
        self.cache = decoder.make_cache(rows)
        self.error: Raised | None = self.cache if isinstance(self.cache, Raised) else None

    def decode_step(self, ids: Ids, masks: Ids | None = None) -> Any:
        """The logits of new ids ``[rows, n, vocab]``, or the error. Without masks all ids are tokens."""
        if self.error:
            return self.error
        new = [list(row) for row in masks or [[1] * len(row) for row in ids]]
        past = self._masks or [[] for _ in ids]
        whole = [[*before, *row] for before, row in zip(past, new, strict=True)]
        positions = [_positions(row)[len(before) :] for before, row in zip(past, whole, strict=True)]
        logits, self.cache = self._decoder.step(self.cache, ids, whole, positions)
        self._masks, self.error = whole, logits if isinstance(logits, Raised) else None
        return logits

    def decode_padded(self, rows: Ids, side: Side) -> Any:
        """Return for each row of unequal length the logits of its tokens ``[n, vocab]``, or the error."""
        width, pad = max(map(len, rows)), self._decoder.record.pad_token
        masks = [padded([1] * len(row), side, width, 0) for row in rows]
        logits = self.decode_step([padded(row, side, width, pad) for row in rows], masks)
        if isinstance(logits, Raised):
            return logits
        starts = [width - len(row) if side == "left" else 0 for row in rows]
        return [own[start : start + len(row)] for own, start, row in zip(logits, starts, rows, strict=True)]

    def decode_chunks(self, ids: Ids, sizes: Sequence[int]) -> Any:
        """Return for each row the logits ``[n, vocab]`` of ids that come in chunks of these sizes, or the error."""
        import torch

        logits, start = [], 0
        for size in self._decoder.within_prefill(sizes):
            logits.append(self.decode_step([row[start : start + size] for row in ids]))
            start += size
        return self.error or list(torch.cat(logits, dim=1))

    def apply(self, operation: str, *arguments: Any) -> None:
        """Apply an operation that the cache offers, to the cache and to the masks."""
        if self.error:
            return
        after = self._decoder.operate(operation, self.cache, *arguments)
        if isinstance(after, Raised):
            self.error = after
            return
        self.cache, self._masks = after, LIST_OPERATIONS[operation](self._masks, *arguments)


LIST_OPERATIONS: dict[str, Callable[..., list[list[int]]]] = {
    "reset": lambda _: [],
    "tear_down": lambda _: [],
    "reorder": lambda rows, order: [rows[i] for i in order],
    "select": lambda rows, kept: [rows[i] for i in kept],
    "repeat": lambda rows, times: [row for row in rows for _ in range(times)],
    "crop": lambda rows, length: [row[:length] for row in rows],
}
"""The operations of a cache, for lists of rows with one entry per token."""


@dataclass(frozen=True)
class DecoderSubject(WholeSubject):
    """The decoder under test: new ones on demand, and prompts for them."""

    kind: ClassVar[str] = "decoder"

    build: Callable[[], Decoder]

    def precisions(self) -> Iterator[DecoderUnderTest]:
        """A new decoder; and the same in float32 where its logits were NaN, or differ in half precision.

        Where the copy in float32 raises an error, such as for a cache that is allocated in half precision, the decoder
        is judged as it is, within what rounding may do.
        """
        record = self.build()
        decoder = DecoderUnderTest(record, self.device, self.tolerance, last_precision=record.in_float32 is None)
        yield decoder
        if decoder.retry_in_float32:
            single = attempt("in_float32", record.in_float32)  # type: ignore[arg-type]
            if not isinstance(single, Decoder):
                raise TargetError(
                    "in_float32() gave no decoder", actual=str(single), expected="an ec.Decoder", cause="nan"
                )
            decoder = DecoderUnderTest(single, self.device, self.tolerance, last_precision=True, is_copy=True)
            yield decoder
            if decoder.copy_raises:
                yield DecoderUnderTest(self.build(), self.device, self.tolerance, last_precision=True)

    def shared(self) -> Any:
        """The configurations of a decoder: those that others share are written by the first of them that decodes."""
        return self.build().configurations()

    def another(self, decoder: DecoderUnderTest) -> DecoderUnderTest:
        """A new decoder in the precision of this one."""
        record = self.build()
        record = record.in_float32() if decoder.is_copy and record.in_float32 else record
        given = {"last_precision": decoder.last_precision, "is_copy": decoder.is_copy}
        return DecoderUnderTest(record, self.device, self.tolerance, **given)

    def plain_result(self, rows: Rows) -> Any:
        """The logits of one prompt, or its new tokens where there are no steps; or the error."""
        ids, result = self.prompts(rows)[:1], None
        for decoder in self.precisions():
            sequence = decoder.start(1)
            prompt = decoder.truncate(ids, NEW_TOKENS)
            result = sequence.error or decoder.decode(decoder.methods[0], sequence, prompt)
            decoder.retry_in_float32 = not decoder.last_precision and _has_nan(result)
        return result

    def device_results(self, rows: Rows) -> Iterator[tuple[str, Any]]:
        """Logits or tokens without a cache, with one, with padding, and after each operation that the cache offers."""
        decoder = next(self.precisions())
        ids = decoder.truncate(self.prompts(rows), NEW_TOKENS)
        even = [row[: min(map(len, ids))] for row in ids]
        yield "full()", decoder.decode_uncached(even)
        for method in decoder.methods:
            yield f"{method}()", decoder.decode_with_new_cache(method, even)
        if "step" not in decoder.methods:
            return
        for side in decoder.record.sides if not decoder.refuses("padding") else ():
            yield f"step() with padding on the {side}", decoder.start(len(ids)).decode_padded(ids, side)
        order = list(range(len(even)))[::-1]
        for name, arguments in {"reset": (), "reorder": (order,), "select": (order[:1],), "crop": (1,)}.items():
            if decoder.offers(name):
                sequence = decoder.start(len(even))
                decoder.decode("step", sequence, even)
                sequence.apply(name, *arguments)
                kept = even[:1] if name == "select" else even
                yield f"step() after {name}()", sequence.decode_step([row[:1] for row in kept])

    def prompts(self, rows: Rows) -> list[list[int]]:
        """The ids of these samples.

        Raises:
            TargetError: where the collate gives anything else than one list of ids per sample.
        """
        prompts = attempt("the collate", self.inputs.collate, list(rows))
        is_list = isinstance(prompts, list) and len(prompts) == len(rows)
        if not is_list or not all(isinstance(row, list) and row and all(map(_is_id, row)) for row in prompts):
            raise TargetError(
                "the collate did not give prompts",
                actual=str(prompts)[:200],
                expected=f"{len(rows)} lists of at least one id",
                cause="collate",
            )
        return prompts  # type: ignore[no-any-return]


def plural(number: int, noun: str) -> str:
    """``1 row``, ``2 rows``."""
    return f"{number} {noun}" + "s" * (number != 1)


def all_rows_or_none(results: Any, rows: Sequence[Any]) -> Any:
    """Results that can be compared: an error, or one result per row; None where a row is missing."""
    return None if isinstance(results, list) and len(results) != len(rows) else results


def _drawn(result: Any) -> tuple[list[int], Any]:
    tokens, numbers = result
    return [int(token) for token in tokens], _numbers(numbers)


def _scored(result: Any) -> tuple[Any, bool | None]:
    numbers, greedy = result if isinstance(result, tuple) and len(result) == 2 else (result, None)
    return _numbers(numbers), None if greedy is None else bool(greedy)


def _numbers(numbers: Any) -> Any:
    import torch

    return torch.as_tensor([numbers] if isinstance(numbers, (int, float)) else numbers, dtype=torch.float64).reshape(-1)


def _positions(mask: Sequence[int]) -> list[int]:
    return [max(0, sum(mask[: index + 1]) - 1) * real for index, real in enumerate(mask)]


def _has_nan(rows: Any) -> bool:
    return isinstance(rows, list) and any(hasattr(row, "isnan") and bool(row.isnan().any()) for row in rows)


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
