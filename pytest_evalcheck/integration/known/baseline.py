"""The baseline: a TOML file with the failures that a project knows of, written by ``--evalcheck-known=accept``."""

from __future__ import annotations

import ast
import codecs
import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from pytest_evalcheck.errors import UsageError, nearest
from pytest_evalcheck.expectations import old_signatures
from pytest_evalcheck.kinds.registry import shipped
from pytest_evalcheck.reports.case_codec import literal
from pytest_evalcheck.reports.results import WITHOUT_REASON, plural
from pytest_evalcheck.reports.text import line as shown
from pytest_evalcheck.targets.device_spec import KINDS
from pytest_evalcheck.targets.target import KnownFailure

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib  # comes with pytest

FILE = "evalcheck-known.toml"
_HEADER = re.compile(r"^[ \t]*\[\[\s*known\s*\]\]", re.MULTILINE)
_SIGNATURE = re.compile(r"""^([ \t]*signature[ \t]*=[ \t]*)("(?:[^"\\\n]|\\.)*"|'[^'\n]*')""", re.MULTILINE)
_VALUES = ("expected", "actual")
_TEXTS = ("code", "target", "signature", "reason", "see", *_VALUES)
_KEYS = (*_TEXTS, "devices", "case")
_PREAMBLE = """\
# Failures that this project knows of. --evalcheck-known=accept adds what fails, --evalcheck-known=prune
# removes what no longer fails. Write into `reason` why a failure may stay, and into `see` the report of it.
"""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One known failure of one check of one target."""

    code: str
    target: str
    """The node id of the target, from the folder of the ini file: ``evalcheck_lm.py::accuracy``."""
    devices: tuple[str, ...] = ()
    """The kinds of device that it was seen on; empty for all."""
    signature: str = ""
    """The signature that failures of one kind share; empty for any failure of the check."""
    reason: str = ""
    see: str = ""
    case: Mapping[str, Any] | None = None
    values: tuple[str, ...] = ()
    """The expected and the actual value of the case; empty for any."""
    text: str = field(default="", compare=False)
    """The entry as it stands in the file, with what is beside it."""
    migrated: bool = field(default=False, compare=False)
    """Return whether its signature has an old form in the file."""
    line: int = field(default=0, compare=False)

    @property
    def order(self) -> tuple[str, str, str]:
        """The sort key of the entries of a file."""
        return self.target, self.code, self.signature

    def known_failure(self, name: str) -> KnownFailure:
        """Return the entry as one of a target, from the file of this name."""
        return KnownFailure(
            self.reason.strip() or f"{WITHOUT_REASON} ({name}:{self.line})",
            see=self.see,
            example=self.case,
            devices=self.devices or None,
            signature=self.signature,
            values=self.values,
            listed=f"{name}:{self.line}",
        )

    def as_toml(self) -> str:
        """Return the entry as it is written into the file."""
        lines = ["[[known]]", f"target = {_string(self.target)}", f"code = {_string(self.code)}"]
        lines += [f"devices = [{', '.join(map(_string, self.devices))}]"] if self.devices else []
        lines += [f"signature = {_string(self.signature)}", *_value_lines(self.values)]
        lines += [f"reason = {_string(self.reason)}"]
        lines += [f"see = {_string(self.see)}"] if self.see else []
        if self.case is not None:
            lines.append("[known.case]")
            lines += [f"{_key(name)} = {_string(literal(value))}" for name, value in self.case.items()]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Baseline:
    """The entries of the file, in its order. One that is not there has none."""

    path: Path
    entries: tuple[Entry, ...] = ()
    preamble: str = ""
    newline: str = "\n"
    """The end of its lines: an editor of Windows may have written them, and what is not changed must not differ."""
    marked: bool = False
    """True if it begins with a byte order mark."""

    @classmethod
    def read(cls, path: Path) -> Baseline:
        """Read the baseline of a file.

        Raises:
            UsageError: when it cannot be read, or an entry cannot be meant; the message names the line.
        """
        try:
            raw = path.read_bytes()
            text = raw.decode("utf-8-sig").replace("\r\n", "\n")
        except FileNotFoundError:
            return cls(path)
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{path.name} cannot be read: {error}") from error
        try:
            data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise UsageError(f"{path.name} is not TOML: {error}") from error
        unknown = [name for name in data if name != "known"]
        tables = data.get("known", [])
        if unknown or not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            what = f"the key {unknown[0]!r}" if unknown else "a key `known` that is no array of tables"
            raise UsageError(f"{path.name} has {what}; expected [[known]] tables")
        starts = [match.start() for match in _HEADER.finditer(text)]
        if len(starts) != len(tables):
            count = plural(len(tables), "entry", "entries")
            raise UsageError(f"{path.name} has {count}; expected each to begin with a line [[known]]")
        ends = [*starts, len(text)][1:]
        entries = tuple(
            _entry(path.name, table, text[start:end], text.count("\n", 0, start) + 1)
            for table, start, end in zip(tables, starts, ends, strict=True)
        )
        _require_distinct(path.name, entries)
        preamble, newline = text[: starts[0]] if starts else text, "\r\n" if b"\r\n" in raw else "\n"
        return cls(path, entries, preamble, newline, raw.startswith(codecs.BOM_UTF8))

    @property
    def debt(self) -> int:
        """The number of entries without a reason."""
        return sum(not entry.reason.strip() for entry in self.entries)

    @property
    def migrated(self) -> int:
        """The number of entries whose signature has an old form in the file."""
        return sum(entry.migrated for entry in self.entries)

    @cached_property
    def _by_check(self) -> dict[tuple[str, str], list[KnownFailure]]:
        found: dict[tuple[str, str], list[KnownFailure]] = {}
        for entry in self.entries:
            found.setdefault((entry.target, entry.code), []).append(entry.known_failure(self.path.name))
        return found

    def of(self, target: str, code: str) -> tuple[KnownFailure, ...]:
        """Return the known failures of one check of one target."""
        return tuple(self._by_check.get((target, code), ()))

    def with_new(self, accepted: Iterable[Entry]) -> Baseline:
        """Add entries, each at its place in the order; one that is there gets the new values of its case."""
        kept = list(self.entries)
        for entry in _joined_devices(accepted):
            there = [i for i, other in enumerate(kept) if _overlap(entry, other) and entry.signature == other.signature]
            for i in there:
                kept[i] = replace(kept[i], values=entry.values, text=_with_values(kept[i].text, entry.values))
            if not there:
                index = next((i for i, other in enumerate(kept) if other.order > entry.order), len(kept))
                kept.insert(index, replace(entry, text=entry.as_toml()))
        return replace(self, entries=tuple(kept))

    def remove(self, stale: Mapping[int, set[str]], tried: Mapping[tuple[str, str], set[str]]) -> Baseline:
        """Remove what is stale: by the line of an entry, the kinds of device on which it does not fail any more.

        ``tried`` are the kinds on which a check of a target ran: an entry for all devices keeps the others of them.
        """
        kept = []
        for entry in self.entries:
            gone = stale.get(entry.line, set())
            of = entry.devices or tuple(tried.get((entry.target, entry.code), ()))
            left = tuple(kind for kind in KINDS if kind in of and kind not in gone)
            if not gone or (left and left == entry.devices):
                kept.append(entry)
            elif left:
                kept.append(replace(entry, devices=left, text=_with_devices(entry.text, left)))
        return replace(self, entries=tuple(kept))

    def write(self) -> None:
        """Write the file, all of it or nothing.

        Raises:
            OSError: when that is not possible; the file is as it was then.
        """
        blocks = [entry.text.strip("\n") for entry in self.entries]
        preamble = (self.preamble or _PREAMBLE).strip("\n")
        text = "\n\n".join([preamble, *blocks]) + "\n"
        handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
        try:
            encoding = "utf-8-sig" if self.marked else "utf-8"
            with os.fdopen(handle, "w", encoding=encoding, newline=self.newline) as file:
                file.write(text)
            mode = self.path.stat().st_mode if self.path.exists() else 0o666 & ~_umask()
            os.chmod(name, mode)
            os.replace(name, self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise

    def as_written(self) -> Baseline:
        """Return the baseline after it was written, in which no signature has an old form."""
        return replace(self, entries=tuple(replace(entry, migrated=False) for entry in self.entries))

    def problems(self, targets: Mapping[str, Sequence[str]], read: Collection[str], root: Path) -> Iterator[str]:
        """Yield problems of entries that name what is not there; ``targets`` has codes of collected ones by node id.

        ``read`` are the files of targets that this run has read without an error. Of others it does not know what they
        hold: they are not selected, are ignored, skip themselves or cannot be imported.
        """
        for entry in self.entries:
            place = f"{self.path.name}:{entry.line}"
            codes = targets.get(entry.target)
            if codes is not None and entry.code not in codes:
                yield f"{place} names {entry.code}, which is no check of {entry.target}{nearest(entry.code, codes)}"
            elif codes is None and (why := self._gone(entry, targets, read, root)):
                yield f"{place}: {why}; --evalcheck-known=prune removes the entry"

    def gone(self, targets: Mapping[str, Sequence[str]], read: Collection[str], root: Path) -> list[str]:
        """Return the places of the entries whose target is not there any more."""
        return [
            f"{self.path.name}:{entry.line}"
            for entry in self.entries
            if entry.target not in targets and self._gone(entry, targets, read, root)
        ]

    def _gone(self, entry: Entry, targets: Iterable[str], read: Collection[str], root: Path) -> str:
        file, _, name = entry.target.partition("::")
        if file and not file.endswith(".py"):  # a module whose targets were inferred
            return ""
        if not os.path.exists(root / file):  # not of pathlib: it raises an error for a name that is too long
            return f"the file {shown(file)} is not there"
        if file not in read:
            return ""
        others = [other.partition("::")[2] for other in targets if other.startswith(f"{file}::")]
        return f"{file} has no target {name!r}{nearest(name, others)}"


def require_writable(path: Path) -> None:
    """Require that a baseline can be written there.

    Raises:
        UsageError: when it cannot, so that a run does not end with entries that nobody has.
    """
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(handle)
        os.unlink(name)
    except OSError as error:
        raise UsageError(f"{path.name} cannot be written into {path.parent}: {error.strerror}") from error
    if path.exists() and not (path.is_file() and os.access(path, os.W_OK)):
        raise UsageError(f"{path} cannot be written; expected a file that may be written")


def _entry(name: str, table: Mapping[str, Any], text: str, line: int) -> Entry:
    def wrong(what: str) -> UsageError:
        return UsageError(f"{name}:{line}: {what}")

    for key, value in table.items():
        if key not in _KEYS:
            raise wrong(f"unknown key {key!r}; expected {', '.join(_KEYS)}{nearest(key, _KEYS)}")
        if key in _TEXTS and not isinstance(value, str):
            raise wrong(f"{key} is {value!r}; expected a text")
    for key, example in (("target", _TARGET), ("code", "EC201")):
        if not table.get(key):
            raise wrong(f"there is no {key}; expected one, such as {example!r}")
    code, target, devices = table["code"], table["target"], table.get("devices", [])
    by_name = {made.name: made.code for made in shipped()}
    codes = [*by_name.values()]
    if code in by_name or (code.upper().startswith("EC") and code not in codes):
        meant = f"; did you mean {by_name[code]!r}?" if code in by_name else nearest(code.upper(), codes)
        raise wrong(f"{code!r} is not the code of a check{meant}")
    if "::" not in target or "\\" in target:
        raise wrong(f"target is {target!r}; expected a node id with forward slashes, such as {_TARGET!r}")
    file, _, within = target.partition("::")
    # A file outside of the root directory has no path in the ids of pytest.
    odd = file != PurePosixPath(file).as_posix() or file.startswith("/") or ".." in file.split("/") or ":" in file
    if file and odd:
        raise wrong(f"target is {target!r}; expected a path from the folder of the ini file, such as {_TARGET!r}")
    if "::" in within and within.endswith("]"):
        own = target.rpartition("::")[0]
        raise wrong(f"target is {target!r}, the id of a check; expected the id of its target, {own!r}")
    if not isinstance(devices, list) or not set(map(str, devices)) <= set(KINDS):
        raise wrong(f"devices is {devices!r}; expected some of {', '.join(KINDS)}")
    case = table.get("case")
    if case is not None and not (isinstance(case, dict) and all(isinstance(value, str) for value in case.values())):
        raise wrong("case is no table of texts; expected the fields of the case, each as a Python literal in quotes")
    fields: dict[str, Any] = {}
    for key, value in (case or {}).items():
        try:
            fields[key] = from_literal(value)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
            raise wrong(f"case.{key} is no Python literal: {value[:60]!r}") from error
    texts = {key: str(table.get(key, "")) for key in _TEXTS}
    values = tuple(texts.pop(key) for key in _VALUES)
    if new := old_signatures.migrated(texts["signature"]):
        texts["signature"] = new
        text = _SIGNATURE.sub(lambda found: f"{found[1]}{_string(new)}", text, count=1)
    elif mistake := old_signatures.problem(texts["signature"]):
        raise wrong(mistake)
    return Entry(
        **texts,
        values=values if any(values) else (),
        devices=tuple(devices),
        case=None if case is None else fields,
        text=text.rstrip("\n"),
        migrated=bool(new),
        line=line,
    )


_TARGET = "evalcheck_lm.py::accuracy"


def from_literal(text: str) -> Any:
    """Return the plain value of a Python literal, where ``float("nan")`` and ``float("inf")`` are literals too.

    Raises:
        ValueError: when it is none.
        SyntaxError: when it is no Python.
    """
    tree = ast.parse(text.strip(), mode="eval")

    class Floats(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> Any:
            words = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
            if isinstance(node.func, ast.Name) and node.func.id == "float" and not node.keywords and len(words) == 1:
                return ast.copy_location(ast.Constant(float(str(words[0]))), node)
            return node

    return ast.literal_eval(Floats().visit(tree))


def _require_distinct(name: str, entries: Sequence[Entry]) -> None:
    for index, entry in enumerate(entries):
        for other in entries[:index]:
            if _overlap(entry, other) and (
                entry.signature == other.signature or not (entry.signature and other.signature)
            ):
                raise UsageError(
                    f"{name}:{entry.line} and line {other.line} are about the same failure of {entry.code} of "
                    f"{entry.target}; expected one entry"
                )


def _overlap(entry: Entry, other: Entry) -> bool:
    same = (entry.target, entry.code) == (other.target, other.code)
    return same and (not entry.devices or not other.devices or not set(entry.devices).isdisjoint(other.devices))


def _joined_devices(accepted: Iterable[Entry]) -> Iterator[Entry]:
    """Join the entries that differ in their device alone."""
    found: dict[tuple[str, ...], list[Entry]] = {}
    for entry in accepted:
        found.setdefault((*entry.order, *entry.values, literal(dict(entry.case or {}))), []).append(entry)
    for entries in found.values():
        kinds = {kind for entry in entries for kind in entry.devices}
        yield replace(entries[0], devices=tuple(kind for kind in KINDS if kind in kinds))


def _with_devices(text: str, devices: Iterable[str]) -> str:
    line = f"devices = [{', '.join(map(_string, devices))}]"
    changed, count = re.subn(r"(?m)^devices\s*=\s*\[[^\]]*\]", line, text, count=1)
    return changed if count else re.sub(r"(?m)^(code\s*=.*)$", rf"\1\n{line}", text, count=1)


def _with_values(text: str, values: Sequence[str]) -> str:
    head, table, case = text.partition("[known.case]")
    head = re.sub(rf"(?m)^[ \t]*({'|'.join(_VALUES)})[ \t]*=.*\n?", "", head)
    lines = "".join(f"\n{line}" for line in _value_lines(values))
    return re.sub(r"(?m)^([ \t]*signature[ \t]*=.*)$", lambda found: found[1] + lines, head, count=1) + table + case


def _value_lines(values: Sequence[str]) -> list[str]:
    return [f"{key} = {_string(value)}" for key, value in zip(_VALUES, values)]  # noqa: B905 - there may be none


def _string(text: str) -> str:
    """Return a text as a TOML string of one line."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", lambda m: f"\\u{ord(m.group()):04x}", escaped) + '"'


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _string(name)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def summary(baseline: Baseline) -> str:
    """``14 known failures, 12 of them without a reason``, for the screen."""
    text = f"{baseline.path.name}: {plural(len(baseline.entries), 'known failure')}"
    text = f"{text}, {baseline.debt} without a reason" if baseline.debt else text
    old = f"{plural(baseline.migrated, 'signature')} in an old form" if baseline.migrated else ""
    return f"{text}, {old} (--evalcheck-known=accept writes the new one)" if old else text
