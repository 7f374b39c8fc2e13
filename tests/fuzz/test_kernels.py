"""Damaged Produce and Fetch requests: the compiled parsers read nothing but the frame, the process
lives on."""

import os
import random
import select
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.fuzz.campaign import MARKS, Round, RoundFailed, campaign, forked_campaign
from tests.fuzz.guarded_memory import GuardedMemory
from tests.fuzz.hot_requests import (
    FETCH_VERSIONS,
    PRODUCE_VERSIONS,
    TOPICS,
    any_request,
    damaged,
    fetch_request,
    produce_request,
)
from tests.fuzz.mutation import mutated, pieces
from tests.net.doubles import NetNode
from tests.net.requests import batch, fetch, fetch_frame, produce

pytestmark = MARKS
GUARDED_BYTES = 1 << 18
REQUESTS_A_ROUND = 40


def parser_rounds() -> Round:
    """A round: requests between unreadable pages, as they are and damaged, given to the parsers
    alone."""
    from kbroker.net.rows import Outcome
    from tests.fuzz.parsers import CLOSE, MIN_FRAME, Parsers

    parsers = Parsers(TOPICS)
    memory = GuardedMemory(GUARDED_BYTES)

    def give(frame: bytes, rng: random.Random, valid: bool) -> None:
        body = frame[4:]
        if not MIN_FRAME <= len(body) <= GUARDED_BYTES:
            return
        address = memory.at_the_end(body) if rng.random() < 0.8 else memory.at_the_start(body)
        if body[:2] == b"\0\0":
            outcome, count, pushed = parsers.produce(address, len(body))
            assert pushed <= count
            assert not valid or outcome != CLOSE, "a valid request is malformed to the parser"
        else:
            outcome, planned = parsers.fetch(address, len(body))
            assert outcome != Outcome.READY or 0 < planned <= len(body)

    def one(rng: random.Random) -> None:
        for version in PRODUCE_VERSIONS:
            frame = produce_request(rng, version)
            give(frame, rng, True)
            give(damaged(frame, rng), rng, False)
        for version in FETCH_VERSIONS:
            frame = fetch_request(rng, version)
            give(frame, rng, True)
            give(damaged(frame, rng), rng, False)

    return one


def reads_one_byte_too_many() -> Round:
    from kbroker.kernels.crc32c import crc32c_of

    memory = GuardedMemory(100)

    def one(rng: random.Random) -> None:
        crc32c_of(memory.at_the_end(b"x" * 10), 11)

    return one


def test_a_read_outside_the_frame_would_be_seen() -> None:
    with pytest.raises(RoundFailed, match="SIGSEGV in the round of seed"):
        forked_campaign(reads_one_byte_too_many, 0)


def test_the_parsers_read_nothing_outside_the_frame() -> None:
    forked_campaign(parser_rounds, 0.2)


@pytest.fixture
def node() -> Iterator[NetNode]:
    started = NetNode(TOPICS).start()
    yield started
    assert started.stop() == 0


def assert_lives(node: NetNode) -> None:
    pid, status = os.waitpid(node.pid, os.WNOHANG)
    if pid:
        node.pid = 0
        raise AssertionError(f"the network process ended with {os.waitstatus_to_exitcode(status)}")


def exchange(node: NetNode, rng: random.Random) -> None:
    """One connection: several requests, most of them damaged, sent in random pieces; answers are
    thrown away."""
    link = node.connect()
    with suppress(OSError), link:  # the other end may close at any time
        if rng.random() < 0.2:
            in_session(link, rng)
        for _ in range(rng.randint(1, 4)):
            frame = any_request(rng)
            kind = rng.randrange(8)
            if kind < 5:
                frame = damaged(frame, rng)
            elif kind == 5:
                frame = mutated(frame, rng)
            for piece in pieces(frame, rng):
                link.sendall(piece)
            if rng.random() < 0.5:
                take_answers(link, 0.002)
        if rng.random() < 0.5:
            link.shutdown(socket.SHUT_WR)
            take_answers(link, 0.02)


def in_session(link: socket.socket, rng: random.Random) -> None:
    """A fetch session, and damaged requests that name it."""
    version = rng.choice(FETCH_VERSIONS[3:])
    session = fetch(link, version=version, partitions={0: 0, 1: 0}, session=(0, 0)).session_id
    for epoch in range(1, rng.randint(2, 4)):
        named = fetch_frame(version=version, session=(session, epoch), partitions=rng.choice(({}, {1: 0})))
        link.sendall(damaged(named, rng) if rng.random() < 0.7 else named)


def take_answers(link: socket.socket, seconds: float) -> None:
    """Read until the other end is silent for so long, or closes."""
    poll = select.poll()
    poll.register(link, select.POLLIN)
    while poll.poll(seconds * 1000) and link.recv(1 << 16):
        pass


def test_a_network_process_outlives_damaged_requests(
    node: NetNode, capfd: pytest.CaptureFixture[str]
) -> None:
    written = 0

    def one(rng: random.Random) -> None:
        nonlocal written
        for _ in range(REQUESTS_A_ROUND):
            exchange(node, rng)
        assert_lives(node)
        with node.connect() as link:
            value = struct.pack(">qq", rng.getrandbits(62), written)
            answer = produce(link, batch(value))
            assert answer.error_code == 0
            found = fetch(link, answer.base_offset).responses[0].partitions[0]
            assert found.error_code == 0
            assert found.records is not None
            assert value in bytes(found.records)
        written += 1
        assert "Traceback" not in capfd.readouterr().err

    campaign(one, 0.25)
