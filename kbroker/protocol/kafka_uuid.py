"""Kafka's text of a UUID: URL-safe base64 without padding, 22 characters."""

import base64
from uuid import uuid4


def format_uuid(value: bytes) -> str:
    """The text of 16 bytes."""
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def parse_uuid(text: str) -> bytes:
    """The 16 bytes of a text. Raises ValueError."""
    value = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(value) != 16:
        raise ValueError(f"{text!r} is no id of 16 bytes")
    return value


def random_uuid() -> str:
    """A new random id. As in Kafka none begins with a dash, which tools take for an option."""
    while (text := format_uuid(uuid4().bytes)).startswith("-"):
        pass
    return text
