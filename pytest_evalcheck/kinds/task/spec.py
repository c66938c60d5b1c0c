"""The kind of tasks."""

from __future__ import annotations

from pytest_evalcheck.kinds.common.kind import KindSpec
from pytest_evalcheck.kinds.task.record import Task
from pytest_evalcheck.kinds.task.subject import TaskSubject
from pytest_evalcheck.strategies.documents import documents

_ROOM = "pytest_evalcheck.kinds.task"

SPEC = KindSpec(
    name="task",
    record=Task,
    subject=TaskSubject,
    checks=tuple(f"{_ROOM}.checks_{name}" for name in ("answers", "prompts", "responses", "runs")),
    example='documents([{"question": "2 + 3 = ?", "answer": "5"}])',
    expected="an ec.Task, a task of lm_eval, inspect_ai or lighteval, or `ec.Task.of(function)` of a document",
    methods=("requests", "score"),
    complete_hint="It has requests() and score(): return `ec.Task(requests=..., score=..., gold=...)`.",
    partial_hint="`ec.Task(...)` with those of its fields that can be filled",
    copyable=False,
    inputs=documents(),
)
