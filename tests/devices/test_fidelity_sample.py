"""The comparison of `benchmarks/fidelity.py` on a few operators, and on every group that its table argues about."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

# Pointwise, matrix products, a mask, lists, indices, a factory, losses, a composite, a view, in place, values that decide.
DOZEN = (
    "add,addmm,where,cat,gather,index_select,zeros,masked_fill,scatter_add,nn.functional.linear,nn.functional.conv2d,"
    "nn.functional.nll_loss,nn.functional.layer_norm,nonzero,transpose,clamp,extra.copy_"
)
pytestmark = pytest.mark.filterwarnings("ignore")  # of PyTorch's own samples


@pytest.fixture(scope="module")
def fidelity(module_with_samples: Callable[[str], ModuleType]) -> ModuleType:
    return module_with_samples("fidelity")


@pytest.fixture(scope="module")
def table(fidelity: ModuleType) -> list[Any]:
    return list(fidelity.rows())


@pytest.fixture(scope="module")
def argued(fidelity: ModuleType, table: list[Any]) -> list[Any]:
    """Up to four decisions of every group, of one operator where the table names many."""
    from fidelity_samples import names, placements

    every, asked = names(), []
    chosen = {name for row in table for name in _named(row, every)}
    left = dict.fromkeys(table, 4)
    for same in fidelity.operators(",".join(chosen)):
        for call in same:
            for placement in placements(call):
                row = next((row for row in table if row.matches_call(call.op, placement)), None)
                if row is not None and left[row]:
                    left[row] -= 1
                    asked.append((call, placement))
    return list(fidelity.decided(asked, table))


def _named(row: Any, every: list[str]) -> set[str]:
    """One operator of this release for each pattern of a row, where it has one."""
    patterns = [each.strip() for each in row.op.split(";")]
    found = {next(iter(fnmatch.filter(every, each)), each.removesuffix("_")) for each in patterns}
    return found & set(every)


def _figures(fidelity: ModuleType, found: list[Any]) -> dict[str, int]:
    return dict(fidelity.told(found))


def test_a_dozen_operators_decide_as_pytorch_does(fidelity: ModuleType, table: list[Any]) -> None:
    found = [each for same in fidelity.operators(DOZEN) for each in fidelity.decisions(same, table)]
    figures = _figures(fidelity, found)
    assert {each.call.family for each in found} == set(DOZEN.split(","))
    assert figures["of them with tensors on two devices"] > 100
    assert [str(each) for each in found if each.wrong or each.unexplained or each.ours.kind == "crashed"] == []
    assert {each.ours.kind for each in found} == {"accepted", "refused"}


def test_every_argued_group_is_still_met_and_decided_as_argued(
    fidelity: ModuleType, table: list[Any], argued: list[Any]
) -> None:
    from fidelity_samples import names

    here = {row.group for row in table if _named(row, names())}
    assert here - {each.row.group for each in argued if each.row is not None} == set()
    wrong = {str(each) for each in argued if each.wrong or each.unexplained or each.ours.kind == "crashed"}
    known = {each for each in wrong if any(fnmatch.fnmatchcase(each, short) for short in fidelity.SHORT_OF)}
    assert sorted(wrong - known) == []
    assert all(any(fnmatch.fnmatchcase(each, short) for each in wrong) for short in fidelity.SHORT_OF)


def test_same_seed_same_calls(fidelity: ModuleType) -> None:
    def drawn() -> list[list[float]]:
        same = next(fidelity.operators("addmm"))
        return [tensor.flatten().tolist() for call in same for _, tensor in call.leaves()]

    assert drawn() == drawn()


def test_values_and_gradients_are_those_of_the_cpu(fidelity: ModuleType) -> None:
    found = fidelity.tallies("add,addmm,cat,nn.functional.linear,nn.functional.layer_norm,index_select", "cuda")
    assert {name: tally.different for name, tally in found.items()} == {"values": [], "gradients": []}
    assert all(tally.compared > 10 for tally in found.values())


def test_nothing_is_float64_on_mps(fidelity: ModuleType) -> None:
    [tally] = fidelity.tallies("add,float_power,zeros,nn.functional.linear,mean", "mps").values()
    assert tally.different == []
    assert tally.compared > 20


def _decision(fidelity: ModuleType, ours: str, fake: str, **more: Any) -> Any:
    from fidelity_references import Verdict
    from fidelity_samples import Placement

    [call, *_] = next(fidelity.operators("add"))
    checked = more.pop("checked", "")
    made = fidelity.Decision(
        call, Placement("arg1", "cpu"), Verdict(ours, checked=checked), Verdict(fake), more.pop("real", None), None
    )
    return dataclasses.replace(made, **more)


def _row(right: str) -> Any:
    from fidelity_table import Row

    return Row("a group", "*", "*", "*", "*", "*", right, "a reason")


def test_who_is_right_is_asked_in_order(fidelity: ModuleType) -> None:
    from fidelity_references import Verdict

    both = _decision(fidelity, "accepted", "accepted", checked="aten.gather.default")
    assert (both.right, both.wrong) == ("refused", True)
    argued = dataclasses.replace(both, row=_row("accepted"))
    assert (argued.right, argued.wrong) == ("accepted", False)
    measured = dataclasses.replace(argued, real=Verdict("refused"))
    assert (measured.right, measured.wrong) == ("refused", True)
    assert _decision(fidelity, "refused", "undecided").right == ""
    assert not _decision(fidelity, "refused", "accepted", row=_row("ambiguous")).wrong


def test_figures_count_wrong_refusals_apart_from_wrong_acceptances(fidelity: ModuleType) -> None:
    found = [
        _decision(fidelity, "refused", "accepted"),
        _decision(fidelity, "accepted", "refused", row=_row("refused")),
        _decision(fidelity, "refused", "refused"),
        _decision(fidelity, "crashed", "accepted"),
        _decision(fidelity, "undecided", "accepted"),
    ]
    figures = _figures(fidelity, found)
    assert figures["FakeTensor decided too"] == 3
    assert figures["FakeTensor agrees"] == 1
    assert figures["right after adjudication"] == 1
    assert (figures["wrong refusals"], figures["wrong acceptances"]) == (1, 1)
    assert (figures["crashes"], figures["unexplained"]) == (1, 1)
    assert figures["declared not checkable by the simulation"] == 1


def test_the_generated_checks_are_read_from_pytorchs_own_file(fidelity: ModuleType) -> None:
    from fidelity_checks import checked, exact

    torch = pytest.importorskip("torch")
    aten = torch.ops.aten
    assert checked(aten.gather.default)
    assert checked(aten.addmm.default)
    assert not checked(aten.add.Tensor)  # TensorIterator checks for itself
    assert not checked(aten.convolution.default)  # a composite, whose parts are checked
    assert len(exact()) > 500


def test_a_device_that_is_not_there_decides_nothing(fidelity: ModuleType) -> None:
    from fidelity_real import LOST, answers
    from fidelity_samples import family, placements

    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is one here")
    found = answers("addmm", "cuda")
    assert {each.kind for each in found} == {"undecided"}
    assert len(found) == sum(len(placements(call)) for call in family("addmm"))
    assert LOST.kind == "undecided"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("| a | add | * | * | * | * | refused |", "7 columns, expected group"),
        ("| a | add | * | * | * | * | perhaps | why |", "right is 'perhaps': expected accepted, refused or ambiguous"),
        ("| a | add | * | * | * | * | refused | |", "right is 'refused'"),
        ("| a | add | * | * | refuse | * | refused | why |", "expected ours and FakeTensor to be among"),
    ],
)
def test_a_row_that_is_wrong_is_named(fidelity: ModuleType, tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "table.md"
    path.write_text(f"text\n\n{line}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=message) as raised:
        fidelity.rows(path)
    assert "table.md:3" in str(raised.value)
