"""Reset offsets of a group, with a preview, and delete groups."""

from http import HTTPStatus
from typing import Any

from kbroker.http.console.changes.topics import CONFIRM, confirmed
from kbroker.http.console.log_reader import EARLIEST, LATEST, offsets_at
from kbroker.http.console.refusal import Refusal, bad_request, check
from kbroker.http.console.request import Request
from kbroker.http.console.schema import BOOL, INT, INT64, TEXT, Parameter, fields, many, maybe
from kbroker.http.console.views.groups import Partition, committed, kind_of
from kbroker.http.console.views.topics import metadata
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.delete_groups import DeleteGroupsRequest
from kbroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

TARGETS = ("earliest", "latest", "offset", "time", "shift")
RESET = (
    Parameter("to", "Where the group will continue.", required=True, choices=TARGETS),
    Parameter("topic", "One topic; default: every topic with committed offsets."),
    Parameter("partition", "One partition of that topic.", "integer", None, high=2**31 - 1),
    Parameter("offset", "With to=offset.", "integer", None, high=INT64),
    Parameter(
        "time_ms", "With to=time: the first record of this time or later.", "integer", None, high=INT64
    ),
    Parameter(
        "by",
        "With to=shift: the number of records to move forward, or back if negative.",
        "integer",
        None,
        low=-INT64,
        high=INT64,
    ),
    Parameter("preview", "Show what would change, change nothing.", "boolean", True),
)
REMOVE = (CONFIRM,)
MOVE = fields(topic=TEXT, partition=INT, before=maybe(INT), after=INT, change=INT)
MOVES = fields(group=TEXT, preview=BOOL, moves=many(MOVE))
DELETED = fields(group=TEXT)
BY_NAME = 9
"""The last version of OffsetCommit that names topics."""


def reset(request: Request) -> dict[str, Any]:
    """Committed offsets of a group without members."""
    group = request["group"]
    kind, state = kind_of(request, group)
    if kind not in ("classic", "consumer"):
        raise bad_request(f"offsets of a {kind} group are not reset here")
    if state not in ("Empty", "Dead") and not request["preview"]:
        raise Refusal(
            HTTPStatus.CONFLICT, "NON_EMPTY_GROUP", f"{group} has members (state {state}): stop them first"
        )
    now = committed(request, group)
    requested = _requested(request, now)
    if not requested:
        raise bad_request("no partition to reset: name a topic")
    moves = []
    for (topic, partition), after in sorted(requested.items()):
        before = now.get((topic, partition))
        moves.append(
            {
                "topic": topic,
                "partition": partition,
                "before": before,
                "after": after,
                "change": after - (before or 0),
            }
        )
    if not request["preview"]:
        _commit(request, group, requested)
    return {"group": group, "preview": request["preview"], "moves": moves}


def _requested(request: Request, now: dict[Partition, int]) -> dict[Partition, int]:
    names = {request["topic"]} if request["topic"] else {topic for topic, _ in now}
    found: dict[Partition, int] = {}
    for topic in sorted(names):
        leaders = {p.partition_index: p.leader_id for p in metadata(request, topic)[0].partitions}
        if request["topic"] is None:
            leaders = {number: node for number, node in leaders.items() if (topic, number) in now}
        if request["partition"] is not None:
            if request["topic"] is None or request["partition"] not in leaders:
                raise bad_request("partition: needs a topic that has it")
            leaders = {request["partition"]: leaders[request["partition"]]}
        found |= {
            (topic, number): offset for number, offset in _targets(request, topic, leaders, now).items()
        }
    return found


def _targets(
    request: Request, topic: str, leaders: dict[int, int], now: dict[Partition, int]
) -> dict[int, int]:
    caller, to = request.caller, request["to"]
    starts = offsets_at(caller, topic, leaders, EARLIEST)
    ends = offsets_at(caller, topic, leaders, LATEST)
    if to == "earliest":
        return starts
    if to == "latest":
        return ends
    if to == "time":
        found = offsets_at(caller, topic, leaders, _given(request, "time_ms"))
        return {number: ends[number] if found[number] < 0 else found[number] for number in leaders}
    if to == "offset":
        requested = dict.fromkeys(leaders, _given(request, "offset"))
    else:
        by = _given(request, "by")
        requested = {number: now.get((topic, number), starts[number]) + by for number in leaders}
    return {number: min(max(offset, starts[number]), ends[number]) for number, offset in requested.items()}


def _given(request: Request, name: str) -> int:
    if request[name] is None:
        raise bad_request(f"{name}: missing")
    number: int = request[name]
    return number


def _commit(request: Request, group: str, requested: dict[Partition, int]) -> None:
    topics = [
        OffsetCommitRequestTopic(
            name,
            partitions=[
                OffsetCommitRequestPartition(partition, offset, -1, "")
                for (topic, partition), offset in sorted(requested.items())
                if topic == name
            ],
        )
        for name in sorted({topic for topic, _ in requested})
    ]
    answer = request.caller.ask(
        ApiKey.OFFSET_COMMIT, OffsetCommitRequest(group, -1, "", topics=topics), version=BY_NAME
    )
    for topic in answer.topics:
        for partition in topic.partitions:
            check(partition.error_code, f"{group}: {topic.name}-{partition.partition_index}")


def delete(request: Request) -> dict[str, Any]:
    """Delete a group without members, with its committed offsets."""
    group = request["group"]
    confirmed(request, group)
    answer = request.caller.ask(ApiKey.DELETE_GROUPS, DeleteGroupsRequest([group])).results[0]
    check(answer.error_code, f"group {group}")
    return {"group": group}
