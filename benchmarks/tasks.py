"""Every task, scorer, metric and reducer of lm-evaluation-harness, inspect_ai and lighteval, without data or a network.

    python benchmarks/tasks.py [lm_eval] [inspect_ai] [inspect_evals] [lighteval] ["lm_eval bytes chat"] [--only TEXT]
                               [--minutes 30] [--part 1/4] [--seed 1] [--most 50] [--seconds 60] [--out tasks.jsonl]
                               [--smoke]

Tasks of lm_eval are grouped by what they do (templates, filters, metrics and files of functions); the first of each
group that can be made is checked. Printed are how many tasks and groups were reached and why the others were not,
checks by outcome, red ones by cause, the share of tasks whose scorer rejects a rewriting of its own right answer, and
CPU seconds a task. Each group has a process of its own, with a limit of CPU time. What ``--out`` has already is not
tried again. ``lm_eval bytes chat`` are the checks of tokens of tasks of lm_eval, with a tokenizer of that family and,
by ``chat``, its chat template. Not in CI.

``tasks_judged.tsv`` has a verdict on each red check of each group, by its cause: ``number`` is a fault of the task or
of its library, ``design`` declared or arguable, ``ours`` a false alarm. It keeps the first outcome; ``now`` says of
ours what became of it. ``python benchmarks/tasks.py --table benchmarks/tasks_judged.tsv`` prints the shares.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import random
import re
import resource
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

for _name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "DISABLE_MULTIPROC"):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("LM_HARNESS_CACHE_PATH", os.path.join(os.path.expanduser("~"), ".cache", "lm_eval"))

import pytest_evalcheck as ec  # noqa: E402
from pytest_evalcheck import strategies as es  # noqa: E402
from pytest_evalcheck.expectations.failures import NotApplicable  # noqa: E402
from pytest_evalcheck.kinds.registry import shipped  # noqa: E402
from pytest_evalcheck.kinds.task.record import Task  # noqa: E402
from pytest_evalcheck.strategies.documents import REWRITINGS, rewritten  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))
from learning import in_a_fork, read, wilson  # noqa: E402

Row = dict[str, Any]
"""Findings about one group of tasks, as a line of JSON."""
_TEXTS = ("doc_to_text", "doc_to_target", "doc_to_choice")
_AS_THEY_ARE = ("output_type", "filter_list", "use_prompt")
_FUNCTIONS = ("process_docs", "process_results", "custom_dataset", "class")
_ELSEWHERE = ("EC717",)
"""Another process cannot import a target that is made here."""
_BUSY = 3
"""A limit of the clock is as many times that of the CPU: a task may wait for processes that it starts."""
JUDGED = ("library", "code", "cause", "verdict", "groups", "reason", "now")
"""Columns of the verdicts: a line for the groups in which a check is red for one cause."""
_MOST_TRIED = 3
"""Tasks of a group that are tried until one can be made."""


def cpu() -> float:
    """Return the CPU seconds of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def lm_eval_groups() -> dict[str, list[str]]:
    """Return the names of tasks by what they do: texts of templates without their plain parts, and files of code."""
    from lm_eval.tasks._yaml_loader import load_yaml

    from pytest_evalcheck.adapters.lm_eval.registry import entries

    groups: dict[str, list[str]] = {}
    for name, entry in sorted(entries().items()):
        if entry.kind.name in ("TASK", "PY_TASK"):
            config = load_yaml(entry.yaml_path, resolve_func=False)
            groups.setdefault(json.dumps(_doing(config), sort_keys=True, default=str), []).append(name)
    return {names[0]: names for names in groups.values()}


def _doing(config: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {key: config.get(key) for key in _AS_THEY_ARE}
    found |= {key: _template(config.get(key)) for key in _TEXTS}
    found |= {key: _file(config.get(key)) for key in _FUNCTIONS}
    metrics = config.get("metric_list") or []
    found["metric_list"] = [{key: _file(value) for key, value in each.items()} for each in metrics]
    return found


def _template(value: Any) -> Any:
    if isinstance(value, list):
        return len(value)
    if isinstance(value, str) and ("{{" in value or "{%" in value):
        return " ".join(re.findall(r"\{\{.*?\}\}|\{%.*?%\}", value, re.DOTALL))
    return _file(value)


def _file(value: Any) -> Any:
    """Return the module of a function of a YAML file, without the name of the function."""
    return value.rpartition(".")[0] if isinstance(value, str) and "/lm_eval/tasks/" in value else value


def inspect_evals_groups() -> dict[str, list[str]]:
    """Return the names of the tasks of inspect_evals, each a group of its own."""
    from pytest_evalcheck.adapters.inspect_ai.registry import names

    return {name: [name] for name in names("inspect_evals")}


def lighteval_groups() -> dict[str, list[str]]:
    """Return the names of the tasks of lighteval, by their prompt function and metrics, each with two examples."""
    from pytest_evalcheck.adapters.lighteval.registry import configurations

    groups: dict[Any, list[str]] = {}
    for name, config in sorted(configurations().items()):
        function = getattr(config.prompt_function, "func", config.prompt_function)
        metrics = tuple(str(metric.metric_name) for metric in config.metrics)
        place = getattr(function, "__module__", ""), getattr(function, "__qualname__", repr(function))
        groups.setdefault((place, metrics, config.few_shots_select), []).append(f"{name}|2")
    return {names[0]: names for names in groups.values()}


def inspect_ai_groups() -> dict[str, list[str]]:
    """Return the names of the scorers of inspect_ai, each with its options."""
    from inspect_targets import SCORERS

    return {name: [name] for name in SCORERS}


def inspect_scorer(name: str) -> Callable[[], Task]:
    """Return a factory of the record of a task with one scorer of inspect_ai."""
    from inspect_targets import SCORERS

    from pytest_evalcheck.adapters.inspect_ai.task import record

    made = SCORERS[name]()
    return lambda: record(made)


def from_registry(folder: str) -> Callable[[str], Callable[[], Task]]:
    """Return a function from the name of a task in a registry to a factory of its record."""

    def make(name: str) -> Callable[[], Task]:
        home = f"pytest_evalcheck.adapters.{folder}"
        made = importlib.import_module(f"{home}.registry").task(name)
        record = importlib.import_module(f"{home}.task").record
        return lambda: record(made)

    return make


def with_tokenizer(family: str) -> Callable[[str], Callable[[], Task]]:
    """Return a function from the name of a task of lm_eval to its record with a small model and its tokenizer.

    The family is one of `fixtures/targets/_tokenizers.py`; with `` chat`` behind it, the chat template is applied.
    """
    family, chat = family.removesuffix(" chat"), family.endswith(" chat")

    @cache
    def model() -> Any:
        from lm_eval.models.huggingface import HFLM
        from transformers import GPT2Config, GPT2LMHeadModel

        sys.path.insert(0, str(Path(__file__).parent.parent / "fixtures" / "targets"))
        tokens = importlib.import_module("_tokenizers").tokenizer(family)
        sizes = {"vocab_size": len(tokens), "n_embd": 8, "n_layer": 1, "n_head": 1}
        return HFLM(pretrained=GPT2LMHeadModel(GPT2Config(**sizes)), tokenizer=tokens, max_length=8192, device="cpu")

    def make(name: str) -> Callable[[], Task]:
        from pytest_evalcheck.adapters.lm_eval.registry import task
        from pytest_evalcheck.adapters.lm_eval.task import with_model

        made = task(name)
        return lambda: with_model(made, model(), chat=chat)

    return make


LIBRARIES: dict[str, tuple[Callable[[], dict[str, list[str]]], Callable[[str], Callable[[], Task]]]] = {
    "lm_eval": (lm_eval_groups, from_registry("lm_eval")),
    "inspect_ai": (inspect_ai_groups, inspect_scorer),
    "inspect_evals": (inspect_evals_groups, from_registry("inspect_ai")),
    "lighteval": (lighteval_groups, from_registry("lighteval")),
}
LIBRARIES |= {
    f"lm_eval {family}{chat}": (lm_eval_groups, with_tokenizer(f"{family}{chat}"))
    for family in ("bytes", "bytes_after_a_space", "bytes_that_begin", "pieces_that_begin")
    for chat in ("", " chat")
}
TOKENS = "EC706,EC707,EC711,EC713,EC714"
"""The checks of a task with a tokenizer."""


LIMITS = ("the limit of CPU time", "it took too long")
"""Reasons of `in_a_fork`."""


def tried_alone(library: str, names: Sequence[str], codes: str, seconds: float) -> Row:
    """Return the row of a group that is tried in a process of its own, or why that process ended."""
    found = in_a_fork(lambda: tried(library, names, LIBRARIES[library][1], codes), seconds, _BUSY)
    if isinstance(found, str):
        return {"library": library, "group": names[0], "tasks": len(names), "reached": False, "reason": found}
    return dict(found)


def tried(library: str, names: Sequence[str], make: Callable[[str], Callable[[], Task]], codes: str) -> Row:
    """Return what the checks say about the first task of a group that can be made."""
    before, reasons = cpu(), []
    for name in names[:_MOST_TRIED]:
        try:
            factory = make(name)
            record = factory()
        except Exception as error:
            reasons.append(" ".join(f"{type(error).__name__}: {error}".split())[:300])
            continue
        loaded = cpu()
        target = ec.target("task", inputs=es.documents())(_named(factory))
        cells = ec.run(target, select=codes, effort="quick", timeout=60).cells
        checked = cpu()
        row = {"library": library, "group": names[0], "tasks": len(names), "name": name, "reached": True}
        row |= {"load_s": round(loaded - before, 2), "check_s": round(checked - loaded, 2)}
        row["cells"] = {cell.code: cell.outcome for cell in cells}
        row["red"] = {c.code: [c.signature, c.reason[:400]] for c in cells if c.outcome in ("failed", "incomplete")}
        row["inapplicable"] = {c.code: c.reason[:160] for c in cells if c.outcome == "not applicable"}
        return row | rejections(record)
    return {"library": library, "group": names[0], "tasks": len(names), "reached": False, "reason": reasons[0]}


def _named(factory: Callable[[], Task]) -> Callable[[], Task]:
    def task() -> Task:
        return factory()

    return task


def rejections(record: Task) -> Row:
    """Return by rewriting how many marks of a task are full, of how many, for its first document with an answer."""
    if record.score is None or record.gold is None or record.choices is not None:
        return {}
    response = record.response or (lambda _, answer: str(answer))
    for document in record.documents[:4]:
        try:
            golds = record.gold(document)
            answer = golds[0] if isinstance(golds, list) else golds
            plain = record.score(document, [response(document, answer)])
        except (NotApplicable, Exception):
            continue
        full = [name for name, mark in _marks(plain).items() if mark == 1]
        if not full or not isinstance(answer, str):
            continue
        found: dict[str, tuple[int, int]] = {}
        for name in REWRITINGS:
            text = rewritten(answer, [name], response=lambda given, own=document: response(own, given))
            if text is not None:
                try:
                    marks = _marks(record.score(document, [text]))
                except Exception:
                    marks = {}
                found[name] = (sum(1 for each in full if marks.get(each) == 1), len(full))
        return {"answer": answer[:40], "rewritings": found}
    return {}


def _marks(marks: Any) -> dict[str, float]:
    return dict(marks) if isinstance(marks, Mapping) else {"": marks}


def show(rows: Sequence[Row]) -> None:
    """Print the figures of each library."""
    for library in dict.fromkeys(row["library"] for row in rows):
        own = [row for row in rows if row["library"] == library]
        reached = [row for row in own if row["reached"]]
        tasks = sum(row["tasks"] for row in own)
        print(f"{library}: {tasks} tasks in {len(own)} groups; reached: ", end="")
        print(f"{sum(row['tasks'] for row in reached)} tasks in {len(reached)} groups")
        reasons = Counter(_cause(row["reason"]) for row in own if not row["reached"])
        limited = [row["group"] for row in own if row.get("reason") in LIMITS]
        print(f"  at a limit of time: {', '.join(limited) or 'none'}")
        for reason, count in reasons.most_common(12):
            print(f"  not reached {count:>4}  {reason}")
        outcomes = Counter(outcome for row in reached for outcome in row["cells"].values())
        print("  checks: " + ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common()))
        red: dict[str, list[str]] = {}
        for row in reached:
            for signature, _ in row["red"].values():
                red.setdefault(signature, []).append(row["name"])
        for signature, names in sorted(red.items(), key=lambda each: -len(each[1])):
            print(f"  RED {len(names):>4}  {signature}: {', '.join(names[:3])}")
        _show_rejections(reached)
        if reached:
            loads, checks = (sorted(row[key] for row in reached) for key in ("load_s", "check_s"))
            middle = len(reached) // 2
            print(f"  CPU seconds a task: {loads[middle]} to make it, {checks[middle]} to check it (medians)")
    sys.stdout.flush()


def _show_rejections(reached: Sequence[Row]) -> None:
    scored = [row for row in reached if row.get("rewritings")]
    if not scored:
        return
    none = [row for row in scored if any(full == 0 for full, _ in row["rewritings"].values())]
    some = [row for row in scored if any(full < most for full, most in row["rewritings"].values())]
    print(
        f"  scorers of {len(scored)} groups with answers as text: {len(none)} give some rewriting no full mark, ",
        end="",
    )
    print(f"{len(some)} do so by one of their filters or metrics")
    for name in REWRITINGS:
        asked = [row for row in scored if name in row["rewritings"]]
        if asked:
            count = sum(1 for row in asked if row["rewritings"][name][0] == 0)
            print(f"    {name:14} rejected by {count:>4} of {len(asked)}")


def _cause(reason: str) -> str:
    return re.sub(r"of \S+ cannot|'[^']*'|\"[^\"]*\"|\(.*?\)|give rows.*|documents with .*? are", "", reason)[:110]


def table(path: Path) -> Iterator[str]:
    """Yield the red checks of each library by verdict and cause, and the share of ours with its interval, by line."""
    lines = [{**row, "count": len(row["groups"].split())} for row in read(path, JUDGED)]
    for library in [*dict.fromkeys(row["library"] for row in lines), ""]:
        own = [row for row in lines if library in ("", row["library"])]
        total, verdicts = sum(row["count"] for row in own), Counter[str]()
        for row in own:
            verdicts[row["verdict"]] += row["count"]
        shares = ", ".join(f"{count} {verdict} ({count / total:.1%})" for verdict, count in verdicts.most_common())
        low, high = wilson(verdicts["ours"], total)
        yield f"{library or 'all'}: {total} red checks: {shares}"
        yield f"  ours: {verdicts['ours'] / total:.1%} (95 % interval {low:.1%} to {high:.1%})"
        for row in sorted(own, key=lambda row: -row["count"]) if library else ():
            now = f"; {row['now']}" if row["now"] else ""
            yield f"  {row['count']:>4} {row['verdict']:6} {row['code']} {row['cause']}: {row['reason']}{now}"


def rows_of(path: Path | None) -> list[Row]:
    """Return the rows of a run that has been stopped."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path and path.exists() else []


def main() -> None:
    """Run the sweeps that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", nargs="*", help="all that are installed by default")
    parser.add_argument("--only", default="", help="groups whose first task has this text in its name")
    parser.add_argument("--minutes", type=float, default=600)
    parser.add_argument("--part", default="1/1", help="2/8: the second eighth of the groups")
    parser.add_argument("--seed", type=int, help="groups in a random order; by default the largest ones first")
    parser.add_argument("--seconds", type=float, default=60, help="limit of CPU time of a group")
    parser.add_argument("--out", type=Path, help="a file of rows, to which those of this run are added")
    parser.add_argument("--most", type=int, help="number of groups")
    parser.add_argument("--smoke", action="store_true", help="three groups of each")
    parser.add_argument("--table", type=Path, metavar="FILE", help="print the verdicts of a file instead")
    asked = parser.parse_args()
    if asked.table:
        print("\n".join(table(asked.table)))
        return
    warnings.simplefilter("ignore")
    number, parts = map(int, asked.part.split("/"))
    codes = ",".join(check.code for check in shipped() if check.kinds == ("task",) and check.code not in _ELSEWHERE)
    rows, end, loaded = rows_of(asked.out), time.monotonic() + 60 * asked.minutes, set[str]()
    for library in asked.library or filter(importlib.util.find_spec, LIBRARIES):
        for names in _chosen(library, asked.only, (number, parts), asked.seed, 3 if asked.smoke else asked.most):
            if any(row["group"] == names[0] and row["library"] == library for row in rows) or time.monotonic() > end:
                continue
            own = TOKENS if " " in library else codes
            row = tried_alone(library, names, own, asked.seconds)
            if row["reached"] and library not in loaded:  # what all groups need is loaded once, by one that ends
                loaded.add(library)
                tried(library, names, LIBRARIES[library][1], own)
            rows.append(row)
            if asked.out:
                with asked.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    show(rows)


def _chosen(library: str, only: str, part: tuple[int, int], seed: int | None, most: int | None) -> Iterator[list[str]]:
    groups = [names for first, names in LIBRARIES[library][0]().items() if only in first]
    # The largest groups first: where time is short, they are most tasks.
    groups.sort(key=lambda names: (-len(names), names[0]))
    if seed is not None:
        random.Random(seed).shuffle(groups)
    yield from groups[part[0] - 1 :: part[1]][:most]


if __name__ == "__main__":
    main()
