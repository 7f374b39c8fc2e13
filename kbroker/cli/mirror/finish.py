"""The end of a move: applies settings again, verifies every partition, sets exact offsets of
groups."""

from collections.abc import Callable

from msgspec import Struct, field

from kbroker.cli.connection import Connection
from kbroker.cli.mirror.comparing import Difference, compare, read_partition
from kbroker.cli.mirror.engine import HEARTBEATS, OWN_TOPICS
from kbroker.cli.mirror.group_offsets import GroupOffsets
from kbroker.cli.mirror.plan import Plan
from kbroker.cli.mirror.prepare import add_partitions, apply_settings, copy_acls, copy_quotas
from kbroker.cli.partitions import earliest, latest
from kbroker.config.counts import counted


class Outcome(Struct):
    """The result of a move. groups: those with their offsets at the target."""

    differences: list[Difference] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def records(self) -> int:
        """Number of compared records of the source."""
        return sum(one.source for one in self.differences)

    @property
    def duplicates(self) -> int:
        """Number of repeated records at the target."""
        return sum(one.duplicates for one in self.differences)

    @property
    def clean(self) -> bool:
        """Whether no record is lost, foreign or out of order."""
        return all(one.clean for one in self.differences)


def finish(source: Connection, target: Connection, plan: Plan, say: Callable[[str], None]) -> Outcome:
    """Verify the records, and set settings and offsets that a copy of records cannot set. The
    clients have stopped at the source. Raises CommandFailed."""
    outcome = Outcome()
    add_partitions(target, plan)  # of the last seconds: their records, if any, are reported as missing
    copy_acls(source, target)
    copy_quotas(source, target)
    groups = GroupOffsets.read(source, plan.groups)
    outcome.remarks += [
        f"group {name} has members at the source: stop its consumers" for name in groups.active
    ]
    partitions = plan.partitions
    starts = {broker: earliest(broker, broker.admin(), partitions) for broker in (source, target)}
    ends = {broker: latest(broker, broker.admin(), partitions, committed=True) for broker in (source, target)}
    for partition in partitions:
        here, there = (
            read_partition(broker, partition, starts[broker][partition], ends[broker][partition])
            for broker in (source, target)
        )
        topic = plan.topics[partition[0]]
        difference = compare(partition, here, there, topic.compacted, topic.expires)
        outcome.differences.append(difference)
        if difference.clean:
            groups.translate(partition, here, there)
        else:
            say(describe(difference))
    # After the comparison, because shorter retention may remove records.
    outcome.remarks += apply_settings(target, plan, copied=True)
    if outcome.clean:
        outcome.remarks += groups.commit(target)
        outcome.groups = sorted(groups.moved)
    return outcome


def describe(difference: Difference) -> str:
    """A line about a partition that differs."""
    topic, number = difference.partition
    found = [
        f"{topic}-{number}: {counted(difference.source, 'record')} at the source, {difference.target:,} at the target"
    ]
    found += [f"{difference.missing:,} missing"] if difference.missing else []
    found += [f"first at the source's offsets {difference.examples}"] if difference.examples else []
    found += [f"{difference.foreign:,} that the source lacks"] if difference.foreign else []
    found += [f"{difference.duplicates:,} twice"] if difference.duplicates else []
    found += [] if difference.ordered else ["out of order"]
    return ", ".join(found)


def remove_own_topics(target: Connection) -> None:
    """Delete MirrorMaker's topics at the target. A later move starts from the beginning. A topic of
    its heartbeats with records is another's: this MirrorMaker only creates it."""
    admin = target.admin()
    there = admin.list_topics(timeout=target.timeout_s).topics
    names = [name for name in OWN_TOPICS if name in there]
    if HEARTBEATS in names:
        partitions = [(HEARTBEATS, number) for number in there[HEARTBEATS].partitions]
        if any(latest(target, admin, partitions).values()):
            names.remove(HEARTBEATS)
    for future in (admin.delete_topics(names, request_timeout=target.timeout_s) if names else {}).values():
        future.result()
