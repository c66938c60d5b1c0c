"""Double-double arithmetic: a number as the unevaluated sum of two floats, twice the digits of its dtype.

Two float64 hold about 32 decimal digits, two float32 about 14, so that sums of realistic length equal the exact
sum, in any order, and also on a device without float64.

The error-free transformations are Knuth's TwoSum, Dekker's product with Veltkamp's splitting, and the cascaded
summation of Ogita, Rump and Oishi, "Accurate sum and dot product" (SIAM J. Sci. Comput. 26(6), 2005). Addition is
AccurateDWPlusDW of Joldes, Muller and Popescu, "Tight and rigorous error bounds for basic building blocks of
double-word arithmetic" (ACM Trans. Math. Softw. 44(2), 2017), with a relative error of 3u**2 for roundoff u.

Infinities and NaN are in the high word alone, and the low word is then read as 0: otherwise the compensation
would turn an infinite sum into inf - inf, which is NaN.

The range is that of the dtype: a sum or a product beyond its largest number is infinite, and digits under its
smallest number are lost.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import torch
from torch import Tensor

WITHOUT_FLOAT64 = frozenset({"mps"})
_EXACT_IN_FLOAT32 = frozenset({torch.bool, torch.uint8, torch.int8, torch.int16})


class DoubleDouble(NamedTuple):
    """The sum of two tensors of one shape, dtype and device, with ``abs(low) <= ulp(high) / 2``."""

    high: Tensor
    low: Tensor


def working_dtype(device: torch.device, wanted: torch.dtype | None = None) -> torch.dtype:
    """Return the dtype of the words: float64, or float32 where that is wanted or float64 does not exist."""
    return torch.float32 if wanted == torch.float32 or device.type in WITHOUT_FLOAT64 else torch.float64


def zeros(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> DoubleDouble:
    """Return the empty sum of a shape."""
    high = torch.zeros(shape, dtype=dtype, device=device)
    return DoubleDouble(high, torch.zeros_like(high))


def constant(number: int | Fraction, like: DoubleDouble) -> DoubleDouble:
    """Return a number with shape (), whole numbers exact up to 2**106, or 2**48 in float32."""
    dtype, device = like.high.dtype, like.high.device
    high = float(number)
    if dtype == torch.float32:
        fraction, exponent = math.frexp(high)
        high = math.ldexp(round(math.ldexp(fraction, 24)), exponent - 24)
    low = float(number - Fraction(high))
    return DoubleDouble(*(torch.full((), word, dtype=dtype, device=device) for word in (high, low)))


def words(values: Tensor, wanted: torch.dtype) -> DoubleDouble:
    """Return the values of a real tensor of any dtype, also 64-bit integers, on its own device.

    Exact, but for float64 and integers beyond 2**48 in float32 words: there the first 48 bits are kept.
    """
    dtype = working_dtype(values.device, wanted)
    if values.dtype == torch.float64 and dtype == torch.float32:
        high = values.to(dtype)
        return _settled(high, (values - high.to(values.dtype)).to(dtype))
    if values.dtype.is_floating_point or values.dtype in _EXACT_IN_FLOAT32:
        high = values.to(dtype)
        return DoubleDouble(high, torch.zeros_like(high))
    # 22, 21 and 21 bits, each of them exact in float32 too.
    whole, mask = values.to(torch.int64), (1 << 21) - 1
    top, middle, bottom = whole >> 42, (whole >> 21) & mask, whole & mask
    high, low = _two_sum(top.to(dtype) * 2.0**42, middle.to(dtype) * 2.0**21)
    return add(DoubleDouble(high, low), DoubleDouble(bottom.to(dtype), torch.zeros_like(low)))


def moved(x: DoubleDouble, dtype: torch.dtype, device: torch.device) -> DoubleDouble:
    """Move to a dtype and device: narrowed before and widened after, so that both devices support the dtype."""
    high, low = x
    if high.dtype == dtype:
        return DoubleDouble(high.to(device), low.to(device))
    if dtype == torch.float32:
        narrow = high.to(dtype)
        rest = (high - narrow.to(high.dtype) + low).to(dtype)
        narrow, rest = _settled(narrow, rest)
        return DoubleDouble(narrow.to(device), rest.to(device))
    return _settled(high.to(device).to(dtype), low.to(device).to(dtype))


def add(a: DoubleDouble, b: DoubleDouble) -> DoubleDouble:
    """Add elementwise, broadcast."""
    high, error = _two_sum(a.high, b.high)
    low, error_of_low = _two_sum(a.low, b.low)
    high, error = _settled(high, error + low)
    return _settled(high, error + error_of_low)


def subtract(a: DoubleDouble, b: DoubleDouble) -> DoubleDouble:
    """Subtract elementwise, broadcast."""
    return add(a, DoubleDouble(-b.high, -b.low))


def multiply(a: DoubleDouble, b: DoubleDouble) -> DoubleDouble:
    """Multiply elementwise, broadcast."""
    product = a.high * b.high
    a_head, a_tail = _halves(a.high)
    b_head, b_tail = _halves(b.high)
    error = (a_head * b_head - product) + a_head * b_tail + a_tail * b_head + a_tail * b_tail
    return _settled(product, error + (a.high * b.low + a.low * b.high))


def divide(a: DoubleDouble, b: DoubleDouble) -> DoubleDouble:
    """Divide elementwise, broadcast; a division by zero gives what IEEE 754 gives for the high words.

    A quotient that fits into one word comes out exactly, so that the mean of a constant stream is that constant.
    """
    first = a.high / b.high
    rest = subtract(a, multiply(b, DoubleDouble(first, torch.zeros_like(first))))
    return _settled(first, rest.high / b.high)


def total(x: DoubleDouble) -> DoubleDouble:
    """Sum over dimension 0, of no rows as well.

    Rows are added in pairs, so that the work is that of a few vectorised passes; the rounding errors of every
    addition are carried in the low word.
    """
    high, low = x
    if not len(high):
        return zeros(tuple(high.shape[1:]), high.dtype, high.device)
    while len(high) > 1:
        half = len(high) // 2
        odd = DoubleDouble(high[2 * half :], low[2 * half :])
        carried = low[:half] + low[half : 2 * half]
        high, error = _two_sum(high[:half], high[half : 2 * half])
        low = carried + error
        if len(odd.high):
            high, low = torch.cat([high, odd.high]), torch.cat([low, odd.low])
    return _settled(high[0], low[0])


def _two_sum(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    high = a + b
    b_in_high = high - a
    return high, (a - (high - b_in_high)) + (b - b_in_high)


def _halves(x: Tensor) -> tuple[Tensor, Tensor]:
    scaled = x * float(2**27 + 1 if x.dtype == torch.float64 else 2**12 + 1)
    head = scaled - (scaled - x)
    return head, x - head


def _settled(high: Tensor, low: Tensor) -> DoubleDouble:
    low = torch.nan_to_num(low, nan=0.0, posinf=0.0, neginf=0.0)
    settled = high + low
    return DoubleDouble(settled, low - (settled - high))
