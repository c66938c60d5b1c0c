from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
import json
import os
import pickle
import re
import subprocess
import sys
import types
import warnings
from pathlib import Path

import numpy
import pytest
from scoring_projects import CHANGES, EDITS, HIDDEN, ORDINARY, OWN

from pytest_evalcheck.fixes.scoring import ScoreCache, dependencies, score_documents
from pytest_evalcheck.fixes.scoring.dependencies import fingerprint, undeclared

COUNTER = itertools.count()


@pytest.fixture(autouse=True)
def modules():
    """Forget the modules that a project has imported."""
    before, path = set(sys.modules), list(sys.path)
    yield
    sys.path[:] = path
    forget(set(sys.modules) - before)


def forget(names):
    for name in names:
        file = getattr(sys.modules.get(name), "__file__", None) or ""
        if name.partition(".")[0] in ("scorer", "helpers", "deeper", "rules", "space") or "projects" in file:
            sys.modules.pop(name, None)


def project(folder, scorer, others=None):
    """The module ``scorer`` of a project in a folder of its own."""
    place = folder / "projects" / str(next(COUNTER))
    for name, text in {"scorer.py": scorer, **(others or {})}.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    forget(list(sys.modules))
    sys.path[:] = [each for each in sys.path if "projects" not in each]
    sys.path.insert(0, str(place))
    importlib.invalidate_caches()
    return importlib.import_module("scorer")


def modules_of(texts):
    """The names of all modules of a project, as they are declared."""
    return sorted({name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in texts})


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.name)
@pytest.mark.slow(every=4)
def test_an_edit_is_seen_where_modules_are_declared_and_nothing_is_kept_otherwise(edit, tmp_path):
    texts = {"scorer.py": edit.scorer, **edit.others}
    edited = {name: text.replace(edit.old, edit.new, 1) for name, text in texts.items()}
    assert sum(edited[name] != texts[name] for name in texts) >= 1
    if edit.others and any(edited[name] != texts[name] for name in edit.others):
        edited["scorer.py"] = edit.scorer
    declared, alone, reasons = [], [], []
    for each in (texts, texts, edited):
        score = project(tmp_path, each["scorer.py"], each).score
        declared.append(fingerprint(score, depends_on=modules_of(each)))
        alone.append(fingerprint(score))
        reasons.append(undeclared(score))
    assert declared[0] == declared[1] != declared[2]
    assert alone[0] == alone[1]
    assert reasons[0] or alone[1] != alone[2]
    assert (alone[1] != alone[2]) == (edit.name in OWN)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_a_change_at_run_time_is_seen_where_the_module_is_declared(change, tmp_path):
    module = project(tmp_path, change.scorer)
    before = fingerprint(module.score, depends_on=[module])
    assert fingerprint(module.score, depends_on=["scorer"]) == before
    alone = fingerprint(module.score)
    exec(change.statement, vars(module))
    assert fingerprint(module.score, depends_on=["scorer"]) != before
    assert undeclared(module.score) or fingerprint(module.score) != alone


@pytest.mark.parametrize("hidden", HIDDEN, ids=lambda hidden: hidden.name)
def test_scores_of_a_function_that_reaches_outside_are_kept_only_where_something_is_declared(hidden, tmp_path):
    module = project(tmp_path, hidden.scorer)
    score = functools.partial(score_documents, module.score, [], backend="serial", cache=tmp_path / "scores")
    with pytest.warns(RuntimeWarning, match=re.escape(f"are not kept: it {hidden.words}, and no dependency is decl")):
        score()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for options in ({"version": 1}, {"depends_on": {"rules": 1}}, {"depends_on": ["scorer"]}):
            score(**options)


@pytest.mark.parametrize(
    ("score", "words"),
    [
        (lambda d: (len(d), [each + 1 for each in sorted(d)], sum(int(c) for c in str(d)), ...), ""),
        (lambda d, low=0, high=(1, frozenset("a")): low <= d <= high[0], ""),
        (len, ""),
        (float, ""),
        (functools.partial(lambda limit, d: d < limit, 3), ""),
        (functools.partial(lambda f, d: f(d), len), ""),
        (functools.partial(lambda f, d: f(d), numpy.mean), "is no plain function but a "),
        (functools.partial(max, [3]), "has a default or an argument that can change, a list"),
        (lambda d: hash(d), "uses hash"),
        (lambda d: [len(numpy.asarray(each)) for each in d], "uses numpy"),
        (lambda d: (lambda: missing)(), "uses missing"),  # noqa: F821
        (numpy.linalg.norm, "is no plain function but a "),
    ],
)
def test_a_function_of_built_ins_and_constants_needs_no_declaration(score, words, tmp_path):
    if words:
        assert undeclared(score).startswith(words)
    else:
        assert undeclared(score) == ""


def test_a_replaced_built_in_is_no_built_in(monkeypatch):
    assert undeclared(lambda d: oct(d)) == ""
    monkeypatch.setattr("builtins.oct", lambda d: 3)
    assert undeclared(lambda d: oct(d)) == "uses oct"


def test_an_undeclared_scorer_is_scored_each_time_and_a_warning_names_the_way_out(tmp_path):
    limit = 3
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match=r"scores of .*<lambda> are not kept: it closes over limit") as seen:
            scores = score_documents(lambda d: d < limit, [1, 2], cache=tmp_path / "scores", backend="serial")
        assert (list(scores), scores.report.computed, scores.report.cached) == ([True, True], 2, 0)
        assert "Pass version= a text" in str(seen[0].message)
        assert "depends_on= a list of the functions, modules, packages and files" in str(seen[0].message)
    assert not (tmp_path / "scores").exists()


HELPERS = """
LIMIT = 2
def helper(n):
    return n + {0}
class Rules:
    limit = {0}
    def other(self):
        return 1
def inner(n):
    return helper(n)
"""


@pytest.mark.parametrize(
    ("declared", "seen"),
    [
        (lambda helpers, folder: [helpers.helper], True),
        (lambda helpers, folder: [len, helpers.helper], True),
        (lambda helpers, folder: [helpers.Rules], True),
        (lambda helpers, folder: [helpers], True),
        (lambda helpers, folder: ["helpers"], True),
        (lambda helpers, folder: {"helpers"}, True),
        (lambda helpers, folder: [Path(helpers.__file__)], True),
        (lambda helpers, folder: [Path(helpers.__file__).parent], True),
        (lambda helpers, folder: {"rules": helpers.helper}, True),
        (lambda helpers, folder: {"rules": Path(helpers.__file__)}, True),
        (lambda helpers, folder: {"rules": helpers}, True),
        (lambda helpers, folder: [len, {"limit": helpers.Rules.limit}], True),
        (lambda helpers, folder: [helpers.inner], False),
        (lambda helpers, folder: {"rules": "helpers"}, False),
        (lambda helpers, folder: [], False),
        (lambda helpers, folder: ["json", "numpy", "scikit-learn"], False),
    ],
)
def test_what_is_declared_is_seen_and_nothing_else(declared, seen, tmp_path):
    found = []
    for number in (2, 2, 3):
        texts = {"helpers.py": HELPERS.format(number)}
        module = project(tmp_path, "import helpers\ndef score(d):\n    return helpers.inner(d)\n", texts)
        found.append(fingerprint(module.score, "1", declared(module.helpers, tmp_path)))
    assert found[0] == found[1]
    assert (found[1] != found[2]) is seen


@pytest.mark.parametrize("name", ["space", "space.inner", "rules", "rules.inner"])
def test_a_module_that_is_not_imported_counts_with_its_files(name, tmp_path):
    found = []
    for number in (2, 2, 3):
        text = f"LIMIT = {number}\n"
        project(tmp_path, "", {"space/inner.py": text, "rules/__init__.py": "", "rules/inner.py": text})
        found.append(fingerprint(len, depends_on=[name]))
        assert "space.inner" not in sys.modules
        assert "rules.inner" not in sys.modules
    assert found[0] == found[1] != found[2]


def test_declared_items_have_no_order_and_values_have_names():
    assert fingerprint(len, 1, ["json", max]) == fingerprint(len, 1, [max, "json"])
    assert fingerprint(len, 1, {"a": 1, "b": 2}) == fingerprint(len, 1, {"b": 2, "a": 1})
    different = [None, {"a": 1}, {"b": 1}, {"a": 1.0}, {"a": "1"}, {"a": [1]}, ["json"], [{"a": 1}, "json"], [max]]
    found = [fingerprint(len, version, each) for each in different for version in (None, 1, "1", 1.0)]
    assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    ("depends_on", "error", "words"),
    [
        (["sklern"], ValueError, "depends_on: there is no module or package 'sklern'; did you mean 'sklearn'?"),
        (["nump"], ValueError, "there is no module or package 'nump'; did you mean 'numpy'?"),
        (["numpy.no_such_module"], ValueError, "there is no module or package 'numpy.no_such_module'"),
        ([""], ValueError, "there is no module or package ''"),
        (
            ["pyproject.toml"],
            ValueError,
            "or package 'pyproject.toml'; for a file or folder give Path('pyproject.toml')",
        ),
        ([".relative"], ValueError, "there is no module or package '.relative'"),
        ([Path("no_such_file")], ValueError, "depends_on: there is no file or folder no_such_file"),
        ({"rules": Path("no_such_file")}, ValueError, "depends_on: there is no file or folder no_such_file"),
        ([3], TypeError, "a mapping of names to values, got int 3; a value needs a name: {'name': 3}"),
        ([["json"]], TypeError, "names of modules or packages, paths, or a mapping of names to values, got list"),
        ([None], TypeError, "got NoneType None"),
        ({"rows": (each for each in ())}, TypeError, "'rows': a generator has no content that can be read"),
    ],
)
def test_a_wrong_dependency_is_an_error_that_names_it(depends_on, error, words, tmp_path):
    with pytest.raises(error, match=re.escape(words)):
        score_documents(len, ["a"], cache=tmp_path / "scores", depends_on=depends_on, backend="serial")


SHOW = """
import importlib, json, sys
from pytest_evalcheck.fixes.scoring.dependencies import fingerprint
print(json.dumps({name: fingerprint(importlib.import_module(name).score, "1", [name]) for name in sys.argv[1:]}))
"""


@pytest.mark.slow
def test_the_fingerprint_is_the_same_in_every_process(tmp_path):
    names = [f"scorer_{number}" for number in range(len(ORDINARY))]
    for name, text in zip(names, ORDINARY.values(), strict=True):
        (tmp_path / f"{name}.py").write_text(text)
    root = str(Path(__file__).parents[2])
    found = [
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", SHOW, *names],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join([str(tmp_path), root])},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()[-1]
        for seed in ("1", "2")
    ]
    one, other = map(json.loads, found)
    assert [name for name, key in zip(ORDINARY, names, strict=True) if one[key] != other[key]] == []


def test_what_is_used_does_not_change_the_fingerprint(tmp_path):
    """Neither memories of functions nor compiled patterns that a library keeps."""
    scorer = (
        "import re, functools\nfrom pathlib import PurePath\nP = PurePath('a/b')\n@functools.cache\ndef f(n):\n"
        "    return n\n@functools.singledispatch\ndef g(n):\n    return n\n"
        "def score(d):\n    return f(d), g(d), re.search('a', str(P)), hash(P)\n"
    )
    module = project(tmp_path, scorer)
    before = fingerprint(module.score, depends_on=[module])
    module.score(1)
    assert fingerprint(module.score, depends_on=[module]) == before


def test_what_python_notes_in_a_class_does_not_change_the_fingerprint(tmp_path):
    """`pickle` keeps the names of slots in a class, and who asks for annotations makes a mapping of them there."""
    scorer = "class Score:\n    def __call__(self, d):\n        return 1.0\n"
    module = project(tmp_path, scorer)
    before = fingerprint(module.Score())
    pickle.dumps(module.Score(), protocol=4)
    assert "__slotnames__" in vars(module.Score)
    assert fingerprint(module.Score()) == before
    assert module.Score.__annotations__ == {}
    assert "__annotations__" in vars(module.Score)
    assert fingerprint(module.Score()) == before


def test_comments_and_places_are_not_in_the_fingerprint(tmp_path):
    first = fingerprint(project(tmp_path, "def score(d):\n    return d\n").score)
    assert fingerprint(project(tmp_path, "# a comment\n\n\ndef score(d):\n    return d  # another\n").score) == first


@pytest.mark.parametrize(
    ("declared", "seen"),
    [(["sklearn"], True), (["sklearn.metrics"], True), (["scikit-learn"], True), (["json"], False), ([], False)],
)
def test_the_version_of_a_declared_package_is_in_the_fingerprint(declared, seen, tmp_path, monkeypatch):
    module = project(tmp_path, "from sklearn.metrics import f1_score\ndef score(d):\n    return f1_score(d, d)\n")
    before = fingerprint(module.score, "1", declared)
    monkeypatch.setattr(dependencies, "versions", lambda package: f"{package} 99" if "learn" in package else "")
    assert (fingerprint(module.score, "1", declared) != before) is seen


@pytest.mark.parametrize(
    "score",
    [numpy.linalg.norm, numpy.asarray, numpy.poly1d, functools.partial(lambda f, d: f(d), numpy.linalg.norm)],
    ids=["function", "built-in", "class", "partial"],
)
def test_the_version_of_its_own_package_is_in_the_fingerprint(score, monkeypatch):
    before = fingerprint(score, "1")
    monkeypatch.setattr(dependencies, "versions", lambda package: "99" if package == "numpy" else "")
    assert fingerprint(score, "1") != before


@pytest.mark.parametrize("name", ["numpy", "sklearn", "torch", "pytest", "typing_extensions"])
@pytest.mark.slow(every=5)
def test_the_distribution_of_a_package_is_known_by_its_files(name):
    """Hide distributions that declare no packages, such as NumPy: the table of Python 3.10 does not have them."""
    found = dependencies._distributions_by_files()
    assert sorted(found[name]) == sorted(dependencies.distributions()[name])
    assert {"sklearn": "scikit-learn"}.get(name, name) in found[name]


@pytest.mark.parametrize("folder", ["site-packages", "lib"])
def test_code_that_no_distribution_installed_is_a_project(folder, tmp_path):
    """A package that is linked, or put into site-packages by hand; one that is installed as editable."""
    place = tmp_path / folder
    place.mkdir()
    (tmp_path / "elsewhere.py").write_text("LIMIT = 2\ndef score(d):\n    return d + LIMIT\n")
    (place / "scorer.py").symlink_to(tmp_path / "elsewhere.py")
    forget(list(sys.modules))
    sys.path.insert(0, str(place))
    importlib.invalidate_caches()
    module = importlib.import_module("scorer")
    before = fingerprint(module.score, depends_on=["scorer"])
    module.LIMIT = 3
    assert fingerprint(module.score, depends_on=["scorer"]) != before


def test_a_module_that_is_reloaded_counts_as_it_is_now(tmp_path):
    module = project(
        tmp_path,
        "import helpers\ndef score(d):\n    return helpers.limit(d)\n",
        {"helpers.py": "def limit(d):\n    return 2\n"},
    )
    found = [fingerprint(module.score, depends_on=["helpers"])]
    Path(module.helpers.__file__).write_text("def limit(d):\n    return 3333\n")
    found.append(fingerprint(module.score, depends_on=["helpers"]))  # the old code under the new file
    importlib.reload(module.helpers)
    found.append(fingerprint(module.score, depends_on=["helpers"]))
    assert len(set(found)) == 3


def test_a_script_or_notebook_is_a_project(monkeypatch):
    """Its functions have no source that can be read."""
    found = []
    for limit in (2, 2, 3):
        main = types.ModuleType("__main__")
        monkeypatch.setitem(sys.modules, "__main__", main)
        exec(compile(f"LIMIT = {limit}\ndef score(d):\n    return d + LIMIT\n", "<cell>", "exec"), vars(main))
        found.append(fingerprint(main.score, depends_on=[main]))
    assert found[0] == found[1] != found[2]


def test_a_compiled_module_of_the_project_counts_by_its_file(tmp_path, monkeypatch):
    """A function of C has no code that can be read."""
    import _heapq
    import shutil

    source = getattr(_heapq, "__file__", None)
    if source is None:
        pytest.skip("this Python has no extension module in a file of its own")
    place = tmp_path / "native.so"
    shutil.copy(source, place)
    native = types.ModuleType("native")
    native.__file__, native.push = str(place), _heapq.heappush
    monkeypatch.setitem(sys.modules, "native", native)
    before = fingerprint(len, depends_on=["native"])
    place.write_bytes(place.read_bytes() + b"another build")
    assert fingerprint(len, depends_on=["native"]) != before


def test_a_class_of_documents_is_declared(tmp_path):
    """A scorer may call a method of its document."""
    scorer = "def score(d):\n    return d.text()\n"
    helpers = "class Document:\n    def __init__(self, n):\n        self.n = n\n    def text(self):\n        return self.n + 2\n"
    found = []
    for each in (helpers, helpers, helpers.replace("+ 2", "+ 3")):
        module = project(tmp_path, scorer, {"helpers.py": each})
        documents = [importlib.import_module("helpers").Document(n) for n in range(3)]
        keywords = {"cache": tmp_path / "scores", "backend": "serial", "depends_on": ["helpers"]}
        scores = score_documents(module.score, documents, **keywords)
        found.append((list(scores), scores.report.computed))
    assert found == [([2, 3, 4], 3), ([2, 3, 4], 0), ([3, 4, 5], 3)]


def test_a_path_stands_for_the_content_of_its_file_or_folder(tmp_path):
    rules = tmp_path / "rules"
    rules.mkdir()
    (rules / "a.txt").write_text("2")
    module = project(
        tmp_path,
        "PLACE = None\ndef load():\n    with open(PLACE) as f:\n        return int(f.read())\ndef score(d):\n    return d + load()\n",
    )
    module.PLACE = str(rules / "a.txt")

    def scored(path):
        scores = score_documents(
            module.score, [1], cache=tmp_path / "scores", backend="serial", depends_on=["scorer", path]
        )
        return list(scores), scores.report.computed

    assert [scored(rules), scored(rules), scored(rules / "a.txt")] == [([3], 1), ([3], 0), ([3], 1)]
    (rules / "a.txt").write_text("3")
    assert [scored(rules), scored(rules / "a.txt")] == [([4], 1), ([4], 1)]
    with pytest.raises(ValueError, match=r"there is no file or folder .*none"):
        scored(rules / "none")


def test_a_guard_is_in_the_key(tmp_path):
    def writes(document):
        document["seen"] = True
        return 1

    with ScoreCache(tmp_path / "scores") as cache:
        score_documents(writes, [{"a": 1}], cache=cache, backend="serial")
        guarded = score_documents(writes, [{"a": 1}], cache=cache, backend="serial", guard=True, errors="record")
    assert [str(each.kind) for each in guarded.errors] == ["changed"]


def test_other_documents_that_look_alike_have_other_keys(tmp_path):
    class Awkward:
        def __init__(self, n):
            self.n = n

        def __getstate__(self):
            return {}

        def __eq__(self, other):
            return True

        __hash__ = None

    documents = [1, 1.0, True, "1", b"1", (1,), [1], {1}, frozenset({1}), {"1": 1}, {1: "1"}, Awkward(1), Awkward(2)]
    documents += [
        None,
        0,
        0.0,
        -0.0,
        "",
        b"",
        (),
        [],
        {},
        numpy.int32(1),
        numpy.int64(1),
        numpy.array([1]),
        "\u00e9",
        "e\u0301",
    ]
    with contextlib.closing(ScoreCache(tmp_path / "scores")) as cache:
        for expected in (len(documents), 0):
            scores = score_documents(lambda d: repr(type(d)), documents, cache=cache, backend="serial")
            assert scores.report.computed == expected
        assert len(cache) == len(documents)
