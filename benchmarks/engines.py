"""Answers that flip with the size of a batch, and how far log-probabilities drift, by engine and dtype.

python benchmarks/engines.py                       # vLLM in float32 and bfloat16, in the environment of nox -s engines
python benchmarks/engines.py --smoke               # a tiny engine and one with a planted bug
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "fixtures" / "targets")]

from pytest_evalcheck.kinds.engine.checks_requests import BATCH_SIZES  # noqa: E402
from pytest_evalcheck.kinds.engine.subject import EngineUnderTest  # noqa: E402


def answers(record: Any, prompts: Sequence[Any], size: int, order: Sequence[int]) -> dict[int, Mapping[str, Any]]:
    """The answer of each document, in batches of one size."""
    engine = EngineUnderTest(record)
    engine.evict()
    found = {}
    for start in range(0, len(order), size):
        batch = order[start : start + size]
        found.update(zip(batch, engine.ask([prompts[index] for index in batch], engine.greedy(16)), strict=True))
    return found


def row(name: str, record: Any, prompts: Sequence[Any], shuffles: int) -> str:
    """A row of the table: documents that flip over all sizes and orders, and the drift before they do."""
    began, alone = time.monotonic(), answers(record, prompts, 1, range(len(prompts)))
    flipped: set[int] = set()
    drift = 0.0
    for size in BATCH_SIZES:
        for seed in range(1 if size == 1 else 0, shuffles + 1):  # single ones in their order are what is compared with
            order = random.Random(seed).sample(range(len(prompts)), len(prompts)) if seed else range(len(prompts))
            for index, answer in answers(record, prompts, size, order).items():
                pairs = list(zip(answer["tokens"], alone[index]["tokens"], strict=False))
                same = next((i for i, (one, other) in enumerate(pairs) if one != other), len(pairs))
                flipped |= {index} if answer["tokens"] != alone[index]["tokens"] else set()
                numbers = zip(answer["logprobs"][:same], alone[index]["logprobs"][:same], strict=True)
                drift = max([drift, *(abs(one - other) for one, other in numbers)])
    seconds = time.monotonic() - began
    return f"| {name} | {len(flipped)} of {len(prompts)} | {drift:.2g} | {seconds:.0f} |"


def engines(smoke: bool) -> dict[str, tuple[Any, Sequence[Any]]]:
    """Engines by name, each with its documents."""
    if smoke:
        from fixtures.gallery.engines import RoundsLargeBatches
        from fixtures.gallery.engines_correct import Tiny

        prompts = Tiny.inputs.fixed(16)
        return {"tiny": (Tiny().record(), prompts), "rounds large batches": (RoundsLargeBatches().record(), prompts)}
    from _engines import llm
    from _facts import FACTS

    from pytest_evalcheck.adapters.vllm.engine import record

    texts = [text for text, _, _ in FACTS]
    return {f"vLLM, {dtype}": (record(llm(dtype)), texts) for dtype in ("float32", "bfloat16")}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--shuffles", type=int, default=1, help="orders beside that of the documents (default: 1)")
    given = parser.parse_args()
    print(f"| engine | answers that flip, batches of {', '.join(map(str, BATCH_SIZES))} | drift | seconds |")
    print("| --- | --- | --- | --- |")
    for name, (record, prompts) in engines(given.smoke).items():
        print(row(name, record, prompts, given.shuffles), flush=True)


if __name__ == "__main__":
    main()
