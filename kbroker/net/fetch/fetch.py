"""One fetch that Python serves."""

from dataclasses import dataclass

from kbroker.net.connections.connection import Connection
from kbroker.net.fetch.fetch_session import NO_SESSION, FetchedPartition, FetchSession, Key
from kbroker.protocol.frame import RequestHeader


@dataclass(slots=True)
class Fetch:
    """One request in progress.

    create: create a session from the partitions that were read."""

    connection: Connection
    header: RequestHeader
    partitions: dict[Key, FetchedPartition]
    isolation: int
    min_bytes: int
    max_bytes: int
    session: FetchSession | None = None
    create: bool = False

    @property
    def session_id(self) -> int:
        """Id of the session that the answer names, NO_SESSION for none."""
        return NO_SESSION if self.session is None else self.session.id
