"""What a check may do with a loop: evaluate data with new ones, or again and again with one."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from pytest_evalcheck.expectations.comparison import Raised, show
from pytest_evalcheck.expectations.failures import NotApplicable
from pytest_evalcheck.kinds.common.calling import TargetError, attempt
from pytest_evalcheck.kinds.common.process_state import kept, same_random_numbers
from pytest_evalcheck.kinds.common.subject import Rows, Subject
from pytest_evalcheck.kinds.loop.data import LoopData
from pytest_evalcheck.kinds.loop.record import Loop
from pytest_evalcheck.kinds.loop.results import Evaluated, Record, plainly, read

BATCH = "batch_size"
ABOUT_WORKERS = ("workers", "num_workers", "prefetch", "prefetch_factor", "persistent_workers", "pin_memory")
"""Options that are tried by the check about them alone: starting workers is dear."""


@dataclass
class LiveLoop:
    """One loop, which may evaluate several times."""

    record: Loop
    size: Callable[[int], int | None]
    left: list[str] = field(default_factory=list)
    """What its evaluations left changed in the process."""

    @property
    def model(self) -> Any:
        """What is evaluated, or None where the loop does not say."""
        return self.record.model

    def evaluate(self, data: LoopData, *, on_its_own: bool = True, **config: Any) -> Any:
        """What an evaluation gives, as `Evaluated`, or the error.

        Settings of the process are given back behind it. It starts from the same random numbers every time, which are
        given back too, except where it is not ``on_its_own`` but in the middle of something.

        Raises:
            TargetError: where it gives anything else than numbers.
        """
        return self.call("evaluate()", self.record.evaluate, data, on_its_own=on_its_own, **config)

    def call(self, where: str, what: Callable[..., Any], data: Any, *, on_its_own: bool = True, **config: Any) -> Any:
        """The same with another way to evaluate."""
        made = self.attempt(where, what, data, on_its_own=on_its_own, **config)
        return made if isinstance(made, Raised) else read(made, where, some=len(data) > 0)

    def attempt(self, where: str, what: Callable[..., Any], *given: Any, on_its_own: bool = True, **config: Any) -> Any:
        """Whatever one of its callables gives, or the error."""
        with kept() as left, same_random_numbers() if on_its_own else nullcontext():
            made = attempt(where.removesuffix("()"), what, *given, **self.sized(config))
        self.left += left
        return made

    def sized(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """A configuration with a batch size that is offered; with none where it cannot be chosen."""
        others = {name: value for name, value in config.items() if name != BATCH}
        size = self.size(config[BATCH]) if BATCH in config else None
        return others if size is None else {BATCH: size, **others}


@dataclass(frozen=True)
class LoopSubject(Subject):
    """The loop under test: new ones on demand, and the data to evaluate."""

    kind: ClassVar[str] = "loop"
    variants: Mapping[str, Any] = field(default_factory=dict)
    """Optimised configurations of the same loop, by name."""

    build: Callable[[], Loop]

    @cached_property
    def record(self) -> Loop:
        """What describes the loop, to be asked and not to be called."""
        return self.build()

    @cached_property
    def offered(self) -> dict[str, tuple[Any, ...]]:
        """The options that may not change the numbers, with their values."""
        return self.record.offered

    def data(self, rows: Rows) -> LoopData:
        """A new data set of these samples."""
        return LoopData(list(rows), self.inputs.collate)

    def fresh(self) -> LiveLoop:
        """A new loop."""
        return LiveLoop(self.build(), self.size)

    def option(self, name: str) -> tuple[Any, ...]:
        """The values of an option.

        Raises:
            NotApplicable: where the loop does not offer it.
        """
        if name not in self.offered:
            raise NotApplicable(f"evaluate() has no option {name!r}")
        return self.offered[name]

    def size(self, wanted: int) -> int | None:
        """The batch size nearest to a wanted one, of those that the loop names; None where it offers none."""
        if BATCH not in self.offered:
            return None
        return min(self.offered[BATCH], key=lambda one: abs(one - wanted)) if self.record.options else wanted

    def ways(self, batch_size: int, *, workers: bool) -> list[dict[str, Any]]:
        """The other values of all options, one option at a time; those about ``workers``, or all others."""
        chosen = [name for name in self.offered if name != BATCH and (name in ABOUT_WORKERS) == workers]
        found = [self.record.plainly(name, value) for name in chosen for value in self.offered[name][1:]]
        both = next((name for name in ("workers", "num_workers") if name in self.offered), None)
        if workers and both and "iterable" in self.offered:
            found.append({both: 2, "iterable": True})
        return [{BATCH: batch_size, **config} for config in found if config]

    def evaluated(self, rows: Rows, **config: Any) -> Any:
        """What a new loop gives for these samples, as `Evaluated`, or the error."""
        return self.fresh().evaluate(self.data(rows), **config)

    def numbers(self, rows: Rows, **config: Any) -> Any:
        """The numbers of a new loop by name, or the error."""
        made = self.evaluated(rows, **config)
        return made if isinstance(made, Raised) else dict(made.numbers)

    def records(self, rows: Rows, **config: Any) -> Any:
        """The records of a new loop, or the error.

        Raises:
            NotApplicable: where it gives none.
        """
        made = self.evaluated(rows, **config)
        return made if isinstance(made, Raised) else told(made)

    def exact(self, rows: Rows) -> dict[str, Any] | None:
        """The numbers that are right, or None where nobody says what they are."""
        if self.record.exact is None and self.reference is None:
            return None
        try:
            with kept(), same_random_numbers():
                # A new loop's: evaluations may have changed the model of another.
                exact = self.build().exact
                return dict(exact(self.data(rows)) if exact else self.reference(list(rows)))  # type: ignore[misc]
        except Exception as error:
            raise TargetError(
                "what gives the exact numbers raised an error, or gave no mapping",
                actual=repr(error),
                expected="numbers by name",
                cause="reference",
            ) from error

    def named(self, found: Any, exact: Mapping[str, Any]) -> Any:
        """Those of the numbers that are known exactly.

        Raises:
            TargetError: where there is no number of such a name.
        """
        if isinstance(found, Raised):
            return found
        lacking = [name for name in exact if name not in found]
        if lacking:
            raise TargetError(
                f"the exact numbers have {lacking[0]!r}, which the evaluation does not give",
                actual=", ".join(map(repr, exact)),
                expected=f"some of {', '.join(map(repr, found))}",
                cause="reference",
            )
        return {name: found[name] for name in exact}

    def agreed(self, name: str, found: Mapping[str, Any]) -> Any:
        """What a number must be by those that claim the same.

        Raises:
            TargetError: where it, or one of those, is not among the numbers.
        """
        made = attempt(f"agree[{name!r}]", self.record.agree[name], found)
        if name not in found or isinstance(made, Raised):
            raise TargetError(
                f"agree[{name!r}] does not fit what the evaluation gives",
                actual=str(made) if name in found else f"no number {name!r}",
                expected=f"numbers among {', '.join(map(repr, found))}",
                cause="agree",
            )
        return made

    def evaluation(self, data: LoopData, batch_size: int) -> Callable[[LiveLoop], Any]:
        """An evaluation of data in the middle of something, whose errors are results."""
        return lambda live: live.evaluate(data, on_its_own=False, batch_size=batch_size)

    def numbers_and_warnings(self, rows: Rows, **config: Any) -> tuple[Any, bool]:
        """The numbers, or the error, and whether a warning spoke of numbers that are not finite."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = self.numbers(rows, **config)
        return found, any(re.search(_NONFINITE, str(one.message), re.I) for one in caught)

    def together(self, rows: Mapping[str, Rows], order: Sequence[str], batch_size: int) -> Any:
        """What several evaluators give in one run, as `Evaluated` by name, or the error.

        Raises:
            TargetError: where they give anything else.
        """
        live = self.fresh()
        assert live.record.evaluators is not None
        data = {name: self.data(given) for name, given in rows.items()}
        made = live.attempt("evaluators()", live.record.evaluators, data, order=tuple(order), batch_size=batch_size)
        if isinstance(made, Raised):
            return made
        if not isinstance(made, Mapping) or set(made) != set(rows):
            raise TargetError(
                "evaluators() did not give what each of them gives, by name",
                actual=f"{type(made).__name__}: {show(made)[:120]}",
                expected=f"a mapping with the names {', '.join(map(repr, rows))}",
                cause="numbers",
            )
        return {name: plainly(read(one, f"evaluators()[{name!r}]")) for name, one in made.items()}


_NONFINITE = r"\b(nans?|inf|infinit\w*|non-?finite)\b"


def words(config: Mapping[str, Any]) -> str:
    """A configuration as messages tell it."""
    return ", ".join(f"{name}={value!r}" for name, value in config.items())


def told(made: Evaluated) -> Sequence[Record]:
    """The records of an evaluation.

    Raises:
        NotApplicable: where it has none.
    """
    if made.records is None:
        raise NotApplicable("the loop gives no records: ec.Evaluated(numbers, records=[(id, {...}), ...])")
    return list(made.records)
