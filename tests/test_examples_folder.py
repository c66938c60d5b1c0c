"""The examples: each faulty form fails as its comment shows, each mended one passes, and they differ by one import."""

from __future__ import annotations

import ast
import itertools
import re

import pytest

from benchmarks import examples

pytest.importorskip("lm_eval")
pytest.importorskip("torchtune")
FILES = examples.files()
each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


def test_each_form_has_its_outcomes_and_the_screen_of_its_comment():
    """One test, since the run of the examples is long, and workers would repeat a fixture."""
    done = examples.run()
    assert sorted(done.outcomes) == sorted(examples.form_id(*pair) for pair in itertools.product(FILES, examples.FORMS))
    for path, form in itertools.product(FILES, examples.FORMS):
        outcomes = done.outcomes[examples.form_id(path, form)]
        assert examples.is_as_expected(form, outcomes), (path.stem, form, outcomes)
    for path in FILES:
        require_screen(done.screen, path)


def require_screen(screen, path):
    """A line may end in three dots, and lines between two of the comment may be left out."""
    printed = iter(line.strip() for line in screen.splitlines())
    wanted = examples.screen_lines(path)
    assert re.match(r"EC\d{3} \w+", wanted[0])
    for line in wanted:
        start, dots, _ = line.partition("...")
        found = any(each.startswith(start.strip()) if dots else each == line for each in printed)
        assert found, f"{path.stem}: not printed, or not in this order: {line}"


def test_there_are_five_examples():
    assert [path.stem.split("_")[1] for path in FILES] == ["1", "2", "3", "4", "5"]


@each_file
def test_the_mended_form_differs_by_one_import_of_a_fix(path):
    first, *others = examples.changed_lines(path)
    statement = ast.parse(first).body[0]
    assert isinstance(statement, ast.ImportFrom)
    assert statement.module.startswith("pytest_evalcheck.fixes.")
    (name,) = (each.asname or each.name for each in statement.names)
    # Either it has the name of what it replaces, or one class takes it as a base and stands where the faulty one stood.
    assert not others or re.fullmatch(rf"class Mended\({name}, (\w+)\): \.\.\.", others[0])
    faulty = [line for line in examples.functions(path)["faulty"] if " import " not in line]
    replaced = others[0].split(", ")[1].split(")")[0] if others else ""
    assert others[1:] == ([line.replace(replaced, "Mended") for line in faulty] if others else [])


@each_file
def test_an_example_names_its_report_and_the_page_lists_it(path):
    assert re.search(r"The report: https://github.com/[\w-]+/[\w-]+/issues/\d+\n", path.read_text(encoding="utf-8"))
    page = (examples.FOLDER / "README.md").read_text(encoding="utf-8")
    assert path.name in page
    assert len(page.splitlines()) <= 25


def test_beside_another_release_a_sentence_says_which_is_needed_and_the_rest_runs(pytester):
    for path in FILES[2:4]:
        source = path.read_text(encoding="utf-8")
        if path == FILES[2]:
            source = re.sub(r'NEEDS = \("(\w+)>=', r'NEEDS = ("\1>=99,>=', source)
        (pytester.path / path.name).write_text(source, encoding="utf-8")
    (pytester.path / "_small.py").write_text((examples.FOLDER / "_small.py").read_text(encoding="utf-8"))
    result = pytester.runpytest_subprocess("--evalcheck", "-p", "no:randomly", "--evalcheck-select=EC401,EC501")
    result.stdout.re_match_lines([r".*torchmetrics [\d.]+ is installed, .*>=99.* is required.*"])
    result.stdout.re_match_lines([r"FAILED evalcheck_4_parallel_filter.py::faulty::.*"])
    assert result.ret == 1
