"""Encoded parts of answers for one topic, cached until topics or settings change, for any combination of topics."""

from collections.abc import Callable, Hashable
from typing import TypeVar

from kbroker.api.error_counts import error_codes
from kbroker.control.broker import Broker
from kbroker.control.metadata.catalogue import Topic
from kbroker.protocol.schema import Struct

Part = TypeVar("Part", bound=Struct)

MOST_PARTS = 4096
MOST_PARTITIONS = 100
"""Maximum of partitions of a cached topic: parts of larger topics take more memory than they save time."""


class TopicParts:
    """Parts of answers by topic. Runs in: control. Owner: the broker's attachments. Nobody changes a part.

    None are kept while a log dir is offline: its partitions go offline without control.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._good_for = -1
        self._usable = False
        self._parts: dict[tuple[Hashable, str], Struct] = {}

    @staticmethod
    def of(broker: Broker) -> "TopicParts":
        """The one of this process, for one answer that is made now."""
        found = broker.attachments.get(TopicParts)
        if not isinstance(found, TopicParts):
            found = broker.attachments[TopicParts] = TopicParts(broker)
        if found._good_for != broker.version:
            found._parts.clear()
            found._good_for = broker.version
        found._usable = not broker.dir_errors.any
        return found

    def get(self, kind: tuple[type[Part], Hashable], topic: Topic, make: Callable[[], Part]) -> Part:
        """The part of a kind for a topic; made when there is none without an error."""
        if not self._usable or len(topic.partitions) > MOST_PARTITIONS:
            return make()
        kept = self._parts.get((kind, topic.name))
        if isinstance(kept, kind[0]):
            return kept
        made = make()
        if not any(error_codes(made)):
            if len(self._parts) >= MOST_PARTS:
                self._parts.clear()
            self._parts[kind, topic.name] = made
        return made
