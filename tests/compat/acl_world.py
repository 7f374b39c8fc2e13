"""A broker with what the ACL matrix asks about: topics, groups, delegation tokens and the grants of
all users."""

import time
from collections.abc import Callable, Iterator
from typing import Any

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from kbroker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kbroker.protocol.messages.describe_acls import DescribeAclsRequest
from kbroker.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.compat.acl_matrix import NAME, UserPeer, creations, grants, of_token
from tests.compat.acl_questions import OTHER, QUESTIONS
from tests.compat.acl_token_questions import TOKEN_QUESTIONS
from tests.compat.raw import SocketPeer, plain

TOKEN_LIFETIME_MS = 86_400_000
ALL = (*QUESTIONS, *TOKEN_QUESTIONS)


class World:
    """One broker, prepared by ANONYMOUS, a super user, who also knows the ids of topics and
    tokens."""

    def __init__(self, plain_port: int, sasl_port: int) -> None:
        self._anonymous = SocketPeer(plain_port)
        self._sasl_port = sasl_port
        self.hmacs: dict[str, bytes] = {}
        self.topic_ids: dict[str, bytes] = {}

    def prepare(self) -> None:
        """Make all of it."""
        topics = [CreatableTopic(name, 1, 1) for name in (NAME, OTHER)]
        _ask(self._anonymous, ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics, 10_000))
        for group in (NAME, OTHER):
            _wait(lambda group=group: _committed(self._anonymous, group))  # type: ignore[misc]
        self.topic_ids = {name: self._anonymous.topic_id(name) for name in (NAME, OTHER)}
        self._make_acls(self._make_tokens())

    def _make_tokens(self) -> str:
        """Returns the id of NAME's token. An open listener takes no such request."""
        peer = UserPeer(self._sasl_port, "super")
        ids = {}
        for owner in (NAME, OTHER):
            request = CreateDelegationTokenRequest("User", owner, [], TOKEN_LIFETIME_MS)
            made = _ask(peer, ApiKey.CREATE_DELEGATION_TOKEN, 3, request)
            assert made.error_code == 0, made
            ids[owner], self.hmacs[owner] = made.token_id, made.hmac

        def known() -> bool:
            found = _ask(peer, ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, DescribeDelegationTokenRequest(None))
            return {token.token_id for token in found.tokens} == set(ids.values())

        _wait(known)
        peer.close()
        return str(ids[NAME])

    def _make_acls(self, token_id: str) -> None:
        entries = tuple(of_token(acl, token_id) for grant in grants() for acl in grant.entries)
        answer = _ask(self._anonymous, ApiKey.CREATE_ACLS, 3, creations(entries))
        assert not [result for result in answer.results if result.error_code], answer
        everything = DescribeAclsRequest(1, None, 1, None, None, 1, 1)

        def all_there() -> bool:
            found = _ask(self._anonymous, ApiKey.DESCRIBE_ACLS, 3, everything)
            return sum(len(resource.acls) for resource in found.resources) == len(set(entries))

        _wait(all_there)

    def answers(self) -> Iterator[tuple[str, str, Any]]:
        """(question, user, answer) of every question that every user asks."""
        for grant in grants():
            peer = _User(self, self._sasl_port, grant.user)
            for one in ALL:
                for version in range(one.versions[0], one.versions[1] + 1):
                    answer = peer.ask(one.api, version, one.build(peer, version))
                    yield f"{one.name} v{version}", grant.user, plain(answer, one)
            peer.close()


class _User(UserPeer):
    def __init__(self, world: World, port: int, user: str) -> None:
        super().__init__(port, user)
        self._world = world

    def topic_id(self, name: str) -> bytes:
        return self._world.topic_ids[name]

    def token_hmac(self, owner: str) -> bytes:
        return self._world.hmacs[owner]


def _committed(peer: SocketPeer, group: str) -> bool:
    ready = []
    for kind, key in ((0, group), (1, group), (2, "g:AAAAAAAAAAAAAAAAAAAAAQ:0")):
        found = _ask(peer, ApiKey.FIND_COORDINATOR, 6, FindCoordinatorRequest("", kind, [key]))
        ready.append(not found.coordinators[0].error_code)
    first = _ask(peer, ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(None, 1000))
    if not all(ready) or first.error_code:
        return False
    topics = [OffsetCommitRequestTopic(NAME, bytes(16), [OffsetCommitRequestPartition(0, 1)])]
    answer = _ask(peer, ApiKey.OFFSET_COMMIT, 8, OffsetCommitRequest(group, -1, "", topics=topics))
    return bool(answer.topics[0].partitions[0].error_code == 0)


def _ask(peer: SocketPeer, api: ApiKey, version: int, request: Any) -> Any:
    answer = peer.ask(api, version, request)
    assert answer is not None
    return answer


def _wait(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 90
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.1)
