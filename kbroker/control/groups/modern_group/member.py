"""The base of members of modern groups."""

from enum import IntEnum
from typing import ClassVar, Final, Self

from msgspec import Struct

LEAVE_EPOCH: Final = -1
"""Member epoch by which a member leaves."""
STATIC_LEAVE_EPOCH: Final = -2
"""Member epoch by which a static member leaves for a while. Kafka 4.3 refuses it of streams
groups."""


class RecordedState(IntEnum):
    """The state of a member, with the values of its record."""

    @classmethod
    def _missing_(cls, value: object) -> Self:  # noqa: ARG003
        """A state of a later version is UNKNOWN."""
        return cls["UNKNOWN"]


class ModernMember(Struct, frozen=True):
    """Immutable: a heartbeat makes a changed copy, which the records then bring into the group."""

    METADATA: ClassVar[tuple[str, ...]]
    """The fields that the member metadata record holds."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""

    @property
    def uses_classic(self) -> bool:
        """Whether it uses the classic protocol, which only members of consumer groups may use."""
        return False

    def same_metadata(self, other: Self) -> bool:
        """Whether both have the same fields of the member metadata record."""
        return all(_same(getattr(self, name), getattr(other, name)) for name in self.METADATA)


def _same(one: object, other: object) -> bool:
    """Equal; that a set equals itself is known without comparing its members."""
    return one is other or one == other
