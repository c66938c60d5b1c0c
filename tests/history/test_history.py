"""The runner of history/: entries are read with clear errors, two reports are classified, the page counts them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from history import page
from history.any_release import pytest_pycollect_makeitem, record
from history.entries import EntryError, libraries, read_library
from history.outcomes import Ran, classify
from history.run import read_results
from pytest_evalcheck.engine.known_failures import KnownFailures
from pytest_evalcheck.engine.runner import CellRunner
from pytest_evalcheck.targets.target import requirement

ENTRY = {
    "id": "lib-mean",
    "before": "1.0.0",
    "after": "1.0.1",
    "source": "https://github.com/owner/lib/pull/1",
    "what": "the mean is a mean of batch means",
    "checks": ["EC201"],
    "targets": ["lib.metrics:Mean(of=(1, 2))"],
}


def written(folder: Path, *entries: dict[str, Any], head: str = 'library = "lib"') -> Path:
    texts = ["\n".join(f"{name} = {json.dumps(value)}" for name, value in entry.items()) for entry in entries]
    path = folder / "lib.toml"
    path.write_text(head + "".join(f"\n[[entry]]\n{text}\n" for text in texts), encoding="utf-8")
    return path


def test_an_entry_is_read(tmp_path: Path) -> None:
    library = read_library(written(tmp_path, ENTRY, head='library = "lib"\n[requires]\n"<1.0.1" = ["numpy<2"]'))
    (entry,) = library.entries
    assert (entry.library, entry.checks, entry.targets) == ("lib", ("EC201",), ("lib.metrics:Mean(of=(1, 2))",))
    assert library.needs(entry, "1.0.0") == ("numpy<2",)
    assert library.needs(entry, "1.0.1") == ()


def test_checks_may_be_none_with_a_reason(tmp_path: Path) -> None:
    (entry,) = read_library(written(tmp_path, {**ENTRY, "checks": "none", "why": "plots", "targets": []})).entries
    assert entry.checks == ()


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"checks": "EC2O3"}, "no check has the code 'EC2O3'; did you mean"),
        ({"checks": "none"}, '`checks = "none"` needs `why`'),
        ({"checks": []}, 'expected a code, a list of codes, or "none"'),
        ({"before": "1.0.1"}, "`before` is 1.0.1, which is not before 1.0.1"),
        ({"after": "next"}, "Invalid version: 'next'"),
        ({"before": 1}, "`before` is 1; expected text"),
        ({"targets": "lib.metrics:Mean"}, "expected a list of texts"),
        ({"targets": ["lib.metrics.Mean"]}, "is neither package.module:Name(...) nor"),
        ({"targets": []}, "`targets` is empty"),
        ({"script": "scripts/none.py"}, "the script scripts/none.py is not there"),
        ({"missed": "too tame"}, "`missed` needs a `script`"),
        ({"source": "PR 1"}, "expected an address"),
        ({"requires": ["numpy <<2"]}, "requires 'numpy <<2'"),
        ({"target": "x"}, "'target' is no key of an entry; did you mean 'targets'?"),
    ],
)
def test_a_bad_entry_is_named(tmp_path: Path, changes: dict[str, Any], shown: str) -> None:
    with pytest.raises(EntryError) as error:
        read_library(written(tmp_path, {**ENTRY, **changes}))
    assert "lib.toml: entry lib-mean: " in str(error.value)
    assert shown in str(error.value)


def test_all_that_is_wrong_with_a_file_is_named_at_once(tmp_path: Path) -> None:
    path = written(tmp_path, ENTRY, {**ENTRY, "what": "again"}, {"id": "short"}, head='librari = "lib"')
    with pytest.raises(EntryError) as error:
        read_library(path)
    lines = str(error.value).splitlines()
    assert "lib.toml: 'librari' is no key of a file; did you mean 'library'?" in lines
    assert "lib.toml: entry lib-mean: the id is there twice" in lines
    assert "lib.toml: entry short: `before` is missing" in lines


def test_what_is_no_toml_is_an_error_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "lib.toml").write_text("library = ", encoding="utf-8")
    with pytest.raises(EntryError, match=r"lib\.toml: "):
        read_library(tmp_path / "lib.toml")


def ran(*told: tuple[str, str, set[str]], outcome: str = "") -> Ran:
    """Result of a run: the code of a check, a case, and what failed in it."""
    cases = [
        {"target": "f.py::mean", "code": code, "device": "cpu", "case": case, "failed": sorted(failed)}
        for code, case, failed in told
    ]
    cells = []
    for code in dict.fromkeys(code for code, _, _ in told):
        wrong = any(failed for each, _, failed in told if each == code)
        failure = {"about": "the value"} if wrong else None
        known = outcome or ("known" if wrong else "passed")
        cells.append({"target": "f.py::mean", "code": code, "device": "cpu", "outcome": known, "failure": failure})
    return Ran(cells=[{**cell, "reason": ""} for cell in cells], cases=cases)


KEPT = ran(("EC201", "a", set()), ("EC201", "b", set()))


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [
        (ran(("EC201", "a", {"x"})), KEPT, "caught"),
        # What both have hides no other fault: another case, or another comparison of one case.
        (
            ran(("EC201", "a", {"x"}), ("EC201", "b", {"x"})),
            ran(("EC201", "a", {"x"}), ("EC201", "b", set())),
            "caught",
        ),
        (ran(("EC201", "a", {"x", "y"})), ran(("EC201", "a", {"y"})), "caught"),
        (ran(("EC201", "a", {"x"})), ran(("EC201", "a", {"x"})), "caught, still failing"),
        # Other words for a failure are no mended fault.
        (ran(("EC201", "a", {"x"})), ran(("EC201", "a", {"y"})), "caught, still failing"),
        (ran(("EC201", "a", {"x"})), Ran(), "caught, still failing"),
        # Where the inputs are others, the cell as a whole decides.
        (ran(("EC201", "c", {"x"})), KEPT, "caught"),
        (ran(("EC201", "c", {"x"})), ran(("EC201", "a", {"x"})), "caught, still failing"),
        (KEPT, KEPT, "missed"),
        # A check that nobody predicted counts where it shows the fault, and is no evidence where it does not.
        (ran(("EC204", "a", {"x"})), ran(("EC204", "a", set())), "caught"),
        (ran(("EC204", "a", {"x"})), ran(("EC204", "a", {"x"})), "missed"),
    ],
)
def test_two_runs_are_classified(before: Ran, after: Ran, outcome: str) -> None:
    assert classify(["EC201"], before, after, (1, 0)).outcome == outcome


def test_what_is_caught_names_its_checks_and_cells() -> None:
    before, after = ran(("EC201", "a", {"x"}), ("EC204", "a", {"x"})), ran(("EC201", "a", set()), ("EC204", "a", set()))
    verdict = classify(["EC201"], before, after, None)
    assert verdict.codes == ("EC201", "EC204")
    assert verdict.why == "EC201 mean: the value"


@pytest.mark.parametrize(
    ("shown", "outcome"),
    [((1, 0), "missed"), ((0, 0), "not reproduced"), ((1, 1), "not reproduced"), ((2, 0), "cannot run")],
)
def test_the_script_decides_whether_there_is_a_fault(shown: tuple[int, int], outcome: str) -> None:
    assert classify(["EC201"], KEPT, Ran(), shown).outcome == outcome


def raised(error: str) -> dict[str, Any]:
    return {
        "outcome": "failed",
        "cause": "target error",
        "failure": {"about": error, "origin": f"{error} at a.py:1 (f)"},
    }


@pytest.mark.parametrize("cause", ["target error", "factory"])
def test_an_error_of_a_plain_batch_or_of_the_factory_shows_it_where_the_script_does(cause: str) -> None:
    stopped = {**raised("IndexError"), "cause": cause}
    before = Ran(cells=[{**KEPT.cells[0], **stopped}])
    assert classify(["EC201"], before, KEPT, (1, 0)).outcome == "caught"
    assert classify(["EC201"], before, KEPT, None).outcome == "cannot run"
    assert classify(["EC201"], before, before, (1, 0)).outcome == "missed"
    lacks = Ran(cells=[{**before.cells[0], **raised("ImportError"), "cause": cause}])
    assert classify(["EC201"], lacks, KEPT, (1, 0)).outcome == "missed"
    without_value = Ran(cells=[{**before.cells[0], "failure": {"about": "no value", "origin": ""}}])
    assert classify(["EC201"], without_value, KEPT, (1, 0)).outcome == "missed"
    of_the_check = Ran(cells=[{**before.cells[0], "cause": "check"}])
    assert classify(["EC201"], of_the_check, KEPT, (1, 0)).outcome == "missed"


def test_one_cell_tells_the_error_of_a_plain_batch_for_all_cells_of_its_target() -> None:
    error = raised("KeyError")
    for_it = {"outcome": "not run", "cause": "target error", "failure": None}
    cell = KEPT.cells[0]
    before = Ran(cells=[{**cell, "code": "EC206", **error}, {**cell, **for_it}])
    # What told it may be broken by another fault after.
    after = Ran(cells=[{**cell, "code": "EC206", "outcome": "failed"}, cell])
    verdict = classify(["EC201"], before, after, (1, 0))
    assert (verdict.outcome, verdict.codes) == ("caught", ("EC201",))
    assert "KeyError" in verdict.why
    of_another = Ran(cells=[{**cell, "code": "EC206", "target": "other", **error}, {**cell, **for_it}])
    assert classify(["EC201"], of_another, after, (1, 0)).outcome == "missed"


def test_a_run_without_a_report_is_no_miss() -> None:
    verdict = classify(["EC201"], Ran(trouble="ImportError: np.Inf"), Ran(), None)
    assert (verdict.outcome, verdict.why) == ("cannot run", "before: ImportError: np.Inf")
    untried = Ran(cells=[{**KEPT.cells[0], "outcome": "not run", "reason": "lib is not installed"}])
    assert classify(["EC201"], untried, Ran(), None).outcome == "cannot run"
    # Where the script runs on both, the suite had what it needs.
    assert classify(["EC201"], untried, Ran(), (1, 0)).outcome == "missed"


def test_the_page_counts_what_runs(tmp_path: Path) -> None:
    known = {"lib": read_library(written(tmp_path, *({**ENTRY, "id": f"lib-{n}"} for n in range(4))))}
    results = {
        "lib-0": {"outcome": "caught", "first": "missed", "codes": ["EC217"]},
        "lib-1": {"outcome": "caught", "first": "caught", "codes": ["EC201"]},
        "lib-2": {"outcome": "not reproduced", "first": "not reproduced", "codes": []},
    }
    text = page.text(known, results)
    assert "| lib | 2 | 0 | 0 | 0 | 1 | 1 | 1 of 2 (50%) | 2 of 2 (100%) |" in text
    assert "1 are found by comparing the code with itself, and 1 by a reference alone" in text
    assert "caught (missed at first)" in text


def test_the_list_can_be_read_and_the_page_is_that_of_the_results() -> None:
    known = libraries()
    ids = [entry.id for library in known.values() for entry in library.entries]
    assert len(ids) == len(set(ids))
    assert set(read_results()) <= set(ids)
    assert page.PAGE.read_text(encoding="utf-8") == page.text(known, read_results())


def test_an_old_release_is_not_held_to_what_is_said_of_the_newest() -> None:
    import pytest_evalcheck as ec
    from pytest_evalcheck import strategies as es

    @ec.metric(inputs=es.regression(), requires=("lib>=9",), known_failures={"EC201": ec.KnownFailure("why")})
    def target() -> None:
        """Never built."""

    pytest_pycollect_makeitem(target)
    assert [str(requirement(text).specifier) for text in target.requires] == [""]
    assert target.known_failures == {}


def test_every_case_that_fails_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pytest_evalcheck as ec
    from pytest_evalcheck import strategies as es

    class MeanOfBatches:
        def __init__(self) -> None:
            self.total, self.count = 0.0, 0

        def update(self, preds: Any, target: Any) -> None:
            self.total += float((preds - target).abs().mean())
            self.count += 1

        def compute(self) -> float:
            return self.total / self.count if self.count else float("nan")

    @ec.metric(inputs=es.regression())
    def mean() -> Any:
        return ec.Metric.of(MeanOfBatches())

    for cls, name in ((CellRunner, "attempt"), (KnownFailures, "should_pass_over")):  # what `record` replaces
        monkeypatch.setattr(cls, name, getattr(cls, name))
    record(str(tmp_path / "cases"))
    report = ec.run(mean, select="EC201", effort="quick", device="cpu")
    lines = [json.loads(line) for line in (tmp_path / "cases").read_text(encoding="utf-8").splitlines()]
    assert [cell.outcome for cell in report.cells] == ["known"]
    failed = [line for line in lines if line["failed"]]
    assert len(failed) > 1
    assert len(failed) < len(lines)
    assert {line["code"] for line in lines} == {"EC201"}
