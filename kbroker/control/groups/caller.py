"""The sender of a request: the fields that the coordinator stores or uses in its decisions."""

from collections.abc import Callable

from msgspec import Struct


class Caller(Struct, frozen=True):
    """client_host: as Kafka shows it, with a leading slash (``/127.0.0.1``).

    client_id is empty when unset. sees(topic): whether the sender may see a topic.
    """

    client_id: str
    client_host: str
    api_version: int
    sees: Callable[[str], bool] = lambda _: True
