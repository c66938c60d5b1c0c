"""Drift of a row with the rows in its batch, by dtype: models, decoders and metrics of fixtures/targets.

    python benchmarks/batch_drift.py [--kinds wrapper,decoder,metric] [--most 12] [--only NAME] [--smoke]

A row alone is compared with the same row in batches of 2, 7 and 32 rows, and a metric that gets its samples one by one
with one that gets them at once, in float64, float32, bfloat16 and float16. The table has, by kind and dtype, how many
targets were measured, the share of comparisons in which all bits are equal, and the drift as units in the last place of
the largest number: its median, its maximum, and where that was. Prints each target that moves by more than 64 units.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import statistics
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "fixtures" / "targets"))

import torch

import pytest_evalcheck as ec
from pytest_evalcheck import adapters
from pytest_evalcheck.expectations.comparison import Raised, Tolerance, plain
from pytest_evalcheck.expectations.failures import CheckFailure, NotApplicable
from pytest_evalcheck.kinds.common.process_state import isolated_process
from pytest_evalcheck.kinds.common.tensors import cast_floats
from pytest_evalcheck.kinds.decoder.cases import even
from pytest_evalcheck.kinds.decoder.subject import DecoderUnderTest
from pytest_evalcheck.kinds.registry import kind_of
from pytest_evalcheck.kinds.wrapper.outputs import row, rowwise

ROOT = Path(__file__).parent.parent
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
SIZES = (2, 7, 32)
FILES = {
    "wrapper": ("evalcheck_transformers_*", "evalcheck_sentence_transformers"),
    "decoder": ("evalcheck_decoders_transformers", "evalcheck_decoders_torchtune"),
    "metric": ("evalcheck_torchmetrics_regression", "evalcheck_torchmetrics_multiclass", "evalcheck_torchmetrics_text"),
}


def targets(kind: str) -> Iterator[ec.Target]:
    """The targets of a kind in its files."""
    for pattern in FILES[kind]:
        for path in sorted((ROOT / "fixtures" / "targets").glob(f"{pattern}.py")):
            module = importlib.import_module(path.stem)
            yield from (made for made in vars(module).values() if isinstance(made, ec.Target) and made.kind == kind)


def record_of(target: ec.Target) -> Any:
    """A new record of a target on the CPU."""
    return adapters.record(target.kind, target.factory(**({"device": "cpu"} if "device" in target.arguments else {})))


def wrapper_outputs(target: ec.Target, dtype: torch.dtype) -> Iterator[tuple[Any, Any]]:
    """The outputs of a row alone and in a batch."""
    record = record_of(target)
    record.model.eval().to(dtype)
    subject = kind_of("wrapper").subject(build=lambda: record, inputs=target.inputs)
    few = target.inputs.fixed(max(2, target.inputs.min_samples))
    widths, mode = subject.widths(few), subject.modes[0]

    def outputs(rows: Sequence[Any]) -> Any:
        batch = cast_floats(subject.batch(rows, mode, widths=widths), dtype)
        return rowwise(record.rows(record.forward(batch)), len(rows))

    alone = [outputs([sample]) for sample in few]
    for size in SIZES:
        together = outputs([few[i % len(few)] for i in range(size)])
        for index in {0, size - 1}:
            own = alone[index % len(few)]
            shared = row(own, 0, of=together)
            yield list(shared.values()), list(row(together, index, of=shared).values())


def decoder_logits(target: ec.Target, dtype: torch.dtype) -> Iterator[tuple[Any, Any]]:
    """The logits of a row by steps alone and in a batch."""
    record = record_of(target)
    if record.step is None or not record.has_cache:
        return
    record.model.to(dtype)
    decoder = DecoderUnderTest(record, "cpu", Tolerance(), last_precision=True)
    rows = even(decoder.truncate([list(row) for row in target.inputs.collate(target.inputs.fixed(2))]))
    alone = [decoder.decode_with_new_cache("step", [row]) for row in rows]
    for size in SIZES:
        if size <= (record.max_rows or size):
            together = decoder.decode_with_new_cache("step", [rows[i % len(rows)] for i in range(size)])
            for index in {0, size - 1}:
                yield alone[index % len(rows)], together if isinstance(together, Raised) else [together[index]]


def metric_values(target: ec.Target, dtype: torch.dtype) -> Iterator[tuple[Any, Any]]:
    """The value of samples one by one and at once."""
    subject = kind_of("metric").subject(build=lambda: record_of(target), inputs=target.inputs)
    for size in SIZES:
        rows = target.inputs.fixed(max(size, target.inputs.min_samples))
        values = []
        for cut in ([rows], [[sample] for sample in rows]):
            live = subject.fresh()
            for batch in cut:
                live.update(cast_floats(subject.arguments(batch), dtype))
            values.append(live.compute())
        yield values[1], values[0]


MEASURES = {"wrapper": wrapper_outputs, "decoder": decoder_logits, "metric": metric_values}


def flat(value: Any) -> list[float]:
    """All numbers of a result."""
    value = plain(value)
    if isinstance(value, dict):
        return [number for part in value.values() for number in flat(part)]
    if isinstance(value, (list, tuple)):
        return [number for part in value for number in flat(part)]
    if hasattr(value, "tolist"):
        return [float(number) for number in value.reshape(-1).tolist()]
    return [float(value)] if isinstance(value, (int, float)) else []


def drifts(target: ec.Target, dtype: torch.dtype) -> list[float]:
    """By comparison, the largest difference in units in the last place of the largest number; NaN is none."""
    found = []
    for alone, together in MEASURES[target.kind](target, dtype):
        if isinstance(alone, Raised) or isinstance(together, Raised):
            continue
        pairs = [(a, b) for a, b in zip(flat(alone), flat(together), strict=True) if a == a and b == b]
        if pairs:
            largest = max(max(abs(a), abs(b)) for a, b in pairs) or 1.0
            found.append(max(abs(a - b) for a, b in pairs) / largest / torch.finfo(dtype).eps)
    return found


def measured(target: ec.Target, dtype: torch.dtype) -> list[float]:
    """The same; empty where the target does not take the dtype."""
    quiet = contextlib.redirect_stderr(io.StringIO())
    try:
        with warnings.catch_warnings(), torch.no_grad(), isolated_process(), quiet:
            return drifts(target, dtype)
    except (CheckFailure, NotApplicable, RuntimeError, TypeError, ValueError, NotImplementedError, IndexError):
        return []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", default=",".join(MEASURES))
    parser.add_argument("--most", type=int, default=12, help="how many targets of each kind")
    parser.add_argument("--only", default="", help="targets whose name has this text")
    parser.add_argument("--smoke", action="store_true", help="a run of seconds, to check that this works")
    asked = parser.parse_args()
    most = 1 if asked.smoke else asked.most
    torch.set_num_threads(1)
    print("| kind | dtype | targets | same bits | median | most | where |\n| --- | --- | --- | --- | --- | --- | --- |")
    notes = []
    for kind in asked.kinds.split(","):
        chosen = [target for target in targets(kind) if asked.only in target.name]
        step = max(1, len(chosen) // most)
        for dtype in DTYPES:
            by_target = {one.name: measured(one, dtype) for one in chosen[::step][:most]}
            by_target = {name: found for name, found in by_target.items() if found}
            every = [value for found in by_target.values() for value in found]
            if not every:
                continue
            worst = max(by_target, key=lambda name: max(by_target[name]))
            same, name = sum(value == 0 for value in every) / len(every), str(dtype).removeprefix("torch.")
            figures = f"{same:.0%} | {statistics.median(every):.2g} | {max(every):.3g} | {worst}"
            print(f"| {kind} | {name} | {len(by_target)} | {figures} |", flush=True)
            notes += [f"{one}: {max(own):.3g} units in {name}" for one, own in by_target.items() if max(own) > 64]
    print(*notes, sep="\n")


if __name__ == "__main__":
    main()
