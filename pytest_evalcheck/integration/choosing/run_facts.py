"""What a run shows beside its cells. Workers of xdist send it to their controller, which collects nothing itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from pytest_evalcheck.engine.placing import SKIPPED
from pytest_evalcheck.errors import nearest
from pytest_evalcheck.integration.choosing.changes import UNCHANGED
from pytest_evalcheck.reports.results import Cell, plural
from pytest_evalcheck.targets.device_spec import KINDS, nearest_kind

_MOST = 3


@dataclass(kw_only=True)
class Facts:
    """All fields are mappings, so that those of several workers are one when they are merged."""

    selected: dict[str, None] = field(default_factory=dict)
    """The node ids of the cells that were to run."""
    errors: dict[str, None] = field(default_factory=dict)
    """The node ids of what could not be collected."""
    skipped: dict[str, str] = field(default_factory=dict)
    """By file: why it was skipped as a whole."""
    problems: dict[str, None] = field(default_factory=dict)
    """What is wrong, a line each."""
    dropped: dict[str, None] = field(default_factory=dict)
    """The cells that a hook took out without a report."""
    deselected: dict[str, None] = field(default_factory=dict)
    """The cells that were taken out, by options or by a plugin."""
    left_out: dict[str, int] = field(default_factory=dict)
    """By marker and node id of a target: how many of its cells the marker leaves out; ``unchanged`` stands for what
    nothing reaches that has changed."""
    changed: dict[str, int] = field(default_factory=dict)
    """By reason: how many cells run because what they depend on may have changed."""
    shard: dict[str, Any] = field(default_factory=dict)
    """Which part of the run this is, and how many cells all parts have; empty for the whole."""
    ignored: dict[str, None] = field(default_factory=dict)
    """The files and folders of targets that a configuration leaves out."""
    unmatched: dict[str, None] = field(default_factory=dict)
    """Files that define targets, of names that no pattern matches."""
    targets: dict[str, list[str]] = field(default_factory=dict)
    """By node id of the targets that were collected: the codes of their checks; empty where no baseline asks for it."""
    files: dict[str, None] = field(default_factory=dict)
    """The node ids of the files of targets that were read."""
    found: dict[str, str] = field(default_factory=dict)
    """By node id of the targets that were seen: their kinds."""
    own_checks: dict[str, str] = field(default_factory=dict)
    """By code: the names of the checks that targets have beside the registered ones."""
    tests: dict[str, None] = field(default_factory=dict)
    """The files of ordinary tests that were left out."""
    requires: dict[str, None] = field(default_factory=dict)
    """The distributions that the collected targets require."""

    def merge(self, other: Mapping[str, Mapping[str, Any]]) -> None:
        """Add the facts of another process."""
        for each in fields(self):
            getattr(self, each.name).update(other.get(each.name, {}))

    def against(self, cells: Mapping[str, Cell], failed: Iterable[str], *, runxfail: bool = False) -> list[str]:
        """What is against the run beside its cells; ``failed`` are the node ids of what pytest reports as failed.

        With ``runxfail`` pytest reports known failures so, as it was asked to.
        """
        lines = list(self.problems)
        if self.errors:
            lines.append(f"{plural(len(self.errors), 'error')} while collecting ({_some(self.errors)})")
        if self.dropped:
            where = _some(dict.fromkeys(map(_target_of, self.dropped)))
            lines.append(f"{plural(len(self.dropped), 'check')} of {where} taken out by a hook that does not report it")
        if rest := [nodeid for nodeid in self.selected if nodeid not in cells]:
            where = _some(dict.fromkeys(map(_target_of, rest)))
            lines.append(f"{len(rest)} of {plural(len(self.selected), 'selected check')} did not run ({where})")
        red: tuple[str, ...] = ("failed", "incomplete", "not run")
        failed = list(failed)
        known = [nodeid for nodeid in failed if runxfail and nodeid in cells and cells[nodeid].outcome == "known"]
        if known:
            lines.append(f"{plural(len(known), 'known failure')} counted as failed, for --runxfail")
            red += ("known",)
        beside = [nodeid for nodeid in failed if nodeid not in cells or cells[nodeid].outcome not in red]
        if beside:
            lines.append(
                f"{len(beside)} failed in pytest beside the outcomes of checks ({_some(dict.fromkeys(beside))})"
            )
        return lines

    def skipped_files(self, optional: Iterable[str]) -> list[str]:
        """The files that were skipped as a whole, where that may not be."""
        return [] if SKIPPED in optional else [f"{file} was skipped ({why})" for file, why in self.skipped.items()]

    def unknown(self, optional: Iterable[str], *, whole: bool) -> list[str]:
        """What ``evalcheck_optional`` names that cannot be meant.

        In a run over a part of the files a name that is near to none may be required by the rest.
        """
        known = [*KINDS[1:], SKIPPED, *self.requires]
        lines = []
        for name in optional:
            near = nearest(name, known, cutoff=0.75) or nearest_kind(name, KINDS[1:])
            if name not in known and (whole or near):
                expected = f"expected a kind of device ({', '.join(KINDS[1:])}), {SKIPPED}, or what a target requires"
                lines.append(f"evalcheck_optional names {name!r}; {expected}{near}")
        return lines

    @property
    def complete(self) -> bool:
        """Whether every file that was found could be read."""
        return not (self.errors or self.skipped or self.ignored)

    @property
    def whole_files(self) -> list[str]:
        """The files of which all targets are known: they were read, and nothing of them is an error."""
        wrong = {nodeid.partition("::")[0] for nodeid in self.errors}
        return [file for file in self.files if file not in wrong]

    @property
    def unchanged(self) -> dict[str, int]:
        """By node id of a target: how many of its cells are left out, because nothing reaches them that changed."""
        return self.left_out_by_marker.get(UNCHANGED, {})

    def notes(
        self, narrowing: Iterable[str], optional: Iterable[str], *, since: str = "", verbose: bool = False
    ) -> list[str]:
        """What was left out, by whom: lines for the screen of what is no error; all names where ``verbose``.

        ``since`` is the revision of ``--evalcheck-since``.
        """
        lines = [f"left out by the configuration: {text}" for text in narrowing]
        if self.shard:
            counts = f"{len(self.selected)} of {self.shard['checks']} checks"
            part = f"shard {self.shard['number']}/{self.shard['of']}: {counts}"
            lines.append(f"{part}; python -m pytest_evalcheck merge joins the JSON reports of all shards")
        if self.deselected:
            where = _some(dict.fromkeys(map(_target_of, self.deselected)))
            lines.append(f"left out: {plural(len(self.deselected), 'check')} of {where}, which pytest calls deselected")
        lines += self._of_markers(verbose)
        lines += self._of_changes(since, verbose) if since else []
        lines += [f"left out: {path}, which the configuration ignores" for path in self.ignored]
        if self.tests:
            which = next(iter(self.tests)) if len(self.tests) == 1 else f"{len(self.tests)} files"
            lines.append(f"left out: the ordinary tests of {which}; --evalcheck-with-tests runs them, too")
        if self.unmatched:
            lines.append(f"not collected: targets in {_some(self.unmatched)}; no pattern of evalcheck_files matches")
        if SKIPPED in optional:
            lines += [f"not run: {file} was skipped ({why})" for file, why in self.skipped.items()]
        return lines

    @property
    def left_out_by_marker(self) -> dict[str, dict[str, int]]:
        """By marker and target: how many cells are left out."""
        found: dict[str, dict[str, int]] = {}
        for marked, count in self.left_out.items():
            marker, _, target = marked.partition(" ")
            found.setdefault(marker, {})[target] = count
        return found

    def _of_markers(self, verbose: bool) -> Iterator[str]:
        for marker, counts in sorted(self.left_out_by_marker.items()):
            if marker == UNCHANGED:
                continue
            where = ", ".join(counts) if verbose else _some(dict.fromkeys(map(_target_of, counts)))
            cells, targets = plural(sum(counts.values()), "check"), plural(len(counts), "target")
            yield f"left out: {cells} of {targets} in {where}; -m {marker} runs them"

    def _of_changes(self, since: str, verbose: bool) -> Iterator[str]:
        reasons = sorted(self.changed.items(), key=lambda each: -each[1])
        shown = reasons if verbose else reasons[:_MOST]
        yield from (f"not left out: {plural(count, 'check')}: {reason}" for reason, count in shown)
        if rest := sum(count for _, count in reasons[len(shown) :]):
            yield f"not left out: {plural(rest, 'check')} for other reasons, with -v"
        if self.unchanged:
            cells, targets = plural(sum(self.unchanged.values()), "check"), plural(len(self.unchanged), "target")
            where = f" ({', '.join(self.unchanged)})" if verbose else ""
            yield (
                f"left out: {cells} of {targets} that nothing changed since {since} reaches{where}; "
                "--evalcheck-fresh runs them"
            )


def _target_of(nodeid: str) -> str:
    return nodeid.rpartition("::")[0] or nodeid.removeprefix("::")  # a target that is inferred has no file


def _some(texts: Iterable[str]) -> str:
    once = list(texts)
    more = f" and {len(once) - _MOST} more" if len(once) > _MOST else ""
    return ", ".join(once[:_MOST]) + more
