"""The http process dies between a schema's record and the answer: the schema has one id, whichever
process asks again."""

import itertools
import threading
import time
from typing import Self

import pytest

from tests.compat.registry_requests import LISTEN, ORDER, ask, url_of
from tests.conftest import BrokerFactory

pytestmark = pytest.mark.crash

KILLS = 5


class Registering:
    """Registers one schema after the other until it is stopped, in a thread; what gets no answer is
    asked again."""

    def __init__(self, url: str) -> None:
        self.answered: dict[int, int] = {}
        self.retried = 0
        self._url = url
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._register)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        before = len(self.answered)
        deadline = time.monotonic() + 60
        while len(self.answered) == before and time.monotonic() < deadline:
            time.sleep(0.01)
        self._stop.set()
        self._thread.join()

    def _register(self) -> None:
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
        for _ in range(KILLS):
            before = len(answered)
            deadline = time.monotonic() + 60
            while len(answered) < before + 20:
                assert time.monotonic() < deadline
                time.sleep(0.005)
            broker.kill9_running("http")
    assert registering.retried
    assert len(set(answered.values())) == len(answered)
    for number, schema_id in answered.items():
        assert ask(f"{url}/schemas/ids/{schema_id}")[1]["schema"] == schema(number)
        assert ask(f"{url}/subjects/subject-{number}/versions")[1] == [1]
    everything = ask(f"{url}/schemas")[1]
    assert len({row["id"] for row in everything}) == len(everything)
    assert [row["id"] for row in sorted(everything, key=lambda row: row["id"])] == list(
        range(1, len(everything) + 1)
    )
