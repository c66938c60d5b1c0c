"""The list of packages that nobody tuned the checks for: its rules, and the figures that it gives."""

import pytest

from firstsight import draw, run

SITE = {
    "pkg/__init__.py": "def benchmark_all(): ...\n",
    "pkg/rank.py": "def ndcg(a, b):\n    '''Scores of a ranking.'''\n\nclass RankMetric: ...\n",
    "pkg/plot.py": "def draw(a, b): ...\n",
    "pkg/one.py": "def evaluateModel(a): ...\ndef _score(a): ...\n",
    "pkg/tests/many.py": "def score(): ...\n" * 9,
    "pkg/_own.py": "def score(): ...\n" * 9,
    "pkg/broken.py": "def score(:\n",
    "tests/more.py": "def score(): ...\n",
}


def test_the_package_comes_first_and_then_the_modules_with_the_most_evaluation_code(tmp_path):
    for name, source in SITE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(source, encoding="utf-8")
    assert run.choose_requests(tmp_path, [*SITE, "pkg-1.0.dist-info/METADATA"]) == ["pkg", "pkg.rank", "pkg.one"]
    assert run.choose_requests(tmp_path, ["tests/more.py"]) == []


@pytest.mark.parametrize(
    ("code", "output", "ended"),
    [
        (4, "ERROR: pkg: no metric was found among 3 public names; expected classes", "no metric found"),
        (4, "ERROR: pkg: none of 2 metrics could be tried\n  pkg.f: abstract", "none could be tried"),
        (4, "ERROR: importing pkg raised OSError: no network", "not imported"),
        (4, "ERROR: pkg cannot be imported: it needs jax, which is missing", "not imported"),
        (124, "", "time limit"),
        (3, "INTERNALERROR> KeyError: 'a'", "error of the run"),
        (139, "", "error of the run"),
    ],
)
def test_a_run_without_checks_ends_in_one_of_few_ways(code, output, ended):
    assert run.classify(code, output, {}).ended == ended


def test_checks_that_ended_before_the_limit_count():
    result = run.classify(124, "ERROR: the run was interrupted", {"checks": [{}]})
    assert (result.ended, result.note) == ("tried", "time limit")


def test_a_failed_check_gives_a_row_with_the_id_and_the_kind_of_its_difference():
    failure = {"about": "the value of\tthe stream", "expected": "1.0", "actual": "2.0"}
    checks = [
        {
            "outcome": outcome,
            "signature": "EC201: split: another: number",
            "failure": failure,
            "target": "t",
            "code": "EC201",
        }
        for outcome in ("passed", "failed", "known")
    ]
    (row,) = run.red_rows("pkg", "abc", {"checks": checks})
    assert (row["comparison"], row["kind"]) == ("split", "another: number")
    assert row["message"] == "the value of\tthe stream: expected 1.0, got 2.0"


def tables(monkeypatch, folder):
    """Let the tables be in a folder."""
    monkeypatch.setattr(run, "OUTCOMES", folder / "outcomes.tsv")
    monkeypatch.setattr(run, "RED", folder / "red.tsv")


def test_the_table_counts_verdicts_of_one_run(monkeypatch, tmp_path):
    tables(monkeypatch, tmp_path)
    for name in ("a", "b"):
        row = {"package": "pkg", "half": "1", "run": name, "ended": "tried", "targets": 3, "failed": 4, "passed": 5}
        run.append(run.OUTCOMES, run.COLUMNS, [row])
    red = {"package": "pkg", "run": "a", "code": "EC201", "kind": "another number"}
    verdicts = ("number", "number", "ours", "")
    run.append(run.RED, run.RED_COLUMNS, [{**red, "verdict": verdict} for verdict in verdicts])
    first, second = (list(run.table())[start : start + 5] for start in (0, 5))
    assert first[2] == "  4 failed checks of 1 packages: 2 number, 1 ours, 1 not judged"
    assert first[3].startswith("  ours per 100 failed checks: 33 ")
    assert first[4] == "    EC201, another number: 4: 2 number, 1 ours, 1 not judged"
    assert second[2] == "  0 failed checks of 0 packages: none"


def test_the_interval_of_a_share_is_that_of_wilson():
    low, high = run.wilson(3, 10)
    assert (round(low, 4), round(high, 4)) == (0.1078, 0.6032)
    assert run.wilson(0, 0) == (0.0, 1.0)


def test_the_first_outcome_of_a_package_is_kept(monkeypatch, tmp_path, capsys):
    tables(monkeypatch, tmp_path)
    monkeypatch.setattr(run.Runner, "revision", lambda self: "abc")
    monkeypatch.setattr(
        run.Runner, "package", lambda self, drawn: ({**drawn, "run": "abc", "ended": "x", "note": ""}, [])
    )
    name = next(row["package"] for row in run.read(draw.DRAWN) if row["half"] == "1")
    monkeypatch.setattr("sys.argv", ["run", name, "--half", "1", "--reports", str(tmp_path)])
    run.main()
    first = run.OUTCOMES.read_bytes()
    run.main()
    assert run.OUTCOMES.read_bytes() == first
    assert "its first outcome is kept" in capsys.readouterr().out


def test_an_installation_alone_is_no_outcome_and_is_used_by_the_run(monkeypatch, tmp_path, capsys):
    tables(monkeypatch, tmp_path)
    monkeypatch.setattr(run.Runner, "revision", lambda self: "abc")
    name = next(row["package"] for row in run.read(draw.DRAWN) if row["half"] == "1")
    venv = tmp_path / "venvs" / name
    (venv / "lib" / "python3.11" / "site-packages").mkdir(parents=True)
    (venv / "tried.txt").write_text("ERROR: no wheel", encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["run", name, "--half", "1", "--reports", str(tmp_path), "--install"])
    run.main()
    assert not run.OUTCOMES.exists()
    monkeypatch.setattr("sys.argv", ["run", name, "--half", "1", "--reports", str(tmp_path)])
    run.main()
    (row,) = run.read(run.OUTCOMES, run.COLUMNS)
    assert (row["ended"], row["note"]) == ("not installed", "ERROR: no wheel")
    assert not venv.exists()


def test_each_outcome_is_of_a_drawn_package_and_its_failures_are_all_there():
    drawn = {(row["package"], row["version"], row["half"]) for row in run.read(draw.DRAWN)}
    rows = run.read(run.OUTCOMES, run.COLUMNS)
    red = run.read(run.RED, run.RED_COLUMNS)
    assert {row["verdict"] for row in red} <= {"", *run.VERDICTS}
    keys = [(row["package"], row["run"]) for row in rows]
    assert len(keys) == len(set(keys))
    for row in rows:
        assert (row["package"], row["version"], row["half"]) in drawn
        failed = [each for each in red if (each["package"], each["run"]) == (row["package"], row["run"])]
        assert len(failed) == int(row["failed"] or 0)
