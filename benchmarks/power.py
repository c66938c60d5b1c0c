"""Power: the share of faults, planted in the source of real libraries, that make a check of a ready target fail.

    python benchmarks/power.py [--targets 60] [--mutants 17] [--seed 39] [--cpu 60] [--every] [--learned CORPUS]
                               [--table] [--smoke]

Of `fixtures/targets` so many are drawn of all five kinds, by a seed; those that the results name stay drawn. The checks
of each run once at quick effort, and lines of libraries that they execute are recorded. A mutant changes one of these
lines (`power_operators.py`), in a fork (`power_trial.py`). It counts if it changes a value in one of 200 random streams
(`power_streams.py`), and not every one into an error. It is found if a check fails that passes without it; the checks
that execute the line run in a random order, until the first fails, and those that compare with a reference last.

Outcomes are added to a file of JSON lines; a target that is in it goes on behind its last mutant. `--cpu` is the time
in CPU seconds after which a target gets no further mutant. `--every` runs all checks on the mutants that count, which
shows the properties that never find any. `--learned` tries the counted mutants of metrics again with the targets that
are inferred of a corpus that the library's own tests have made: a mutant that these do not execute is not found.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import random
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
TARGETS = ROOT / "fixtures" / "targets"
os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "KERAS_BACKEND": "torch"}
os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
sys.path[:0] = [str(Path(__file__).parent), str(ROOT), str(TARGETS)]

from power_operators import FORMULA, OPERATORS  # noqa: E402

RESULTS = Path(__file__).with_name("power_results.jsonl")
EVERY = Path(__file__).with_name("power_every.jsonl")
"""Outcomes of every check for the counted mutants, not up to the first that fails: which properties never find any."""
LEARNED = Path(__file__).with_name("power_learned.jsonl")
"""Outcomes of the counted mutants of metrics with inputs that were learned from the tests of their library."""
JUDGED = Path(__file__).with_name("power_judged.jsonl")
"""Judgement by hand of the counted mutants that were not found, or by the reference alone: what it takes to find them.

``reference``: code that is as consistent as the right one; ``known``: the same, and the check with the reference is a
known failure of the target, which passes over any other number; ``gap``: a property could show it.
"""
STREAMS = 200
SHARES = {"metric": 0.4, "wrapper": 0.15, "decoder": 0.15, "scorer": 0.15, "loop": 0.15}
OURS = ("evalcheck_fixes",)
"""Files about code of this project."""
SMOKE = ("evalcheck_torchmetrics_regression::mean_absolute_error", "evalcheck_lm_eval_filters::mapping")
KEY = ("target", "line", "operator", "before", "after")
"""The fields that tell one mutant from another."""
COUNTED = ("found", "found by reference", "survived")


def ready() -> dict[str, Any]:
    """All targets that can run here, by ``file::name``."""
    import pytest_evalcheck as ec

    found = {}
    for file in sorted(TARGETS.glob("evalcheck_*.py")):
        if not file.stem.startswith(OURS):
            for value in vars(importlib.import_module(file.stem)).values():
                if isinstance(value, ec.Target) and not (value.missing() or value.isolated or value.problems):
                    alone = set(value.arguments) <= {"device"} and (value.devices is None or "cpu" in value.devices)
                    found |= {f"{file.stem}::{value.name}": value} if alone else {}
    return found


def chosen(targets: dict[str, Any], count: int, seed: int, begun: Sequence[str] = ()) -> list[str]:
    """The targets, one kind after the other in turn: what is known early is about all.

    Those that are begun were drawn from an earlier list: they count, and come last.
    """
    turns = []
    for kind, share in SHARES.items():
        names = sorted(name for name, target in targets.items() if target.kind == kind)
        random.Random(f"{seed} {kind}").shuffle(names)
        number = max(1, round(share * count))
        names.sort(key=lambda name: name not in begun)
        turns += [(name in begun, at / number, kind, name) for at, name in enumerate(names[:number])]
    return [name for *_, name in sorted(turns)][: max(count, len(SHARES))]


def _trial(name: str, asked: argparse.Namespace, target: Any = None) -> Any:
    """Run the checks of a target, of that name where none is given, in this process, as its mutants need it."""
    warnings.simplefilter("ignore")
    from hypothesis import Phase, settings

    settings.register_profile("power", settings(database=None, phases=(Phase.explicit, Phase.generate)))
    settings.load_profile("power")
    from power_trial import Trial

    return Trial(target or _target(name), asked.seed, STREAMS)


def _target(name: str) -> Any:
    file, _, own = name.partition("::")
    targets = vars(importlib.import_module(file)).values()
    return next(each for each in targets if getattr(each, "name", "") == own and hasattr(each, "factory"))


def try_target(name: str, asked: argparse.Namespace) -> None:
    """Try the mutants of one target in this process, and add the outcomes to the results."""
    trial = _trial(name, asked)
    base = {"target": name, "kind": trial.target.kind, "seed": asked.seed}
    done = [one for one in results(asked.results) if one["target"] == name and one["seed"] == asked.seed]
    dice, started = random.Random(f"{asked.seed} {name}"), sum(os.times()[:4])
    with asked.results.open("a", encoding="utf-8") as out:
        if not done:
            about = {"checks": len(trial.checks), "streams": len(trial.streams), "seconds": round(trial.seconds, 1)}
            print(json.dumps({**base, "outcome": "begun", "reference": bool(trial.of_reference), **about}), file=out)
        count = 0
        for number, place in enumerate(trial.drawn(dice, asked.operators or OPERATORS)):
            of_mutant = random.Random(f"{asked.seed} {name} {number}")
            if count == asked.mutants or sum(os.times()[:4]) - started > asked.cpu:
                break
            if number < sum(one["outcome"] != "begun" for one in done):
                count += done[number + 1]["outcome"] != "not compiled"
                continue
            where = place.file.rpartition("site-packages/")[2]
            said = {"operator": place.operator, "file": where, "line": place.line, "function": place.function[0]}
            outcome = trial.tried(place, of_mutant, max(20.0, 4 * trial.seconds))
            print(json.dumps({**base, **said, **outcome}), file=out, flush=True)
            count += outcome["outcome"] != "not compiled"


def try_every_check(name: str, asked: argparse.Namespace) -> None:
    """Run all checks on the counted mutants of one target, and add those that fail to `EVERY`."""
    trial, done = _trial(name, asked), {_key(one) for one in results(EVERY)}
    with EVERY.open("a", encoding="utf-8") as out:
        for mutant in _counted_of(name, asked):
            if _key(mutant) not in done and (place := trial.place_of(mutant)) is not None:
                checks = trial.outcomes(place, max(20.0, 4 * trial.seconds))
                print(json.dumps({**{key: mutant[key] for key in KEY}, "checks": checks}), file=out, flush=True)


def try_learned(name: str, asked: argparse.Namespace) -> None:
    """Try the counted mutants of one metric with the targets that are inferred of a corpus, and add to `LEARNED`."""
    from pytest_evalcheck.discovery.candidates import Candidate
    from pytest_evalcheck.discovery.learned import entry_of
    from pytest_evalcheck.discovery.proposals import propose
    from pytest_evalcheck.discovery.target_source import write

    target = _target(name)
    made = target.factory(*(["cpu"] if "device" in target.arguments else []))
    cls = type(getattr(made, "source", None) or made)
    mutants, found = _counted_of(name, asked), {}
    candidate = Candidate(module=cls.__module__, name=cls.__name__, is_class=True)
    proposals = propose(candidate).targets if entry_of(cls) else []
    for number, proposal in enumerate(proposals[: asked.ways]):
        names: dict[str, Any] = {"__name__": f"learned_{number}"}
        exec(write("Learned.", [proposal], {}, []), names)
        trial = _trial(name, asked, next(each for each in names.values() if hasattr(each, "factory")))
        for mutant in mutants:
            if found.get(_key(mutant)) != "failed" and (place := trial.place_of(mutant)) is not None:
                checks = trial.outcomes(place, max(20.0, 4 * trial.seconds))
                found[_key(mutant)] = "failed" if "failed" in checks.values() else "passed"
    with LEARNED.open("a", encoding="utf-8") as out:
        for mutant in mutants:
            outcome = found.get(_key(mutant), "not executed") if proposals else "not learned"
            print(json.dumps({**{key: mutant[key] for key in KEY}, "outcome": outcome}), file=out, flush=True)


def _counted_of(name: str, asked: argparse.Namespace) -> list[dict[str, Any]]:
    return [one for one in results(asked.results) if one["target"] == name and one["outcome"] in COUNTED]


def _try_all(names: list[str], asked: argparse.Namespace) -> None:
    """Try the mutants of targets, each in a fork of this process, which has imported what all of them import."""
    import torch  # noqa: F401

    again = {_key(one) for one in results(LEARNED if asked.learned else EVERY)}
    for name in names:
        known = [one for one in results(asked.results) if one["target"] == name and one["seed"] == asked.seed]
        if asked.every or asked.learned:
            done = all(_key(one) in again for one in _counted_of(name, asked))
        else:
            done = sum(one["outcome"] not in ("begun", "not compiled") for one in known) >= asked.mutants
        if done:
            continue
        work = try_learned if asked.learned else try_every_check if asked.every else try_target
        started = time.monotonic()
        child = multiprocessing.get_context("fork").Process(target=work, args=(name, asked))
        child.start()
        child.join()
        print(f"{name}: {child.exitcode}, {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)


def results(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def _share(mutants: list[dict[str, Any]], referenced: set[str]) -> str:
    """The cells of a row: counted mutants, share without a reference; those of targets with one, and share with it."""
    counted = [one for one in mutants if one["outcome"] in COUNTED]
    alone = sum(one["outcome"] == "found" for one in counted)
    own = [one for one in counted if one["target"] in referenced]
    both = sum(one["outcome"] != "survived" for one in own)
    parts = [f"{len(counted)}", f"{alone / len(counted):.0%}" if counted else "-"]
    return " | ".join([*parts, f"{len(own)}", f"{both / len(own):.0%}" if own else "-"])


def _key(mutant: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(mutant.get(name) for name in KEY)


def _findable(mutants: list[dict[str, Any]], referenced: set[str]) -> None:
    """Print the shares of mutants that a property could show: those that nobody has judged are among them."""
    judged = {_key(one): one["needs"] for one in results(JUDGED)}
    counted = [one for one in mutants if one["outcome"] in COUNTED]
    needs = Counter(judged.get(_key(one), "not judged") for one in counted if one["outcome"] != "found")
    alone = [one for one in counted if judged.get(_key(one)) not in ("reference", "known")]
    found = sum(one["outcome"] == "found" for one in alone)
    print(f"\nnot found without a reference, by what it takes: {', '.join(f'{n} {name}' for name, n in needs.items())}")
    print(f"findable without a reference: {len(alone)}, found {found / max(1, len(alone)):.0%}")
    hidden = {one["target"] for one in results(JUDGED) if one["needs"] == "known"}
    print(f"where the check with the reference is no known failure: {_share(counted, referenced - hidden)}")


def table(every: list[dict[str, Any]], seed: int) -> None:
    """Print the shares of a draw by kind and operator, and those of all draws by property."""
    found = [one for one in every if one["seed"] == seed]
    begun = [one for one in found if one["outcome"] == "begun"]
    mutants = [one for one in found if one["outcome"] not in ("begun", "not compiled")]
    referenced = {one["target"] for one in begun if one["reference"]}
    outcomes = Counter(one["outcome"] for one in mutants)
    print(f"{len(begun)} targets, {len(mutants)} mutants: " + ", ".join(f"{n} {o}" for o, n in outcomes.most_common()))
    seconds = sum(one.get("seconds", 0) for one in found)
    print(f"{seconds / 60:.0f} CPU minutes")
    print("\n| mutants | counted | found without | of targets with a reference | found with |")
    print("| --- | --- | --- | --- | --- |")
    print(f"| all | {_share(mutants, referenced)} |")
    for text, is_formula in (("of handling", False), ("of the formula", True)):
        print(
            f"| {text} | {_share([one for one in mutants if (one['operator'] in FORMULA) == is_formula], referenced)} |"
        )
    for kind in SHARES:
        print(f"| {kind} | {_share([one for one in mutants if one['kind'] == kind], referenced)} |")
    for operator in OPERATORS:
        print(f"| {operator} | {_share([one for one in mutants if one['operator'] == operator], referenced)} |")
    _findable(mutants, referenced)
    checks = [one["checks"] for one in results(EVERY)]
    tried = Counter(code for one in checks for code in one)
    red = Counter(code for one in checks for code, outcome in one.items() if outcome == "failed")
    first = Counter(one["by"] for one in every if "by" in one)
    print(f"\nevery check on {len(checks)} mutants that count, of all draws:")
    print("\n| property | tried | failed | failed first |\n| --- | --- | --- | --- |")
    for code in sorted(tried, key=lambda code: (-red[code] / tried[code], code)):
        print(f"| {code} | {tried[code]} | {red[code]} | {first[code]} |")
    _learned(every)
    _without_a_finding({code for code in tried if not red[code] + first[code]})


def _learned(every: list[dict[str, Any]]) -> None:
    """Print the share that learned inputs find, beside that of the targets that were written, without references."""
    outcomes = {_key(one): one["outcome"] for one in results(LEARNED)}
    same = [one for one in every if outcomes.get(_key(one), "not learned") != "not learned"]
    found = sum(outcomes[_key(one)] == "failed" for one in same)
    written = sum(one["outcome"] == "found" for one in same)
    missed = sum(outcomes[_key(one)] == "not executed" for one in same)
    print(f"\n{len(same)} mutants of {len({one['target'] for one in same})} metrics that tests of their library call:")
    print(f"{written} found with inputs that were written, {found} with learned ones, which do not execute {missed}")


def _without_a_finding(codes: set[str]) -> None:
    """Print which of these properties show no fault of the registry either: they have found nothing in real code."""
    from pytest_evalcheck import upstream
    from pytest_evalcheck.kinds.registry import shipped

    every = {check.code for check in shipped()}
    shown = {code for fault in upstream.faults() for code in fault.codes} & every
    print(f"\nof these that no mutant made fail, no fault of the registry either: {', '.join(sorted(codes - shown))}")
    print(f"properties that show a fault of the registry: {len(shown)} of {len(every)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", type=int, default=60)
    parser.add_argument("--mutants", type=int, default=17, help="of each target")
    parser.add_argument("--seed", type=int, default=39)
    parser.add_argument("--cpu", type=float, default=60, help="seconds of a target after which no mutant is begun")
    parser.add_argument("--kinds", nargs="+", choices=SHARES, default=[*SHARES], help="of targets; all by default")
    parser.add_argument("--operators", nargs="+", default=(), help="of power_operators.py; all by default")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--every", action="store_true", help="run every check on the mutants that count")
    parser.add_argument("--learned", type=Path, metavar="CORPUS", help="try the counted mutants with what was learned")
    parser.add_argument("--ways", type=int, default=3, help="targets of one class that are tried with --learned")
    parser.add_argument("--table", action="store_true", help="print what is known, try nothing")
    parser.add_argument("--smoke", action="store_true", help="a run of seconds, to check that this works")
    asked = parser.parse_args()
    if unknown := {*asked.operators} - {*OPERATORS}:
        parser.error(f"no operator is named {sorted(unknown)[0]!r}; they are {', '.join(OPERATORS)}")
    if asked.smoke:
        with tempfile.TemporaryDirectory() as folder:
            asked.mutants, asked.results = 3, Path(folder) / "results.jsonl"
            _try_all([*SMOKE], asked)
            table(results(asked.results), asked.seed)
        return
    if asked.learned:
        os.environ["EVALCHECK_CORPUS"] = str(asked.learned.resolve())
        asked.kinds = ["metric"]
    if not asked.table:
        begun = [one["target"] for one in results(asked.results) if one["seed"] == asked.seed]
        wanted = {name: target for name, target in ready().items() if target.kind in asked.kinds}
        _try_all(chosen(wanted, asked.targets, asked.seed, begun), asked)
    table(results(asked.results), asked.seed)


if __name__ == "__main__":
    main()
