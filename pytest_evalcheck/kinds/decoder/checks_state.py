"""EC309, EC313: what decoding changes, and what it leaves in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import NotApplicable, expect, inconclusive, refused
from pytest_evalcheck.guard import Snapshot
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.decoder.cache_memory import CacheMemory, StorageWatch
from pytest_evalcheck.kinds.decoder.cases import Prompts, even
from pytest_evalcheck.kinds.decoder.record import Decoder
from pytest_evalcheck.kinds.decoder.subject import NEW_TOKENS, DecoderSubject

_FEW = 4


@check("EC309", conditions=("one row", "rows of unequal length"), examples=_FEW)
def decoding_does_not_modify_its_inputs_or_the_model(subject: DecoderSubject, case: Prompts) -> None:
    """Ids, masks, positions, prompts, the model's weights and modes, and its configurations are as before.

    Why: the next call, and the next user of the model, get the same objects.
    Usual cause: a prompt is extended in place, or the configuration is set for one call and not restored.
    Fix: `prompt = [*prompt, token]` for `prompt.append(token)`; `copy.copy(config)` before it is changed.
    """
    changed = "\n".join(subject.changed[:3])  # by the first call in this process: a write may repeat itself since
    expect(case.samples).holds(
        not changed, about="decoding changes what all decoders share", id="shared-state", detail=changed
    )
    for decoder in subject.precisions():
        rows = decoder.truncate(subject.prompts(case.samples), NEW_TOKENS)
        rows = rows if decoder.record.sides and not decoder.refuses("padding") else even(rows, len(rows[0]))
        environment = ModelEnvironment(decoder.record)
        changed_inputs: list[str] = []
        decoder.record = watching_inputs(decoder.record, changed_inputs)
        for method in decoder.methods:
            sequence = decoder.start(len(rows))
            if method == "step":
                sequence.decode_padded(rows, decoder.record.sides[0] if decoder.record.sides else "left")
                actual = sequence.decode_step(even(rows, 1))
            else:
                actual = decoder.decode(method, sequence, rows)
            if isinstance(actual, Raised):
                refused(actual)
            changes = [*changed_inputs, *environment.changes()]
            about = f"{method} changes its inputs or the model"
            expect(actual).holds(
                not changes, about=about, id=f"inputs-or-model-after-{method}", detail="\n".join(changes[:4])
            )


@check("EC313", conditions=("one row",), examples=_FEW, severity="cost")
def tearing_down_a_cache_frees_its_memory(subject: DecoderSubject, case: Prompts) -> None:
    """A cache that is torn down, or has no reference any more, frees its memory, and the decoder works as before.

    Why: caches are the largest tensors of an evaluation, and the next model needs their memory.
    Usual cause: the model, a list of caches or a compiled graph still references them after they were set to zero.
    Fix: pytest_evalcheck.fixes.caches.persistent_kv_cache, which frees at the end of its block; or `layer.kv_cache =
    None` for all layers.
    """
    for decoder in subject.precisions():
        decoder.require_cache()
        rows = decoder.truncate(even(subject.prompts(case.samples), len(case.samples[0])), NEW_TOKENS)
        for method in decoder.methods:
            # Tables that the first call makes are there before the memory is looked for.
            before = decoder.decode_with_new_cache(method, rows)
            if isinstance(before, Raised):
                refused(before)
                continue
            memory, sequence = CacheMemory(decoder.record), decoder.start(len(rows))
            decoder.decode(method, sequence, rows)
            watch = StorageWatch(memory.tensors_of(sequence.cache))
            if decoder.offers("tear_down"):
                sequence.apply("tear_down")
            elif memory.is_in_the_model(sequence.cache) and watch.size:
                raise NotApplicable("its cache is state of the model, and offers no tear_down")
            sequence.cache = None
            alive = watch.alive()
            if watch.size:
                about = f"{alive} of {watch.size} bytes of a cache are still in memory after it was torn down"
                expect(alive).holds(not alive, about=about, id="memory")
            else:
                inconclusive("the cache holds no numbers")
            actual = decoder.decode_with_new_cache(method, rows)
            about = f"what rows get by {method} after a cache was torn down"
            decoder.assert_same(actual, before, about=about, id=f"after-tear-down-by-{method}")


def watching_inputs(record: Decoder, changes: list[str]) -> Decoder:
    """The same record; ``changes`` gets a line for each input of ``step`` and ``generate`` that a call changes."""

    def step(ids: Any, cache: Any, mask: Any, positions: Any) -> Any:
        with _watching({"ids": ids, "mask": mask, "positions": positions}, "step", changes):
            return record.step(ids, cache, mask, positions)  # type: ignore[misc]

    def generate(prompts: list[list[int]], *others: Any) -> Any:
        with _watching({"prompts": prompts}, "generate", changes):
            return record.generate(prompts, *others)  # type: ignore[misc]

    return replace(record, step=record.step and step, generate=record.generate and generate)


@contextmanager
def _watching(inputs: Mapping[str, Any], name: str, changes: list[str]) -> Iterator[None]:
    before = Snapshot(inputs, name)
    try:
        yield
    finally:
        changes.extend(before.changes())


class ModelEnvironment:
    """A snapshot of what belongs to a decoder and is not its cache: weights, modes, configurations."""

    def __init__(self, record: Decoder) -> None:
        model, configuration = record.model, record.configurations()
        weights = dict(model.named_parameters()) if hasattr(model, "named_parameters") else {}
        self._model, self._modes = model, _modes(model)
        self._snapshots = Snapshot(configuration, "configuration"), Snapshot(weights, "weights")

    def changes(self) -> list[str]:
        """List what is different now."""
        # A cache may be a module as well, and come or go.
        modes = {name: mode for name, mode in _modes(self._model).items() if self._modes.get(name, mode) != mode}
        changed = [f"{name or 'the model'}.training became {mode}" for name, mode in modes.items()]
        return [*(line for snapshot in self._snapshots for line in snapshot.changes()), *changed]


def _modes(model: Any) -> dict[str, bool]:
    modules = model.named_modules() if hasattr(model, "named_modules") else ()
    return {name: bool(getattr(module, "training", False)) for name, module in modules}
