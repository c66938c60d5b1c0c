from __future__ import annotations

import builtins
import contextlib
import decimal
import importlib
import itertools
import json
import locale
import os
import pickle
import subprocess
import sys
import types
from pathlib import Path

import numpy
import pytest
import torch
from scoring_projects import CHANGES, EDITS, HIDDEN, ORDINARY

from pytest_evalcheck.fixes.scoring import ScoreCache, score_documents
from pytest_evalcheck.fixes.scoring.fingerprint import fingerprint

COUNTER = itertools.count()


@contextlib.contextmanager
def put_back():
    """Put back what a statement changes in the process."""
    text, context = locale.setlocale(locale.LC_ALL), decimal.getcontext()
    loads, length, errors, dtype = json.loads, builtins.len, numpy.geterr(), torch.get_default_dtype()
    decimal.setcontext(context.copy())
    try:
        yield
    finally:
        json.loads, builtins.len = loads, length
        numpy.seterr(**errors)
        torch.set_default_dtype(dtype)
        decimal.setcontext(context)
        locale.setlocale(locale.LC_ALL, text)


@pytest.fixture(autouse=True)
def modules():
    """What a project imports is forgotten."""
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


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.name)
def test_an_edit_of_the_project_changes_the_fingerprint(edit, tmp_path):
    texts = {"scorer.py": edit.scorer, **edit.others}
    edited = {name: text.replace(edit.old, edit.new, 1) for name, text in texts.items()}
    assert sum(edited[name] != texts[name] for name in texts) >= 1
    if edit.others and any(edited[name] != texts[name] for name in edit.others):
        edited["scorer.py"] = edit.scorer
    first, again, other = (
        fingerprint(project(tmp_path, each["scorer.py"], each).score) for each in (texts, texts, edited)
    )
    assert first == again != other


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_what_changes_while_it_runs_changes_the_fingerprint(change, tmp_path):
    module = project(tmp_path, change.scorer)
    before = fingerprint(module.score)
    assert fingerprint(module.score) == before
    with put_back():
        exec(change.statement, vars(module))
        after = fingerprint(module.score)
    assert after != before


def test_the_default_device_is_in_the_fingerprint():
    before = fingerprint(len)
    with torch.device("meta"):
        assert fingerprint(len) != before
    assert fingerprint(len) == before


@pytest.mark.parametrize("hidden", HIDDEN, ids=lambda hidden: hidden.name)
def test_what_cannot_be_seen_is_refused_and_can_be_declared(hidden, tmp_path):
    module = project(tmp_path, hidden.scorer)
    with pytest.raises(TypeError) as raised:
        score_documents(module.score, [], cache=tmp_path / "scores", backend="serial")
    text = str(raised.value)
    assert f"  {hidden.place} {hidden.words}" in text
    assert f"depends_on={{'{hidden.place}'" in text
    score_documents(module.score, [], cache=tmp_path / "scores", backend="serial", depends_on={hidden.place: 1})
    with pytest.raises(TypeError, match="cannot be seen"):
        fingerprint(module.score, ["scorer.another", hidden.place[:-1]])
    fingerprint(module.score, ["scorer"])


@pytest.mark.parametrize("name", ORDINARY)
def test_an_ordinary_scorer_has_a_fingerprint(name, tmp_path):
    first, again = (fingerprint(project(tmp_path, ORDINARY[name]).score) for _ in range(2))
    assert first == again


SHOW = """
import importlib, json, sys
from pytest_evalcheck.fixes.scoring.fingerprint import fingerprint
print(json.dumps({name: fingerprint(importlib.import_module(name).score) for name in sys.argv[1:]}))
"""


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
    before = fingerprint(module.score)
    module.score(1)
    assert fingerprint(module.score) == before


def test_of_many_things_that_cannot_be_seen_some_are_named(tmp_path):
    functions = "".join(f"def read_{i}(d):\n    return open(str({i})).read()\n" for i in range(7))
    total = " + ".join(f"read_{i}(d)" for i in range(7))
    module = project(tmp_path, f"{functions}def score(d):\n    return {total}\n")
    with pytest.raises(TypeError) as raised:
        fingerprint(module.score)
    lines = str(raised.value).splitlines()
    assert [line.split()[0] for line in lines[1:6]] == [f"scorer.read_{i}" for i in range(5)]
    assert lines[6] == "  and 2 more"


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


def test_what_was_computed_with_decimals_does_not_change_the_fingerprint(tmp_path):
    scorer = "import decimal\ndef score(d):\n    return float(decimal.Decimal(1) / 3)\n"
    module = project(tmp_path, scorer)
    with put_back():
        before = fingerprint(module.score)
        module.score(1)
        assert decimal.getcontext().flags[decimal.Inexact]
        assert fingerprint(module.score) == before


def test_comments_and_places_are_not_in_the_fingerprint(tmp_path):
    first = fingerprint(project(tmp_path, "def score(d):\n    return d\n").score)
    assert fingerprint(project(tmp_path, "# a comment\n\n\ndef score(d):\n    return d  # another\n").score) == first


def test_the_version_of_a_library_is_in_the_fingerprint(tmp_path, monkeypatch):
    from pytest_evalcheck.fixes.scoring import libraries

    module = project(tmp_path, "from sklearn.metrics import f1_score\ndef score(d):\n    return f1_score(d, d)\n")
    plain = project(tmp_path, "def score(d):\n    return d\n")
    before = [fingerprint(each.score) for each in (module, plain)]
    libraries._library.cache_clear()
    monkeypatch.setattr(libraries, "_version", lambda distribution: "99")
    after = [fingerprint(each.score) for each in (module, plain)]
    libraries._library.cache_clear()
    assert before[0] != after[0]
    assert before[1] == after[1]


@pytest.mark.parametrize("name", ["numpy", "sklearn", "torch", "pytest", "typing_extensions"])
def test_the_distribution_of_a_package_is_known_by_its_files(name):
    """As on Python 3.10, whose own table has no distribution that does not declare its packages, such as NumPy."""
    from pytest_evalcheck.fixes.scoring import libraries

    found = libraries._by_their_files()
    assert sorted(found[name]) == sorted(libraries.distributions()[name])
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
    before = fingerprint(module.score)
    module.LIMIT = 3
    assert fingerprint(module.score) != before


def test_a_module_that_is_reloaded_counts_as_it_is_now(tmp_path):
    module = project(
        tmp_path,
        "import helpers\ndef score(d):\n    return helpers.limit(d)\n",
        {"helpers.py": "def limit(d):\n    return 2\n"},
    )
    before = fingerprint(module.score)
    Path(module.helpers.__file__).write_text("def limit(d):\n    return 3333\n")
    importlib.reload(module.helpers)
    assert fingerprint(module.score) != before


def test_a_script_or_notebook_is_a_project():
    """Its functions have no source that can be read."""
    found = []
    for limit in (2, 2, 3):
        main = types.ModuleType("__main__")
        exec(compile(f"LIMIT = {limit}\ndef score(d):\n    return d + LIMIT\n", "<cell>", "exec"), vars(main))
        found.append(fingerprint(main.score))
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
    module = project(tmp_path, "import native\ndef score(d):\n    return getattr(native, 'push')\n")
    before = fingerprint(module.score)
    place.write_bytes(place.read_bytes() + b"another build")
    assert fingerprint(module.score) != before


def test_a_class_of_documents_is_in_their_keys(tmp_path):
    """A scorer may call a method of its document."""
    scorer = "def score(d):\n    return d.text()\n"
    helpers = "class Document:\n    def __init__(self, n):\n        self.n = n\n    def text(self):\n        return self.n + 2\n"
    found = []
    for each in (helpers, helpers, helpers.replace("+ 2", "+ 3")):
        module = project(tmp_path, scorer, {"helpers.py": each})
        documents = [importlib.import_module("helpers").Document(n) for n in range(3)]
        scores = score_documents(module.score, documents, cache=tmp_path / "scores", backend="serial")
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
            module.score, [1], cache=tmp_path / "scores", backend="serial", depends_on={"scorer.load": path}
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
