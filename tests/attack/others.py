"""Other clients beside an attack, and how long they waited."""

import multiprocessing
import socket
import struct
import time
from itertools import cycle
from multiprocessing.synchronize import Event
from typing import Any

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.frame import encode_request
from kbroker.protocol.messages.list_groups import ListGroupsRequest
from tests.compat.raw import receive


def ask_again_and_again(port: int, begun: Event, stop: Event, waits: Any) -> None:
    """Another client: asks control something short, in a short and in a longer request, every 5 ms;
    says how long each answer took."""
    states = ["Nix"], ["Nix"] * 400
    requested = [
        encode_request(ApiKey.LIST_GROUPS, 4, 1, "other", ListGroupsRequest(each)) for each in states
    ]
    questions = cycle(requested)
    took = []
    with socket.create_connection(("127.0.0.1", port)) as link:
        while not stop.is_set():
            began = time.monotonic()
            link.sendall(next(questions))
            size = receive(link, 4)
            assert size is not None
            receive(link, struct.unpack(">i", size)[0])
            took.append(time.monotonic() - began)
            begun.set()
            time.sleep(0.005)
    waits.put(sorted(took))


class Others:
    """Others' waits, in seconds, while the block runs."""

    def __init__(self, port: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.begun, self.stop, self._queue = context.Event(), context.Event(), context.Queue()
        self._process = context.Process(
            target=ask_again_and_again, args=(port, self.begun, self.stop, self._queue)
        )
        self.waits: list[float] = []

    def __enter__(self) -> "Others":
        self._process.start()
        assert self.begun.wait(60), "the other client has not begun"
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.waits = self._queue.get(timeout=120)
        self._process.join()
