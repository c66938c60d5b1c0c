"""Replies in place of a model: those that tests have given, or these with other numbers, by the text that is asked."""

from __future__ import annotations

import copy
import json
import re
import types
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

from pytest_evalcheck.errors import UsageError, common_start
from pytest_evalcheck.learning.stand_ins import RESULT, StandIn, mark, question_in, result_of
from pytest_evalcheck.learning.values import decoded, fields_of, is_of, named

_JSON = re.compile(r"[\[{].*[\]}]", re.DOTALL)
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])")
_FEW = 3
"""Number of different replies up to which those to other texts have other numbers."""
_STEPS = 8
"""Number of steps in which a fraction of a reply is changed."""
_OPPOSITE = {"yes": "no", "no": "yes", "true": "false", "false": "true"}


def replying(known: StandIn, name: str, argument: str, make: Callable[[str, str], Any]) -> Any:
    """Return an object that gives the replies of a stand-in of ``argument`` of ``name``; ``make`` makes it when copied.

    Raises:
        UsageError: where it cannot be made.
    """
    package = name.partition(":")[0].partition(".")[0]
    replies = _Replies(known, package, (name, argument), make)
    bases = tuple(named(each) for each in known.bases if is_of(each, package))
    try:
        cls = types.new_class("StandIn", (_StandIn, *bases), exec_body=lambda names: names.update(replies.methods()))
        cls.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]
        made: Any = object.__new__(cls)
        held = {key: decoded(each, package) for key, each in known.attributes.items() if "." not in key}
        for key, value in {**held, "_replies": replies}.items():
            object.__setattr__(made, key, value)
    except (TypeError, AttributeError) as error:
        raise UsageError(f"what takes the place of the {argument} of {name} cannot be made: {error}") from error
    return made


class _StandIn:
    """Object with the methods that tests have replaced, and with no state: it may be shared by threads."""

    _replies: _Replies

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._replies.attribute(name)

    def __reduce__(self) -> Any:
        return self._replies.make, self._replies.name


class _Place:
    """Attribute or result of a stand-in that has attributes, as ``client.chat`` has ``completions``; or is called."""

    def __init__(self, replies: _Replies, path: str) -> None:
        self._replies, self._path = replies, path

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._replies.attribute(f"{self._path}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._replies.method(self._path)(*args, **kwargs)


class _Replies:
    """All replies of a stand-in, by the path of its method."""

    def __init__(self, known: StandIn, package: str, name: tuple[str, str], make: Callable[[str, str], Any]) -> None:
        self._known, self._package, self.name, self.make = known, package, name, make

    def methods(self) -> Iterator[tuple[str, Any]]:
        """Yield the methods of its class, by name."""
        paths = ("" if path.startswith(RESULT) else path for path in (each["method"] for each in self._known.replies))
        for path in {each for each in paths if "." not in each}:
            yield path or "__call__", self.method(path, bound=True)

    def attribute(self, path: str) -> Any:
        """Return the attribute at a path: a value, a method, or what has more attributes.

        Raises:
            AttributeError: where tests have shown none.
        """
        if path in self._known.attributes:
            return decoded(self._known.attributes[path], self._package)
        paths = {each["method"] for each in self._known.replies}
        if path in paths:
            return self.method(path)
        if any(each.startswith(f"{path}.") for each in (*paths, *self._known.attributes)):
            return _Place(self, path)
        raise AttributeError(
            f"what takes the place of the {self.name[1]} of {self.name[0]} has no {path}: no test used it"
        )

    def method(self, path: str, *, bound: bool = False) -> Callable[..., Any]:
        """Return the function at a path, which replies to the texts that it is given."""

        def reply(*args: Any, **kwargs: Any) -> Any:
            return self._reply_to(path, *question_in([*args[bound:], *kwargs.values()]))

        async def awaited(*args: Any, **kwargs: Any) -> Any:
            return reply(*args, **kwargs)

        return awaited if any(each.get("awaited") for each in self._known.replies if each["method"] == path) else reply

    def _reply_to(self, path: str, text: str, asked: int) -> Any:
        """Return the reply to a text: of those to texts like it that of a test to this text, or one by the text."""
        inside = result_of(path)
        if any(f"{each['method']}.".startswith(f"{inside}.") for each in self._known.replies):
            return _Place(self, inside)
        all_of = [each for each in self._known.replies if each["method"] == path]
        if not all_of:
            raise TypeError(f"what takes the place of the {self.name[1]} of {self.name[0]} has no reply of {path!r}")
        if not text:
            return self._value(all_of[0]["reply"])
        shapes = [_shape(self._value(each["reply"])) for each in all_of]
        like = max(range(len(all_of)), key=lambda index: _likeness(text, all_of[index]["text"]))
        alike = [each for each, shape in zip(all_of, shapes, strict=True) if shape == shapes[like]]
        known = [each["asked"] for each in alike]
        different = [*{json.dumps(each["reply"], sort_keys=True): each["reply"] for each in alike}.values()]
        if len(different) > 1 and asked in known:
            return self._value(alike[known.index(asked)]["reply"])
        reply = self._value(different[asked % len(different)])
        if len(different) > _FEW:
            return reply
        # Texts of tests are few: their replies are to differ.
        return _changed(reply, known.index(asked) if asked in known else asked)

    def _value(self, reply: Any) -> Any:
        """Return a reply as it was; an object of another library has its attributes."""
        if isinstance(reply, list):
            return [*map(self._value, reply)]
        if isinstance(reply, dict):
            if "text" in reply:
                return str(reply["text"])
            if "object" in reply and not is_of(reply["object"], self._package):
                return SimpleNamespace(**{name: self._value(each) for name, each in reply["fields"].items()})
            if "attributes" in reply:
                return SimpleNamespace(**{name: self._value(each) for name, each in reply["attributes"].items()})
            if "dict" in reply:
                return {name: self._value(each) for name, each in reply["dict"].items()}
            if "tuple" in reply:
                return tuple(map(self._value, reply["tuple"]))
        return decoded(reply, self._package)


def _likeness(text: str, other: str) -> tuple[int, float]:
    """Return how alike two texts are: where they begin alike, as those of one template do, then by their words."""
    words, others = {*text.split()}, {*other.split()}
    return common_start(text, other), len(words & others) / max(1, len(words | others))


def _shape(value: Any) -> Any:
    """Return the names in a reply: replies to one question have the same ones."""
    value = _read(value)
    if isinstance(value, SimpleNamespace):
        return {name: _shape(each) for name, each in vars(value).items()}
    return sorted(map(str, value)) if isinstance(value, Mapping) else type(value).__name__


def _read(value: Any) -> Any:
    """Return what a text says as JSON, also between the fences of a block of code; any other value as it is."""
    found = _JSON.search(value) if isinstance(value, str) else None
    if found:
        try:
            return json.loads(found[0])
        except ValueError:
            return value
    return value


def _changed(value: Any, draw: int) -> Any:
    """Return a reply with other numbers and truth values; those of two draws in succession differ."""
    if isinstance(value, bool):
        return value != bool(draw % 2)
    if isinstance(value, int):
        return 1 + draw % value if value > 1 else draw % 2 if value == 1 else value
    if isinstance(value, float):
        return draw % (_STEPS + 1) / _STEPS * (1 if 0 <= value <= 1 else value)
    if isinstance(value, str):
        return _changed_text(value, draw)
    if isinstance(value, SimpleNamespace):
        return SimpleNamespace(**_changed(vars(value), draw))
    if isinstance(value, dict):
        return {name: _changed(each, draw + mark(str(name))) for name, each in value.items()}
    if fields := fields_of(value):  # an object of the package
        changed = _changed(dict(fields), draw)
        if isinstance(value, tuple):
            return type(value)(**changed)
        twin = copy.copy(value)
        for name, each in changed.items():
            object.__setattr__(twin, name, each)  # it may be frozen
        return twin
    if isinstance(value, (list, tuple)):
        return type(value)(_changed(each, draw + index) for index, each in enumerate(value))
    return value


def _changed_text(text: str, draw: int) -> str:
    written = _JSON.search(text)
    if written and (read := _read(text)) is not text:
        return text.replace(written[0], json.dumps(_changed(read, draw)))
    answer = text.strip()
    opposite = _OPPOSITE.get(answer.lower())
    if opposite:
        other = opposite.upper() if answer.isupper() else opposite.title() if answer.istitle() else opposite
        return text.replace(answer, other) if draw % 2 else text

    def number(found: re.Match[str]) -> str:
        return str(_changed(float(found[0]) if "." in found[0] else int(found[0]), draw + found.start()))

    return _NUMBER.sub(number, text)
