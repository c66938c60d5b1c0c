from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from html.parser import HTMLParser

import pytest
from hypothesis import given
from report_samples import cell, failure, failures, reports, small, thorough

from pytest_evalcheck.reports.addresses import SITE, check_page
from pytest_evalcheck.reports.case_codec import case_literal
from pytest_evalcheck.reports.groups import matrices, sections
from pytest_evalcheck.reports.html import render, write
from pytest_evalcheck.reports.results import Report
from pytest_evalcheck.reports.text import plain

_VOID = {"meta", "input"}
_LOADS = {"src", "srcset", "data", "action", "poster", "ping", "background"}


class Reader(HTMLParser):
    """Parser of a page; it refuses elements that are not closed in order."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.open, self.ids, self.links, self.loads, self.text, self.pres, self.tags = [], [], [], [], [], [], []
        self.columns, self.sources, self.policy = 0, [], ""
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append(tag)
        self.ids += [attributes["id"]] if "id" in attributes else []
        self.links += [attributes["href"]] if "href" in attributes else []
        self.loads += [name for name in attributes if name in _LOADS or name.startswith("on")]
        self.columns += int(attributes.get("colspan", 1)) if tag == "td" else 0
        self.policy += attributes["content"] if attributes.get("http-equiv") == "Content-Security-Policy" else ""
        if tag in ("script", "style"):
            assert not attributes
            self.sources.append("")
        if tag not in _VOID:
            self.open.append(tag)
        if tag == "pre":
            self.pres.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_data(self, data):
        if self.open and self.open[-1] in ("script", "style"):
            self.sources[-1] += data
            return
        self.text.append(data)
        if "pre" in self.open:
            self.pres[-1] += data


def test_every_cell_has_its_place_in_the_matrix():
    report = small()
    shown = [cell for section in sections(report) for row in section.rows for cell in row.cells.values()]
    assert sorted(map(id, shown)) == sorted(map(id, report.cells))
    (matrix,) = matrices(report)
    assert sorted(map(id, matrix.cells)) == sorted(map(id, report.cells))
    html = render(report)
    page = Reader(html)
    assert page.columns == sum(len(section.rows) for section in matrix.sections) * len(matrix.codes)
    places = re.findall(r"<td class=\"[a-z-]+\"[^>]*>(?:<a [^>]*>)?([a-z ]+)<", html)
    assert sorted(places) == sorted(cell.outcome for cell in report.cells)
    assert "5 targets, 14 checks: 5 passed, 3 failed of 2 causes, 3 known, 1 not applicable, 2 not run" in "".join(
        page.text
    )


def test_a_device_is_a_row_of_its_own():
    report = Report(
        [
            cell(code="EC201"),
            *(cell(code="EC601", device=device, outcome="known") for device in ("sim:mps", "sim:cuda")),
        ]
    )
    words = " ".join("".join(Reader(render(report)).text).split())
    assert (
        "target EC201 EC601 evalcheck_lm.py accuracy[cpu]passed accuracy[sim:cuda]known accuracy[sim:mps]known" in words
    )


def test_every_failure_is_shown_and_is_one_step_from_its_cell():
    page = Reader(render(small()))
    targets = {link[1:] for link in page.links if link.startswith("#")}
    assert {target for target in targets if target.startswith("failure-")} == {"failure-1", "failure-2"}
    assert targets <= set(page.ids)
    words = " ".join("".join(page.text).split())
    assert (
        "EC203 merging shards gives the value of the whole fails for evalcheck_lm.py::accuracy on cpu "
        "The value does not depend on the number of shards. what was found the value after merging the shards "
        "expected0.5 actual0.25 at [0] and 2 more numbers smallest input"
    ) in words
    assert (
        "between devices cuda:0 -> cpu: 1 transfer, 4 bytes lm.py:7: item: cuda:0 -> cpu, 1 time, 4 bytes usual cause"
        in words
    )
    assert "usual causean average of averages fixpytest_evalcheck.fixes.WeightedMean targetevalcheck_lm.py:12" in words
    assert page.pres[1:] == [
        'samples=[(0, float("inf"))]\nshards=[[0], []]',
        "pytest --evalcheck 'evalcheck_lm.py::accuracy::merging_shards[cpu]' --evalcheck-replay=AAEC",
        "Traceback (most recent call last):\n  ZeroDivisionError",
    ]


def test_a_target_that_could_not_be_tried_has_no_usual_cause():
    broken = failure("the factory raised an error", usual_cause="the check's", fix="the check's", untestable=True)
    page = render(Report([cell(outcome="failed", failure=broken)]))
    assert "could not be tried on" in page
    assert "the check&#39;s" not in page


def test_cells_with_one_cause_show_one_failure():
    same = {"cause": "leak", "signature": "EC201: leak", "failure": failure()}
    page = render(Report([cell(f"a.py::m{n}", outcome="failed", **same) for n in range(9)]))
    assert page.count('<article class="failure">') == 1
    assert "EC201: a.py::* (9)" in "".join(Reader(page).text)


def test_the_cells_of_one_cause_are_folded_below_its_failure_with_the_reason_why():
    basic = cell(code="EC201", outcome="failed", failure=failure())
    other = cell(code="EC203", outcome="failed", reason="0.5", failure=failure(after=("EC201",), about="of shards"))
    died = cell(code="EC210", outcome="failed", device="sim:mps", reason="killed", cause="died")
    html = render(Report([died, basic, other]))
    assert "Failed: 2 causes" in html
    below = html.index("probably caused by the EC201 failure")
    folded = html.index("<summary>EC203 merging shards gives the value of the whole: 0.5</summary>")
    assert html.index('id="failure-1"') < below < folded < html.index("<b>of shards</b>") < html.index('id="failure-2"')
    assert html.count('href="#failure-1"') == 2


def test_incomplete_is_coloured_and_says_how_far_it_came():
    html = render(Report([cell(outcome="incomplete", examples=3, planned=25), cell("a.py::fine")]))
    assert "--incomplete:" in html
    assert '<td class="incomplete"><a href="#incomplete-1">incomplete</a></td>' in html
    assert html.index('id="incomplete-1"') < html.index("3 of 25 cases were tried")
    assert "--evalcheck-effort=quick" in html


def test_a_cell_whose_process_died_shows_its_reason():
    page = Reader(render(Report([cell(outcome="failed", reason="killed by SIGSEGV", cause="died")])))
    assert "killed by SIGSEGV" in "".join(page.text)
    assert "article" not in page.tags


@thorough
@given(failures)
def test_every_text_of_a_failure_is_on_the_page(broken):
    page = Reader(render(Report([cell(outcome="failed", failure=broken)])))
    words = "".join("".join(page.text).split())
    shown = [broken.about, broken.expected, broken.actual, broken.detail, broken.statement, broken.location]
    shown += [broken.reproduce, broken.traceback, *broken.transfers, *broken.given, broken.origin]
    shown += [] if broken.untestable else [broken.usual_cause, broken.fix]
    shown += case_literal(broken.case) if broken.case else []
    assert all("".join(plain(text).split()) in words for text in shown)


def test_a_known_failure_leads_to_its_report():
    page = Reader(render(small()))
    assert "https://github.com/Lightning-AI/torchmetrics/issues/2345" in page.links
    assert "no upstream report found" in "".join(page.text)


@pytest.mark.parametrize(
    ("report", "verdict"),
    [(Report(), "nothing was tried"), (small(), "failures"), (Report([cell()]), "nothing failed")],
    ids=["empty", "failed", "passed"],
)
def test_the_heading_says_how_it_went(report, verdict):
    assert f"<h1>evalcheck: {verdict}</h1>" in render(report)


@thorough
@given(reports)
def test_any_text_shows_as_itself_and_loads_nothing(report):
    page = Reader(render(report))
    assert not page.loads
    assert not {"img", "link", "iframe", "object", "base"} & set(page.tags)
    assert [page.tags.count(tag) for tag in ("script", "style")] == [1, 1]
    assert all(re.match(r"#[a-z-]+-\d+$|https?://", link) for link in page.links)
    assert len(set(page.ids)) == len(page.ids)
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
    assert "url(" not in render(Report())


def test_the_page_allows_its_own_script_and_style_and_nothing_else():
    page = Reader(render(small()))
    style, script = (f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in page.sources)
    assert page.policy == (
        f"default-src 'none'; style-src {style}; script-src {script}; base-uri 'none'; form-action 'none'"
    )
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|import|innerHTML|eval)\b", page.sources[1])


def test_codes_lead_to_the_pages_of_their_checks():
    page = Reader(render(Report([cell(code="EC201"), cell(code="ACME1", outcome="failed", failure=failure())])))
    assert check_page("EC201") == f"{SITE}checks/EC201.html"
    assert {link for link in page.links if link.startswith(SITE)} == {check_page("EC201")}


def test_known_failures_are_listed_by_library_with_their_reports():
    cache = {"outcome": "known", "upstream": "torchmetrics-compute-returns-its-cache", "reason": "it returns its cache"}
    own = {"outcome": "known", "class_name": "acme.metrics.Score", "see": "acme/metrics#12 and acme/metrics#7"}
    report = Report(
        [
            cell("a.py::one", "EC219", **cache),
            cell("a.py::two", "EC201", **own, reason="its own"),
            cell("a.py::two", "EC203", **own, reason="another"),
            cell("a.py::three", "EC201", "known", requires=("lm_eval",), reason="a third"),
        ]
    )
    page = Reader(render(report))
    words = " ".join("".join(page.text).split())
    assert "acme 2 2 metrics#7 #12" in re.sub(r"(?<=[0-9a-z])(?=metrics#)", " ", _cells_apart(render(report)))
    assert "torchmetrics" in words
    assert "lm-eval" in words
    assert "https://github.com/acme/metrics/issues/12" in page.links
    assert any(link.startswith(f"{SITE}findings/classification.html#compute-") for link in page.links)


def _cells_apart(html):
    """The text of the overview of libraries, with a space between its cells."""
    table = html[html.index('class="scroll overview"') : html.index("</table>")]
    return " ".join(re.sub(r"<[^>]*>", " ", table).split())


def test_what_was_not_run_is_one_line_a_reason():
    cells = [
        cell(f"a.py::m{n}", f"EC20{c}", "not run", reason="acme is not installed") for n in range(9) for c in range(5)
    ]
    html = render(Report(cells))
    assert html.count("acme is not installed") == 2  # the verdict, and the list
    assert html.count('<td class="not-run"><a href="#not-run-1">not run</a></td>') == 45


def test_a_page_is_written_with_its_folder(tmp_path):
    path = tmp_path / "new" / "page.html"
    write(Report([cell(reason="a lone \ud83d", outcome="failed")]), path)
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "a lone" in text


@pytest.mark.parametrize("field", ["expected", "actual", "detail", "reproduce", "traceback"])
def test_a_long_text_is_cut(field):
    page = render(Report([cell(outcome="failed", failure=failure(**{field: "x" * 60_000}))]))
    assert "\n... 10000 more characters" in page
