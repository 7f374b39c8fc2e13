"""OffsetDelete (key 47), v0: delete offsets of topics that a group does not read (KIP-496)."""

from kbroker.api.context import RequestContext
from kbroker.api.later import Answer, then
from kbroker.api.row import Api
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kbroker.protocol.slices import SlicedList, Table, freed, paced

API = Api(ApiKey.OFFSET_DELETE, 0, 0)


def handle(ctx: RequestContext, request: OffsetDeleteRequest) -> Answer:
    """Delete the offsets; returns a code per partition. Missing partitions are refused here."""
    catalogue = ctx.broker.catalogue
    known: list[OffsetDeleteRequestTopic] = SlicedList()
    failed = _Failed(known)
    for topic in request.topics:
        there = SlicedList()
        for part in topic.partitions:
            if catalogue.partition(topic.name, part.partition_index) is not None:
                there.append(part)
                continue
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            failed.add(topic.name, OffsetDeleteResponsePartition(part.partition_index, code))
        if there:
            known.append(OffsetDeleteRequestTopic(topic.name, there))
    deletion = OffsetDeleteRequest(request.group_id, known)
    try:
        service = ctx.services.groups
        answer = service.ask(request.group_id, lambda _: service.shard.delete_offsets(deletion))
    except KafkaError as error:
        raise failed.forgotten(error) from None
    return then(answer, failed.merged, failed.forgotten)


def refuse(request: OffsetDeleteRequest, error: KafkaError, version: int) -> OffsetDeleteResponse:
    """The request failed as a whole."""
    return OffsetDeleteResponse(error_code=error.code)


class _Failed:
    """The results of missing partitions, by topic, in the order of the request. known: the other
    partitions, freed in slices once they are answered."""

    def __init__(self, known: list[OffsetDeleteRequestTopic]) -> None:
        self._known = known
        self._topics: list[OffsetDeleteResponseTopic] = []
        self._by_name: Table[str, OffsetDeleteResponseTopic] = Table()

    def add(self, name: str, part: OffsetDeleteResponsePartition) -> None:
        """Take in the result of a partition."""
        topic = self._by_name.get(name)
        if topic is None:
            topic = self._by_name[name] = OffsetDeleteResponseTopic(name)
            self._topics.append(topic)
        topic.partitions.append(part)

    def merged(self, answer: OffsetDeleteResponse) -> OffsetDeleteResponse:
        """The response: these results and those of the group's answer."""
        for topic in paced(answer.topics):
            own = self._by_name.get(topic.name)
            if own is None:
                self._topics.append(topic)
            else:
                own.partitions += topic.partitions
        self._by_name.clear()
        freed(self._known)
        topics, self._topics = self._topics, []  # only the response has them: it is freed in slices
        return OffsetDeleteResponse(topics=topics)

    def forgotten(self, error: KafkaError) -> KafkaError:
        """The error of the whole request; the results of its partitions are freed in slices."""
        self._by_name.clear()
        freed(self._known)
        freed(self._topics)
        return error
