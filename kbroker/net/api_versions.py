"""ApiVersions, the first request of nearly every connection.

Clients of the same software and client id send the same bytes, but for the correlation id. So an
answer is cached by the bytes of its request, and a new connection costs no decoding.
"""

from collections.abc import Callable
from typing import Final, Protocol

from msgspec import Struct

from kbroker.ipc.messages import ClientRequest, Image
from kbroker.protocol.api_keys import ApiKey

Learn = Callable[[str, str], None]
"""Called with name and version of the client's software."""
_KEY: Final = ApiKey.API_VERSIONS.to_bytes(2, "big")


class KnownRequest(Struct, frozen=True):
    """A valid request and its answer. answer: the whole frame, for any correlation id."""

    version: int
    client_id: str | None
    software_name: str
    software_version: str
    answer: bytes

    def answer_to(self, frame: bytes | memoryview) -> bytes:
        """The answer with the correlation id of a request, which is given without its size."""
        return b"".join((self.answer[:4], frame[4:8], self.answer[8:]))


class VersionAnswers(Protocol):
    """Answers requests for ApiVersions. They must not block."""

    def take(self, image: Image) -> None:
        """Called with each image of control before any later request."""

    def known(self, frame: bytes) -> KnownRequest | None:
        """The cached answer to a request; the caller sends it. frame: the request without its
        size."""

    def answer(self, client: ClientRequest, frame: bytes | memoryview, learn: Learn) -> bytes:
        """The whole frame of the answer. frame: the request without its size. Raises
        ProtocolError."""


def is_api_versions(frame: bytes) -> bool:
    """Whether a request, without its size, is one for ApiVersions."""
    return frame.startswith(_KEY)


def key_of(frame: bytes) -> bytes:
    """All but the correlation id of a request, which is given without its size."""
    return frame[:4] + frame[8:]
