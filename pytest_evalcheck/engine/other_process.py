"""A call of a subject in other processes, in which texts have other hash values."""

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
_SEEDS = ("1", "2")
"""Seeds of hash values: the same in every run, so that a verdict does not depend on that of this process."""
_known: weakref.WeakKeyDictionary[Target, dict[str, list[Any]]] = weakref.WeakKeyDictionary()


def call_elsewhere(target: Target, method: str, argument: Any) -> list[Any]:
    """Return the results of a method of the subject of a target in two processes with different hash values.

    They are asked once for each argument.

    Raises:
        NotApplicable: where another process cannot import the target, or the method raises an error there.
    """
    if _INSIDE in os.environ:
        raise NotApplicable("another process would start another one")
    wanted = {"path": sys.path, "file": target.file, "name": target.name, "method": method, "argument": argument}
    known, text = _known.setdefault(target, {}), json.dumps(wanted)
    if text not in known:
        known[text] = [_result(process) for process in [_started(seed, text) for seed in _SEEDS]]
    return known[text]


def _started(seed: str, text: str) -> subprocess.Popen[str]:
    path = os.pathsep.join(filter(None, sys.path))
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path, _INSIDE: "1"}
    pipes: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = subprocess.Popen([sys.executable, "-c", _PROGRAM], text=True, env=environment, **pipes)
    assert process.stdin is not None
    process.stdin.write(text)
    return process


def _result(process: subprocess.Popen[str]) -> Any:
    try:
        out, errors = process.communicate()
    finally:
        process.kill()
    lines = [line for line in out.splitlines() if line.startswith(_MARK)]
    if not lines:
        last = (errors.strip().splitlines() or ["it ended without a result"])[-1]
        raise NotApplicable(f"another process cannot call the target: {last}")
    return json.loads(lines[-1].removeprefix(_MARK))


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
    print(_MARK + json.dumps(result))
