"""Client quotas, set through an admin client."""

from typing import Any

from kbroker.protocol.api_keys import ApiKey
from tests.compat.quota_cases import alter
from tests.compat.raw import SocketPeer
from tests.peer.kbroker_node import KBroker


def peer_of(broker: KBroker, client_id: str = "raw") -> SocketPeer:
    return SocketPeer(int(broker.bootstrap.rpartition(":")[2]), client_id)


def set_quotas(broker: KBroker, *entries: Any) -> None:
    answer: Any = peer_of(broker).ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, alter(*entries))
    assert [each.error_code for each in answer.entries] == [0] * len(entries)
