"""Python source of a decoder or encoder while it is being written."""

from abc import ABC, abstractmethod
from typing import Any

from kbroker.protocol.schema import Struct


class CodecSource(ABC):
    """Lines of one function for one (struct, version). names: the globals of the function."""

    def __init__(
        self, head: str, names: dict[str, Any], cls: type[Struct], version: int, sliced: bool
    ) -> None:
        self.sliced = sliced
        self.version = version
        self.message = f"{cls.__name__} v{version}"
        self.names = names
        self.lines = [head]
        self.indent = 1
        self.counter = 0

    @abstractmethod
    def flush(self) -> None:
        """Writes the pending run of fixed fields as one call."""

    def line(self, text: str, flush: bool = False) -> None:
        """Appends a line; flush: after the pending run."""
        if flush:
            self.flush()
        self.lines.append("    " * self.indent + text)

    def fresh(self, prefix: str) -> str:
        """An unused name of a local variable."""
        self.counter += 1
        return f"{prefix}{self.counter}"

    def fail(self, text: str) -> str:
        """The statement that refuses a message."""
        return f"raise ProtocolError({f'{self.message}: {text}'!r})"
