"""Sources of target files that many tests write."""

from __future__ import annotations

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
