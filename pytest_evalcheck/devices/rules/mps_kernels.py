"""Kernels of MPS that refuse what the CPU accepts, and kernels that are known to be wrong in some releases, as data.

A wrong kernel computes a number that nobody can predict here: the simulation warns, and computes that of the CPU. A row
needs a report of PyTorch that says with which inputs, and in which releases.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor

from pytest_evalcheck.devices.release import TORCH_RELEASE


class WrongKernel(NamedTuple):
    """Operators whose kernel on MPS differs from that of the CPU for some inputs."""

    operators: str
    applies: Callable[[Any], bool]
    """Function that finds out whether the positional arguments are such inputs."""
    until: tuple[int, int] | None
    """The release that is right; None where the report is open."""
    what: str
    report: int


def _pool_sizes(args: Any) -> list[tuple[int, int]]:
    """The sizes of input and output of each pooled dimension."""
    wanted = args[1].shape[-2:] if isinstance(args[1], Tensor) else args[1]
    return list(zip(args[0].shape[-2:], wanted, strict=True))


def _does_not_divide(args: Any) -> bool:
    return any(given % wanted if given >= wanted else wanted % given for given, wanted in _pool_sizes(args))


def _is_strided(args: Any) -> bool:
    return not args[0].is_contiguous()


def _counts_back(args: Any) -> bool:
    """Return whether a negative dimension of five or more is reduced, the last of which has one element."""
    if args[0].dim() < 5 or args[0].shape[-1] != 1 or len(args) < 2:
        return False
    dims = args[1] if isinstance(args[1], (list, tuple)) else [args[1]]
    return any(dim is not None and dim < 0 for dim in dims)


WRONG = (
    WrongKernel(
        "adaptive_max_pool2d",
        _does_not_divide,
        (2, 14),
        "returns other values and indices, and another shape for a larger output, where sizes do not divide",
        190064,
    ),
    WrongKernel(
        "sum.dim_IntList mean.dim prod.dim_int count_nonzero.dim_IntList",
        _counts_back,
        (2, 5),
        "reduces another dimension than the negative one that is given, of five or more whose last has one element",
        132732,
    ),
    WrongKernel(
        "where.self",
        _is_strided,
        (2, 8),
        "reads a condition that is not contiguous in another order (reported with macOS 13)",
        150967,
    ),
    WrongKernel(
        "argmax argmin",
        lambda args: _is_strided(args) and (len(args) < 2 or args[1] is None),
        (2, 14),
        "raises 'view size is not compatible with input tensor's size and stride' for an input that is not contiguous",
        160740,
    ),
    WrongKernel(
        "sort sort.stable digamma lgamma polygamma",
        lambda args: any(isinstance(each, Tensor) and not each.is_contiguous() for each in args),
        None,
        "takes the elements of an input that is not contiguous in the order of its memory",
        175187,
    ),
)
_POOLS = frozenset({"_adaptive_avg_pool2d", "adaptive_max_pool2d"})
# aten/src/ATen/native/mps/operations/AdaptivePooling.mm, set_kernel_params; RuntimeError in older releases
_BOTH = (
    "Adaptive pool MPS: Input height and width must both be greater than, or equal to, or lesser than output height "
    "and width"
)
_DIVISIBLE = (
    "Adaptive pool MPS: {} sizes must be divisible by {} sizes. Non-divisible input sizes are not implemented on MPS "
    "device yet. For now, you can manually transfer tensor to cpu in this case. Please refer to "
    "[this issue](https://github.com/pytorch/pytorch/issues/96056)"
)


def wrong_in(release: tuple[int, ...]) -> dict[str, WrongKernel]:
    """The operators whose kernel on MPS is wrong in a release, each with its row."""
    rows = [row for row in WRONG if row.until is None or release < row.until]
    return {name: row for row in rows for name in row.operators.split()}


_WRONG_HERE = wrong_in(TORCH_RELEASE)


class MPSKernel(NamedTuple):
    """Differences of the kernel of an operator on MPS."""

    name: str
    wrong: WrongKernel | None
    pools: bool

    def examine(self, args: Any, warn_once: Callable[[str, str], None]) -> None:
        """Raise what MPS raises for a call, or warn where its kernel is known to be wrong."""
        if self.pools and args[0].numel():
            _require_sizes(self.name, args)
        if self.wrong is not None and self.wrong.applies(args):
            release = ".".join(map(str, TORCH_RELEASE))
            warn_once(
                f"mps {self.name}",
                f"On MPS with torch {release} {self.name.partition('.')[0]} {self.wrong.what}: "
                f"https://github.com/pytorch/pytorch/issues/{self.wrong.report}. The simulation computes the value of "
                "the CPU.",
            )


def mps_kernel(func: Any) -> MPSKernel | None:
    """The differences of the kernel of an operator on MPS; None where none are known."""
    namespace, _, name = func.name().partition("::")
    if namespace != "aten" or name not in _WRONG_HERE.keys() | _POOLS:
        return None
    return MPSKernel(name, _WRONG_HERE.get(name), name in _POOLS)


def _require_sizes(name: str, args: Any) -> None:
    sizes = _pool_sizes(args)
    shrinks = [given >= wanted for given, wanted in sizes]
    if not (all(shrinks) or all(given <= wanted for given, wanted in sizes)):
        raise NotImplementedError(_BOTH)
    if name == "_adaptive_avg_pool2d" and _does_not_divide(args):
        raise NotImplementedError(_DIVISIBLE.format(*(("input", "output") if shrinks[0] else ("output", "input"))))
