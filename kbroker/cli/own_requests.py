"""Requests that both client libraries lack, sent over kafka-python's connections with its TLS,
logins and versions.

A `Question` makes a request of kafka-python from the broker's own message classes: it has the key,
the versions, the bytes and the class of the response.
"""

from collections.abc import Sequence
from typing import Any, Self

import msgspec

from kbroker.cli.connection import Connection
from kbroker.cli.coordinators import MOVING, coordinator_answer
from kbroker.cli.failures import CommandFailed, broker_error
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode_exact
from kbroker.protocol.frame import encode_request, parse_response
from kbroker.protocol.messages import response_class
from kbroker.protocol.messages.index import APIS
from kbroker.protocol.schema import Struct


class _ResponseHeader(msgspec.Struct, frozen=True):
    correlation_id: int


class Question:
    """One request. For kafka-python it is also its header and the class of its response."""

    _min_version: int | None = None
    _max_version: int | None = None
    API_VERSION: int | None = None
    correlation_id = 0

    def __init__(self, api: ApiKey, request: Struct) -> None:
        self.api = api
        self.API_KEY = self.api_key = int(api)
        self.min_version = APIS[api].min_version
        self.max_version = APIS[api].max_version
        self.name = api.name
        self.request = request
        self._client_id = ""

    def __str__(self) -> str:
        return f"{self.name}({self.request})"

    @property
    def api_version(self) -> int:
        """The version that was negotiated with the broker."""
        return self.API_VERSION or 0

    @property
    def header(self) -> "Question":
        """The header that kafka-python keeps until the response arrives."""
        return self

    def expect_response(self) -> bool:
        return True

    def with_header(self, correlation_id: int = 0, client_id: str = "") -> None:
        self.correlation_id, self._client_id = correlation_id, client_id

    def encode(self, **_: Any) -> bytes:
        """The frame with its size."""
        return encode_request(self.api, self.api_version, self.correlation_id, self._client_id, self.request)

    def get_response_class(self) -> "Question":
        return self

    def parse_header(self, frame: Any) -> _ResponseHeader:
        """Read the header of the response; the buffer is then at its body."""
        correlation_id, start = parse_response(bytes(frame), self.api, self.api_version)
        frame.seek(start)
        return _ResponseHeader(correlation_id)

    def decode(self, frame: Any) -> Struct:
        """The response. Raises ValueError if it is malformed."""
        return decode_exact(response_class(self.api), self.api_version, bytes(frame), frame.tell())


def ask_broker(broker: Connection, api: ApiKey, request: Struct) -> Any:
    """Send a request to any broker; returns its response. Raises CommandFailed."""
    (answer,) = ask_broker_each(broker, api, [request])
    return answer


def ask_broker_each(broker: Connection, api: ApiKey, requests: Sequence[Struct]) -> list[Any]:
    """Send several requests over one connection; returns their responses. Raises CommandFailed."""
    with broker.kafka_python_admin() as admin:
        return [admin._manager.run(admin._manager.send, Question(api, request)) for request in requests]


def ask_every_broker(broker: Connection, api: ApiKey, request: Struct) -> dict[int, Any]:
    """Send a request to each broker; returns the responses by broker id. Raises CommandFailed."""
    with broker.kafka_python_admin() as admin:
        nodes = sorted(node.node_id for node in admin._manager.cluster.brokers())
        return {node: admin._manager.run(admin._manager.send, Question(api, request), node) for node in nodes}


def ask_coordinator(broker: Connection, group: str, api: ApiKey, request: Struct) -> Any:
    """Send a request to a group's coordinator, with retries while it moves; returns its response.
    Raises CommandFailed."""
    with GroupCoordinators(broker) as coordinators:
        return coordinators.ask(group, api, request)[1]


class GroupCoordinators:
    """The coordinators of groups, cached until they move."""

    def __init__(self, broker: Connection) -> None:
        self._broker = broker
        self._admin: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._forget()

    def offers(self, api: ApiKey) -> bool:
        """Whether the brokers support this request. Raises CommandFailed."""
        return int(api) in self._connected()._manager.broker_version_data.api_versions

    def ask(
        self, group: str, api: ApiKey, request: Struct, max_version: int | None = None
    ) -> tuple[int, Any]:
        """Send a request to the group's coordinator; returns its broker id and the response.
        max_version: the last version that has the request's fields. Raises CommandFailed."""

        def ask() -> tuple[int, Any]:
            admin = self._connected()
            question = Question(api, request)
            if max_version is not None:
                question.max_version = max_version
            node_id, answer = admin._manager.run(self._send, admin, group, question)
            if (code := _error_of(answer)) in MOVING:
                self._forget()
                raise _Moving(code)
            return node_id, answer

        return coordinator_answer(ask, f"group {group}", self._broker.timeout_s)

    async def _send(self, admin: Any, group: str, question: Question) -> tuple[int, Any]:
        node_id = await admin._find_coordinator_id(group)
        return node_id, await admin._manager.send(question, node_id=node_id)

    def _connected(self) -> Any:
        if self._admin is None:
            self._admin = self._broker.kafka_python_admin()
        return self._admin

    def _forget(self) -> None:
        """Close the client, because it caches coordinators."""
        if self._admin is not None:
            self._admin.close()
        self._admin = None


class _Moving(CommandFailed):
    """The coordinator has moved or is loading."""

    def __init__(self, errno: int) -> None:
        failure = broker_error(errno)
        super().__init__(failure.message, failure.code)
        self.errno = errno


def _error_of(answer: Any) -> int:
    """The error code of a response, or of its only group."""
    groups: Sequence[Any] = getattr(answer, "groups", ())
    return int(groups[0].error_code if len(groups) == 1 else getattr(answer, "error_code", 0))
