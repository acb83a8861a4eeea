"""The product of one row with a weight, at the speed of memory.

One token's decode step reads every weight once and does little with it, so it takes as long as the
reading. Two things make that shorter than torch's F.linear (MKL's product of a matrix and a vector,
which reached 8 GB/s of 13 here): a plain loop that LLVM turns into the processor's widest
instructions, and, for a model that was trained in bfloat16 and is served in float32, weights that
are read as the bfloat16 numbers they are. Nothing is rounded: a weight is only kept so when every
element comes back exactly.

Needs numba, which LMCache brings along. Compiled at import, in about two seconds.
"""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import torch
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

Tensor = torch.Tensor


@intrinsic  # type: ignore[untyped-decorator]
def _widen(_context: Any, number: Any) -> Any:
    """The float32 of a bfloat16's 16 bits: they are its upper half."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        bits = builder.zext(arguments[0], ir.IntType(32))
        return builder.bitcast(builder.shl(bits, ir.Constant(ir.IntType(32), 16)), ir.FloatType())

    return types.float32(types.uint16), generate


# fastmath lets the compiler sum in several places at once.
@numba.njit("void(uint16[:, ::1], float32[::1], float32[::1])", fastmath=True)  # type: ignore[untyped-decorator]
def _multiply_halves(weight: Any, x: Any, out: Any) -> None:
    for row in range(weight.shape[0]):
        line = weight[row]
        total = np.float32(0)
        for column in range(x.shape[0]):
            total += _widen(line[column]) * x[column]
        out[row] = total


@numba.njit("void(float32[:, ::1], float32[::1], float32[::1])", fastmath=True)  # type: ignore[untyped-decorator]
def _multiply_floats(weight: Any, x: Any, out: Any) -> None:
    for row in range(weight.shape[0]):
        line = weight[row]
        total = np.float32(0)
        for column in range(x.shape[0]):
            total += line[column] * x[column]
        out[row] = total


def for_weight(weight: Tensor) -> Callable[[Tensor], Tensor]:
    """A function from (1, in) float32 to (1, out), for a contiguous (out, in) float32 weight.

    It holds a copy of the weight in half the size when bfloat16 can express it, and otherwise the
    weight itself; later changes of the weight may go unseen.
    """
    halves = weight.bfloat16()
    exact = torch.equal(halves.float(), weight)
    kernel, array = (
        (_multiply_halves, halves.view(torch.uint16).numpy())
        if exact
        else (_multiply_floats, weight.numpy())
    )
    num_out = len(weight)

    def product(x: Tensor) -> Tensor:
        out = torch.empty(1, num_out)
        kernel(array, x[0].numpy(), out[0].numpy())
        return out

    return product
