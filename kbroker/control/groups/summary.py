"""All groups in short, for metrics."""

from collections.abc import Collection

from kbroker.control.groups.group import Group
from kbroker.control.groups.modern_group.subscriptions import FEW
from kbroker.control.groups.share_group.state import ShareGroup
from kbroker.control.groups.table import GroupTable
from kbroker.control.groups.topic_view import TopicView
from kbroker.control.services import Services
from kbroker.control.share.partitions import SharePartitions
from kbroker.ipc.http_messages import GroupsPage, GroupSummary
from kbroker.ipc.link import AsyncLink
from kbroker.protocol.errors import KafkaError
from kbroker.protocol.slices import paced, yield_slice

PAGE = 200
"""Maximum of groups in a message, and of offsets with which it is long enough."""


def send_summaries(services: Services, link: AsyncLink, call_id: int) -> None:
    """Reply to a GroupsQuery: pages, and the last one as the reply. In slices.

    Groups whose partition of the internal topic is loaded; none before there is a coordinator."""
    try:
        table = services.groups.shard.table
        shared = services.shares.partitions
    except KafkaError:
        link.reply(call_id, ())
        return
    page: list[GroupSummary] = []
    room = PAGE
    for group in paced(list(table.groups.values())):
        page.append(_summary(table, shared, group))
        room -= 1 + sum(map(len, page[-1].offsets.values())) + len(page[-1].subscribed)
        if room <= 0:
            link.send(GroupsPage(call_id, tuple(page)))
            page, room = [], PAGE
            yield_slice()
    link.reply(call_id, tuple(page))


def existing(view: TopicView, names: Collection[str]) -> list[str]:
    """The names of existing topics among `names`. Clients may subscribe to very many others."""
    if len(names) <= FEW:
        return [name for name in paced(names) if view.id_of(name) is not None]
    return [name for name in paced(view.names()) if name in names]


def topics_of(view: TopicView, group: Group) -> list[str]:
    """Topics that the members read, and those that a share group has shared before."""
    names = group.topics_read()
    found = existing(view, names)
    if isinstance(group, ShareGroup):
        found += [
            topic.name
            for topic_id, topic in paced(group.shared.items())
            if topic.name not in names and view.id_of(topic.name) == topic_id
        ]
    return found


def _summary(table: GroupTable, shared: SharePartitions, group: Group) -> GroupSummary:
    topics = tuple(topics_of(table.topics, group))
    return GroupSummary(
        group.group_id,
        group.TYPE,
        group.state_name,
        len(getattr(group, "members", ())),
        {
            topic: {partition: committed.offset for partition, committed in paced(partitions.items())}
            for topic, partitions in table.offsets.of_group(group.group_id).items()
        },
        shared.letters_of(group.group_id, topics) if isinstance(group, ShareGroup) else {},
        topics,
        shared.lags_of(group.group_id, group.shared) if isinstance(group, ShareGroup) else {},
    )
