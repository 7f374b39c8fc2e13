"""Groups of all kinds: a page of groups with lag, and one group with members and partitions."""

from collections.abc import Collection, Mapping
from typing import Any

from kbroker.http.console.paging import page, page_of
from kbroker.http.console.refusal import check, not_found
from kbroker.http.console.request import Request
from kbroker.http.console.schema import INT, TEXT, fields, many, maybe
from kbroker.http.console.views import group_members
from kbroker.http.console.visible import Visible
from kbroker.http.group_lags import LogRanges, topics_read
from kbroker.ipc.http_messages import GroupSummary
from kbroker.metrics.group_lag import whole_topics
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from kbroker.protocol.messages.list_groups import ListGroupsRequest
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

KINDS = ("classic", "consumer", "share", "streams")
SUMMARY = fields(group=TEXT, kind=TEXT, state=TEXT, members=maybe(INT), lag=maybe(INT), topics=many(TEXT))
GROUPS = page_of("groups", SUMMARY)
PARTITION = fields(
    topic=TEXT,
    partition=INT,
    committed_offset=maybe(INT),
    log_end_offset=maybe(INT),
    lag=maybe(INT),
    member_id=maybe(TEXT),
    client_id=maybe(TEXT),
    host=maybe(TEXT),
)
GROUP = fields(
    group=TEXT,
    kind=TEXT,
    state=TEXT,
    assignor=TEXT,
    lag=INT,
    members=many(group_members.MEMBER),
    partitions=many(PARTITION),
)
Partition = tuple[str, int]


def listed(request: Request) -> list[Any]:
    """All groups that the caller may see."""
    answer = request.caller.ask(ApiKey.LIST_GROUPS, ListGroupsRequest())
    check(answer.error_code, "groups")
    return sorted(answer.groups, key=lambda group: group.group_id)


def groups(request: Request) -> dict[str, Any]:
    """A page of groups, sorted by lag (the largest first) or by name. With a topic those that read
    it, and their lag there."""
    ranges = LogRanges(request.shared, request.view.directory)
    known = {group.group_id: group for group in request.view.groups()}
    pattern = (request["search"] or "").lower()
    visible = Visible(request.caller, request.config)
    found = [
        group
        for group in listed(request)
        if pattern in group.group_id.lower() and request["kind"] in (None, _kind(group))
    ]
    lags = {
        group.group_id: ranges.lag_of_topics(known[group.group_id])
        for group in found
        if group.group_id in known
    }
    if (only := request["topic"]) is not None:
        found = _readers(found, known, visible.topics([only]))
        lags = {key: {name: lag for name, lag in each.items() if name == only} for key, each in lags.items()}
    counted = set(visible.topics([name for topics in lags.values() for name in topics]))
    rows: list[dict[str, Any]] = []
    for group in found:
        seen = known.get(group.group_id)
        rows.append(
            {
                "group": group.group_id,
                "kind": _kind(group),
                "state": group.group_state,
                "members": seen.members if seen else None,
                "lag": _lag_in(lags[group.group_id], counted) if seen else None,
                "topics": topics_read(seen) if seen else [],
            }
        )
    if request["sort"] == "lag":
        rows.sort(key=lambda row: -(row["lag"] if row["lag"] is not None else -1))
    shown = page("groups", rows, request)
    described = set(visible.topics([name for row in shown["groups"] for name in row["topics"]]))
    for row in shown["groups"]:
        row["topics"] = [name for name in row["topics"] if name in described]
    return shown


def _readers(found: list[Any], known: Mapping[str, GroupSummary], topics: Collection[str]) -> list[Any]:
    """The groups with a member or a committed offset of one of the topics."""
    return [
        group
        for group in found
        if (seen := known.get(group.group_id)) is not None and set(topics_read(seen)) & set(topics)
    ]


def _kind(group: Any) -> str:
    return (group.group_type or "classic").lower()


def _lag_in(lags: Mapping[str, int], topics: Collection[str]) -> int | None:
    """Lag of a group in these topics; None if it has none. Members subscribe to any names: the lag
    of all, and the order by it, would show how many records are in topics that the caller may not
    see."""
    found = [lag for topic, lag in lags.items() if topic in topics]
    return sum(found) if found else None


def kind_of(request: Request, group_id: str) -> tuple[str, str]:
    """Kind and state of a group. Raises Refusal."""
    for group in listed(request):
        if group.group_id == group_id:
            return (group.group_type or "classic").lower(), group.group_state
    raise not_found(f"there is no group {group_id}")


def group(request: Request) -> dict[str, Any]:
    """One group with members, committed offsets and lag."""
    group_id = request["group"]
    kind, state = kind_of(request, group_id)
    described = group_members.describe(request, kind, group_id)
    if kind == "share":
        starts, lags = share_offsets(request, group_id)
    else:
        starts, lags = committed(request, group_id), {}
    ranges = LogRanges(request.shared, request.view.directory)
    owners = {
        (each["topic"], number): member
        for member in described.members
        for each in member["assignment"]
        for number in each["partitions"]
    }
    rows = []
    places = set(starts) | set(owners) | uncommitted(ranges, kind, starts, owners)
    for topic, partition in _visible(request, places):
        at, end = starts.get((topic, partition)), ranges.end(topic, partition)
        lag = lags.get((topic, partition)) if kind == "share" else ranges.lag(topic, partition, at)
        owner = owners.get((topic, partition), {})
        rows.append(
            {
                "topic": topic,
                "partition": partition,
                "committed_offset": at,
                "log_end_offset": end,
                "lag": lag,
                "member_id": owner.get("member_id"),
                "client_id": owner.get("client_id"),
                "host": owner.get("host"),
            }
        )
    return {
        "group": group_id,
        "kind": kind,
        "state": described.state or state,
        "assignor": described.assignor,
        "lag": sum(row["lag"] or 0 for row in rows),
        "members": described.members,
        "partitions": rows,
    }


def _visible(request: Request, places: Collection[Partition]) -> list[Partition]:
    """The partitions whose topic the caller may see, sorted. The leader of a group may assign any
    names."""
    names = sorted({topic for topic, _ in places})
    described = set(Visible(request.caller, request.config).topics(names)) if names else set()
    return sorted(place for place in places if place[0] in described)


def uncommitted(
    ranges: LogRanges, kind: str, committed: Collection[Partition], owned: Collection[Partition]
) -> set[Partition]:
    """Partitions that count though the group has committed no offset there; none of a share
    group."""
    topics = whole_topics((topic for topic, _ in committed), {topic for topic, _ in owned}, len(owned))
    return (
        {(topic, number) for topic in topics for number in ranges.partitions(topic)}
        if kind != "share"
        else set()
    )


def committed(request: Request, group_id: str) -> dict[Partition, int]:
    """Committed offsets of a group."""
    api_request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id, topics=None)])
    answer = request.caller.ask(ApiKey.OFFSET_FETCH, api_request, version=9).groups[0]
    check(answer.error_code, f"group {group_id}")
    return {
        (topic.name, partition.partition_index): partition.committed_offset
        for topic in answer.topics
        for partition in topic.partitions
        if partition.committed_offset >= 0 and partition.error_code == 0
    }


def share_offsets(
    request: Request, group_id: str
) -> tuple[dict[Partition, int], dict[Partition, int | None]]:
    """Start offsets and lags of a share group."""
    api_request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(group_id, None)])
    answer = request.caller.ask(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, api_request).groups[0]
    check(answer.error_code, f"group {group_id}", answer.error_message)
    starts: dict[Partition, int] = {}
    lags: dict[Partition, int | None] = {}
    for topic in answer.topics:
        for partition in topic.partitions:
            if partition.error_code == 0 and partition.start_offset >= 0:
                place = topic.topic_name, partition.partition_index
                starts[place] = partition.start_offset
                lags[place] = partition.lag if partition.lag >= 0 else None
    return starts, lags
