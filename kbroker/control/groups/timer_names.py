"""Names of timers of members of groups."""


def member_timer(kind: str, group_id: str, member_id: str) -> str:
    """The name of a member's timer. Clients choose both ids: without the length, member c of group
    a-b and member b-c of group a would share a timer."""
    return f"{kind}-{len(group_id)}-{group_id}-{member_id}"
