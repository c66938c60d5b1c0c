from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from report_samples import cell, texts

from pytest_evalcheck.reports.failure_text import folded
from pytest_evalcheck.reports.groups import Naming, by_fault, ranges, sections, split
from pytest_evalcheck.reports.results import Report
from pytest_evalcheck.reports.text import clip, columns, fold, line, pad, plain, wrap


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]8;;https://a.b\x1b\\link\x1b]8;;\x07", "link"),
        ("\x1b[?25l\x9b2Jx\x1bM", "x"),
        ("cut \x1b[", r"cut \x1b["),
        ("a\r\nb\rc", "a\nb\nc"),
        ("a\tb", "a   b"),
        ("bell\a null\0", r"bell\x07 null\x00"),
        ("\u202eabc\u2028\ufeff\xad", r"\u202eabc\u2028\ufeff\xad"),
        ("\udc80 \ud83d", r"\udc80 \ud83d"),
        ("née 表 👨‍👩‍👧", "née 表 👨‍👩‍👧"),
    ],
)
def test_what_does_not_print_is_spelt_out(text, shown):
    assert plain(text) == shown


def test_without_unicode_all_is_ascii():
    assert plain("née 表", unicode=False) == r"n\xe9e \u8868"


@given(text=texts, unicode=st.booleans())
@example(text="a\xa0b\u3000c", unicode=False)
def test_a_line_stays_as_it_is(text, unicode):
    assert line(line(text), unicode=unicode) == line(text, unicode=unicode)


@given(text=texts, unicode=st.booleans())
def test_plain_text_stays_as_it_is(text, unicode):
    assert plain(plain(text, unicode=unicode), unicode=unicode) == plain(text, unicode=unicode)


@pytest.mark.parametrize(("text", "width"), [("abc", 3), ("表x", 3), ("e\u0301", 1), ("🇨🇭", 2), ("", 0), ("ﬀ", 1)])
def test_columns_are_those_of_a_terminal(text, width):
    assert columns(text) == width
    assert columns(pad(text, 9)) == 9


@pytest.mark.parametrize(
    ("limit", "more", "shown"),
    [
        (9, {}, "abcdefghi"),
        (5, {}, "abcd…"),
        (5, {"middle": True}, "ab…hi"),
        (6, {"middle": True}, "abc…hi"),
        (5, {"unicode": False}, "abc.."),
        (1, {"unicode": False}, "."),
    ],
)
def test_clipping_leaves_a_mark_where_something_is_lost(limit, more, shown):
    assert clip("abcdefghi", limit, **more) == shown


@given(text=texts.map(line), limit=st.integers(1, 30), middle=st.booleans(), unicode=st.booleans())
def test_clipped_text_fits(text, limit, middle, unicode):
    shown = clip(text, limit, middle=middle, unicode=unicode)
    assert columns(shown) <= limit
    assert (shown == text) == (columns(text) <= limit)


@given(
    text=texts.map(line),
    width=st.integers(16, 60),
    indent=st.sampled_from(["", "  "]),
    hang=st.sampled_from(["", "    "]),
)
def test_wrapped_text_fits_and_loses_nothing(text, width, indent, hang):
    lines = wrap(text, width, indent=indent, hang=hang)
    assert all(columns(each) <= width for each in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert all(each.startswith(hang) for each in lines[1:])


def test_a_word_too_long_for_a_line_breaks_at_a_seam():
    assert wrap("in evalcheck_collections.py::running_mean", 30) == ["in evalcheck_collections.py::", "running_mean"]


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        (["EC203", "EC201", "EC202"], ["EC201-EC203"]),
        (["EC201", "EC202", "EC204"], ["EC201", "EC202", "EC204"]),
        (["EC109", "EC110", "EC111", "EC201"], ["EC109-EC111", "EC201"]),
        (["A1", "B2", "C3"], ["A1", "B2", "C3"]),
        (["?", ""], ["", "?"]),
        ([], []),
    ],
)
def test_codes_that_follow_each_other_are_a_range(codes, expected):
    assert ranges(codes) == expected


@pytest.mark.parametrize(
    ("target", "parts"),
    [("a.py::b", ("a.py", "b")), ("pkg.mod:obj", ("", "pkg.mod:obj")), ("a.py::B::c", ("a.py", "B::c"))],
)
def test_a_target_is_a_file_and_a_name(target, parts):
    assert split(target) == parts


def _metrics(*names: str, code: str = "EC201", outcome: str = "passed"):
    return [cell(f"m.py::{name}", code, outcome) for name in names]


def test_targets_are_listed_by_the_codes_they_share():
    broken = [*_metrics("a", "b", code="EC203"), *_metrics("a", "b", code="EC204"), *_metrics("c", code="EC203")]
    naming = Naming(Report([*broken, *_metrics("a", "b", "c", "d"), cell("n.py::x", "EC203"), cell("n.py::x")]))
    assert naming.target_lines(broken) == ["EC203 EC204: m.py::a, b", "EC203: m.py::c"]
    assert naming.target_lines([*broken, cell("n.py::x", "EC203"), cell("n.py::x")])[-1] == "every check: n.py::x"


def test_a_whole_file_is_a_star_and_a_long_list_is_counted():
    cells = _metrics(*"abcdef")
    whole, part = Naming(Report(cells)), Naming(Report([*cells, *_metrics("g")]))
    assert whole.targets(cells) == "m.py::* (6)"
    assert part.targets(cells) == "m.py::a, b, c, d, e, f"
    assert part.targets(cells, most=2) == "m.py::a, b, 4 more"
    assert part.targets(cells, most=5) == "m.py::a, b, c, d, e, f"


def test_devices_are_named_where_there_are_several():
    one, other = cell(device="cpu"), cell(device="sim:mps")
    assert Naming(Report([one])).targets([one]) == "evalcheck_lm.py::accuracy"
    assert Naming(Report([one, other])).targets([other]) == "evalcheck_lm.py::accuracy[sim:mps]"


def test_known_failures_of_one_report_and_one_reason_are_one():
    known = [cell(f"m.py::{n}", outcome="known", reason=n[:1], see=n[1:]) for n in ("rs", "rs", "rt", "qs")]
    assert sorted(map(len, by_fault(known))) == [1, 1, 2]


def test_known_failures_of_one_upstream_fault_are_one_whatever_the_targets_say():
    known = [cell(f"m.py::{n}", outcome="known", reason=n, upstream="library-cache") for n in "rst"]
    assert list(map(len, by_fault(known))) == [3]


def test_of_two_cells_in_one_place_the_worse_is_shown():
    for first, second in (
        ("passed", "failed"),
        ("failed", "passed"),
        ("failed", "known"),
        ("not applicable", "failed"),
    ):
        (section,) = sections(Report([cell(outcome=first), cell(outcome=second)]))
        assert section.rows[0].cells["EC201"].outcome == "failed"


WORDS = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=1, max_size=90)


@given(words=st.lists(WORDS, min_size=1, max_size=12), width=st.integers(12, 90))
def test_a_folded_line_has_all_its_words_and_breaks_none(words, width):
    lines = fold(" ".join(words), width, hang="    ")
    assert " ".join(each.removeprefix("    ") for each in lines) == " ".join(words)
    for each in lines:
        assert columns(each) <= width or " " not in each.strip()


def test_white_space_in_a_folded_line_stays():
    assert fold("    expected  'a   b' and more", 21, hang="  ") == ["    expected  'a   b'", "  and more"]


@given(value=st.lists(st.text(max_size=30) | st.integers(), max_size=12), width=st.integers(20, 90))
def test_no_string_of_folded_code_is_broken(value, width):
    text = f"    samples={value!r}"
    folded = "\n".join(fold(text, width, hang="        ", code=True))
    names: dict[str, object] = {}
    exec(folded.strip(), names)
    assert names["samples"] == value


FAILURE = """\
Traceback (most recent call last):
  File "/a/path with spaces/that/is/longer/than/the/terminal/is/wide/library.py", line 7, in update
    self.total = self.total + sum(values) / len(values) if values else self.total
ValueError: a text of an error that is longer than the terminal is wide
EC201 splitting_a_stream_does_not_change_the_value
fails for tests/metrics/evalcheck_of_our_package.py::accuracy_of_the_top_k on cpu

    the value of the stream in these batches
        expected  a number that is longer than this terminal is wide
        actual    0.5

smallest input
    samples=['a text with spaces', 'another text', 'a third text']

usual cause  a mean of batch means, or a statistic that is computed per batch
reproduce    pytest --evalcheck 'tests/metrics/evalcheck_of_our_package.py::accuracy_of_the_top_k'"""
FOLDED = """\
Traceback (most recent call last):
  File "/a/path with spaces/that/is/longer/than/the/terminal/is/wide/library.py", line 7, in update
    self.total = self.total + sum(values) / len(values) if values else self.total
ValueError: a text of an error that is
longer than the terminal is wide
EC201
splitting_a_stream_does_not_change_the_value
fails for
tests/metrics/evalcheck_of_our_package.py::accuracy_of_the_top_k
on cpu

    the value of the stream in these
    batches
        expected  a number that is
                  longer than this
                  terminal is wide
        actual    0.5

smallest input
    samples=['a text with spaces',
        'another text', 'a third text']

usual cause  a mean of batch means, or a
             statistic that is computed
             per batch
reproduce    pytest --evalcheck 'tests/metrics/evalcheck_of_our_package.py::accuracy_of_the_top_k'"""


def test_a_failure_is_folded_but_for_what_is_copied_and_source_code():
    assert "\n".join(folded(FAILURE, 40)) == FOLDED
    assert "\n".join(folded(FAILURE, 400)) == FAILURE
