"""Tasks of a library's registry as targets: each name that was asked for, and the tasks of groups."""

from __future__ import annotations

import importlib
from typing import Any

from pytest_evalcheck.adapters.lookup import registry_of
from pytest_evalcheck.discovery.candidates import Candidate, Found
from pytest_evalcheck.discovery.inputs import ES
from pytest_evalcheck.discovery.proposals import Proposal, Proposed
from pytest_evalcheck.discovery.requests import Request
from pytest_evalcheck.errors import UsageError


def find(request: Request) -> Found:
    """Return the tasks that a request names; a group stands for its tasks.

    Raises:
        UsageError: where the registry has no such name, or its library is not installed.
    """
    registry = _registry(request.module)
    asked = [name.strip() for name in request.name.split(",") if name.strip()]
    try:
        names = dict.fromkeys(name for each in asked for name in registry.names_of(each))
    except ImportError as error:
        raise UsageError(f"{request.module} cannot be imported: {error}") from error
    return Found(candidates=[Candidate(module=request.module, name=name, is_class=False) for name in names])


def propose(candidate: Candidate) -> Proposed:
    """Return the target of a task, or why it cannot be made here."""
    registry = _registry(candidate.module)
    try:
        made = registry.task(candidate.name)
    except UsageError as error:
        return Proposed(why=str(error))
    where = "made documents" if getattr(made, "made_documents", False) else "its own documents"
    target = Proposal(
        candidate=candidate,
        label="",
        construction=f"task({candidate.name!r})",
        imports=(f"from {registry.__name__} import task",),
        inputs=ES.documents(),
        origin=f"{candidate.module}, over {where}; give rows of its data set as the second argument of task()",
        kind="task",
    )
    return Proposed(targets=[target])


def _registry(module: str) -> Any:
    return importlib.import_module(registry_of(module))
