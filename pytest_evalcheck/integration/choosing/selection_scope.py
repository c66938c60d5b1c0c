"""What chose among the cells: the command line of this run, or a configuration that holds for every run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import pytest

from pytest_evalcheck.integration.options import Options

WRITTEN = pytest.StashKey[dict[str, str]]()
"""By node id: how the command line writes it, where that is another way."""


def by_command_line(config: pytest.Config) -> list[str]:
    """What the command line chose among the cells: whoever reads the result knows it."""
    words = [str(word) for word in config.invocation_params.args]
    return [text for text, value in _choices(config) if any(value in word for word in words)]


def chosen(config: pytest.Config, deselected: Collection[str]) -> tuple[str, ...]:
    """What the command line chose, with the files and folders that it names.

    An expression that leaves nothing out, such as ``-m "full or not full"``, chooses nothing.
    """
    found = [text for text in by_command_line(config) if deselected or not text.startswith(_EXPRESSIONS)]
    named = config.args if config.args_source is pytest.Config.ArgsSource.ARGS else []
    folder = config.invocation_params.dir
    return (*found, *(name for name in named if "::" not in name and (folder / name).resolve() != config.rootpath))


def by_configuration(config: pytest.Config, options: Options) -> list[str]:
    """What the ini file or the environment leaves out: whoever reads the result may not know it."""
    known = by_command_line(config)
    found = [text for text, _ in _choices(config) if text not in known]
    return [*found, options.selected_by_ini] if options.selected_by_ini else found


def splits_targets(config: pytest.Config, selected: Iterable[str], deselected: Iterable[str]) -> bool:
    """Whether the command line may have left a target a part of its cells, whose verdict then says less.

    An expression that takes whole targets, such as ``-m full``, does not; other choices are taken as if they did.
    """
    found = by_command_line(config)
    if any(not text.startswith(_EXPRESSIONS) for text in found):
        return True
    targets = {nodeid.rpartition("::")[0] for nodeid in selected}
    return bool(found) and any(nodeid.rpartition("::")[0] in targets for nodeid in deselected)


_EXPRESSIONS = ("-k ", "-m ")


def whole(config: pytest.Config) -> bool:
    """Whether the files of all targets of the project were looked for."""
    by_expressions = all(text.startswith(_EXPRESSIONS) for text in by_command_line(config))
    sources = pytest.Config.ArgsSource
    from_the_root = config.args_source is sources.TESTPATHS or (
        config.args_source is sources.INVOCATION_DIR and config.invocation_params.dir == config.rootpath
    )
    return from_the_root and by_expressions and not (config.option.ignore or config.option.ignore_glob)


def _choices(config: pytest.Config) -> Iterator[tuple[str, str]]:
    """What chooses, and the text by which it is found on a command line."""
    option = config.option
    for name, flag in (("keyword", "-k"), ("markexpr", "-m")):
        if value := getattr(option, name, ""):
            yield f"{flag} {value!r}", value
    for name, flag, text in (("lf", "--last-failed", "--l"), ("stepwise", "--stepwise", "--s")):
        if getattr(option, name, False):
            yield flag, text
    for value in getattr(option, "deselect", None) or ():
        yield f"--deselect {value}", value
    for argument in config.args:
        if "::" in argument:
            yield argument, config.stash.get(WRITTEN, {}).get(argument, argument)
    for name in ("select", "ignore", "replay"):
        if value := config.getoption(f"evalcheck_{name}"):
            yield f"--evalcheck-{name}={value}", str(value)
