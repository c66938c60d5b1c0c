from __future__ import annotations

import html
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from report_samples import cell, failure, reports, small, texts, thorough

from pytest_evalcheck.reports import ReportError
from pytest_evalcheck.reports.github import LIMIT, code, fenced, linked, prose, render, write
from pytest_evalcheck.reports.groups import sections
from pytest_evalcheck.reports.results import Report
from pytest_evalcheck.reports.text import clip, line, plain

PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])

SMALL = """\
## evalcheck: failures

**5 targets, 14 checks: 5 passed, 3 failed of 2 causes, 3 known, 1 not applicable, 2 not run**

| <code>evalcheck&#95;lm.py</code> | EC201 | EC203 | EC204 | EC210 |
| --- | :-: | :-: | :-: | :-: |
| <code>accuracy</code> | · | ❌ | - | ⚠️ |
| <code>f1</code> | · | · | ⚠️ | ⚠️ |

| <code>evalcheck&#95;mean.py</code> | EC201 | EC203 |
| --- | :-: | :-: |
| <code>mean</code> | · | · |

| <code>evalcheck&#95;text.py</code> | EC201 | EC204 |
| --- | :-: | :-: |
| <code>bleu</code> | ❌ | ❌ |
| <code>rouge</code> | ❔ | ❔ |

· passed &nbsp; ❌ failed &nbsp; ⚠️ known &nbsp; - not applicable &nbsp; ❔ not run

### Failed: 3 checks, 2 causes

**leak&#58; default dtype**

- the target left float64 behind as the default dtype
  - every check&#58; evalcheck&#95;text.py&#58;&#58;bleu

<details><summary>The failure: <code>EC201 evalcheck&#95;text.py&#58;&#58;bleu on cpu</code></summary>

**EC201 cutting a stream does not change the value** could not be tried on \
<code>evalcheck&#95;text.py&#58;&#58;bleu</code> on <code>cpu</code>

the default dtype

- expected: <code>torch.float32</code>
- actual: <code>torch.float64</code>

```sh
pytest --evalcheck 'evalcheck_text.py::bleu::reset[cpu]' --evalcheck-replay=AAAA
```

</details>

**EC203 merging shards gives the value of the whole**

- the value after merging the shards&#58; expected 0.5, got 0.25
  - EC203&#58; evalcheck&#95;lm.py&#58;&#58;accuracy

<details><summary>The failure: <code>EC203 evalcheck&#95;lm.py&#58;&#58;accuracy on cpu</code></summary>

**EC203 merging shards gives the value of the whole** fails for \
<code>evalcheck&#95;lm.py&#58;&#58;accuracy</code> on <code>cpu</code>

The value does not depend on the number of shards.

the value after merging the shards

- expected: <code>&#48;.5</code>
- actual: <code>&#48;.25</code>

```text
at [0]
and 2 more numbers
```

Smallest input:

```python
samples=[(0, float("inf"))]
shards=[[0], []]
```

Between devices:

- cuda&#58;0 -&#62; cpu&#58; 1 transfer, 4 bytes
  - lm.py&#58;7&#58; item&#58; cuda&#58;0 -&#62; cpu, 1 time, 4 bytes

- usual cause: an average of averages
- fix: pytest&#95;evalcheck.fixes.WeightedMean
- target: evalcheck&#95;lm.py&#58;12

```sh
pytest --evalcheck 'evalcheck_lm.py::accuracy::merging_shards[cpu]' --evalcheck-replay=AAEC
```

```text
Traceback (most recent call last):
  ZeroDivisionError
```

</details>

### Known failures: 3 checks

- a rejected batch is counted \
([Lightning-AI/torchmetrics&#35;2345](<https://github.com/Lightning-AI/torchmetrics/issues/2345>))
  - EC210&#58; evalcheck&#95;lm.py&#58;&#58;&#42; (2)

- the inner metric is kept (no upstream report found)
  - EC204&#58; evalcheck&#95;lm.py&#58;&#58;f1

### Not shown: 1 check

- EC201 cutting a stream does not change the value reached no "all of size 1"
  - EC201&#58; evalcheck&#95;lm.py&#58;&#58;f1

### Not run: 2 checks

- nltk is not installed
  - every check&#58; evalcheck&#95;text.py&#58;&#58;rouge
"""


def _html(markdown: str) -> str:
    return PARSER.render(markdown)


def _shown(fragment: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", fragment))


def test_a_small_report_looks_like_this():
    assert render(small()) == SMALL


def test_a_summary_is_appended(tmp_path):
    path = tmp_path / "summary.md"
    path.write_text("# Build\n| a |", "utf-8")
    write(small(), path)
    write(Report([cell()]), path)
    first, second, third = re.split(r"\n\n(?=## evalcheck)", path.read_text("utf-8"))
    assert (first, second) == ("# Build\n| a |", SMALL)
    assert third.startswith("## evalcheck: nothing failed\n\n**1 target, 1 check: 1 passed")


def test_a_run_that_tried_nothing_does_not_look_green():
    assert render(Report()).startswith("## evalcheck: nothing was tried\n")
    assert render(Report([cell(outcome="not run")])).startswith("## evalcheck: nothing was tried\n")


def test_the_cells_of_one_cause_stand_below_it_with_the_reason_why():
    basic = cell(code="EC201", outcome="failed", reason="a mean of means", failure=failure())
    other = cell(code="EC203", outcome="failed", reason="0.5, expected 0.25", failure=failure(after=("EC201",)))
    assert (
        "**EC201 cutting a stream does not change the value**\n\n"
        "- a mean of means\n  - EC201&#58; evalcheck&#95;lm.py&#58;&#58;accuracy\n"
        "- probably caused by the EC201 failure&#58;:\n"
    ).replace("&#58;:", ":") + (
        "  - EC203 merging shards gives the value of the whole&#58; 0.5, expected 0.25\n"
    ) in render(Report([basic, other]))


def test_incomplete_cells_and_what_was_given_are_shown():
    broken = cell(outcome="failed", failure=failure(given=("update(preds=int64[3])", "compute() -> float32")))
    report = Report([broken, cell("a.py::slow", outcome="incomplete", examples=3, planned=25)])
    summary = render(report)
    assert "In a plain call:\n\n```text\nupdate(preds=int64[3])\ncompute() -> float32\n```" in summary
    assert "### Incomplete: 1 check\n\n- 3 of 25 cases were tried\n" in summary
    assert "--evalcheck-effort=quick" in summary


def test_a_cell_whose_process_died_shows_its_reason():
    summary = render(Report([cell(outcome="failed", reason="killed by SIGSEGV", cause="died")]))
    assert "on cpu</code></summary>\n\nkilled by SIGSEGV\n\n</details>" in summary


@pytest.mark.parametrize(
    ("see", "links"),
    [
        ("org/repo#12", ["https://github.com/org/repo/issues/12"]),
        ("mosaicml/composer#3094, #2385", ["https://github.com/mosaicml/composer/issues/3094"]),
        ("a-b/c.d#1 and a/b#2", ["https://github.com/a-b/c.d/issues/1", "https://github.com/a/b/issues/2"]),
        ("https://example.org/a_b?c=d&e=1#f.", ["https://example.org/a_b?c=d&e=1#f"]),
        ("javascript:alert(1)//x/y#1", []),
        ("a/b/c#3", []),
        ("#3", []),
    ],
)
def test_upstream_reports_are_links(see, links):
    rendered = _html(linked(see))
    assert [html.unescape(link) for link in re.findall(r'href="([^"]*)"', rendered)] == links
    assert _shown(rendered).strip() == see


@given(text=texts)
def test_prose_shows_as_itself_wherever_it_stands(text):
    shown = line(text)
    assert _shown(_html(f"- {prose(text)}")).strip() == shown
    assert _shown(_html(f"a\n\n{prose(text)}\n\nb")).strip("\n") == f"a\n{shown}\nb".replace("\n\n", "\n")
    inside = re.fullmatch(r"<p>x <code>(.*)</code> y</p>\n", _html(f"x {code(text)} y"))
    assert inside is not None
    assert html.unescape(inside[1]) == shown
    assert _shown(_html(f"- {linked(text)}")).strip() == shown


@given(text=texts)
def test_nothing_ends_a_fence_from_within(text):
    rendered = _html(f"<details>\n\n{fenced(text)}\n\n</details>")
    inside = re.fullmatch(
        r'<details>\n<pre><code class="language-text">(.*)</code></pre>\n</details>\n?', rendered, re.DOTALL
    )
    assert inside is not None
    assert html.unescape(inside[1]).rstrip("\n") == plain(text).strip("\n")


@thorough
@given(report=reports)
@example(report=Report([cell("a.py::m", "EC201", "failed", cause="\n")]))
def test_no_text_breaks_a_table_or_the_page(report):
    summary = render(report)
    parts = sections(report)
    page = _html(summary)
    tables = re.findall(r"<table>.*?</table>", page, re.DOTALL)
    assert len(tables) == len(parts)
    for table, part in zip(tables, parts, strict=True):
        rows = [
            re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)
        ]
        assert [len(row) for row in rows] == [1 + len(part.codes)] * (1 + len(part.rows))
        assert [_shown(head) for head in rows[0][1:]] == [line(each) for each in part.codes]
        assert [_shown(row[0]) for row in rows[1:]] == [clip(line(row.name), 120) for row in part.rows]
    assert page.count("<details>") == page.count("</details>") == page.count("<summary>") == len(report.causes)
    tags = set(re.findall(r"</?([a-z0-9]+)", page))
    assert tags <= {
        "h2", "h3", "p", "strong", "table", "thead", "tbody", "tr", "th", "td", "ul", "li", "code", "pre", "details",
        "summary", "a",
    }  # fmt: skip
    assert all(link.startswith("https://") for link in re.findall(r'href="([^"]*)', page))


def _large(failures: int) -> Report:
    hits = [
        cell(
            f"a.py::m{n:04}",
            "EC203",
            "failed",
            reason="expected 1",
            failure=failure(detail=f"detail {n:04} " + "é" * 9_000),
        )
        for n in range(failures)
    ]
    return Report([*hits, cell("a.py::known", "EC201", "known", reason="the last known entry")])


def test_a_summary_keeps_the_limit_and_says_what_it_left_out(tmp_path):
    report = _large(100)
    summary = render(report)
    left = 100 - summary.count("detail 0")
    assert LIMIT - 20_000 < len(summary.encode()) <= LIMIT
    assert summary.endswith(f"\n*Left out, because GitHub shows at most 1 MiB: {left} failures.*\n")
    assert "the last known entry" in summary
    assert summary.count("| <code>m0") == 100
    assert summary.count("<details>") == summary.count("</details>")
    path = tmp_path / "summary.md"
    path.write_bytes(b"x" * 900_000)
    write(report, path)
    assert LIMIT - 20_000 < path.stat().st_size <= LIMIT


def test_a_long_list_of_known_failures_leaves_room_for_the_failures():
    known = [cell(f"a.py::k{n}", "EC201", "known", reason=f"reason {n} " + "z" * 1_000) for n in range(1_500)]
    summary = render(Report([*_large(20).cells, *known]))
    assert summary.count("detail 0") == 20
    shown = summary.count("- reason ") + summary.count("- the last known entry")
    assert 50 <= shown < 1_500
    assert summary.endswith(f"\n*Left out, because GitHub shows at most 1 MiB: {1_501 - shown} entries.*\n")


@thorough
@given(report=reports, limit=st.integers(450, 5_000))
def test_no_summary_is_larger_than_its_limit(report, limit):
    summary = render(report, limit=limit)
    assert len(summary.encode()) <= limit
    assert report.denominator in summary
    whole = render(report)
    assert ("*Left out" in summary) == (summary != whole)
    assert summary == whole or len(whole.encode()) >= limit


def test_a_file_that_is_full_is_said_to_be_full(tmp_path):
    path = tmp_path / "summary.md"
    path.write_bytes(b"x" * (LIMIT - 100))
    with pytest.raises(ReportError, match="no room for a summary"):
        write(small(), path)
    assert path.stat().st_size == LIMIT - 100


@pytest.mark.parametrize("field", ["about", "expected", "detail", "statement", "traceback", "reproduce"])
def test_one_endless_text_is_cut(field):
    endless = failure(**{field: "y" * (2 * LIMIT)})
    summary = render(Report([cell(outcome="failed", reason="no", failure=endless)]))
    assert len(summary) < 30_000
    assert "y" * 9_000 in summary
    if field in ("detail", "traceback", "reproduce"):
        assert f"... {2 * LIMIT - 20_000} more characters\n```" in summary


def test_one_endless_input_is_cut():
    endless = failure(case={"samples": [0] * LIMIT, "batches": []})
    summary = render(Report([cell(outcome="failed", reason="no", failure=endless)]))
    assert len(summary) < 5_000
    assert "more characters" not in summary
    assert re.search(r"samples=\[0, 0, .* \.\.\.  # \d+ characters, whole in the replay\nbatches=\[\]\n```", summary)
