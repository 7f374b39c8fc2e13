"""Bounds of texts in Kafka's protocol."""

from typing import Final

MAX_STRING_BYTES: Final = 32_767
"""Maximum of a string: its length is an int16."""
MAX_TOPIC_CHARACTERS: Final = 249
"""Maximum of a topic's name: a file name has at most 255 bytes, and a log's folder adds to the name
a partition and a suffix."""


def cut_string(text: str) -> str:
    """A text for an answer: of a longer one than clients can read the beginning, and three dots."""
    if len(text) * 4 <= MAX_STRING_BYTES:  # a character has at most 4 bytes
        return text
    encoded = text[: MAX_STRING_BYTES + 1].encode()
    if len(encoded) <= MAX_STRING_BYTES:
        return text
    return encoded[: MAX_STRING_BYTES - 3].decode(errors="ignore") + "..."
