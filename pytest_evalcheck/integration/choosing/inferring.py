"""``--evalcheck-target``: targets are inferred before pytest collects, and written into files that it collects."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pytest_evalcheck.discovery.blanks import command
from pytest_evalcheck.discovery.search import Discovery, discover_in_parts
from pytest_evalcheck.errors import UsageError
from pytest_evalcheck.integration.options import given_text
from pytest_evalcheck.integration.process import run_in_child
from pytest_evalcheck.learning import corpus
from pytest_evalcheck.learning.watching import roots
from pytest_evalcheck.live_objects import made_to_stay
from pytest_evalcheck.reports.results import DECLARED

DISCOVERY = pytest.StashKey[Discovery]()
_FILES = pytest.StashKey[dict[str, str]]()
"""By path of a file of inferred targets: the module that was asked for."""
_BESIDE = pytest.StashKey[list[str]]()
"""Paths that are collected beside targets that nobody asked for by name."""
_FILES_THERE = "evalcheck_inferred"
_MOST_REASONS = 12
_MOST_NAMES = 4


def infer_targets(config: pytest.Config) -> None:
    """Infer the targets that the command line asks for; the run then collects their files, and what else it names.

    Raises:
        pytest.UsageError: where what was asked for cannot be meant, or has no target.
    """
    config.option.evalcheck = True
    make_importable(config)
    if hasattr(config, "workerinput"):  # a worker of xdist: its controller has inferred them
        _collect(config, config.workerinput[_FILES_THERE])
        return
    os.environ[corpus.PLACE] = str(config.rootpath / corpus.FOLDER)
    few = given_text(config, "effort") == "quick"
    files, others = _paths(config, few), _paths(config, not few)
    # A replay needs the targets of the run that has failed, which has written them.
    written = next((each for each in (files, others) if all(map(os.path.exists, each))), None)
    if config.getoption("evalcheck_replay") and written is not None:
        files = written
    else:
        meanwhile = _can_run_meanwhile(config)
        parts = _discover(config, few, meanwhile)
        found = config.stash[DISCOVERY] = next(parts)
        if meanwhile and not found.whole:
            config.pluginmanager.register(_Rest(config, parts, files), "pytest_evalcheck_rest")
            files = {f"{path.removesuffix('.py')}_first.py": module for path, module in files.items()}
        else:
            *_, found = found, *parts
        files = _written(found, files)
    _collect(config, files)


def _can_run_meanwhile(config: pytest.Config) -> bool:
    """Return whether targets can run before all are known: nothing that was asked for is about all of them."""
    option = config.option
    pytests = ("numprocesses", "tx", "collectonly", "lf", "stepwise")
    ours = ("evalcheck_shard", "evalcheck_resume", "evalcheck_known", "evalcheck_scripts", "evalcheck_replay")
    texts = (given_text(config, "since"), given_text(config, "optional"))
    way = getattr(option, "evalcheck_run", None) or "supervised"
    return (
        not any(getattr(option, name, None) for name in (*pytests, *ours))
        and not any(texts)
        and way in ("supervised", "in-process")
        and not any("::" in argument for argument in config.args)
    )


class _Rest:
    """Collect the targets that were inferred while those of the first metric ran."""

    def __init__(self, config: pytest.Config, parts: Generator[Discovery], files: dict[str, str]) -> None:
        self._config, self._parts, self._files = config, parts, files
        config.add_cleanup(parts.close)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> Generator[None, Any, Any]:
        """Collect them at once where nothing of the first metric is selected."""
        result = yield
        if not session.items:
            self._collect(session)
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, Any, Any]:
        """Collect them after the last item; the loop of pytest goes on with what is added to its list."""
        result = yield
        if nextitem is None and not (run_in_child.supervised or item.session.shouldstop or item.session.shouldfail):
            self._collect(item.session)
        return result

    def _collect(self, session: pytest.Session) -> None:
        found = next(self._parts, None)
        if found is None:
            return
        files = _written(found, self._files)
        items: list[pytest.Item] = []
        self._config.stash[_FILES].update(files)
        hook, reporter = self._config.hook, self._config.pluginmanager.getplugin("terminalreporter")
        finished = self._config.pluginmanager.subset_hook_caller("pytest_collection_finish", [reporter])
        with _no_lines_of(reporter), made_to_stay():
            for path in map(Path, files):
                module = hook.pytest_pycollect_makemodule(module_path=path, parent=session)
                items += session.genitems(module)
            hook.pytest_collection_modifyitems(session=session, config=self._config, items=items)
        session.items += items
        session.testscollected = len(session.items)
        finished(session=session)


@contextmanager
def _no_lines_of(reporter: Any) -> Iterator[None]:
    """Within, the reporter of pytest does not say how many items are collected: it would count those that ran."""
    shown = getattr(reporter, "isatty", None)
    if shown:  # a boolean, or one that can be called
        kind: Any = type(shown)
        reporter.isatty = kind(0)
    try:
        yield
    finally:
        if shown:
            reporter.isatty = shown


def _written(found: Discovery, files: Mapping[str, str]) -> dict[str, str]:
    """Write the targets of each module into its file; return the files that hold some."""
    files = {path: module for path, module in files.items() if found.targets_of(module)}
    for path, module in files.items():
        Path(path).write_text(found.source(module), encoding="utf-8")
    return files


def _paths(config: pytest.Config, few: bool) -> dict[str, str]:
    """Return the file of each module; that of a run with few configurations is another one."""
    folder = _folder(config)
    return {str(folder / _file_name(module, texts, few)): module for module, texts in _texts(config).items()}


def make_importable(config: pytest.Config) -> None:
    """Let a module beside the tests be imported, as under ``python -m pytest``."""
    folder = str(config.invocation_params.dir)
    if folder not in sys.path:
        sys.path.insert(0, folder)


def add_learned(config: pytest.Config) -> None:
    """Ask for the targets of the project's own packages that have a corpus, where the command line names nothing.

    A package is the project's own if it lies below its root: a corpus is data that others may have written, and what it
    names is called only where the run, or the project, asks for that package.
    """
    named = config.getoption("evalcheck_target") or config.args_source is pytest.Config.ArgsSource.ARGS
    if named or config.getoption("evalcheck_replay"):
        return
    if hasattr(config, "workerinput"):
        _ask(config, list(config.workerinput.get(_FILES_THERE, {}).values()))
        return
    make_importable(config)
    try:
        packages = [*corpus.read(config.rootpath / corpus.FOLDER).releases]
        own = [each for each in packages if any(one.is_relative_to(config.rootpath) for one in roots(each))]
    except UsageError as error:
        raise pytest.UsageError(str(error)) from error
    _ask(config, own)


def _ask(config: pytest.Config, packages: list[str]) -> None:
    config.option.evalcheck_target = packages
    if packages:  # what the ini file and the folder give is collected, too
        config.stash[_BESIDE] = list(config.args)


def _discover(config: pytest.Config, few: bool, importing: bool) -> Generator[Discovery]:
    workers = getattr(config.option, "numprocesses", None)
    try:
        yield from discover_in_parts(
            list(dict.fromkeys(config.getoption("evalcheck_target"))),
            workers=workers if isinstance(workers, int) and workers > 0 else 2,
            progress=lambda text: print(f"evalcheck: {text}", file=sys.stderr, flush=True),
            few=few,
            importing=importing,
        )
    except UsageError as error:
        raise pytest.UsageError(str(error)) from error


def module_of(config: pytest.Config, path: Path) -> str:
    """Return the module whose inferred targets a file holds: it begins their ids. Empty for a file of a user."""
    return config.stash.get(_FILES, {}).get(str(path), "")


def options(config: pytest.Config, module: str) -> str:
    """Return the options that ask for the targets of a module, as a command line has them."""
    return " ".join(f"--evalcheck-target={shlex.quote(text)}" for text in _texts(config)[module])


def _texts(config: pytest.Config) -> dict[str, list[str]]:
    """Return by module what was asked for."""
    found: dict[str, list[str]] = {}
    for text in dict.fromkeys(config.getoption("evalcheck_target")):
        found.setdefault(text.partition(":")[0].strip(), []).append(text)
    return found


def _file_name(module: str, texts: list[str], few: bool) -> str:
    digest = hashlib.blake2b("\n".join([*texts, *["few"] * few]).encode(), digest_size=4).hexdigest()
    return f"evalcheck_{re.sub(r'[^a-zA-Z0-9]+', '_', module)[:80]}_{digest}.py"


def _collect(config: pytest.Config, files: dict[str, str]) -> None:
    """Collect the files, or of them what the command line names by ids that begin with a module."""
    named = config.args if config.args_source is pytest.Config.ArgsSource.ARGS else config.stash.get(_BESIDE, [])
    for path, module in files.items():
        named = [path + text.removeprefix(module) if text.startswith(f"{module}::") else text for text in named]
    by_id = any(text.partition("::")[0] in files for text in named)
    config.args = [*named, *([] if by_id else files)]
    config.args_source = pytest.Config.ArgsSource.ARGS
    config.stash[_FILES] = files


def tell_worker(node: Any) -> None:
    """Give a worker of xdist the paths of the files, where there are some."""
    files = node.config.stash.get(_FILES, None)
    if files is not None:
        node.workerinput[_FILES_THERE] = files


def _folder(config: pytest.Config) -> Path:
    """Return the folder for the files: that of pytest's cache, so that a failure can be replayed after the run.

    Not where a folder of the project is collected, too: a file below a folder that is named is collected with it, or
    not at all.
    """
    try:
        if _BESIDE in config.stash:
            raise OSError
        folder = config.rootpath / str(config.getini("cache_dir")) / "d" / "evalcheck"
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    except (ValueError, OSError):  # no cache provider, nothing can be written there, or a folder is collected
        made = tempfile.mkdtemp(prefix="evalcheck-")
        config.add_cleanup(lambda: shutil.rmtree(made, ignore_errors=True))
        return Path(made)


def lines(found: Discovery) -> list[str]:
    """Return lines for the screen: how many metrics were tried, and why each of the others was not."""
    out = [f"inferred: {line}" for line in found.summary]
    out += [] if found.whole else ["inferred: the run ended before all of them were looked at"]
    out += [f"  {DECLARED}: {name}: {why}" for name, why in [*found.decided.items()][:_MOST_REASONS]]
    unnamed = len(found.decided) - _MOST_REASONS
    out += [f"  and {unnamed} more: see the file of the targets, or JSON"] if unnamed > 0 else []
    reasons: dict[str, list[str]] = {}
    for name, why in found.left.items():
        reasons.setdefault(why, []).append(name)
    for why, names in list(reasons.items())[:_MOST_REASONS]:
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        out.append(f"  not tried: {', '.join(names[:_MOST_NAMES])}{more}: {why}")
    if len(reasons) > _MOST_REASONS:
        out.append(f"  and for {len(reasons) - _MOST_REASONS} other reasons: see the file of the targets, or JSON")
    first = next((name for name in found.candidates if name in found.left), "")
    out += [f"  the way on is a target with blanks to fill in: {command(first)}"] if first else []
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
        "declared_no_function_of_samples": dict(found.decided),
        "configurations_not_tried": dict(found.partly),
        "other_names": found.others,
    }
