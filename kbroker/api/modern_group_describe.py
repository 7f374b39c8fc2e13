"""Shared by the descriptions of consumer, share and streams groups."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from kbroker.api.context import RequestContext
from kbroker.api.operations import ON_GROUP
from kbroker.control.groups.service import each
from kbroker.control.groups.shard import GroupShard
from kbroker.protocol.errors import ErrorCode, KafkaError


class Request(Protocol):
    """ConsumerGroupDescribe, ShareGroupDescribe or StreamsGroupDescribe."""

    group_ids: list[str]
    include_authorized_operations: bool


class Described(Protocol):
    """One group in its answer."""

    def __init__(self, error_code: int, error_message: str | None = None, group_id: str = "") -> None: ...

    error_code: int
    authorized_operations: int


D = TypeVar("D", bound=Described)


def describe_each(
    ctx: RequestContext, request: Request, kind: type[D], describe: Callable[[GroupShard, str], D]
) -> list[D]:
    """One description per group. describe(shard, group_id) carries its own GROUP_ID_NOT_FOUND."""
    service = ctx.services.groups

    def one(group_id: str) -> D:
        if not group_id:
            return kind(ErrorCode.INVALID_GROUP_ID)
        group = describe(service.read(group_id), group_id)
        if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
            group.authorized_operations = ON_GROUP
        return group

    return each(request.group_ids, one, lambda group_id, error: kind(error.code, group_id=group_id))


def refuse_each(request: Request, kind: type[D], error: KafkaError) -> list[D]:
    """The request failed as a whole: every group carries the error."""
    return [kind(error.code, group_id=group_id) for group_id in request.group_ids]
