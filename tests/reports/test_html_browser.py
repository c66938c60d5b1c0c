"""The HTML report in a browser; `nox -s browser` runs this with what it needs."""

from __future__ import annotations

import shutil
from importlib.resources import files

import pytest
from report_samples import cell, failure, small

from benchmarks.html_report import BROWSERS
from pytest_evalcheck.reports.html import write
from pytest_evalcheck.reports.results import Report

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: nox -s browser installs it")
pytest.importorskip("axe_playwright_python", reason="axe is not installed: nox -s browser installs it")
_PATH = next(filter(None, map(shutil.which, BROWSERS)), "")
pytestmark = pytest.mark.skipif(not _PATH, reason="neither chromium nor google-chrome is installed")

HOSTILE = "evalcheck_lm.py::<script>document.title='ran'</script>\n\u202eabc \u05d0\u05d1"


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=_PATH, args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    cells = [
        cell(
            HOSTILE, "EC203", "failed", reason="<img src=x onerror=alert(1)>", failure=failure(reproduce="pytest 'a b'")
        )
    ]
    cells += [cell(code="EC601", device="sim:mps", seconds=3.0), cell("a.py::decoder", "EC301", kind="decoder")]
    path = tmp_path_factory.mktemp("page") / "page.html"
    write(Report([*small().cells, *cells]), path)
    return path.as_uri()


@pytest.fixture
def opened(browser, address):
    """A page at a hash; whatever it asks a network for, and every error of its script, fails the test."""
    contexts, wrong = [], []

    def open_at(fragment="", **options):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        page.on("request", lambda request: None if request.url.split("#")[0] == address else wrong.append(request.url))
        page.goto(address + fragment)
        return page

    yield open_at
    for context in contexts:
        context.close()
    assert not wrong


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1440])
def test_axe_finds_nothing_serious_and_nothing_is_wider_than_the_window(opened, scheme, width):
    # The policy of the page refuses the script of axe too.
    page = opened("#failure-1", color_scheme=scheme, viewport={"width": width, "height": 900}, bypass_csp=True)
    page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document)")
    serious = [each for each in found["violations"] if each["impact"] in ("serious", "critical")]
    assert not [(each["id"], each["nodes"][0]["html"]) for each in serious]
    assert len(found["passes"]) > 20
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def shown_cells(page):
    return page.locator(".matrix td:visible:not(.off)").evaluate_all(
        "(all) => all.map((each) => each.textContent).filter(Boolean)"
    )


@pytest.mark.parametrize(
    ("fragment", "expected"),
    [
        ("", 17),
        ("#outcome=failed", 4),
        ("#outcome=failed,known&code=EC203", 2),
        ("#kind=decoder", 1),
        ("#device=sim%3Amps", 1),
        ("#q=NLTK+rouge", 2),
        ("#q=no+such+thing", 0),
    ],
)
def test_a_link_opens_a_filtered_view(opened, fragment, expected):
    page = opened(fragment)
    assert len(shown_cells(page)) == expected
    if fragment:
        assert page.locator("#matching").inner_text() == f"{expected} of 17 checks"


def test_filters_are_kept_in_the_address_and_can_be_taken_back(opened):
    page = opened()
    page.get_by_role("searchbox").fill("merging")
    page.get_by_role("button", name="failed").press("Enter")
    page.wait_for_url("**#*q=merging*outcome=failed")
    assert len(shown_cells(page)) == 2
    assert not page.locator("#not-run").is_visible()
    again = opened("#" + page.url.split("#")[1])
    assert again.get_by_role("searchbox").input_value() == "merging"
    assert len(shown_cells(again)) == 2
    page.get_by_role("button", name="Show all").click()
    page.wait_for_function("() => !location.hash")
    assert len(shown_cells(page)) == 17


def test_the_slowest_target_is_first(opened):
    page = opened("#sort=time")
    first = page.locator(".matrix[open] tbody tr:not(.file) th").first
    assert first.inner_text().startswith("accuracy")
    page.get_by_label("Sort").select_option("")
    page.wait_for_function("() => !location.hash")
    assert page.locator(".file").first.inner_text() == "evalcheck_lm.py"


def test_a_cell_leads_to_its_failure_whose_command_can_be_copied(opened):
    page = opened(permissions=["clipboard-read", "clipboard-write"])
    page.locator(".matrix td.broken a").first.click()
    shown = page.locator(".causes details[open]").first
    assert shown.locator(".failure").first.is_visible()
    command = shown.locator(".reproduce").first.inner_text()
    shown.get_by_role("button", name="Copy").first.click()
    shown.get_by_text("Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == command


@pytest.mark.parametrize("outcome", ["not run", "not applicable", "known"])
def test_a_cell_leads_to_its_reason_by_keyboard(opened, outcome):
    page = opened()
    link = page.locator(".matrix td a", has_text=outcome).first
    reason = page.locator(link.get_attribute("href"))
    page.locator(".matrix .scroll").first.focus()
    for _ in range(60):
        page.keyboard.press("Tab")
        if link.evaluate("(each) => each === document.activeElement"):
            break
    # What the keyboard reached is outlined, and said as what the mouse would show.
    assert link.evaluate("(each) => getComputedStyle(each).outlineStyle") == "solid"
    assert outcome in link.locator("xpath=..").get_attribute("title")
    page.keyboard.press("Enter")
    assert reason.evaluate("(each) => each.open && each.contains(document.activeElement)")
    assert reason.locator(".text").is_visible()


def test_hostile_texts_show_as_themselves(opened):
    page = opened()
    assert page.title() == "evalcheck: failures"
    assert "<script>document.title='ran'</script> \\u202eabc" in page.locator(".matrix").first.inner_text()
    assert "<img src=x onerror=alert(1)>" in page.locator(".causes").inner_text()


def test_everything_is_readable_without_a_script(opened):
    page = opened(java_script_enabled=False)
    assert not page.locator("form").is_visible()
    page.locator(".causes summary").first.click()
    assert page.locator(".causes .failure").first.is_visible()
    assert page.get_by_text("nltk is not installed").first.is_visible()
