"""The table of sensors, see ``sensor_kernel``. All words are int64."""

from typing import Final

SENSORS: Final = 4096  # a power of two
WAYS: Final = 16
TABLE_ROWS: Final = SENSORS + WAYS
SENSOR_KEY_HIGH = 0
SENSOR_KEY_LOW = 1  # 0 and 0: free
SENSOR_USED = 2  # window of the last use
SENSOR_CELLS = 4
CELL_WORDS = 2


def row_words(samples: int) -> int:
    """Words of a row."""
    return SENSOR_CELLS + CELL_WORDS * samples
