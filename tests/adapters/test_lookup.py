"""Adapters are found by their place and their ``CLASSES``, and import no library before they describe an object."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_evalcheck.adapters.lookup import adapter_of, modules_of
from pytest_evalcheck.kinds.registry import SHIPPED_KINDS

FOLDER = Path(__file__).parents[2] / "pytest_evalcheck" / "adapters"
LIBRARIES = {folder.name for folder in FOLDER.iterdir() if folder.is_dir()} - {"common", "protocols", "__pycache__"}


def _class(name: str) -> type:
    """A class of this qualified name, of a library that need not be installed."""
    module, _, qualname = name.rpartition(".")
    return type(qualname, (), {"__module__": module})


def test_every_declared_class_has_an_adapter_of_its_kind() -> None:
    declared = {
        (kind, cls)
        for kind in SHIPPED_KINDS
        for name in modules_of(kind)
        if name.startswith("pytest_evalcheck.adapters.")
        for cls in getattr(importlib.import_module(name), "CLASSES", ())
    }
    assert {kind for kind, _ in declared} == set(SHIPPED_KINDS)
    assert all(adapter_of(kind, _class(cls)) for kind, cls in declared)


@pytest.mark.parametrize(
    ("kind", "cls", "module"),
    [
        ("metric", "torchmetrics.metric.Metric", "torchmetrics.metric"),
        ("loop", "transformers.pipelines.base.Pipeline", "transformers.pipeline_loop"),
        ("decoder", "peft.peft_model.PeftModel", "transformers.decoder"),
        ("scorer", "lm_eval.api.task.ConfigurableTask", "lm_eval.scorer"),
        ("wrapper", "pytorch_lightning.core.module.LightningModule", "lightning.wrapper"),
    ],
)
def test_a_class_is_described_by_the_module_that_declares_it(kind: str, cls: str, module: str) -> None:
    adapter = adapter_of(kind, _class(cls))
    assert adapter is not None
    assert adapter.__module__ == f"pytest_evalcheck.adapters.{module}"
    others = {other for other in SHIPPED_KINDS if adapter_of(other, _class(cls)) is adapter}
    assert others == {kind}


def test_looking_up_every_kind_imports_no_library() -> None:
    code = (
        "import sys\n"
        "from pytest_evalcheck.adapters.lookup import adapter_for\n"
        f"assert not any(adapter_for(kind, object()) for kind in {SHIPPED_KINDS!r})\n"
        "assert 'pytest_evalcheck.adapters.lm_eval.scorer' in sys.modules\n"
        f"print(sorted(name for name in {LIBRARIES!r} if name in sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_the_public_name_of_a_metric_knows_the_adapters() -> None:
    """Its ``of`` needs them, also where nothing else has imported them."""
    code = "import pytest_evalcheck as ec\nec.Metric.of(lambda y_true, y_pred: 0.0)\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
