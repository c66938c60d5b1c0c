"""Our batteries beside those of scikit-learn and transformers: CPU seconds on one thing.

    pip install parameterized
    pip download --no-deps --no-binary :all: --no-build-isolation transformers==VERSION && tar xzf transformers-*.tar.gz
    python benchmarks/beside_others.py [--transformers PATH] [--turns 5] [--smoke]

PATH holds the sources of the installed release of transformers, for its `test_batching_equivalence`; without it that
part is left out. Its tests of static caches are in no distribution: they run where PATH is a checkout, or where
tests/generation of a checkout was added to it.

Everything runs in this process on one thread, after one turn that is not counted, so that neither imports nor the start
of pytest are in it. Figures are medians of turns. torchmetrics' harness has a benchmark of its own.
"""

from __future__ import annotations

import argparse
import io
import os
import statistics
import sys
import time
import types
import unittest
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"
ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "fixtures" / "targets")]

from hypothesis import core  # noqa: E402

import pytest_evalcheck as ec  # noqa: E402

ARCHITECTURES = ("llama", "mistral", "gpt2")
_MISSING = {"tests.exporters.test_export": "ExportTesterMixin", "tests.generation.test_utils": "GenerationTesterMixin"}
"""Names that the tests in the archive import and the archive lacks; `test_batching_equivalence` uses neither."""
BATCHING = "test_batching_equivalence"
STATIC = ("test_generate_with_static_cache", "test_generate_from_inputs_embeds_with_static_cache")


def seconds(turns: int, what: Callable[[], tuple[int, int]]) -> tuple[float, int, int]:
    """The median of the processor seconds of a call, and how many checks and cases it says it tried."""
    counts = what()
    taken = []
    for _ in range(turns):
        started = time.process_time()
        what()
        taken.append(time.process_time() - started)
    return statistics.median(taken), *counts


def line(name: str, total: float, checks: int, cases: int) -> str:
    """One line of the table."""
    return f"  {name:<50} {total:8.2f} {checks:7} {1000 * total / checks:9.1f} {cases:7} {1000 * total / cases:8.1f}"


def ours(target: ec.Target, effort: str) -> Callable[[], tuple[int, int]]:
    """The cells of a target that were tried, and their cases.

    Raises:
        SystemExit: where one did not run, since that would cost nothing.
    """

    def call() -> tuple[int, int]:
        report = ec.run(target, effort=effort, timeout=None)
        if report.of("incomplete") or report.of("not run"):
            raise SystemExit(f"{target.name}: {report.denominator}")
        tried = [cell for outcome in ("passed", "known", "failed") for cell in report.of(outcome)]
        return len(tried), sum(cell.examples for cell in tried)

    return call


def estimators() -> dict[str, Callable[[], tuple[int, int]]]:
    """scikit-learn's checks of two estimators."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler
    from sklearn.utils.estimator_checks import check_estimator

    def checked(estimator: Any) -> Callable[[], tuple[int, int]]:
        def call() -> tuple[int, int]:
            made = check_estimator(estimator, on_skip=None, on_fail=None)
            count = sum(one["status"] != "skipped" for one in made)
            return count, count

        return call

    return {
        "check_estimator(LogisticRegression())": checked(LogisticRegression()),
        "check_estimator(StandardScaler())": checked(StandardScaler()),
    }


def metrics(effort: str) -> dict[str, Callable[[], tuple[int, int]]]:
    """Our checks of a metric over scikit-learn, and of one of torchmetrics."""
    import evalcheck_sklearn as sklearn
    import evalcheck_torchmetrics_aggregation as aggregation

    targets = [
        next(one for one in vars(module).values() if isinstance(one, ec.Target)) for module in (sklearn, aggregation)
    ]
    return {f"{target.name}, {effort} effort": ours(target, effort) for target in targets}


def theirs(sources: Path, architecture: str, tests: tuple[str, ...]) -> Callable[[], tuple[int, int]]:
    """transformers' tests of one architecture, as its own test class would run them."""
    sys.path.insert(0, str(sources))
    for name, mixin in _MISSING.items():
        if not (sources / f"{name.replace('.', '/')}.py").exists():
            sys.modules.setdefault(name.rpartition(".")[0], types.ModuleType(name.rpartition(".")[0]))
            sys.modules[name] = types.ModuleType(name)
            setattr(sys.modules[name], mixin, type(mixin, (), {}))
    import torch
    from tests.generation.test_utils import GenerationTesterMixin
    from tests.test_modeling_common import ModelTesterMixin
    from transformers import CONFIG_MAPPING, MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_MAPPING

    class Tester:
        """The sizes that transformers' `CausalLMModelTester` has by default."""

        batch_size, seq_length, vocab = 13, 7, 99
        is_training = False
        causal_lm_class = MODEL_FOR_CAUSAL_LM_MAPPING[CONFIG_MAPPING[architecture]]

        def get_config(self) -> Any:
            sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37}
            more = {} if architecture == "gpt2" else {"num_key_value_heads": 4}
            return CONFIG_MAPPING[architecture](
                vocab_size=self.vocab, pad_token_id=0, bos_token_id=1, eos_token_id=2, **sizes, **more
            )

        def prepare_config_and_inputs_for_common(self) -> Any:
            ids = torch.randint(3, self.vocab, (self.batch_size, self.seq_length))
            return self.get_config(), {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

    class Tests(ModelTesterMixin, GenerationTesterMixin, unittest.TestCase):
        """Their tests on this architecture."""

        config = CONFIG_MAPPING[architecture]
        all_model_classes = (MODEL_MAPPING[config], MODEL_FOR_CAUSAL_LM_MAPPING[config])

        def setUp(self) -> None:
            self.model_tester = Tester()

    def call() -> tuple[int, int]:
        done = unittest.TextTestRunner(stream=io.StringIO()).run(unittest.TestSuite(map(Tests, tests)))
        if not done.wasSuccessful() or done.skipped:
            raise SystemExit(f"{architecture}: {[*done.errors, *done.failures, *done.skipped]}")
        return done.testsRun, done.testsRun

    return call


def decoders(sources: Path, effort: str, count: int) -> dict[str, Callable[[], tuple[int, int]]]:
    """Both sides on some architectures."""
    import evalcheck_decoders_sweep as sweep

    found: dict[str, Callable[[], tuple[int, int]]] = {}
    for name in ARCHITECTURES[:count]:
        found[f"transformers' {BATCHING}, {name}"] = theirs(sources, name, (BATCHING,))
        if (sources / "tests" / "generation" / "test_utils.py").exists():
            found[f"transformers' {len(STATIC)} tests of static caches, {name}"] = theirs(sources, name, STATIC)
        found[f"our checks of a decoder, {name}, {effort} effort"] = ours(vars(sweep)[name], effort)
    return found


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transformers", type=Path, metavar="PATH")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--smoke", action="store_true", help="one turn of one of ours and one of theirs")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    core.global_force_seed = 1
    tables = {"a metric, an estimator": {**estimators(), **metrics("quick"), **metrics("normal")}}
    if asked.smoke:
        tables = {
            "a metric, an estimator": dict([*list(estimators().items())[1:], *list(metrics("quick").items())[:1]])
        }
    elif asked.transformers:
        tables["an architecture"] = decoders(asked.transformers, "quick", 3) | decoders(asked.transformers, "normal", 3)
    for title, ways in tables.items():
        print(f"{title:<52} {'CPU s':>8} {'checks':>7} {'ms/check':>9} {'cases':>7} {'ms/case':>8}")
        for name, what in ways.items():
            print(line(name, *seconds(1 if asked.smoke else asked.turns, what)), flush=True)


if __name__ == "__main__":
    main()
