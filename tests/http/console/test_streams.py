"""Places of streams: no client excludes others for long; and what they send."""

import fcntl
import socket
from collections.abc import Iterator

import pytest

from kbroker.http.console import streams
from kbroker.http.console.streams import Streams


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_the_address_with_most_streams_gives_way_to_others() -> None:
    clock = Clock()
    places = Streams(clock)
    quiet = places.enter("quiet")
    many = [places.enter("many") for _ in range(streams.MAX_STREAMS - 1)]
    assert None not in many
    assert places.enter("other") is None, "all have just begun"
    clock.now += streams.MIN_S
    assert places.enter("other") is not None
    assert [place.has_ended for place in many if place] == [True] + [False] * (len(many) - 1)
    assert quiet is not None
    assert not quiet.has_ended


def test_a_place_that_was_left_is_free() -> None:
    places = Streams(Clock())
    for _ in range(3 * streams.MAX_STREAMS):
        place = places.enter("a")
        assert place is not None
        places.leave(place)
        places.leave(place)


def test_a_stream_that_gave_way_is_left_without_harm() -> None:
    clock = Clock()
    places = Streams(clock)
    first = places.enter("a")
    for _ in range(streams.MAX_STREAMS - 1):
        assert places.enter("a")
    clock.now += streams.MIN_S
    assert places.enter("a")
    assert first is not None
    assert first.has_ended
    places.leave(first)
    assert places.enter("b") is not None, "those that began before wait no longer"


def test_a_stream_with_a_high_descriptor_is_sent_until_its_client_disconnects() -> None:
    """select(2) knows 1,024 descriptors; a process may have more."""
    near, far = socket.socketpair()
    high = socket.socket(fileno=fcntl.fcntl(near, fcntl.F_DUPFD_CLOEXEC, 1100))
    near.close()
    place = Streams(Clock()).enter("a")
    assert place is not None
    sent = 0

    def events() -> Iterator[bytes]:
        nonlocal sent
        for sent in range(1, 4):
            if sent == 3:
                far.close()
            yield b"event"

    with high:
        streams.send(high, events(), place)
    assert sent == 3


def test_nothing_is_sent_after_the_client_has_disconnected() -> None:
    near, far = socket.socketpair()
    place = Streams(Clock()).enter("a")
    assert place is not None
    with near, far:
        far.shutdown(socket.SHUT_WR)
        streams.send(near, iter([b"event"]), place)
        far.setblocking(False)
        with pytest.raises(BlockingIOError):
            far.recv(1)
