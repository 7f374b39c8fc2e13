"""Bounds of texts in Kafka's protocol."""

from typing import Final

MAX_STRING_BYTES: Final = 32_767
"""Of a string: its length is an int16."""
MAX_TOPIC_CHARACTERS: Final = 249
"""Of a topic's name: its log's folder, with partition and suffix, is a file name of 255 bytes."""
