"""Bounds of texts in Kafka's protocol."""

from typing import Final

MAX_STRING_BYTES: Final = 32_767
"""Maximum of a string: its length is an int16."""
MAX_TOPIC_CHARACTERS: Final = 249
"""Maximum of a topic's name: a file name has at most 255 bytes, and a log's folder adds to the name
a partition and a suffix."""
