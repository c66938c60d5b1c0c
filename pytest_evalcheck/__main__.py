"""``python -m pytest_evalcheck COMMAND``: write targets, merge reports, compare targets, write patches."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

_UNUSABLE = 4
"""The exit code for what cannot be meant, as pytest's."""
_NO_CORPUS = (
    "there is no evalcheck-corpus in this folder or above it; expected one: pytest --evalcheck-learn=PACKAGE makes it"
)


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns 0, 1 where reports are not ok or targets differ, or 4 for what cannot be meant."""
    from pytest_evalcheck.errors import UsageError
    from pytest_evalcheck.fixes.patches.editing import PatchError
    from pytest_evalcheck.reports import ReportError

    parser = argparse.ArgumentParser(prog="python -m pytest_evalcheck", description="Commands of pytest-evalcheck.")
    commands = parser.add_subparsers(dest="command", required=True)
    write = commands.add_parser("write", help="write targets for the metrics of a module")
    write.add_argument("target", nargs="*", help="package.module, package.module:Name or package.module:Name(k=3)")
    write.add_argument("-o", "--output", metavar="PATH", help="the file (default: the screen)")
    write.add_argument("--force", action="store_true", help="overwrite the file")
    write.add_argument("--blanks", action="store_true", help="a target of package.module:Name with places to fill in")
    write.add_argument(
        "--from-corpus", action="store_true", help="targets of packages with a corpus in this folder alone"
    )
    write.set_defaults(run=_write)
    learn = commands.add_parser("learn", help="run a script, watch its calls into packages, and write the corpus")
    learn.add_argument("packages", help="names of packages with commas between them, as --evalcheck-learn takes them")
    learn.add_argument("script", help="a Python file, such as an exported notebook, or the name of a module")
    learn.add_argument("arguments", nargs=argparse.REMAINDER, help="the arguments of the script")
    learn.set_defaults(run=_learn)
    merge = commands.add_parser("merge", help="make one report of those of all shards, or of several environments")
    merge.add_argument("path", nargs="+", help="a report of pytest --evalcheck --evalcheck-report=json=PATH")
    merge.add_argument("--environments", action="store_true", help="the reports are of environments of other releases")
    merge.add_argument("--report", action="append", default=[], metavar="FORMAT=PATH", help="as --evalcheck-report")
    merge.add_argument("-v", "--verbose", action="count", default=0)
    merge.add_argument("-q", "--quiet", action="count", default=0)
    merge.set_defaults(run=_merge)
    versions = commands.add_parser("versions", help="print the versions that an issue should name")
    versions.set_defaults(run=_versions)
    fixes = commands.add_parser("fixes", help="list the patches of a library, or write what pull requests of them need")
    fixes.add_argument("library", nargs="?", help="a distribution, such as torchmetrics (default: all)")
    fixes.add_argument("--write", metavar="DIR", help="a diff, a regression test, an issue and a script for each patch")
    fixes.set_defaults(run=_fixes)
    diff = commands.add_parser("diff", help="compare two targets step by step, and name the first that differs")
    diff.add_argument("target", nargs="+", metavar="TARGET", help="file.py::target, or a trace that --save has written")
    diff.add_argument("--documents", type=int, default=16, metavar="N", help="number of documents (default: 16)")
    diff.add_argument("--tolerance", type=float, default=1e-3, metavar="T", help="for logits (default: 0.001)")
    diff.add_argument("--python", action="append", default=[], metavar="PATH", help="an interpreter for each target")
    diff.add_argument("--save", metavar="PATH", help="write the trace of the last target, to be compared elsewhere")
    diff.add_argument("--json", metavar="PATH", help="write the comparison as JSON")
    diff.add_argument("--html", metavar="PATH", help="write the comparison as a page")
    diff.set_defaults(run=_diff)
    given = parser.parse_args(arguments)
    try:
        return int(given.run(given))
    except (UsageError, ReportError, PatchError) as error:
        print(f"error: {error}", file=sys.stderr)
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror or error}", file=sys.stderr)
    return _UNUSABLE


def _diff(given: argparse.Namespace) -> int:
    import json

    from pytest_evalcheck.engine.tracing import trace
    from pytest_evalcheck.errors import UsageError
    from pytest_evalcheck.reports import write_file
    from pytest_evalcheck.reports.traces import TraceComparison

    if len(given.target) > 2 or given.documents < 1 or (len(given.target) == 1 and not given.save):
        raise UsageError("diff takes two targets and a number of documents from 1; or one target and --save")
    pythons = [*given.python, "", ""]
    first, *others = [trace(name, given.documents, at) for name, at in zip(given.target, pythons, strict=False)]
    if given.save:
        [first, *others][-1].save(Path(given.save))
    if not others:
        return 0
    compared = TraceComparison.of(first, others[0], given.tolerance)
    if given.json:
        write_file(json.dumps(compared.as_json(), indent=1).encode(), Path(given.json))
    if given.html:
        write_file(compared.html().encode(), Path(given.html))
    print("\n".join(compared.lines()))
    return 1 if compared.step else 0


def _versions(_: argparse.Namespace) -> int:
    from pytest_evalcheck.reports.json import versions_text

    print(versions_text())
    return 0


def _fixes(given: argparse.Namespace) -> int:
    from pytest_evalcheck.errors import UsageError
    from pytest_evalcheck.fixes.patches import applying, upstream

    if given.write is None:
        for library in [applying.load(given.library)] if given.library else applying.all_libraries():
            print(f"{library.name}, tested from {library.first} and before {library.end}")
            for patch in library.patches:
                print(f"  {patch.id}\n    {patch.says}")
        return 0
    if not given.library:
        raise UsageError("--write needs a library: python -m pytest_evalcheck fixes torchmetrics --write DIR")
    written, left = upstream.write(given.library, Path(given.write))
    for path in written:
        print(path)
    for line in left:
        print(f"no diff of {line}", file=sys.stderr)
    return 1 if left else 0


def _write(given: argparse.Namespace) -> int:
    from pytest_evalcheck.discovery.search import blank_target, discover
    from pytest_evalcheck.errors import UsageError
    from pytest_evalcheck.learning import corpus

    path = Path(given.output) if given.output else None
    if path is not None and path.exists() and not given.force:
        raise UsageError(f"{path} exists; expected a new name, or --force to overwrite it")
    sys.path.insert(0, os.getcwd())
    targets = [*given.target, *(corpus.nearest().modules if given.from_corpus else ())]
    if not targets:
        raise UsageError(_NO_CORPUS if given.from_corpus else "expected a module, or a name in it")
    if given.blanks:
        source, summary = "\n\n".join(map(blank_target, targets)), []
    else:
        found = discover(targets, progress=lambda text: print(text, file=sys.stderr), learned_only=given.from_corpus)
        source, summary = found.source(), found.summary
    if path is None:
        print(source, end="")
    else:
        path.write_text(source, encoding="utf-8")
    for line in summary:
        print(line, file=sys.stderr)
    return 0


def _learn(given: argparse.Namespace) -> int:
    from pytest_evalcheck.integration.learning.from_tests import learn_script

    print("\n".join(learn_script(given.packages, given.script, given.arguments)))
    return 0


def _merge(given: argparse.Namespace) -> int:
    from pytest_evalcheck import reports
    from pytest_evalcheck.reports import json, terminal
    from pytest_evalcheck.reports.merging import merged

    wanted = [reports.parse(spec) for spec in given.report]
    reports.check_paths(wanted)
    whole = merged([(path, json.load(path)) for path in map(Path, given.path)], environments=given.environments)
    cut = [reports.write(whole, name, path, _checks) for name, path in wanted]
    verbosity = given.verbose - given.quiet
    unicode = "utf" in (sys.stdout.encoding or "ascii").lower()
    for screen in whole.screens if verbosity > -2 else ():
        print(screen, end="\n\n")
    width = shutil.get_terminal_size((100, 24)).columns
    print(terminal.text(whole, width=width, unicode=unicode, verbosity=verbosity).rstrip("\n"))
    for line in filter(None, cut):
        print(line)
    for line in whole.problems:
        print(f"ERROR: {line}")
    print(whole.verdict.line)
    return 0 if whole.ok else 1


def _checks() -> Iterable[object]:
    from pytest_evalcheck.kinds.registry import shipped  # imports torch, which few reports need

    return shipped()


if __name__ == "__main__":
    sys.exit(main())
