"""Isolation levels of Fetch and ListOffsets."""

from typing import Final

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
ISOLATION_LEVELS: Final = (READ_UNCOMMITTED, READ_COMMITTED)
"""All levels; a request with any other is refused as a whole."""
