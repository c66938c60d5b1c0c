"""Candidates in a module: the request, the denominator, and objects that cannot be tried."""

import importlib
import sys
import textwrap

import pytest

from pytest_evalcheck.discovery.candidates import find
from pytest_evalcheck.discovery.requests import Request
from pytest_evalcheck.errors import UsageError

PACKAGE = {
    "__init__.py": """
        from .scores import Recall

        __all__ = ["Recall", "helper", "VERSION"]
        VERSION = "1"

        def helper(path):
            return path
    """,
    "scores.py": """
        import abc
        from collections import OrderedDict

        class Recall:
            def update(self, preds, target): ...
            def compute(self): ...

        class Delegating:
            def __getattr__(self, name):
                return lambda *args: None

        class Base(abc.ABC):
            def update(self, preds, target): ...
            @abc.abstractmethod
            def compute(self): ...

        class _Private(Recall): ...

        def agreement(y_true, y_pred, *, normalize=True): ...
        def load(path, mode): ...
    """,
    "functional.py": """
        def mean_error(preds, target): ...
        def rate(target, preds): ...
        def both_predictions(preds, input): ...
        def one(preds): ...
    """,
    "functional_test.py": """
        from scorelib.functional import rate
        def expected_rate(target, preds): ...
        def test_rate(target, preds): ...
    """,
    "ends.py": "raise SystemExit(3)",
    "needs.py": "import a_module_that_is_not_there",
    "_hidden.py": "raise AssertionError('is not imported')",
    "tests/__init__.py": "raise AssertionError('is not imported')",
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "scorelib"
    for name, source in PACKAGE.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source))
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield "scorelib"
    for name in [name for name in sys.modules if name.partition(".")[0] == "scorelib"]:
        del sys.modules[name]


def test_a_package_is_searched_for_what_has_the_methods_of_a_metric(package):
    found = find(Request.parse(package))
    assert [str(each) for each in found.candidates] == ["scorelib.Recall"]  # by its shortest name, once
    functions = ["scorelib.functional.mean_error", "scorelib.functional.rate", "scorelib.scores.agreement"]
    assert [*map(str, found.functions)] == functions
    assert found.others == 5  # helper, Delegating, load, both_predictions, one; OrderedDict is not its own
    assert found.left["scorelib.scores.Base"] == "abstract: compute must be defined"
    assert found.left["scorelib.ends"] == "importing it raised SystemExit: 3"
    assert "a_module_that_is_not_there" in found.left["scorelib.needs"]
    assert not {"scorelib._hidden", "scorelib.tests"} & set(found.left)


def test_functions_are_tried_where_a_module_has_no_classes(package):
    found = find(Request.parse("scorelib.functional"))
    assert [each.name for each in found.candidates] == ["mean_error", "rate"]
    assert found.functions == []


def test_a_name_and_a_call(package):
    (recall,) = find(Request.parse("scorelib.scores:Recall")).candidates
    assert (recall.is_class, recall.call, recall.load().__name__) == (True, "", "Recall")
    (call,) = find(Request.parse("scorelib.scores:Recall(k=3)")).candidates
    assert call.call == "Recall(k=3)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the target '' cannot be read; expected a module"),
        ("a b", "the target 'a b' cannot be read; expected a module"),
        ("scorelib:", "the target 'scorelib:' cannot be read"),
        ("scorelib:Recall(", "cannot be read: '(' was never closed"),
        ("scorelib:Recall()()", "is neither a name nor a call"),
        ("scorelib:a.b", "is neither a name nor a call"),
    ],
)
def test_a_request_that_cannot_be_read(text, message):
    with pytest.raises(UsageError) as caught:
        Request.parse(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("scorelib.scors", "there is no module scorelib.scors; did you mean 'scorelib.scores'?"),
        ("scorelib.Recall", "there is no module scorelib.Recall; write scorelib:Recall for a name in it"),
        ("scorelib:Recal", "scorelib has no Recal; did you mean 'Recall'?"),
        ("scorelib:VERSION", "scorelib:VERSION is '1'; expected a class or a function"),
        ("scorelib.needs", "scorelib.needs cannot be imported: it needs a_module_that_is_not_there, which is missing"),
        ("scorelib.ends", "importing scorelib.ends raised SystemExit: 3"),
        ("scoreli", "there is no module scoreli; did you mean 'scorelib'?"),
        ("scoreli.scores", "there is no module scoreli.scores; did you mean 'scorelib.scores'?"),
        ("scorelib.Recal", "there is no module scorelib.Recal; did you mean 'scorelib:Recall'?"),
    ],
)
def test_what_is_not_there_is_named_with_the_nearest(package, text, message):
    with pytest.raises(UsageError) as caught:
        find(Request.parse(text))
    assert str(caught.value) == message


def test_an_abstract_class_of_another_module_is_not_named(package, tmp_path):
    (tmp_path / "scorelib" / "ranks.py").write_text(
        "from .scores import Base\n\n\nclass Rank(Base):\n    compute = print\n"
    )
    found = find(Request.parse(f"{package}.ranks"))
    assert [str(each) for each in found.candidates] == ["scorelib.ranks.Rank"]
    assert (found.left, found.others) == ({}, 1)


def test_a_package_of_five_thousand_names(package, tmp_path):
    metric = "class Share:\n    def update(self, preds, target): pass\n    def compute(self): return 0.5\n"
    names = "".join(f"def name_{i}(): return {i}\nclass Name{i}: pass\n" for i in range(2500))
    (tmp_path / "manylib.py").write_text(names + metric)
    found = find(Request.parse("manylib"))
    assert ([str(each) for each in found.candidates], found.others) == (["manylib.Share"], 5000)


def test_a_package_in_src_that_is_not_installed(tmp_path, monkeypatch):
    (tmp_path / "src" / "evalkit_of_nobody").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"there is no module evalkit_of_nobody\.metrics; it is in src: install"):
        find(Request.parse("evalkit_of_nobody.metrics"))
