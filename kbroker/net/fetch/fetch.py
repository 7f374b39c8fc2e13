"""One fetch that Python serves."""

from dataclasses import dataclass

from kbroker.net.connection import Connection
from kbroker.net.fetch.fetch_session import FetchedPartition, Key, Session
from kbroker.protocol.frame import RequestHeader


@dataclass(slots=True)
class Fetch:
    """One request in progress. sessionless: the answer names every partition and no session.

    create: create a session from the partitions that were read."""

    connection: Connection
    header: RequestHeader
    partitions: dict[Key, FetchedPartition]
    isolation: int
    min_bytes: int
    max_bytes: int
    session: Session | None = None
    create: bool = False
