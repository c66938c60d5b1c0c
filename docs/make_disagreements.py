"""Write docs/disagreements.md: the same samples in several libraries, beside the definition of each metric.

python docs/make_disagreements.py            # write the page
python docs/make_disagreements.py --check    # end with 1 where the page is not what the libraries answer
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
os.environ.setdefault("KERAS_BACKEND", "torch")

from fixtures.disagreements import comparison  # noqa: E402
from fixtures.disagreements.comparison import Cell, Raised, Result, Undefined  # noqa: E402
from fixtures.disagreements.notes import NOTES  # noqa: E402
from fixtures.disagreements.table import BY_MODULE  # noqa: E402

PAGE = ROOT / "docs" / "disagreements.md"
PACKAGES = {
    "torchmetrics": "torchmetrics",
    "scikit-learn": "scikit-learn",
    "torcheval": "torcheval",
    "keras": "keras",
    "ignite": "pytorch-ignite",
    "MONAI": "monai",
    "evaluate": "evaluate",
    "scipy": "scipy",
    "sacrebleu": "sacrebleu",
    "nltk": "nltk",
    "rouge_score": "rouge_score",
}
"""The distribution of each column."""
HEAD = """\
# Libraries beside each other

The same samples, ordinary and edge, in several libraries, beside the definition of each metric in float64. Written by
`python docs/make_disagreements.py` from `fixtures/disagreements`; a test computes all of it again.

**How to read it.** Each number is what a new object answers to one batch. A sentence lists the cases in which all
libraries agree with the definition, which is our own code of the formula; in brackets those that have such an option,
where not all do. The others are rows of a table, with a column for each library.

* Where the definition has no value, its column says why (0/0, no sample, a NaN). A library's answer is then an error,
  shown by its type, `NaN`, a number with a warning *(warned)*, or an ordinary number without one, in italics.
* Where it has one, a number that differs has a note: another definition that the documentation states (*documented*) or
  does not state (*not documented*), *rounding* in float32, or **wrong** by its own definition, in bold, with a finding.
* `-` means that the library has no such option. A number that agrees, up to the rounding of float32,
  is shown as the definition's.
* `evaluate` loads its metrics from a hub. What is shown are two that are defined in this repository over scikit-learn:
  their numbers pass through its Arrow columns."""


def results() -> dict[str, list[Result]]:
    """Every comparison, by what its module is about.

    Raises:
        SystemExit: for a disagreement without a note, a note without a disagreement, or no note for a title.
    """
    import torch

    before = torch.is_warn_always_enabled()
    # PyTorch gives some warnings once in a process; whether one comes must not depend on what ran before.
    torch.set_warn_always(True)
    try:
        made = {about: [comparison.compare(each) for each in comparisons] for about, comparisons in BY_MODULE.items()}
    finally:
        torch.set_warn_always(before)
    problems = [problem for each in made.values() for result in each for problem in result.problems]
    titles = {result.comparison.title for each in made.values() for result in each}
    problems += [f"a note about {title}, which no comparison is called" for title in sorted(NOTES.keys() - titles)]
    if problems:
        raise SystemExit("\n".join(problems))
    return made


def page(made: dict[str, list[Result]]) -> str:
    """The whole page."""
    lines = [HEAD, "", *_summary([result for each in made.values() for result in each])]
    for about, part in made.items():
        lines += [f"## {about.rstrip('.')}", ""]
        for result in part:
            lines += _section(result)
    return "\n".join(lines)


def _summary(every: Sequence[Result]) -> Iterable[str]:
    cells = [cell for result in every for cell in result.cells.values()]
    columns = [name for name in PACKAGES if any(cell.library == name for cell in cells)]
    undefined = sum(cell.sort in comparison.UNDEFINED for cell in cells)
    defined = len(cells) - undefined
    disagreeing = sum(cell.sort in comparison.SORTS for cell in cells)
    cases = sum(len(result.comparison.cases) for result in every)
    silent = sum(cell.sort == comparison.SILENT for cell in cells)
    yield (
        f"**{len(every)} metrics, {len(columns)} libraries, {cases} cases, {len(cells)} cells.** Where the definition "
        f"has a value ({defined} cells), {defined - disagreeing} agree and {disagreeing} do not. Where it has none "
        f"({undefined} cells), {silent} are an ordinary number without a warning."
    )
    yield ""
    sorts = (comparison.AGREES, *comparison.SORTS, *comparison.UNDEFINED)
    head = [f"no value: {sort}" if sort in comparison.UNDEFINED else sort for sort in sorts]
    yield "| library | metrics | cells | " + " | ".join(head) + " |"
    yield "| --- " * (3 + len(sorts)) + "|"
    for name in columns:
        own = Counter(str(cell.sort) for cell in cells if cell.library == name)
        metrics = sum(name in result.comparison.libraries for result in every)
        label = f"{name} {version(PACKAGES[name])}"
        yield f"| {label} | {metrics} | {sum(own.values())} | " + " | ".join(str(own[sort]) for sort in sorts) + " |"
    both = Counter(str(cell.sort) for cell in cells)
    yield f"| all | {len(every)} | {len(cells)} | " + " | ".join(str(both[sort]) for sort in sorts) + " |"
    yield ""
    yield "Wrong by their own definition:"
    yield ""
    for result in every:
        for note in result.comparison.notes:
            if note.sort == comparison.WRONG:
                finding = note.why[note.why.index("[Finding]") :]
                yield f"* {result.comparison.title}, {note.library}: {finding}"
    yield ""


def _section(result: Result) -> Iterable[str]:
    made = result.comparison
    yield f"### {made.title}"
    yield ""
    yield f"{made.formula} ([source]({made.source}))"
    yield ""
    calls = "; ".join(f"{name}: `{library.name}`" for name, library in made.libraries.items())
    yield f"{calls}."
    yield ""
    rows, alike = [], []
    for case in made.cases:
        answers = [result.cells.get((case, name)) for name in made.libraries]
        right = _defined(result.defined[case])
        if all(cell is None or cell.sort == comparison.AGREES for cell in answers):
            having = [name for name, cell in zip(made.libraries, answers, strict=True) if cell is not None]
            alike.append(f"{case}: {right}" + (f" ({', '.join(having)})" if len(having) < len(answers) else ""))
        else:
            rows.append(
                f"| {case} | {right} | " + " | ".join(_cell(cell, right, made.notes) for cell in answers) + " |"
            )
    if alike:
        yield f"All agree: {'; '.join(alike)}."
        yield ""
    if rows:
        yield "| case | definition | " + " | ".join(made.libraries) + " |"
        yield "| --- " * (2 + len(made.libraries)) + "|"
        yield from rows
        yield ""
    for number, note in enumerate(made.notes, 1):
        yield f"{number}. {note.library}, {note.sort}. {note.why}"
    if made.notes:
        yield ""


def _defined(value: Any) -> str:
    return f"({value.why})" if isinstance(value, Undefined) else _numbers(value, 5 if len(value) < 4 else 3)


def _cell(cell: Cell | None, right: str, notes: Sequence[Any]) -> str:
    """An answer. Its last digits in float32 depend on the processor, so the page must not show them."""
    if cell is None:
        return "-"
    if cell.sort == comparison.AGREES:
        return right
    shown = f"`{cell.value.type}`" if isinstance(cell.value, Raised) else _numbers(cell.value, 4) or "nothing"
    if cell.sort == comparison.SILENT:
        return f"*{shown}*"
    if cell.sort == comparison.WARNED:
        return f"{shown} (warned)"
    if cell.note is None:
        return shown
    shown = f"**{shown}**" if cell.sort == comparison.WRONG else shown
    return f"{shown} [{notes.index(cell.note) + 1}]"


def _numbers(values: Sequence[float], digits: int) -> str:
    return " ".join(_number(value, digits) for value in values)


def _number(value: float, digits: int) -> str:
    if math.isnan(value):
        return "NaN"
    # What is 0 up to the rounding of float32 is another tiny number on another processor.
    return f"{0.0 if abs(value) < comparison.ABSOLUTE else value:.{digits}g}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check the page; 0 where it is right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the page instead of writing it")
    chosen = parser.parse_args(arguments)
    text = page(results())
    if not chosen.check:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    before, now = (PAGE.read_text(encoding="utf-8") if PAGE.exists() else "").splitlines(), text.splitlines()
    other = [line for line in now if line not in set(before)] + [line for line in before if line not in set(now)]
    for line in other[:20]:
        print(line)
    return int(before != now)


if __name__ == "__main__":
    sys.exit(main())
