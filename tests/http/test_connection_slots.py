"""Who gives way to new connections, and who does not."""

import socket

from kbroker.http.connection_slots import (
    AT_WORK_S,
    BREAK_S,
    CONNECTIONS,
    FIRST_REQUEST_S,
    FOR_PROBES,
    ConnectionSlots,
)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Link(socket.socket):
    ended = False

    def shutdown(self, how: int) -> None:
        assert how == socket.SHUT_RDWR
        self.ended = True


def full(clock: Clock, hosts: tuple[str, ...] = ("::1",)) -> tuple[ConnectionSlots, list[Link]]:
    slots, links = ConnectionSlots(clock), []
    for number in range(CONNECTIONS):
        clock.now += 0.001
        link = Link()
        assert slots.take(link, hosts[number % len(hosts)]) is not None
        links.append(link)
    return slots, links


def ended(links: list[Link]) -> list[int]:
    found = [number for number, link in enumerate(links) if link.ended]
    for link in links:
        link.close()
    return found


def test_the_oldest_idle_one_of_the_address_with_most_gives_way() -> None:
    slots, links = full(Clock(), ("a", "b", "b"))
    slots.work(links[1], busy=True)
    with Link() as new:
        slot = slots.take(new, "c")
    assert slot is not None
    assert not slot.probes_only
    assert ended(links) == [2]


def test_a_new_connection_has_time_for_its_first_request() -> None:
    """Others of its address had theirs: clients that connect again and again do not cut a health
    probe whose request is on its way."""
    clock = Clock()
    slots, links = full(clock)
    for link in links[1:]:
        slots.work(link, busy=True)
        slots.work(link, busy=False)
    more = [Link(), Link()]
    assert slots.take(more[0], "::1") is not None
    assert not links[0].ended
    clock.now += FIRST_REQUEST_S
    assert slots.take(more[1], "::1") is not None
    for link in more:
        link.close()
    assert ended(links) == [0, 1]


def test_the_network_with_most_gives_way_whatever_its_addresses() -> None:
    hosts = ("10.0.0.1", *(f"2001:db8::{number:x}" for number in range(CONNECTIONS - 1)))
    slots, links = full(Clock(), hosts)
    with Link() as new:
        assert slots.take(new, "10.0.0.2") is not None
    assert ended(links) == [1]


def test_a_busy_connection_is_only_closed_after_a_while() -> None:
    clock = Clock()
    slots, links = full(clock)
    for link in links:
        slots.work(link, busy=True)
    more = [Link() for _ in range(FOR_PROBES + 1)]
    found = []
    for link in more:
        found.append(slots.take(link, "b"))
        slots.work(link, busy=True)
    assert [slot.probes_only for slot in found if slot is not None] == [True] * FOR_PROBES
    assert found[-1] is None
    assert slots.work(more[0], busy=False)
    assert slots.take(more[-1], "b") is not None  # an idle one beyond the number gives way, too
    assert more[0].ended
    for link in more:
        slots.leave(link)
    clock.now += AT_WORK_S + 1
    slot = slots.take(more[-1], "b")
    assert slot is not None
    assert not slot.probes_only
    assert ended(more) == [0]
    assert ended(links) == [0]


def test_requests_without_a_break_are_one_piece_of_work() -> None:
    """Connections that send one short request after the other exclude no other client."""
    clock = Clock()
    slots, links = full(clock)
    step = BREAK_S / 2
    for _ in range(int(AT_WORK_S / step) + 2):
        for link in links:
            slots.work(link, busy=True)
        clock.now += step
        for link in links:
            slots.work(link, busy=False)
            slots.work(link, busy=True)
    with Link() as new:
        slot = slots.take(new, "b")
    assert slot is not None
    assert not slot.probes_only
    assert ended(links) == [0]


def test_a_break_begins_another_piece_of_work() -> None:
    clock = Clock()
    slots, links = full(clock)
    for _ in range(3):
        for link in links:
            slots.work(link, busy=True)
        clock.now += AT_WORK_S / 2
        for link in links:
            slots.work(link, busy=False)
        clock.now += BREAK_S * 2
    for link in links:
        slots.work(link, busy=True)
    with Link() as new:
        slot = slots.take(new, "b")
    assert slot is not None
    assert slot.probes_only
    assert ended(links) == []
