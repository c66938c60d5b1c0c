"""The corpus: what was learned, as JSON files that are read and committed.

``evalcheck-corpus/PACKAGE.json`` has the classes and functions of one package with their observed calls. It is data:
reading it imports and calls nothing, and it is used only for names of packages that a run asks for.
"""

from __future__ import annotations

import importlib.metadata
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from pytest_evalcheck.errors import UsageError, require_fields
from pytest_evalcheck.errors import nearest as nearest_of
from pytest_evalcheck.learning.replies import replying
from pytest_evalcheck.learning.stand_ins import StandIn, is_path
from pytest_evalcheck.learning.values import makers
from pytest_evalcheck.learning.watching import MOST_CALLS, MOST_OBJECTS, REFUSED, Call, Object, Seen

FOLDER = "evalcheck-corpus"
UNFINISHED = "unfinished"
"""The folder inside of it with what a run has seen that did not end."""
PLACE = "EVALCHECK_CORPUS"
"""The variable of the environment that names the folder of the corpus to the processes that infer."""
FORMAT = 1
MOST_BYTES = 4_000_000
"""A larger file is refused: a corpus is small."""
_FEWER = (MOST_CALLS, 8, 3, 1)
"""Calls of a function that are kept, fewer where the file would be too large; of a class a fourth as many objects."""
_FIELDS = {
    "file": ("format", "package", "release", "entries"),
    "entry": ("name", "kind", "calls", "objects", "stand_ins"),
    "object": ("made", "test", "calls"),
    "call": ("method", "test", "arguments", "returned"),
    "stand_in": ("name", "bases", "attributes", "replies"),
    "reply": ("method", "text", "asked", "reply", "awaited"),
}
_OPTIONAL = {"entry": ("stand_ins",), "call": ("method", "test", "returned"), "reply": ("awaited",)}


@dataclass
class Corpus:
    """Everything that was learned of some packages, by ``module:name``."""

    entries: dict[str, Seen] = field(default_factory=dict)
    releases: dict[str, str] = field(default_factory=dict)
    """By package: the release that was watched."""

    @property
    def modules(self) -> list[str]:
        """The modules that have entries."""
        return sorted({each.module for each in self.entries.values()})

    def of(self, module: str) -> list[str]:
        """Return the names that were seen of a module and its submodules."""
        return [name for name, seen in self.entries.items() if f"{seen.module}.".startswith(f"{module}.")]


def write(seen: Mapping[str, Seen], folder: Path, packages: Iterable[str], *, is_part: bool = False) -> dict[Path, str]:
    """Write a file for each package; one that is there is replaced. Return with each what was left out of it.

    That of a part, which `merged` takes, has no release: to look it up takes longer than to write the file.

    Raises:
        UsageError: where the folder cannot be written.
    """
    written = {}
    for package, (text, left) in texts(seen, packages, is_part=is_part).items():
        path = folder / f"{package}.json"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            whole = path.with_suffix(".part")  # a process may be ended while it writes
            whole.write_text(text, encoding="utf-8")
            whole.replace(path)
        except OSError as error:
            raise UsageError(f"the corpus cannot be written: {error}") from error
        written[path] = left
    return written


def texts(seen: Mapping[str, Seen], packages: Iterable[str], *, is_part: bool = False) -> dict[str, tuple[str, str]]:
    """Make the text of the file of each package of which something was seen, and say what was left out of it."""
    found = {}
    for package in packages:
        mine = [each for _, each in sorted(seen.items()) if each.module.partition(".")[0] == package]
        if any(each.calls or any(one.calls for one in each.objects) for each in mine):
            found[package] = _within_the_limit(package, mine, "" if is_part else release(package))
    return found


def _within_the_limit(package: str, seen: Iterable[Seen], release: str) -> tuple[str, str]:
    """Return the text of a file that is not too large to be read, and what was left out of it."""
    data: dict[str, Any] = {"format": FORMAT, "package": package, "release": release}
    limit = f"since a file has at most {MOST_BYTES} bytes"
    for most in _FEWER:
        entries = [_entry(each, most) for each in seen]
        data["entries"] = [each for each in entries if each["calls"] or each["objects"]]
        if len(text := _text(data)) <= MOST_BYTES:
            return text, "" if most == MOST_CALLS else f"{most} calls of a function and fewer objects are kept, {limit}"
    # The largest entries are left out: each line of a call is no longer than one of the limits of `values`.
    sizes = {each["name"]: len(_text({**data, "entries": [each]})) for each in data["entries"]}
    smallest = sorted(sizes, key=lambda name: (sizes[name], name))
    total = itertools.accumulate(sizes[name] for name in smallest)
    kept = {name for name, size in zip(smallest, total, strict=True) if size <= MOST_BYTES}
    left = [name for name in sizes if name not in kept]
    data["entries"] = [each for each in data["entries"] if each["name"] in kept]
    return _text(data), f"{len(left)} of {len(sizes)} names are left out, such as {left[0]}, {limit}"


def summary(seen: Mapping[str, Seen], packages: Iterable[str]) -> list[str]:
    """Say in a line for each package how much was seen."""
    lines = []
    for package in packages:
        mine = [each for each in seen.values() if each.module.partition(".")[0] == package]
        functions = sum(bool(each.calls) for each in mine)
        classes = sum(any(one.calls for one in each.objects) for each in mine)
        calls = sum(len(each.calls) + sum(len(one.calls) for one in each.objects) for each in mine)
        if calls:
            lines.append(f"learned {package}: {calls} calls of {functions} functions and {classes} classes")
        else:
            lines.append(f"no call of a public function or method of {package} was seen")
    return lines


def _text(data: Mapping[str, Any]) -> str:
    """One line for each call, so that a change of the corpus can be read."""
    parts = []
    for entry in data["entries"]:
        calls = ",\n".join(f"    {json.dumps(each)}" for each in entry["calls"])
        objects = ",\n".join(
            f'    {{"made": {json.dumps(each["made"])}, "test": {json.dumps(each["test"])}, "calls": [\n'
            + ",\n".join(f"      {json.dumps(call)}" for call in each["calls"])
            + "]}"
            for each in entry["objects"]
        )
        head = f'  {{"name": {json.dumps(entry["name"])}, "kind": {json.dumps(entry["kind"])}'
        stand_ins = ",\n".join(
            f"    {json.dumps(name)}: {json.dumps(each)}" for name, each in entry["stand_ins"].items()
        )
        last = f', "stand_ins": {{\n{stand_ins}}}' if stand_ins else ""
        parts.append(f'{head}, "calls": [\n{calls}], "objects": [\n{objects}]{last}}}')
    first = {name: data[name] for name in ("format", "package", "release")}
    return json.dumps(first)[:-1] + ', "entries": [\n' + ",\n".join(parts) + "]}\n"


def _entry(seen: Seen, most: int) -> dict[str, Any]:
    return {
        "name": f"{seen.module}:{seen.name}",
        "kind": "class" if seen.is_class else "function",
        "calls": [{"test": test, **_call(call)} for test, call in sorted(seen.calls, key=lambda one: one[0])[:most]],
        "objects": [
            {"made": each.made, "test": each.test, "calls": [_call(call) for call in each.calls]}
            for each in _different(seen.objects)[: max(1, most // 4)]
            if each.calls
        ],
        "stand_ins": {name: asdict(each) for name, each in _stand_ins(seen, most)},
    }


def _stand_ins(seen: Seen, most: int) -> Iterator[tuple[str, StandIn]]:
    """Yield the stand-ins by argument, with so many replies of a method, in an order that is none of tests."""
    for name, each in sorted(seen.stand_ins.items()):
        if ":" in name and not each.replies:
            continue  # a patch that is of no call of this
        methods = itertools.groupby(sorted(each.replies, key=json.dumps), key=lambda reply: str(reply["method"]))
        yield name, replace(each, replies=[one for _, some in methods for one in itertools.islice(some, most)])


def _different(objects: Iterable[Object]) -> list[Object]:
    """Return objects that were made in different ways, then others, up to the limit."""
    first: dict[str, Object] = {}
    rest = []
    for each in sorted(objects, key=lambda one: one.test):  # tests may run in a random order
        key = json.dumps(each.made, sort_keys=True)
        if each.calls and key not in first:
            first[key] = each
        else:
            rest.append(each)
    return [*first.values(), *rest][:MOST_OBJECTS]


def _call(call: Call) -> dict[str, Any]:
    method = {"method": call.method} if call.method else {}
    return {**method, "arguments": call.arguments, "returned": call.returned}


def release(package: str) -> str:
    """Return the release of the distribution of a package; empty where there is none."""
    from pytest_evalcheck.fixes.scoring.dependencies import distributions

    names = distributions().get(package, ())
    try:
        return importlib.metadata.version(names[0]) if names else ""
    except importlib.metadata.PackageNotFoundError:
        return ""


def merged(parts: Iterable[Mapping[str, Seen]]) -> dict[str, Seen]:
    """Join what several processes have seen, in the order of the processes, up to the limits."""
    found: dict[str, Seen] = {}
    for part in parts:
        for name, seen in part.items():
            known = found.setdefault(name, Seen(seen.module, seen.name, seen.is_class))
            arguments = [call.arguments for _, call in known.calls]
            new = [(test, call) for test, call in seen.calls if call.arguments not in arguments]
            known.calls = [*known.calls, *new][:MOST_CALLS]
            known.objects = [*known.objects, *seen.objects]
            for argument, each in seen.stand_ins.items():
                known.stand_ins.setdefault(argument, replace(each, replies=[])).add(*each.replies)
    return found


def stand_in(name: str, argument: str) -> Any:
    """Make what takes the place of a model that a project's own tests have replaced, with the replies of theirs.

    A text is given one of the replies to texts like it, always the same one: what judges a document is a function of
    it. Where these are three or fewer, another text is given other numbers and truth values in them.

    Args:
        name: ``package.module:function`` or ``package.module:Class`` that was given it.
        argument: the parameter of that name.

    Raises:
        UsageError: where the corpus has none, or it cannot be made.
    """
    found = nearest()
    entry = found.entries.get(name)
    known = entry.stand_ins.get(argument) if entry else None
    if known is None:
        near = nearest_of(argument, entry.stand_ins) if entry else nearest_of(name, found.entries)
        raise UsageError(f"the corpus has no stand-in for the argument {argument} of {name}{near}")
    return replying(known, name, argument, stand_in)


makers["stand_in"] = stand_in


def patches_of(name: str) -> list[str]:
    """Return the places that tests have patched while calls of a name ran, as ``module:path``.

    Raises:
        UsageError: where the corpus has no such name.
    """
    found = nearest()
    if name not in found.entries:
        raise UsageError(f"the corpus has no {name}{nearest_of(name, found.entries)}")
    return found.entries[name].patches


def place() -> Path:
    """Return the folder of the corpus of this run, which may not be there."""
    named = os.environ.get(PLACE)
    here = Path.cwd()
    places = (parent / FOLDER for parent in (here, *here.parents))
    return Path(named) if named else next((each for each in places if each.is_dir()), here / FOLDER)


def nearest() -> Corpus:
    """Return the corpus of this run, or that of the current folder or a folder above it; an empty one without any.

    Of a package that no run has learned to its end it has what a run saw that did not end.
    """
    folder = place()
    files = [*sorted(folder.glob("*.json")), *sorted((folder / UNFINISHED).rglob("*.json"))]
    return _read(folder.resolve(), tuple((str(path), path.stat().st_mtime_ns) for path in files))


@lru_cache(maxsize=2)
def _read(folder: Path, stamp: tuple[tuple[str, int], ...]) -> Corpus:
    found = read(folder)
    parts: list[Mapping[str, Seen]] = []
    for part in dict.fromkeys(path.parent for path in (Path(file) for file, _ in stamp) if UNFINISHED in path.parts):
        with suppress(UsageError):  # its process may have been ended while it wrote
            parts.append(read(part).entries)
    for name, seen in merged(parts).items():
        if seen.module.partition(".")[0] not in found.releases:
            found.entries[name] = seen
    return found


def read(folder: Path) -> Corpus:
    """Read all files of a corpus; an empty one where the folder is not there.

    Raises:
        UsageError: for a file that is no corpus, is too large, or is of another format, with the place.
    """
    corpus = Corpus()
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else []:
        if path.stat().st_size > MOST_BYTES:
            raise UsageError(f"{path} has {path.stat().st_size} bytes; a corpus has at most {MOST_BYTES}")
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{path} cannot be read: {error}") from error
        package, release, entries = parsed(text, str(path))
        corpus.releases[package] = release
        corpus.entries.update((f"{each.module}:{each.name}", each) for each in entries)
    return corpus


def parsed(text: str, place: str) -> tuple[str, str, list[Seen]]:
    """Read the text of one file: its package, the release, and the entries.

    Raises:
        UsageError: where it is none, with the place.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{place} is not JSON: {error}") from error
    try:
        return _parsed(data, place)
    except (TypeError, ValueError, AttributeError, KeyError, RecursionError) as error:
        text = f"{type(error).__name__}: {error}"
        raise UsageError(f"{place} is not as it is written ({text}): learn again, or undo what was edited") from error


def _parsed(data: Any, place: str) -> tuple[str, str, list[Seen]]:
    _require(data, "file", place)
    if data["format"] != FORMAT:
        raise UsageError(f"{place} has the format {data['format']!r}; expected {FORMAT}: learn again")
    package, entries = str(data["package"]), []
    for number, entry in enumerate(data["entries"], 1):
        where = f"{place}, {entry.get('name', f'entry {number}') if isinstance(entry, dict) else f'entry {number}'}"
        _require(entry, "entry", where)
        module, _, name = str(entry["name"]).partition(":")
        if not name.isidentifier() or not all(part.isidentifier() for part in module.split(".")):
            raise UsageError(f"{where}: expected a name such as {package}.metrics:Accuracy")
        if module.partition(".")[0] != package:
            raise UsageError(f"{where}: it is not in the package {package} that the file is about")
        seen = Seen(module, name, entry["kind"] == "class")
        for call in _accepted(entry["calls"], where):
            seen.calls.append((str(call.get("test", "")), _read_call(call)))
        for made in entry["objects"]:
            _require(made, "object", where)
            calls = [*map(_read_call, _accepted(made["calls"], where))]
            _require_names(made["made"] or {}, where)
            seen.objects.append(Object(made["made"], str(made["test"]), calls))
        seen.stand_ins = {name: _read_stand_in(each, where) for name, each in entry.get("stand_ins", {}).items()}
        entries.append(seen)
    return package, str(data["release"]), entries


def _read_stand_in(data: Any, where: str) -> StandIn:
    _require(data, "stand_in", where)
    for path in (*data["attributes"], *(str(_require(each, "reply", where)["method"]) for each in data["replies"])):
        if not is_path(path):
            raise UsageError(f"{where}: {path!r} is no name of an attribute")
    return StandIn(
        str(data["name"]),
        [*map(str, data["bases"])],
        dict(data["attributes"]),
        [{**each, "text": str(each["text"])} for each in data["replies"]],
    )


def _accepted(calls: Sequence[Any], where: str) -> Iterator[dict[str, Any]]:
    """Yield calls that returned: what was refused is no input."""
    required = (_require(call, "call", where) for call in calls)
    return (call for call in required if call.get("returned") != REFUSED)


def _read_call(call: Mapping[str, Any]) -> Call:
    _require_names(call["arguments"], "a call")
    if "method" in call and not str(call["method"]).isidentifier():
        raise UsageError(f"{call['method']!r} is no name of a method")
    return Call(str(call.get("method", "")), dict(call["arguments"]), call.get("returned"))


def _require_names(arguments: Mapping[str, Any], place: str) -> None:
    """Require names of parameters: they become part of a source."""
    for name in arguments:
        if not (name.isidentifier() or name.isdigit()):
            raise UsageError(f"{place}: {name!r} is no name of a parameter")


def _require(data: Any, what: str, place: str) -> dict[str, Any]:
    known = _FIELDS[what]
    require_fields(data, [name for name in known if name not in _OPTIONAL.get(what, ())], known, place)
    return dict(data)
