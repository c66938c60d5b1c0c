"""Choice of the tests that are run for a mutant: those about its file."""

from __future__ import annotations

import ast
import re
from fnmatch import fnmatch
from pathlib import Path

from mutation_places import Mutant

# The first that fits. `{kind}` is the folder of the kind; what is in braces stands for planted bugs and their twins:
# of a kind, of the checks that the mutant is part of, or of the checks whose codes begin so.
TESTS = (
    ("kinds/loop/checks_variants.py", "{codes} kinds/loop/test_loop_variants"),
    ("kinds/loop/checks*.py", "{codes} kinds/loop/test_loop_checks"),
    ("kinds/decoder/checks*.py", "{codes} kinds/decoder/test_decoder_checks kinds/decoder/test_decoder_programs"),
    ("kinds/device/checks.py", "{codes} devices/test_device_ledger"),
    ("kinds/device/*.py", "{EC60} devices/test_device_ledger"),
    ("kinds/*/checks*.py", "{codes}"),
    ("kinds/*/subject.py", "kinds/{kind}/test_{kind}_subject {kind}"),
    ("strategies/models.py", "strategies/test_model_strategies {decoder} {wrapper}"),
    ("strategies/language.py", "strategies {decoder} {wrapper}"),
    ("strategies/scoring.py", "strategies {scorer}"),
    ("strategies/*.py", "strategies {metric}"),
    ("engine/*.py", "engine kinds/test_registry"),
    ("devices/rules/*.py", "devices/test_device_rules devices/test_device_tensors devices/test_device_simulation"),
    ("fixes/scoring/sandbox*.py", "fixes/test_fixes_sandbox"),
    ("fixes/scoring/cache.py", "fixes/test_fixes_scoring_cache"),
    ("fixes/scoring/dependencies.py", "fixes/test_fixes_scoring_dependencies fixes/test_fixes_scoring_cache"),
    ("fixes/scoring/numbers.py", "fixes/test_fixes_scoring_numbers fixes/test_fixes_scoring"),
    ("fixes/scoring/pass_at_k.py", "fixes/test_fixes_pass_at_k"),
    ("fixes/scoring/backends.py", "fixes/test_fixes_scoring fixes/test_fixes_scoring_clusters"),
    ("fixes/scoring/*.py", "fixes/test_fixes_scoring fixes/test_fixes_scoring_processes"),
    ("fixes/caches/lm_eval*.py", "fixes/test_fixes_caches_lm_eval"),
    ("fixes/caches/batch_padding.py", "fixes/test_fixes_caches_lm_eval"),
    ("fixes/caches/torchtune*.py", "fixes/test_fixes_caches_torchtune fixes/test_fixes_caches_lm_eval"),
    ("fixes/caches/transformers*.py", "fixes/test_fixes_caches_transformers fixes/test_fixes_caches_lm_eval"),
    ("fixes/caches/*.py", "fixes/test_fixes_caches fixes/test_fixes_caches_transformers"),
    ("fixes/loops/oom_retry.py", "fixes/test_fixes_loops_retry"),
    ("fixes/loops/trainer.py", "fixes/test_fixes_loops_trainer"),
    ("fixes/loops/*.py", "fixes/test_fixes_loops fixes/test_fixes_loops_retry fixes/test_fixes_loops_trainer"),
    ("fixes/eval_mode.py", "fixes/test_fixes_eval_mode"),
    ("fixes/devices.py", "fixes/test_fixes_devices fixes/test_fixes_devices_containers"),
    ("fixes/containers.py", "fixes/test_fixes_devices_containers fixes/test_fixes_devices"),
    ("fixes/batches.py", "fixes/test_fixes_labels fixes/test_fixes_sample_stream"),
    ("fixes/*.py", "fixes/test_fixes_promises fixes/test_fixes_exactness fixes/test_fixes_sample_stream"),
)


def tests_of(mutant: Mutant, root: Path) -> list[str]:
    """Files and folders of tests, and planted bugs as `{EC201,EC202}` or `{metric}`, from the root of a repository."""
    module = mutant.module.removeprefix("pytest_evalcheck/")
    part, *rest = module.split("/")
    kind = rest[0] if part == "kinds" else ""
    named = next(tests for pattern, tests in TESTS if fnmatch(module, pattern))
    said = {"{kind}": kind if kind else "", "{codes}": ",".join(_codes(root / mutant.module, mutant))}
    found = []
    for word in [f"mutation/test_mutants_{kind or part}", *named.split()]:
        if word in said:
            found.append(f"{{{said[word]}}}")
        elif word.startswith("{"):
            found.append(word)
        else:
            path = f"tests/{word.replace('{kind}', kind)}"
            found += [one for one in (path, f"{path}.py") if (root / one).exists()]
    return found


def _codes(file: Path, mutant: Mutant) -> list[str]:
    """The codes of the check that is mutated; those of the whole file for what checks share."""
    source = file.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and node.name == mutant.function:
            found = [re.findall(r"^check\('(EC\d+)'", ast.unparse(one)) for one in node.decorator_list]
            if any(found):
                return [code for codes in found for code in codes]
    return re.findall(r'@check\(\s*"(EC\d+)"', source)
