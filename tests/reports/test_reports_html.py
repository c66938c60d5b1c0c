from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from report_samples import cell, reports, small, thorough

from pytest_evalcheck.reports.html import render, tables, write
from pytest_evalcheck.reports.results import Report

_VOID = {"meta"}
_LOADS = {"src", "srcset", "data", "action", "poster", "ping", "background"}


class Reader(HTMLParser):
    """What a page holds; it refuses elements that are not closed in order."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.open, self.ids, self.links, self.loads, self.text, self.pres, self.tags = [], [], [], [], [], [], []
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append(tag)
        self.ids += [attributes["id"]] if "id" in attributes else []
        self.links += [attributes["href"]] if "href" in attributes else []
        self.loads += [name for name in attributes if name in _LOADS or name.startswith("on")]
        if tag not in _VOID:
            self.open.append(tag)
        if tag == "pre":
            self.pres.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)
        if self.open and self.open[-1] == "pre":
            self.pres[-1] += data


def test_every_cell_has_its_place_in_the_matrix():
    report = small()
    found = [one for table in tables(report) for row in table.lines for one in row.cells if one]
    assert sorted(map(id, found)) == sorted(map(id, report.cells))
    page = Reader(render(report))
    assert page.tags.count("td") >= len(report.cells)
    assert "5 targets, 14 promises: 5 kept, 3 broken, 3 known, 1 not applicable, 2 not run" in "".join(page.text)


def test_a_column_is_a_promise_on_a_device():
    report = Report(
        [
            cell(code="EC201"),
            *(cell(code="EC601", device=device, outcome="known") for device in ("sim:mps", "sim:cuda")),
        ]
    )
    (table,) = tables(report)
    columns = [(column.code, column.device) for column in table.columns]
    assert columns == [("EC201", "cpu"), ("EC601", "sim:cuda"), ("EC601", "sim:mps")]
    assert len(table.lines) == 1
    assert "EC601 sim:mps" in " ".join("".join(Reader(render(report)).text).split())


def test_every_failure_is_shown_and_is_one_step_from_its_cell():
    page = Reader(render(small()))
    targets = {link[1:] for link in page.links if link.startswith("#")}
    assert targets == {"failure-1", "failure-2"}
    assert targets <= set(page.ids)
    assert any("expected 0.5\n    got 0.25" in screen for screen in page.pres)
    assert any("--evalcheck-replay=AAEC" in screen for screen in page.pres)


def test_a_known_failure_leads_to_its_report():
    page = Reader(render(small()))
    assert "https://github.com/Lightning-AI/torchmetrics/issues/2345" in page.links
    assert "no upstream report found" in "".join(page.text)


@pytest.mark.parametrize(
    ("report", "verdict"),
    [(Report(), "nothing was tried"), (small(), "broken promises"), (Report([cell()]), "nothing is broken")],
    ids=["empty", "broken", "kept"],
)
def test_the_heading_says_how_it_went(report, verdict):
    assert f"<h1>evalcheck: {verdict}</h1>" in render(report)


@thorough
@given(reports)
def test_any_text_shows_as_itself_and_loads_nothing(report):
    page = Reader(render(report))
    assert not page.loads
    assert not {"script", "img", "link", "iframe", "object", "base", "form"} & set(page.tags)
    assert all(re.match(r"#failure-\d+$|https?://", link) for link in page.links)
    assert len(set(page.ids)) == len(page.ids)
    assert "url(" not in render(Report())


def test_a_page_is_written_with_its_folder(tmp_path):
    path = tmp_path / "new" / "page.html"
    write(Report([cell(reason="a lone \ud83d", outcome="broken")]), path)
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "a lone" in text


def test_a_long_screen_is_cut():
    page = Reader(render(Report([cell(outcome="broken", screen="x" * 60_000)])))
    assert any("more characters" in screen for screen in page.pres)
