"""The baseline: `--evalcheck-known=accept`, `--evalcheck-known=prune` and `evalcheck-known.toml`."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from target_files import BROKEN, CORRECT, HEADER

from pytest_evalcheck.engine.known_failures import values_agree
from pytest_evalcheck.errors import UsageError
from pytest_evalcheck.integration.known.accepting import updated
from pytest_evalcheck.integration.known.baseline import FILE, Baseline, Entry, from_literal
from pytest_evalcheck.reports.case_codec import literal
from pytest_evalcheck.testing import Project

SELECT = ("--evalcheck-select=EC201,EC202,EC206", "--evalcheck-device=cpu")
TWO_BUGS = """
class Twice(MeanOfMeans):
    def update(self, values):
        if len(values) > 3:
            raise RuntimeError("too many")
        super().update(values)

@ec.metric(inputs=numbers)
def twice(device):
    return ec.Metric.of(Twice())
"""
ENTRY = """
[[known]]
target = "evalcheck_example.py::mean_of_means"
code = "EC201"
signature = "EC201: split: another number"
reason = "it is called a mean of means"
"""


def written(project: Project) -> str:
    return (project.path / FILE).read_text(encoding="utf-8")


def test_what_is_red_is_known_from_then_on(project: Project) -> None:
    project.write(CORRECT, BROKEN)
    project.run(*SELECT, code=1)
    accepting = project.run(*SELECT, "--evalcheck-known=accept", code=0)
    accepting.shows("accepted: 1 entry of 1 check in evalcheck-known.toml; give each a reason", "accepted now")
    (entry,) = Baseline.read(project.path / FILE).entries
    assert (entry.target, entry.code, entry.devices) == ("evalcheck_example.py::mean_of_means", "EC201", ("cpu",))
    assert entry.signature == accepting.cell("EC201", "mean_of_means").signature
    assert dict(entry.case or {}) == accepting.cell("EC201", "mean_of_means").failure.case
    again = project.run(*SELECT, code=0)
    cell = again.cell("EC201", "mean_of_means")
    assert (cell.outcome, cell.examples > 1, cell.accepted) == ("known", True, ())
    again.shows("evalcheck-known.toml: 1 known failure, 1 without a reason")
    before = written(project)
    project.run(*SELECT, "--evalcheck-known=accept", code=0)
    assert written(project) == before


def test_a_reason_is_shown_and_no_debt(project: Project) -> None:
    project.write(BROKEN)
    (project.path / FILE).write_text(ENTRY, encoding="utf-8")
    result = project.run(*SELECT, code=0)
    assert result.cell("EC201").reason == "it is called a mean of means"
    result.shows("evalcheck-known.toml: 1 known failure\n")


def test_runxfail_makes_what_is_known_fail_and_says_so(project: Project) -> None:
    project.write(BROKEN)
    (project.path / FILE).write_text(ENTRY, encoding="utf-8")
    shown = project.run(*SELECT, "--runxfail", code=1)
    shown.shows("evalcheck: not ok: 1 known failure counted as failed, for --runxfail").lacks("beside the outcomes")


def test_a_second_failure_of_a_cell_is_accepted_too_and_a_new_one_is_red(project: Project) -> None:
    project.write(TWO_BUGS)
    project.run("--evalcheck-select=EC201", "--evalcheck-device=cpu", "--evalcheck-known=accept", code=0)
    entries = Baseline.read(project.path / FILE).entries
    assert len({entry.signature for entry in entries}) == len(entries) == 2
    project.write(TWO_BUGS.replace('raise RuntimeError("too many")', 'self.total = float("nan")'))
    cell = project.run("--evalcheck-select=EC201", "--evalcheck-device=cpu", code=1).cell("EC201")
    assert cell.outcome == "failed"


def test_an_entry_that_does_not_fail_is_an_error_until_it_is_pruned(project: Project) -> None:
    project.write(BROKEN)
    project.run(*SELECT, "--evalcheck-known=accept", code=0)
    project.write(CORRECT.replace("def mean(", "def mean_of_means("))
    stale = project.run(*SELECT, code=1).cell("EC201")
    assert (stale.cause, stale.stale) == ("stale known failure", ("evalcheck-known.toml:4",))
    assert "Take the entry out of evalcheck-known.toml:4." in stale.failure.detail
    project.run(*SELECT, code=1).shows("is a stale known failure of").lacks("could not be tried")
    project.run(*SELECT, "--evalcheck-known=prune", code=0).shows(
        "taken out of evalcheck-known.toml: 1 entry no longer failing"
    )
    assert Baseline.read(project.path / FILE).entries == ()
    project.run(*SELECT, code=0)


def test_an_entry_is_pruned_for_the_device_on_which_it_does_not_fail(project: Project) -> None:
    on_cpu_only = BROKEN.replace("MeanOfMeans()", "MeanOfMeans() if device == 'cpu' else Mean()")
    project.write(on_cpu_only)
    (project.path / FILE).write_text(ENTRY, encoding="utf-8")
    options = ("--evalcheck-select=EC201", "--evalcheck-device=cpu,sim:cuda")
    assert project.run(*options, code=1).cell("EC201", device="sim:cuda").cause == "stale known failure"
    pruned = project.run(*options, "--evalcheck-known=prune", code=0).lacks("accepted: ")
    pruned.shows("taken out of evalcheck-known.toml: devices of 1 entry on which nothing fails any more")
    (entry,) = Baseline.read(project.path / FILE).entries
    assert (entry.devices, entry.reason) == (("cpu",), "it is called a mean of means")


def test_a_target_that_is_gone_is_an_error_until_it_is_pruned(project: Project) -> None:
    gone = ENTRY.replace("mean_of_means", "mean_of_mean") + ENTRY.replace("example.py", "other.py")
    gone += ENTRY.replace("example.py", "two\\nlines.py")
    project.write(BROKEN)
    (project.path / FILE).write_text(ENTRY + gone, encoding="utf-8")
    result = project.run(*SELECT, code=1)
    result.shows(
        "has no target 'mean_of_mean'; did you mean 'mean_of_means'?",
        "the file evalcheck_other.py is not there",
        "the file evalcheck_two lines.py is not there",
    )
    project.run(*SELECT, "--evalcheck-known=prune", code=0)
    assert written(project).strip() == ENTRY.strip()


def test_what_was_written_by_hand_stays(project: Project) -> None:
    project.write(CORRECT, BROKEN.replace("def mean_of_means", "def another"), TWO_BUGS)
    by_hand = "# Ours.\n" + ENTRY.replace("mean_of_means", "another") + "# until the next release\n"
    (project.path / FILE).write_text(by_hand, encoding="utf-8")
    project.run("--evalcheck-select=EC201", "--evalcheck-device=cpu", "--evalcheck-known=accept", code=0)
    text = written(project)
    assert text.startswith(by_hand)
    targets = [entry.target.partition("::")[2] for entry in Baseline.read(project.path / FILE).entries]
    assert targets == ["another", "twice", "twice"]


def test_a_target_that_cannot_be_tried_is_not_accepted(project: Project) -> None:
    project.write(BROKEN.replace("MeanOfMeans()", "missing"))
    refused = project.run(*SELECT, "--evalcheck-known=accept", code=1)
    refused.shows("not accepted: 1 check that could not be tried")
    assert not (project.path / FILE).exists()


RESETS_ONE_OF_TWO = """
class ResetsOneOfTwo(Mean):
    def __init__(self):
        self.total, self.count = 0.0, 0
    def reset(self):
        self.total = 0.0

@ec.metric(inputs=numbers)
def resets_one_of_two(device):
    return ec.Metric.of(ResetsOneOfTwo())
"""


def test_failures_of_one_case_are_all_accepted(project: Project) -> None:
    """Each comparison fails for the smallest case: behind what one entry covers is the failure of the next."""
    project.write(RESETS_ONE_OF_TWO)
    select = ("--evalcheck-select=EC204", "--evalcheck-device=cpu")
    project.run(*select, "--evalcheck-known=accept", code=0)
    entries = Baseline.read(project.path / FILE).entries
    ids = [entry.signature.split(": ")[1] for entry in entries]
    assert {"after-updates", "after-a-compute"} <= set(ids)
    assert len({literal(dict(entry.case or {})) for entry in entries}) < len(entries)  # one case shows several
    assert project.run(*select, code=0).cell("EC204").outcome == "known"
    project.write(RESETS_ONE_OF_TWO.replace("self.total = 0.0\n", "self.total, self.count = 0.0, 0\n"))
    project.run(*select, code=1).shows("is a stale known failure of")
    project.run(*select, "--evalcheck-known=prune", code=0)
    assert Baseline.read(project.path / FILE).entries == ()


def test_a_failure_that_hides_behind_another_is_still_required(project: Project) -> None:
    """An entry is stale where its failure is mended and the same case still fails in another way."""
    project.write(RESETS_ONE_OF_TWO)
    select = ("--evalcheck-select=EC204", "--evalcheck-device=cpu")
    project.run(*select, "--evalcheck-known=accept", code=0)
    before = {entry.signature for entry in Baseline.read(project.path / FILE).entries}
    after_a_compute = """
    def compute(self):
        self.computed = True
        return super().compute()
    def reset(self):
        self.total = 0.0
        if not vars(self).pop("computed", False):
            self.count = 0
"""
    project.write(RESETS_ONE_OF_TWO.replace("\n    def reset(self):\n        self.total = 0.0\n", after_a_compute))
    project.run(*select, code=1).shows("its case shows another known failure alone")
    project.run(*select, "--evalcheck-known=prune", code=0)
    left = {entry.signature for entry in Baseline.read(project.path / FILE).entries}
    assert left < before
    assert "EC204: after-a-compute: another number" in left


AT_FIRST_ONLY = """
import itertools
calls = itertools.count()

class AtFirstOnly(Mean):
    def compute(self):
        return super().compute() + (next(calls) < 12)

@ec.metric(inputs=numbers)
def at_first_only(device):
    return ec.Metric.of(AtFirstOnly())
"""


def test_what_does_not_fail_each_time_is_named_with_what_it_showed_and_the_way_out(project: Project) -> None:
    project.write(AT_FIRST_ONLY)
    run = project.run("--evalcheck-select=EC201", "--evalcheck-device=cpu", "--evalcheck-known=accept", code=1)
    cell = run.cell("EC201")
    assert cell.reason
    assert cell.unaccepted
    run.shows(f"not accepted: EC201 of evalcheck_example.py::at_first_only on cpu: {cell.reason}; {cell.unaccepted}")
    run.shows("Seed what is random in the target", "not_applicable={'EC201': 'why'}")
    assert not (project.path / FILE).exists()


def test_of_many_that_were_not_accepted_some_are_named(project: Project, tmp_path: Path) -> None:
    project.write(BROKEN)
    cell = replace(project.run(*SELECT, code=1).cell("EC201"), unaccepted="the same case passed when tried again")
    baseline, said = updated(
        Baseline(tmp_path / FILE), [replace(cell, code=f"EC2{n}") for n in range(10, 17)], accept=True
    )
    assert not baseline.entries
    assert said[5] == "not accepted: 2 checks more of this kind"
    assert len(said) == 7


def test_a_target_outside_of_the_root_directory_is_accepted_and_read_again(
    project: Project, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Pytest gives such a file an id without a path."""
    path = project.write(BROKEN).path / "evalcheck_example.py"
    outside = path.rename(tmp_path_factory.mktemp("outside") / path.name)
    (project.path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    files = (str(outside), f"--rootdir={project.path}", "-c", "pytest.ini")
    project.run(*files, *SELECT, "--evalcheck-known=accept", code=0)
    assert [entry.target for entry in Baseline.read(project.path / FILE).entries] == ["::mean_of_means"]
    assert project.run(*files, *SELECT, code=0).cell("EC201", "mean_of_means").outcome == "known"


@pytest.mark.slow
def test_workers_and_processes_of_one_cell_accept_the_same(project: Project) -> None:
    project.write(CORRECT, BROKEN, TWO_BUGS)
    options = ("--evalcheck", "--evalcheck-select=EC201", "--evalcheck-device=cpu", "--evalcheck-known=accept")
    files = []
    for more in ((), ("-n", "2"), ("--evalcheck-run=isolated",)):
        project.spawn(*options, *more, code=0)
        files.append(written(project))
        (project.path / FILE).unlink()
    assert files[0] == files[1] == files[2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            ENTRY.replace("EC201", "EC2001", 1),
            "evalcheck-known.toml:2: 'EC2001' is not the code of a check; did you mean",
        ),
        (ENTRY.replace("code = ", "codes = "), "evalcheck-known.toml:2: unknown key 'codes'; expected code, target"),
        (ENTRY.replace('target = "evalcheck_example.py::mean_of_means"\n', ""), "there is no target; expected one"),
        (ENTRY.replace("example.py::", "example.py:"), "expected a node id with forward slashes"),
        (ENTRY.replace("evalcheck_example", "sub\\\\evalcheck_example"), "expected a node id with forward slashes"),
        (ENTRY.replace("EC201", "ec201", 1), "'ec201' is not the code of a check; did you mean 'EC201'?"),
        (
            ENTRY.replace("EC201", "splitting_a_stream_does_not_change_the_value", 1),
            "is not the code of a check; did you mean 'EC201'?",
        ),
        (ENTRY.replace("evalcheck_example", "./evalcheck_example"), "expected a path from the folder of the ini file"),
        (ENTRY.replace("evalcheck_example", "/a/evalcheck_example"), "expected a path from the folder of the ini file"),
        (ENTRY.replace("evalcheck_example", "../evalcheck_example"), "expected a path from the folder of the ini file"),
        (ENTRY.replace("evalcheck_example", "C:/evalcheck_example"), "expected a path from the folder of the ini file"),
        (
            ENTRY.replace("::mean_of_means", "::mean_of_means::splitting[cpu]"),
            "the id of a check; expected the id of its target, 'evalcheck_example.py::mean_of_means'",
        ),
        (ENTRY + 'devices = ["tpu"]\n', "expected some of cpu, cuda, mps"),
        (ENTRY + ENTRY, "evalcheck-known.toml:8 and line 2 are about the same failure of EC201"),
        (ENTRY + ENTRY.replace("signature = ", "# "), "are about the same failure of EC201"),
        (ENTRY + "[known.case]\nsamples = '[(0, 1]'\n", "case.samples is no Python literal: '[(0, 1]'"),
        (ENTRY + "[known.case]\nsamples = '__import__(\"os\")'\n", "case.samples is no Python literal"),
        (ENTRY + "[known.case]\nsamples = 3\n", "case is no table of texts"),
        (ENTRY + "reason = 3\n", "evalcheck-known.toml is not TOML: Cannot overwrite a value"),
        (ENTRY.replace('reason = "it is called a mean of means"', "reason = 3"), "reason is 3; expected a text"),
        ("known = 1\n", "expected [[known]] tables"),
        ("[knwon]\n", "has the key 'knwon'; expected [[known]] tables"),
        ('[[known]\ncode = "EC201"\n', "evalcheck-known.toml is not TOML"),
        ('known = [{code = "EC201", target = "a.py::b"}]\n', "expected each to begin with a line [[known]]"),
    ],
)
def test_a_baseline_with_an_error_is_a_usage_error(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as raised:
        Baseline.read(tmp_path / FILE)
    assert message in str(raised.value)


def test_bad_use_ends_the_run_before_it_begins(project: Project) -> None:
    project.write(BROKEN)
    (project.path / FILE).write_text(ENTRY.replace("EC201", "EC9", 1), encoding="utf-8")
    assert "'EC9' is not the code of a check" in project.run(*SELECT, code=4).output
    (project.path / FILE).write_text("", encoding="utf-8")
    replay = project.run(*SELECT, code=1).reproduce[0].split("--evalcheck-replay=")[1]
    output = project.run("--evalcheck-known=accept", f"--evalcheck-replay={replay}", code=4).output
    assert "needs all cases; remove --evalcheck-replay" in output
    assert "does nothing without --evalcheck" in project.run("--evalcheck-known=prune", evalcheck=False, code=4).output


def test_another_check_than_the_target_has(project: Project) -> None:
    project.write(CORRECT)
    other = ENTRY.replace("mean_of_means", "mean").replace("EC201: split", "EC301: logits").replace("EC201", "EC301")
    (project.path / FILE).write_text(other, encoding="utf-8")
    project.run(*SELECT, code=1).shows("names EC301, which is no check of evalcheck_example.py::mean")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_folder_that_cannot_be_written_is_an_error_before_the_run(project: Project) -> None:
    project.write(BROKEN)
    project.path.chmod(0o555)
    try:
        assert "cannot be written" in project.run(*SELECT, "--evalcheck-known=accept", code=4).output
    finally:
        project.path.chmod(0o755)


def test_a_file_in_the_way_is_an_error_before_the_run(project: Project) -> None:
    project.write(BROKEN)
    (project.path / FILE).mkdir()
    assert "expected a file that may be written" in project.run(*SELECT, "--evalcheck-known=accept", code=4).output


def test_a_failed_write_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / FILE).write_text(ENTRY, encoding="utf-8")
    more = Baseline.read(tmp_path / FILE).with_new([Entry(code="EC202", target="a.py::b", signature="s")])

    def full(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="no space left"):
        more.write()
    assert [path.name for path in tmp_path.iterdir()] == [FILE]
    assert (tmp_path / FILE).read_text(encoding="utf-8") == ENTRY


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text(min_size=1), PLAIN, min_size=1), st.text(), st.text())
def test_any_case_is_read_as_it_was_written(tmp_path_factory: pytest.TempPathFactory, case, signature, reason) -> None:
    path = tmp_path_factory.mktemp("baseline") / FILE
    new = Entry(code="EC201", target="a.py::b", signature=signature, reason=reason, case=case, devices=("mps",))
    surrogates = any("\ud800" <= letter <= "\udfff" for letter in repr(new))
    if surrogates:
        return
    Baseline(path).with_new([new]).write()
    (read,) = Baseline.read(path).entries
    assert repr(read.case) == repr(case)
    assert (read.signature, read.reason, read.devices) == (signature, reason, ("mps",))


@given(PLAIN)
def test_literals(value) -> None:
    assert repr(from_literal(literal(value))) == repr(value)


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_what_an_editor_of_windows_writes(tmp_path: Path, mark: bytes) -> None:
    (tmp_path / FILE).write_bytes(mark + ENTRY.replace("\n", "\r\n").encode())
    before = Baseline.read(tmp_path / FILE)
    (entry,) = before.entries
    assert entry.reason == "it is called a mean of means"
    new = Entry(code="EC204", target=entry.target, signature="s")
    before.with_new([new]).write()
    raw = (tmp_path / FILE).read_bytes()
    assert raw.startswith(mark)
    assert ENTRY.strip().replace("\n", "\r\n").encode() in raw
    assert raw.count(b"\r\n") == raw.count(b"\n")
    assert Baseline.read(tmp_path / FILE).entries == (entry, new)


def test_a_first_baseline_of_a_whole_project_is_green(project: Project) -> None:
    project.write(CORRECT, BROKEN)
    (project.path / "pytest.ini").write_text("[pytest]\nevalcheck_select = EC201\nevalcheck_device = cpu\n")
    project.run("--evalcheck-known=accept", code=0).lacks("ERROR")


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("samples = '7'\nbatches = '[[0], [1]]'", "the case of evalcheck-known.toml:2 cannot be tried"),
        ("samples = '[0, 1]'\nbatches = '[[0], [9]]'", "the case of evalcheck-known.toml:2 cannot be tried"),
        ("samples = '[0, 1]'", "the case of evalcheck-known.toml:2 does not fit EC201"),
    ],
)
def test_a_case_by_hand_that_cannot_be_tried_is_named_with_its_line(project: Project, case: str, words: str) -> None:
    project.write(BROKEN)
    (project.path / FILE).write_text(f"{ENTRY}[known.case]\n{case}\n", encoding="utf-8")
    project.run(*SELECT, code=1).shows(words).lacks("the check itself raised an error")


def test_a_failure_of_another_signature_than_its_entry_says_so(project: Project) -> None:
    project.write(BROKEN)
    case = "[known.case]\nsamples = '[0, 0, 1]'\nbatches = '[[0, 1], [2]]'\n"
    (project.path / FILE).write_text(ENTRY.replace("another number", "NaN") + case, encoding="utf-8")
    project.run(*SELECT, code=1).shows("evalcheck-known.toml:2 has another signature: EC201: split: NaN")


OLD = "EC201: the value of the stream in these batches: another number"


@pytest.mark.parametrize("quote", ['"', "'"])
def test_an_old_signature_is_read_and_written_anew(project: Project, quote: str) -> None:
    project.write(BROKEN)
    old = ENTRY.replace('"EC201: split: another number"', f"{quote}{OLD}{quote}  # of last year")
    assert OLD in old
    (project.path / FILE).write_text(old, encoding="utf-8")
    said = "1 known failure, 1 signature in an old form (--evalcheck-known=accept writes the new one)"
    project.run(*SELECT, code=0).shows(f"evalcheck-known.toml: {said}")
    assert OLD in written(project)
    project.run(*SELECT, "--evalcheck-known=accept", code=0).lacks("in an old form")
    assert 'signature = "EC201: split: another number"  # of last year\n' in written(project)
    project.run(*SELECT, code=0).lacks("in an old form")


def test_an_unknown_id_is_named_with_the_nearest_one(project: Project) -> None:
    project.write(BROKEN)
    (project.path / FILE).write_text(ENTRY.replace("split", "spilt"), encoding="utf-8")
    project.run(*SELECT, code=4).shows(
        "evalcheck-known.toml:2: 'EC201: spilt: another number' names 'spilt', which is no id of EC201; "
        "did you mean 'split'?"
    )


def test_an_entry_that_is_indented_is_read(project: Project) -> None:
    project.write(BROKEN)
    (project.path / FILE).write_text(ENTRY.replace("[[known]]", "  [[known]]"), encoding="utf-8")
    project.run(*SELECT, code=0)


def test_the_reason_of_an_entry_without_a_target_is_said_when_it_goes(project: Project) -> None:
    project.write(BROKEN.replace("def mean_of_means", "def another_name"))
    (project.path / FILE).write_text(ENTRY, encoding="utf-8")
    shown = project.run(*SELECT, "--evalcheck-known=prune", code=1)
    shown.shows("taken out of evalcheck-known.toml: 1 entry whose target is gone")
    shown.shows("taken out with its reason: EC201 of evalcheck_example.py::mean_of_means: it is called a mean of means")


OTHER = ENTRY.replace("evalcheck_example", "sub/evalcheck_other")


@pytest.fixture
def two_files(project: Project) -> Project:
    """Two files with the same failure, and a baseline of both."""
    (project.path / "sub").mkdir()
    project.write(BROKEN).write(BROKEN, name="sub/evalcheck_other.py")
    (project.path / "pytest.ini").write_text("[pytest]\nevalcheck_select = EC201\nevalcheck_device = cpu\n")
    (project.path / FILE).write_text(ENTRY + OTHER, encoding="utf-8")
    return project


def _keeps_all_entries(project: Project, *options: str, code: int) -> None:
    before = written(project)
    project.run(*options, code=code).lacks("has no target")
    project.run(*options, "--evalcheck-known=prune", code=code).lacks("taken out of")
    assert written(project) == before


@pytest.mark.parametrize("option", ["--ignore=sub", "--ignore-glob=*other*", "--deselect=sub", "-k not other"])
def test_a_file_that_the_command_line_leaves_out_loses_no_entry(two_files: Project, option: str) -> None:
    _keeps_all_entries(two_files, option, code=0)


def test_a_file_that_the_configuration_leaves_out_loses_no_entry(
    two_files: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "--ignore=sub")
    _keeps_all_entries(two_files, code=0)


def test_a_run_in_a_folder_of_the_project_says_nothing_of_the_others(
    two_files: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(two_files.path / "sub")
    _keeps_all_entries(two_files, code=0)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("import a_library_that_is_not_there", 1),
        ("import pytest; pytest.importorskip('a_library_that_is_not_there')", 0),
        ("broken = ec.metric(inputs=numbers, unknown=1)(lambda device: None)", 1),
    ],
)
def test_a_file_that_cannot_be_read_loses_no_entry(two_files: Project, line: str, code: int) -> None:
    two_files.write(f"{line}\n", BROKEN.replace("mean_of_means", "renamed"), name="sub/evalcheck_other.py")
    _keeps_all_entries(two_files, "--evalcheck-optional=skipped", code=code)


def test_an_interrupted_collection_loses_no_entry(two_files: Project) -> None:
    two_files.write("raise KeyboardInterrupt\n")
    two_files.spawn("--evalcheck", "--evalcheck-known=prune", code=2).lacks("has no target", "taken out of")
    assert written(two_files) == ENTRY + OTHER


def test_a_target_that_is_gone_from_a_file_of_tests_is_an_error(two_files: Project) -> None:
    two_files.write("def test_one(): pass\n", name="sub/evalcheck_other.py")
    result = two_files.run("--evalcheck-with-tests", code=1)
    result.shows("sub/evalcheck_other.py has no target 'mean_of_means'; --evalcheck-known=prune removes the entry")


def test_an_entry_of_what_the_target_declares_not_applicable_is_stale(project: Project) -> None:
    declared = BROKEN.replace("numbers)", "numbers, not_applicable={'EC201': 'its batches are its samples'})")
    project.write(declared)
    (project.path / FILE).write_text(ENTRY, encoding="utf-8")
    cell = project.run(*SELECT, code=1).cell("EC201")
    assert (cell.cause, cell.stale) == ("stale known failure", ("evalcheck-known.toml:2",))
    assert "the check is not applicable (its batches are its samples)" in cell.reason
    project.run(*SELECT, "--evalcheck-known=prune", code=0).shows("1 entry no longer failing")


def test_a_path_that_no_file_can_have_is_one_that_is_not_there(project: Project) -> None:
    project.write(CORRECT)
    long = ENTRY.replace("evalcheck_example", "x" * 300)
    (project.path / FILE).write_text(long + ENTRY.replace("example", "a\\u0000b"), encoding="utf-8")
    project.run(*SELECT, code=1).shows("evalcheck-known.toml:2: the file xxx", "evalcheck-known.toml:8: the file ")


NOW_WITH_100 = """
class WithHundred(MeanOfMeans):
    def update(self, values):
        super().update(values)
        self.total += 100 * (self.count > 1)

@ec.metric(inputs=numbers)
def mean_of_means(device):
    return ec.Metric.of(WithHundred())
"""


def test_another_fault_of_the_same_kind_is_another_failure(project: Project) -> None:
    """Both are another number of the same comparison; the values of the pinned case tell them apart."""
    project.write(BROKEN)
    project.run(*SELECT, "--evalcheck-known=accept", code=0)
    (entry,) = Baseline.read(project.path / FILE).entries
    assert entry.values == ("0.333333333", "0.5")
    reasoned = written(project).replace('reason = ""', '# Ours.\nreason = "by design"  # for now')
    (project.path / FILE).write_text(reasoned, encoding="utf-8")
    project.write(NOW_WITH_100)
    cell = project.run(*SELECT, code=1).cell("EC201")
    assert (cell.outcome, cell.failure.actual) == ("failed", "50.5")
    said = "Another failure than evalcheck-known.toml:4, where this case has expected 0.333333333 and actual 0.5"
    assert cell.failure.detail.splitlines()[0] == said
    accepting = project.run(*SELECT, "--evalcheck-known=accept", code=0)
    accepting.shows("accepted: other values of 1 entry in evalcheck-known.toml").lacks("give each a reason")
    assert written(project) == reasoned.replace('actual = "0.5"', 'actual = "50.5"')
    project.run(*SELECT, code=0)


def test_an_entry_without_values_covers_every_failure_of_its_kind(project: Project) -> None:
    project.write(NOW_WITH_100)
    (project.path / FILE).write_text(ENTRY, encoding="utf-8")
    assert project.run(*SELECT, code=0).cell("EC201").outcome == "known"


def test_values_that_differ_from_run_to_run_are_not_kept(project: Project) -> None:
    project.write(BROKEN.replace("MeanOfMeans()", "Unsteady()"), header=UNSTEADY)
    project.run("--evalcheck-select=EC201", "--evalcheck-device=cpu", "--evalcheck-known=accept", code=0)
    (entry,) = Baseline.read(project.path / FILE).entries
    assert (entry.signature, entry.values) == ("EC201: split: another number", ())
    assert project.run("--evalcheck-select=EC201", "--evalcheck-device=cpu", code=0).cell("EC201").outcome == "known"


UNSTEADY = (
    HEADER
    + """
import os

class Unsteady(MeanOfMeans):
    def compute(self):
        return super().compute() + self.count * (1 + int.from_bytes(os.urandom(2), "big"))
"""
)


@pytest.mark.parametrize(
    ("texts", "others", "agree"),
    [
        (("0.333333333", "0.5"), ("0.33333", "0.5001"), True),
        (("0.333333333", "0.5"), ("0.333333333", "0.6"), False),
        (("[1.0, nan]", "{'a': -1e-05}"), ("[1, nan]", "{'a': -1.001e-05}"), True),
        (("[1.0, nan]", ""), ("[nan, 1.0]", ""), False),
        (("[1.0]", ""), ("[1.0, 2.0]", ""), False),
        (("'a'", "'b'"), ("'a'", "'c'"), False),
    ],
)
def test_values_agree_up_to_rounding(texts: tuple[str, str], others: tuple[str, str], agree: bool) -> None:
    assert values_agree(texts, others) == agree
    assert values_agree(others, texts) == agree
