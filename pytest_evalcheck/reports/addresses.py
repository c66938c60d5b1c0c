"""The addresses of this project, named once for all reports."""

from __future__ import annotations

import re

REPOSITORY = "https://github.com/pytest-evalcheck/pytest-evalcheck"
"""Address of the source."""

SITE = "https://pytest-evalcheck.github.io/pytest-evalcheck/"
"""Address of the pages of ``docs/``; it ends in a slash."""


def check_page(code: str) -> str:
    """The address of the page of a check, such as ``EC201``.

    Empty for a check of another distribution: its code has other letters, and this site has no page of it.
    """
    return f"{SITE}checks/{code}.html" if re.fullmatch(r"EC\d{3}", code) else ""


def finding_page(place: str) -> str:
    """The address of a finding, which the registry names as a page and a heading: ``numeric.md#unsigned-integers``."""
    page, _, heading = place.partition("#")
    return f"{SITE}findings/{page.removesuffix('.md')}.html#{heading}" if page and heading else ""
