"""A broker under attack: raw requests, answers as they come."""

from typing import Any

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.schema import Struct
from tests.compat.raw import SocketPeer
from tests.peer.kbroker_node import KBroker


class Target(SocketPeer):
    """A broker that answers every one of these requests."""

    def ask(self, api: ApiKey, version: int, request: Struct) -> Any:
        answer = super().ask(api, version, request)
        assert answer is not None, f"{api.name} was not answered: the connection was closed"
        return answer


def port_of(broker: KBroker) -> int:
    return int(broker.bootstrap.rpartition(":")[2])


def target(broker: KBroker) -> Target:
    return Target(port_of(broker))
