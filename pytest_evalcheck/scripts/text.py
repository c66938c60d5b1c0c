"""The text of a script: the entries of a log on which a comparison depends, and the comparison."""

from __future__ import annotations

import builtins
import inspect
import os
import re
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_evalcheck.expectations.comparison import ABOUT_NONFINITE
from pytest_evalcheck.scripts import helpers
from pytest_evalcheck.scripts.literals import Unwritable, numbers_in, usual_name
from pytest_evalcheck.scripts.log import Entry

_BEGINS = """
import sys
import traceback

# Any error but the one that this script is about ends it with 2, also where an import fails.
sys.excepthook = lambda *error: (traceback.print_exception(*error), sys.exit(2))
"""
_ENDS = """
if __name__ == "__main__":
    sys.exit(main())
"""
_WARNED = {
    "visible": f'any(re.search(r"{ABOUT_NONFINITE}", str(one.message), re.I) for one in caught)',
    "warned": "any(not issubclass(one.category, (DeprecationWarning, FutureWarning)) for one in caught)",
}
_SAME = "are_same({actual}, {expected}, rtol={rtol!r}, atol={atol!r})"
_FORMS = {
    "same": (None, _SAME),
    "unchanged": (None, _SAME),
    "different": ("an error, or another result than {expected}", "isinstance(outcome, Exception) or not " + _SAME),
    "raises": ("another result than {expected}", "type(outcome).__name__ != {expected!r}"),
    "error": ("an error", "has_error(outcome)"),
    "returns": ("no error", "not has_error(outcome)"),
    "names": ("no error, or one that names {expected}", "not has_error(outcome, without={expected})"),
    "visible": ("NaN, infinity, an error or a warning", "visible(outcome) or " + _WARNED["visible"]),
    "warned": ("NaN, infinity, an error or a warning", "visible(outcome) or " + _WARNED["warned"]),
}
"""Expectations by form, where they are no value, and the condition that holds without the fault."""
_TAKEN = {
    *("same", "close", "visible", "on_ranks", "has_error", "rank_calls", "values", "rank", "main", "error", "caught"),
    *("outcome", "input", "lambda", "in", "is", "class", "sys", "numpy", "torch", "re", "os", "pickle", "warnings"),
    "copy",
}


@dataclass(frozen=True)
class Verdict:
    """The comparison that a script ends with."""

    form: str
    actual: str
    expected: str
    rtol: float
    atol: float

    @property
    def uses(self) -> frozenset[int]:
        """The entries whose results are compared."""
        return numbers_in(self.actual + self.expected)


@dataclass(frozen=True)
class Parts:
    """The parts of a script."""

    title: Sequence[str]
    """The lines of its docstring."""
    definitions: Sequence[str]
    imports: frozenset[str]
    """Imports of the definitions."""
    entries: Sequence[Entry]
    """All that were logged."""
    verdict: Verdict
    flat: bool = False
    """True where one number or one tensor is compared."""
    seeded: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that are set before anything is imported."""


def needed(entries: Sequence[Entry], numbers: Iterable[int], *, seeded: bool = False) -> list[Entry]:
    """Return the entries on which results depend, by their text or by what they may have changed."""
    wanted, chosen = {*numbers}, []
    for entry in reversed(entries):
        if entry.shown and (entry.number in wanted or entry.changes & wanted or (seeded and entry.seeds)):
            if entry.error is not None and entry.number not in wanted and not entry.library:
                continue
            wanted |= {entry.number} | entry.uses
            chosen.append(entry)
    return chosen[::-1]


def script(parts: Parts) -> str:
    """Return the whole script; its exit code is 1 while the fault is there, 0 without it, and 2 for any other error."""
    body, good = _body(parts)
    main = "def main():\n" + textwrap.indent("\n".join([*body, f"return 0 if {good} else 1"]), "    ")
    helped = _helpers("\n".join([main, *parts.definitions]))
    text, folders = _with_own_folders("\n\n\n".join([*_together(parts.definitions), *helped, main, _ENDS.strip()]))
    begins = _BEGINS.replace("import sys\n", "import os\nimport sys\n") if parts.environment else _BEGINS
    begins += "".join(f"os.environ[{name!r}] = {_setting(value)}\n" for name, value in parts.environment.items())
    title = "\n".join([*parts.title, "Exit code 1: the fault is there; 0: it is not."])
    imports = _sorted(_imports(parts, text, folders) - ({"import os"} if parts.environment else set()))
    top = f'"""{_text(title)}\n"""\n\nfrom __future__ import annotations\n{begins}\n{imports}'.rstrip()
    return "\n\n\n".join([top, *folders, text]) + "\n"


def test_function(parts: Parts, name: str, of: str) -> str:
    """Return the same as a test of pytest, with all that it needs inside: it can be appended to any file.

    ``of`` says which check of which target has failed.
    """
    body, good = _body(parts)
    lines = "\n".join([*body, f"assert {good}"])
    inside = [*parts.definitions, *_helpers("\n".join([lines, *parts.definitions]))]
    text, folders = _with_own_folders("\n\n".join([*inside, lines]))
    title = _text("\n".join([*parts.title, of]))
    imports = _sorted(_imports(parts, text, folders))
    whole = "\n\n".join(filter(None, [f'"""{title}\n"""', imports, *folders, text]))
    return f"def {name}():\n" + textwrap.indent(whole, "    ") + "\n"


def _body(parts: Parts) -> tuple[list[str], str]:
    """Return the lines that print both values, and the condition that holds without the fault."""
    verdict = parts.verdict
    entries = needed(parts.entries, verdict.uses, seeded=parts.seeded)
    for entry in entries:
        if entry.missing:
            raise Unwritable(entry.missing)
    if not any(entry.library for entry in needed(parts.entries, numbers_in(verdict.actual))):
        raise Unwritable("no call of the library has made the value")
    compared = verdict.actual + " " + verdict.expected
    names = Names(entries, compared)
    no_grad = any(entry.no_grad for entry in entries)
    body, last = (["torch.set_grad_enabled(False)"] if no_grad else []), 0
    for entry in entries:
        if entry.library and not entry.literal:
            last = len(body)
        body += names.lines(entry, parts.entries)
    words = {"actual": names.named(verdict.actual), "expected": names.named(verdict.expected)}
    says, condition = _FORMS[verdict.form]
    numbers = {"rtol": verdict.rtol, "atol": verdict.atol}
    if says is None:
        body += [f'print("expected", repr({words["expected"]}))', f'print("actual  ", repr({words["actual"]}))']
        text = condition.format(**words, **numbers)
        return body, text.replace("are_same(", "close(", 1) if parts.flat else text
    outcome = words["actual"]
    # A refusal counts wherever it is raised.
    last = 0 if verdict.form in ("error", "different", "names") else last
    tried = [*body[:last], *_tried(body[last:], outcome)]
    if verdict.form in _WARNED:
        caught = ["with warnings.catch_warnings(record=True) as caught:", '    warnings.simplefilter("always")']
        made = sum(len(names.lines(entry, parts.entries)) for entry in entries[: _makers(entries)])
        made += no_grad
        tried = [*body[:made], *caught, *textwrap.indent("\n".join(_tried(body[made:], outcome)), "    ").splitlines()]
    tried += [f'print("expected", {says.format(**words)!r})', 'print("actual  ", repr(outcome))']
    return tried, condition.format(**{**words, "actual": "outcome"}, **numbers)


def _makers(entries: Sequence[Entry]) -> int:
    """Return how many entries, from the first one on, make objects: a warning of theirs is not about the data."""
    count = 0
    for entry in entries:
        if not (entry.literal or entry.seeds or not entry.uses):
            break
        count += 1
    return count


def _tried(body: Sequence[str], actual: str) -> list[str]:
    inside = textwrap.indent("\n".join([*body, f"outcome = {actual}"]), "    ")
    return ["try:", *inside.splitlines(), "except Exception as error:", "    outcome = error"]


class Names:
    """The variables of a script, and the entries that stand in the statement that reads them."""

    def __init__(self, entries: Sequence[Entry], compared: str) -> None:
        self._entries = entries
        every = " ".join([*(entry.text for entry in entries), compared])
        count = {number: len(re.findall(f"<{number}>", every)) for number in numbers_in(every)}
        self._in_place = {e.number: e.text for e in entries if e.literal and count.get(e.number) == 1}
        self._copies = {int(number) for number in re.findall(r"copy<(\d+)>", every)}
        self._used = {*count}
        self._names: dict[int, str] = {}
        taken = _TAKEN | {*dir(builtins)} | {line.split()[-1] for entry in entries for line in entry.imports}
        taken |= {usual_name(thing) for entry in entries for thing in entry.sources}
        counts: dict[str, int] = {}
        for entry in entries:
            if entry.number not in self._used or entry.number in self._in_place:
                continue
            hint = re.sub(r"\W", "_", entry.hint) or "value"
            hint = f"{hint}_" if hint in taken else f"_{hint}" if hint[0].isdigit() else hint
            counts[hint] = counts.get(hint, 0) + 1
            self._names[entry.number] = hint if counts[hint] == 1 else f"{hint}_{counts[hint]}"
        self._groups: set[tuple[object, ...]] = set()

    def named(self, text: str) -> str:
        """Return a text with variables."""
        while any(int(number) in self._in_place for number in re.findall(r"<(\d+)>", text)):
            text = re.sub(r"<(\d+)>", lambda found: self._in_place.get(int(found[1]), found[0]), text)
        text = re.sub(r"copy<(\d+)>", lambda found: f"copy_of_{self._names[int(found[1])]}", text)
        return re.sub(r"<(\d+)>", lambda found: self._names[int(found[1])], text)

    def lines(self, entry: Entry, every: Sequence[Entry]) -> list[str]:
        """Return the statement of an entry."""
        if entry.number in self._in_place:
            return []
        name = self._names.get(entry.number, "")
        if entry.ranks is not None:
            lines = self._ranks(entry, every)
        else:
            text = self.named(entry.text)
            lines = [f"{name} = {text}" if name else text]
            if entry.error is not None:
                end = (
                    ["except Exception as error:", f"    {name} = error"] if name else ["except Exception:", "    pass"]
                )
                lines = ["try:", *(f"    {line}" for line in lines), *end]
        if entry.number in self._copies:
            lines.append(f"copy_of_{name} = copy.deepcopy({name})")
        return ["with torch.inference_mode():", *(f"    {line}" for line in lines)] if entry.inference else lines

    def _ranks(self, entry: Entry, every: Sequence[Entry]) -> list[str]:
        """Return the function of all ranks of a group, and its call; nothing for the ranks after the first one."""
        assert entry.ranks is not None
        name = self._names.get(entry.number, "")
        if entry.ranks[1]:
            return []
        place = every.index(entry)
        group = [one for one in every[place:] if one.ranks and one.ranks[0] == entry.ranks[0]]
        count = 1 + max(one.ranks[1] for one in group if one.ranks)
        function = f"rank_calls_{entry.number}" if self._groups else "rank_calls"
        self._groups.add(entry.ranks[0])
        lines = [f"def {function}(rank):"]
        for rank, last in enumerate(group[:count]):
            own = [
                one for one in needed(every[: every.index(last)], last.uses) if not one.ranks or one.ranks[1] == rank
            ]
            for one in own:
                if one.missing:
                    raise Unwritable(one.missing)
            names = Names([*(_alone(one) for one in own)], last.text)
            body = [line for one in own for line in names.lines(_alone(one), every)]
            lines += [
                f"    if rank == {rank}:",
                *(f"        {line}" for line in [*body, f"return {names.named(last.text)}"]),
            ]
        return [*lines, f"{name or 'values'} = on_ranks({function}, {count})[0]"]


def _alone(entry: Entry) -> Entry:
    """Return an entry of one rank as its own call."""
    if entry.ranks is None:
        return entry
    from dataclasses import replace

    return replace(entry, ranks=None)


def _helpers(text: str) -> list[str]:
    found: list[str] = []
    pending = [text]
    while pending:
        text = pending.pop()
        for name in helpers.FUNCTIONS:
            if name not in found and re.search(rf"(?<![\w.]){name}\(", text):
                found.append(name)
                pending.append(helper(name))
    return [helper(name) for name in sorted(found, key=helpers.FUNCTIONS.index)]


_ANNOTATION = re.compile(r": (?:Any|float|int|str)\b| -> [^:]+(?=:$)")


def helper(name: str) -> str:
    """Return the source of a helper, without annotations."""
    source = re.sub(r"  # noqa.*", "", inspect.getsource(getattr(helpers, name))).rstrip()
    # In a test the annotations would be evaluated, and name what is not imported there.
    return re.sub(r"^ *def .*:$", lambda line: _ANNOTATION.sub("", line[0]), source, flags=re.M)


_MODULES = ("copy", "functools", "multiprocessing", "numpy", "os", "pickle", "random", "re", "tempfile", "torch")


def _imports(parts: Parts, text: str, folders: Sequence[str]) -> set[str]:
    needs = {*parts.imports, *(("import os", "import tempfile") if folders else ())}
    for entry in parts.entries:
        needs |= {line for line in entry.imports if re.search(rf"(?<![\w.]){line.split()[-1].split('.')[-1]}\b", text)}
    needs |= {f"import {name}" for name in (*_MODULES, "warnings") if re.search(rf"(?<![\w.]){name}\.", text)}
    needs |= {"import torch.distributed", "from datetime import timedelta"} if "def on_ranks(" in text else set()
    needs |= {"from contextlib import contextmanager"} if "@contextmanager" in text else set()
    return needs


def _sorted(imports: Iterable[str]) -> str:
    """Return lines of imports in groups: the standard library, then others."""
    lines = sorted({*imports}, key=lambda line: (line.startswith("from"), line))
    groups: list[list[str]] = [[], []]
    for line in lines:
        groups[line.split()[1].partition(".")[0] not in sys.stdlib_module_names].append(line)
    return "\n\n".join("\n".join(group) for group in groups if group)


def _setting(value: str) -> str:
    """Return the value of a variable as source, without the home of who found the failure."""
    home = str(Path.home())
    inside = value.startswith(f"{home}{os.sep}") and len(home) > 1
    return f"os.path.expanduser({'~' + value[len(home) :]!r})" if inside else repr(value)


def _with_own_folders(text: str) -> tuple[str, list[str]]:
    """Return the text with new folders in place of those that were made for the run, and what defines these.

    Processes that a script starts find the folder in their environment.
    """
    made = f"{re.escape(tempfile.gettempdir())}/evalcheck-\\w+"
    names = {
        path: f"FOLDER_{number}" if number > 1 else "FOLDER"
        for number, path in enumerate(dict.fromkeys(re.findall(made, text)), 1)
    }

    def named(literal: re.Match[str]) -> str:
        name, inside = names[literal[2]], literal[3]
        return f'f"{{{name}}}{inside}"' if inside else name

    text = re.sub(rf"(['\"])({made})((?:/[^'\"\n]*)?)\1", named, text)
    lines = [f'{name} = os.environ.setdefault("REPRODUCTION_{name}", tempfile.mkdtemp())' for name in names.values()]
    return text, ["\n".join(lines)] if lines else []


def _together(definitions: Sequence[str]) -> list[str]:
    """Return definitions, of which constants that follow each other are one block."""
    blocks: list[str] = []
    for text in definitions:
        constant = not text.startswith(("def ", "class ", "@"))
        if constant and blocks and not blocks[-1].startswith(("def ", "class ", "@")):
            blocks[-1] += f"\n{text}"
        else:
            blocks.append(text)
    return blocks


def _text(title: str) -> str:
    return title.replace("\\", "\\\\").replace('"""', "'''")
