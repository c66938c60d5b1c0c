"""Operators that a device lacks: derived from the installed PyTorch, refused with its text, or run on the CPU."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from pytest_evalcheck.devices import CannotSimulate, simulate, state
from pytest_evalcheck.devices.rules import native_functions
from pytest_evalcheck.devices.rules.missing_kernels import FALLS_BACK_ALWAYS, SELECTED_ON_CPU, missing_for

pytestmark = pytest.mark.usefixtures("without_fallback")
NAMED = "currently implemented for the MPS device"


@pytest.fixture
def without_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "MPS_FALLS_BACK", False)


@pytest.fixture(scope="module")
def installed() -> dict[str, Any]:
    """Parse the installed file with torchgen's own parser: functions by name, and kernels by key."""
    gen = pytest.importorskip("torchgen.gen")
    path = native_functions.file()
    assert path is not None
    parsed = gen.parse_native_yaml(str(path), str(path.with_name("tags.yaml")))
    return {
        "functions": {str(each.func.name): each for each in parsed.native_functions},
        "kernels": parsed.backend_indices,
    }


def _has_kernel(installed: dict[str, Any], function: Any, key: str) -> bool:
    index = next((each for name, each in installed["kernels"].items() if name.name == key), None)
    if index is None:
        return False
    delegate = function.structured_delegate
    return index.get_kernel(function) is not None or (delegate is not None and delegate in index.index)


def _lacking(installed: dict[str, Any], key: str) -> set[str]:
    return {
        name
        for name, function in installed["functions"].items()
        if _has_kernel(installed, function, "CPU")
        and not _has_kernel(installed, function, key)
        and not function.has_composite_kernel
        and not function.has_composite_explicit_autograd_non_functional_kernel
    }


@pytest.mark.parametrize("key", ["CUDA", "MPS"])
def test_as_many_are_missing_as_torchgen_says(installed: dict[str, Any], key: str) -> None:
    expected = _lacking(installed, key)
    found = {name for name in native_functions.operators() if native_functions.lacking(name, key)}
    made_of_others = {name for name in found if (entry := native_functions.entry(name)) and entry.original}
    assert found - made_of_others == expected
    assert {native_functions.lacking(name, key) for name in made_of_others} <= expected
    assert len(expected) > {"CUDA": 20, "MPS": 100}[key]


def test_what_is_missing_is_no_composite_in_the_dispatcher() -> None:
    composites = ("CompositeImplicitAutograd", "CompositeExplicitAutograd")
    for name in native_functions.operators():
        entry = native_functions.entry(name)
        assert entry is not None
        if native_functions.lacking(name, "MPS") and not entry.original:
            found = [key for key in composites if torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", key)]
            assert found == [], name


def _overloads() -> Iterator[Any]:
    """The operators of this build that the file says are missing on some device."""
    for name in native_functions.operators():
        base, _, overload = name.partition(".")
        func = getattr(getattr(torch.ops.aten, base, None), overload or "default", None)
        if func is not None:
            yield func


# Arguments by the type in the schema. A list may have to be of a certain length: the lengths are tried in turn.
ARGUMENTS: dict[str, list[Any]] = {
    "int": [1],
    "float": [0.5],
    "number": [1],
    "bool": [False],
    "str": ["L"],
    "Optional[str]": [None],
    "List[int]": [[1, 1], [1, 1, 1], [1]],
    "List[bool]": [[True, True], [True, True, True]],
    "List[float]": [[1.0, 1.0]],
}


def _arguments(func: Any, device: str, attempt: int) -> tuple[list[Any], dict[str, Any]]:
    args, kwargs = [], {}
    for argument in func._schema.arguments:
        kind = str(argument.type)
        if "Tensor" in kind:
            value: Any = torch.ones(2, 2, device=device)
            value = [value] * 2 if "List" in kind else value
        elif argument.has_default_value():
            value = argument.default_value
        else:
            values = ARGUMENTS.get(kind, [None])
            value = values[min(attempt, len(values) - 1)]
        if argument.kwarg_only:
            kwargs[argument.name] = value
        else:
            args.append(value)
    return args, kwargs


def _outcome(func: Any, device: str) -> str:
    """Return the outcome of a call with arguments of the right types: a missing kernel is noticed before any value."""
    text = ""
    for attempt in range(3):
        args, kwargs = _arguments(func, device, attempt)
        try:
            func(*args, **kwargs)
            return "accepted"
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
        if "fixed-size array" not in text:
            break
    return text


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_each_is_refused_when_it_is_called(device: str) -> None:
    """Every one that takes a tensor, with made arguments. The name in the error is that of the missing kernel."""
    key, texts = device.upper(), {}
    with simulate(device):
        for func in _overloads():
            missing = missing_for(func).get(key)
            takes_tensors = any("Tensor" in str(each.type) for each in func._schema.arguments)
            if missing is not None and missing not in FALLS_BACK_ALWAYS and takes_tensors:
                texts[func.name(), missing] = _outcome(func, device)
    about = NAMED if device == "mps" else "from the 'CUDA' backend"
    wrong = [
        f"{name}: {text}"
        for (name, missing), text in texts.items()
        if not (text.startswith("NotImplementedError: ") and f"'aten::{missing}'" in text and about in text)
    ]
    assert wrong == []
    assert len(texts) > {"cuda": 20, "mps": 150}[device]


def test_what_composites_select_for_the_cpu_is_not_refused() -> None:
    for device in ("cuda", "mps"):
        with simulate(device):
            x = torch.rand(1, 4, 8, 8, device=device)
            assert torch.nn.functional.scaled_dot_product_attention(x, x, x).device.type == device
            assert torch.nn.LSTM(8, 8).to(device)(x[0])[0].device.type == device
            assert torch.nn.functional.conv_transpose2d(x, x[0, :, None]).device.type == device
            assert torch.nn.functional.conv2d(x, x[:, :, :2, :2]).device.type == device
    assert all(hasattr(torch.ops.aten, name) for name in SELECTED_ON_CPU if name != "_fused_sdp_choice")


CALLS: dict[str, Callable[[torch.Tensor], Any]] = {
    "mode": lambda x: x.mode(),
    "take": lambda x: x.take(torch.zeros(1, dtype=torch.int64, device=x.device)),
    "linalg_eig": torch.linalg.eig,
    "linalg_lstsq.out": lambda x: torch.linalg.lstsq(x, x),
    "frexp.Tensor_out": torch.frexp,
    "heaviside.out": lambda x: torch.heaviside(x, x),
    "linalg_matrix_exp": torch.matrix_exp,
    "_adaptive_avg_pool3d": lambda x: torch.nn.functional.adaptive_avg_pool3d(x[None, None], 2),
    "logspace.out": lambda x: torch.logspace(0, 1, 3, device=x.device),
}


def _missing(name: str) -> None:
    if not native_functions.lacking(name, "MPS"):
        pytest.skip("this release has it on MPS")


@pytest.mark.parametrize("name", CALLS)
def test_mps_refuses_with_pytorchs_text(name: str) -> None:
    _missing(name)
    with simulate("mps"), pytest.raises(NotImplementedError) as raised:
        CALLS[name](torch.rand(2, 2, device="mps"))
    text = str(raised.value)
    assert text.startswith(f"The operator 'aten::{name}' is not currently implemented for the MPS device. ")
    assert "`PYTORCH_ENABLE_MPS_FALLBACK=1`" in text
    assert "https://github.com/pytorch/pytorch/issues/" in text
    assert text.endswith("WARNING: this will be slower than running natively on MPS.")


@pytest.mark.parametrize("name", CALLS)
def test_cuda_and_the_cpu_beside_mps_have_it(name: str) -> None:
    with simulate("cuda", "mps"):
        for device in ("cuda", "cpu"):
            CALLS[name](torch.rand(2, 2, device=device))


@pytest.mark.parametrize("device", ["mps", "cuda"])
def test_backward_of_a_missing_operator_is_refused_too(device: str) -> None:
    name = "fractional_max_pool2d_backward.grad_input"
    with simulate("cuda", "mps"):
        x = torch.rand(1, 4, 4, device=device)
        grad, places = torch.rand(1, 2, 2, device=device), torch.zeros(1, 2, 2, dtype=torch.int64, device=device)

        def backward() -> Any:
            return torch.ops.aten.fractional_max_pool2d_backward(grad, x, [2, 2], [2, 2], places)

        if device == "mps":
            with pytest.raises(NotImplementedError, match=name):
                backward()
        else:
            assert backward().device.type == device


@pytest.mark.filterwarnings("ignore:Sparse")
def test_sparse_kernels_are_known_by_their_own_keys() -> None:
    with simulate("cuda", "mps"):
        for device in ("cuda", "mps"):
            matrix = torch.sparse_coo_tensor([[0], [1]], [1.0], (2, 2), device=device)
            missing = native_functions.lacking("_to_sparse_csr", "Sparse" + device.upper(), "SparseCPU")
            if missing:
                with pytest.raises(
                    NotImplementedError, match=rf"'aten::{missing}' with arguments from the 'SparseMPS'"
                ):
                    matrix.to_sparse_csr()
            else:
                assert matrix.to_sparse_csr().device.type == device
            if native_functions.lacking("mul.Tensor", "Sparse" + device.upper(), "SparseCPU"):
                with pytest.raises(
                    NotImplementedError, match=r"'aten::mul.Tensor' with arguments from the 'SparseMPS'"
                ):
                    matrix * 2
            else:
                assert (matrix * 2).device.type == device


@pytest.fixture
def falls_back(without_fallback: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "MPS_FALLS_BACK", True)


@pytest.mark.usefixtures("falls_back")
@pytest.mark.parametrize("name", CALLS)
def test_with_a_fallback_it_runs_and_the_result_is_on_the_device(name: str) -> None:
    _missing(name)
    x = torch.rand(2, 2)
    expected = CALLS[name](x)
    with simulate("mps"):
        with pytest.warns(UserWarning, match=rf"The operator 'aten::{name}' is not currently supported on"):
            found = CALLS[name](x.to("mps"))
        many = isinstance(found, tuple)
        for one, other in zip(found if many else [found], expected if many else [expected], strict=True):
            assert one.device.type == "mps"
            torch.testing.assert_close(one.cpu(), other)  # LAPACK rounds by where a matrix is in memory


@pytest.mark.usefixtures("falls_back")
@pytest.mark.filterwarnings("ignore:The operator 'aten")
@pytest.mark.parametrize(
    ("call", "to_cpu", "to_device"),
    [
        (lambda x, i: x.mode(), [16], [8, 16]),  # the values, the indices
        (lambda x, i: x.take(i), [8, 16], [4]),
        (lambda x, i: torch.heaviside(x, x), [16, 16, 16], [16]),  # the result is an argument of heaviside.out
        (lambda x, i: x.put_(i, x[0, :1].clone()), [4, 8, 16], [16]),  # it is written, so that it comes back
        (
            lambda x, i: x.take(torch.tensor([1])),
            [16],
            [4],
        ),  # nothing checks the devices of what goes to the CPU anyway
    ],
)
def test_a_fallback_costs_a_transfer_each_way_and_a_sync(
    call: Callable[..., Any], to_cpu: list[int], to_device: list[int]
) -> None:
    _missing("mode")
    with simulate("mps") as ledger:
        x, index = torch.rand(2, 2, device="mps"), torch.zeros(1, dtype=torch.int64, device="mps")
        with ledger.span() as seen:
            call(x, index)
    there = sorted(each.bytes for each in seen.transfers if each.target == "cpu")
    back = sorted(each.bytes for each in seen.transfers if each.source == "cpu")
    assert (there, back) == (to_cpu, to_device)
    assert len(seen.syncs) == len(to_cpu)


@pytest.mark.usefixtures("falls_back")
def test_a_fallback_warns_once() -> None:
    _missing("mode")
    for _ in range(2):  # a simulation is a new process
        with simulate("mps"), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            x = torch.rand(2, 2, device="mps")
            x.mode()
            torch.linalg.eig(x)
        [only] = [str(each.message) for each in caught]
        assert only == (
            "The operator 'aten::mode' is not currently supported on the MPS backend and will fall back to run on the "
            "CPU. This may have performance implications."
        )


def test_what_is_set_after_the_import_has_no_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    _missing("mode")
    monkeypatch.setenv("PYTORCH_ENABLE_MPS_FALLBACK", "1")
    with simulate("mps"), pytest.raises(NotImplementedError, match="mode"):
        torch.rand(2, 2, device="mps").mode()


@pytest.mark.parametrize(("value", "falls_back"), [("1", True), ("0", False), (None, False)])
@pytest.mark.slow(every=3)
def test_the_environment_at_the_import_decides(value: str | None, falls_back: bool) -> None:
    others = {name: text for name, text in os.environ.items() if name != "PYTORCH_ENABLE_MPS_FALLBACK"}
    environment = others | ({} if value is None else {"PYTORCH_ENABLE_MPS_FALLBACK": value})
    code = "from pytest_evalcheck.devices.state import MPS_FALLS_BACK; print(MPS_FALLS_BACK)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == [str(falls_back)]


@pytest.mark.usefixtures("falls_back")
def test_a_fallback_is_no_way_out_for_cuda_or_a_dtype() -> None:
    with simulate("cuda", "mps"):
        with pytest.raises(NotImplementedError, match="Could not run 'aten::histogram"):
            torch.histogram(torch.rand(5).cuda(), 3)
        with pytest.raises(TypeError, match="float64"):
            torch.ones(2, device="mps", dtype=torch.float64)


def test_svd_runs_on_the_cpu_whatever_the_environment_says() -> None:
    _missing("_linalg_svd.U")
    with simulate("mps") as ledger:
        x = torch.rand(3, 3, device="mps")
        with pytest.warns(UserWarning, match="The operator 'aten::linalg_svd' is not currently supported"):
            assert {each.device.type for each in torch.linalg.svd(x)} == {"mps"}
        assert ledger.bytes("mps", "cpu") == 36
        with pytest.raises(NotImplementedError, match=r"'aten::_linalg_svd\.U'"):
            torch.linalg.svdvals(x)
        with pytest.raises(NotImplementedError, match=r"'aten::_linalg_svd\.U'"):
            torch.linalg.norm(x, 2)


def test_inference_mode_refuses_alike() -> None:
    _missing("mode")
    with simulate("mps"), torch.inference_mode(), pytest.raises(NotImplementedError, match="mode"):
        torch.rand(2, 2, device="mps").mode()


def test_left_over_tensors_are_told_apart() -> None:
    with simulate("mps"):
        x = torch.rand(2, 2, device="mps")
    with simulate("cuda"), pytest.raises(CannotSimulate, match="a tensor on mps"):
        x.mode()


def test_a_distribution_without_the_file_refuses_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for function in (native_functions._blocks, native_functions._generated, native_functions.entry):
        function.cache_clear()
    monkeypatch.setattr(native_functions, "file", lambda: None)
    try:
        assert native_functions.operators() == []
        assert missing_for(torch.ops.aten.mode.default) == {}
    finally:
        for function in (native_functions._blocks, native_functions._generated, native_functions.entry):
            function.cache_clear()
