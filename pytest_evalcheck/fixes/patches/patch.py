"""Records of patches: what a patch mends, and which lines of a library it edits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Edit:
    """One change of the source of a function, a class or a module. Make it with the functions of this module."""

    how: str
    """``replace``, ``before``, ``after``, ``begin``, ``body`` or ``append``."""
    find: str
    """A part of the source that stands there once; of several lines each is compared without its indent."""
    put: str
    """The new code; further lines are indented as the line where it is put."""


def replace(find: str, put: str) -> Edit:
    """Put code in the place of a part of the source."""
    return Edit("replace", find, put)


def put_before(find: str, put: str) -> Edit:
    """Put statements before the statement that a part of the source lies in."""
    return Edit("before", find, put)


def put_after(find: str, put: str) -> Edit:
    """Put statements after the statement that a part of the source lies in."""
    return Edit("after", find, put)


def begin(put: str) -> Edit:
    """Put statements at the head of a function, after its docstring."""
    return Edit("begin", "", put)


def body(put: str) -> Edit:
    """Put statements in the place of the whole body of a function, after its docstring."""
    return Edit("body", "", put)


def append(put: str) -> Edit:
    """Put new methods at the end of a class, or new names at the end of a module."""
    return Edit("append", "", put)


@dataclass(frozen=True, kw_only=True)
class Patch:
    """One correction of a library, as edits of its source."""

    mends: tuple[str, ...]
    """The ids of the upstream faults that are gone with it; the first one is the id of the patch."""
    says: str
    """One line on what the code does with it: the title of a pull request."""
    edits: Mapping[str, tuple[Edit, ...]]
    """By ``module:function``, ``module:Class.method``, ``module:Class`` or ``module``."""
    test: str
    """Statements that fail without the patch and pass with it, with their imports: a regression test."""
    needs: tuple[str, ...] = ()
    """Other packages that have to be importable, where the test or the code needs one that is optional."""

    @property
    def id(self) -> str:
        """The id of the patch: that of the first fault that it mends."""
        return self.mends[0]


@dataclass(frozen=True)
class Library:
    """The patches of one library, and the releases that they were tested on."""

    name: str
    """The name of its distribution."""
    first: str
    """The first release on which they were tested."""
    end: str
    """The first release on which they were not."""
    source: str = ""
    """The folder of its repository that its packages lie in, such as ``src/``."""
    patches: tuple[Patch, ...] = field(default=())
