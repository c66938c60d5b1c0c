"""``--evalcheck-target``: targets are inferred before pytest collects, and written into a file that it collects."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_evalcheck.discovery.search import Discovery, discover
from pytest_evalcheck.errors import UsageError

DISCOVERY = pytest.StashKey[Discovery]()
_FILE = pytest.StashKey[str]()
_PATH = "evalcheck_inferred"
_MOST_REASONS = 12
_MOST_NAMES = 4


def infer_targets(config: pytest.Config) -> None:
    """Infer the targets that the command line asks for; the run then collects their file, and what else it names.

    Raises:
        pytest.UsageError: where what was asked for cannot be meant, or has no target.
    """
    config.option.evalcheck = True
    folder = str(config.invocation_params.dir)
    if folder not in sys.path:  # a module beside the tests, as under `python -m pytest`
        sys.path.insert(0, folder)
    if hasattr(config, "workerinput"):  # a worker of xdist: its controller has inferred them
        _collect(config, config.workerinput[_PATH])
        return
    texts = list(dict.fromkeys(config.getoption("evalcheck_target")))
    workers = getattr(config.option, "numprocesses", None)
    try:
        found = discover(
            texts,
            workers=workers if isinstance(workers, int) and workers > 0 else 2,
            progress=lambda text: print(f"evalcheck: {text}", file=sys.stderr, flush=True),
        )
    except UsageError as error:
        raise pytest.UsageError(str(error)) from error
    path = _folder(config) / f"evalcheck_{_slug(texts)}.py"
    path.write_text(found.source(), encoding="utf-8")
    _collect(config, str(path))
    config.stash[DISCOVERY] = found
    config.stash[_FILE] = str(path)


def _collect(config: pytest.Config, path: str) -> None:
    named = config.args_source is pytest.Config.ArgsSource.ARGS
    config.args = [*(config.args if named else []), path]
    config.args_source = pytest.Config.ArgsSource.ARGS


def tell_worker(node: Any) -> None:
    """Give a worker of xdist the path of the file, where there is one."""
    path = node.config.stash.get(_FILE, None)
    if path is not None:
        node.workerinput[_PATH] = path


def _folder(config: pytest.Config) -> Path:
    """Return the folder for the file: that of pytest's cache, so that a failure can be replayed after the run."""
    try:
        folder = config.rootpath / str(config.getini("cache_dir")) / "d" / "evalcheck"
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    except (ValueError, OSError):  # no cache provider, or nothing can be written there
        made = tempfile.mkdtemp(prefix="evalcheck-")
        config.add_cleanup(lambda: shutil.rmtree(made, ignore_errors=True))
        return Path(made)


def _slug(texts: list[str]) -> str:
    return re.sub(r"\W+", "_", "_".join(texts)).strip("_")[:80]


def lines(found: Discovery) -> list[str]:
    """Return lines for the screen: how many metrics were tried, and why each of the others was not."""
    out = [f"inferred: {line}" for line in found.summary]
    reasons: dict[str, list[str]] = {}
    for name, why in found.left.items():
        reasons.setdefault(why, []).append(name)
    for why, names in list(reasons.items())[:_MOST_REASONS]:
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        out.append(f"  not tried: {', '.join(names[:_MOST_NAMES])}{more}: {why}")
    if len(reasons) > _MOST_REASONS:
        out.append(f"  and for {len(reasons) - _MOST_REASONS} other reasons: see the file of the targets, or JSON")
    if found.partly:
        out.append(f"  {len(found.partly)} sets of configurations are not tried: see the file of the targets, or JSON")
    return out


def as_json(found: Discovery) -> Mapping[str, Any]:
    """Return the coverage of inferred targets for reports."""
    return {
        "requests": [request.text for request in found.requests],
        "metrics": len(found.candidates),
        "tried": found.tried,
        "configurations": len(found.proposals),
        "not_tried": dict(found.left),
        "configurations_not_tried": dict(found.partly),
        "other_names": found.others,
    }
