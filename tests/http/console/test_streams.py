"""Places of streams: no client excludes others for long; and what they send."""

import fcntl
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from itertools import repeat
from pathlib import Path

import pytest

from kbroker.http.console import streams
from kbroker.http.console.streams import Streams, StreamSlot
from tests.http.tls_store import put, tls_of, trusting


def allowed() -> bool:
    return True


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


def test_the_network_with_most_streams_gives_way_whatever_its_addresses() -> None:
    clock = Clock()
    places = Streams(clock)
    quiet = places.enter("10.0.0.1")
    many = [places.enter(f"2001:db8::{number:x}") for number in range(streams.MAX_STREAMS - 1)]
    clock.now += streams.MIN_S
    assert places.enter("10.0.0.2") is not None
    assert quiet is not None
    assert not quiet.has_ended
    assert [place.has_ended for place in many if place] == [True] + [False] * (len(many) - 1)


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
        streams.send(high, events(), place, allowed)
    assert sent == 3


def test_nothing_is_sent_after_the_client_has_disconnected() -> None:
    near, far = socket.socketpair()
    place = Streams(Clock()).enter("a")
    assert place is not None
    with near, far:
        far.shutdown(socket.SHUT_WR)
        streams.send(near, iter([b"event"]), place, allowed)
        far.setblocking(False)
        with pytest.raises(BlockingIOError):
            far.recv(1)


def test_a_stream_ends_when_its_session_does() -> None:
    near, far = socket.socketpair()
    answers = iter([True, True, False])
    with near, far:
        streams.send(near, repeat(b"event"), StreamSlot("a", 0.0), lambda: next(answers))
        assert far.recv(100) == b"event" * 2


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make certificates with")
def test_a_client_that_reads_one_record_of_tls_after_the_other_is_disconnected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads each within the time for a whole event."""
    monkeypatch.setattr(streams, "SEND_S", 0.5)
    store = put(tmp_path / "web.pem")
    near, far = socket.socketpair()
    stop = threading.Event()

    def read() -> None:
        with suppress(OSError), trusting(store).wrap_socket(far, server_hostname="localhost") as client:
            while not stop.wait(0.01) and client.recv(1 << 14):
                pass

    reader = threading.Thread(target=read)
    reader.start()
    ours = tls_of(store).wrap(near)
    ours.do_handshake()
    with ours, pytest.raises(TimeoutError):
        streams.send(ours, iter([bytes(8 << 20)]), StreamSlot("a", 0.0), allowed)
    stop.set()
    reader.join()
