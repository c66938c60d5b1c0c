"""Kernels of MPS: a refusal of what the CPU accepts is raised, and a kernel that is known to be wrong is a warning."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from pytest_evalcheck.devices import simulate
from pytest_evalcheck.devices.release import TORCH_RELEASE
from pytest_evalcheck.devices.rules.mps_kernels import WRONG, wrong_in

IMAGE = torch.arange(25.0).reshape(1, 1, 5, 5)
SQUARE = torch.tensor([[3.0, 1.0], [4.0, 2.0]])

REFUSED: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "a smaller output": (
        lambda x: functional.adaptive_avg_pool2d(x, (3, 5)),
        "input sizes must be divisible by output sizes",
    ),
    "a layer": (torch.nn.AdaptiveAvgPool2d(2), "input sizes must be divisible by output sizes"),
    "one dimension": (
        lambda x: functional.adaptive_avg_pool1d(x[0], 2),
        "input sizes must be divisible by output sizes",
    ),
    "interpolate": (lambda x: functional.interpolate(x, (2, 2), mode="area"), "input sizes must be divisible"),
    "a larger output": (
        lambda x: functional.adaptive_avg_pool2d(x, 7),
        "output sizes must be divisible by input sizes",
    ),
    "smaller and larger": (lambda x: functional.adaptive_avg_pool2d(x, (1, 10)), "must both be greater than"),
    "the maximum, smaller and larger": (
        lambda x: functional.adaptive_max_pool2d(x, (1, 10)),
        "must both be greater than",
    ),
}
ACCEPTED: dict[str, Callable[[Tensor], Tensor]] = {
    "sizes that divide": lambda x: functional.adaptive_avg_pool2d(x, (5, 1)),
    "a multiple": lambda x: functional.adaptive_avg_pool2d(x, (10, 5)),
    "one element is the mean": lambda x: functional.adaptive_avg_pool2d(x, 1),
    "the maximum of all": lambda x: functional.adaptive_max_pool2d(x, 1),
    "contiguous": lambda x: x.sort(dim=0)[0],
    "argmax of a dimension": lambda x: x.mT.argmax(-1),
    "no rows": lambda x: functional.adaptive_avg_pool2d(x[:0], 2),
}
SUSPECT: dict[int, tuple[Callable[[Tensor], Tensor], Tensor]] = {
    190064: (lambda x: functional.adaptive_max_pool2d(x, 3), IMAGE),
    132732: (lambda x: x.sum(-3), torch.ones(1, 2, 1, 1, 1)),
    150967: (lambda x: torch.where(x.bool().T, 1, 0), SQUARE),
    160740: (lambda x: x.T.argmax(), SQUARE),
    175187: (lambda x: x.T.sort(dim=0)[0], SQUARE),
}


@pytest.mark.parametrize("name", REFUSED)
def test_mps_refuses_pools_whose_sizes_do_not_fit(name: str) -> None:
    pool, text = REFUSED[name]
    pool(IMAGE)
    with simulate("mps", "cuda"):
        pool(IMAGE.to("cuda"))
        with pytest.raises(NotImplementedError, match=f"^Adaptive pool MPS: .*{re.escape(text)}"):
            pool(IMAGE.to("mps"))


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_mps_computes_as_the_cpu_does(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with simulate("mps"):
            assert torch.equal(ACCEPTED[name](IMAGE.to("mps")).cpu(), ACCEPTED[name](IMAGE))


def test_every_row_has_an_example() -> None:
    assert SUSPECT.keys() == {row.report for row in WRONG}


@pytest.mark.parametrize("row", WRONG, ids=[str(row.report) for row in WRONG])
def test_a_kernel_that_is_wrong_in_this_release_is_a_warning_and_no_other_value(row) -> None:
    call, given = SUSPECT[row.report]
    with warnings.catch_warnings(record=True) as seen, simulate("mps", "cuda"):
        warnings.simplefilter("always")
        for device in ("cuda", "mps", "mps"):
            assert torch.equal(call(given.to(device)).cpu(), call(given))
    found = [str(each.message) for each in seen if "pytorch/issues" in str(each.message)]
    is_wrong = row.until is None or row.until > TORCH_RELEASE
    assert len(found) == is_wrong  # once in a simulation
    assert not found or (f"issues/{row.report}" in found[0] and row.what in found[0])
    assert all(each.filename == __file__ for each in seen if "pytorch/issues" in str(each.message))


@pytest.mark.parametrize("row", WRONG, ids=[str(row.report) for row in WRONG])
def test_the_condition_of_a_row_holds_for_its_report_alone(row) -> None:
    operators = {name.partition(".")[0] for name in row.operators.split()}
    seen = []

    class Calls(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func.name().removeprefix("aten::").partition(".")[0] in operators:
                seen.append(row.applies(args))
            return func(*args, **(kwargs or {}))

    call, given = SUSPECT[row.report]
    with Calls():
        call(given)
    assert seen == [True]


def test_a_row_ends_with_its_release() -> None:
    assert "sum.dim_IntList" in wrong_in((2, 4))
    assert "sum.dim_IntList" not in wrong_in((2, 5))
    assert "adaptive_max_pool2d" in wrong_in((2, 13))
    assert "adaptive_max_pool2d" not in wrong_in((2, 14))
    assert "sort.stable" in wrong_in((9, 0))
