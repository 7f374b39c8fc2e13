"""Names of topics and groups that a client may see, where a view has them from shared memory or
control and not from an answer to the client's own request."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from kbroker.config.authorizer import CLASS_SETTING
from kbroker.config.broker import BrokerConfig
from kbroker.http.console.caller import Caller
from kbroker.http.console.refusal import Refusal
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

KEPT_S: Final = 5.0
Checked = dict[str, tuple[bool, float]]
"""Whether a name may be seen, and the time of the answer."""


class Visible:
    """Runs in: http. Owner: one request or stream. Without an authorizer all names are visible."""

    def __init__(
        self, caller: Caller, config: BrokerConfig, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._caller = caller
        self._checks = bool(config.get_optional_str(CLASS_SETTING))
        self._clock_s = clock_s
        self._topics: Checked = {}
        self._groups: Checked = {}

    def topics(self, names: Sequence[str]) -> list[str]:
        """The names of topics that the client may see; none while the broker does not answer."""
        return self._seen(self._topics, names, self._seen_topics)

    def groups(self, names: Sequence[str]) -> list[str]:
        """The ids of groups that the client may see; none while the broker does not answer."""
        return self._seen(self._groups, names, self._seen_groups)

    def _seen(
        self, known: Checked, names: Sequence[str], ask: Callable[[list[str]], Iterable[str]]
    ) -> list[str]:
        if not self._checks:
            return list(names)
        now = self._clock_s()
        for name in [name for name, (_, at_s) in known.items() if now - at_s > KEPT_S]:
            del known[name]
        if missing := list(dict.fromkeys(name for name in names if name not in known)):
            try:
                found = set(ask(missing))
            except Refusal:
                found = set()
            known.update((name, (name in found, now)) for name in missing)
        return [name for name in names if known[name][0]]

    def _seen_topics(self, names: list[str]) -> Iterable[str]:
        request = MetadataRequest(
            [MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False
        )
        answer = self._caller.ask(ApiKey.METADATA, request, version=12)
        hidden = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return [each.name for each in answer.topics if each.error_code != hidden]

    def _seen_groups(self, names: list[str]) -> Iterable[str]:
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(name, topics=[]) for name in names])
        answer = self._caller.ask(ApiKey.OFFSET_FETCH, request, version=9)
        hidden = ErrorCode.GROUP_AUTHORIZATION_FAILED
        return [each.group_id for each in answer.groups if each.error_code != hidden]
