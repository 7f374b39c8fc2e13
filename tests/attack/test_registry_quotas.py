"""Used-up quotas of a user of the schema registry: answers of a running broker to requests of a
registry in this process, whose waits are recorded."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kbroker.http.console.caller import Caller
from kbroker.http.console.turns import Turns
from kbroker.http.registry.failure import Failure
from kbroker.http.registry.registration import register
from kbroker.http.registry.topic import SchemaTopic
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from tests.attack.peers import port_of, target
from tests.attack.processes import until
from tests.compat.registry_requests import LISTEN, ask, url_of
from tests.conftest import BrokerFactory
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

LONG_S = 60.0
PAUSE_S = 0.1
PATH = "subjects/s/versions"


class OwnRegistry:
    """Registers schemas in the topic of a broker. waits: for each wait for a quota, whether another
    thread could lock the topic meanwhile."""

    def __init__(self, node: KBroker) -> None:
        self.topic = SchemaTopic()
        self.waits: list[bool] = []
        self.max_wait_s = 0.0  # a quota for writing would take too long
        port = port_of(node)
        self.caller = Caller(lambda _: ("127.0.0.1", port), (1,), None, Turns(), sleep_s=self._wait)

    def _wait(self, seconds: float) -> None:
        def attempt() -> None:
            self.waits.append(self.topic.lock.acquire(blocking=False))
            if self.waits[-1]:
                self.topic.lock.release()

        other = threading.Thread(target=attempt)
        other.start()
        other.join(LONG_S)
        time.sleep(min(seconds, self.max_wait_s))

    def register(self, schema: str, **more: Any) -> int:
        return register(self.topic, self.caller, "s", {"schema": schema, **more}, False).id


@pytest.fixture
def node(broker_factory: BrokerFactory) -> Iterator[KBroker]:
    node = broker_factory(LISTEN)
    yield node
    assert "Traceback" not in node.logs(1 << 20)


@pytest.fixture
def registry(node: KBroker) -> Iterator[OwnRegistry]:
    found = OwnRegistry(node)
    yield found
    found.caller.close()


def limit(node: KBroker, key: str, value: float) -> None:
    """A quota for both registries, as for any client of the http process."""
    entity = RequestEntityData("client-id", "kbroker-console")
    entry = RequestEntryData([entity], [OpData(key, value, False)])
    answer = target(node).ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, AlterClientQuotasRequest([entry]))
    assert answer.entries[0].error_code == 0


def test_a_used_up_quota_for_reading_delays_an_answer(node: KBroker, registry: OwnRegistry) -> None:
    """The broker answers the Fetch without an error and without partitions. Both registries use up
    one quota, so one of them may wait for too long."""
    assert ask(f"{url_of(node)}/{PATH}", {"schema": '"int"'}) == (200, {"id": 1})
    limit(node, "consumer_byte_rate", 500.0)
    registry.max_wait_s = 2.0

    def has_waited() -> bool:
        status, answer = ask(f"{url_of(node)}/{PATH}")
        assert (status, answer) == (200, [1]) or (status == 503 and answer["error_code"] == 50003)
        try:
            assert list(registry.topic.refresh(registry.caller).subjects["s"]) == [1]
        except Failure as failure:
            if not failure.is_busy:
                raise
        if not registry.waits:
            time.sleep(PAUSE_S)
        return bool(registry.waits)

    until(has_waited, LONG_S)


def test_a_used_up_quota_for_writing_is_waited_for_without_the_lock(
    node: KBroker, registry: OwnRegistry
) -> None:
    """The broker reads nothing more from a connection whose quota is used up, for the throttle time
    of its answer."""
    registry.register('"int"')
    limit(node, "producer_byte_rate", 1.0)
    assert ask(f"{url_of(node)}/config", {"compatibility": "NONE"}, method="PUT")[0] == 200
    numbers = iter(range(2, 1000))

    def has_waited() -> bool:
        number = next(numbers)
        assert registry.register(f'{{"type":"fixed","name":"F","size":{number}}}') == number
        return bool(registry.waits)

    until(has_waited, LONG_S)
    has_waited()
    assert all(registry.waits)


def test_a_schema_that_is_too_large_for_the_topic_takes_no_id(registry: OwnRegistry) -> None:
    with pytest.raises(Failure, match="MESSAGE_TOO_LARGE"):
        registry.register('"int"', metadata={"properties": {"a": "a" * (1 << 21)}})
    assert registry.register('"long"') == 1
    assert list(registry.topic.state.subjects["s"]) == [1]
