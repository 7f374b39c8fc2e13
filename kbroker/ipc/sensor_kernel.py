"""Quota usage of clients: one table per client process (network, control), mapped by all of them.

Each process writes only its own table and reads the others', so that a quota holds for the whole
broker. A row is found by a 128-bit key among WAYS neighbours; a new key replaces the least recently
used of them. A row's cells are the samples of Kafka's Rate (quota.window.num of
quota.window.size.seconds): window number and sum.
"""

from kbroker.ipc.layout import SensorCell, SensorRow
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.memory import store_i64, store_release
from kbroker.kernels.rows import get, put


@inlined
def _find(table: int, stride: int, high: int, low: int) -> int:
    """Address of a key's row, 0 when it has none."""
    first = table + (low & (SensorRow.SENSORS - 1)) * stride
    for way in range(SensorRow.WAYS):
        row = first + way * stride
        if get(row, SensorRow.KEY_HIGH) == high and get(row, SensorRow.KEY_LOW) == low:
            return row
    return 0


@inlined
def _take(table: int, stride: int, high: int, low: int) -> int:
    """A row for a key: its own, a free one, or the least recently used one."""
    row = _find(table, stride, high, low)
    if row != 0:
        return row
    first = table + (low & (SensorRow.SENSORS - 1)) * stride
    row = first
    for way in range(SensorRow.WAYS):
        other = first + way * stride
        if get(other, SensorRow.KEY_HIGH) == 0 and get(other, SensorRow.KEY_LOW) == 0:
            row = other
            break
        if get(other, SensorRow.USED) < get(row, SensorRow.USED):
            row = other
    store_release(row + 8 * SensorRow.KEY_HIGH, 0)
    store_release(row + 8 * SensorRow.KEY_LOW, 0)
    for word in range(SensorRow.USED, stride // 8):
        store_i64(row + 8 * word, 0)
    store_release(row + 8 * SensorRow.KEY_HIGH, high)
    store_release(row + 8 * SensorRow.KEY_LOW, low)
    return row


@kernel("void(int64, int64, int64, int64, int64, int64)")
def sensor_add(table: int, samples: int, high: int, low: int, window: int, amount: int) -> None:
    """Add to a key's sum of a window (its number, which grows). table: the caller's own."""
    stride = SensorRow.STRIDE + SensorCell.STRIDE * samples
    row = _take(table, stride, high, low)
    put(row, SensorRow.USED, window)
    cell = row + SensorRow.STRIDE + SensorCell.STRIDE * (window % samples)
    if get(cell, SensorCell.WINDOW) == window:
        put(cell, SensorCell.AMOUNT, get(cell, SensorCell.AMOUNT) + amount)
    else:
        store_release(cell + 8 * SensorCell.AMOUNT, amount)
        store_release(cell + 8 * SensorCell.WINDOW, window)


@kernel("int64(int64, int64, int64, int64, int64)")
def sensor_total(table: int, samples: int, high: int, low: int, window: int) -> int:
    """A key's sum of the last ``samples`` windows up to this one, in any process's table."""
    stride = SensorRow.STRIDE + SensorCell.STRIDE * samples
    row = _find(table, stride, high, low)
    total = 0
    if row != 0:
        for number in range(samples):
            cell = row + SensorRow.STRIDE + SensorCell.STRIDE * number
            at = get(cell, SensorCell.WINDOW)
            if at > window - samples and at <= window:
                total += get(cell, SensorCell.AMOUNT)
    return total
