"""Repeated requests for ApiVersions are answered by compiled code, and an event names the client to
Python; Python answers the others."""

import mmap
import socket
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from kbroker.api.error_counts import ErrorCounts
from kbroker.api.version_answers import LocalAnswers
from kbroker.ipc.messages import ClientRequest
from kbroker.metrics import layout as ml
from kbroker.metrics.slots import bind, private
from kbroker.net.api_versions import KnownRequest, Learn
from kbroker.net.rows import AnswerTable
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode_exact
from kbroker.protocol.frame import encode_request
from kbroker.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.net.conftest import NodeFactory
from tests.net.doubles import SERVED, NetNode, ask, read_frame
from tests.net.forward.forwarded import asking, framed
from tests.peer.eventually import eventually

KEY = ApiKey.API_VERSIONS
RECEIVED = bind("kbroker_received_bytes_total")
PYTHONS = 2
"""Requests with the same bytes that Python answers before the kernel does."""
SASL = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "inter.broker.listener.name": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
}


class Counted(LocalAnswers):
    """Counts the requests that Python is asked about, in whatever process. after: called then."""

    def __init__(self) -> None:
        super().__init__(ErrorCounts(private()), SERVED)
        self._count = mmap.mmap(-1, 4)

    @property
    def requests(self) -> int:
        return int.from_bytes(self._count[:4])

    def known(self, frame: bytes) -> KnownRequest | None:
        self._count[:4] = (self.requests + 1).to_bytes(4)
        return super().known(frame)

    def answer(self, client: ClientRequest, frame: bytes | memoryview, learn: Learn) -> bytes:
        if client.listener.startswith("SASL"):  # `known` is not asked there
            self._count[:4] = (self.requests + 1).to_bytes(4)
        return super().answer(client, frame, learn)


def greeting(number: int, software: str = "java", version: int = 3) -> bytes:
    return encode_request(KEY, version, number, "test", ApiVersionsRequest(software, "1.0"))


Started = Callable[..., tuple[NetNode, Counted]]


@pytest.fixture
def started(node_factory: NodeFactory) -> Started:
    def start(**settings: str) -> tuple[NetNode, Counted]:
        answers = Counted()
        given = {name.replace("_", "."): value for name, value in settings.items()}
        node = node_factory(
            {"t": 1},
            settings=given,
            answer=lambda request: framed(request.correlation_id),
            version_answers=answers,
        )
        return node, answers

    return start


def greet(link: socket.socket, number: int, software: str = "java") -> bytes:
    """The answer, without its size and its correlation id."""
    answer = ask(link, greeting(number, software))
    assert int.from_bytes(answer[:4], signed=True) == number
    return answer[4:]


def test_a_repeated_request_is_answered_without_python(started: Started) -> None:
    node, answers = started()
    found = {greet(node.connect(), number) for number in (1, 2, 3, -4, 1 << 30)}
    assert len(found) == 1
    assert answers.requests == PYTHONS


@pytest.mark.parametrize("version", range(5))
def test_each_version_has_its_own_answer(started: Started, version: int) -> None:
    node, answers = started()
    link = node.connect()
    found = {ask(link, greeting(5, version=version)) for _ in range(4)}
    assert len(found) == 1
    answer = decode_exact(ApiVersionsResponse, version, found.pop(), 4)
    assert {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys} == SERVED
    assert answers.requests == PYTHONS
    ask(link, greeting(5, version=(version + 1) % 5))
    assert answers.requests == PYTHONS + 1


def test_it_is_counted_like_pythons(started: Started) -> None:
    node, _ = started()
    for number in range(5):
        greet(node.connect(), number)
    counted = node.shared.metrics[0]
    size = len(greeting(0))
    assert counted[ml.REQUESTS + KEY * ml.VERSION_COUNT + 3] == 5
    assert counted[ml.REQUEST_BYTES + KEY] == 5 * size
    assert counted[ml.ERRORS + KEY * ml.ERROR_COUNT + 1] == 5 - PYTHONS  # Python's are in other slots here
    total = ml.PHASE_SECONDS + (KEY * ml.PHASE_COUNT + ml.PHASE_TOTAL) * ml.HISTOGRAM_WORDS
    assert counted[total : total + ml.HISTOGRAM_BUCKETS].sum() == 5


def test_control_gets_the_software_of_the_last_greeting_even_in_one_segment(started: Started) -> None:
    node, _ = started()
    for software in ("java", "librdkafka"):
        for number in range(PYTHONS):
            greet(node.connect(), number, software)
    link = node.connect()
    link.sendall(
        b"".join(
            (
                asking(1),
                greeting(2, "java"),
                asking(3),
                greeting(4, "librdkafka"),
                asking(5),
                asking(6),
                greeting(7, "java"),
                asking(8),
            )
        )
    )
    answered = [int.from_bytes(read_frame(link)[:4]) for _ in range(8)]
    assert answered == list(range(1, 9))
    names = [request.software_name for request in node.control.requests]
    assert names == ["", "java", "librdkafka", "librdkafka", "java"]


def test_an_image_makes_it_forget(started: Started) -> None:
    node, answers = started()
    before = {greet(node.connect(), number) for number in range(4)}
    node.control.send(replace(node.image, version=2, features={"transaction.version": 1}, features_epoch=4))
    after = {greet(node.connect(), number) for number in range(4)}
    assert len(before) == len(after) == 1
    assert before != after
    assert answers.requests == 2 * PYTHONS


def test_more_requests_than_fit_are_answered_all_the_same(started: Started) -> None:
    node, _ = started()
    link = node.connect()
    assert len({greet(link, 1, f"software{n}") for n in range(AnswerTable.MAX_ANSWERS + 10)}) == 1


def test_before_a_login_it_is_pythons(started: Started) -> None:
    node, answers = started(**{name.replace(".", "_"): value for name, value in SASL.items()})
    for number in range(5):
        greet(node.connect(), number)
    assert answers.requests == 5


def test_requests_wait_for_the_peer_without_counting_as_stalled(started: Started) -> None:
    node, _ = started()
    for number in range(3):
        link = node.connect()
        assert ask(link, asking(number)) == framed(number)[4:]
    counted = node.shared.metrics[0]
    eventually(lambda: counted[RECEIVED] == 3 * len(asking(0)))  # both are counted once a second
    assert counted[ml.NETWORK_STALLS] == 0
