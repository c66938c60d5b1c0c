"""Arguments of ``--evalcheck-target`` and ``python -m pytest_evalcheck write``: a module, a name in it, a call."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from pytest_evalcheck.adapters.lookup import registry_of
from pytest_evalcheck.errors import UsageError

_EXPECTED = (
    "expected a module (torchmetrics.classification), a name in it (package.module:Name), a call of that name, "
    "or tasks of a registry (lm_eval.tasks:gsm8k,arc_easy)"
)


@dataclass(frozen=True)
class Request:
    """One module, and what of it is meant."""

    text: str
    """The text that was given."""
    module: str
    name: str = ""
    """Empty where all of the module is meant; for a registry of tasks, names with commas between them."""
    call: str = ""
    """The source that makes the object: ``TopK(k=3)``; empty where that is to be found out."""

    @classmethod
    def parse(cls, text: str) -> Request:
        """From what was written: ``package.module``, ``package.module:Name`` or ``package.module:Name(k=3)``.

        Of a registry of tasks the rest is a list of names: ``lm_eval.tasks:gsm8k,arc_easy``.

        Raises:
            UsageError: where it is none of them.
        """
        module, colon, rest = text.strip().partition(":")
        if not module or not all(part.isidentifier() for part in module.split(".")) or bool(colon) != bool(rest):
            raise UsageError(f"the target {text!r} cannot be read; {_EXPECTED}")
        if registry_of(module):
            if not rest:
                raise UsageError(f"{module} is a registry of tasks: name some of them, such as {module}:gsm8k,arc_easy")
            return cls(text, module, rest)
        if not rest:
            return cls(text, module)
        try:
            expression = ast.parse(rest.strip(), mode="eval").body
        except SyntaxError as error:
            raise UsageError(f"the target {text!r} cannot be read: {error.msg}; {_EXPECTED}") from error
        named = expression.func if isinstance(expression, ast.Call) else expression
        if not isinstance(named, ast.Name):
            raise UsageError(f"the target {text!r} cannot be read: {rest!r} is neither a name nor a call; {_EXPECTED}")
        return cls(text, module, named.id, ast.unparse(expression) if named is not expression else "")
