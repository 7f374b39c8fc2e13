"""Committed offsets under commits, transactions that end or do not, deletions, expiry, and a
coordinator that restarts.

The model is a dictionary; after each step the coordinator and its successor return exactly what is
in it.
"""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kbroker.control.groups.settings import GroupSettings
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kbroker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.control.groups.coordinator import PARTITION, Coordinator

RETENTION_MS = 100_000
GROUPS = st.sampled_from(("g", "h"))
PARTITIONS = st.integers(0, 2)
OFFSETS = st.integers(0, 1 << 40)
PRODUCERS = st.integers(1, 2)
Place = tuple[str, int]


class OffsetsModel(RuleBasedStateMachine):
    """committed: offset and time of the commit, by group and partition. pending: the same by
    producer, and the number of the step: of two commits the later one counts, whenever its
    transaction ends."""

    def __init__(self) -> None:
        super().__init__()
        self.kafka = Coordinator(GroupSettings(offsets_retention_ms=RETENTION_MS))
        self.history: list[tuple[str, tuple[Any, ...]]] = []
        self.committed: dict[Place, tuple[int, int, int]] = {}
        self.pending: dict[int, dict[Place, tuple[int, int, int]]] = {}
        self.steps = 0

    def remember(self, before: int) -> None:
        """What the coordinator has logged since."""
        self.history += [("plain", (each.key, each.value)) for each in self.kafka.log[before:]]

    @rule(group=GROUPS, partition=PARTITIONS, offset=OFFSETS)
    def commit(self, group: str, partition: int, offset: int) -> None:
        before = len(self.kafka.log)
        assert self.kafka.commit(offset, group=group, partition=partition) is ErrorCode.NONE
        self.remember(before)
        self.steps += 1
        self.committed[group, partition] = (offset, self.kafka.now_ms, self.steps)

    @rule(producer=PRODUCERS, group=GROUPS, partition=PARTITIONS, offset=OFFSETS)
    def commit_in_transaction(self, producer: int, group: str, partition: int, offset: int) -> None:
        parts = [TxnOffsetCommitRequestPartition(partition, offset, committed_metadata="")]
        request = TxnOffsetCommitRequest(
            "tx", group, producer, 0, topics=[TxnOffsetCommitRequestTopic("t", parts)]
        )
        outcome = self.kafka.shard.commit_offsets_in_transaction(request, 3, self.kafka.now_ms)
        assert outcome.response.topics[0].partitions[0].error_code == ErrorCode.NONE
        for record in outcome.records:
            self.kafka.shard.replay_in_transaction(PARTITION, producer, record.key, record.value)
            self.history.append(("transaction", (producer, record.key, record.value)))
        self.steps += 1
        self.pending.setdefault(producer, {})[group, partition] = (offset, self.kafka.now_ms, self.steps)

    @rule(producer=PRODUCERS, commit=st.booleans())
    def end_transaction(self, producer: int, commit: bool) -> None:
        self.kafka.shard.replay_end_of_transaction(PARTITION, producer, commit)
        self.history.append(("end", (producer, commit)))
        for place, one in self.pending.pop(producer, {}).items():
            known = self.committed.get(place)
            if commit and (known is None or one[2] > known[2]):
                self.committed[place] = one

    @rule(group=GROUPS, partition=PARTITIONS)
    def delete_offset(self, group: str, partition: int) -> None:
        if group not in self.kafka.shard.group_ids():
            return
        before = len(self.kafka.log)
        topics = [OffsetDeleteRequestTopic("t", [OffsetDeleteRequestPartition(partition)])]
        self.kafka.run(self.kafka.shard.delete_offsets(OffsetDeleteRequest(group, topics)))
        self.remember(before)
        self.forget(group, partition)

    def forget(self, group: str, partition: int) -> None:
        self.committed.pop((group, partition), None)
        for places in self.pending.values():
            places.pop((group, partition), None)

    @rule(group=GROUPS)
    def delete_group(self, group: str) -> None:
        if group not in self.kafka.shard.group_ids():
            return
        before = len(self.kafka.log)
        assert self.kafka.run(self.kafka.shard.delete(group)).error_code == ErrorCode.NONE
        self.remember(before)
        for partition in range(3):
            self.forget(group, partition)

    @rule(share=st.sampled_from((0.3, 0.7, 1.0)))
    def time_passes_and_offsets_expire(self, share: float) -> None:
        self.kafka.advance(round(RETENTION_MS * share))
        before = len(self.kafka.log)
        self.kafka.expire_offsets()
        self.remember(before)
        held = {place for places in self.pending.values() for place in places}
        for place, (_, at_ms, _) in list(self.committed.items()):
            if self.kafka.now_ms - at_ms >= RETENTION_MS and place not in held:
                del self.committed[place]

    @rule()
    def the_coordinator_restarts(self) -> None:
        self.kafka = self.successor()

    def successor(self) -> Coordinator:
        """One that reads the whole log."""
        again = Coordinator(self.kafka.settings, now_ms=self.kafka.now_ms)
        for kind, fields in self.history:
            if kind == "plain":
                key, value = fields
                again.shard.replay(PARTITION, key, value, again.now_ms)
            elif kind == "transaction":
                again.shard.replay_in_transaction(PARTITION, *fields)
            else:
                again.shard.replay_end_of_transaction(PARTITION, *fields)
        return again

    @invariant()
    def both_return_what_was_committed(self) -> None:
        for kafka in (self.kafka, self.successor()):
            for group in ("g", "h"):
                for partition in range(3):
                    expected = self.committed.get((group, partition), (-1, 0, 0))[0]
                    assert kafka.committed(partition=partition, group=group) == expected
                    pending = any((group, partition) in places for places in self.pending.values())
                    assert kafka.shard.table.offsets.is_pending(group, "t", partition) == pending


TestOffsetsModel = OffsetsModel.TestCase
TestOffsetsModel.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
