"""The http process dies between a schema's record and the answer: the schema has one id, whoever asks again."""

import itertools
import threading
import time

import pytest

from tests.compat.test_registry_clients import LISTEN, ORDER, ask, url_of
from tests.conftest import BrokerFactory

pytestmark = pytest.mark.crash

KILLS = 5


def test_schemas_registered_while_the_http_process_is_killed_have_one_id_each(
    broker_factory: BrokerFactory,
) -> None:
    broker = broker_factory(LISTEN)
    url = url_of(broker)
    answered: dict[int, int] = {}
    retried = 0
    stop = threading.Event()

    def register() -> None:
        nonlocal retried
        for number in itertools.count():
            schema = ORDER.replace("Order", f"Order{number}")
            while not stop.is_set():
                try:
                    status, found = ask(f"{url}/subjects/subject-{number}/versions", {"schema": schema})
                except OSError:
                    retried += 1
                    time.sleep(0.01)
                    continue
                assert status == 200, found
                answered[number] = found["id"]
                break
            if stop.is_set():
                return

    thread = threading.Thread(target=register)
    thread.start()
    try:
        for _ in range(KILLS):
            before = len(answered)
            deadline = time.monotonic() + 60
            while len(answered) < before + 20:
                assert time.monotonic() < deadline
                time.sleep(0.005)
            broker.kill9_running("http")
    finally:
        before = len(answered)
        deadline = time.monotonic() + 60
        while len(answered) == before and time.monotonic() < deadline:
            time.sleep(0.01)
        stop.set()
        thread.join()
    assert retried
    assert len(set(answered.values())) == len(answered)
    for number, schema_id in answered.items():
        text = ask(f"{url}/schemas/ids/{schema_id}")[1]["schema"]
        assert text == ORDER.replace("Order", f"Order{number}")
        assert ask(f"{url}/subjects/subject-{number}/versions")[1] == [1]
    everything = ask(f"{url}/schemas")[1]
    assert len({row["id"] for row in everything}) == len(everything)
    assert [row["id"] for row in sorted(everything, key=lambda row: row["id"])] == list(
        range(1, len(everything) + 1)
    )
