"""`Snapshot`, which detects changes of a nested structure, and `unchanged`, the same around a block of code."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from pytest_evalcheck.expectations.failures import CheckFailure
from pytest_evalcheck.guard.fast_guard import FastRecord
from pytest_evalcheck.guard.tensor_snapshot import CopyBudget, TensorSnapshot, address_of
from pytest_evalcheck.guard.traversal import Entry, are_same, entries, format_value, is_sequence, kind_of, with_article

COPY_LIMIT = 64 * 2**20
"""Bytes of values that a snapshot copies by default: 64 MiB."""
_MAX_LINES = 12


def unchanged(value: Any, *, fast: bool = False, name: str = "batch", copy_limit: int = COPY_LIMIT) -> Guard:
    """A context manager that raises `Violation` if the code within changes a value.

    ``name`` is what the message calls the value; for ``fast`` and ``copy_limit`` see `Snapshot`. If the code raises,
    its error is raised, with the changes as a note.

    >>> with unchanged({"labels": 7}) as batch:
    ...     batch.pop("labels")
    Traceback (most recent call last):
      ...
    pytest_evalcheck.expectations.failures.CheckFailure: the batch was changed
        batch['labels'] is gone
    """
    if not isinstance(name, str) or not name:
        raise TypeError(f"name={name!r}; expected what the messages call the value, such as 'batch'")
    return Guard(value, name, fast, copy_limit)


class Guard:
    """A value that must not change: within ``with``, or from the creation of the guard until `verify`."""

    def __init__(self, value: Any, name: str, fast: bool, copy_limit: int = COPY_LIMIT) -> None:
        self._value, self._name, self._options = value, name, (fast, copy_limit)
        self._before = Snapshot(value, name, *self._options)
        self.entered = False
        """True where it was used with ``with``, which verified it."""

    def __enter__(self) -> Any:
        if self.entered:
            self._before = Snapshot(self._value, self._name, *self._options)
        self.entered = True
        return self._value

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if error is None:
            self.verify()
        elif (violation := self.violation()) is not None:
            _add_note(error, str(violation))

    def verify(self) -> None:
        """Raise `Violation` if anything differs from what it was."""
        verify(self)

    def violation(self) -> CheckFailure | None:
        """Return the error that `verify` raises, or None."""
        lines = self._before.changes()
        rest = [f"... and {len(lines) - _MAX_LINES} more"] if len(lines) > _MAX_LINES else []
        detail = "\n".join(lines[:_MAX_LINES] + rest)
        return CheckFailure(f"the {self._name} was changed", detail=detail) if lines else None


def verify(*guards: Guard) -> None:
    """Raise one `Violation` that lists every value which differs from what it was."""
    violations = [violation for guard in guards if (violation := guard.violation()) is not None]
    if len(violations) == 1:
        raise violations[0]
    if violations:  # in one error, since pytest before 8.1 reports only the last of several at a teardown
        raise CheckFailure(f"{len(violations)} values were changed", detail="\n".join(map(str, violations)))


def _add_note(error: BaseException, text: str) -> None:
    if hasattr(error, "add_note"):
        error.add_note(text)
    else:  # Python 3.10
        setattr(error, "__notes__", [*getattr(error, "__notes__", []), text])  # noqa: B010 - unknown to its types


class Snapshot:
    """The state of an object: types, keys and their order, identities, layouts, memory and values.

    All objects are kept alive. Up to ``copy_limit`` bytes of the values of tensors and arrays are copied; a change of
    these is reported with its index and both values. Of a tensor that does not fit a 128-bit digest is kept: every
    change is detected, but not named.

    With ``fast`` values are not read, and an in-place write is detected if PyTorch counted it. Not detected are then
    writes through ``.data``, through NumPy, into arrays and buffers, and into tensors made under ``inference_mode``.
    """

    def __init__(self, value: Any, name: str = "batch", fast: bool = False, copy_limit: int = COPY_LIMIT) -> None:
        if not isinstance(copy_limit, int) or isinstance(copy_limit, bool) or copy_limit < 0:
            raise ValueError(f"copy_limit={copy_limit!r}; expected a number of bytes, 0 or more")
        self._name, self._root = name, value
        self._fast = FastRecord.take(value) if fast else None
        self._nodes = [] if self._fast else _traverse(value, name, None if fast else CopyBudget(copy_limit))

    def changes(self) -> list[str]:
        """One line per change, with its path and the values: ``batch['labels'][1]: 7 became -100``.

        An object that was removed is compared as well: ``what was batch['labels'][1]: 7 became -100``.
        """
        if self._fast is not None:
            if self._fast.unchanged():
                return []
            self._nodes = _nodes_of_record(self._root, self._name, self._fast)
        lines: list[str] = []
        for node in self._nodes:
            found = list(node.changes(self._nodes))
            if node.tensor is not None:
                found += node.tensor.changes(partial(_sharing, node, self._nodes))
            if found:
                lead = "" if node.attached() else "what was "
                lines += [f"{lead}{node.path}{line}" for line in found]
        return lines


class _Node:
    """One object of the structure, at the path at which it was found first."""

    def __init__(self, entry: Entry, parent: _Node | None, inside: list[Entry], tensor: TensorSnapshot | None) -> None:
        self._entry, self._parent, self.entries, self.tensor = entry, parent, inside, tensor
        self.value, self._cls = entry.value, type(entry.value)

    @property
    def path(self) -> str:
        return self._entry.path_after(self._parent.path) if self._parent is not None else str(self._entry.key)

    def attached(self) -> bool:
        """Return whether the object is still at its path."""
        how, key, value = self._entry
        return self._parent is None or (
            any(now.value is value and now.how == how and are_same(now.key, key) for now in entries(self._parent.value))
            and self._parent.attached()
        )

    def changes(self, nodes: list[_Node]) -> Iterator[str]:
        """Return entries that were added, removed, replaced or reordered, as lines that continue the path."""
        if type(self.value) is not self._cls:
            yield f": {with_article(self._cls.__name__)} became {with_article(type(self.value).__name__)}"
        before, now = self.entries, entries(self.value)
        if len(before) == len(now) and all(
            old.value is new.value and old.key is new.key and old.how is new.how
            for old, new in zip(before, now, strict=True)
        ):
            return
        was, has = ({(entry.how, entry.key): entry for entry in side} for side in (before, now))
        both = [at for at in was if at in has]
        other = {at: has[at].value for at in both if not are_same(was[at].value, has[at].value)}
        removed = [f"{entry.path_after('')} is gone" for at, entry in was.items() if at not in has]
        added = [f"{entry.path_after('')} was added" for at, entry in has.items() if at not in was]
        replaced = [
            _replacement(was[how, key], new, nodes)
            for (how, key), new in other.items()
            # The items of a ModelOutput are attributes too, and are reported once.
            if how != "attribute" or ("item", key) not in other or other["item", key] is not new
        ]
        for lines in (removed, replaced, added):
            if is_sequence(self.value) and len(lines) > 1:
                lines[:] = [f"{lines[0]} (and {len(lines) - 1} more)"]
            yield from lines
        keys = [[entry.key for entry in side if entry.how == "item"] for side in (before, now)]
        kept = [[key for key in side if ("item", key) in was and ("item", key) in has] for side in keys]
        if not all(map(are_same, *kept)):
            yield f": keys {keys[0]} became {keys[1]}"


def _traverse(value: Any, name: str, budget: CopyBudget | None) -> list[_Node]:
    nodes: list[_Node] = []
    seen: set[int] = set()
    stack: list[tuple[Entry, _Node | None]] = [(Entry("item", name, value), None)]
    while stack:
        entry, parent = stack.pop()
        here = entry.value
        if id(here) in seen:
            continue
        seen.add(id(here))
        tensor = TensorSnapshot(here, budget) if kind_of(here) in ("tensor", "array", "buffer") else None
        nodes.append(node := _Node(entry, parent, entries(here), tensor))
        inside = (inner for inner in reversed(node.entries) if inner.how != "store")
        stack += [(inner, node) for inner in inside if kind_of(inner.value) != "plain"]
    return nodes


def _nodes_of_record(batch: Any, name: str, record: FastRecord) -> list[_Node]:
    """The nodes of a dict, as a fast record has them."""
    inside = [Entry("item", key, value) for key, value in zip(record.keys, record.values, strict=True)]
    nodes, recorded = [_Node(Entry("item", name, batch), None, inside, None)], record.recorded()
    for entry in inside:
        if id(entry.value) in recorded:
            tensor = TensorSnapshot(entry.value, None)
            tensor.replace_recorded(*recorded[id(entry.value)])
            nodes.append(_Node(entry, nodes[0], [], tensor))
    return nodes


def _sharing(node: _Node, nodes: list[_Node]) -> str:
    """Return the other tensors that stopped or began to share the memory of a tensor."""
    tensors = [(other, other.tensor) for other in nodes if other.tensor is not None and other is not node]
    address = node.tensor.address if node.tensor is not None else 0
    was = [other.path for other, tensor in tensors if tensor.address == address != 0]
    now = _paths_at(address_of(node.value), node, nodes)
    lost, gained = (
        ", ".join(path for path in was if path not in now),
        ", ".join(path for path in now if path not in was),
    )
    return (f", no longer shared with {lost}" if lost else "") + (f", now shared with {gained}" if gained else "")


def _paths_at(address: int, node: _Node, nodes: list[_Node]) -> list[str]:
    """The paths of the other tensors that use an address now."""
    others = (other for other in nodes if other.tensor is not None and other is not node)
    return [other.path for other in others if address_of(other.value) == address != 0]


def _replacement(entry: Entry, now: Any, nodes: list[_Node]) -> str:
    """Describe how an entry differs that has another object now."""
    path, before, name = entry.path_after(""), entry.value, type(now).__name__
    node = next((node for node in nodes if node.value is before), None)
    shared = ""
    if node is not None and node.tensor is not None:
        paths = _paths_at(address_of(now), node, nodes)
        shared = f", which shares memory with {', '.join(paths)}" if paths else ""
        line = node.tensor.difference_from(now)
        if line is not None:
            equal = f" was replaced by another {name.lower()} of equal values"
            return f"{path}{f'{line}, in another {name.lower()}' if line else equal}{shared}"
    if type(before) is not type(now) or format_value(before) != format_value(now) or kind_of(now) == "plain":
        return f"{path}: {format_value(before)} became {format_value(now)}{shared}"
    inside = [[inner.value for inner in entries(side)] for side in (before, now)]
    equal = " of equal content" if len(inside[0]) == len(inside[1]) > 0 and all(map(are_same, *inside)) else ""
    return f"{path} was replaced by another {name.lower() if kind_of(now) == 'tensor' else name}{equal}{shared}"
