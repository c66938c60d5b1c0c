"""Changes of tensors and arrays: which value, of which dtype, layout and memory."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from guarded_batches import Change, changes, put
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_evalcheck.expectations.failures import CheckFailure
from pytest_evalcheck.guard import Snapshot, unchanged

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float64,
    torch.complex64,
    torch.complex128,
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (60, 61)], ids=str)
def test_one_value_of_any_dtype_is_named(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    zero, one = (torch.tensor(value).to(dtype).item() for value in (0, 1))
    place = str([size - 1 for size in shape]) if shape else ""
    made = {"x": torch.zeros(shape).to(dtype)}
    assert changes(made, lambda b: b["x"].view(-1)[-1:].copy_(torch.ones(1).to(dtype))) == [
        f"batch['x']{place}: {zero!r} became {one!r}"
    ]


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.zeros(60, 80).t(),
        lambda: torch.zeros(6, 7, 8, 5).permute(2, 0, 3, 1),
        lambda: torch.zeros(60, 80)[:, ::2],
        lambda: torch.zeros(60, 80)[5:, 1:],
        lambda: torch.zeros(2, 3, 16, 16).to(memory_format=torch.channels_last),
        lambda: torch.zeros(3, 4)[:, 1:].t(),
        lambda: torch.zeros(60, 80, requires_grad=True),
        lambda: torch.nn.Parameter(torch.zeros(3, 4)),
    ],
)
def test_one_value_in_any_layout_is_named_where_it_lies(make: Callable[[], torch.Tensor]) -> None:
    made = {"x": make()}
    place = tuple(size // 3 for size in made["x"].shape)
    assert changes(made, lambda b: b["x"].data.__setitem__(place, 1)) == [f"batch['x']{list(place)}: 0.0 became 1.0"]


def test_equal_values_in_another_layout_are_no_change_of_values() -> None:
    made = {"x": torch.arange(12).reshape(3, 4).t()}
    assert changes(made, lambda b: setattr(b["x"], "data", b["x"].contiguous())) == [
        "batch['x']: stride (1, 4) became (3, 1)",
        "batch['x']: was moved to other memory",
    ]
    made = {"x": torch.arange(12).reshape(3, 4)}
    assert changes(made, lambda b: b.update(x=b["x"].t().contiguous().t())) == [
        "batch['x'] was replaced by another tensor of equal values"
    ]


def test_expanded_tensors_are_read_once() -> None:
    made = {"x": torch.zeros(40, 1).expand(40, 10**12)}
    assert changes(made, lambda b: b["x"].__setitem__((2, 5), 1)) == ["batch['x'][2, 0]: 0.0 became 1.0"]


def test_empty_tensors_and_arrays() -> None:
    made = {"x": torch.zeros(0, 3), "y": np.zeros((2, 0))}
    assert changes(made, lambda b: b["x"].resize_(0, 4)) == [
        "batch['x']: shape (0, 3) became (0, 4), stride (3, 1) became (4, 1)"
    ]


@pytest.mark.parametrize(
    ("make", "read"),
    [
        (lambda dense: dense.to_sparse(), lambda x: x._values()),
        (lambda dense: dense.to_sparse_csr(), lambda x: x.values()),
        (lambda dense: dense.to_sparse_csc(), lambda x: x.values()),
        (lambda dense: dense.to_sparse_bsr((2, 2)), lambda x: x.values()),
        (lambda dense: dense.to_sparse_bsc((2, 2)), lambda x: x.values()),
    ],
)
@pytest.mark.filterwarnings("ignore:Sparse .* support is in beta")
def test_sparse_tensors(make: Change, read: Change) -> None:
    (line,) = changes({"x": make(torch.eye(4))}, lambda b: read(b["x"]).view(-1).__setitem__(-1, 5))
    assert line.startswith("batch['x'].values()[")
    assert line.endswith("1.0 became 5.0")


def test_a_sparse_tensor_of_another_size() -> None:
    made = {"x": torch.eye(4).to_sparse()}
    assert changes(made, lambda b: b["x"].sparse_resize_((5, 5), 2, 0)) == ["batch['x']: shape (4, 4) became (5, 5)"]


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_tensors(layout: torch.layout) -> None:
    made = {"x": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=layout)}
    (line,) = changes(made, lambda b: b["x"].values().__setitem__(2, 5))
    assert line.replace("._values", ".values()") == "batch['x'].values()[2]: 1.0 became 5.0"


def test_conjugate_and_negative_views() -> None:
    made = {"x": torch.ones(2, dtype=torch.cfloat).conj(), "y": torch.ones(2, dtype=torch.cfloat).conj().imag}
    assert changes(made, put("x", 1, 2j)) == ["batch['x'][1]: (1-0j) became 2j"]
    assert changes(made, put("y", 1, 5)) == ["batch['y'][1]: -0.0 became 5.0"]


def test_tensors_made_under_inference_mode() -> None:
    with torch.inference_mode():
        made = {"x": torch.zeros(3)}

    def change(made: dict[str, Any]) -> None:
        with torch.inference_mode():
            made["x"].add_(1)

    assert changes(made, change) == ["batch['x'][0]: 0.0 became 1.0 (and 2 more)"]


def test_meta_tensors_have_a_layout_only() -> None:
    made = {"x": torch.zeros(3, device="meta")}
    assert changes(made, lambda b: b["x"].unsqueeze_(0)) == [
        "batch['x']: shape (3,) became (1, 3), stride (1,) became (3, 1)"
    ]


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda x: x.set_(x.clone()), ["was moved to other memory"]),
        (lambda x: setattr(x, "data", x.clone()), ["was moved to other memory"]),
        (lambda x: x.untyped_storage().resize_(0), ["bytes of its storage 48 became 0"]),
        (lambda x: x.untyped_storage().resize_(4000), ["bytes of its storage 48 became 4000"]),
        (lambda x: x.resize_(2, 2), ["shape (3, 4) became (2, 2)", "stride (4, 1) became (2, 1)"]),
        (lambda x: x.as_strided_((4, 3), (1, 4)), ["shape (3, 4) became (4, 3)", "stride (4, 1) became (1, 4)"]),
        (lambda x: setattr(x, "data", x.double()), ["dtype torch.float32 became torch.float64"]),
        (lambda x: x.requires_grad_(), ["requires_grad False became True"]),
    ],
)
def test_memory_and_layout(change: Change, said: list[str], fast: bool) -> None:
    lines = changes({"x": torch.zeros(3, 4)}, lambda b: change(b["x"]), fast=fast)
    assert all(any(text in line for line in lines) for text in said), lines


@pytest.mark.parametrize("fast", [False, True])
def test_sharing_of_memory(fast: bool) -> None:
    whole = torch.zeros(4)
    made = {"x": whole, "y": whole[1:]}
    lines = changes(made, lambda b: setattr(b["y"], "data", b["y"].clone()), fast=fast)
    assert "batch['y']: was moved to other memory" in lines[1]
    assert fast or lines[1].endswith(", no longer shared with batch['x']")
    made = {"x": torch.zeros(4), "y": torch.zeros(4)}
    lines = changes(made, lambda b: setattr(b["y"], "data", b["x"]), fast=fast)
    assert lines[0] == "batch['y']: was moved to other memory, now shared with batch['x']"


@pytest.mark.parametrize(
    ("make", "change", "said"),
    [
        (lambda: np.zeros((40, 50)), put("x", (39, 7), 1), "batch['x'][39, 7]: 0.0 became 1.0"),
        (lambda: np.zeros((40, 50)).T, put("x", (49, 7), 1), "batch['x'][49, 7]: 0.0 became 1.0"),
        (lambda: np.zeros((40, 50))[::-1, ::2], put("x", (39, 7), 1), "batch['x'][39, 7]: 0.0 became 1.0"),
        (lambda: np.zeros((64, 2048)), put("x", (1, 3), 7), "batch['x'][1, 3]: 0.0 became 7.0"),
        (lambda: np.array(["ab", "cd"]), put("x", 1, "zz"), "batch['x'][1]: 'cd' became 'zz'"),
        (lambda: np.array("2020", "M8[Y]"), put("x", (), "2021"), "batch['x']: datetime.date(2020, 1, 1) became"),
        (lambda: np.ma.masked_array([1, 2], [False, False]), put("x", 1, np.ma.masked), "batch['x']"),
        (
            lambda: np.zeros((2, 3)),
            lambda b: setattr(b["x"], "shape", (3, 2)),
            "batch['x']: shape (2, 3) became (3, 2)",
        ),
        (lambda: np.zeros(3), lambda b: b["x"].setflags(write=False), "batch['x']: writeable True became False"),
    ],
)
@pytest.mark.filterwarnings("ignore:Setting the shape:DeprecationWarning")
def test_arrays(make: Callable[[], Any], change: Change, said: str) -> None:
    lines = changes({"x": make()}, change)
    assert lines
    assert lines[0].startswith(said), lines


def large() -> torch.Tensor:
    return torch.arange(64 * 2048).reshape(64, 2048)


def shift(x: torch.Tensor) -> None:
    x[:, :-1] = x[:, 1:].clone()
    x[:, -1] = -100


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (put("x", (1, 3), -100), "[1, 3]: 2051 became -100"),
        (put("x", 1, -100), "[1, 0]: 2048 became -100 (and 2047 more)"),
        (put("x", (slice(None), -1), -100), "[0, 2047]: 2047 became -100 (and 63 more)"),
        (put("x", (slice(3, 5), 1), -100), "[3, 1]: 6145 became -100 (and 1 more)"),
        (
            lambda b: b["x"].view(-1).index_fill_(0, torch.tensor([1, 2051, 8192, 40_000]), -100),
            "[0, 1]: 1 became -100 (and 3 more)",
        ),
        (
            lambda b: b["x"].view(-1).index_add_(0, torch.tensor([1, 2051, 8192, 40_000]), torch.tensor([7] * 4)),
            "[0, 1]: 1 became 8 (and 3 more)",
        ),
        (
            lambda b: b["x"].view(-1).index_fill_(0, torch.tensor([1, 2051, 2053]), -100),
            "[0, 1]: 1 became -100 (and 2 more)",
        ),
        (lambda b: b["x"][5, 10:12].copy_(b["x"][5, 10:12].flip(0)), "[5, 10]: 10250 became 10251 (and 1 more)"),
        (lambda b: b["x"][5:7, 10].copy_(b["x"][5:7, 10].flip(0)), "[5, 10]: 10250 became 12298 (and 1 more)"),
        (lambda b: shift(b["x"]), "[0, 0]: 0 became 1 (and 131071 more)"),
        (lambda b: b["x"].copy_(b["x"].roll(1, 1)), "[0, 0]: 0 became 2047 (and 131071 more)"),
        (lambda b: b["x"].copy_(b["x"].roll(3, 0)), "[0, 0]: 0 became 124928 (and 131071 more)"),
        (lambda b: b["x"].copy_(b["x"].flip(1)), "[0, 0]: 0 became 2047 (and 131071 more)"),
    ],
)
def test_the_usual_changes_of_large_tensors_are_named_exactly(change: Change, said: str) -> None:
    made = {"x": large()}
    assert changes(made, change) == [f"batch['x']{said}"]
    (line,) = changes({"x": large()}, change, copy_limit=made["x"].nbytes - 1)
    assert line == "batch['x']: values changed (no copy of its 1,048,576 bytes was kept: copy_limit=1048575)"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda b: b["x"].neg_(), "[0, 1]: 1 became -1 (and 131070 more)"),
        (lambda b: b["x"][1:3].fill_(-100), "[1, 0]: 2048 became -100 (and 4095 more)"),
        (lambda b: b["x"][4:6, 1980:].fill_(-100), "[4, 1980]: 10172 became -100 (and 135 more)"),
        (lambda b: b["x"][3:5, 1:3].fill_(-100), "[3, 1]: 6145 became -100 (and 3 more)"),
        (
            lambda b: b["x"][3:5, 1:3].add_(torch.tensor([[1, -1], [-1, 1]])),
            "[3, 1]: 6145 became 6146 (and 3 more)",
        ),
    ],
)
def test_other_changes_of_large_tensors_are_named_exactly_too(change: Change, said: str) -> None:
    assert changes({"x": large()}, change) == [f"batch['x']{said}"]
    (line,) = changes({"x": large()}, change, copy_limit=0)
    assert line.startswith("batch['x']: values changed (no copy")


def test_an_array_of_odd_elements_is_reported_by_index() -> None:
    made = {"x": np.array(["abc", "def"] * 9000)}
    assert changes(made, put("x", 17_000, "zz")) == ["batch['x'][17000]: 'abc' became 'zz'"]
    assert changes(made, lambda b: b["x"].__setitem__(slice(None), "x")) == [
        "batch['x'][0]: 'abc' became 'x' (and 17999 more)"
    ]


def test_values_of_tensors_are_named_without_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert changes({"x": large()}, put("x", (1, 3), -100)) == ["batch['x'][1, 3]: 2051 became -100"]
    assert len(changes({"x": large()}, put("x", (1, 3), -100), copy_limit=0)) == 1


LARGE = [
    ((64, 2048), torch.int64),
    ((64, 2048), torch.bool),
    ((300, 333), torch.bfloat16),
    ((9, 7, 16, 33), torch.float32),
    ((20_001,), torch.int32),
    ((10_000, 3), torch.float64),
    ((2, 30_000), torch.float32),
    ((40, 400), torch.complex128),
]


@given(st.data())
@settings(deadline=None, max_examples=60)
def test_any_one_or_two_places_of_a_large_tensor_are_named(data: st.DataObject) -> None:
    shape, dtype = data.draw(st.sampled_from(LARGE))
    count = torch.Size(shape).numel()
    x = torch.randint(0, 2, shape, generator=torch.Generator().manual_seed(data.draw(st.integers(0, 9)))).to(dtype)
    if data.draw(st.booleans()):
        x = x.movedim(0, -1)
    before, seen = x.clone(), Snapshot({"x": x})
    for flat in data.draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=2, unique=True)):
        place = tuple(int(i) for i in np.unravel_index(flat, x.shape))
        x[place] = ~x[place] if dtype is torch.bool else x[place] + data.draw(st.integers(1, 3))
    differ = (x != before).nonzero().tolist()
    (line,) = seen.changes()
    path, values = line.removeprefix("batch['x']").split(": ")
    first = next(place for place in differ if str(place) == path)
    old, new = (side[tuple(first)].item() for side in (before, x))
    assert values == f"{old!r} became {new!r}" + (" (and 1 more)" if len(differ) > 1 else "")


@given(
    st.integers(0, 9),
    st.lists(st.tuples(st.integers(0, 68), st.integers(1, 9), st.integers(0, 198), st.integers(1, 99)), min_size=1),
)
@settings(deadline=None, max_examples=60)
def test_any_rectangles_of_a_large_tensor_are_counted(seed: int, rectangles: list[tuple[int, int, int, int]]) -> None:
    x = torch.randint(-1, 2, (70, 200), generator=torch.Generator().manual_seed(seed))
    before, copied, digested = x.clone(), Snapshot({"x": x}), Snapshot({"x": x}, copy_limit=0)
    for row, rows, column, columns in rectangles:
        x[row : row + rows, column : column + columns] = -100
    first, *others = (x != before).nonzero().tolist()
    more = f" (and {len(others)} more)" if others else ""
    place = tuple(first)
    assert copied.changes() == [f"batch['x']{first}: {before[place].item()} became {x[place].item()}{more}"]
    assert len(digested.changes()) == 1


class TestCopyLimit:
    """Values that a guard copies, and reports of those that it does not."""

    SIZE = 8 * 2**15

    def pair(self) -> dict[str, torch.Tensor]:
        return {key: torch.zeros(2**15, dtype=torch.int64) for key in "ab"}

    @pytest.mark.parametrize(("limit", "named"), [(2 * SIZE, "ab"), (2 * SIZE - 1, "a"), (SIZE - 1, ""), (0, "")])
    def test_it_is_for_all_values_together(self, limit: int, named: str) -> None:
        lines = changes(self.pair(), lambda b: [x.add_(1) for x in b.values()], copy_limit=limit)
        assert [line[7] for line in lines if line.endswith("[0]: 0 became 1 (and 32767 more)")] == list(named)
        unnamed = f": values changed (no copy of its 262,144 bytes was kept: copy_limit={limit})"
        assert [line[7] for line in lines if line.endswith(unnamed)] == [key for key in "ab" if key not in named]

    def test_what_is_too_large_leaves_room_for_others(self) -> None:
        made = {"large": torch.zeros(2**16), "small": torch.zeros(3)}
        lines = changes(made, lambda b: [x.add_(1) for x in b.values()], copy_limit=100)
        assert lines[0].startswith("batch['large']: values changed (no copy of its 262,144 bytes")
        assert lines[1] == "batch['small'][0]: 0.0 became 1.0 (and 2 more)"

    @pytest.mark.parametrize(
        "change",
        [
            lambda x: x.copy_(x.flip(0)),
            lambda x: x.copy_(x[:, torch.arange(255, -1, -1)]),
            lambda x: x.data[3].neg_(),
            lambda x: x.numpy().__setitem__((0, 0), np.nan),
            lambda x: x.set_(x + 1),
        ],
        ids=["rows in another order", "columns in another order", "data", "numpy", "set_"],
    )
    def test_every_change_is_detected_without_a_copy(self, change: Change) -> None:
        made = {"x": torch.arange(256.0 * 256).reshape(256, 256)}
        lines = changes(made, lambda b: change(b["x"]), copy_limit=0)
        assert any("values changed" in line for line in lines)

    @pytest.mark.parametrize(
        "make",
        [
            *(lambda dtype=dtype: torch.zeros(3, 4).to(dtype) for dtype in (*DTYPES, torch.float8_e4m3fn)),
            lambda: torch.zeros(4, 3).t(),
            lambda: torch.zeros(3, 1).expand(3, 4),
            lambda: torch.quantize_per_tensor(torch.zeros(3, 4), 0.1, 0, torch.qint8),
        ],
    )
    @pytest.mark.parametrize("copy_limit", [0, 2**20])
    @pytest.mark.filterwarnings("ignore:.*quantize_per_tensor.* is deprecated", "ignore::UserWarning")
    def test_every_dtype_and_layout(self, make: Callable[[], torch.Tensor], copy_limit: int) -> None:
        made = {"x": make()}
        one = torch.ones(1, 1)
        one = torch.quantize_per_tensor(one, 0.1, 0, torch.qint8) if made["x"].is_quantized else one.to(made["x"].dtype)
        (line,) = changes(made, lambda b: b["x"][2:, :1].copy_(one), copy_limit=copy_limit)
        assert ("values changed" in line) is (copy_limit == 0)
        assert copy_limit == 0 or "[2, 0]: " in line

    def test_equal_values_elsewhere_are_equal_without_a_copy(self) -> None:
        made = {"x": large()}
        assert changes(made, lambda b: b.update(x=b["x"].clone()), copy_limit=0) == [
            "batch['x'] was replaced by another tensor of equal values"
        ]

    def test_a_released_copy_is_used_again_and_never_by_two(self) -> None:
        made = {"x": large()}
        Snapshot(made)  # its copy is released at once
        first, other = Snapshot(made), Snapshot({"x": large().neg()})
        made["x"][0, 0] = 5
        assert first.changes() == ["batch['x'][0, 0]: 0 became 5"]
        assert other.changes() == []

    def test_a_guard_takes_it_too(self) -> None:
        with pytest.raises(CheckFailure, match=r"values changed \(no copy of its 24 bytes"):  # noqa: SIM117
            with unchanged({"x": torch.zeros(3, dtype=torch.int64)}, copy_limit=0) as given:
                given["x"].add_(1)

    @pytest.mark.parametrize("limit", [-1, True, 1.5, None, "1 MiB"])
    def test_a_limit_that_is_none(self, limit: Any) -> None:
        with pytest.raises(ValueError, match=r"copy_limit=.*; expected a number of bytes, 0 or more"):
            unchanged({}, copy_limit=limit)

    def test_a_table_is_compared_by_its_values_and_not_by_its_caches(self) -> None:
        pandas = pytest.importorskip("pandas")

        def made() -> dict[str, Any]:
            return {"table": pandas.DataFrame({"score": [0.5, 1.0], "name": ["a", "b"]})}

        def read(batch: dict[str, Any]) -> None:
            assert batch["table"].groupby("name").score.mean().sum() == 1.5

        assert changes(made(), read) == []
        (line,) = changes(made(), lambda batch: batch["table"].__setitem__("score", [0.5, 2.0]))
        assert line.startswith("batch['table'].values: ")
        (line,) = changes(made(), lambda batch: setattr(batch["table"], "columns", ["score", "id"]))
        assert line.startswith("batch['table'].axes[1]: ")
