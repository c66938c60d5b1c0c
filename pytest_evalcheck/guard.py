"""Whether code left what it was given as it found it.

`Snapshot` remembers a nest of containers, objects, tensors and arrays: types, keys and their order, which object is
at which place, and of every tensor its layout, its memory and, as digests, its values. `unchanged` is the same
around a block of code.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from pytest_evalcheck.expectations.failures import CheckFailure
from pytest_evalcheck.leaves import Buffer, Leaf, leaf_of
from pytest_evalcheck.quick import Quick
from pytest_evalcheck.walk import Slot, a, describe, is_sequence, role_of, same, slots

_LINES = 12


def unchanged(value: Any, *, fast: bool = False, name: str = "batch") -> Guard:
    """Hold that the code within leaves a value as it found it; raises `CheckFailure` with what changed.

    ``fast`` does not read values: see `Snapshot`. ``name`` is what the message calls the value. If the code raises,
    its error goes on, and what changed is added to it as a note.

    >>> with unchanged({"labels": 7}) as batch:
    ...     batch.pop("labels")
    Traceback (most recent call last):
      ...
    pytest_evalcheck.expectations.failures.CheckFailure: the batch was changed
        batch['labels'] is gone
    """
    if not isinstance(name, str) or not name:
        raise TypeError(f"name={name!r}; expected what the messages call the value, such as 'batch'")
    return Guard(value, name, fast)


class Guard:
    """A value that is watched: within ``with``, or from its making until `hold`."""

    def __init__(self, value: Any, name: str, fast: bool) -> None:
        self._value, self._name, self._fast = value, name, fast
        self._before = Snapshot(value, name, fast)
        self.entered = False
        """Whether it was used with ``with``, and has nothing left to hold."""

    def __enter__(self) -> Any:
        if self.entered:
            self._before = Snapshot(self._value, self._name, self._fast)
        self.entered = True
        return self._value

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if error is None:
            self.hold()
        elif (broken := self.broken()) is not None:
            _note(error, str(broken))

    def hold(self) -> None:
        """Raise `CheckFailure` if anything is different from what it was."""
        hold(self)

    def broken(self) -> CheckFailure | None:
        """What `hold` raises, or None."""
        lines = self._before.changes()
        left = [f"... and {len(lines) - _LINES} more"] if len(lines) > _LINES else []
        detail = "\n".join(lines[:_LINES] + left)
        return CheckFailure(f"the {self._name} was changed", detail=detail) if lines else None


def hold(*guards: Guard) -> None:
    """Raise one `CheckFailure` that tells of every guard whose value is different from what it was."""
    broken = [violation for guard in guards if (violation := guard.broken()) is not None]
    if len(broken) == 1:
        raise broken[0]
    if broken:  # at once, since before pytest 8.1 only the last of several errors at a teardown is told
        raise CheckFailure(f"{len(broken)} values were changed", detail="\n".join(map(str, broken)))


def _note(error: BaseException, text: str) -> None:
    if hasattr(error, "add_note"):
        error.add_note(text)
    else:  # Python 3.10, where they have no method yet
        setattr(error, "__notes__", [*getattr(error, "__notes__", []), text])  # noqa: B010 - unknown to its types


class Snapshot:
    """What an object looked like; `changes` says what is different now.

    Tensors, arrays and objects are held while it lives, but not copied: see `pytest_evalcheck.digest`. With ``fast``
    values are not read, and an in-place write is seen if PyTorch counted it. Not seen are then writes through
    ``.data``, through NumPy, into arrays and buffers, and into tensors that were made under ``inference_mode``.
    """

    def __init__(self, value: Any, name: str = "batch", fast: bool = False) -> None:
        self._name, self._root = name, value
        self._quick = Quick.of(value) if fast else None
        self._nodes = _walk(value, name, exact=not fast) if self._quick is None else []

    def changes(self) -> list[str]:
        """One line for every change, with its path and the values: ``batch['labels'][1]: 7 became -100``.

        What is no longer in its place is watched as well: ``what was batch['labels'][1]: 7 became -100``.
        """
        if self._quick is not None:
            if self._quick.same():
                return []
            self._nodes = _rebuilt(self._root, self._name, self._quick)
        lines: list[str] = []
        for node in self._nodes:
            found = list(node.inside(self._nodes))
            if node.leaf is not None:
                found += node.leaf.changes(partial(self._sharing, node))
            if found:
                lead = "" if node.attached() else "what was "
                lines += [f"{lead}{node.path}{line}" for line in found]
        return lines

    def _sharing(self, node: _Node) -> str:
        others = [other for other in self._nodes if other.leaf is not None and other is not node]
        mine = node.leaf
        assert mine is not None
        was = [other.path for other in others if other.leaf and other.leaf.memory == mine.memory != 0]
        now = [other.path for other in others if other.leaf and other.leaf.memory_now == mine.memory_now != 0]
        lost, won = [path for path in was if path not in now], [path for path in now if path not in was]
        return (f", no longer shared with {', '.join(lost)}" if lost else "") + (
            f", now shared with {', '.join(won)}" if won else ""
        )


class _Node:
    """One object of the nest, where it was found first."""

    __slots__ = ("kind", "leaf", "parent", "slot", "slots", "value")

    def __init__(
        self, value: Any, parent: _Node | str, slot: Slot | None, inside: list[Slot] | None, leaf: Leaf | Buffer | None
    ) -> None:
        self.value, self.parent, self.slot, self.kind = value, parent, slot, type(value)
        self.slots, self.leaf = inside, leaf

    @property
    def path(self) -> str:
        """How it was reached."""
        if isinstance(self.parent, str) or self.slot is None:
            return str(self.parent)
        return self.slot.after(self.parent.path)

    def attached(self) -> bool:
        """Whether it is still reached that way."""
        if isinstance(self.parent, str) or self.slot is None:
            return True
        how, key, _ = self.slot
        return self.parent.attached() and any(
            slot.held is self.value and slot.how == how and same(slot.key, key)
            for slot in slots(self.parent.value) or ()
        )

    def inside(self, nodes: list[_Node]) -> Iterator[str]:
        """Which places were added, emptied, reordered, or hold something else, as it goes on after the path."""
        if type(self.value) is not self.kind:
            yield f": {a(self.kind.__name__)} became {a(type(self.value).__name__)}"
        before, now = self.slots or [], slots(self.value) or []
        if len(before) == len(now) and all(
            b.held is n.held and b.key is n.key and b.how is n.how for b, n in zip(before, now, strict=True)
        ):
            return
        old, new = ({(slot.how, slot.key): slot for slot in side} for side in (before, now))
        gone = [f"{slot.after('')} is gone" for at, slot in old.items() if at not in new]
        other = [(slot, new[at]) for at, slot in old.items() if at in new and not same(slot.held, new[at].held)]
        added = [f"{slot.after('')} was added" for at, slot in new.items() if at not in old]
        items = {slot.key: new_slot.held for slot, new_slot in other if slot.how == "item"}
        replaced = [
            _replaced(slot, new_slot.held, nodes)
            for slot, new_slot in other
            # A ModelOutput has its items as attributes too.
            if not (slot.how == "attribute" and slot.key in items and items[slot.key] is new_slot.held)
        ]
        if is_sequence(self.value):
            gone, replaced, added = _first(gone), _first(replaced), _first(added)
        yield from (*gone, *replaced, *added)
        keys = [[slot.key for slot in side if slot.how == "item"] for side in (before, now)]
        was, has = ([key for key in side if ("item", key) in old and ("item", key) in new] for side in keys)
        if len(was) != len(has) or not all(map(same, was, has)):
            yield f": keys {keys[0]} became {keys[1]}"


def _walk(value: Any, name: str, *, exact: bool) -> list[_Node]:
    nodes: list[_Node] = []
    seen: set[int] = set()
    left: list[tuple[Any, _Node | str, Slot | None]] = [(value, name, None)]
    while left:
        here, parent, slot = left.pop()
        if id(here) in seen:
            continue
        seen.add(id(here))
        node = _Node(here, parent, slot, slots(here), leaf_of(here, exact=exact))
        nodes.append(node)
        if node.slots:
            left += [
                (inner.held, node, inner)
                for inner in reversed(node.slots)
                if inner.how != "store" and role_of(type(inner.held)) != "plain"
            ]
    return nodes


def _rebuilt(batch: Any, name: str, quick: Quick) -> list[_Node]:
    inside = [Slot("item", key, held) for key, held in zip(quick.keys, quick.held, strict=True)]
    root = _Node(batch, name, None, inside, None)
    tensors = [(slot, seen) for slot, seen in zip(inside, quick.seen, strict=True) if seen is not None]
    return [root, *(_Node(slot.held, root, slot, [], Leaf.seen(slot.held, seen)) for slot, seen in tensors)]


def _replaced(slot: Slot, now: Any, nodes: list[_Node]) -> str:
    path, before = slot.after(""), slot.held
    if role_of(type(before)) == role_of(type(now)) == "plain":
        return f"{path}: {describe(before)} became {describe(now)}"
    node = next((node for node in nodes if node.value is before), None)
    shared = ""
    if node is not None and node.leaf is not None and (fresh := leaf_of(now, exact=False)) is not None:
        paths = [n.path for n in nodes if n.leaf and n is not node and n.leaf.memory_now == fresh.memory != 0]
        shared = f", which shares memory with {', '.join(paths)}" if paths else ""
        line = node.leaf.against(now)
        if line:
            return f"{path}{line}, in another {type(now).__name__.lower()}{shared}"
        if line == "":
            return f"{path} was replaced by another {type(now).__name__.lower()} of equal values{shared}"
    if type(before) is not type(now) or describe(before) != describe(now):
        return f"{path}: {describe(before)} became {describe(now)}{shared}"
    held = [[slot.held for slot in slots(side) or ()] for side in (before, now)]
    alike = len(held[0]) == len(held[1]) and held[0] and all(map(same, *held))
    kind = type(now).__name__.lower() if role_of(type(now)) == "tensor" else type(now).__name__
    return f"{path} was replaced by another {kind}{' of equal content' if alike else ''}{shared}"


def _first(lines: list[str]) -> list[str]:
    return [f"{lines[0]} (and {len(lines) - 1} more)"] if len(lines) > 1 else lines
