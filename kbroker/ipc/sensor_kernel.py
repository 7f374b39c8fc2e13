"""What clients have used of their quotas: a table of each client process (network, control), mapped by all of them.

Each process writes its own table alone and reads the others', so that a quota holds for the broker and not for each of
its processes. A row is found by a 128-bit key among WAYS neighbours; the one that was not used for longest makes room.
A row's cells are the samples of Kafka's Rate (quota.window.num of quota.window.size.seconds): window number and sum.
"""

from kbroker.ipc.sensor_layout import SENSORS, WAYS, SensorCell, SensorRow
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.memory import load_i64, store_i64, store_release


@inlined
def _find(table: int, stride: int, high: int, low: int) -> int:
    """Address of a key's row, 0 when it has none."""
    first = table + (low & (SENSORS - 1)) * stride
    for way in range(WAYS):
        row = first + way * stride
        if load_i64(row) == high and load_i64(row + 8) == low:
            return row
    return 0


@inlined
def _take(table: int, stride: int, high: int, low: int) -> int:
    """A row for a key: its own, a free one, or the one that was not used for longest."""
    row = _find(table, stride, high, low)
    if row != 0:
        return row
    first = table + (low & (SENSORS - 1)) * stride
    row = first
    for way in range(WAYS):
        other = first + way * stride
        if load_i64(other) == 0 and load_i64(other + 8) == 0:
            row = other
            break
        if load_i64(other + 8 * SensorRow.USED) < load_i64(row + 8 * SensorRow.USED):
            row = other
    store_release(row, 0)
    store_release(row + 8, 0)
    for word in range(SensorRow.USED, stride // 8):
        store_i64(row + 8 * word, 0)
    store_release(row, high)
    store_release(row + 8, low)
    return row


@kernel("void(int64, int64, int64, int64, int64, int64)")
def sensor_add(table: int, samples: int, high: int, low: int, window: int, amount: int) -> None:
    """Add to a key's sum of a window (its number, which grows). table: the caller's own."""
    stride = 8 * (SensorRow.WORDS + SensorCell.WORDS * samples)
    row = _take(table, stride, high, low)
    store_i64(row + 8 * SensorRow.USED, window)
    cell = row + 8 * (SensorRow.WORDS + SensorCell.WORDS * (window % samples))
    if load_i64(cell) == window:
        store_i64(cell + 8, load_i64(cell + 8) + amount)
    else:
        store_release(cell + 8, amount)
        store_release(cell, window)


@kernel("int64(int64, int64, int64, int64, int64)")
def sensor_total(table: int, samples: int, high: int, low: int, window: int) -> int:
    """A key's sum of the last ``samples`` windows up to this one, in any process's table."""
    stride = 8 * (SensorRow.WORDS + SensorCell.WORDS * samples)
    row = _find(table, stride, high, low)
    total = 0
    if row != 0:
        for number in range(samples):
            cell = row + 8 * (SensorRow.WORDS + SensorCell.WORDS * number)
            at = load_i64(cell)
            if at > window - samples and at <= window:
                total += load_i64(cell + 8)
    return total
