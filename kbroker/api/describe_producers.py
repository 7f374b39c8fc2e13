"""DescribeProducers (key 61), v0: active idempotent and transactional producers of partitions
(KIP-664)."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from msgspec import Struct, field

from kbroker.api.cached_answers import cached_answers
from kbroker.api.context import RequestContext
from kbroker.api.later import Answer, then
from kbroker.api.row import REPEATED, Api
from kbroker.control.broker import Broker
from kbroker.control.coordinator.machine import Deferred
from kbroker.control.metadata.topic_name import validate
from kbroker.ipc.cached_answers import CachedAnswer
from kbroker.ipc.layout import Slot, SlotState
from kbroker.ipc.messages import DescribeProducers
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from kbroker.protocol.slices import paced

API = Api(ApiKey.DESCRIBE_PRODUCERS, 0, 0, fast_paths=(REPEATED,))
SLOTS_AT_ONCE: Final = 64
MAX_CACHED: Final = 4096
"""Producers in an answer that may be cached: it is encoded in one go."""


class WorkerRequest(Struct):
    """Requests to one IO worker, each about a bounded number of partitions and producers, because
    the worker does nothing else meanwhile. parts: parts of the answer by slot; a partition may be
    named several times."""

    parts: dict[int, list[PartitionResponse]] = field(default_factory=dict)

    def ask(self, broker: Broker, worker: int, done: Callable[[], object]) -> None:
        """Request the producers, fill the parts, then call `done`."""
        slots = list(self.parts)

        def ask(at: int, after: int) -> None:
            call = DescribeProducers(tuple(slots[at : at + SLOTS_AT_ONCE]), after)
            broker.links.ask_worker(worker, call, partial(answered, at, call.limit))

        def answered(at: int, limit: int, reply: Any) -> None:
            """Fill parts from a reply. reply: the value of the reply to DescribeProducers, or a
            KafkaError for all of it."""
            if isinstance(reply, KafkaError):
                for slot in slots[at:]:
                    self._fail(slot, reply.code)
                done()
                return
            states = 0
            for slot, found in zip(slots[at:], reply, strict=False):
                if isinstance(found, int):
                    self._fail(slot, found)
                else:
                    states += len(found)
                    self.parts[slot][0].active_producers += [ProducerState(*each) for each in found]
            at += len(reply)
            if states >= limit:
                ask(at - 1, reply[-1][-1][0])
            elif at < len(slots):
                ask(at, -1)
            else:
                done()

        ask(0, -1)

    def _fail(self, slot: int, code: int) -> None:
        for part in self.parts[slot]:
            part.error_code, part.active_producers = code, []


def handle(ctx: RequestContext, request: DescribeProducersRequest) -> Answer:
    """The producers of each partition: sends one message to each IO worker that owns some of
    them."""
    broker = ctx.broker
    by_worker: dict[int, WorkerRequest] = {}
    response = DescribeProducersResponse(
        topics=[
            TopicResponse(
                topic.name, [_part(broker, topic.name, index, by_worker) for index in topic.partition_indexes]
            )
            for topic in request.topics
        ]
    )
    if not by_worker:
        return response
    # odd while the slot is being written: the version before that is outdated
    logs = {
        slot: broker.slots.word(slot, Slot.SEQUENCE) & ~1
        for each in by_worker.values()
        for slot in paced(each.parts)
    }
    answer = Deferred()
    left = len(by_worker)

    def answered() -> None:
        nonlocal left
        left -= 1
        if not left:
            answer.complete(response)

    for worker, each in by_worker.items():
        each.ask(broker, worker, answered)
    return then(answer, partial(_cached, ctx, logs))


def _cached(
    ctx: RequestContext, logs: dict[int, int], response: DescribeProducersResponse
) -> CachedAnswer | DescribeProducersResponse:
    """The producers of a log change with its slot (`LogSlot.producers_changed`)."""
    producers = sum(
        len(part.active_producers) for topic in paced(response.topics) for part in paced(topic.partitions)
    )
    return cached_answers(ctx, response, logs=logs) if producers <= MAX_CACHED else response


def refuse(request: DescribeProducersRequest, error: KafkaError, version: int) -> DescribeProducersResponse:
    """The request failed as a whole: every partition carries the error."""
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                topic.name,
                [PartitionResponse(index, error.code, error.message) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def _part(broker: Broker, name: str, index: int, by_worker: dict[int, WorkerRequest]) -> PartitionResponse:
    """A partition of the answer: an error, or empty and added to the requests."""
    try:
        partition = broker.catalogue.partition(name, index)
        if partition is None:
            validate(name)
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if broker.slots.state(partition.slot) == SlotState.OFFLINE:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    except KafkaError as error:
        known = broker.catalogue.get(name) is not None
        return PartitionResponse(index, error.code, None if known else error.message)
    part = PartitionResponse(index)
    each = by_worker.get(partition.worker)
    if each is None:
        each = by_worker[partition.worker] = WorkerRequest()
    parts = each.parts.setdefault(partition.slot, [])
    if parts:
        part.active_producers = parts[0].active_producers
    parts.append(part)
    return part
