"""Counting one time into a histogram of slots, for kernels and for Python."""

from kbroker.kernels.cache import MEASURED
from kbroker.kernels.jit import cgutils, inlined, intrinsic, kernel, types
from kbroker.kernels.memory import load_i64, store_i64
from kbroker.metrics import layout as ml

LAST = ml.HISTOGRAM_BUCKETS - 1


@intrinsic(lambda value: 64 - int(value).bit_length())
def leading_zeros(typingctx, value):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Zero bits above the highest one of a positive int64."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]  # noqa: ARG001
        return builder.ctlz(args[0], cgutils.true_bit)

    return types.int64(types.int64), codegen


@inlined
def bucket(nanoseconds: int) -> int:
    """Index of the bucket that holds a time; 0 for negative ones (clocks of two processors)."""
    if nanoseconds <= 1:
        return 0
    units = (min(nanoseconds, 1 << 40) - 1) * ml.UNIT_NUMERATOR // ml.UNIT_DENOMINATOR
    if units < ml.SUB_BUCKETS:
        return units
    shift = 63 - leading_zeros(units) - ml.SUB_BUCKET_BITS
    return min(LAST, (shift << ml.SUB_BUCKET_BITS) + (units >> shift))


@inlined
def add(address: int, amount: int) -> None:
    """Add to the slot at an address; the caller is its only writer."""
    if MEASURED:
        store_i64(address, load_i64(address) + amount)


@inlined
def observe(address: int, nanoseconds: int, times: int = 1) -> None:
    """Count one time, or several that are the same, into the histogram at an address."""
    if MEASURED:
        add(address + 8 * bucket(nanoseconds), times)
        add(address + 8 * ml.HISTOGRAM_SUM, max(nanoseconds, 0) * times)


@kernel("void(int64, int64)")
def observe_one(address: int, nanoseconds: int) -> None:
    """``observe`` from Python."""
    observe(address, nanoseconds)


@kernel("int64(int64)")
def bucket_of(nanoseconds: int) -> int:
    """``bucket`` from Python."""
    return bucket(nanoseconds)


__all__ = ["add", "bucket", "bucket_of", "observe", "observe_one"]
