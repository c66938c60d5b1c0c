"""Device bugs of public trackers are shown as the real device shows them, and their corrections run clean."""

from __future__ import annotations

import gc
import importlib
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pytest_evalcheck as ec
from fixtures.device_history import syncs
from fixtures.device_history.specimen import Specimen
from fixtures.device_history.table import SPECIMENS
from fixtures.gallery.devices_correct import OnDevice
from fixtures.gallery.table import target
from pytest_evalcheck.devices import asynchrony, simulate
from pytest_evalcheck.devices.release import TORCH_RELEASE

# Freed memory keeps its values here, and streams work in the order of the program.
SILENT = [each for each in SPECIMENS if each.silent and not each.before and not each.options]
specimens = pytest.mark.parametrize(
    "specimen", [each for each in SPECIMENS if each.since <= TORCH_RELEASE], ids=lambda each: each.name
)


def plain(value: Any) -> Any:
    """A result as plain Python, wherever it is."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().tolist()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value


@pytest.fixture(autouse=True)
def no_group_is_freed_by_a_worker(request: pytest.FixtureRequest) -> None:
    """Free what tests before have left, where workers of a loader are forked.

    A model may hold a group of gloo in a cycle. A forked process that frees it waits for threads that it does not have.
    """
    specimen = getattr(request.node, "callspec", None) and request.node.callspec.params.get("specimen")
    if specimen is not None and specimen.bug.__module__.endswith(".host"):
        gc.collect()


@contextmanager
def machine(specimen: Specimen, **options: Any) -> Iterator[None]:
    """The device of a specimen, with the PyTorch of its report."""
    with pytest.MonkeyPatch.context() as patched:
        if specimen.before:
            patched.setattr(asynchrony, "MEMORY_IS_RETAINED", False)
        if "memory" in specimen.options:
            gc.collect()  # an error of a test before holds what its code had on the device
        with simulate(specimen.device, **specimen.options, **options):
            yield


@specimens
def test_the_bug_is_shown_as_on_the_device(specimen: Specimen) -> None:
    if specimen.still is not None and not specimen.still():
        pytest.skip("this PyTorch has it by now")
    with machine(specimen, in_flight="error"), pytest.raises(specimen.error) as raised:
        specimen.bug(specimen.device)
    assert type(raised.value) is specimen.error
    assert re.search(specimen.message, str(raised.value), re.DOTALL), str(raised.value)


@pytest.mark.parametrize("specimen", SILENT, ids=lambda each: each.name)
def test_a_silent_bug_computes_another_number_without_an_error(specimen: Specimen) -> None:
    with machine(specimen, in_flight="ignore", poison=True):
        found = plain(specimen.bug(specimen.device))
    assert found != plain(specimen.twin("cpu"))


@specimens
def test_the_correction_runs_clean_and_has_the_value_of_the_cpu(specimen: Specimen) -> None:
    with warnings.catch_warnings(), machine(specimen, in_flight="error", poison=True):
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", FutureWarning)  # of torch.load before 2.6
        found = plain(specimen.twin(specimen.device))
    assert found == plain(specimen.twin("cpu"))


@specimens
def test_the_bug_is_one_of_devices_only(specimen: Specimen) -> None:
    if specimen.not_on_cpu:
        with pytest.raises((specimen.error, AssertionError, RuntimeError, IndexError, UserWarning)):
            assert plain(specimen.bug("cpu")) != plain(specimen.twin("cpu"))
    else:
        assert plain(specimen.bug("cpu")) == plain(specimen.twin("cpu"))


@specimens
def test_the_message_is_that_of_the_report(specimen: Specimen) -> None:
    if not specimen.silent:
        assert bool(specimen.reworded) != bool(re.search(specimen.message, specimen.reported))
    assert re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+", specimen.issue)


SAMPLE = {
    (each.bug.__module__, each.found_by): each
    for each in SPECIMENS
    if each.found_by and each.since <= TORCH_RELEASE and (each.still is None or each.still())
}


@pytest.mark.parametrize("specimen", SAMPLE.values(), ids=lambda each: each.name)
def test_a_check_finds_it_in_a_metric(specimen: Specimen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syncs, "without_syncs", lambda device: nullcontext())  # the check counts them itself

    class Metric(OnDevice):
        def errors(self, preds: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            device = self.total.device
            specimen.bug(str(device) if device.index and device.type == "cuda" else device.type)
            return super().errors(preds, target)

    kind = specimen.device.partition(":")[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = ec.run(target(Metric), f"sim:{kind}", select=specimen.found_by, timeout=60)
    assert [(cell.code, cell.outcome) for cell in report.cells] == [(specimen.found_by, "failed")]


@pytest.mark.skipif(TORCH_RELEASE < (2, 9), reason="errors of older releases have other names and words")
def test_the_pages_are_what_the_tables_say() -> None:
    docs = Path(__file__).parent.parent.parent / "docs"
    sys.path.insert(0, str(docs))
    try:
        pages = importlib.import_module("make_devices").pages()
    finally:
        sys.path.remove(str(docs))
    for name, page in pages.items():
        assert (docs / name).read_text(encoding="utf-8") == page, "run: python docs/make_devices.py"


def test_the_table_is_broad() -> None:
    libraries = Counter(each.library for each in SPECIMENS)
    assert len(libraries) >= 10
    assert {each.device.partition(":")[0] for each in SPECIMENS} == {"cuda", "mps"}
    assert len({each.issue for each in SPECIMENS}) == len({each.name for each in SPECIMENS}) == len(SPECIMENS)
