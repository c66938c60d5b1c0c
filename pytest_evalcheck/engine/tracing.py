"""Traces of targets: every step from a document to its mark, for ``python -m pytest_evalcheck diff``."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pytest_evalcheck.engine.factory import TargetFactory
from pytest_evalcheck.errors import UsageError, nearest, safe_text
from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import NotApplicable, TargetError
from pytest_evalcheck.kinds.decoder.subject import NEW_TOKENS, DecoderSubject
from pytest_evalcheck.kinds.engine.subject import EngineSubject
from pytest_evalcheck.kinds.loop.subject import LoopSubject
from pytest_evalcheck.kinds.registry import kind_of
from pytest_evalcheck.kinds.scorer.subject import ScorerSubject
from pytest_evalcheck.reports.json import versions
from pytest_evalcheck.reports.traces import Trace
from pytest_evalcheck.targets.target import Target

Documents = list[dict[str, Any]]


def trace(given: str, count: int, python: str = "") -> Trace:
    """The trace of ``file.py::target``, or of a file that ``--save`` wrote; with ``python`` that interpreter makes it.

    Raises:
        UsageError: when there is no such file or target, or nothing can be traced of it.
        ReportError: when a saved trace cannot be read.
    """
    name, _, target = given.partition("::")
    path = Path(name)
    if not path.is_file():
        raise UsageError(f"{name} is no file; expected file.py::target, or a trace that diff --save has written")
    if not target:
        return Trace.load(path)
    if python:
        return _elsewhere(given, count, python)
    return trace_target(_loaded(path, target), count, given)


def trace_target(target: Target, count: int, name: str = "") -> Trace:
    """The trace of a target on ``count`` documents, the same in every run.

    Raises:
        UsageError: when it cannot be built here, or has no documents.
    """
    if target.problems:
        raise UsageError(f"{target.name}: " + "; ".join(target.problems))
    if missing := target.missing():
        raise UsageError(f"{target.name} is not traced: {missing}")
    if target.kind not in _TRACED:
        raise UsageError(f"{target.name} is a {target.kind}, which has no documents; expected a {' or '.join(_TRACED)}")
    if unknown := [argument for argument in target.arguments if argument != "device"]:
        raise UsageError(f"{target.name} asks for the fixture {unknown[0]!r}; a trace needs a target without fixtures")
    factory = TargetFactory(target)
    arguments = dict.fromkeys(target.arguments, "cpu")
    subject = kind_of(target.kind).subject(build=lambda: factory.record(arguments), inputs=target.inputs)
    rows = target.inputs.fixed(count)
    facts = {name: version for name, version in versions().items() if version}
    try:
        traced = zip(rows, _TRACED[target.kind](subject, rows), strict=True)
        documents = [{"sample": _plain(row), **steps} for row, steps in traced]
        return Trace(name or target.name, {**facts, **_facts(subject)}, documents)
    except (TargetError, NotApplicable) as error:
        raise UsageError(f"{target.name} is not traced: {error}") from error


def _engine_documents(subject: EngineSubject, rows: list[Any]) -> Documents:
    found = []
    engine = subject.engine()
    for prompt in subject.prompts(rows):
        parameters = engine.greedy(tokens=16)
        (answer,) = _required(engine.ask([prompt], parameters))
        steps = {"text": answer["text"], "tokens": answer.get("tokens"), "log-probabilities": answer.get("logprobs")}
        asked = {"prompt" if isinstance(prompt, str) else "ids": prompt, "parameters": parameters}
        found.append({**asked, **{step: value for step, value in steps.items() if value is not None}})
    return found


def _decoder_documents(subject: DecoderSubject, rows: list[Any]) -> Documents:
    found = []
    for prompt in subject.prompts(rows):
        decoder = next(subject.precisions())
        (ids,) = decoder.truncate([prompt], NEW_TOKENS)
        steps: dict[str, Any] = {"ids": ids, "logits": _required(decoder.decode_uncached([ids]))[0][-1].tolist()}
        if "generate" in decoder.methods:
            steps["tokens"] = [int(each) for each in _required(decoder.decode_with_new_cache("generate", [ids]))[0]]
        found.append(steps)
    return found


def _loop_documents(subject: LoopSubject, rows: list[Any]) -> Documents:
    records = dict(_required(subject.records(rows)))
    return [_named(records.get(index, {})) for index in range(len(rows))]


def _named(record: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a record as steps: those of another name are a part of the score."""
    known = {"prompt": "prompt", "parameters": "parameters", "responses": "answer", "text": "text"}
    steps = {step: _plain(record[name]) for name, step in known.items() if name in record}
    score = {name: _plain(value) for name, value in record.items() if name not in known}
    return {**steps, "score": score}


def _scorer_documents(subject: ScorerSubject, rows: list[Any]) -> Documents:
    return [{"score": _plain(score)} for score in _required(subject.scores(rows))]


_TRACED: Mapping[str, Callable[[Any, list[Any]], Documents]] = {
    "decoder": _decoder_documents,
    "engine": _engine_documents,
    "loop": _loop_documents,
    "scorer": _scorer_documents,
}


def _required(result: Any) -> Any:
    if isinstance(result, Raised):
        raise UsageError(f"a document has no trace: {result}") from result.error
    return result


def _facts(subject: Any) -> dict[str, str]:
    """Facts of the target itself: those that its record declares, and the dtype of its model."""
    record = subject.build()
    found = getattr(getattr(record, "model", None), "dtype", None)
    dtype = {} if found is None else {"dtype": str(found)}
    return {**dtype, **{name: str(value) for name, value in getattr(record, "facts", {}).items()}}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value
    return _plain(value.tolist()) if hasattr(value, "tolist") else safe_text(value)


def _loaded(path: Path, name: str) -> Target:
    spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    targets = {key: value for key, value in vars(module).items() if isinstance(value, Target)}
    if name not in targets:
        expected = ", ".join(list(targets)[:5]) or "a function that is decorated as a target"
        raise UsageError(f"{path} has no target {name!r}; expected one of {expected}{nearest(name, targets)}")
    return targets[name]


def _elsewhere(given: str, count: int, python: str) -> Trace:
    """The trace that another interpreter makes, which has this package and the libraries of the target."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        command = (python, "-m", "pytest_evalcheck", "diff", given, "--save", str(path), "--documents", str(count))
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise UsageError(f"{python} cannot be run: {error.strerror}; expected an interpreter of Python") from error
        if not path.is_file():
            last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
            raise UsageError(f"{python} ended with code {done.returncode} and made no trace of {given}: {last}")
        return Trace.load(path)
