"""A classic group's protocol is the favourite among those that all members support."""

import pytest

from kbroker.control.groups.classic_member import ClassicMember
from kbroker.control.groups.protocol_votes import ProtocolVotes


def member(*protocols: str) -> ClassicMember:
    name = "-".join(protocols)
    return ClassicMember(name, None, "c", "h", 1, 1, "consumer", [(each, b"") for each in protocols])


def test_the_favourite_of_most_members_is_elected() -> None:
    members = [member("range", "sticky"), member("sticky", "range"), member("sticky", "other", "range")]
    votes = ProtocolVotes()
    for each in members:
        votes.add(each)
    assert votes.select(members) == "sticky"


def test_a_protocol_that_one_member_lacks_gets_no_votes() -> None:
    members = [member("sticky", "range"), member("sticky", "range"), member("range")]
    votes = ProtocolVotes()
    for each in members:
        votes.add(each)
    assert not votes.all_support("sticky")
    assert votes.select(members) == "range"
    votes.remove(members.pop())
    assert votes.all_support("sticky")
    assert votes.select(members) == "sticky"


@pytest.mark.parametrize("name", ["range", "sticky"])
def test_without_members_every_protocol_is_supported(name: str) -> None:
    votes = ProtocolVotes()
    assert votes.all_support(name)
    votes.add(member("range"))
    assert votes.all_support(name) == (name == "range")


def test_a_protocol_without_supporters_is_forgotten() -> None:
    """Clients may bring new names again and again."""
    votes = ProtocolVotes()
    stays = member("range")
    votes.add(stays)
    for number in range(3):
        other = member(f"custom-{number}", "range")
        votes.add(other)
        votes.remove(other)
    assert set(votes._supporters) == {"range"}
    assert votes.select([stays]) == "range"
