"""Names of settings: suggestions for an unknown one, and which take effect later. Pure."""

import re
from collections.abc import Iterable

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


def at_next_start(names: Iterable[str]) -> set[str]:
    """The broker settings among `names` that a running broker only stores."""
    from kbroker.config.broker import row_of

    return {name for name in names if (row := row_of(name)) is not None and row.at_next_start}
