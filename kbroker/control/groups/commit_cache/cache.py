"""The commit cache: the fast path for repeated OffsetCommits and heartbeats, served by compiled
code.

Runs in: control. Owner: the GroupService. A decision of the coordinator is valid while the group,
its topics and its offsets do not change otherwise: the cache keeps it and answers the next commits
from it. Every other operation on a group first invalidates the group's decisions and waits for its
pending commits (`Runtime.fast_path`), so that the coordinator sees all changes in order. A commit
is answered when its record is in the log; the record is then in the offset's row.
"""

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from kbroker.config.acls import READ, TOPIC
from kbroker.control import failpoint
from kbroker.control.broker import Broker
from kbroker.control.coordinator.append_error import coordinator_error
from kbroker.control.coordinator.runtime import Runtime
from kbroker.control.groups.commit_cache.cached_decisions import CachedDecisions, Renewal
from kbroker.control.groups.commit_cache.commit_kernel import (
    apply_entries,
    end_commits,
    list_batch,
    take_commits,
)
from kbroker.control.groups.commit_cache.layout import CacheTables, Commit, CommitBatch, CommitEntry
from kbroker.control.groups.offset_commit import refused
from kbroker.control.groups.offset_record import encode_offset_key
from kbroker.control.groups.shard import GroupShard
from kbroker.control.links.append_queue import WRITTEN
from kbroker.control.links.appender import Appender
from kbroker.ipc.block import answers, client_request, pack_answer, pack_peer, peer_of, request_at
from kbroker.ipc.link import AsyncLink
from kbroker.ipc.long_messages import REPEATABLE_BYTES
from kbroker.ipc.messages import ClientRequest
from kbroker.metrics.slots import bind
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode
from kbroker.protocol.errors import KafkaError
from kbroker.protocol.frame import client_id_bytes, encode_response
from kbroker.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kbroker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest
from kbroker.protocol.records import read_all
from kbroker.protocol.schema import ZERO_UUID, Struct

log = logging.getLogger(__name__)

Words = NDArray[np.int64]

COMMITS: Final = 1 << 14
ENTRIES: Final = 1 << 16
ANSWER_BYTES: Final = 4 << 20
RECORD_BYTES: Final = 16 << 20
HEARTBEAT_ANSWER_BYTES: Final = 1 << 20
NO_ERROR: Final = bind("kbroker_request_errors_total", api=int(ApiKey.OFFSET_COMMIT), error="NONE")
ANSWERING: Final = f"answering-{int(ApiKey.OFFSET_COMMIT)}"
HEARTBEATS: Final = tuple(
    (count, bind("kbroker_request_errors_total", api=int(api), error="NONE"), f"answering-{int(api)}")
    for count, api in (
        (CacheTables.HEARTBEATS, ApiKey.HEARTBEAT),
        (CacheTables.CONSUMER_HEARTBEATS, ApiKey.CONSUMER_GROUP_HEARTBEAT),
    )
)
"""API of heartbeats -> (the word that counts them in a block, their metric, their failpoint)."""
NO_TAGS: Final = b"\0"


class Batch(msgspec.Struct):
    """Commits that are being written. entries: (row, value position, value bytes); commits: (group,
    message position) in the order of the answers."""

    link: AsyncLink
    partition: int
    now_ms: int
    content: bytes
    answers: bytes
    entries: Words
    commits: Words
    block: bytearray


class CommitCache:
    """`take` gets every block of requests; `cache_commit` every commit that the coordinator has
    decided."""

    def __init__(self, broker: Broker, runtime: Runtime, shard: GroupShard, appender: Appender) -> None:
        self._broker = broker
        self._runtime = runtime
        self._shard = shard
        self._appender = appender
        self._rows = shard.table.offsets.rows
        self._decisions = CachedDecisions(self._rows.words, self._rows.address, runtime.timers.postpone)
        self._waiting: dict[str, list[Callable[[], None]]] = {}
        self._pending = 0
        self._version = (-1, -1)
        self._commits: Words = Commit.table(COMMITS)
        self._batches: Words = CommitBatch.table(COMMITS)
        self._entries: Words = CommitEntry.table(ENTRIES)
        self._answers: NDArray[np.uint8] = np.zeros(ANSWER_BYTES, np.uint8)
        # each answer again, after the head of a message and up to a multiple of 8
        self._ready: NDArray[np.uint8] = np.zeros(ANSWER_BYTES + COMMITS * 32, np.uint8)
        self._heartbeat_answers: NDArray[np.uint8] = np.zeros(HEARTBEAT_ANSWER_BYTES, np.uint8)
        self._records: NDArray[np.uint8] = np.zeros(RECORD_BYTES, np.uint8)
        self._heads: Words = np.zeros((0, 2), np.int64)
        words = self._rows.words
        words[CacheTables.METADATA_LIMIT] = shard.table.settings.offset_metadata_max_bytes
        words[CacheTables.COMMITS], words[CacheTables.COMMIT_ROOM] = self._commits.ctypes.data, COMMITS
        words[CacheTables.ENTRIES], words[CacheTables.ENTRY_ROOM] = self._entries.ctypes.data, ENTRIES
        words[CacheTables.ANSWERS], words[CacheTables.ANSWER_ROOM] = self._answers.ctypes.data, ANSWER_BYTES
        words[CacheTables.RECORDS], words[CacheTables.RECORD_ROOM] = self._records.ctypes.data, RECORD_BYTES
        words[CacheTables.HEARTBEAT_ANSWERS], words[CacheTables.HEARTBEAT_ROOM] = (
            self._heartbeat_answers.ctypes.data,
            HEARTBEAT_ANSWER_BYTES,
        )
        words[CacheTables.READY] = self._ready.ctypes.data
        words[CacheTables.BATCHES] = self._batches.ctypes.data
        words[CacheTables.VERSIONS] = broker.cached_answers.words.ctypes.data
        runtime.before_timers(self._decisions.settle_touched)
        broker.listeners.acls.append(self._decisions.forget_all)
        broker.listeners.config.append(self._limit_batches)
        shard.table.offsets.on_change = broker.cached_answers.group_changed

    # --- decisions --------------------------------------------------------------------------------

    def cache_commit(self, client: ClientRequest, request: OffsetCommitRequest) -> None:
        """Cache a decision about a commit, made with no other operation of its group pending.

        From the second commit of an offset on there is a row to replace, and the next request of
        the same kind bypasses the coordinator.
        """
        if request.retention_time_ms != -1 or len(client.body) > REPEATABLE_BYTES:
            return
        renewal = self._shard.repeatable_commits(request)
        if renewal is None:
            return
        self._check_topics()
        store = self._shard.table.offsets
        if not self._may_commit(client, store.topics_of(request.group_id)):
            return
        for topic in request.topics:
            for part in topic.partitions:
                key = encode_offset_key(request.group_id, topic.name, part.partition_index)
                stored = store.stored(key)
                if stored is None:
                    return
                if stored.row >= 0 and self._rows.topic_id(stored.row) != topic.topic_id:
                    stored.leave()
                if stored.row < 0:
                    if self._broker.authorizer is not None:
                        # clients of the group that lack READ on this topic must be checked again
                        self._decisions.forget(request.group_id)
                    stored.row = self._rows.enter(key, topic.topic_id or ZERO_UUID, not self._pending)
                if stored.row < 0:
                    return
        partition = self._runtime.partition_for(request.group_id)
        self._decisions.enter(
            request.group_id, client.api_version, client.body, partition, renewal, self._peer(client)
        )

    def _may_commit(self, client: ClientRequest, topics: Iterable[str]) -> bool:
        """Whether the client may commit to every topic of the group: a cached decision checks
        none."""
        authorizer = self._broker.authorizer
        return authorizer is None or all(
            authorizer.allows(client.principal, client.client_host, READ, TOPIC, name) for name in topics
        )

    def _peer(self, client: ClientRequest) -> bytes:
        """The peer that a decision is for: with an authorizer the client, else none (all)."""
        return b"" if self._broker.authorizer is None else pack_peer(peer_of(client))

    def cache_heartbeat(
        self, client: ClientRequest, request: HeartbeatRequest, answer: HeartbeatResponse
    ) -> None:
        """Cache the answer to a heartbeat, given with no other operation of its group pending."""
        renewal = self._shard.repeatable_heartbeats(request, answer)
        if renewal is not None and len(client.body) <= REPEATABLE_BYTES:
            peer = self._peer(client)
            self._enter_heartbeat(client, request.group_id, client.body, renewal, answer, peer)

    def cache_consumer_heartbeat(
        self,
        client: ClientRequest,
        request: ConsumerGroupHeartbeatRequest,
        answer: ConsumerGroupHeartbeatResponse,
    ) -> None:
        """As `cache_heartbeat`. The group stores a member's client id and host, so the decision is
        only for this client."""
        renewal = self._shard.consumer_repeatable_heartbeats(request, answer)
        if renewal is not None and len(client.body) <= REPEATABLE_BYTES:
            request_bytes = client_id_bytes(client.client_id) + NO_TAGS + client.body
            self._enter_heartbeat(
                client, request.group_id, request_bytes, renewal, answer, pack_peer(peer_of(client))
            )

    def _enter_heartbeat(
        self,
        client: ClientRequest,
        group_id: str,
        request_bytes: bytes,
        renewal: Renewal,
        answer: Struct,
        peer: bytes,
    ) -> None:
        self._check_topics()
        frame = encode_response(client.api_key, client.api_version, 0, answer)
        kind = client.api_key << 8 | client.api_version
        self._decisions.enter_heartbeat(group_id, kind, request_bytes, renewal, frame[8:], peer)

    def _check_topics(self) -> None:
        """Invalidate all decisions when topics or features have changed: either may change any."""
        catalogue = self._broker.catalogue
        version = catalogue.version, self._broker.features_epoch
        if self._version == version:
            return
        self._version = version
        self._decisions.forget_all()
        self._limit_batches()
        topic = catalogue.get(self._shard.topic)
        count = 0 if topic is None else len(topic.partitions)
        if count != len(self._heads):
            self._heads = np.full((count, 2), -1, np.int64)
            self._rows.words[CacheTables.HEADS] = self._heads.ctypes.data
            self._rows.words[CacheTables.TOPIC_COUNT] = count

    def _limit_batches(self, *_: object) -> None:
        """The topic may be new, or its max.message.bytes may have changed."""
        self._rows.words[CacheTables.MAX_BATCH] = self._broker.largest_batch(self._shard.topic)

    def forget(self, key: str) -> None:
        """Another operation of the group begins."""
        self._broker.cached_answers.group_changed(key)
        self._decisions.forget(key)

    def forget_all(self) -> None:
        """Another operation on all groups begins."""
        self._broker.cached_answers.groups_changed()
        self._decisions.forget_all()

    # --- commits --------------------------------------------------------------------------------------

    def take(self, link: AsyncLink, block: bytearray) -> bool:
        """Serve the requests of a block that the fast path can decide; they need no further call.
        Returns whether others are left."""
        self._check_topics()
        words = self._rows.words
        if not words[CacheTables.DECISION_COUNT]:
            return True
        address = int(np.frombuffer(block, np.uint8).ctypes.data)
        batches = take_commits(self._rows.address, address, len(block))
        if used := int(words[CacheTables.HEARTBEAT_BYTES]):
            for count, metric, place in HEARTBEATS:
                if words[count]:
                    if failpoint.ARMED:
                        failpoint.reach(place)
                    self._broker.metrics.words[metric] += int(words[count])
            link.answer(self._heartbeat_answers[:used].tobytes())
        for number, row in enumerate(self._batches[:batches].tolist()):
            self._write(link, block, number, row)
        return bool(words[CacheTables.LEFT])

    def _write(self, link: AsyncLink, block: bytearray, number: int, row: list[int]) -> None:
        entries: Words = np.empty((row[CommitBatch.ENTRIES], 3), np.int64)
        commits: Words = np.empty((row[CommitBatch.COMMITS], 2), np.int64)
        list_batch(self._rows.address, number, entries.ctypes.data, commits.ctypes.data)
        start, ready = row[CommitBatch.BYTES_AT], row[CommitBatch.ANSWERS_AT]
        batch = Batch(
            link,
            row[CommitBatch.PARTITION],
            int(self._rows.words[CacheTables.NOW]),
            self._records[start : start + row[CommitBatch.BYTES]].tobytes(),
            self._ready[ready : ready + row[CommitBatch.ANSWERS_BYTES]].tobytes(),
            entries,
            commits,
            block,
        )
        self._pending += 1
        partition = self._broker.catalogue.topics[self._shard.topic].partitions[batch.partition]
        self._appender.submit(
            partition, batch.content, partial(self._written, batch), self._runtime.timeout_ms
        )

    def _written(self, batch: Batch, failure: KafkaError | None) -> None:
        self._pending -= 1
        written = failure is None or failure.code in WRITTEN  # as the runtime does (FollowingMachine)
        if written:
            self._apply(batch)
        end_commits(self._rows.address, batch.commits.ctypes.data, len(batch.commits), written)
        if self._waiting:
            self._call_waiting()
        if failure is not None:
            log.warning("%s-%d: append failed: %s", self._shard.topic, batch.partition, failure)
            if written:
                self._runtime.replayed_late(batch.partition)
            self._refuse(batch, failure)
            return
        if failpoint.ARMED:
            failpoint.reach(ANSWERING)
        self._broker.metrics.words[NO_ERROR] += len(batch.entries)
        if not batch.link.closed:
            batch.link.answer(batch.answers)

    def _apply(self, batch: Batch) -> None:
        address = int(np.frombuffer(batch.content, np.uint8).ctypes.data)
        if apply_entries(self._rows.address, batch.entries.ctypes.data, len(batch.entries), address):
            for record in read_all(
                batch.content
            ):  # an offset was removed meanwhile: the machine replays all records
                self._shard.replay(batch.partition, record.key or b"", record.value, batch.now_ms)

    def _refuse(self, batch: Batch, failure: KafkaError) -> None:
        code = coordinator_error(failure.code)
        calls = [call for call, _, _ in answers(bytearray(batch.answers))]
        for call, (_, position) in zip(calls, batch.commits.tolist(), strict=True):
            client = client_request(*request_at(batch.block, position))
            request, _ = decode(OffsetCommitRequest, client.api_version, client.body)
            answer = encode_response(
                client.api_key, client.api_version, client.correlation_id, refused(request, code)
            )
            self._broker.metrics.words[NO_ERROR + code] += sum(
                len(each.partitions) for each in request.topics
            )
            if not batch.link.closed:
                batch.link.answer(pack_answer(call, answer))

    # --- operations that wait -------------------------------------------------------------------------

    def in_flight(self, key: str) -> bool:
        """Whether commits of the group are being written."""
        return self._decisions.in_flight(key)

    def when_idle(self, key: str, then: Callable[[], None]) -> None:
        """Call once when they have been written."""
        self._waiting.setdefault(key, []).append(then)

    def _call_waiting(self) -> None:
        for key in [each for each in self._waiting if not self.in_flight(each)]:
            for then in self._waiting.pop(key):
                then()
