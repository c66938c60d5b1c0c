"""What a callable is for a script: code under test or not, what it may change, and what its result is called."""

from __future__ import annotations

import builtins
import functools
import operator
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

SIGNS: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "@": operator.matmul,
    "&": operator.and_,
    "|": operator.or_,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
"""What a binary operator does, by its sign."""
UNARY: dict[str, Callable[..., Any]] = {"-": operator.neg, "~": operator.invert}
"""The same of one value."""
_STDLIB = {*sys.stdlib_module_names}
_NUMERIC = ("torch", "numpy")
_GLOBAL = {
    ("torch", "manual_seed"),
    ("torch.random", "manual_seed"),
    ("random", "seed"),
    ("numpy.random", "seed"),
    ("torch", "set_default_dtype"),
}
"""Functions that change the process, by module and name."""


def without_partial(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The function under a `functools.partial`, with all arguments of the call."""
    while isinstance(function, functools.partial):
        args, kwargs = (*function.args, *args), {**function.keywords, **kwargs}
        function = function.func
    return function, args, kwargs


def method_of(caller: operator.methodcaller) -> tuple[str, tuple[Any, ...], Mapping[str, Any]]:
    """The name of the method that an `operator.methodcaller` calls, and what it gives it."""
    made, given = cast("tuple[Any, tuple[Any, ...]]", caller.__reduce__())
    partial = made if isinstance(made, functools.partial) else functools.partial(made)  # options make it one
    name, *arguments = (*partial.args, *given)
    return name, tuple(arguments), partial.keywords


def kind_of(function: Any) -> str:
    """``library`` for code under test, ``numeric`` for torch and numpy on values, ``builtin`` for the standard library.

    What is called on a module, an optimiser or another object of torch that has a state is of a library, too.
    """
    owner = getattr(function, "__self__", None)
    if owner is not None and not isinstance(owner, types.ModuleType):
        cls = owner if isinstance(owner, type) else type(owner)
        root = cls.__module__.partition(".")[0]
        if root in _NUMERIC:
            return "library" if hasattr(cls, "state_dict") and hasattr(cls, "named_modules") else "numeric"
    elif isinstance(function, type) or hasattr(function, "__qualname__"):
        root = str(getattr(function, "__module__", None) or "builtins").partition(".")[0]
        module = str(getattr(function, "__module__", ""))
        if isinstance(function, type) and root == "torch" and hasattr(function, "named_modules"):
            return "library"
        if module.startswith(("torch.utils.data", "torch.optim")) or function is getattr(_torch(), "Generator", None):
            return "library"
    else:
        root = type(function).__module__.partition(".")[0]
        if root == "torch" and hasattr(function, "named_modules"):
            return "library"
    if root in _NUMERIC:
        return "numeric"
    return "builtin" if root in _STDLIB or root in ("builtins", "_io") else "library"


def _torch() -> Any:
    return sys.modules.get("torch")


def records_gradients() -> bool:
    """Whether torch records gradients now; True where it is not loaded."""
    return bool(getattr(_torch(), "is_grad_enabled", lambda: True)())


def writes_without_history(function: Any) -> bool:
    """Whether a method writes into a tensor that was made under ``torch.inference_mode()``, as it must be there."""
    owner: Any = getattr(function, "__self__", None)
    tensor: Any = getattr(_torch(), "Tensor", None)
    return tensor is not None and isinstance(owner, tensor) and bool(owner.is_inference())


def changes_operands(function: Any, kind: str) -> bool:
    """Whether a call may change what it is given: in a library always, in torch and numpy where its name says so."""
    name = str(getattr(function, "__name__", ""))
    if kind == "library":
        return True
    if kind == "numeric" and type(getattr(function, "__self__", None)) is getattr(_torch(), "Generator", ()):
        return True
    if kind == "numeric":
        return name.endswith("_") and not name.endswith("__")
    return writes_container(function)


def is_gone_through(things: Any) -> bool:
    """Whether a list of these has elements that are known by steps: those of an iterator, and the rows of a tensor."""
    return isinstance(things, Iterator) or type(things).__module__ == "torch"


def writes_container(function: Any) -> bool:
    """Whether a call writes into a list, a dict or a set."""
    owner = getattr(function, "__self__", None)
    return isinstance(owner, (list, dict, set)) and getattr(function, "__name__", "") in _MUTATORS


def reads(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether a method of a model or a metric changes nothing; a script stays on the CPU."""
    name, module = getattr(function, "__name__", ""), str(getattr(function, "__module__", ""))
    if not hasattr(getattr(function, "__self__", None), "named_modules"):
        return False
    if name == "to":
        return not kwargs and [str(value) for value in args] == ["cpu"]
    return module == "torch.nn.modules.module" and name in _READERS


PARTS_BY_NAME = {
    **dict.fromkeys(("parameters", "named_parameters"), ("get_parameter", "named_parameters")),
    **dict.fromkeys(("buffers", "named_buffers"), ("get_buffer", "named_buffers")),
    **dict.fromkeys(("modules", "named_modules", "children", "named_children"), ("get_submodule", "named_modules")),
}
"""By method of a model: what gives one of its parts, and what gives the names of all."""
_READERS = {
    *("modules", "named_modules", "children", "named_children", "parameters", "named_parameters"),
    *("buffers", "named_buffers", "state_dict", "get_submodule", "get_parameter", "get_buffer"),
}
_MUTATORS = {"append", "extend", "insert", "pop", "update", "clear", "remove", "setdefault", "add", "discard", "sort"}
_UNINTERESTING = {
    *("isinstance", "issubclass", "hasattr", "len", "repr", "id", "type", "callable", "iter", "next", "print", "zip"),
    *("enumerate", "map", "filter", "dict", "list", "tuple", "set", "frozenset", "range", "any", "all", "hash", "vars"),
    *("reversed", "str", "format", "dir"),
}


def is_uninteresting(function: Any) -> bool:
    """Whether a call says nothing that a script needs: it looks at a value, goes through one, or watches code."""
    name = getattr(function, "__name__", "")
    if isinstance(getattr(function, "__self__", None), Mapping) and name in ("items", "values", "keys"):
        return True
    if name.startswith("register_") and name.endswith("_hook"):
        return True  # of the suite, which watches the code under test
    if getattr(builtins, name, None) is function:
        return name in _UNINTERESTING
    module = str(getattr(function, "__module__", "") or "")
    if module.partition(".")[0] in ("inspect", "contextlib", "dataclasses", "warnings", "weakref", "threading", "re"):
        return True
    return module.startswith(("torch.autograd.grad_mode", "torch.utils._"))


def name_for(function: Any, kind: str) -> str:
    """What the result of a call may be called: a class by its name, ``compute()`` gives a value."""
    name = str(getattr(function, "__name__", "value"))
    if isinstance(function, type):
        return "".join(
            f"_{c.lower()}" if c.isupper() and i and not name[i - 1].isupper() else c.lower()
            for i, c in enumerate(name)
        )
    return {"compute": "value", "result": "value", "forward": "value", "update": "returned"}.get(
        name, "value" if kind != "library" else "result"
    )


def changes_process(function: Any) -> bool:
    """Whether a call changes the process, and not what it is given."""
    return (str(getattr(function, "__module__", "")), getattr(function, "__name__", "")) in _GLOBAL


def names_beside(code: str) -> dict[str, Any]:
    """The names of the module of a check. Nothing here imports checks: a run of one kind needs no others."""
    from pytest_evalcheck.kinds.registry import shipped

    return next(vars(sys.modules[each.function.__module__]) for each in shipped() if each.code == code)
