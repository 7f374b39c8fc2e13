"""Suggests names for an unknown setting. Pure."""

import re

from kbroker.config.close_names import suggestion

_UNKNOWN = re.compile(r"[Uu]nknown (?:[a-z]+ )?config(?:uration)?(?: name)?:? '?([A-Za-z0-9_.-]+)")


def with_suggestion(text: str) -> str:
    """A broker's message about an unknown setting, with a suggested name."""
    found = _UNKNOWN.search(text)
    return text if found is None else text + suggestion(found[1], known_names())


def known_names() -> set[str]:
    """Every setting of brokers, groups and topics."""
    from kbroker.config import broker, group, topic

    return {*broker.BROKER, *group.GROUP, *topic.TOPIC}
