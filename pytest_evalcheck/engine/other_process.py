"""A call of a subject in another process, in which texts have other hash values."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import weakref
from typing import Any

from pytest_evalcheck.engine.factory import TargetFactory
from pytest_evalcheck.expectations.failures import NotApplicable
from pytest_evalcheck.kinds.common.process_state import same_random_numbers
from pytest_evalcheck.kinds.registry import kind_of
from pytest_evalcheck.targets.target import Target

_PROGRAM = f"from {__name__} import answer; answer()"
_MARK = "evalcheck result: "
_INSIDE = "EVALCHECK_OTHER_PROCESS"
"""A variable of the other process, in which a file of targets may run checks when it is imported."""
_known: weakref.WeakKeyDictionary[Target, dict[str, Any]] = weakref.WeakKeyDictionary()


def call_elsewhere(target: Target, method: str, argument: Any) -> Any:
    """Return the result of a method of the subject of a target, once for each argument.

    Raises:
        NotApplicable: where the other process cannot import the target, or the method raises an error there.
    """
    if _INSIDE in os.environ:
        raise NotApplicable("another process would start another one")
    wanted = json.dumps(
        {"path": sys.path, "file": target.file, "name": target.name, "method": method, "argument": argument}
    )
    known = _known.setdefault(target, {})
    if wanted not in known:
        # The seed differs from that of this process, whatever that is.
        seed = "1" if os.environ.get("PYTHONHASHSEED") == "2" else "2"
        environment = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            _INSIDE: "1",
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM], input=wanted, env=environment, capture_output=True, text=True, check=False
        )
        lines = [line for line in done.stdout.splitlines() if line.startswith(_MARK)]
        errors = done.stderr.strip().splitlines()
        known[wanted] = json.loads(lines[-1].removeprefix(_MARK)) if lines else {"error": (errors or ["no result"])[-1]}
    if "error" in known[wanted]:
        raise NotApplicable(f"another process cannot call the target: {known[wanted]['error']}")
    return known[wanted]["result"]


def answer() -> None:
    """Read from the input which method of which target to call, and print the result."""
    wanted = json.load(sys.stdin)
    sys.path[:] = wanted["path"]
    spec = importlib.util.spec_from_file_location("evalcheck_elsewhere", wanted["file"])
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    target = getattr(module, wanted["name"])
    arguments = {"device": "cpu"} if "device" in target.arguments else {}
    subject = kind_of(target.kind).subject(
        build=lambda: TargetFactory(target).record(arguments), inputs=target.inputs, **target.options
    )
    with same_random_numbers():
        result = getattr(subject, wanted["method"])(wanted["argument"])
    print(_MARK + json.dumps({"result": result}))
