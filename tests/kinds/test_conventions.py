"""Conventions: other legal ways to call what a record describes."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es
from pytest_evalcheck.expectations.failures import NotApplicable
from pytest_evalcheck.kinds.common.convention import rotated_conventions, supported, with_convention


class Sum:
    """A sum, which can be doubled on the way."""

    def __init__(self, factor: int = 1) -> None:
        self.total, self.factor = 0.0, factor

    def update(self, values: Any) -> None:
        self.total += float(values.double().sum())

    def scaled(self, values: Any) -> None:
        self.total += self.factor * float(values.double().sum())

    def compute(self) -> float:
        return self.total

    def reset(self) -> None:
        self.total = 0.0


def metric(*factors: int, **more: Any) -> ec.Target:
    """A metric with one convention for each factor: right for 1."""

    @ec.metric(inputs=es.values(), **more)
    def made() -> Any:
        total = Sum()

        def scaled(factor: int) -> Any:
            def update(values: Any) -> None:
                total.total += factor * float(values.double().sum())

            return ec.Convention("Values are added.", update=update)

        ways = {f"times {'abc'[index]}": scaled(factor) for index, factor in enumerate(factors)}
        return ec.Metric(update=total.update, compute=total.compute, conventions=ways)

    return made


def cell(target: ec.Target, **more: Any) -> ec.Cell:
    (found,) = ec.run(target, "cpu", select="EC233", **{"effort": "quick", **more}).cells
    return found


class TestConvention:
    @pytest.mark.parametrize("text", ["", "  ", None])
    def test_a_sentence_is_required(self, text: Any) -> None:
        with pytest.raises(TypeError, match="expected the sentence of the documentation"):
            ec.Convention(text, update=print)

    def test_one_that_changes_nothing_is_refused(self) -> None:
        with pytest.raises(TypeError, match="no fields; expected the fields of the record"):
            ec.Convention("It is so.")

    def test_one_that_is_not_supported_changes_nothing(self) -> None:
        with pytest.raises(TypeError, match="update; expected none: it is not supported"):
            ec.Convention("It is not.", supported=False, update=print)

    def test_a_field_that_the_record_lacks_is_refused_with_the_nearest_one(self) -> None:
        with pytest.raises(TypeError, match="'half' changes 'updat', which is not a field; did you mean 'update'"):
            ec.Metric(update=print, compute=print, conventions={"half": ec.Convention("So.", updat=print)})

    def test_what_is_no_convention_is_refused(self) -> None:
        with pytest.raises(TypeError, match=r"'half': <built-in function print>; expected an ec\.Convention"):
            ec.Metric(update=print, compute=print, conventions={"half": print})  # type: ignore[dict-item]


class TestUnder:
    def test_the_fields_of_the_convention_replace_those_of_the_record(self) -> None:
        record = ec.Metric(update=print, compute=print, conventions={"half": ec.Convention("So.", update=repr)})
        assert (with_convention(record, "half").update, with_convention(record, "half").compute) == (repr, print)
        assert with_convention(record, "") is record

    def test_cases_begin_with_different_ones(self) -> None:
        ways = {name: ec.Convention("So.", update=print) for name in "abc"}
        record = ec.Metric(update=print, compute=print, conventions=ways)
        assert [[name for name, _ in rotated_conventions(record, first)] for first in (0, 1, 5)] == [
            [*"abc"],
            [*"bca"],
            [*"cab"],
        ]

    def test_one_that_is_not_supported_is_not_tried(self) -> None:
        ways = {"half": ec.Convention("It is refused.", supported=False)}
        record = ec.Metric(update=print, compute=print, conventions=ways)
        assert not supported(record)
        with pytest.raises(NotApplicable, match="no other way to call it is described"):
            next(rotated_conventions(record, 0))


class TestFailures:
    def test_one_that_fails_does_not_hide_another(self) -> None:
        found = cell(metric(2, 1, 3), effort="thorough")  # a few draws may all begin with the same one
        assert found.outcome == "failed"
        assert "times-a" in found.signature
        assert "'times c'" in str(found.failure)

    def test_the_failure_names_the_convention_and_its_sentence(self) -> None:
        failure = cell(metric(1, 2)).failure
        assert failure is not None
        assert "'times b'" in failure.about
        assert "allowed by: Values are added." in failure.detail

    def test_a_replay_shows_the_same(self) -> None:
        first = cell(metric(2, 3))
        assert first.failure is not None
        blob = re.search(r"replay='(.*)'", first.failure.reproduce)
        assert blob
        again = cell(metric(2, 3), replay=blob[1])
        assert (again.outcome, again.signature) == ("failed", first.signature)

    def test_a_known_one_does_not_cover_another(self) -> None:
        known = ec.KnownFailure("doubled", example={"samples": [1.0], "batches": [[0]], "first": 0})
        found = cell(metric(2, 3, known_failures={"EC233": known}))
        assert (found.outcome, "times-b" in found.signature) == ("failed", True)

    def test_none_described_is_not_applicable(self) -> None:
        assert cell(metric()).outcome == "not applicable"


class TestMetricOf:
    def test_conventions_are_bound_to_the_object(self) -> None:
        way = ec.Convention("So.", update=lambda metric, values: metric.scaled(values))
        made = ec.Metric.of(Sum(factor=2), conventions={"scaled": way})
        with_convention(made, "scaled").update(torch.ones(3))
        assert made.compute() == 6

    def test_those_of_the_adapter_stay_where_nothing_is_called_otherwise(self) -> None:
        assert "arguments by name" in ec.Metric.of(Sum()).conventions

    def test_those_of_the_adapter_do_not_call_past_the_author(self) -> None:
        assert not ec.Metric.of(Sum(), update=lambda metric, values: metric.update(values + 1)).conventions
