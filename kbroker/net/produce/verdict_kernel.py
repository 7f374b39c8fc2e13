"""The verdict on one produced batch whose partition takes appends: at once, or later, when its
request has cost too much for one turn."""

from kbroker.ipc.layout import Slot
from kbroker.kernels.codes import Code
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.memory import load_i8, load_i64_be
from kbroker.kernels.rows import get, put
from kbroker.metrics import layout as ml
from kbroker.metrics.histogram_kernel import add
from kbroker.net.produce.check_kernel import CHECK_LATER, NEEDS_PYTHON, REFUSED, check_batch, check_slot
from kbroker.net.produce.work_kernel import begin_turn, costs_too_much
from kbroker.net.rows import Context, Result
from kbroker.protocol import batch_layout as rb


@inlined
def _is_in_transaction(address: int, size: int) -> bool:
    return (
        size >= rb.HEADER_BYTES
        and load_i8(address + rb.ATTRIBUTES + 1) & rb.ATTRIBUTE_TRANSACTIONAL != 0
        and load_i64_be(address + rb.PRODUCER_ID) >= 0
    )


@inlined
def is_without_log_start(error: int) -> bool:
    """Whether Kafka answers an error without the log start offset, though it knows the
    partition."""
    return (
        error == Code.CORRUPT_MESSAGE
        or error == Code.UNKNOWN_TOPIC_OR_PARTITION
        or error == Code.NOT_LEADER_OR_FOLLOWER
        or error == Code.MESSAGE_TOO_LARGE
        or error == Code.KAFKA_STORAGE_ERROR
    )


@inlined
def verdict(cx: int, row: int, slot: int, length: int) -> int:
    """NONE, an error, NEEDS_PYTHON, REFUSED or CHECK_LATER for the batch of a result. row, slot:
    addresses of their rows. length: of the records that came, in bytes."""
    if costs_too_much(cx):
        return CHECK_LATER
    address = get(cx, Context.ARENA) + get(row, Result.ADDRESS)
    size = get(row, Result.LENGTH)
    error = check_batch(cx, slot, address, size)
    if error == Code.MESSAGE_TOO_LARGE:
        add(get(cx, Context.METRICS) + 8 * ml.REJECTED_BYTES, length)
    if error == Code.NONE or error == NEEDS_PYTHON or not _is_in_transaction(address, size):
        return error
    put(row, Result.ERROR, error)  # as in Kafka, which checks a batch once its partition has joined
    return REFUSED


@kernel("int64(int64, int64)")
def late_verdict(cx: int, result: int) -> int:
    """The verdict on the batch of a result that was CHECK_LATER; it is CHECK_LATER no more."""
    begin_turn(cx)
    row = get(cx, Context.RESULTS) + result * Result.STRIDE
    slot = get(cx, Context.SLOTS) + get(row, Result.SLOT) * Slot.STRIDE
    error = check_slot(slot, get(row, Result.GENERATION))
    if error == Code.NONE:
        error = verdict(cx, row, slot, get(row, Result.LENGTH))
    if is_without_log_start(error):
        put(row, Result.LOG_START, -1)
    return error
