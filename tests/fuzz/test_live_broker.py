"""A running kbroker under every kind of bad input: a healthy client beside it notices nothing."""

import random
import select
from contextlib import suppress

from kbroker.protocol.codec import decode_exact
from kbroker.protocol.frame import encode_request, parse_response
from kbroker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.fuzz.any_request import MAX_PARTITIONS, SERVED, VICTIMS, any_request
from tests.fuzz.campaign import MARKS, campaign
from tests.fuzz.hot_requests import damaged
from tests.fuzz.live_broker import CRASH, GROWTH_BYTES, connect, memory, no_kafka, pids
from tests.fuzz.mutation import mutated, pieces
from tests.net.doubles import ask
from tests.net.requests import batch, fetch_frame, produce, read_fetch
from tests.peer.kbroker_node import KBroker

pytestmark = MARKS
HEALTHY = "healthy"
METADATA, CREATE_TOPICS = 3, 19
CONNECTIONS = 8  # of bad clients at a time


def bad_bytes(rng: random.Random, ids: list[bytes]) -> bytes:
    """What a bad client sends at once."""
    if rng.random() < 0.1:
        return no_kafka(rng)
    frame = any_request(rng, *rng.choice(SERVED), ids)
    kind = rng.randrange(10)
    if kind < 4:
        return frame
    if kind < 8:
        return damaged(frame, rng)
    if kind < 9:
        return mutated(frame, rng)
    return frame[: rng.randrange(len(frame))]


def trouble(broker: KBroker, rng: random.Random, ids: list[bytes]) -> None:
    """Several bad clients at a time; their answers are read and thrown away."""
    links = [connect(broker) for _ in range(CONNECTIONS)]
    poll = select.poll()
    for link in links:
        with suppress(OSError):  # closed before all was sent
            for _ in range(rng.randint(1, 4)):
                for piece in pieces(bad_bytes(rng, ids), rng):
                    link.sendall(piece)
        poll.register(link, select.POLLIN)
    by_fd = {link.fileno(): link for link in links}
    for _ in range(200):
        for fd, _ in (ready := poll.poll(30)):
            with suppress(ConnectionError):
                if by_fd[fd].recv(1 << 16):
                    continue
            poll.unregister(fd)
        if not ready:
            break
    for link in links:
        link.close()


def make_topics(broker: KBroker) -> list[bytes]:
    """The healthy client's topic and those that the bad ones may delete; the ids of the latter."""
    names = (HEALTHY, *VICTIMS)
    topics = [CreatableTopic(name, 1 if name == HEALTHY else MAX_PARTITIONS, 1) for name in names]
    requested = MetadataRequest([MetadataRequestTopic(name=name) for name in VICTIMS])
    with connect(broker) as link:
        assert ask(link, encode_request(CREATE_TOPICS, 5, 1, "healthy", CreateTopicsRequest(topics, 10_000)))
        frame = ask(link, encode_request(METADATA, 12, 2, "healthy", requested))
    found = decode_exact(MetadataResponse, 12, frame, parse_response(frame, METADATA, 12)[1])
    return [topic.topic_id for topic in found.topics]


class HealthyClient:
    """Writes numbered records and reads every one of them back."""

    def __init__(self, broker: KBroker) -> None:
        self.broker = broker
        self.link = connect(broker)  # one connection all the time, and a fresh one each time
        self.written = 0

    def check(self) -> None:
        """One record over each connection; both must be found where the answer says."""
        with connect(self.broker) as fresh:
            for link in (self.link, fresh):
                value = b"record %d of the healthy client" % self.written
                answer = produce(link, batch(value), topic=HEALTHY)
                assert (answer.error_code, answer.base_offset) == (0, self.written)
                frame = ask(link, fetch_frame(self.written, topic=HEALTHY))
                found = read_fetch(frame, 11).responses[0].partitions[0]
                assert (found.error_code, found.high_watermark) == (0, self.written + 1)
                assert found.records is not None
                assert value in bytes(found.records)
                self.written += 1


def test_bad_clients_do_not_affect_others(broker: KBroker) -> None:
    make_topics(broker)
    healthy = HealthyClient(broker)
    healthy.check()
    family, start = pids(broker), memory(broker)

    def one(rng: random.Random) -> None:
        seen = broker.log_file.stat().st_size
        ids = make_topics(broker)
        for _ in range(5):
            trouble(broker, rng, ids)
        healthy.check()
        assert pids(broker) == family, "a process died"
        with open(broker.log_file, encoding="utf-8", errors="replace") as log:
            log.seek(seen)
            reported = log.read()
        assert CRASH not in reported, reported[-6000:]

    campaign(one, 0.35)
    grown = memory(broker) - start
    print(f"memory: {start >> 20} MiB at first, {grown >> 20} MiB more at the end")
    assert grown < GROWTH_BYTES
