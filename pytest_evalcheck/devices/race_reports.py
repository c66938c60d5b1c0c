"""Reports of races: an entry in the ledger, and an error, a warning or nothing."""

from __future__ import annotations

import warnings

from pytest_evalcheck.devices.errors import UnsynchronizedAccess, UnsynchronizedAccessWarning
from pytest_evalcheck.devices.ledger import Ledger, Race

IN_FLIGHT = ("warn", "error", "ignore")


class RaceReports:
    """The races of one simulation. `in_flight` is what its user asked for."""

    def __init__(self, ledger: Ledger, in_flight: str) -> None:
        self.ledger, self.in_flight = ledger, in_flight

    def report(self, race: Race, *, again: bool = False) -> None:
        """Report a race; one that was found before is an error only.

        Raises:
            UnsynchronizedAccess: with `in_flight="error"`.
        """
        if not again:
            self.ledger.record_race(race)
        if self.in_flight == "error":
            raise UnsynchronizedAccess(race)
        if self.in_flight == "warn" and not again:
            warnings.warn_explicit(str(race), UnsynchronizedAccessWarning, race.use.file, race.use.line)
