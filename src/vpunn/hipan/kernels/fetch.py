"""Memory that will be read soon, asked for beforehand: most of what rows need of a large model lies far from the processor."""

from __future__ import annotations

from typing import Any

from numba.core import cgutils, types
from numba.extending import intrinsic

#: Numbers of 32 bits that memory brings at once.
LINE = 16


@intrinsic
def fetch(_: Any, array: Any, at: Any) -> Any:
    """Have ``array[at]`` brought near, and go on at once. A hint: nothing is read or written, and any ``at`` is allowed."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        kind = signature.args[0]
        view = context.make_array(kind)(context, builder, given[0])
        zero = context.get_constant(types.intp, 0)
        place = [context.cast(builder, given[1], signature.args[1], types.intp)] + [zero] * (kind.ndim - 1)
        where = cgutils.get_item_pointer(context, builder, kind, view, place, wraparound=False)
        where, number = builder.bitcast(where, cgutils.voidptr_t), cgutils.int32_t
        shape = cgutils.ir.FunctionType(cgutils.ir.VoidType(), [where.type, number, number, number])
        ask = builder.module.declare_intrinsic("llvm.prefetch", [where.type], shape)
        builder.call(ask, [where, number(0), number(3), number(1)])  # to read, into the nearest cache, data
        return context.get_dummy_value()

    return types.void(array, at), generate
