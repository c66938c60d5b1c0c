"""Patches of installed libraries: applied by name, nested, and undone."""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import importlib.util
import inspect
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from types import CodeType, FunctionType, ModuleType
from typing import Any, Literal

from pytest_evalcheck.errors import nearest
from pytest_evalcheck.fixes.patches.editing import PatchError, code_of, definition, edited, source_of
from pytest_evalcheck.fixes.patches.patch import Edit, Library, Patch
from pytest_evalcheck.fixes.releases import numbers

LIBRARIES = (
    "accelerate",
    "catalyst",
    "evaluate",
    "flax",
    "google_metrax",
    "hydroerr",
    "hydroeval",
    "ignite",
    "imbalanced_learn",
    "keras",
    "kornia",
    "lighteval",
    "lightning",
    "lm_eval",
    "mapie",
    "medpy",
    "monai",
    "mosaicml",
    "nltk",
    "peft",
    "pytorch_forecasting",
    "river",
    "scikit_learn",
    "scoringrules",
    "seqeval",
    "sktime",
    "torcheval",
    "torchmetrics",
    "torchtune",
    "transformers",
    "trl",
    "uncertainty_toolbox",
)
"""The modules of this package that hold patches."""

_lock = threading.RLock()
_applied: Counter[str] = Counter()
"""The number of times that each patch is applied, by its id."""
_codes: dict[tuple[str, str], tuple[FunctionType, CodeType, CodeType]] = {}
"""By module and path, a function, its own code and its code with edits."""
_names: dict[tuple[str, str], tuple[str, ...]] = {}
"""By module and path, the names that were added."""
_follows = False
_followed: set[str] = set()
"""The ids of the patches that `apply_to_imported` has tried."""


def patched(
    library: str, *, only: Collection[str] | None = None, missing: Literal["raise", "warn"] = "raise"
) -> Patched:
    """Apply the patches of a library: to the end of the process, or of a ``with`` block.

    Each patch edits the smallest function that is at fault, in place: who imported it before has the patch, too. An
    object that was made before keeps functions that its class made for it. Patches nest, can be applied and undone by
    several threads, and leave files alone. Another process has them where it calls this function, too.

    Args:
        library: the name of its distribution, such as ``torchmetrics``.
        only: ids of upstream faults; without them all patches of the library are applied.
        missing: with ``"warn"``, a patch that cannot be applied, as for another release, is a warning.

    Raises:
        PatchError: for an unknown library or id, a library that is not installed, a release that the patches were not
            tested on, a source that is not available, and a function that other code has replaced.
    """
    found = load(library)
    chosen = _chosen(found, only)
    done = Patched(found.name)
    with _lock:
        try:
            _require_release(found, chosen, missing)
            for patch in chosen:
                done._apply(patch, missing)
        except BaseException:
            done.undo()
            raise
    return done


class Patched:
    """Patches that are applied until `undo`, or the end of a ``with`` block."""

    def __init__(self, library: str) -> None:
        self.library = library
        """The name of the distribution."""
        self.ids: tuple[str, ...] = ()
        """The ids of the patches that are applied."""

    def __enter__(self) -> Patched:
        return self

    def __exit__(self, *_: object) -> None:
        self.undo()

    def __repr__(self) -> str:
        return f"Patched({self.library!r}, {len(self.ids)} patches)"

    def undo(self) -> None:
        """Undo the patches; those that were applied elsewhere, too, stay. A second call does nothing."""
        with _lock:
            ids, self.ids = self.ids, ()
            _applied.subtract(ids)
            _refresh([patch for patch in load(self.library).patches if patch.id in ids])

    def _apply(self, patch: Patch, missing: str) -> None:
        _applied[patch.id] += 1
        try:
            _require_in_place(patch)
            _refresh([patch])
        except (PatchError, ImportError) as error:
            _applied[patch.id] -= 1
            _refresh([patch])
            text = f"the patch {patch.id} cannot be applied: {error}"
            if missing == "raise":
                raise PatchError(text) from error
            warnings.warn(text, UserWarning, stacklevel=4)
        else:
            self.ids += (patch.id,)


def load(library: str) -> Library:
    """The patches of a library, without an import of the library.

    Raises:
        PatchError: where there are none.
    """
    libraries = {one.name: one for one in all_libraries()} | {name: _library(name) for name in LIBRARIES}
    if library not in libraries:
        names = sorted(one.name for one in all_libraries())
        expected = f"expected one of {', '.join(names)}{nearest(str(library), libraries)}"
        raise PatchError(f"no patches of {library!r} are known; {expected}")
    return libraries[library]


def all_libraries() -> tuple[Library, ...]:
    """All libraries that have patches."""
    return tuple(map(_library, LIBRARIES))


def patch_of(fault: str) -> tuple[Library, Patch] | None:
    """The patch that mends an upstream fault, by its id."""
    return _by_fault().get(fault)


def is_mended(fault: str) -> bool:
    """Return whether a patch that is applied, or that `follow` will apply, mends an upstream fault."""
    if (found := patch_of(fault)) is None:
        return False
    library, patch = found
    return _applied[patch.id] > 0 or (_follows and not why_not_tested(library))


def follow() -> None:
    """Let `apply_to_imported` apply patches: for a run with all of them."""
    global _follows
    _follows = True


def apply_to_imported() -> bool:
    """Apply the patches of modules that were imported since the last call, after `follow`; return if there were any.

    The other modules of such a patch are imported. A patch that cannot be applied is a warning.
    """
    if not _follows:
        return False
    chosen = [
        (library, patch)
        for library in all_libraries()
        for patch in library.patches
        if patch.id not in _followed
        and any(where.split(":")[0] in sys.modules for where in patch.edits)
        and all(importlib.util.find_spec(one) for one in patch.needs)
    ]
    _followed.update(patch.id for _, patch in chosen)
    tested = [(library, patch) for library, patch in chosen if not why_not_tested(library)]
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # what cannot be applied is no error of the target that is made
        for library, patch in tested:
            patched(library.name, only=[patch.id], missing="warn")
    return bool(tested)


def why_not_tested(library: Library) -> str:
    """Return a reason if the patches were not tested on the installed release, as a clause, else ''."""
    tested = f"the patches of {library.name} were tested from {library.first} and before {library.end}"
    try:
        version = importlib.metadata.version(library.name)
    except importlib.metadata.PackageNotFoundError:
        return f"{tested}, and it is not installed"
    inside = numbers(library.first) <= numbers(version) < numbers(library.end)
    return "" if inside else f"{tested}, and {version} is installed"


@functools.cache
def _library(name: str) -> Library:
    found: Library = importlib.import_module(f"{__package__}.{name}").LIBRARY
    return found


@functools.cache
def _by_fault() -> Mapping[str, tuple[Library, Patch]]:
    return {
        fault: (library, patch) for library in all_libraries() for patch in library.patches for fault in patch.mends
    }


def _chosen(library: Library, only: Collection[str] | None) -> list[Patch]:
    if only is None:
        # What needs a package that is optional, and is not there, has nothing to be patched in.
        return [p for p in library.patches if all(importlib.util.find_spec(one) for one in p.needs)]
    if isinstance(only, str):
        raise PatchError(f"only={only!r} is a text; expected a list of ids, such as [{only!r}]")
    known = {fault: patch for patch in library.patches for fault in patch.mends}
    for name in only:
        if name not in known:
            raise PatchError(f"no patch of {library.name} mends {name!r}{nearest(str(name), known)}")
    return list({known[name].id: known[name] for name in only}.values())


def _require_release(library: Library, chosen: list[Patch], missing: str) -> None:
    if missing not in ("raise", "warn"):
        raise PatchError(f"missing={missing!r}; expected 'raise' or 'warn'")
    if why := why_not_tested(library):
        if missing == "raise" or why.endswith("not installed"):
            names = ", ".join(patch.id for patch in chosen)
            advice = "" if why.endswith("not installed") else "; missing='warn' applies those whose lines are there"
            raise PatchError(f"{why}{advice} ({names})")
        warnings.warn(why, UserWarning, stacklevel=3)


def _refresh(patches: list[Patch]) -> None:
    """Give each function that these patches edit the code of all patches that are applied."""
    for where in dict.fromkeys(where for patch in patches for where in patch.edits):
        module_name, _, path = where.partition(":")
        edits = [
            edit
            for library in all_libraries()
            for p in library.patches
            if _applied[p.id] > 0
            for edit in p.edits.get(where, ())
        ]
        if not edits and (module_name, path) not in _codes and (module_name, path) not in _names:
            continue
        module = importlib.import_module(module_name)
        appended = [edit for edit in edits if edit.how == "append"]
        _add(module, path, appended)
        if others := [edit for edit in edits if edit.how != "append"]:
            _edit(module, path, others)
        else:
            _restore(module_name, path)


def _edit(module: ModuleType, path: str, edits: list[Edit]) -> None:
    key = (module.__name__, path)
    filename = str(module.__file__)
    function = _codes[key][0] if key in _codes else _function(module, path)
    own = _codes[key][1] if key in _codes else function.__code__
    _require_ours(key, function)
    code = code_of(edited(module.__name__, {path: edits}), path, filename)
    if code.co_freevars != own.co_freevars:
        raise PatchError(
            f"{module.__name__}:{path} has other free variables than its edited source, {code.co_freevars}"
        )
    _codes[key] = (function, own, code)
    function.__code__ = code


def _require_in_place(patch: Patch) -> None:
    """Require that the functions that are patched already are still those of their modules."""
    for key in (key for where in patch.edits if (key := tuple(where.split(":"))) in _codes):
        _function(sys.modules[key[0]], key[1])


def _restore(module: str, path: str) -> None:
    key = (module, path)
    if key in _codes:
        _require_ours(key, _codes[key][0])
        function, own, _ = _codes.pop(key)
        function.__code__ = own


def _require_ours(key: tuple[str, str], function: FunctionType) -> None:
    if key in _codes and function.__code__ is not _codes[key][2]:
        code = function.__code__
        who = f"{code.co_name} of {code.co_filename}:{code.co_firstlineno}"
        raise PatchError(f"{':'.join(key)} got other code while it was patched: {who}")


def _add(module: ModuleType, path: str, edits: list[Edit]) -> None:
    """Add names to a class or a module, in place of those that were added before."""
    key = (module.__name__, path)
    owner = _member(module, path)
    for name in _names.pop(key, ()):
        with suppress(AttributeError):
            delattr(owner, name)
    if not edits:
        return
    put = "\n".join(edit.put for edit in edits)
    made: dict[str, Any] = {}
    if path:
        name = path.split(".")[-1]
        lines = "\n".join("    " + line for line in put.splitlines())
        exec(f"class {name}:\n{lines}\n    def _cell(): return __class__", vars(module), made)
        members = {
            k: v
            for k, v in vars(made[name]).items()
            if k
            not in (
                "__module__",
                "__dict__",
                "__weakref__",
                "__doc__",
                "__qualname__",
                "__firstlineno__",
                "__static_attributes__",
            )
        }
        members.pop("_cell").__closure__[0].cell_contents = owner
    else:
        exec(put, vars(module), made)
        members = made
    for name in members:
        if name in vars(owner):
            raise PatchError(f"{':'.join(key)} has {name!r} already")
    for name, value in members.items():
        setattr(owner, name, value)
    _names[key] = tuple(members)


def _member(module: ModuleType, path: str) -> Any:
    found: Any = module
    for part in filter(None, path.split(".")):
        found = vars(found).get(part, None) if isinstance(found, type) else getattr(found, part, None)
        if found is None:
            raise PatchError(f"{module.__name__} has no {path}")
    return found


def _function(module: ModuleType, path: str) -> FunctionType:
    """The function that the source of a module defines, inside of what its decorators made of it."""
    node = definition(source_of(module), path, module.__name__)
    first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
    found = _member(module, path)
    for candidate in _functions_inside(found, [] if node.decorator_list else None):
        code = candidate.__code__
        if code.co_name == node.name and code.co_firstlineno == first and code.co_filename == module.__file__:
            return candidate
    who = getattr(inspect.unwrap(found), "__code__", None) or getattr(found, "__code__", None)
    of = f"{getattr(found, '__module__', '?')}.{getattr(found, '__qualname__', type(found).__name__)}"
    place = f" ({who.co_filename}:{who.co_firstlineno})" if who else ""
    raise PatchError(f"{module.__name__}:{path} was replaced by other code, {of}{place}")


def _functions_inside(thing: Any, seen: list[Any] | None) -> Iterator[FunctionType]:
    """A function; where it is decorated (``seen`` is a list) also the functions that it holds."""
    if isinstance(thing, (staticmethod, classmethod)):
        thing = thing.__func__
    if isinstance(thing, FunctionType):
        yield thing
    if seen is None or any(thing is one for one in seen):
        return
    seen.append(thing)
    held = [getattr(thing, name, None) for name in ("__wrapped__", "fget", "func", "__func__")]
    for cell in getattr(thing, "__closure__", None) or ():
        with suppress(ValueError):
            held.append(cell.cell_contents)
    for one in held:
        if callable(one) or isinstance(one, property):
            yield from _functions_inside(one, seen)
