"""A module that is imported late sees the devices of the machine, whichever check imports it first."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es
from pytest_evalcheck.devices import simulate
from pytest_evalcheck.targets import device_spec

NAME = "stores_devices_at_import"
MODULE = """
import functools

import torch

from torch.cuda import is_available

DEVICE = "mps" if torch.backends.mps.is_available() else "cuda" if is_available() else "cpu"
DEFAULT = torch.get_default_device()
ONES = torch.ones(2)


@functools.cache
def devices():
    return torch.cuda.device_count()


COUNT = devices()


class Mean:
    '''The mean of what it is given, added up on the device that was there at the import.'''

    def __init__(self):
        self.total, self.count = torch.zeros((), device=DEVICE), 0

    def update(self, preds, target):
        self.total += preds.to(DEVICE).sum()
        self.count += len(preds)

    def compute(self):
        return (self.total / max(self.count, 1)).cpu()
"""


@pytest.fixture(autouse=True)
def not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / f"{NAME}.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop(NAME, None)


def mean() -> ec.Target:
    @ec.metric(inputs=es.regression(outputs=1))
    def target(device: str) -> ec.Metric:
        import stores_devices_at_import as late

        metric = late.Mean()
        return ec.Metric(update=metric.update, compute=metric.compute)

    return target


@pytest.mark.parametrize("order", [("cpu", "sim:mps"), ("sim:mps", "cpu"), ("sim:cuda", "cpu", "sim:mps")])
@pytest.mark.slow(every=3)
def test_the_outcome_of_a_check_does_not_depend_on_which_one_is_first(order: tuple[str, ...]) -> None:
    outcomes = {}
    for device in order:
        for cell in ec.run(mean(), device, select="EC201,EC202,EC606").cells:
            outcomes[device, cell.check] = cell.outcome
    assert set(outcomes.values()) == {"passed"}, outcomes
    assert sys.modules[NAME].DEVICE == "cpu"


def test_an_import_sees_neither_devices_nor_defaults_nor_caches_of_the_simulation() -> None:
    with device_spec.placed_on("sim:cuda"):
        torch.set_default_device("cuda")
        import stores_devices_at_import as late

        assert torch.ones(1).device == torch.get_default_device() == torch.device("cuda:0")
        assert late.ONES.device == late.DEFAULT == torch.device("cpu")
        assert (late.DEVICE, late.COUNT) == ("cpu", 0)
        assert late.devices() == 1  # it asks again, for now the simulation answers
        with pytest.raises(RuntimeError, match="same device"):
            late.ONES.add_(torch.ones(2))
    assert late.__loader__ is late.__spec__.loader
    assert type(late.__loader__).__module__ != "pytest_evalcheck.devices.patches.imported_modules"


def test_an_import_that_fails_leaves_the_simulation_as_it_was(tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.py").write_text("import no_such_module_anywhere", encoding="utf-8")
    with device_spec.placed_on("sim:cuda"):
        with pytest.raises(ModuleNotFoundError, match="no_such_module_anywhere"):
            import stores_devices_at_import  # noqa: F401
        assert torch.cuda.is_available()
        assert torch.ones(1, device="cuda").is_cuda


def test_an_import_in_a_thread_of_the_simulation_sees_the_machine_too() -> None:
    with device_spec.placed_on("sim:mps"):
        thread = threading.Thread(target=__import__, args=(NAME,))
        thread.start()
        thread.join()
        assert torch.backends.mps.is_available()
    assert sys.modules[NAME].DEVICE == "cpu"


def test_a_simulation_of_the_users_own_is_seen_by_imports() -> None:
    with simulate("mps"):
        import stores_devices_at_import as late
    assert late.DEVICE == "mps"


def test_what_the_simulation_itself_asks_for_at_an_import_is_imported_before() -> None:
    source = """
from pytest_evalcheck.targets import device_spec
with device_spec.placed_on("sim:mps"):
    import torch._subclasses.schema_check_mode
    import torch.testing
"""
    ended = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
