"""The http process dies between a schema's record and the answer: the schema has one id, whichever
process asks again."""

import itertools
import signal
import time
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from kbroker.ipc.crash_point import VARIABLE
from tests.compat.registry_requests import LISTEN, ORDER, ask, url_of
from tests.conftest import BrokerFactory
from tests.crash.load import watermarks
from tests.peer.kbroker_node import KBroker
from tests.peer.side_work import Beside

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

KILLS = 5


class Registering(Beside):
    """Registers one schema after the other until it is stopped, in a thread; what gets no answer is
    asked again."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.answered: dict[int, int] = {}
        self.retried = 0
        self._url = url

    def __exit__(self, *_: object) -> None:
        before = len(self.answered)
        deadline = time.monotonic() + 60
        while len(self.answered) == before and time.monotonic() < deadline:
            time.sleep(0.01)
        super().__exit__()

    def _work(self) -> None:
        for number in itertools.count():
            body = {"schema": schema(number)}
            while not self._stop.is_set():
                try:
                    status, found = ask(f"{self._url}/subjects/subject-{number}/versions", body)
                except OSError:
                    self.retried += 1
                    time.sleep(0.01)
                    continue
                assert status == 200, found
                self.answered[number] = found["id"]
                break
            if self._stop.is_set():
                return


def schema(number: int) -> str:
    return ORDER.replace("Order", f"Order{number}")


def test_schemas_registered_while_the_http_process_is_killed_have_one_id_each(
    broker_factory: BrokerFactory,
) -> None:
    broker = broker_factory(LISTEN)
    url = url_of(broker)
    with Registering(url) as registering:
        answered = registering.answered
        kills = 0
        while kills < KILLS or not registering.retried:
            before = len(answered)
            deadline = time.monotonic() + 120
            while len(answered) < before + 20:
                assert time.monotonic() < deadline
                time.sleep(0.005)
            broker.kill9_running("http")
            kills += 1
            assert kills < 10 * KILLS, "no request is cut"
    assert len(set(answered.values())) == len(answered)
    for number, schema_id in answered.items():
        assert ask(f"{url}/schemas/ids/{schema_id}")[1]["schema"] == schema(number)
        assert ask(f"{url}/subjects/subject-{number}/versions")[1] == [1]
    everything = ask(f"{url}/schemas")[1]
    assert len({row["id"] for row in everything}) == len(everything)
    assert [row["id"] for row in sorted(everything, key=lambda row: row["id"])] == list(
        range(1, len(everything) + 1)
    )


def ask_and_die(broker: KBroker, path: str, body: Any, method: str | None = None) -> None:
    """One request, whose change is in the log when the broker dies before it answers. It starts
    again."""
    broker.stop()
    broker.environment[VARIABLE] = "registry: written, not answered:1"
    broker.start()
    with pytest.raises(OSError):  # the connection is closed or reset
        ask(url_of(broker) + path, body, method=method)
    assert broker.process is not None
    assert broker.process.wait(90) == -signal.SIGKILL
    broker.kill9()
    broker.environment.clear()
    broker.start()


def schema_records(broker: KBroker) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values of `_schemas`."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "reader"})
    partition = TopicPartition("_schemas", 0, 0)
    count = watermarks(consumer, partition)[1]
    consumer.assign([partition])
    found = consumer.consume(count, 90)
    consumer.close()
    assert len(found) == count
    return [(message.key(), message.value()) for message in found]


def test_a_change_that_was_written_and_not_answered_is_made_once(broker_factory: BrokerFactory) -> None:
    """A confined process may not kill its parent on every kernel."""
    broker = broker_factory(LISTEN | {"kbroker.confine.processes": "false"})
    ask(f"{url_of(broker)}/subjects/before/versions", {"schema": schema(0)})
    requested = {"schema": schema(1)}
    ask_and_die(broker, "/subjects/one/versions", requested)
    assert ask(f"{url_of(broker)}/subjects/one/versions", requested) == (200, {"id": 2})
    assert ask(f"{url_of(broker)}/subjects/one/versions") == (200, [1])
    assert len(schema_records(broker)) == 2

    ask_and_die(broker, "/subjects/one/versions/1", None, "DELETE")
    again = ask(f"{url_of(broker)}/subjects/one/versions/1", method="DELETE")
    assert (again[0], again[1]["error_code"]) == (404, 40406)  # already deleted
    ask_and_die(broker, "/subjects/one/versions/1?permanent=true", None, "DELETE")
    assert ask(f"{url_of(broker)}/subjects?deleted=true") == (200, ["before"])
    # its id stays used, although the process that gave it has died
    assert ask(f"{url_of(broker)}/subjects/next/versions", {"schema": schema(2)}) == (200, {"id": 3})
