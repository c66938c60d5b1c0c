"""Target files in a folder of their own, and pytest over them."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

import pytest

HEADER = """
import pytest_evalcheck as ec
from hypothesis import strategies as st
from pytest_evalcheck import strategies as es

numbers = es.samples(st.integers(0, 9), collate=lambda rows: ([float(row) for row in rows],), name="numbers",
                     wrong=lambda row: row + 1, contrast=(1, 2))

class Mean:
    def __init__(self):
        self.reset()
    def reset(self):
        self.total, self.count = 0.0, 0
    def update(self, values):
        self.total += sum(values)
        self.count += len(values)
    def compute(self):
        return self.total / self.count if self.count else float("nan")

class MeanOfMeans(Mean):
    def update(self, values):
        self.total += sum(values) / len(values)
        self.count += 1
"""

CORRECT = """
@ec.metric(inputs=numbers)
def mean(device):
    return ec.Metric.of(Mean())
"""

BROKEN = """
@ec.metric(inputs=numbers)
def mean_of_means(device):
    return ec.Metric.of(MeanOfMeans())
"""


@dataclass
class Suite:
    """Target files in a folder of their own, and pytest over them."""

    pytester: pytest.Pytester

    def write(self, *sources: str, name: str = "evalcheck_example.py", header: str = HEADER) -> Suite:
        body = header + "".join(textwrap.dedent(source) for source in sources)
        (self.pytester.path / name).write_text(body, encoding="utf-8")
        return self

    def run(self, *arguments: str, code: int | None = None, evalcheck: bool = True) -> Result:
        """pytest in this process, without the plugins that change its order or its workers."""
        options = ["-p", "no:randomly", "-p", "no:cacheprovider", *(["--evalcheck"] if evalcheck else [])]
        return self._result(self.pytester.runpytest_inprocess(*options, *arguments), code)

    def spawn(self, *arguments: str, code: int | None = None) -> Result:
        """pytest in a process of its own."""
        return self._result(self.pytester.runpytest_subprocess("-p", "no:randomly", *arguments), code)

    @staticmethod
    def _result(made: pytest.RunResult, code: int | None) -> Result:
        text = made.stdout.str()
        ended = " in " in (text.splitlines() or [""])[-1]
        result = Result(made.ret, text, made.stderr.str(), made.parseoutcomes() if ended else {})
        if code is not None:
            assert made.ret == code, result.text + result.errors
        return result


@dataclass
class Result:
    code: int
    text: str
    errors: str
    outcomes: dict[str, int]

    @property
    def everything(self) -> str:
        return self.text + self.errors

    @property
    def reproduce(self) -> list[str]:
        """The commands that failures print, each once."""
        return list(dict.fromkeys(re.findall(r"^reproduce +(.*)$", self.text, re.M)))

    def said(self, *texts: str) -> Result:
        for text in texts:
            assert text in self.everything, f"{text!r} is not in:\n{self.everything}"
        return self

    def never_said(self, *texts: str) -> Result:
        for text in texts:
            assert text not in self.everything, f"{text!r} is in:\n{self.everything}"
        return self
