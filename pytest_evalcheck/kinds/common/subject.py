"""Subjects: what a check receives, whatever the kind of its target."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from pytest_evalcheck.expectations.comparison import Tolerance
from pytest_evalcheck.expectations.failures import NotApplicable
from pytest_evalcheck.kinds.common.convention import rotated_conventions, with_convention
from pytest_evalcheck.kinds.common.intervals import SIZE, Interval
from pytest_evalcheck.strategies.samples import Sample, SampleStrategy

if TYPE_CHECKING:
    from typing_extensions import Self

Rows = Sequence[Sample]


@dataclass(frozen=True)
class Subject:
    """The thing under test: new objects on demand, and the samples to give them."""

    kind: ClassVar[str] = ""
    """The name of its kind. A check is about the kinds of the subjects that its first parameter is annotated with."""

    kinds: ClassVar[tuple[str, ...]] = ()
    """The names of the kinds whose subjects derive from a class that has no kind of its own."""

    build: Callable[..., Any]
    """A new record; of a target with options, with those that are given by keyword."""
    inputs: SampleStrategy
    device: str = "cpu"
    reference: Callable[[Rows], Any] | None = None
    tolerance: Tolerance = field(default_factory=Tolerance)
    on_device: Callable[[str], Any] | None = None
    """The same subject on another device, where the target can be built there."""
    ledger: Any = None
    """The transfers between devices, where they are counted."""
    budget: Mapping[str, int] | None = field(default_factory=dict)
    """Transfers that scoring one batch may cost on that device, by name; None is no limit."""
    elsewhere: Callable[[str, Any], list[Any]] | None = None
    """``elsewhere(name, argument)``: the results of a method of such a subject in two processes, in which texts have
    different hash values. The argument and the results are plain data."""
    changed: tuple[str, ...] = ()
    """Changes of what is `shared` by the example call before the checks, a line each."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of the kinds that a check of this subject is about."""
        return (cls.kind,) if cls.kind else cls.kinds

    def plain_result(self, rows: Rows) -> Any:
        """Return the result for these samples of one example call, or the error.

        Raises:
            NotApplicable: where the kind has no such call.
        """
        del rows
        raise NotApplicable(f"targets of kind {self.kind} have no example call")

    def by_convention(self, first: int) -> Iterator[tuple[str, str, Self]]:
        """Yield the conventions of the record from one of them on: name, sentence, and the subject that is called so.

        Raises:
            NotApplicable: where there are none.
        """
        for name, sentence in rotated_conventions(self.build(), first):
            yield name, sentence, replace(self, build=_called_by(self.build, name))

    def rebuilt_on(self, device: str) -> Any:
        """Return a new subject of the same target on a device.

        Raises:
            NotApplicable: where the factory takes no device.
        """
        if self.on_device is None:
            raise NotApplicable("its factory takes no device")
        return self.on_device(device)

    def shared(self) -> Any:
        """Return what all objects of the target share and no call may change, such as a configuration, or None."""
        return None

    def data_in_words(self, rows: Rows) -> str:  # noqa: ARG002
        """Describe what the target is given beside arguments, where reading it may be the mistake; empty elsewhere."""
        return ""

    def remedies(self, rows: Rows) -> Iterator[tuple[str, Callable[[], Any]]]:
        """Yield changes of the description that may mend a failing example call, and the call with the change."""
        del rows
        yield from ()


class OrdinarySubject(Subject):
    """A subject whose result for a few samples is one call; metrics have two, and a check of their own."""

    kinds: ClassVar[tuple[str, ...]] = ("decoder", "engine", "loop", "scorer", "wrapper")

    def result_of_nothing(self, rows: Rows) -> Any:
        """Return the result for no samples, or the error, where these may hold nothing that counts; else None."""
        del rows
        return None


class EstimatingSubject(Subject):
    """A subject whose results may hold values with errors or intervals beside them."""

    kinds: ClassVar[tuple[str, ...]] = ("loop", "metric", "scorer")
    trials: ClassVar[int] = 600
    """The most data sets from which the coverage of an interval is counted."""
    size: ClassVar[int] = SIZE
    """The number of samples in each of them."""

    def intervals(self) -> Sequence[Interval]:
        """Return the intervals of its record.

        Raises:
            NotApplicable: where there are none.
        """
        found: Sequence[Interval] = self.build().intervals
        if not found:
            raise NotApplicable("no value has an error: intervals=[ec.Interval(value=..., error=...)]")
        return found

    def estimates(self, rows: Rows, size: int | None = None) -> Any:
        """Return the result for these samples, in batches of ``size`` where it takes batches, or the error."""
        raise NotImplementedError


class WholeSubject(OrdinarySubject):
    """A subject whose results on an accelerator are compared as a whole: it moves its data itself."""

    kinds: ClassVar[tuple[str, ...]] = ("decoder", "loop", "scorer")

    def device_results(self, rows: Rows) -> Iterator[tuple[str, Any]]:
        """Yield the name of each way to get results for these samples, and the results of new objects, or the error."""
        raise NotImplementedError


def _called_by(build: Callable[..., Any], convention: str) -> Callable[..., Any]:
    """Return a function that builds records as they are called by a convention."""
    return lambda **options: with_convention(build(**options), convention)
