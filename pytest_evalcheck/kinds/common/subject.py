"""What every subject has, whatever the kind of its target."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from pytest_evalcheck.expectations.comparison import Tolerance
from pytest_evalcheck.expectations.failures import NotApplicable
from pytest_evalcheck.kinds.common.convention import in_turn, under
from pytest_evalcheck.strategies.samples import Sample, SampleStrategy

if TYPE_CHECKING:
    from typing_extensions import Self

Rows = Sequence[Sample]


@dataclass(frozen=True)
class Subject:
    """The thing under test: new objects on demand, and the samples to give them."""

    kind: ClassVar[str] = ""
    """The name of its kind. A check is about the kinds of the subjects that its first parameter is annotated with."""

    build: Callable[..., Any]
    """A new record; of a target with options, with those that are given by keyword."""
    inputs: SampleStrategy
    device: str = "cpu"
    reference: Callable[[Rows], Any] | None = None
    tolerance: Tolerance = field(default_factory=Tolerance)
    elsewhere: Callable[[str], Any] | None = None
    """The same subject on another device, where the target can be built there."""
    ledger: Any = None
    """The transfers between devices, where they are counted."""
    budget: Mapping[str, int] | None = field(default_factory=dict)
    """What scoring one batch may cost on that device; None is no limit."""
    changed: tuple[str, ...] = ()
    """What the plain call before the checks left changed of what is `shared`, a line each."""

    def plain_result(self, rows: Rows) -> Any:
        """What the target returns for these samples in one plain call, or the error.

        Raises:
            NotApplicable: where the kind has no such call.
        """
        del rows
        raise NotApplicable(f"targets of kind {self.kind} have no plain call")

    def by_convention(self, first: int) -> Iterator[tuple[str, str, Self]]:
        """Yield the conventions of the record from one of them on: name, sentence, and the subject that is called so.

        Raises:
            NotApplicable: where there are none.
        """
        for name, sentence in in_turn(self.build(), first):
            yield name, sentence, replace(self, build=_called_by(self.build, name))

    def shared(self) -> Any:
        """What every object of the target shares and no call may change, such as a configuration; None for nothing."""
        return None

    def remedies(self, rows: Rows) -> Iterator[tuple[str, Callable[[], Any]]]:
        """Where the plain call fails: changes of the description that may mend it, and the call with the change."""
        del rows
        yield from ()


def _called_by(build: Callable[..., Any], convention: str) -> Callable[..., Any]:
    """Return a function that builds records as they are called by a convention."""
    return lambda **options: under(build(**options), convention)
