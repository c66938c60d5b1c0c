"""Watching: what is public is seen, nothing is changed, and limits are kept."""

from __future__ import annotations

import asyncio
import gc
import importlib
import sys
import textwrap
import threading
import weakref
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import pytest

from pytest_evalcheck.errors import UsageError
from pytest_evalcheck.learning import corpus
from pytest_evalcheck.learning.watching import MOST_CALLS, MOST_OBJECTS, REFUSED, Call, Seen, Watcher

SOURCE = """
    import asyncio
    import threading

    def share(right, total=1, *rest, **more):
        right.append(0)
        return _helper(len(right) / total)

    def _helper(value):
        return value

    def fails(value):
        raise ValueError("no")

    async def waits(values, number=0):
        values = sorted(values)
        for _ in values:
            await asyncio.sleep(0)
        return await _at(values, number)

    async def _at(values, number):
        await asyncio.sleep(0)
        return values[number]

    class Base:
        def __init__(self, size):
            self.size = size

        def reset(self):
            self.seen = []

    class Named(Base):
        def __init__(self):
            super().__init__("named")

        def rate(self, values):
            return len(values)

    class Plain:
        def rate(self, values):
            return sum(values)

    class Mean(Base):
        def __init__(self, size=2):
            super().__init__(size)
            self.reset()

        def update(self, values):
            self._add(values)

        def _add(self, values):
            self.seen += values

        def twice(self, values):
            self.update(values)
            self.update(values)

        @property
        def value(self):
            return sum(self.seen) / len(self.seen)

    def in_a_thread(values):
        thread = threading.Thread(target=share, args=(values,))
        thread.start()
        thread.join()
"""


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    (tmp_path / "watched_project.py").write_text(textwrap.dedent(SOURCE))
    monkeypatch.syspath_prepend(tmp_path)
    import watched_project

    yield watched_project
    del sys.modules["watched_project"]


def _watcher() -> Watcher:
    return Watcher(["watched_project"], lambda: "test")


def test_arguments_are_those_before_the_call(watched: Any) -> None:
    watcher = _watcher()
    with watcher.watch():
        assert watched.share([1, 2], 4, 5, name="x") == 0.75
    ((test, call),) = watcher.seen["watched_project:share"].calls
    assert test == "test"
    assert call.arguments == {"right": [1, 2], "total": 4, "0": 5, "name": "x"}
    assert call.returned == 0.75
    assert "watched_project:_helper" not in watcher.seen


@pytest.mark.parametrize("way", ["_profiled", *(["_monitored"] if sys.version_info >= (3, 12) else [])])
def test_a_coroutine_is_one_call_from_its_begin_to_its_end(watched: Any, way: str) -> None:
    async def at_once() -> None:
        await asyncio.gather(watched.waits([3, 1, 2]), watched.waits([5, 4], number=1))
        with pytest.raises(IndexError):
            await watched.waits([])

    watcher = _watcher()
    with getattr(watcher, way)():
        asyncio.run(at_once())
    found = [(call.arguments, call.returned) for _, call in watcher.seen["watched_project:waits"].calls]
    first, second = ({"values": [3, 1, 2], "number": 0}, 1), ({"values": [5, 4], "number": 1}, 5)
    assert found == [first, second, ({"values": [], "number": 0}, REFUSED)]


def test_an_object_has_its_construction_and_its_calls_in_order(watched: Any) -> None:
    watcher = _watcher()
    with watcher.watch():
        mean = watched.Mean(size=3)
        mean.update([1, 2])
        mean.twice([3])
        assert mean.value == 2.25
    (made,) = watcher.seen["watched_project:Mean"].objects
    assert made.made == {"size": 3}
    found = [(call.method, call.arguments, call.returned) for call in made.calls]
    assert found == [
        ("reset", {}, None),
        ("update", {"values": [1, 2]}, None),
        ("twice", {"values": [3]}, None),
        ("value", {}, 2.25),
    ]
    assert "watched_project:Base" not in watcher.seen


def test_an_error_passes_and_the_profiler_is_put_back(watched: Any) -> None:
    def profile(*_: object) -> None: ...

    watcher = _watcher()
    sys.setprofile(profile)
    try:
        with pytest.raises(ValueError, match="no"), watcher.watch():
            watched.fails(1)
        assert sys.getprofile() is profile
    finally:
        sys.setprofile(None)
    assert watcher.seen["watched_project:fails"].calls[0][1].returned == REFUSED


def test_threads_are_watched_and_equal_calls_are_kept_once(watched: Any) -> None:
    watcher = _watcher()
    with watcher.watch():
        watched.in_a_thread([7])
        for _ in range(3):
            watched.share([1])
    assert [call.arguments["right"] for _, call in watcher.seen["watched_project:share"].calls] == [[7], [1]]
    assert threading.active_count() >= 1


def test_limits(watched: Any) -> None:
    watcher = _watcher()
    with watcher.watch():
        for number in range(500):
            watched.share([number])
            watched.Mean(number).update([number])
            watcher.forget()
    assert len(watcher.seen["watched_project:share"].calls) == MOST_CALLS
    assert len(watcher.seen["watched_project:Mean"].objects) <= 24


def test_a_package_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="there is no package 'no_such_package' to learn from"):
        Watcher(["no_such_package"])


class TestCorpus:
    def test_it_is_read_as_it_was_written(self, watched: Any, tmp_path: Path) -> None:
        watcher = _watcher()
        with watcher.watch():
            watched.share([1], total=2)
            watched.Mean().update([1])
        (path,) = corpus.write(watcher.seen, tmp_path / "corpus", ["watched_project", "json"])
        found = corpus.read(tmp_path / "corpus")
        assert {*found.entries} == {"watched_project:share", "watched_project:Mean"}
        assert found.entries["watched_project:share"].calls == watcher.seen["watched_project:share"].calls
        assert found.entries["watched_project:Mean"].objects == watcher.seen["watched_project:Mean"].objects
        (again,) = corpus.write(found.entries, tmp_path / "again", ["watched_project"])
        assert again.read_text() == path.read_text()

    def test_what_was_refused_is_written_and_is_no_input(self, watched: Any, tmp_path: Path) -> None:
        watcher = _watcher()
        with watcher.watch(), pytest.raises(ValueError, match="no"):
            watched.fails(1)
        (path,) = corpus.write(watcher.seen, tmp_path / "corpus", ["watched_project"])
        assert '"returned": {"refused": true}' in path.read_text()
        assert corpus.read(tmp_path / "corpus").entries["watched_project:fails"].calls == []

    def test_processes_are_joined(self, watched: Any) -> None:
        parts = []
        for number in range(2):
            watcher = _watcher()
            with watcher.watch():
                watched.share([1])
                watched.share([number])
            parts.append(watcher.seen)
        joined = corpus.merged(parts)["watched_project:share"]
        assert [call.arguments["right"] for _, call in joined.calls] == [[1], [0]]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("{", "is not JSON"),
            ("[]", "expected an object with format, package, release, entries, not list"),
            ('{"format": 9, "package": "x", "release": "", "entries": []}', "the format 9; expected 1: learn again"),
            ('{"format": 1, "package": "x", "entries": []}', "the field 'release' is missing"),
            ('{"format": 1, "packages": "x"}', "no field 'packages'; did you mean 'package'"),
            (
                '{"format": 1, "package": "x", "release": "", "entries": '
                '[{"name": "os:system", "kind": "function", "calls": [], "objects": []}]}',
                "os:system: it is not in the package x",
            ),
            (
                '{"format": 1, "package": "x", "release": "", "entries": '
                '[{"name": "x:a(b)", "kind": "function", "calls": [], "objects": []}]}',
                "expected a name such as",
            ),
        ],
    )
    def test_a_file_that_is_none(self, tmp_path: Path, text: str, message: str) -> None:
        (tmp_path / "x.json").write_text(text)
        with pytest.raises(UsageError, match=r"x\.json") as caught:
            corpus.read(tmp_path)
        assert message in str(caught.value)

    def test_a_file_that_is_too_large(self, tmp_path: Path) -> None:
        (tmp_path / "x.json").write_text(" " * (corpus.MOST_BYTES + 1))
        with pytest.raises(UsageError, match="a corpus has at most"):
            corpus.read(tmp_path)

    def test_what_is_written_is_not_too_large_to_be_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def seen(functions: int) -> dict[str, Seen]:
            calls = [("t", Call("", {"right": [call] * 60})) for call in range(24)]
            return {f"x:f{number}": Seen("x", f"f{number}", is_class=False, calls=calls) for number in range(functions)}

        monkeypatch.setattr(corpus, "MOST_BYTES", 20_000)
        kept, said = {}, {}
        for functions in (2, 20, 90):
            ((path, said[functions]),) = corpus.write(seen(functions), tmp_path, ["x"]).items()
            assert path.stat().st_size <= corpus.MOST_BYTES
            kept[functions] = corpus.read(tmp_path).entries
        assert {functions: [len(kept[functions]), len(kept[functions]["x:f0"].calls)] for functions in kept} == {
            2: [2, 24],
            20: [20, 3],
            90: [len(kept[90]), 1],
        }
        assert 50 < len(kept[90]) < 90
        assert said[2] == ""
        assert said[20] == "3 calls of a function and fewer objects are kept, since a file has at most 20000 bytes"
        assert said[90].startswith(f"{90 - len(kept[90])} of 90 names are left out, such as x:f")

    @pytest.mark.parametrize("text", [b'{"format": "\xff"}', b"[" * 100_000], ids=["encoding", "depth"])
    def test_a_file_that_is_no_text_or_too_deep(self, tmp_path: Path, text: bytes) -> None:
        (tmp_path / "x.json").write_bytes(text)
        with pytest.raises(UsageError, match=r"x\.json (cannot be read|is not JSON)"):
            corpus.read(tmp_path)

    def test_no_folder_is_an_empty_corpus(self, tmp_path: Path) -> None:
        assert not corpus.read(tmp_path / "none").entries


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("watched_project", set()),
        ("*:share", {"Mean"}),
        ("*:Mean", {"share"}),
        ("*:Mean.*", {"share"}),
        ("tot*", {"share", "Mean"}),
    ],
)
def test_what_is_excluded_is_not_kept(watched: Any, pattern: str, names: set[str]) -> None:
    watcher = Watcher(["watched_project"], lambda: "test", [pattern])
    with watcher.watch():
        watched.share([1], total=7)
        watched.Mean(3).update([1.0])
    assert {
        each.name for each in watcher.seen.values() if each.calls or any(one.calls for one in each.objects)
    } == names
    for each in watcher.seen.values():
        assert all("7" not in str(call.arguments.get("total", "")) for _, call in each.calls) or pattern != "tot*"


def test_an_object_that_was_seen_is_made_again_where_it_is_an_argument(watched: Any) -> None:
    watcher = _watcher()
    with watcher.watch(), pytest.raises(TypeError):
        watched.share([1], watched.Mean(4))
    [(_, call)] = watcher.seen["watched_project:share"].calls
    assert call.arguments["total"] == {"made": "watched_project:Mean", "arguments": {"size": 4}}


def test_an_object_without_a_constructor_is_made_again_unless_it_has_attributes(watched: Any) -> None:
    changed = watched.Plain()
    changed.number = 3
    watcher = _watcher()
    with watcher.watch(), pytest.raises(TypeError):
        watched.share([watched.Plain(), changed, Unrelated()], watched.Plain())
    [(_, call)] = watcher.seen["watched_project:share"].calls
    made = {"made": "watched_project:Plain", "arguments": {}}
    other = {"opaque": f"{__name__}.Unrelated"}
    assert call.arguments == {"right": [made, {"opaque": "watched_project.Plain"}, other], "total": made}


class Unrelated:
    """It has no constructor, and is of no package that is watched."""


def test_objects_inside_of_an_argument_are_made_again(watched: Any) -> None:
    watcher = _watcher()
    with watcher.watch(), pytest.raises(TypeError):
        watched.share([watched.Mean(4)], {"of": (watched.Mean(5), object())})
    [(_, call)] = watcher.seen["watched_project:share"].calls
    four, five = ({"made": "watched_project:Mean", "arguments": {"size": size}} for size in (4, 5))
    assert call.arguments["right"] == [four]
    assert call.arguments["total"] == {"dict": {"of": {"tuple": [five, {"opaque": "builtins.object"}], "length": 2}}}


def test_an_object_of_an_earlier_test_is_known_by_how_it_was_made(watched: Any) -> None:
    watcher = _watcher()
    with watcher.watch():
        kept, lost = watched.Mean(4), watched.Mean(5)
        there = weakref.ref(lost)
    watcher.forget()
    del lost
    gc.collect()
    assert there() is None
    with watcher.watch():
        kept.update([1.0])
    found = watcher.seen["watched_project:Mean"].objects
    assert [(each.made, len(each.calls)) for each in found] == [({"size": 4}, 1), ({"size": 5}, 1), ({"size": 4}, 1)]


def test_what_a_public_module_exports_is_public(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "a_shop"
    sources = {
        "__init__": "from a_shop._inside import gap, Gap",
        "_inside": """
            from a_shop._hidden import Hidden
            def gap(a, b):
                return inner(a, b)
            def inner(a, b):
                return abs(a - b)
            class Gap(Hidden):
                def of(self, a, b):
                    return self.scale * gap(a, b)
        """,
        "_hidden": """
            class Hidden:
                def __init__(self, scale=1):
                    self.scale = scale
                def twice(self, a, b):
                    return 2 * self.of(a, b)
        """,
        "testing": """
            class Fake:
                def __init__(self, size):
                    self.size = size
                def __sub__(self, other):
                    return self.size
                def said(self):
                    return "fake"
        """,
    }
    package.mkdir()
    for name, text in sources.items():
        (package / f"{name}.py").write_text(textwrap.dedent(text))
    monkeypatch.syspath_prepend(tmp_path)
    import a_shop
    import a_shop.testing

    watcher = Watcher(["a_shop"], lambda: "test")
    with watcher.watch():
        a_shop.Gap(3).twice(1, 4)
        fake = a_shop.testing.Fake(7)
        fake.said()
        a_shop.gap(fake, 1)
    for name in [name for name in sys.modules if name.partition(".")[0] == "a_shop"]:
        del sys.modules[name]
    assert {*watcher.seen} == {"a_shop._inside:gap", "a_shop._inside:Gap"}
    [made] = watcher.seen["a_shop._inside:Gap"].objects
    assert (made.made, [(call.method, call.returned) for call in made.calls]) == ({"scale": 3}, [("twice", 18)])
    calls = watcher.seen["a_shop._inside:gap"].calls
    assert calls[-1][1].arguments == {"a": {"made": "a_shop.testing:Fake", "arguments": {"size": 7}}, "b": 1}


def test_an_object_beyond_the_limit_is_made_again_and_has_no_calls(watched: Any) -> None:
    watcher = _watcher()
    with watcher.watch():
        made = [watched.Mean(4) for _ in range(MOST_OBJECTS + 2)]
        made[-1].update([1.0])
        with pytest.raises(TypeError):
            watched.share([1], made[-1])
    assert len(watcher.seen["watched_project:Mean"].objects) == MOST_OBJECTS
    [(_, call)] = watcher.seen["watched_project:share"].calls
    assert call.arguments["total"] == {"made": "watched_project:Mean", "arguments": {"size": 4}}


def test_an_object_is_freed_as_without_the_watch(watched: Any) -> None:
    with _watcher().watch():
        mean = watched.Mean(4)
        mean.update([1.0])
        there = weakref.ref(mean)
        del mean
        gc.collect()
        assert there() is None


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="single code objects are watched from Python 3.12 on")
def test_a_long_loop_of_other_calls_ends_the_watch_of_its_test(watched: Any) -> None:
    watcher = _watcher()
    for number, count in enumerate((10, 100_000, 10)):
        with watcher.watch():
            assert sum(len(str(each)) == 1 for each in (None for _ in range(count))) == 0
            assert (sys.getprofile() is None) == (count > 10)
            watched.share([number])
    kept = [call.arguments["right"] for _, call in watcher.seen["watched_project:share"].calls]
    assert (kept, watcher.ended) == ([[0], [2]], 1)
    with watcher.watch(most=sys.maxsize):
        assert sum(len(str(each)) == 1 for each in (None for _ in range(100_000))) == 0
        watched.share([3])
    assert len(watcher.seen["watched_project:share"].calls) == 3


def test_modules_of_others_are_imported_without_the_watch_and_those_of_the_project_with_it(
    watched: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = tmp_path / "site-packages"
    others.mkdir()
    (others / "of_others.py").write_text("import sys\nPROFILE = sys.getprofile()\nimport beside_the_project\n")
    (tmp_path / "beside_the_project.py").write_text("import watched_project\nwatched_project.share([8])\n")
    (tmp_path / "of_the_project.py").write_text("import watched_project\nwatched_project.share([9])\n")
    (others / "that_fails.py").write_text("raise ValueError('no licence')\n")
    monkeypatch.syspath_prepend(others)
    watcher, finders = _watcher(), [*sys.meta_path]
    with watcher._profiled():
        of_others = importlib.import_module("of_others")
        importlib.import_module("of_the_project")
        with pytest.raises(ValueError, match="no licence"):
            importlib.import_module("that_fails")
        watched.share([10])
    assert of_others.PROFILE is None
    assert isinstance(of_others.__spec__.loader, SourceFileLoader)
    assert sys.meta_path == finders
    kept = [call.arguments["right"] for _, call in watcher.seen["watched_project:share"].calls]
    assert kept == [[9], [10]]
    for name in ("of_others", "of_the_project", "beside_the_project"):
        del sys.modules[name]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="there are no events of single code objects before Python 3.12")
def test_events_of_code_objects_and_the_profiler_see_the_same(watched: Any) -> None:
    seen = []
    for way in ("_monitored", "_profiled"):
        watcher = _watcher()
        with getattr(watcher, way)():
            watched.share([1], total=2)
            with pytest.raises(ValueError, match="no"):
                watched.fails(3)
            watched.Mean(3).twice([2.0])
            watched.in_a_thread([5])
        seen.append(watcher.seen)
    assert seen[0] == seen[1]


def test_the_constructor_of_a_base_class_is_none_of_its_own(watched: Any) -> None:
    """Objects that are made alike are no more kept, and their base class has a constructor, too."""
    watcher = Watcher(["watched_project"], lambda: "test_it")
    with watcher.watch():
        for count in range(2 * MOST_OBJECTS):
            watched.Named().rate([0] * count)
    assert {str(each.made) for each in watcher.seen["watched_project:Named"].objects} == {"{}"}
