"""The folders of a running broker's logs, from DescribeLogDirs."""

from collections.abc import Collection

from msgspec import Struct

from kbroker.cli.connection import Connection
from kbroker.cli.failures import CommandFailed
from kbroker.cli.log_dirs import all_log_dirs, hidden_topics, refuse_hidden
from kbroker.cli.partitions import Partition


class Folders(Struct, frozen=True):
    """log_dirs: all log dirs of the broker. leaders: the folder of each partition's leader log."""

    log_dirs: list[str]
    leaders: dict[Partition, str]


def folders_of(broker: Connection, expected: Collection[Partition]) -> Folders:
    """expected: the partitions of the backup; those that still exist have a folder. Raises
    CommandFailed.

    Metadata is requested after the log dirs, so a new topic does not look hidden."""
    log_dirs = all_log_dirs(broker)
    if offline := next((one.path for one in log_dirs if one.error_code), None):
        raise CommandFailed(f"log dir {offline} is offline: `kbroker status` shows what to do")
    topics = broker.admin().list_topics(timeout=broker.timeout_s).topics
    hidden = hidden_topics(log_dirs, {*topics, *(topic for topic, _ in expected)})
    refuse_hidden(hidden, "the backup would lack them")
    leaders = {(topic.topic, p.id): p.leader for topic in topics.values() for p in topic.partitions.values()}
    found = {
        (log.topic, log.partition): f"{one.path}/{log.topic}-{log.partition}"
        for one in log_dirs
        for log in one.logs
        if not log.future and leaders.get((log.topic, log.partition)) == one.broker
    }
    if missing := sorted({*expected} & {*leaders} - {*found}):
        raise CommandFailed(f"{missing[0][0]}-{missing[0][1]} is offline: `kbroker status` shows what to do")
    return Folders(sorted({one.path for one in log_dirs}), found)
