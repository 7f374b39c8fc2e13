"""The choice of a classic group's protocol: the one that most members prefer among those that all
members support."""

from collections.abc import Iterable

from kbroker.control.groups.classic_member import ClassicMember


class ProtocolVotes:
    """Runs in: control. Owner: its ClassicGroup. The number of members that support each
    protocol."""

    def __init__(self) -> None:
        self._members = 0
        self._supporters: dict[str, int] = {}

    def add(self, member: ClassicMember) -> None:
        """Count the protocols of a member."""
        self._count(member, 1)

    def remove(self, member: ClassicMember) -> None:
        """The member leaves, or is about to change its protocols."""
        self._count(member, -1)

    def all_support(self, name: str) -> bool:
        """Whether every member supports a protocol."""
        return self._supporters.get(name, 0) == self._members

    def select(self, members: Iterable[ClassicMember]) -> str:
        """The elected protocol. members: those that are counted, at least one."""
        candidates = {name for name in self._supporters if self.all_support(name)}
        votes: dict[str, int] = {}
        for member in members:
            favourite = member.vote(candidates)
            votes[favourite] = votes.get(favourite, 0) + 1
        return max(votes, key=votes.__getitem__)

    def _count(self, member: ClassicMember, step: int) -> None:
        self._members += step
        for name in member.protocol_names():
            count = self._supporters.get(name, 0) + step
            if count:
                self._supporters[name] = count
            else:
                del self._supporters[name]
