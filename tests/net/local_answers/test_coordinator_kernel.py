"""FindCoordinator for new keys is answered from a template, byte by byte as control would."""

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.ipc.messages import ClientRequest
from kbroker.metrics import layout as ml
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import encode
from kbroker.protocol.frame import encode_request
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.api.in_process import send
from tests.control.fakes import World, world
from tests.net.conftest import NodeFactory
from tests.net.doubles import NetNode, ask

GROUP, TRANSACTION, SHARE = 0, 1, 2
MANY_KEYS = 4
TYPES = [(version, kind) for version in range(7) for kind in (GROUP, TRANSACTION) if version or kind == GROUP]
"""Version 0 knows no type."""
API = ApiKey.FIND_COORDINATOR
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


class Case:
    """A network process beside control, whose words of cached answers it has."""

    def __init__(
        self, made: World, node_factory: NodeFactory, settings: Mapping[str, str] | None = None
    ) -> None:
        self.made = made
        self.ready: Any = SimpleNamespace(is_ready=True)
        made.broker.coordinators.update({GROUP: self.ready, TRANSACTION: self.ready, SHARE: self.ready})
        self.node: NetNode = node_factory({"t": 1}, settings=settings, answer=self.answer)
        self.share_words()
        self.link = self.node.connect()

    def answer(self, request: ClientRequest) -> bytes | None:
        return asyncio.run(send(self.made.broker, API, request.api_version, request.body))

    def share_words(self) -> None:
        self.node.shared.cached_answers[:] = self.made.shared.cached_answers

    @property
    def forwarded(self) -> int:
        return len(self.node.control.requests)

    def asked(self, version: int, request: FindCoordinatorRequest) -> bool:
        """Whether control was called; the answer is checked."""
        before = self.forwarded
        expected = asyncio.run(send(self.made.broker, API, version, encode(request, version)))
        assert expected is not None
        assert ask(self.link, encode_request(API, version, 7, "c", request)) == expected[4:], request
        return self.forwarded > before


@pytest.fixture
def case(tmp_path: Path, node_factory: NodeFactory) -> Iterator[Case]:
    with world(tmp_path, {}) as made:
        yield Case(made, node_factory)


def about(key: str, version: int, kind: int = GROUP) -> FindCoordinatorRequest:
    if version >= MANY_KEYS:
        return FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
    return FindCoordinatorRequest(key, kind)


@pytest.mark.parametrize(("version", "kind"), TYPES)
def test_control_answers_the_first_key_of_a_type(case: Case, version: int, kind: int) -> None:
    random = Random(version)
    assert case.asked(version, about("first", version, kind))
    for size in (0, 1, 5, 126, 127, 128, 1024):
        key = "".join(random.choices("abc-.:09", k=size))
        assert not case.asked(version, about(key, version, kind)), size
        assert not case.asked(version, about(key, version, kind)), size
    metrics = case.node.shared.metrics[0]
    assert metrics[ml.REQUESTS + API * ml.VERSION_COUNT + version] == 15


def test_a_type_has_its_own_template(case: Case) -> None:
    assert case.asked(6, about("one", 6, GROUP))
    assert case.asked(6, about("one", 6, TRANSACTION))
    assert not case.asked(6, about("two", 6, GROUP))
    assert not case.asked(6, about("two", 6, TRANSACTION))


def test_a_change_ends_the_template(case: Case) -> None:
    assert case.asked(4, about("one", 4))
    case.made.broker.cached_answers.topics_changed()
    case.share_words()
    assert case.asked(4, about("two", 4))
    assert not case.asked(4, about("three", 4))


def test_a_coordinator_that_is_not_ready_makes_no_template(case: Case) -> None:
    async def ready() -> None: ...

    case.ready.is_ready, case.ready.ready = False, ready
    assert all(case.asked(4, about(key, 4)) for key in ("one", "two"))


def test_other_requests_are_controls(case: Case) -> None:
    assert case.asked(6, about("one", 6))
    several = FindCoordinatorRequest(coordinator_keys=["two", "three"])
    no_key = FindCoordinatorRequest(coordinator_keys=[])
    shared = about("group:AAAAAAAAAAAAAAAAAAAAAQ:0", 6, SHARE)
    others = [several, no_key, shared, about("x" * 1025, 6), about("grüppe", 6), about("k", 6, 9)]
    assert [case.asked(6, each) for each in others] == [True] * len(others)


def test_a_client_that_acls_bind_is_controls(tmp_path: Path, node_factory: NodeFactory) -> None:
    with world(tmp_path, {}) as made:
        case = Case(made, node_factory, AUTHORIZER)
        assert all(case.asked(4, about(key, 4)) for key in ("one", "two", "three"))


def test_malformed_requests_are_controls(case: Case) -> None:
    assert case.asked(4, about("one", 4))
    whole = encode_request(API, 4, 7, "c", about("two", 4))[4:]
    for number, cut in enumerate(range(1, 7), 2):
        short = whole[:-cut]
        with case.node.connect() as link:
            ask(link, len(short).to_bytes(4) + short)
        assert case.forwarded == number
