"""Write docs/device-history.md and docs/device-rules.md from the tables of historical bugs and of rules.

python docs/make_devices.py
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from fixtures import device_rules  # noqa: E402
from fixtures.device_history import table  # noqa: E402
from fixtures.device_history.specimen import Specimen  # noqa: E402
from fixtures.device_rules import Rule  # noqa: E402
from pytest_evalcheck.devices.rules import op_overrides  # noqa: E402

COMMAND = "Written by `python docs/make_devices.py`"
ABOUT = """\
on MPS, that users reported from real devices. Each is rebuilt in a few lines. `tests/devices/test_device_history.py`
runs it on the simulated device, where it raises what the report says, and its correction, which runs there without an
error or a warning. On the CPU both run. Where PyTorch has other words by now, its words of today are shown. The last
column is the check that finds the bug where such code is part of a metric."""
SOURCES = "https://github.com/pytorch/pytorch/blob/main/"


def history() -> str:
    """The page of historical bugs."""
    libraries = Counter(each.library for each in table.SPECIMENS)
    kinds = Counter(each.device.partition(":")[0] for each in table.SPECIMENS)
    lines = ["# Device bugs of public trackers", "", f"{COMMAND} from `fixtures/device_history`.", ""]
    lines += [
        f"{len(table.SPECIMENS)} bugs of {len(libraries)} projects, {kinds['cuda']} on CUDA and {kinds['mps']} {ABOUT}",
        "",
    ]
    for module in table.MODULES:
        specimens = [each for each in table.SPECIMENS if each.bug.__module__ == module.__name__]
        lines += [
            f"## {module.__name__.rpartition('.')[2].replace('_', ' ').capitalize()}",
            "",
            str(module.__doc__),
            "",
        ]
        lines += ["| report | device | what went wrong | what is raised | check |", "| --- | --- | --- | --- | --- |"]
        lines += [_row(each) for each in specimens]
        lines.append("")
    return "\n".join(lines)


def _row(specimen: Specimen) -> str:
    report = f"[{specimen.library}#{specimen.number}]({specimen.issue})"
    if specimen.release:
        report += f" ({specimen.release})"
    shown = specimen.reported if not specimen.reworded else _readable(specimen.message)
    raised = f"`{specimen.error.__name__}`: {_cell(shown)}"
    if specimen.silent:
        raised = f"nothing: {specimen.silent}. Under simulation an `{specimen.error.__name__}`"
    return f"| {report} | {specimen.device} | {_cell(specimen.went_wrong)} | {raised} | {specimen.found_by} |"


def _readable(expression: str) -> str:
    """A regular expression as text: what it leaves open is an ellipsis."""
    text = re.sub(r"\\\\b|\((\w+)\|[^)]*\)(\(\\\.out\)\?)?", lambda found: found.group(1) or "", expression)
    return re.sub(r"\.\*", " ... ", text).replace("\\d", "N").replace("\\", "").replace("  ", " ").strip()


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("`", "'").replace("\n", " ")


def rules() -> str:
    """The page of rules."""
    lines = ["# The rules of simulated devices", "", f"{COMMAND} from `fixtures/device_rules.py`. {INTRODUCTION}", ""]
    for title, members in device_rules.TABLES.items():
        lines += [f"## {title}", "", "| rule | example | on the device | where | source in PyTorch |"]
        lines += ["| --- | --- | --- | --- | --- |", *(_rule(each) for each in members), ""]
    lines += ["## Operators that differ from the general rule", "", "By name, as in `torch.ops`.", ""]
    lines += ["| what is different | operators | source in PyTorch |", "| --- | --- | --- |"]
    lines += [f"| {what} | {_names(names)} | {_source(source)} |" for what, names, source in OPERATORS]
    lines.append("")
    return "\n".join(lines)


INTRODUCTION = """\
Every rule is a test, with an example that runs: `x` is four floats on the device `d`, `i` two indices on it, `h` four
floats on the CPU. The source is the place in PyTorch that decides."""


OPERATORS = (
    (
        "the first tensor decides; the others are indices, on its device or on the CPU",
        op_overrides.INDEXED,
        device_rules.INDEXING,
    ),
    ("the host waits, as a value or a size is read", op_overrides.SYNCS, "aten/src/ATen/native/cuda"),
    (
        "an index on the CPU is copied to the device, and the host waits where a mask there is an index",
        op_overrides.READS_INDICES,
        "aten/src/ATen/native/IndexingUtils.h, expandTensors; TensorAdvancedIndexingUtils.h, canDispatchToMaskedFill",
    ),
    (
        "a CPU tensor without dimensions is refused too, as by all whose kernel for CUDA has a generated check",
        op_overrides.STRICT,
        "aten/src/ATen/native/native_functions.yaml: a generated check is where there is no `device_check: NoCheck`",
    ),
    *(
        (
            f"{' and '.join(f'`{each}`' for each in arguments.split())} may be on any device",
            [name for name, free in op_overrides.FREE.items() if free == arguments],
            "aten/src/ATen/native: TensorShape.cpp, Resize.cpp, RangeFactories.cpp, Fill.cpp, cuda/Indexing.cu",
        )
        for arguments in sorted(set(op_overrides.FREE.values()))
    ),
    ("tensors on several devices are taken", op_overrides.MIXED, device_rules.PACKED),
)
"""Differences of the simulation, with their operators and source."""


def _names(names: Iterable[str]) -> str:
    return " ".join(f"`{name.removeprefix('aten::')}`" for name in sorted(names))


def _rule(rule: Rule) -> str:
    outcome = f"is on `{rule.gives.format(d='d')}`" if rule.refused is None else _refusal(*rule.refused)
    return f"| {rule.name} | `{_cell(rule.example)}` | {outcome} | {', '.join(rule.devices)} | {_source(rule.source)} |"


def _refusal(kind: type[Exception], text: str) -> str:
    return f"`{kind.__name__}`: {_cell(text.format(d='d', k='d'))}"


def _source(source: str) -> str:
    path, _, rest = source.partition(", ")
    if not re.fullmatch(r"[\w./-]+\.\w+", path):
        return source
    return f"[{path.rpartition('/')[2]}]({SOURCES}{path})" + (f", {rest}" if rest else "")


def pages() -> dict[str, str]:
    """Both pages by name."""
    return {"device-history.md": history(), "device-rules.md": rules()}


if __name__ == "__main__":
    for name, text in pages().items():
        (ROOT / "docs" / name).write_text(text, encoding="utf-8")
