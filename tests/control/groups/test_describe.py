"""DescribeGroups and ListGroups: what clients see of the groups."""

from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.describe_groups import DescribedGroup
from tests.control.groups.coordinator import Coordinator


class TestDescribeAndList:
    def test_a_stable_group_shows_metadata_and_assignment(self) -> None:
        kafka = Coordinator()
        (member,), _ = kafka.stable_group()
        described = kafka.shard.describe("g", 6)
        assert (described.group_state, described.protocol_type, described.protocol_data) == (
            "Stable",
            "consumer",
            "range",
        )
        (shown,) = described.members
        assert (shown.member_id, shown.client_id, shown.client_host) == (member, "client", "/127.0.0.1")
        assert (shown.member_metadata, shown.member_assignment) == (b"meta", member.encode())

    def test_a_group_that_rebalances_shows_no_metadata(self) -> None:
        kafka = Coordinator()
        kafka.stable_group()
        kafka.send_join(kafka.new_member_id())
        described = kafka.shard.describe("g", 6)
        assert described.protocol_data == ""
        assert {member.member_metadata for member in described.members} == {b""}

    def test_an_unknown_group_is_dead_and_from_v6_an_error(self) -> None:
        kafka = Coordinator()
        assert kafka.shard.describe("g", 5) == DescribedGroup(group_id="g", group_state="Dead")
        assert kafka.shard.describe("g", 6) == DescribedGroup(
            ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found.", "g", "Dead"
        )

    def test_filters_by_state_and_type(self) -> None:
        kafka = Coordinator()
        kafka.stable_group(group="used")
        kafka.commit(group="offsets")

        def ids(states: list[str], types: list[str]) -> set[str]:
            return {each.group_id for each in kafka.shard.list(3, states, types)}

        assert ids([], []) == {"used", "offsets"}
        assert ids(["stable"], []) == {"used"}
        assert ids(["Empty", "Stable"], ["Classic"]) == {"used", "offsets"}
        assert ids([], ["consumer"]) == set()
        listed = {each.group_id: each for each in kafka.shard.list(3, [], [])}
        assert (listed["used"].protocol_type, listed["used"].group_type) == ("consumer", "classic")
        assert listed["offsets"].protocol_type == ""

    def test_groups_are_listed_in_the_order_of_kafkas_maps(self) -> None:
        kafka = Coordinator()
        for number in range(1, 5):
            kafka.commit(group=f"grp-{number}")

        def ids(partitions: int) -> list[str]:
            return [each.group_id for each in kafka.shard.list(partitions, [], [])]

        assert ids(1) == ["grp-2", "grp-4", "grp-1", "grp-3"]
        assert ids(4) == ["grp-4", "grp-3", "grp-1", "grp-2"]
