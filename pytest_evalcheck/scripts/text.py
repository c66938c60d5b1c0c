"""The text of a script: imports, the calls in their order, and the comparison."""

from __future__ import annotations

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
from pytest_evalcheck.scripts.inlining import in_place, with_texts, without_brackets
from pytest_evalcheck.scripts.literals import numbers_in, usual_name
from pytest_evalcheck.scripts.slicing import World, with_worlds
from pytest_evalcheck.scripts.tape import Step

_BEGINS = '''
import sys
import traceback


def another_error(kind, error, trace):
    """End with 2 for any error but the one that this script is about, also where an import fails."""
    traceback.print_exception(kind, error, trace)
    sys.exit(2)


sys.excepthook = another_error
'''
_ENDS = """
if __name__ == "__main__":
    sys.exit(main())
"""
_WARNED = f'any(re.search(r"{ABOUT_NONFINITE}", str(one.message), re.I) for one in caught)'
_TOLD = "any(not issubclass(one.category, (DeprecationWarning, FutureWarning)) for one in caught)"


@dataclass(frozen=True)
class Verdict:
    """How a script ends: what it compares."""

    actual: str
    expected: str
    rtol: float
    atol: float
    form: str = "same"
    """``same``: both must be equal. ``visible``: the actual value must hold a NaN, an infinity or an error, or there
    must be a warning of one; ``warned``: or any warning. ``raises``: the actual value must not be an error of the type
    that ``expected`` names. ``refused``: it must be an error. ``named``: an error must hold the word ``expected``.
    ``passed on``: it must be, or come from, the error ``expected`` of a metric function. ``different``: not equal.
    ``noticed``: not equal, not there, or an error. ``counted``: not equal, or an error of any call."""

    changed: bool = False
    """Whether the actual value is an input, which must be as it was written."""

    flat: bool = False
    """Whether the expected value is one number, or one tensor or array of them."""

    no_errors: bool = False
    """Whether an error in place of one of the values is another error."""

    @property
    def uses(self) -> frozenset[int]:
        """The steps whose results are compared."""
        return numbers_in(self.actual + self.expected)


@dataclass(frozen=True)
class Parts:
    """What a script is made of."""

    title: Sequence[str]
    """The lines of its docstring."""
    definitions: Sequence[str]
    imports: frozenset[str]
    """What the definitions need."""
    steps: Sequence[Step]
    verdict: Verdict
    worlds: Mapping[int, World] = field(default_factory=dict)
    without_gradients: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that are set before anything is imported."""

    @property
    def all_steps(self) -> list[Step]:
        """The steps of the script and those of its ranks."""
        return with_worlds(self.steps, self.worlds)


def script(parts: Parts) -> str:
    """The whole script; its exit code is 1 while the fault is there, 0 without it, and 2 for any other error."""
    body, good = _body(parts)
    main = "def main():\n" + textwrap.indent("\n".join([*body, f"return 0 if {good} else 1"]), "    ")
    helped = map(_helper, _functions(parts))
    text, folders = _with_own_folders(
        "\n\n\n".join([*_together(parts.definitions), *helped, *_worlds(parts), main, _ENDS.strip()])
    )
    imports = _sorted(_needs(parts, folders) - ({"import os"} if parts.environment else set()))
    begins = _BEGINS.replace("import sys\n", "import os\nimport sys\n") if parts.environment else _BEGINS
    begins += "".join(f"os.environ[{name!r}] = {_setting(value)}\n" for name, value in parts.environment.items())
    title = "\n".join([*parts.title, "Exit code 1: the fault is there; 0: it is not."])
    top = f'"""{_text(title)}\n"""\n\nfrom __future__ import annotations\n{begins}\n{imports}'.rstrip()
    return "\n\n\n".join([top, *folders, text]) + "\n"


def _setting(value: str) -> str:
    """The value of a variable as source, without the home of who found the failure."""
    home = str(Path.home())
    inside = value.startswith(f"{home}{os.sep}") and len(home) > 1
    return f"os.path.expanduser({'~' + value[len(home) :]!r})" if inside else repr(value)


def test_function(parts: Parts, name: str, of: str) -> str:
    """The same as a test of pytest, with all that it needs inside: it can be appended to any file.

    ``of`` says which check of which target has failed.
    """
    body, good = _body(parts)
    inside = [*parts.definitions, *map(_helper, _functions(parts)), *_worlds(parts)]
    text, folders = _with_own_folders("\n\n".join([*inside, "\n".join([*body, f"assert {good}"])]))
    title = _text("\n".join([*parts.title, of]))
    whole = "\n\n".join(filter(None, [f'"""{title}\n"""', _sorted(_needs(parts, folders)), *folders, text]))
    return f"def {name}():\n" + textwrap.indent(whole, "    ") + "\n"


def _with_own_folders(text: str) -> tuple[str, list[str]]:
    """The text with folders of its own in place of those that the suite made for its run, and what defines these.

    Processes that a script starts find the folder in their environment.
    """
    made = f"{re.escape(tempfile.gettempdir())}/evalcheck-\\w+"
    names = {
        path: f"FOLDER_{number}" if number > 1 else "FOLDER"
        for number, path in enumerate(dict.fromkeys(re.findall(made, text)), 1)
    }

    def own(literal: re.Match[str]) -> str:
        name, inside = names[literal[2]], literal[3]
        return f'f"{{{name}}}{inside}"' if inside else name

    text = re.sub(rf"(['\"])({made})((?:/[^'\"\n]*)?)\1", own, text)
    lines = [f'{name} = os.environ.setdefault("REPRODUCTION_{name}", tempfile.mkdtemp())' for name in names.values()]
    return text, ["\n".join(lines)] if lines else []


def _together(definitions: Sequence[str]) -> list[str]:
    """Definitions, of which constants that follow each other are one block."""
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


def _functions(parts: Parts) -> list[str]:
    compares = {
        "same": ["close" if parts.verdict.flat else "same"],
        "different": ["same"],
        "noticed": ["same"],
        "counted": ["same"],
        "visible": ["visible"],
        "warned": ["visible"],
    }
    found = [*compares.get(parts.verdict.form, []), *(["on_ranks"] if parts.worlds else [])]
    found += ["passed_on"] if parts.verdict.form == "passed on" else []
    texts = "\n".join(step.text for step in parts.steps)
    while more := [
        name for name in helpers.FUNCTIONS if name not in found and re.search(rf"(?<![\w.]){name}\(", texts)
    ]:
        found += more
        texts = "\n".join(_helper(name) for name in more)
    return sorted(found, key=helpers.FUNCTIONS.index)


def _needs(parts: Parts, folders: Sequence[str]) -> set[str]:
    needs = {*parts.imports, *(("import os", "import tempfile") if folders else ())}
    needs |= {line for step in parts.all_steps for line in step.imports}
    needs |= {line for name in _functions(parts) for line in helpers.NEEDS.get(name, ())}
    needs |= {"visible": {"import re", "import warnings"}, "warned": {"import warnings"}}.get(parts.verdict.form, set())
    torch = parts.without_gradients or any(step.inference for step in parts.all_steps)
    return needs | ({"import torch"} if torch else set())


def _body(parts: Parts) -> tuple[list[str], str]:
    """The lines that print both values, and the condition that holds without the fault."""
    verdict = parts.verdict
    names, used = _names(parts.steps, verdict.uses), _used(parts.steps) | verdict.uses
    inlined = in_place(parts.steps, verdict.uses)
    body = ["torch.set_grad_enabled(False)"] if parts.without_gradients else []
    seen: set[int] = set()
    before, last, making = 0, 0, True
    for step in parts.steps:
        last = len(body) if step.library else last
        if step.world is not None and step.world[0] not in seen:
            seen.add(step.world[0])
            count = len(parts.worlds[step.world[0]].ranks)
            body.append(f"values = on_ranks({_world_name(step.world[0], parts)}, {count})")
        if step.world is not None:
            body.append(f"{names[step.number]} = values[{step.world[1]}]")
        else:
            body += _lines(step, names, used, inlined)
        making = making and (step.creates or step.seeds or bool(step.literal))
        before = len(body) if making else before
    actual, expected = (_named(text, names, inlined) for text in (verdict.actual, verdict.expected))
    if verdict.form in _ERRORS:
        text, good = _ERRORS[verdict.form]
        words = {"actual": actual, "name": expected}
        tried = [*body, f"outcome = {actual}"]
        if verdict.form in ("refused", "counted"):
            tried = _tried(body, actual)
        elif verdict.form == "noticed":
            tried = [*body[:last], *_tried(body[last:], actual)]  # an error before it is another error
        return [*tried, f'print("expected", {text.format(**words)!r})', 'print("actual  ", repr(outcome))'], (
            good.format(name=repr(verdict.expected), expected=expected, rtol=verdict.rtol, atol=verdict.atol)
        )
    if verdict.form in ("visible", "warned"):
        # What a constructor warns of is not about the data.
        steps = body[before:]
        caught = ["with warnings.catch_warnings(record=True) as caught:", '    warnings.simplefilter("always")']
        body = [*body[:before], *caught]
        body += textwrap.indent("\n".join(_tried(steps, actual)), "    ").splitlines()
        warned = _WARNED if verdict.form == "visible" else _TOLD
        body += ['print("expected", "NaN, infinity, an error or a warning")', 'print("actual  ", repr(outcome))']
        return body, f"visible(outcome) or {warned}"
    if verdict.form == "different":
        body += [f'print("expected", "another result than", repr({expected}))', f'print("actual  ", repr({actual}))']
        return body, f"not same({actual}, {expected}, rtol={verdict.rtol!r}, atol={verdict.atol!r})"
    for value in (actual, expected) if verdict.no_errors else ():
        if re.fullmatch(r"\w+(\[[^][]+\])?", value):
            body += [f"if isinstance({value}, Exception):", f"    raise {value}"]
    body += [f'print("expected", repr({expected}))', f'print("actual  ", repr({actual}))']
    function = "close" if verdict.flat else "same"
    return body, f"{function}({actual}, {expected}, rtol={verdict.rtol!r}, atol={verdict.atol!r})"


def _tried(body: Sequence[str], actual: str) -> list[str]:
    """The lines with their outcome: the value, or the error that any of them raises."""
    inside = textwrap.indent("\n".join([*body, f"outcome = {actual}"]), "    ")
    return ["try:", *inside.splitlines(), "except Exception as error:", "    outcome = error"]


_ERRORS = {
    "raises": ("another result than {name}", "type(outcome).__name__ != {name}"),
    "refused": ("an error", "isinstance(outcome, Exception)"),
    "passed on": ("the {name} of the metric function", "passed_on(outcome, {name})"),
    "noticed": ("an error, or another result than {name}", "not same(outcome, {expected}, rtol={rtol}, atol={atol})"),
    "counted": (
        "an error, or another result than {name}",
        "isinstance(outcome, Exception) or not same(outcome, {expected}, rtol={rtol}, atol={atol})",
    ),
    "named": ("no error, or one that names {name}", "not isinstance(outcome, Exception) or {name} in str(outcome)"),
}
"""By form: what is expected, and when that holds."""


def _worlds(parts: Parts) -> list[str]:
    """A function a group of processes: what each rank does."""
    blocks = []
    for group, world in parts.worlds.items():
        lines = [f"def {_world_name(group, parts)}(rank):", '    """What one process of the group does."""']
        for rank, steps in enumerate(world.ranks):
            names, used, inlined = _names(steps), _used(steps), in_place(steps)
            body = [line for step in steps[:-1] for line in _lines(step, names, used, inlined)]
            body.append(f"return {_named(steps[-1].text, names, inlined)}")
            if rank < len(world.ranks) - 1:
                lines += [f"    if rank == {rank}:", *(f"        {line}" for line in body)]
            else:
                lines += [f"    {line}" for line in body]
        blocks.append("\n".join(lines))
    return blocks


def _world_name(group: int, parts: Parts) -> str:
    index = list(parts.worlds).index(group)
    return "world" if index == 0 else f"world_{index + 1}"


def _lines(step: Step, names: Mapping[int, str], used: frozenset[int], inlined: Mapping[int, str]) -> list[str]:
    if step.number in inlined:
        return []
    lines = _statement(step, names, used, inlined)
    return ["with torch.inference_mode():", *(f"    {line}" for line in lines)] if step.inference else lines


def _statement(step: Step, names: Mapping[int, str], used: frozenset[int], inlined: Mapping[int, str]) -> list[str]:
    text = without_brackets(_named(step.text, names, inlined))
    name = names.get(step.number, "")
    needed = step.keeps and step.number in used
    if step.error is not None and needed:
        return ["try:", f"    {name} = {text}", "except Exception as error:", f"    {name} = error"]
    if step.error is not None:
        return ["try:", f"    {text}", "except Exception:", "    pass"]
    return [f"{name} = {text}" if needed else text]


def _used(steps: Iterable[Step]) -> frozenset[int]:
    return frozenset().union(*(step.uses for step in steps))


def _named(text: str, names: Mapping[int, str], inlined: Mapping[int, str]) -> str:
    while any(int(number) in inlined for number in re.findall(r"<(\d+)>", text)):
        text = with_texts(text, inlined)
    return re.sub(r"<(\d+)>", lambda match: names[int(match[1])], text)


def _names(steps: Sequence[Step], compared: Iterable[int] = ()) -> dict[int, str]:
    """By step: the name of its variable, which no other has."""
    counts: dict[str, int] = {}
    names = {}
    inlined = in_place(steps, compared)
    taken = _TAKEN | {line.split()[-1] for step in steps for line in step.imports}
    taken |= {usual_name(thing) for step in steps for thing in step.sources}
    for step in steps:
        if not step.keeps or step.number in inlined:
            continue
        hint = re.sub(r"\W", "_", step.hint) or "value"
        hint = f"{hint}_" if hint in taken else f"_{hint}" if hint[0].isdigit() else hint
        counts[hint] = counts.get(hint, 0) + 1
        names[step.number] = hint if counts[hint] == 1 else f"{hint}_{counts[hint]}"
    return names


_ANNOTATION = re.compile(r": (?:Any|float|int|str)\b| -> [^:]+(?=:$)")
_TAKEN = {
    *("same", "close", "visible", "on_ranks", "world", "values", "rank", "main", "error", "caught", "outcome"),
    *("input", "lambda", "in", "is", "class", "sys", "numpy", "torch", "re", "os", "pickle", "warnings", "copy"),
}


def _helper(name: str) -> str:
    source = re.sub(r"  # noqa.*", "", inspect.getsource(getattr(helpers, name))).rstrip()
    # In a test the annotations would be evaluated, and name what is not imported there.
    return re.sub(r"^ *def .*:$", lambda line: _ANNOTATION.sub("", line[0]), source, flags=re.M)


def _sorted(lines: Iterable[str]) -> str:
    """Imports: those of the standard library, and a blank line before all others."""
    own = _joined(sorted(set(lines), key=lambda line: (line.startswith("from"), line)))
    standard = [line for line in own if re.split(r"[ .]", line)[1] in sys.stdlib_module_names]
    others = [line for line in own if line not in standard]
    return "\n\n".join("\n".join(block) for block in (standard, others) if block)


def _joined(lines: Iterable[str]) -> list[str]:
    """One line for all that is imported from a module, where that is not too long."""
    joined: list[str] = []
    for line in lines:
        start, _, name = line.partition(" import ")
        last = joined[-1] if joined else ""
        if name and last.startswith(f"{start} import ") and len(last) + len(name) < _WIDTH:
            joined[-1] = f"{last}, {name}"
        else:
            joined.append(line)
    return joined


_WIDTH = 110
