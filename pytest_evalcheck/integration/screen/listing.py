"""``--evalcheck-list``: the checks by kind, each with its code, its name and its property."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import pytest
from _pytest.config import create_terminal_writer

from pytest_evalcheck.engine.check_selection import CheckSelection
from pytest_evalcheck.errors import UsageError, nearest
from pytest_evalcheck.integration.options import given_text
from pytest_evalcheck.kinds.common.check import Check
from pytest_evalcheck.kinds.registry import kinds, shipped
from pytest_evalcheck.reports.results import plural
from pytest_evalcheck.reports.terminal import BOLD, LIGHT, PLAIN, Line, emit
from pytest_evalcheck.reports.text import columns, line, pad, wrap

_JSON = "json"
_LEAST_PROMISE = 48
"""The fewest columns for properties beside the names; where there are fewer, a property is below its name."""


def show(config: pytest.Config, words: str) -> None:
    """Write the list: of all kinds or of the named ones, of what is selected; as JSON where ``words`` has ``json``.

    Raises:
        UsageError: when a word is no kind, or a selection matches no check.
    """
    chosen = _chosen(config)
    given = [word.strip() for word in words.split(",") if word.strip()]
    names = [kind.name for kind in kinds()]
    for word in given:
        if word not in (*names, _JSON):
            expected = f"expected {_JSON}, or kinds: {', '.join(names)}"
            raise UsageError(f"--evalcheck-list={word}; {expected}{nearest(word, [*names, _JSON])}")
    wanted = [word for word in given if word != _JSON] or names
    groups = {name: [check for check in chosen if _group(check) == name] for name in [*names, _SEVERAL]}
    if wanted != names:
        groups = {name: [check for check in chosen if name in check.kinds] for name in wanted}
    writer = create_terminal_writer(config)
    if _JSON in given:
        listed = {check.code: check for checks in groups.values() for check in checks}
        writer.line(json.dumps([_as_json(listed[code]) for code in sorted(listed)], indent=2))
    else:
        emit(_lines(groups, writer.fullwidth), writer.write)


_SEVERAL = "several kinds"


def _chosen(config: pytest.Config) -> list[Check]:
    selection = CheckSelection.parse(given_text(config, "select"), given_text(config, "ignore"), shipped())
    found = [check for check in shipped() if selection.selects(check)]
    if not found:
        raise UsageError("--evalcheck-select and --evalcheck-ignore leave no check")
    return found


def _group(check: Check) -> str:
    return check.kinds[0] if len(check.kinds) == 1 else _SEVERAL


def _as_json(check: Check) -> dict[str, object]:
    return {
        "code": check.code,
        "name": check.name,
        "kinds": list(check.kinds),
        "statement": line(check.statement),
        "why": line(check.rationale),
        "usual_cause": line(check.usual_cause),
        "fix": line(check.fix),
        "needs": list(check.needs),
        "marks": list(check.marks),
        "accelerators": check.accelerators,
        "since": check.since,
    }


def _lines(groups: dict[str, list[Check]], width: int) -> Iterator[Line]:
    listed = [check for checks in groups.values() for check in checks]
    names = 2 + max((columns(f"{check.code}  {check.name}") for check in listed), default=0)
    for title, checks in groups.items():
        if checks:
            yield ((title, BOLD), (f": {plural(len(checks), 'check')}", LIGHT))
            for check in checks:
                yield from _lines_of_check(check, names, width)
            yield ()
    count = plural(len({check.code for check in listed}), "check")
    last = f"{count}; --evalcheck-explain CODE prints all about one, --evalcheck-select CODES runs some"
    yield from (((text, PLAIN),) for text in wrap(last, width))


def _lines_of_check(check: Check, names: int, width: int) -> Iterator[Line]:
    marks = f" (runs with -m {', '.join(check.marks)})" if check.marks else ""
    statement = line(check.statement) + marks
    head: Line = ((f"  {check.code}", BOLD), (f"  {check.name}", PLAIN))
    if width - names - 2 < _LEAST_PROMISE:
        yield head
        yield from (((text, LIGHT),) for text in wrap(statement, width, indent=" " * 9, hang=" " * 9))
        return
    first, *rest = _wrapped(statement, width - names - 3)
    yield (*head, (pad("", names + 2 - sum(columns(text) for text, _ in head)), PLAIN), (first, LIGHT))
    yield from (((" " * (names + 2) + text, LIGHT),) for text in rest)


def _wrapped(text: str, width: int) -> Sequence[str]:
    return wrap(text, width) or [""]
