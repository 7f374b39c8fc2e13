"""A member of a share group that talks over one connection: brokers tie share sessions to it."""

import base64
import socket
import struct
from collections.abc import Sequence
from typing import Any

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode_exact
from kbroker.protocol.frame import encode_request, parse_response
from kbroker.protocol.messages import response_class
from kbroker.protocol.messages.share_acknowledge import AcknowledgementBatch as Acknowledgement
from kbroker.protocol.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from kbroker.protocol.messages.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareFetchRequest,
)
from kbroker.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kbroker.protocol.schema import Struct
from tests.compat.group_talk import Talk
from tests.compat.raw import receive

Said = tuple[int, int, Sequence[int]]
"""First and last offset, acknowledge types."""
TIMES = 2
"""Apache Kafka needs a moment until a group's partition is loaded: its first fetch may find
nothing."""


class ShareMember:
    """Writes what is answered into the talk."""

    def __init__(self, talk: Talk, group_id: str, name: str) -> None:
        self._talk = talk
        self.group_id = group_id
        self.name = name
        self.member_id = base64.urlsafe_b64encode(name.encode().ljust(16, b"-")).decode().rstrip("=")
        self.epoch = 0
        self.session_epoch = 0
        self._link = socket.create_connection(("127.0.0.1", talk.peer.port), timeout=120)

    def close(self) -> None:
        """Drop the connection."""
        self._link.close()

    def ask(self, api: ApiKey, version: int, request: Struct) -> Any:
        """Ask without writing it down; None when the broker closed the connection."""
        self._link.sendall(encode_request(api, version, 7, "share", request))
        size = receive(self._link, 4)
        frame = None if size is None else receive(self._link, struct.unpack(">i", size)[0])
        if frame is None:
            return None
        _, start = parse_response(frame, api, version)
        return decode_exact(response_class(api), version, frame, start)

    def say(self, label: str, api: ApiKey, version: int, request: Struct) -> Any:
        """Ask and write it down."""
        answer = self.ask(api, version, request)
        self._talk.lines.append((f"{self.name} {label}", self._talk.level(answer)))
        return answer

    def heartbeat(
        self, label: str, topics: list[str] | None = None, epoch: int | None = None, **more: Any
    ) -> Any:
        """With the epoch that the group gave last."""
        sent = self.epoch if epoch is None else epoch
        answer = self.say(
            label,
            ApiKey.SHARE_GROUP_HEARTBEAT,
            1,
            ShareGroupHeartbeatRequest(
                self.group_id, self.member_id, sent, subscribed_topic_names=topics, **more
            ),
        )
        if not answer.error_code:
            self.epoch = answer.member_epoch
        return answer

    def fetch(
        self,
        label: str,
        topic_id: bytes,
        partitions: Sequence[int] = (0,),
        said: Sequence[Said] = (),
        forgotten: Sequence[int] = (),
        epoch: int | None = None,
        wait_ms: int = 300,
        min_bytes: int = 1,
        max_records: int = 500,
        batch_size: int | None = None,
        version: int = 1,
        max_bytes: int = 1 << 20,
        **more: Any,
    ) -> Any:
        """In the order of the session. said: acknowledgements of the first partition."""
        parts = [FetchPartition(index) for index in partitions]
        if parts:
            parts[0].acknowledgement_batches = [
                AcknowledgementBatch(*each[:2], list(each[2])) for each in said
            ]
        request = ShareFetchRequest(
            self.group_id,
            self.member_id,
            self.session_epoch if epoch is None else epoch,
            wait_ms,
            min_bytes,
            max_bytes,
            max_records,
            max_records if batch_size is None else batch_size,
            topics=[FetchTopic(topic_id, parts)] if parts else [],
            forgotten_topics_data=[ForgottenTopic(topic_id, list(forgotten))] if forgotten else [],
            **more,
        )
        answer = self.say(label, ApiKey.SHARE_FETCH, version, request)
        if not answer.error_code and epoch is None:
            self.session_epoch += 1
        return answer

    def acknowledge(
        self,
        label: str,
        topic_id: bytes,
        said: Sequence[Said],
        partition: int = 0,
        epoch: int | None = None,
        version: int = 1,
        **more: Any,
    ) -> Any:
        """In the order of the session."""
        batches = [Acknowledgement(*each[:2], list(each[2])) for each in said]
        request = ShareAcknowledgeRequest(
            self.group_id,
            self.member_id,
            self.session_epoch if epoch is None else epoch,
            topics=[AcknowledgeTopic(topic_id, [AcknowledgePartition(partition, batches)])],
            **more,
        )
        answer = self.say(label, ApiKey.SHARE_ACKNOWLEDGE, version, request)
        if not answer.error_code and epoch is None:
            self.session_epoch += 1
        return answer
