"""A peer of the raw comparison that calls control's dispatch directly, in a separate event loop."""

from typing import Any
from weakref import WeakKeyDictionary

from kbroker.api.registry import Dispatch
from kbroker.control.broker import Broker
from kbroker.ipc.messages import ClientRequest
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode_exact, encode
from kbroker.protocol.frame import parse_response
from kbroker.protocol.long_frame import LongFrame
from kbroker.protocol.messages import response_class
from kbroker.protocol.schema import Struct
from tests.control.coordinator.runtime_scene import answer_of
from tests.control.fakes import services_of


def client_request(api: ApiKey, version: int, body: bytes, correlation_id: int = 7) -> ClientRequest:
    """The message that a network process would send."""
    return ClientRequest(
        connection_id=1,
        api_key=api,
        api_version=version,
        correlation_id=correlation_id,
        client_id="raw",
        listener="PLAINTEXT",
        client_host="127.0.0.1",
        client_port=50000,
        principal="User:ANONYMOUS",
        body=body,
    )


_DISPATCHES: WeakKeyDictionary[Broker, Dispatch] = WeakKeyDictionary()


def dispatch_of(broker: Broker) -> Dispatch:
    """The dispatch that answers a broker's requests."""
    if broker not in _DISPATCHES:
        _DISPATCHES[broker] = Dispatch(services_of(broker))
    return _DISPATCHES[broker]


async def send(broker: Broker, api: ApiKey, version: int, request: Struct | bytes) -> bytes | None:
    """The whole answer frame, None when the connection would be closed."""
    body = request if isinstance(request, bytes) else encode(request, version)
    found = await answer_of(dispatch_of(broker)(client_request(api, version, body)))
    return bytes(found) if isinstance(found, LongFrame) else found


async def ask(broker: Broker, api: ApiKey, version: int, request: Struct) -> Any:
    """The decoded answer."""
    frame = await send(broker, api, version, request)
    if frame is None:
        return None
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    correlation_id, start = parse_response(frame[4:], api, version)
    assert correlation_id == 7
    return decode_exact(response_class(api), version, frame[4:], start)
