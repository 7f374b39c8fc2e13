"""Ends of logs are asked for while IO workers die: no client gets less than what acks=all had
acknowledged before."""

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kbroker.protocol.codec import decode_exact
from kbroker.protocol.frame import encode_request, parse_response
from kbroker.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tests.crash.load import PARTITIONS, Load
from tests.crash.sited import create, start_sites, wait_for_in_sync
from tests.net.doubles import ask
from tests.peer.eventually import eventually
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

KILLS = 10
LIST_OFFSETS, VERSION, LATEST = 2, 11, -1
PAUSE_S = 0.001


class Asker(threading.Thread):
    """Asks one node for the ends of a topic's partitions, again and again. stale: (partition,
    returned, acknowledged before)."""

    def __init__(self, port: int, load: Load) -> None:
        super().__init__(name=f"asker-{port}")
        self._port = port
        self._load = load
        self._stop_asking = threading.Event()
        self.answers = 0
        self.stale: list[tuple[int, int, int]] = []

    def run(self) -> None:
        """Until `stop`."""
        parts = [ListOffsetsPartition(index, -1, LATEST) for index in range(PARTITIONS)]
        expected = ListOffsetsRequest(-1, 0, [ListOffsetsTopic(self._load.topic, parts)], 30_000)
        frame = encode_request(LIST_OFFSETS, VERSION, 1, "test", expected)
        with socket.create_connection(("127.0.0.1", self._port), 30) as link:
            while not self._stop_asking.wait(PAUSE_S):
                before = {index: max(acked, default=-1) for index, acked in self._acknowledged()}
                answer = ask(link, frame)
                _, start = parse_response(answer, LIST_OFFSETS, VERSION)
                self._judge(decode_exact(ListOffsetsResponse, VERSION, answer, start), before)

    def _acknowledged(self) -> list[tuple[int, list[int]]]:
        return [(index, list(acked)[-1:]) for index, acked in list(self._load.acknowledged.items())]

    def _judge(self, answer: ListOffsetsResponse, before: dict[int, int]) -> None:
        for reported in answer.topics[0].partitions:
            self.answers += reported.error_code == 0
            if reported.error_code == 0 and reported.offset <= before.get(reported.partition_index, -1):
                self.stale.append(
                    (reported.partition_index, reported.offset, before[reported.partition_index])
                )

    def stop(self) -> None:
        """Ask no more."""
        self._stop_asking.set()
        self.join()


def test_no_end_below_an_acknowledged_offset_is_reported(
    broker_factory: Callable[..., KBroker], tmp_path: Path
) -> None:
    broker, dirs = start_sites(broker_factory, tmp_path, 2)
    create(broker, "reported", PARTITIONS, 2)
    load = Load(broker.bootstrap, "reported")
    load.start()
    load.wait_for_acks()
    first = int(broker.bootstrap.rpartition(":")[2])
    askers = [Asker(first + number, load) for number in range(len(dirs))]
    for asker in askers:
        asker.start()
    try:
        for number in range(KILLS):
            wait_for_in_sync(broker, "reported", 2)
            broker.kill9_running(f"io {number % 2}")
            load.wait_for_acks()
            time.sleep(0.1)
        eventually(lambda: all(asker.answers > 100 for asker in askers))
    finally:
        for asker in askers:
            asker.stop()
        load.stop()
    assert [asker.stale[:5] for asker in askers] == [[], []]
    broker.stop()
