"""The interface of the object that serves the requests of a network process."""

from collections.abc import Callable
from typing import Protocol

from kbroker.net.connections.connection import Connection, FileSource


class Server(Protocol):
    """Serves the requests that the pump leaves to Python."""

    def take(self, connection: Connection, frame: bytes) -> None:
        """Serve a request and end with ``reply`` or ``close``."""

    def take_long(self, connection: Connection, frame: memoryview, release: Callable[[], None]) -> None:
        """As `take`, of a long frame that stays in the arena until `release` is called."""

    def in_slices(self, connection: Connection, work: Callable[[], None]) -> None:
        """Do long work for a client, in turns with the work of other clients."""

    def introduced(self, connection: Connection, number: int) -> None:
        """The kernel has answered ApiVersions. number: of the request among the known ones."""

    def wait(self, connection: Connection, frame: bytes) -> None:
        """Delay a fetch until there are more bytes."""

    def source(self, fd: int) -> FileSource:
        """The open file of a descriptor that a kernel has used in this turn."""

    def on_advanced(self, slot: int) -> None:
        """A slot whose waiter bit was set has advanced."""

    def on_read_ahead(self, token: int) -> None:
        """A range has been read into the page cache."""

    def divide_descriptors(self) -> None:
        """Close cached files if more connections need their descriptors."""
