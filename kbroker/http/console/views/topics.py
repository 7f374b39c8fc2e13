"""Topics, their partitions and settings."""

from bisect import bisect_left
from http import HTTPStatus
from typing import Any

from kbroker.http.console.paging import page, page_of
from kbroker.http.console.refusal import Refusal, check, name_of, not_found
from kbroker.http.console.request import Request
from kbroker.http.console.schema import BOOL, INT, NUMBER, TEXT, fields, many, maybe
from kbroker.http.console.views.settings import SETTING, settings_of
from kbroker.http.directory import Directory
from kbroker.ipc.layout import Slot
from kbroker.ipc.shared import Shared
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

TOPIC_RESOURCE = 2
SUMMARY = fields(
    name=TEXT,
    internal=BOOL,
    partitions=INT,
    replicas=INT,
    under_replicated=INT,
    bytes=INT,
    records=INT,
    in_bytes=NUMBER,
    out_bytes=NUMBER,
    in_records=NUMBER,
)
PARTITION = fields(
    partition=INT,
    leader=INT,
    leader_epoch=INT,
    replicas=many(INT),
    isr=many(INT),
    log_start_offset=maybe(INT),
    log_end_offset=maybe(INT),
    high_watermark=maybe(INT),
    last_stable_offset=maybe(INT),
    bytes=maybe(INT),
    segments=maybe(INT),
    max_timestamp_ms=maybe(INT),
)
TOPICS = page_of("topics", SUMMARY)
TOPIC = fields(
    name=TEXT,
    id=TEXT,
    internal=BOOL,
    in_bytes=NUMBER,
    out_bytes=NUMBER,
    in_records=NUMBER,
    partitions=many(PARTITION),
    settings=maybe(many(SETTING)),
)
IDLE = {"in_bytes": 0.0, "out_bytes": 0.0, "in_records": 0.0}
SORTS = {"name": "name", "bytes": "bytes", "in_bytes": "in_bytes", "out_bytes": "out_bytes"}
WORDS = {
    "log_start_offset": Slot.LOG_START,
    "log_end_offset": Slot.LOG_END,
    "high_watermark": Slot.HIGH_WATERMARK,
    "last_stable_offset": Slot.LAST_STABLE,
    "bytes": Slot.LOG_BYTES,
    "segments": Slot.SEGMENT_COUNT,
    "max_timestamp_ms": Slot.MAX_TIMESTAMP,
}


def metadata(request: Request, topic: str | None = None) -> list[Any]:
    """Topics that the caller may see, sorted by name; with a name that topic. Raises Refusal (404)
    if it does not exist."""
    topics_filter = None if topic is None else [MetadataRequestTopic(name=topic)]
    api_request = MetadataRequest(topics_filter, allow_auto_topic_creation=False)
    answer = request.caller.ask(ApiKey.METADATA, api_request, version=12)
    if topic is not None:
        if not answer.topics:
            raise not_found(f"there is no topic {topic}")
        code = answer.topics[0].error_code
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:  # Kafka's text for it speaks of partitions
            raise Refusal(HTTPStatus.NOT_FOUND, name_of(code), f"there is no topic {topic}")
        check(code, f"topic {topic}")
    return sorted(answer.topics, key=lambda each: each.name or "")


def stored(shared: Shared, directory: Directory, name: str) -> dict[int, dict[str, int]]:
    """A topic's partitions in shared memory, by index. The directory is in the order of names: a
    page needs all topics."""
    at = bisect_left(directory.topics, name, key=lambda topic: topic.name)
    if at == len(directory.topics) or directory.topics[at].name != name:
        return {}
    return {
        image.index: {key: int(shared.slots[image.slot, word]) for key, word in WORDS.items()}
        for image in directory.topics[at].partitions
    }


def topics(request: Request) -> dict[str, Any]:
    """A page of topics with sizes and rates."""
    pattern = (request["search"] or "").lower()
    rates = request.live.topic_rates()
    rows = []
    for topic in metadata(request):
        if pattern not in topic.name.lower() or (topic.is_internal and not request["internal"]):
            continue
        rows.append(_summary(request, topic, rates.get(topic.name, IDLE)))
    order = SORTS[request["sort"]]
    rows.sort(key=lambda row: row[order], reverse=request["sort"] != "name")
    return page("topics", rows, request)


def _summary(request: Request, topic: Any, rates: Any) -> dict[str, Any]:
    partitions = stored(request.shared, request.view.directory, topic.name).values()
    return {
        "name": topic.name,
        "internal": topic.is_internal,
        "partitions": len(topic.partitions),
        "replicas": max((len(each.replica_nodes) for each in topic.partitions), default=0),
        "under_replicated": sum(len(each.isr_nodes) < len(each.replica_nodes) for each in topic.partitions),
        "bytes": sum(each["bytes"] for each in partitions),
        "records": sum(max(0, each["high_watermark"] - each["log_start_offset"]) for each in partitions),
        **{key: rates[key] for key in IDLE},
    }


def topic(request: Request) -> dict[str, Any]:
    """One topic with its partitions and settings; null settings if the caller may not describe
    them."""
    found = metadata(request, request["topic"])[0]
    logs = stored(request.shared, request.view.directory, found.name)
    nothing = dict.fromkeys(WORDS)
    rates = request.live.topic_rates().get(found.name, IDLE)
    rows = []
    for each in sorted(found.partitions, key=lambda one: one.partition_index):
        words: dict[str, Any] = logs.get(each.partition_index, nothing)
        if (words["max_timestamp_ms"] or -1) < 0:
            words = words | {"max_timestamp_ms": None}
        rows.append(
            {
                "partition": each.partition_index,
                "leader": each.leader_id,
                "leader_epoch": each.leader_epoch,
                "replicas": list(each.replica_nodes),
                "isr": list(each.isr_nodes),
                **words,
            }
        )
    return {
        "name": found.name,
        "id": bytes(found.topic_id).hex(),
        "internal": found.is_internal,
        **{key: rates[key] for key in IDLE},
        "partitions": rows,
        "settings": _settings(request, found.name),
    }


def _settings(request: Request, name: str) -> list[dict[str, Any]] | None:
    try:
        return settings_of(request, TOPIC_RESOURCE, name)
    except Refusal as refusal:
        if refusal.code != ErrorCode.TOPIC_AUTHORIZATION_FAILED.name:
            raise
        return None  # READ on a topic does not imply DESCRIBE_CONFIGS
