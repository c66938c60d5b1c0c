"""The options of a run, read from the command line or the ini file and validated before anything runs."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from iniconfig import IniConfig  # comes with pytest

from pytest_evalcheck import upstream
from pytest_evalcheck.engine.check_selection import CheckSelection
from pytest_evalcheck.engine.device_selection import SKIPPED
from pytest_evalcheck.engine.effort import EFFORTS, Effort
from pytest_evalcheck.errors import UsageError, did_you_mean, nearest, nearest_word
from pytest_evalcheck.integration.choosing import sharding
from pytest_evalcheck.integration.known.baseline import Baseline, require_writable
from pytest_evalcheck.integration.process.run_option import RunOption
from pytest_evalcheck.kinds.registry import shipped
from pytest_evalcheck.reports import ReportError, check_paths, parse
from pytest_evalcheck.reports.case_codec import InvalidBlob, decode_case
from pytest_evalcheck.reports.severity import SEVERITIES, Severity
from pytest_evalcheck.targets import device_spec
from pytest_evalcheck.targets.device_spec import KINDS
from pytest_evalcheck.targets.keywords import LEAST_SECONDS, MOST_SECONDS, sensible_seconds

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib  # comes with pytest

Parsed = TypeVar("Parsed")


@dataclass(frozen=True, kw_only=True)
class Options:
    """The validated options of a run."""

    select: str
    ignore: str
    effort_name: str
    devices: tuple[str, ...]
    """Devices in the form of `device_spec.parse`."""
    timeout: float | None
    """Seconds a check, 0 for no limit; None where none is given."""
    run: RunOption
    shard: tuple[int, int] | None
    """The number of the part of the run, and how many there are."""
    durations: Mapping[str, float]
    """The seconds that each cell took before, by node id."""
    with_tests: bool
    replay: tuple[str, Mapping[str, Any]] | None
    reports: tuple[tuple[str, Path], ...]
    files: tuple[str, ...]
    accept: bool
    """True if failures are added to the baseline."""
    prune: bool
    """True if known failures that do not fail any more are removed from the baseline."""
    baseline: Baseline
    optional: tuple[str, ...]
    """Names of what may be missing: distributions, kinds of device, ``skipped``."""

    fail_on: Severity | None = None
    """The least severity that fails; None for ``cost``, and ``error`` for targets that nobody wrote."""
    strict_versions: bool = False
    """True if an upstream fault that is unverified for the installed release fails."""
    selected_by_ini: str = ""
    """``evalcheck_select = ...`` and ``evalcheck_ignore = ...`` of the ini file, where they are in force."""

    @property
    def effort(self) -> Effort:
        """The effort by its name."""
        return EFFORTS[self.effort_name]

    @classmethod
    def read(cls, config: pytest.Config) -> Options:
        """Read the command line, else the ini file.

        Raises:
            pytest.UsageError: when one of them cannot be meant.
        """
        given = partial(given_text, config)
        try:
            _require_consistent(config)
            _add_registry(config)
            for name in () if _foreign(given) else ("select", "ignore"):
                _parsed(config, name, lambda words: CheckSelection.parse(words, "", shipped()))
            replay = config.getoption("evalcheck_replay")
            updates = _updates(config.getoption("evalcheck_known") or "")
            shard, _, path = (config.getoption("evalcheck_shard") or "").partition(":")
            reports = tuple(parse(spec) for spec in config.getoption("evalcheck_report"))
            if not hasattr(config, "workerinput"):
                check_paths(reports)
            return cls(
                select=given("select"),
                ignore=given("ignore"),
                effort_name=_parsed(config, "effort", _effort),
                devices=_parsed(config, "device", device_spec.parse),
                timeout=_parsed(config, "timeout", _timeout),
                run=RunOption.read(config),
                shard=sharding.parse(shard),
                durations=_durations(config, path) if shard else {},
                with_tests=config.getoption("evalcheck_with_tests"),
                replay=_replay(replay) if replay else None,
                reports=reports,
                files=_files(config.getini("evalcheck_files")),
                accept="accept" in updates,
                prune="prune" in updates,
                baseline=_baseline(config, updates),
                optional=_parsed(config, "optional", _optional),
                fail_on=_parsed(config, "fail_on", _severity),
                strict_versions=config.getoption("evalcheck_strict_versions"),
                selected_by_ini=" and ".join(
                    f"evalcheck_{name} = {given(name)}"
                    for name in ("select", "ignore")
                    if given(name) and config.getoption(f"evalcheck_{name}") is None
                ),
            )
        except (UsageError, InvalidBlob, ReportError) as error:
            raise pytest.UsageError(str(error)) from error


def given_text(config: pytest.Config, name: str) -> str:
    """Return the text of an option by its name without ``evalcheck_``, else that of its twin in the ini file."""
    value = config.getoption(f"evalcheck_{name}")
    return str(config.getini(f"evalcheck_{name}") if value is None else value).strip()


def _parsed(config: pytest.Config, name: str, parse: Callable[[str], Parsed]) -> Parsed:
    """Parse an option; an error names the option, or the file and its setting."""
    try:
        return parse(given_text(config, name))
    except UsageError as error:
        text, setting = given_text(config, name), f"evalcheck_{name}"
        option = config.getoption(setting) is not None
        source = (
            f"--evalcheck-{name.replace('_', '-')}={text}"
            if option
            else f"{_place(config, setting)}: {setting} = {text}"
        )
        raise UsageError(f"{source}: {error}") from error


def _add_registry(config: pytest.Config) -> None:
    if not (text := config.getini("evalcheck_registry").strip()):
        return
    try:
        upstream.add_registry(text, config.inipath.parent if config.inipath else config.rootpath)
    except UsageError as error:
        raise UsageError(f"{_place(config, 'evalcheck_registry')}: evalcheck_registry = {text}: {error}") from error


def _place(config: pytest.Config, setting: str) -> str:
    overridden = [text.partition("=")[0].strip() for text in config.option.override_ini or ()]
    return config.inipath.name if config.inipath and setting not in overridden else "-o"


_LISTS = ("evalcheck_files", "evalcheck_irrelevant")
_NEARLY = 0.85


def _require_consistent(config: pytest.Config) -> None:
    of_file = vars(config).get("_inicfg") or vars(config).get("inicfg") or ()  # renamed in pytest 9.2
    given = [*of_file, *(text.partition("=")[0] for text in config.option.override_ini or ())]
    settings = vars(config._parser)["_inidict"]
    known = [name for name in settings if name.startswith("evalcheck")]
    for name in given:
        if name not in settings and (name.startswith("evalcheck") or nearest(name, known, cutoff=_NEARLY)):
            raise UsageError(f"{_place(config, name)}: there is no setting {name}{nearest(name, known)}")
        value = config.getini(name) if name in known else ""
        if isinstance(value, list) and name not in _LISTS:  # TOML has lists, and pytest takes none for a text
            text = ",".join(map(str, value))
            raise UsageError(f'{_place(config, name)}: expected {name} = "{text}", not a list')
    for path in dict.fromkeys(filter(None, (config.rootpath / "pyproject.toml", config.inipath))):
        _require_no_own_table(path, known)


def _require_no_own_table(path: Path, known: Sequence[str]) -> None:
    """Raise where a configuration file has a table of this plugin: pytest reads its own alone."""
    if not path.is_file():
        return
    tables: Mapping[str, Any] = {}
    if path.suffix == ".toml":
        with suppress(ValueError):  # pytest may read another file
            tables = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {})
        form, right = "[tool.{}]", "[tool.pytest.ini_options]"
    else:
        tables = {section.name.removeprefix("tool:"): section for section in IniConfig(path)}
        right = "[tool:pytest]" if path.name == "setup.cfg" else "[pytest]"
        form = right.replace("pytest", "{}")
    for name in (name for name in tables if re.sub("[-_]", "", name) in ("evalcheck", "pytestevalcheck")):
        words = [f"evalcheck_{word.removeprefix('evalcheck_').replace('-', '_')}" for word in tables[name]]
        expected = ", ".join(nearest_word(word, known) or word for word in words) or "evalcheck_..."
        raise UsageError(f"{path.name}: pytest does not read {form.format(name)}; expected {right} with {expected}")


def _updates(text: str) -> list[str]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if word not in _UPDATES:
            expected = f"expected {' or '.join(_UPDATES)}, or both with a comma"
            raise UsageError(f"--evalcheck-known={text}; {expected}{nearest(word, _UPDATES)}")
    return words


_UPDATES = ("accept", "prune")


def _baseline(config: pytest.Config, updates: list[str]) -> Baseline:
    path = (config.rootpath if config.inipath is None else config.inipath.parent) / config.getini("evalcheck_known")
    if updates:
        if config.getoption("evalcheck_replay"):
            raise UsageError("--evalcheck-known needs all cases; remove --evalcheck-replay")
        require_writable(path)
    return Baseline.read(path)


def _durations(config: pytest.Config, path: str) -> Mapping[str, float]:
    folder = config.invocation_params.dir if path or config.inipath is None else config.inipath.parent
    path = path or str(config.getini("evalcheck_durations")).strip()
    return sharding.durations(folder / Path(path).expanduser()) if path else {}


def _foreign(given: Any) -> bool:
    # Extra checks of targets are not known yet; their codes do not begin with EC.
    words = f"{given('select')},{given('ignore')}".split(",")
    return any(word and not word.upper().startswith("EC") and not word[0].islower() for word in words)


def _replay(blob: str) -> tuple[str, Mapping[str, Any]]:
    code, case = decode_case(blob)
    if code.startswith("EC") and code not in {made.code for made in shipped()}:
        raise InvalidBlob(f"the replay blob is for {code}, which is not a check of this release")
    return code, case


def _effort(name: str) -> str:
    if name not in EFFORTS:
        raise UsageError(f"expected one of {', '.join(EFFORTS)}{nearest(name, list(EFFORTS))}")
    return name


def _severity(name: str) -> Severity | None:
    found = next((severity for severity in SEVERITIES if severity == name), None)
    if name and found is None:
        raise UsageError(f"expected one of {', '.join(SEVERITIES)}{nearest(name, SEVERITIES)}")
    return found


def _timeout(text: str) -> float | None:
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if seconds and not sensible_seconds(seconds):
        raise UsageError(f"expected seconds a check, from {LEAST_SECONDS:g} to {MOST_SECONDS:g}, or 0 for none")
    return seconds


def _optional(text: str) -> tuple[str, ...]:
    from packaging.utils import canonicalize_name  # comes with pytest

    words = [word for word in re.split(r"[,\s]+", text) if word]
    for word in words:
        if not _NAME.fullmatch(word):
            name = word.removeprefix("sim:")
            near = nearest_word(name, KINDS[1:], cutoff=0.7) or re.split(r"[^\w.-]", name)[0].strip("-_.")
            raise UsageError(
                f"{word!r} is no name; expected names of distributions without versions, kinds of device "
                f"({', '.join(KINDS[1:])}), or {SKIPPED}{did_you_mean(near)}"
            )
    return tuple(dict.fromkeys(canonicalize_name(word) for word in words))


_NAME = re.compile(r"[A-Z0-9]|[A-Z0-9][A-Z0-9._-]*[A-Z0-9]", re.IGNORECASE)
"""A name of a distribution."""


def _files(patterns: list[str]) -> tuple[str, ...]:
    if not patterns or not all(patterns):
        raise UsageError("evalcheck_files has no pattern; expected at least one, such as evalcheck_*.py")
    return tuple(patterns)
