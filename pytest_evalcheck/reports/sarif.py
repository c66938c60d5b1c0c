"""The report as SARIF 2.1.0, which code scanning reads: one result for each root cause, one rule for each check.

GitHub uses a part of the format and demands more of it than the standard does
(https://docs.github.com/en/code-security/code-scanning/integrating-with-code-scanning/sarif-support-for-code-scanning):
texts of rules that are not empty, a location with all its numbers, and the fingerprint `primaryLocationLineHash`.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Literal, Protocol
from urllib.parse import quote

from pytest_evalcheck.reports import failure_text, groups, write_file
from pytest_evalcheck.reports.addresses import SITE, check_page
from pytest_evalcheck.reports.json import encoded, versions
from pytest_evalcheck.reports.results import Cell, Report, plural
from pytest_evalcheck.reports.text import body, clip, line, references

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
MOST_RESULTS = 5000
"""GitHub shows as many results of a run, and refuses a run with more than 25,000."""
MOST_LOCATIONS = 100
"""GitHub shows as many locations of a result, and refuses a result with more than 1,000."""
MOST_BYTES = 10 * 1000 * 1000
"""GitHub refuses a larger file, compressed with gzip."""
ROOT = "%SRCROOT%"

_INSTALLED = "%SITE-PACKAGES%"
_MAX_DESCRIPTION = 1024
_MAX_TEXT = 4000
_MAX_LINE = 500
_ORIGIN = re.compile(r"(?P<error>.*) at (?P<file>.+):(?P<line>[0-9]{1,9}) \((?P<function>.*)\)", re.DOTALL)
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_BRACKET = re.compile(r"[\[\]]")

Level = Literal["error", "warning", "note"]


class Described(Protocol):
    """The fields of `kinds.common.check.Check` that describe a check."""

    @property
    def code(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def kinds(self) -> tuple[str, ...]: ...
    @property
    def statement(self) -> str: ...
    @property
    def rationale(self) -> str: ...
    @property
    def usual_cause(self) -> str: ...
    @property
    def fix(self) -> str: ...


@dataclass(frozen=True)
class _Problem:
    """The cells of one result, which have one root cause; the first is the one to look at."""

    cells: Sequence[Cell]
    level: Level

    @property
    def first(self) -> Cell:
        return self.cells[0]


def write(report: Report, path: Path, checks: Iterable[Described] = ()) -> str:
    """Write the report to ``path``; returns a sentence about what GitHub would refuse or hide, and was left out.

    Locations are relative to the repository that holds the working folder, so that it is that of the run.

    Raises `OSError` when the file cannot be written.
    """
    made, left_out = render(report, checks)
    write_file(made, path)
    return left_out


def render(report: Report, checks: Iterable[Described] = (), folder: Path | None = None) -> tuple[bytes, str]:
    """The file, and a sentence about what was left out; ``folder`` is that of the run, else the working folder."""
    problems = list(_problems(report))
    checks = tuple(checks)
    wanted = min(len(problems), MOST_RESULTS)
    while True:
        data = encoded(_log(report, problems[:wanted], len(problems), checks, Paths(folder or Path.cwd())))
        size = len(gzip.compress(data, 6, mtime=0))
        if size <= MOST_BYTES or not wanted:
            return data, _left_out(wanted, len(problems))
        wanted = min(wanted - 1, int(wanted * MOST_BYTES / size))


def _left_out(shown: int, found: int) -> str:
    if shown == found:
        return ""
    return (
        f"the sarif report has {shown} of {found} results, the most severe ones: GitHub shows {MOST_RESULTS} of a run "
        f"and takes files of {MOST_BYTES // 10**6} MB; --evalcheck-report=json=PATH has all"
    )


def _problems(report: Report) -> Iterator[_Problem]:
    """Root causes of what failed, then what is incomplete, then known failures: the most severe ones first."""
    yield from (_Problem(cause.cells, "error") for cause in report.causes)
    lists = groups.lists(report)
    yield from (_Problem(cells, "warning") for cells in lists["Incomplete"])
    yield from (_Problem(cells, "note") for cells in lists["Known failures"])


def _log(
    report: Report, problems: Sequence[_Problem], found: int, checks: Sequence[Described], paths: Paths
) -> dict[str, Any]:
    rules = _rules(report, checks)
    indices = {rule["id"]: index for index, rule in enumerate(rules)}
    suppressed = any(problem.level == "note" for problem in problems)
    seen: Counter[str] = Counter()
    results = [_result(problem, indices, paths, seen, suppressions=suppressed) for problem in problems]
    part = ", ".join(report.parts)
    shard = report.run.shard if report.run else None
    category = f"pytest-evalcheck/shard-{shard.number}-of-{shard.of}" if shard else "pytest-evalcheck"
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": _driver(report, rules)},
                "automationDetails": {"id": f"{category}/{'part/' if part and not shard else ''}"},
                "originalUriBaseIds": {
                    ROOT: {"description": {"text": "The root of the repository."}},
                    _INSTALLED: {"description": {"text": "The folder of the installed distributions."}},
                },
                "columnKind": "unicodeCodePoints",
                "invocations": [_invocation(report, part, _left_out(len(problems), found))],
                "results": results,
                "properties": {"ok": report.ok, "counts": report.denominator},
            }
        ],
    }


def _driver(report: Report, rules: list[dict[str, Any]]) -> dict[str, Any]:
    found = (report.run.versions if report.run else versions()).get("pytest-evalcheck") or "0"
    semantic = {"semanticVersion": found} if re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+", found) else {}
    return {"name": "pytest-evalcheck", "version": found, **semantic, "informationUri": SITE, "rules": rules}


def _invocation(report: Report, part: str, left_out: str) -> dict[str, Any]:
    """Return whether the run came to its end, and what is against it beside its results."""
    notes: list[tuple[Level, str]] = [("error", text) for text in report.verdict.why]
    notes += [("warning", left_out)] if left_out else []
    notes += [("note", f"This is a part of the checks: {part}.")] if part else []
    shown = [{"level": level, "message": {"text": body(text, _MAX_TEXT) or "?"}} for level, text in notes]
    return {"executionSuccessful": not report.problems, "toolExecutionNotifications": shown}


def _rules(report: Report, checks: Sequence[Described]) -> list[dict[str, Any]]:
    """One for each registered check, and for each of the report that is not registered here."""
    rules = {
        check.code: _rule(
            check.code, check.name, check.kinds, check.statement, check.rationale, check.usual_cause, check.fix
        )
        for check in checks
    }
    for cell in report.cells:
        if groups.code(cell) not in rules:
            statement, cause, fix = "", "", ""
            if cell.failure:
                statement, cause, fix = cell.failure.statement, cell.failure.usual_cause, cell.failure.fix
            rules[groups.code(cell)] = _rule(groups.code(cell), cell.check, (cell.kind,), statement, "", cause, fix)
    return [rules[code] for code in sorted(rules)]


def _rule(
    code: str, name: str, kinds: Iterable[str], statement: str, why: str, usual_cause: str, fix: str
) -> dict[str, Any]:
    statement = line(statement) or line(name.replace("_", " ")) or code
    advice = {"Why": line(why), "Usual cause": line(usual_cause), "Fix": line(fix)}
    sections = [f"{title}: {text}" for title, text in advice.items() if text]
    page = check_page(code)
    return {
        "id": code,
        **({"name": clip(line(name), 255)} if line(name) else {}),
        "shortDescription": {"text": clip(statement, _MAX_DESCRIPTION)},
        "fullDescription": {"text": clip(" ".join([statement, *sections[:1]]), _MAX_DESCRIPTION)},
        "help": {"text": "\n\n".join([statement, *sections, *([page] if page else [])])},
        **({"helpUri": page} if page else {}),
        "defaultConfiguration": {"level": "error"},
        "properties": {
            "tags": ["evaluation", *sorted({line(kind) for kind in kinds} - {"", "evaluation"})][:10],
            "precision": "high",
            "problem.severity": "error",
        },
    }


def _result(
    problem: _Problem, indices: Mapping[str, int], paths: Paths, seen: Counter[str], *, suppressions: bool
) -> dict[str, Any]:
    first, code = problem.first, groups.code(problem.first)
    digest = fingerprint(first)
    seen[digest] += 1
    related = list(_related(problem, paths))
    origin = next((one["id"] for one in related if one["id"] == 1 and _in_repository(one)), None)
    result = {
        "ruleId": code,
        "ruleIndex": indices[code],
        "level": problem.level,
        "message": {"text": _message(problem, origin)},
        "locations": [_location(first, paths)],
        "partialFingerprints": {
            "primaryLocationLineHash": f"{digest}:{seen[digest]}",  # the one name that GitHub reads
            "pytestEvalcheck/v1": f"{digest}:{seen[digest]}",
        },
        "properties": {
            "outcome": first.outcome,
            "target": first.target,
            "check": first.check,
            "device": first.device,
            "signature": first.signature,
            "severity": first.severity,
            "checks": len(problem.cells),
        },
    }
    if related:
        result["relatedLocations"] = related
    if suppressions:  # a result without them is said to be open only where it has an empty list
        result["suppressions"] = [_suppression(problem)] if problem.level == "note" else []
    return result


def fingerprint(cell: Cell) -> str:
    """The same for one failure in every run: of the code, the target and the signature, and of no line or device."""
    words = (cell.code or cell.check, cell.target, cell.signature)
    return hashlib.sha256("\0".join(words).encode("utf-8", "backslashreplace")).hexdigest()[:16]


def _suppression(problem: _Problem) -> dict[str, Any]:
    reason = groups.explanation(problem.first)
    see = line(problem.first.see)
    address = next((url for _, url in references(see) if url), see)
    justification = f"{reason} ({address})" if address else reason
    return {"kind": "external", "status": "accepted", "justification": clip(justification, _MAX_TEXT)}


def _message(problem: _Problem, origin: int | None) -> str:
    """A first sentence that can stand alone, then what happened and how to replay it."""
    first, failure = problem.first, problem.first.failure
    where = f"{first.target} on {first.device}"
    verdict = {
        "error": failure_text.verdict(first),
        "warning": "was not tried to the end on",
        "note": "is known to fail on",
    }[problem.level]
    reason = line(first.reason) or groups.explanation(first)
    parts = [clip(_plain(f"{groups.statement(first)} {verdict} {where}: {reason}"), _MAX_LINE)]
    if failure:
        parts.append(_plain(body(failure_text.format_comparison(failure), _MAX_TEXT)))
        if failure.case is not None:
            parts.append(_plain(body("smallest input\n" + "\n".join(failure_text.format_case(failure)), _MAX_TEXT)))
        if failure.origin:
            raised = line(failure.origin)
            parts.append(f"raised: [{_escaped(raised)}]({origin})" if origin else _plain(f"raised: {raised}"))
    if more := len(problem.cells) - 1:
        shown = [f"- {groups.statement(cell)}: {cell.target} on {cell.device}" for cell in problem.cells[1:11]]
        shown += [f"- and {plural(more - 10, 'check')} more"] if more > 10 else []
        parts.append(_plain("\n".join([f"of the same cause: {plural(more, 'check')}", *shown])))
    if failure and failure.reproduce:
        parts.append(_plain(f"reproduce: {line(failure.reproduce)}"))
    return "\n\n".join(filter(None, parts))


def _plain(text: str) -> str:
    """A text in which no brackets are a link (SARIF 2.1.0, section 3.11.6).

    Braces stay as they are: viewers replace placeholders where a message has arguments, and ours have none.
    """
    return _escaped(text) if "](" in text else text


def _escaped(text: str) -> str:
    return _BRACKET.sub(lambda match: f"\\{match[0]}", text)


def _location(cell: Cell, paths: Paths) -> dict[str, Any]:
    name = groups.split(cell.target)[1]
    physical = paths.location_of(cell)
    logical = {"fullyQualifiedName": cell.target, "kind": "function", **({"name": name} if name else {})}
    return {**({"physicalLocation": physical} if physical else {}), "logicalLocations": [logical]}


def _related(problem: _Problem, paths: Paths) -> Iterator[dict[str, Any]]:
    """Yield the place of the error, with the id 1, and the other targets of one cause."""
    failure = problem.first.failure
    found = _ORIGIN.fullmatch(failure.origin) if failure else None
    if found and (physical := paths.physical(found["file"], int(found["line"]), installed=True)):
        yield {"id": 1, "physicalLocation": physical, "message": {"text": _plain(line(found[0])) or "?"}}
    others = {cell.target: cell for cell in problem.cells if cell.target != problem.first.target}
    for number, cell in enumerate(list(others.values())[: MOST_LOCATIONS - 1], 2):
        if physical := paths.location_of(cell):
            text = _plain(line(f"{groups.statement(cell)}: {cell.target}"))
            yield {"id": number, "physicalLocation": physical, "message": {"text": text}}


def _in_repository(location: Mapping[str, Any]) -> bool:
    return bool(location["physicalLocation"]["artifactLocation"].get("uriBaseId") == ROOT)


class Paths:
    """Addresses of files, relative to the repository that holds the folder of the run."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(os.path.realpath(folder))
        above = (self.folder, *self.folder.parents)
        self.root = next((one for one in above if (one / ".git").exists()), self.folder)

    def location_of(self, cell: Cell) -> dict[str, Any] | None:
        """The place of a target; None where it has no file.

        A report may come from another machine, with another place of the repository or with Windows' separators. Then
        the node id says which file it is: it is relative, and has forward slashes on each system.
        """
        named = groups.split(cell.target)[0]
        file = cell.file if "\\" in named else cell.file.replace("\\", "/")
        foreign = _DRIVE.match(file) or (file.startswith("/") and not _exists(Path(file)))
        if named and foreign and file.endswith(f"/{named}"):
            file = named
        return self.physical(file or named, cell.line)

    def physical(self, file: str, line: int, *, installed: bool = False) -> dict[str, Any] | None:
        """The place of a line; None where there is no file.

        With ``installed``, a file that is not there is one of the installed distributions.
        """
        if not file or "\0" in file:
            return None
        number = max(1, line)
        # The columns are not known. GitHub wants all four numbers: the region is the first character of the line.
        region = {"startLine": number, "startColumn": 1, "endLine": number, "endColumn": 2}
        return {"artifactLocation": self._artifact(file, installed=installed), "region": region}

    def _artifact(self, file: str, *, installed: bool) -> dict[str, str]:
        if _DRIVE.match(file) and os.sep != "\\":
            return {"uri": "file:///" + quote(PureWindowsPath(file).as_posix(), safe="/:")}
        path = next((one for one in (self.folder / file, self.root / file) if _exists(one)), None)
        if path is None and installed and not os.path.isabs(file):
            return {"uri": _encode(PurePosixPath(file)), "uriBaseId": _INSTALLED}
        real = _real(path or self.folder / file)
        if real.is_relative_to(self.root):
            return {"uri": _encode(real.relative_to(self.root)), "uriBaseId": ROOT}
        return {"uri": f"file://{'' if os.sep == '/' else '/'}{_encode(real, safe='/:')}"}


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name that no file can have
        return False


def _real(path: Path) -> Path:
    """Return the place of a file that may be behind a symbolic link: GitHub shows none behind one."""
    try:
        return Path(os.path.realpath(path))
    except (OSError, ValueError):
        return Path(os.path.abspath(path))


def _encode(path: PurePosixPath | Path, safe: str = "/") -> str:
    text = path.as_posix()
    try:
        return quote(text.encode("utf-8", "surrogateescape"), safe=safe)  # as the file is named on the disk
    except UnicodeEncodeError:
        return quote(text.encode("utf-8", "surrogatepass"), safe=safe)
