"""The section of a run on the screen: the matrix, or why there is none, and notes below it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from pytest_evalcheck.integration.choosing import inferring, not_run
from pytest_evalcheck.integration.choosing.not_run import RunFacts
from pytest_evalcheck.integration.choosing.selection import Selection
from pytest_evalcheck.integration.known.baseline import summary
from pytest_evalcheck.integration.options import Options
from pytest_evalcheck.integration.screen.folding import folds, write_note
from pytest_evalcheck.reports.results import Report
from pytest_evalcheck.reports.terminal import emit, render

_SHORT = 12
"""The most targets of a run that says nothing of what others would run, as long as all is well."""


def write_summary(
    reporter: Any, report: Report, facts: RunFacts, selection: Selection, options: Options, *, changes: Iterable[str]
) -> None:
    """Write the section; ``changes`` are lines about the files that the run has written."""
    config: pytest.Config = selection.config
    reporter.section("evalcheck")
    if not report.cells and not facts.errors and not facts.all_unchanged:
        patterns = ", ".join(options.files)
        why = f"no target was run: no check of a file named {patterns} was collected and selected"
        for line in (why, *not_run.suggestions(config, options, facts)):
            write_note(reporter, line, red=True)
    elif report.cells:
        writer = reporter._tw
        lines = render(
            report,
            width=writer.fullwidth,
            color=writer.hasmarkup,
            verbosity=config.option.verbose,
            unicode="utf" in (getattr(writer._file, "encoding", None) or "ascii").lower(),
            untried=report.untried,
            folds=folds(writer),
            shown=config.option.tbstyle not in ("no", "line"),
        )
        emit(lines, writer.write)
    discovery = config.stash.get(inferring.DISCOVERY, None)
    since = selection.changed.changes.revision if selection.changed else ""
    verbose = config.option.verbose > 0
    brief = report.ok and not verbose and len(report.targets) <= _SHORT
    for line in (
        *(inferring.lines(discovery) if discovery else ()),
        *facts.notes(selection.by_configuration(), options.optional, since=since, verbose=verbose, brief=brief),
        *not_run.target_files_outside(config, options.files, found=bool(facts.found)),
        *changes,
        *([summary(options.baseline)] if options.baseline.entries else []),
    ):
        write_note(reporter, line)
    for line in report.problems:
        write_note(reporter, f"ERROR: {line}", red=True)
