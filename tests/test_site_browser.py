"""The pages of the site in a browser; `nox -s browser` builds them, and runs this with what it needs."""

from __future__ import annotations

import shutil
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from benchmarks.html_report import BROWSERS

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: nox -s browser installs it")
pytest.importorskip("axe_playwright_python", reason="axe is not installed: nox -s browser installs it")
SITE = Path(__file__).parent.parent / "build" / "site"
_PATH = next(filter(None, map(shutil.which, BROWSERS)), "")
pytestmark = [
    pytest.mark.skipif(not _PATH, reason="neither chromium nor google-chrome is installed"),
    pytest.mark.skipif(not SITE.exists(), reason="build/site is not there: nox -s docs builds it"),
]
AXE = files("axe_playwright_python").joinpath("axe.min.js")


def pages() -> list[str]:
    """All of them, with one page of a check and of a finding: the others have the same parts."""
    found = sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html"))
    return [name for name in found if not name.startswith("checks/EC") or name == "checks/EC201.html"]


@pytest.fixture(scope="module")
def browser() -> Any:
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=_PATH, args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1440])
def test_axe_finds_nothing_serious_and_no_page_is_wider_than_the_window(browser: Any, scheme: str, width: int) -> None:
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900}, bypass_csp=True)
    page, asked = context.new_page(), []
    page.on("request", lambda request: asked.append(request.url))
    faults = {}
    for name in pages():
        page.goto((SITE / name).as_uri())
        page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
        page.evaluate(AXE.read_text(encoding="utf-8"))
        # Scripts of the page go on until it is painted.
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        assert len(found["passes"]) > 15, name
        serious = [each for each in found["violations"] if each["impact"] in ("serious", "critical")]
        wrong = [(each["id"], len(each["nodes"]), each["nodes"][0]["html"][:200]) for each in serious]
        if (wide := page.evaluate("document.documentElement.scrollWidth")) > width:
            wrong.append(("wider than the window", wide, ""))
        if wrong:
            faults[name] = wrong
    context.close()
    assert not faults
    assert [url for url in asked if not url.startswith("file:")] == []
