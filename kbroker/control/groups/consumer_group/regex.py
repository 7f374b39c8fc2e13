"""Keeping the topics of regular-expression subscriptions up to date.

All expressions of a group are resolved together, in a separate operation after the heartbeat that
requested it, so that one change of topics makes one rebalance.
"""

from collections.abc import Callable, Iterable, Iterator
from enum import Enum

from kbroker.config.client_pattern import ClientPattern, InvalidPattern, compile_pattern
from kbroker.control.coordinator.machine import Outcome, Record
from kbroker.control.groups.consumer_group import records
from kbroker.control.groups.consumer_group.member import ConsumerMember
from kbroker.control.groups.consumer_group.state import ConsumerGroup
from kbroker.control.groups.table import GroupTable
from kbroker.protocol.epochs import next_epoch
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.slices import in_order, paced, yield_slice

MIN_REFRESH_INTERVAL_MS = 10_000
"""A group's expressions are not resolved more often than this."""


def matching_topics(pattern: str, names: Iterable[str]) -> frozenset[str]:
    """The topics that an expression matches; none when it is not valid."""
    try:
        regex = compile_pattern(pattern)
    except InvalidPattern:
        return frozenset()
    return frozenset(_matching(regex, names))


def _matching(regex: ClientPattern, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        yield_slice()  # each may take milliseconds
        if regex.matches(name):
            yield name


class RegexChange(Enum):
    """The change of the member's expression by a heartbeat. RESOLVED: its topics are known
    already."""

    NONE = 0
    UPDATED = 1
    RESOLVED = 2


def update_regex(
    table: GroupTable,
    group: ConsumerGroup,
    old: ConsumerMember,
    new: ConsumerMember,
    now_ms: int,
    out: list[Record],
    sees: Callable[[str], bool] = lambda _: True,
) -> RegexChange:
    """Write the records of a changed subscription, and have expressions resolved to topics that the
    member may see.

    Raises INVALID_REGULAR_EXPRESSION.
    """
    change, must_resolve = _changed(group, old, new, out)
    left = old.regex if old.regex != new.regex and group.subscribers_of(old.regex) == 1 else ""
    if not new.regex and len(group.subscribed_regexes()) <= bool(left):
        return change
    last_ms = group.resolved_ms
    if 0 <= now_ms - last_ms <= MIN_REFRESH_INTERVAL_MS:  # not in the future: the clock may be set back
        return change
    must_resolve |= any(regex != left for regex in group.unresolved)
    must_resolve |= group.resolved_version < table.topics.version
    must_resolve |= now_ms > last_ms + table.settings.regex_refresh_interval_ms
    if must_resolve:
        table.timers.schedule(
            f"regex-{group.group_id}",
            0,
            group.group_id,
            lambda later_ms: resolve(table, group.group_id, later_ms, sees),
        )
    return change


def _changed(
    group: ConsumerGroup, old: ConsumerMember, new: ConsumerMember, out: list[Record]
) -> tuple[RegexChange, bool]:
    """The change of a member's expression, and whether the new expression must be resolved."""
    if old.regex == new.regex:
        return RegexChange.NONE, False
    if old.regex and group.subscribers_of(old.regex) == 1:
        out.append(records.regex_tombstone(group.group_id, old.regex))
    if new.regex:
        if not group.subscribers_of(new.regex):
            check_regex(new.regex)
            return RegexChange.UPDATED, True
        resolved = new.regex in group.regexes
        return (RegexChange.RESOLVED if resolved else RegexChange.UPDATED), False
    return (RegexChange.RESOLVED if old.regex else RegexChange.UPDATED), False


def check_regex(pattern: str) -> None:
    """Raises INVALID_REGULAR_EXPRESSION."""
    try:
        compile_pattern(pattern)
    except InvalidPattern as error:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error}.",
        ) from error


def resolve(
    table: GroupTable, group_id: str, now_ms: int, sees: Callable[[str], bool] = lambda _: True
) -> Outcome:
    """Match all expressions of a group against the topics that are seen; a new group epoch when
    something changed."""
    group = table.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        return Outcome()
    out: list[Record] = []
    version = table.topics.version  # before their names: a topic may be created during a pause
    names = [name for name in paced(table.topics.names()) if sees(name)]
    bump = False
    gone: list[frozenset[str]] = []
    new: list[frozenset[str]] = []
    for regex in in_order(group.subscribed_regexes()):
        matched = matching_topics(regex, names)
        known = group.regexes.get(regex)
        if known is not None:
            gone.append(known.topics)
        new.append(matched)
        bump |= matched != (frozenset() if known is None else known.topics)
        out.append(records.resolved_regex(group_id, regex, matched, version, now_ms))
    if not out:
        return Outcome()
    group.resolved_ms = now_ms  # also if the records cannot be written: not again with each heartbeat
    hashed = group.subscriptions.hash(table.topics, gone, new)
    if bump or hashed != group.metadata_hash:
        out.append(records.group_epoch(group_id, next_epoch(group.group_epoch), hashed))
    return Outcome(out)
