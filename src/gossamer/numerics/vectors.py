"""Intrinsics that let compiled loops become vector instructions that round identically everywhere.

Numba compiles to LLVM IR; the intrinsics below express what Python cannot: the bits of a number, a fused product and
sum, long vectors. Nothing is compiled with `fastmath`: sums and products are fused only
where `fma` says so, so that a vectorized loop, its remainder and a loop elsewhere give the same last digit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, cast

from llvmlite import ir  # type: ignore[import-untyped, unused-ignore]
from numba import types  # type: ignore[import-untyped, unused-ignore]
from numba.extending import intrinsic  # type: ignore[import-untyped, unused-ignore]

Untyped: TypeAlias = Any
"""An object of Numba or llvmlite, or a value in compiled code whose type they infer."""


def _intrinsic(function: Callable[..., Untyped]) -> Callable[..., Untyped]:
    """Register a function with Numba that emits its own LLVM instructions."""
    return cast(Callable[..., Untyped], intrinsic(function))


@_intrinsic
def as_bits(typing: Untyped, x: Untyped) -> Untyped:
    """Return the bits of a float64 as a uint64, or those of a float32 as a uint32."""
    kind, width = (types.uint32, 32) if x == types.float32 else (types.uint64, 64)

    def generate(context: Untyped, builder: Untyped, signature: Untyped, arguments: Untyped) -> Untyped:
        return builder.bitcast(arguments[0], ir.IntType(width))

    return kind(x), generate


@_intrinsic
def as_float(typing: Untyped, bits: Untyped) -> Untyped:
    """Return the float64 that has the bits of a uint64, or the float32 that has those of a uint32."""
    kind, real = (types.float32, ir.FloatType()) if bits == types.uint32 else (types.float64, ir.DoubleType())

    def generate(context: Untyped, builder: Untyped, signature: Untyped, arguments: Untyped) -> Untyped:
        return builder.bitcast(arguments[0], real)

    return kind(bits), generate


@_intrinsic
def fma(typing: Untyped, x: Untyped, y: Untyped, z: Untyped) -> Untyped:
    """Return x * y + z, rounded once: in float32 if all three are, otherwise in float64."""
    kind = types.float32 if x == y == z == types.float32 else types.float64

    def generate(context: Untyped, builder: Untyped, signature: Untyped, arguments: Untyped) -> Untyped:
        return builder.fma(*arguments)

    return kind(kind, kind, kind), generate


@_intrinsic
def prefer_wide_vectors(typing: Untyped) -> Untyped:
    """Have LLVM compile the calling function separately, with vectors of 512 bits if the machine has them.

    By default LLVM uses vectors of 256 bits on most machines that have longer ones, because those may lower the
    clock speed. The function is not inlined either, so its loops are compiled the same wherever it is called.
    """

    def generate(context: Untyped, builder: Untyped, signature: Untyped, arguments: Untyped) -> Untyped:
        builder.function.attributes.add("noinline")
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.none(), generate


@_intrinsic
def borrowed(typing: Untyped, values: Untyped) -> Untyped:
    """Return a named tuple whose arrays are not reference-counted; the caller keeps the originals alive.

    Reference counts change with every slice and many calls, and they are atomic: threads that keep counting the same
    array wait for each other more than they compute.
    """

    def generate(context: Untyped, builder: Untyped, signature: Untyped, arguments: Untyped) -> Untyped:
        (values,) = arguments
        for k, kind in enumerate(signature.args[0]):
            if isinstance(kind, types.Array):
                array = context.make_array(kind)(context, builder, builder.extract_value(values, k))
                array.meminfo = array.meminfo.type(None)
                values = builder.insert_value(values, array._getvalue(), k)
        return values

    return values(values), generate


ROW = 8
"""Numbers of a `Row`."""

_ROW = ir.VectorType(ir.DoubleType(), ROW)


def _row_at(context: Untyped, builder: Untyped, kind: Untyped, value: Untyped, row: Untyped) -> Untyped:
    """Return the address of a row, on the stack or in an array (n, ROW)."""
    if isinstance(kind, types.Array):
        start = builder.mul(row, ir.Constant(row.type, ROW))
        value = builder.gep(context.make_array(kind)(context, builder, value).data, [start])
    return builder.bitcast(value, _ROW.as_pointer())


def _get(builder: Untyped, address: Untyped) -> Untyped:
    row = builder.load(address)
    row.align = 8
    return row


def _put(context: Untyped, builder: Untyped, row: Untyped, address: Untyped) -> Untyped:
    builder.store(row, address).align = 8
    return context.get_dummy_value()


@_intrinsic
def clear_row(typing: Untyped, total: Untyped) -> Untyped:
    """Set a row on the stack (`scratch`) to zero.

    LLVM keeps such rows in registers. A loop over a constant number of columns would be unrolled before it could become
    vector instructions.
    """

    def generate(context: Untyped, builder: Untyped, signature: Untyped, arguments: Untyped) -> Untyped:
        zero = ir.Constant(_ROW, [0.0] * ROW)
        return _put(context, builder, zero, _row_at(context, builder, total, arguments[0], None))

    return types.none(total), generate


@_intrinsic
def store_row(typing: Untyped, total: Untyped, out: Untyped, row: Untyped) -> Untyped:
    """Write a row on the stack to a row of an array."""

    def generate(context: Untyped, builder: Untyped, signature: Untyped, arguments: Untyped) -> Untyped:
        source = _row_at(context, builder, total, arguments[0], None)
        return _put(context, builder, _get(builder, source), _row_at(context, builder, out, *arguments[1:]))

    return types.none(total, out, types.intp), generate


@_intrinsic
def add_scaled(typing: Untyped, total: Untyped, scale: Untyped, x: Untyped, row: Untyped) -> Untyped:
    """Add a multiple of a row of an array to a row on the stack."""

    def generate(context: Untyped, builder: Untyped, signature: Untyped, arguments: Untyped) -> Untyped:
        one = builder.insert_element(ir.Constant(_ROW, ir.Undefined), arguments[1], ir.IntType(32)(0))
        order = ir.Constant(ir.VectorType(ir.IntType(32), ROW), [0] * ROW)
        factor = builder.shuffle_vector(one, ir.Constant(_ROW, ir.Undefined), order)
        other = _get(builder, _row_at(context, builder, x, *arguments[2:]))
        return _add_product(context, builder, arguments[0], factor, other)

    return types.none(total, types.float64, x, types.intp), generate


@_intrinsic
def add_product(typing: Untyped, total: Untyped, a: Untyped, x: Untyped, row: Untyped) -> Untyped:
    """Add the products of a row on the stack and a row of an array to a row on the stack."""

    def generate(context: Untyped, builder: Untyped, signature: Untyped, arguments: Untyped) -> Untyped:
        one = _get(builder, _row_at(context, builder, a, arguments[1], None))
        other = _get(builder, _row_at(context, builder, x, *arguments[2:]))
        return _add_product(context, builder, arguments[0], one, other)

    return types.none(total, a, x, types.intp), generate


def _add_product(context: Untyped, builder: Untyped, total: Untyped, a: Untyped, b: Untyped) -> Untyped:
    address, fused = builder.bitcast(total, _ROW.as_pointer()), ("contract",)
    product = builder.fmul(a, b, flags=fused)
    return _put(context, builder, builder.fadd(product, _get(builder, address), flags=fused), address)


# Random numbers are generated in panels of this many lanes, in multiples of the grain (the widest vector).
PANEL = 128
GRAIN = 8


def _stack(kind: Untyped, real: Untyped) -> tuple[Untyped, Untyped]:
    """Return the address of `4 * PANEL` numbers on the stack, aligned to a cache line."""

    def generate(context: Untyped, builder: Untyped, signature: Untyped, arguments: Untyped) -> Untyped:
        with builder.goto_entry_block():
            memory = builder.alloca(ir.ArrayType(real, 4 * PANEL))
            memory.align = 64
        return builder.bitcast(memory, real.as_pointer())

    return types.CPointer(kind), generate  # type: ignore[no-untyped-call, unused-ignore]


@_intrinsic
def scratch(typing: Untyped, out: Untyped) -> Untyped:
    """Return the address of `4 * PANEL` numbers of the kind of `out` on the stack."""
    single = out.dtype == types.float32
    pointer, generate = _stack(out.dtype, ir.FloatType() if single else ir.DoubleType())
    return pointer(out), generate


@_intrinsic
def scratch_words(typing: Untyped, out: Untyped) -> Untyped:
    """Return the address of `4 * PANEL` unsigned integers, as wide as the numbers of `out`, on the stack."""
    single = out.dtype == types.float32
    pointer, generate = _stack(types.uint32 if single else types.uint64, ir.IntType(32 if single else 64))
    return pointer(out), generate
