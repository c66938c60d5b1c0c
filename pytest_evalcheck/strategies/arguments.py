"""The arguments of one `update`, and changes of what a collate returns: names, order, and types."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_evalcheck.errors import nearest, safe_text


@dataclass(frozen=True)
class Arguments:
    """The positional and keyword arguments of one ``update``."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, collated: Any) -> Arguments:
        """From what a collate returned: a tuple, a dict, or arguments already.

        Raises:
            TypeError: where it is something else.
        """
        if isinstance(collated, Arguments):
            return collated
        if isinstance(collated, tuple):
            return cls(collated)
        if isinstance(collated, Mapping) and all(isinstance(key, str) for key in collated):
            return cls((), dict(collated))
        raise TypeError(
            f"collate returned {type(collated).__name__}; expected a tuple of the positional arguments of "
            "update, or a dict of its keyword arguments. For a single argument return `(batch,)`."
        )

    @property
    def collated(self) -> Any:
        """A tuple where no argument has a name, a dict where every one has, else these arguments."""
        if not self.kwargs:
            return self.args
        return self if self.args else dict(self.kwargs)

    @property
    def by_place(self) -> dict[int | str, Any]:
        """Each argument by its position or its name."""
        places: dict[int | str, Any] = dict(enumerate(self.args))
        return places | dict(self.kwargs)

    def replaced(self, values: Mapping[int | str, Any]) -> Arguments:
        """The same with other values in some places."""
        whole = self.by_place | dict(values)
        return Arguments(tuple(whole[at] for at in range(len(self.args))), {name: whole[name] for name in self.kwargs})


@dataclass(frozen=True)
class Changed:
    """A collate, and a change of the batch that it returns. A loader pickles it for its workers."""

    collate: Callable[..., Any]
    change: Callable[[Any], Any]

    def __call__(self, *given: Any) -> Any:
        """The changed batch."""
        return self.change(self.collate(*given))


@dataclass(frozen=True)
class Names:
    """Names for the arguments of a tuple, or other names for the fields of a dict."""

    names: tuple[str, ...] = ()
    """One for each argument, in their order."""
    others: Mapping[str, str] = field(default_factory=dict)
    """From the name of a field to its other name."""
    labels: str = "labels"
    """The field of the labels, which checks look for: it must not get another name unseen."""

    @classmethod
    def of(cls, names: tuple[Any, ...], others: Mapping[str, Any], labels: str) -> Names:
        """Check the arguments of ``named`` and return the change.

        Raises:
            TypeError: where a name is no text.
            ValueError: where there is no name, where one is given twice, or where both forms are mixed.
        """
        given = (*names, *others.values())
        shown = ", ".join([*map(safe_text, names), *(f"{old}={safe_text(new)}" for old, new in others.items())])
        if bad := [name for name in given if not (isinstance(name, str) and name)]:
            raise TypeError(f"named({shown}): {safe_text(bad[0])} is no name; expected texts: named('preds', 'target')")
        if not given or (names and others):
            expected = "a name for each argument, named('preds', 'target'), or other names of fields, named(preds='x')"
            raise ValueError(f"named({shown}): expected {expected}")
        if len(set(given)) < len(given):
            raise ValueError(f"named({shown}): a name is given twice; expected names that differ")
        return cls(names, dict(others), labels)

    def __call__(self, batch: Any) -> Any:
        """The batch with the names.

        Raises:
            TypeError: where the batch is neither a tuple nor a dict.
            ValueError: where the names do not fit it.
        """
        arguments = _arguments(batch, "named()")
        values, fields = arguments.args, dict(arguments.kwargs)
        if self.others:
            return Arguments(values, self._renamed(fields)).collated
        count = len(values) or len(fields)
        if len(self.names) != count:
            shown = ", ".join(map(repr, self.names))
            given = "1 name" if len(self.names) == 1 else f"{len(self.names)} names"
            raise ValueError(f"named({shown}) has {given} for {count} {_shown(arguments)}; expected {count}")
        if values:
            made = dict(zip(self.names, values, strict=True))
            if twice := sorted(made.keys() & fields):
                raise ValueError(
                    f"named() gives the name {twice[0]!r} to a second argument; expected names that differ"
                )
            return {**made, **fields}
        if self.labels in fields and dict(zip(fields, self.names, strict=True))[self.labels] != self.labels:
            raise ValueError(
                f"named() gives another name to {self.labels!r}, the field of the labels, by its place alone; "
                f"expected its name too: named({self.labels}=...)"
            )
        return dict(zip(self.names, fields.values(), strict=True))

    def _renamed(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        for old in self.others:
            if old not in fields:
                known = ", ".join(fields) or "none, since its arguments have no names yet: named('preds', 'target')"
                raise ValueError(f"named({old}=...): there is no such field{nearest(old, fields)}; there is {known}")
        names = [self.others.get(old, old) for old in fields]
        if len(set(names)) < len(names):
            raise ValueError(f"named() makes two fields of one name: {', '.join(names)}")
        return dict(zip(names, fields.values(), strict=True))


def swapped(batch: Any) -> Any:
    """The batch with its first two positional arguments exchanged.

    Raises:
        TypeError: where the batch is neither a tuple nor a dict.
        ValueError: where there are no two positional arguments.
    """
    arguments = _arguments(batch, "swapped()")
    values = arguments.args
    if arguments.kwargs and not values:
        raise ValueError(
            f"swapped() exchanges positional arguments; here all have names, {_shown(arguments)}, and their order "
            "means nothing. Give them other names: named(...)"
        )
    if len(values) < 2:
        raise ValueError(f"swapped() exchanges two arguments; the collate returned {len(values)}")
    return Arguments((values[1], values[0], *values[2:]), arguments.kwargs).collated


@dataclass(frozen=True)
class Packed:
    """A change of a batch: other arguments, made of its positional ones, by themselves or in dicts."""

    layout: tuple[int | Mapping[str, int], ...]
    """For each new argument the place of an old one, or a dict of places."""

    @classmethod
    def of(cls, layout: tuple[Any, ...]) -> Packed:
        """Check the arguments of ``packed`` and return the change.

        Raises:
            TypeError: where an argument is neither a place nor a dict from names to places.
        """
        for entry in layout:
            places = list(entry.values()) if isinstance(entry, Mapping) else [entry]
            named = not isinstance(entry, Mapping) or all(isinstance(name, str) for name in entry)
            if not named or not all(isinstance(i, int) and not isinstance(i, bool) and i >= 0 for i in places):
                raise TypeError(
                    f"packed({safe_text(entry)}): expected the place of an argument, counted from 0, or a dict from "
                    "names to places: packed(0, {'low': 1, 'high': 2})"
                )
        return cls(layout)

    def __call__(self, batch: Any) -> Any:
        """The batch with these arguments.

        Raises:
            ValueError: where there is no argument at a place.
        """
        values = _arguments(batch, "packed()").args

        def value_at(place: int) -> Any:
            if place >= len(values):
                raise ValueError(f"packed({place}): there is no such argument; the collate returned {len(values)}")
            return values[place]

        return tuple(
            {name: value_at(place) for name, place in entry.items()} if isinstance(entry, Mapping) else value_at(entry)
            for entry in self.layout
        )


@dataclass(frozen=True)
class Tensors:
    """A change of the tensors of a batch, of all of its arguments or of some."""

    name: str
    """The method that a user calls."""
    change: Callable[[Any], Any]
    which: tuple[int | str, ...] = ()
    """Places of positional arguments, and names of others; none for all of them."""

    def __call__(self, batch: Any) -> Any:
        """The changed batch.

        Raises:
            TypeError: where an argument to change has no tensor.
            ValueError: where there is no such argument.
        """
        if not self.which:
            self._require_tensors(batch, "the batch")
            return _each_tensor(batch, self.change)
        arguments = _arguments(batch, self.name)
        values = arguments.by_place
        for key in self.which:
            if key not in values:
                near = nearest(str(key), [str(known) for known in values if isinstance(known, str)])
                raise ValueError(f"{self.name}({key!r}): there is no such argument among {_shown(arguments)}{near}")
            self._require_tensors(values[key], f"the argument {key!r}")
            values[key] = _each_tensor(values[key], self.change)
        return arguments.replaced(values).collated

    def _require_tensors(self, value: Any, what: str) -> None:
        leaves = list(_leaves(value))
        if leaves and not any(hasattr(leaf, "is_floating_point") for leaf in leaves):
            held = type(leaves[0]).__name__
            raise TypeError(f"{self.name}() changes tensors, and {what} has none: it holds values of type {held}")


def to_float(tensor: Any) -> Any:
    """The tensor in float32 where it holds integers; one of floats or booleans as it is."""
    integral = not (tensor.is_floating_point() or tensor.is_complex()) and str(tensor.dtype) != "torch.bool"
    return tensor.float() if integral else tensor


def to_array(tensor: Any) -> Any:
    """The tensor as a NumPy array."""
    return tensor.numpy()


def to_list(tensor: Any) -> Any:
    """The tensor as nested lists of Python numbers."""
    return tensor.tolist()


def which_arguments(name: str, which: Sequence[Any]) -> tuple[int | str, ...]:
    """Places and names of arguments as a user gave them.

    Raises:
        TypeError: where one is neither a place nor a name.
        ValueError: where a place is negative.
    """
    for key in which:
        if isinstance(key, bool) or not isinstance(key, (int, str)):
            raise TypeError(f"{name}({safe_text(key)}): expected the place of an argument, such as 1, or its name")
        if isinstance(key, int) and key < 0:
            raise ValueError(f"{name}({key}): expected the place of an argument, counted from 0")
    return tuple(which)


def _arguments(batch: Any, by: str) -> Arguments:
    if isinstance(batch, (Arguments, tuple)) or (isinstance(batch, Mapping) and all(isinstance(k, str) for k in batch)):
        return Arguments.of(batch)
    raise TypeError(
        f"{by} needs a collate that returns a tuple or a dict with names; it returned {type(batch).__name__}"
    )


def _shown(arguments: Arguments) -> str:
    if arguments.args and arguments.kwargs:
        return f"positional arguments beside {', '.join(arguments.kwargs)}"
    if arguments.kwargs:
        return f"fields ({', '.join(arguments.kwargs)})"
    return "positional arguments" if len(arguments.args) != 1 else "positional argument"


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Arguments):
        value = [value.args, value.kwargs]
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def _each_tensor(value: Any, change: Callable[[Any], Any]) -> Any:
    if hasattr(value, "is_floating_point"):
        return change(value)
    if isinstance(value, Arguments):
        return Arguments(_each_tensor(value.args, change), _each_tensor(dict(value.kwargs), change))
    if isinstance(value, Mapping):
        return {key: _each_tensor(item, change) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_each_tensor(item, change) for item in value)
    return value
