"""One member of a classic group: identity, timeouts, protocols, and the pending request."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from kbroker.control.coordinator.machine import Deferred

Protocols = Sequence[tuple[str, bytes]]
"""(protocol name, metadata) in the member's order of preference."""


@dataclass(slots=True, eq=False)
class ClassicMember:
    """Runs in: control. Owner: its ClassicGroup (Kafka's ClassicGroupMember)."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    awaiting_join: Deferred | None = field(default=None, init=False)
    awaiting_sync: Deferred | None = field(default=None, init=False)
    is_new: bool = field(default=False, init=False)

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def heartbeat_satisfied(self) -> bool:
        """Whether a member with an expired session is still alive: it waits for an answer."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    def protocol_names(self) -> set[str]:
        return {name for name, _ in self.protocols}

    def metadata(self, protocol_name: str | None) -> bytes:
        """Metadata for one of the member's protocols; KeyError for another."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        raise KeyError(protocol_name)

    def vote(self, candidates: Collection[str]) -> str:
        """The member's preferred protocol among those that all members support."""
        return next(name for name, _ in self.protocols if name in candidates)

    def matches(self, protocols: Protocols) -> bool:
        """Whether a rejoining member has the same protocols as before, in the same order."""
        return list(self.protocols) == list(protocols)
