"""``python -m pytest_evalcheck write torchmetrics.classification``: targets for a module, as a file to edit."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns the exit code: 0, or 4 for what cannot be meant (as pytest's)."""
    from pytest_evalcheck.discovery.search import discover
    from pytest_evalcheck.errors import UsageError

    parser = argparse.ArgumentParser(prog="python -m pytest_evalcheck", description="Commands of pytest-evalcheck.")
    commands = parser.add_subparsers(dest="command", required=True)
    write = commands.add_parser("write", help="write targets for the metrics of a module")
    write.add_argument("target", nargs="+", help="package.module, package.module:Name or package.module:Name(k=3)")
    write.add_argument("-o", "--output", metavar="PATH", help="the file (default: the screen)")
    write.add_argument("--force", action="store_true", help="overwrite the file")
    given = parser.parse_args(arguments)
    path = Path(given.output) if given.output else None
    if path is not None and path.exists() and not given.force:
        print(f"error: {path} exists; expected a new name, or --force to overwrite it", file=sys.stderr)
        return 4
    sys.path.insert(0, os.getcwd())
    try:
        found = discover(given.target, progress=lambda text: print(text, file=sys.stderr))
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 4
    source = found.source()
    if path is None:
        print(source, end="")
    else:
        path.write_text(source, encoding="utf-8")
    for line in found.summary:
        print(line, file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
