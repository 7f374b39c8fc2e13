"""DeleteTopics (key 20), v1-6.

v1 throttle time; v3 TOPIC_DELETION_DISABLED; v4 flexible; v5 error text; v6 by topic id as well
(KIP-516). The answer is sent when every process has dropped the topics; logs of more than
MAX_AWAITED partitions are closed after it. Folders are removed after file.delete.delay.ms.
"""

from collections.abc import Sequence

from kbroker.api.context import RequestContext
from kbroker.api.later import check_time, running
from kbroker.api.row import Api
from kbroker.control.changes.topic_change import delete_topics
from kbroker.control.metadata.catalogue import Topic
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from kbroker.protocol.schema import ZERO_UUID
from kbroker.protocol.slices import Repeated, distinct, is_sliced, paced

API = Api(ApiKey.DELETE_TOPICS, 1, 6)


@running
async def handle(ctx: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Delete existing topics that are named once; each name or id has its own result."""
    if not ctx.broker.config.get_bool("delete.topic.enable"):
        code = ErrorCode.INVALID_REQUEST if ctx.version < 3 else ErrorCode.TOPIC_DELETION_DISABLED
        raise KafkaError(code, "Topic deletion is disabled.")
    chosen = _Chosen(ctx, request)
    if is_sliced():  # many names are looked up before the lock, so that no other change waits
        chosen.topics()
    quota = ctx.services.mutation_quotas.of_client(ctx.client, strict_from=5)
    errors = await delete_topics(ctx.broker, chosen.topics, quota.record, request.timeout_ms)
    for topic, error in zip(chosen.topics(), errors, strict=True):
        chosen.answer(topic.name, topic.topic_id, error)
    return DeleteTopicsResponse(quota.throttle_ms, chosen.results)


def refuse(request: DeleteTopicsRequest, error: KafkaError, version: int) -> DeleteTopicsResponse:
    """The request failed as a whole: every topic carries the error."""
    code = error.code
    results = [DeletableTopicResult(name, ZERO_UUID, code) for name in paced(request.topic_names)]
    results += [DeletableTopicResult(topic.name, topic.topic_id, code) for topic in paced(request.topics)]
    return DeleteTopicsResponse(responses=results)


class _Chosen:
    """The valid topics of a request, and the results of its invalid names
    (ControllerApis.deleteTopics)."""

    def __init__(self, ctx: RequestContext, request: DeleteTopicsRequest) -> None:
        self.results: list[DeletableTopicResult] = []
        self._request = request
        self._topics: list[Topic] | None = None
        self._catalogue = ctx.broker.catalogue

    def topics(self) -> list[Topic]:
        """The topics; looked up on the first call."""
        if self._topics is None:
            self._topics = self._look_up(self._request)
        return self._topics

    def _look_up(self, request: DeleteTopicsRequest) -> list[Topic]:
        names = list(request.topic_names)
        ids: list[bytes] = []
        for topic in request.topics:
            if topic.name is None and topic.topic_id == ZERO_UUID:
                self._bad(None, ZERO_UUID, "Neither topic name nor id were specified.")
            elif topic.name is None:
                ids.append(topic.topic_id)
            elif topic.topic_id == ZERO_UUID:
                names.append(topic.name)
            else:
                self._bad(topic.name, topic.topic_id, "You may not specify both topic name and topic id.")
        check_time(request.timeout_ms, lambda: _once(names) or _once(ids))
        found: dict[bytes, Topic] = {}
        supplied = self._take_ids(ids, found)
        self._take_names(names, supplied, found)
        return list(found.values())

    def answer(self, name: str | None, topic_id: bytes, error: KafkaError | None) -> None:
        """Add one result."""
        if error is None:
            self.results.append(DeletableTopicResult(name, topic_id))
        else:
            self.results.append(DeletableTopicResult(name, topic_id, error.code, error.message))

    def _bad(self, name: str | None, topic_id: bytes, why: str) -> None:
        self.answer(name, topic_id, KafkaError(ErrorCode.INVALID_REQUEST, why))

    def _take_ids(self, ids: list[bytes], found: dict[bytes, Topic]) -> set[bytes]:
        """The ids of existing topics, those that came twice as well."""
        supplied: set[bytes] = set()
        repeated = Repeated(ids)
        for topic_id in distinct(ids):
            topic = self._catalogue.by_id(topic_id)
            if topic is not None:
                supplied.add(topic_id)
            if topic_id in repeated:
                self._bad(None, topic_id, "Duplicate topic id.")
            elif topic is None:
                self.answer(None, topic_id, KafkaError(ErrorCode.UNKNOWN_TOPIC_ID))
            else:
                found[topic_id] = topic
        return supplied

    def _take_names(self, names: list[str], supplied: set[bytes], found: dict[bytes, Topic]) -> None:
        repeated = Repeated(names)
        for name in distinct(names):
            topic = self._catalogue.get(name)
            if name in repeated:
                self._bad(name, ZERO_UUID, "Duplicate topic name.")
            elif topic is None:
                self.answer(name, ZERO_UUID, KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            elif topic.topic_id in supplied:
                found.pop(topic.topic_id, None)
                why = "The provided topic name maps to an ID that was already supplied."
                self._bad(name, topic.topic_id, why)
            else:
                found[topic.topic_id] = topic


def _once(keys: Sequence[str] | Sequence[bytes]) -> bool:
    """Whether a name or id occurs just once."""
    repeated = Repeated(keys)
    found = any(key not in repeated for key in paced(keys))
    repeated.clear()
    return found
