"""Reads from the source what a move has to copy, and checks that the target can accept it."""

import re
import time
from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct, field

from kbroker.cli.acl_requests import all_acls
from kbroker.cli.config_changes import read_configs
from kbroker.cli.connection import Connection
from kbroker.cli.describe_groups import all_groups
from kbroker.cli.failures import CommandFailed, result_of
from kbroker.cli.log_dirs import all_log_dirs, hidden_topics, refuse_hidden
from kbroker.cli.partitions import Partition, earliest, latest
from kbroker.config.acls import Acl
from kbroker.config.counts import counted
from kbroker.control.metadata.topic_name import INTERNAL
from kbroker.protocol.errors import ErrorCode

KEPT_BY_ENGINE = re.compile(r"(__.*|\..*|.*[.-]internal|.*heartbeats)")
"""Names that MirrorMaker 2 treats as internal topics and never copies, or, those of heartbeats,
copies to a topic of another name."""
MAX_REPLICAS = 3
HIDDEN_TRIES = 10
PAUSE_S = 0.5
BROKER_WIDE = ("broker", "all brokers", "server.properties")


class Setting(Struct, frozen=True):
    """A topic setting and its source, one of `config_sources.SOURCES`."""

    value: str
    source: str


class PlannedTopic(Struct):
    """A topic to copy. settings: all effective settings at the source, by name. at_target: number
    of partitions at the target."""

    name: str
    partitions: int
    settings: dict[str, Setting]
    at_target: int = 0

    @property
    def compacted(self) -> bool:
        """Whether the topic is compacted."""
        policy = self.settings.get("cleanup.policy")
        return policy is not None and "compact" in policy.value

    @property
    def expires(self) -> bool:
        """Whether retention removes records."""
        policy = self.settings.get("cleanup.policy")
        return policy is None or "delete" in policy.value


class Plan(Struct):
    """Everything to copy. starts, ends: offsets of the source's partitions at the time of the
    plan. continues: an earlier run, or this one, has copied into the target. ids: of the source's
    topics, as far as they are known, also of those that were deleted meanwhile."""

    topics: dict[str, PlannedTopic]
    groups: list[str]
    acls: int
    replication_factor: int
    continues: bool = False
    target_has_authorizer: bool = True
    starts: dict[Partition, int] = field(default_factory=dict)
    ends: dict[Partition, int] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    @property
    def partitions(self) -> list[Partition]:
        """All partitions to copy, in order."""
        return sorted(
            (topic.name, number) for topic in self.topics.values() for number in range(topic.partitions)
        )

    @property
    def records(self) -> int:
        """Offsets between starts and ends, including transaction markers and compacted records."""
        return sum(self.ends[partition] - self.starts[partition] for partition in self.ends)


def make_plan(
    source: Connection,
    target: Connection,
    topics: Sequence[str],
    replication_factor: int | None,
    continues: bool,
) -> Plan:
    """Read both sides. Raises CommandFailed."""
    there = source.admin().list_topics(timeout=source.timeout_s).topics
    here = target.admin().list_topics(timeout=target.timeout_s)
    if not topics:
        _refuse_hidden(source, there)
    chosen, remarks = choose(there, topics)
    planned = {}
    for name in chosen:
        settings = {
            str(row["name"]): Setting(str(row["value"]), str(row["source"]))
            for row in read_configs(source, "topic", name)
            if row["value"] is not None and not row["sensitive"]
        }
        at_target = len(here.topics[name].partitions) if name in here.topics else 0
        planned[name] = PlannedTopic(name, len(there[name].partitions), settings, at_target)
    nodes = len(here.brokers)
    factor = replication_factor or min(MAX_REPLICAS, nodes)
    if factor > nodes:
        raise CommandFailed(f"--replication-factor {factor}: the target has {counted(nodes, 'broker')}")
    plan = Plan(planned, all_groups(source), len(acls_of(source) or ()), factor, continues, remarks=remarks)
    plan.target_has_authorizer = acls_of(target) is not None
    partitions = plan.partitions
    plan.starts = earliest(source, source.admin(), partitions)
    plan.ends = latest(source, source.admin(), partitions, committed=True)
    for topic in planned.values():
        if topic.at_target:
            _check_existing(target, topic, continues)
    if plan.acls and not plan.target_has_authorizer:
        remarks.append(f"stay behind, as the target has no authorizer: {counted(plan.acls, 'ACL')}")
    return plan


def _refuse_hidden(source: Connection, visible: Collection[str]) -> None:
    """Raises CommandFailed. Brokers remove the logs of a deleted topic a moment after its
    metadata."""
    hidden = _hidden(source, visible)
    for _ in range(HIDDEN_TRIES):
        if not hidden:
            return
        time.sleep(PAUSE_S)
        hidden = _hidden(source, visible)
    refuse_hidden(hidden, "they would stay behind; name the topics with --topic")


def _hidden(source: Connection, visible: Collection[str]) -> list[str]:
    """Topics with a log, but not among the visible ones. Raises CommandFailed."""
    try:
        log_dirs = all_log_dirs(source)
    except CommandFailed as error:
        why = f"hidden topics would stay behind: {error.message}; or name the topics with --topic"
        raise CommandFailed(why, error.code) from None
    now = source.admin().list_topics(timeout=source.timeout_s).topics  # a topic that was created meanwhile
    return [name for name in hidden_topics(log_dirs, {*visible, *now}) if not KEPT_BY_ENGINE.fullmatch(name)]


def choose(there: Iterable[str], requested: Sequence[str]) -> tuple[list[str], list[str]]:
    """The topics to copy, and remarks about those left out. Raises CommandFailed for a missing
    topic."""
    names = set(there)
    if missing := sorted(set(requested) - names):
        raise CommandFailed(f"the source has no topic {', '.join(missing)}")
    if refused := sorted(name for name in requested if KEPT_BY_ENGINE.fullmatch(name)):
        raise CommandFailed(f"MirrorMaker 2 treats {', '.join(refused)} as internal and does not copy it")
    chosen = sorted(name for name in requested or names if not KEPT_BY_ENGINE.fullmatch(name))
    left = sorted(names - set(chosen) - INTERNAL) if not requested else []
    remarks = [f"left out, because MirrorMaker 2 treats it as internal: {name}" for name in left]
    return chosen, remarks


def is_outdated(plan: Plan, source: Connection, requested: Sequence[str]) -> bool:
    """Whether the source's topics or their partitions differ from the plan. Raises CommandFailed if
    a requested topic is gone, or a copied topic was deleted and created again."""
    there = source.admin().list_topics(timeout=source.timeout_s).topics
    now = {name: len(there[name].partitions) for name in choose(there, requested)[0]}
    for name, topic_id in _ids(source, now).items():
        if plan.ids.setdefault(name, topic_id) != topic_id:
            raise CommandFailed(
                f"{name} was deleted and created again at the source: its copy has records of both. "
                f"Move the other topics (--topic), delete {name} at the target, and move it then"
            )
    return now != {topic.name: topic.partitions for topic in plan.topics.values()}


def _ids(broker: Connection, topics: Collection[str]) -> dict[str, str]:
    """Ids by topic, without those that were deleted meanwhile, or of which a broker of a cluster
    has not learned yet. Raises CommandFailed."""
    from confluent_kafka import TopicCollection

    if not topics:
        return {}
    names = TopicCollection(sorted(topics))
    answers = broker.admin().describe_topics(names, request_timeout=broker.timeout_s)
    found = {}
    for name, answer in answers.items():
        try:
            found[name] = str(result_of(answer, name).topic_id)
        except CommandFailed as failure:
            if failure.error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
    return found


def acls_of(broker: Connection) -> list[Acl] | None:
    """All ACLs; None when the broker has no authorizer."""
    try:
        return all_acls(broker)
    except CommandFailed as failure:
        if failure.error is ErrorCode.SECURITY_DISABLED:
            return None
        raise


def _check_existing(target: Connection, topic: PlannedTopic, continues: bool) -> None:
    """Check that a topic at the target comes from this move, or is empty with the same partitions.
    Raises CommandFailed."""
    grown = continues and topic.at_target < topic.partitions  # at the source, since the copy began
    if topic.at_target != topic.partitions and not grown:
        raise CommandFailed(
            f"{topic.name} has {counted(topic.partitions, 'partition')} at the source "
            f"and {topic.at_target} at the target"
        )
    if continues:
        return
    numbers = [(topic.name, number) for number in range(topic.at_target)]
    if any(latest(target, target.admin(), numbers).values()):
        raise CommandFailed(
            f"the target's topic {topic.name} holds records already: delete it or name other topics"
        )
