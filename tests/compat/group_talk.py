"""A conversation about groups with one broker, written down so that two can be compared.

Ids that a broker makes up are replaced: member ids by their number in order of appearance, topic
ids by names.
"""

import re
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from msgspec.structs import fields

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kbroker.protocol.messages.describe_groups import DescribeGroupsRequest
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.schema import ZERO_UUID, Struct
from tests.compat.raw import SocketPeer
from tests.peer.eventually import eventually

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_SHORT = re.compile(r"[A-Za-z0-9_-]{22}")
_MISSING = re.compile(r"(?<=^Internal topics are missing: ).*")
_REGEX_PROBLEM = re.compile(r"(?<=is not a valid regular expression: ).*")
_UNORDERED = {
    "members",
    "topics",
    "topic_partitions",
    "groups",
    "results",
    "partitions",
    "responses",
    "partitions_by_user_endpoint",
    "active_partitions",
    "standby_partitions",
}

KNOWN_S = 60
LEARNS_S = 0.5
"""Apache Kafka's group coordinator learns of a new topic a moment after its creator."""


class Talk:
    """Asks one broker. `lines` is what has been said so far: (label, levelled answer)."""

    def __init__(self, peer: SocketPeer, prefix: str) -> None:
        self.peer = peer
        self.prefix = prefix
        self.lines: list[tuple[str, Any]] = []
        self._names: dict[str, str] = {}
        self._topics: dict[bytes, str] = {ZERO_UUID: "none"}
        self._pool = ThreadPoolExecutor(16)

    def group(self, name: str = "g") -> str:
        """A group id that no other conversation uses."""
        return f"{self.prefix}-{name}"

    def create_topic(self, name: str, partitions: int, **configs: str) -> bytes:
        """A topic with the same name on both brokers; its id."""
        full = f"{self.prefix}-{name}"
        specs = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
        request = CreateTopicsRequest([CreatableTopic(full, partitions, 1, [], specs)], 30_000)
        answer: Any = self.peer.ask(ApiKey.CREATE_TOPICS, 7, request)
        assert answer.topics[0].error_code in (0, 36), answer
        eventually(lambda: self.peer.topic_id(full) != ZERO_UUID)
        topic_id = self.peer.topic_id(full)
        self._topics[topic_id] = full
        time.sleep(LEARNS_S)
        return topic_id

    def find_coordinator(self) -> None:
        """Make the coordinator's topic, and wait until every partition of it has its
        coordinator."""
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[self.group()])
        groups = DescribeGroupsRequest([self.group(str(number)) for number in range(64)])
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            self.peer.ask(ApiKey.FIND_COORDINATOR, 4, request)
            answer: Any = self.peer.ask(ApiKey.DESCRIBE_GROUPS, 5, groups)
            if not any(group.error_code for group in answer.groups):
                return
            time.sleep(0.1)

    def ask(self, label: str, api: ApiKey, version: int, request: Struct) -> Any:
        """Ask, write the answer down, give it."""
        return self.heard(label, self.later(api, version, request))

    def describe_new(self, label: str, group: str) -> None:
        """Describe a group that a JoinGroup has just made, once it is there; write that answer
        down.

        Apache Kafka says MEMBER_ID_REQUIRED before the new group's record is committed, and
        DescribeGroups reads what is committed: for a moment it may answer GROUP_ID_NOT_FOUND.
        """
        deadline = time.monotonic() + KNOWN_S
        while True:
            answer: Any = self.peer.ask(ApiKey.DESCRIBE_GROUPS, 6, DescribeGroupsRequest([group]))
            if answer.groups[0].error_code != ErrorCode.GROUP_ID_NOT_FOUND or time.monotonic() > deadline:
                self.lines.append((label, self.level(answer)))
                return
            time.sleep(0.02)

    def later(self, api: ApiKey, version: int, request: Struct) -> "Future[Any]":
        """Ask on a connection of its own and go on; for requests that wait."""
        return self._pool.submit(self.peer.ask, api, version, request)

    def heard(self, label: str, future: "Future[Any]") -> Any:
        """Wait for an answer, write it down, give it."""
        answer = future.result(120)
        self.lines.append((label, self.level(answer)))
        return answer

    def level(self, value: Any, name: str = "") -> Any:
        """An answer as plain values, without what a broker makes up."""
        if isinstance(value, Struct):
            return {each.name: self.level(getattr(value, each.name), each.name) for each in fields(value)}
        if isinstance(value, list | tuple):
            items = [self.level(item) for item in value]
            return sorted(items, key=repr) if name in _UNORDERED else items
        if isinstance(value, bytes | memoryview):
            return self._topics.get(bytes(value), bytes(value))
        if isinstance(value, str):
            return self._named(value)
        return value

    def _named(self, text: str) -> str:
        if _SHORT.fullmatch(text):
            return self._number(text)
        text = _MISSING.sub(lambda found: ", ".join(sorted(found[0].split(", "))), text)
        return _REGEX_PROBLEM.sub("...", _UUID.sub(lambda found: self._number(found[0]), text))

    def _number(self, made_up: str) -> str:
        return self._names.setdefault(made_up, f"#{len(self._names)}")

    def close(self) -> None:
        self._pool.shutdown(wait=True)
