"""The table of sensors, see ``sensor_kernel``."""

from typing import Final

from kbroker.kernels.row import Row, word

SENSORS: Final = 4096  # a power of two
WAYS: Final = 16
TABLE_ROWS: Final = SENSORS + WAYS


class SensorCell(Row, writer="its process", shared="network and control"):
    """Usage of a client in one window."""

    WINDOW = word("number", "of the window")
    AMOUNT = word("amount", "used in it")


class SensorRow(Row, writer="its process", shared="network and control", words=4):
    """Usage of one client. SensorCells follow, one for each sample."""

    KEY_HIGH = word("bits", "of the key")
    KEY_LOW = word("bits", "of the key; 0 and 0: free")
    USED = word("number", "window of the last use")


def row_words(samples: int) -> int:
    """Words of a row with its cells."""
    return SensorRow.WORDS + SensorCell.WORDS * samples
