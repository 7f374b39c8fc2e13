"""Attacks of very many short requests, of handshakes, and on the http port. Each runs for at most
MAX_S and returns what became of it."""

import asyncio
import socket
import ssl
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode_exact
from kbroker.protocol.frame import encode_request, parse_response
from kbroker.protocol.messages import response_class
from kbroker.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kbroker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kbroker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kbroker.protocol.schema import Struct
from tests.attack.logins import ask
from tests.attack.probe import TOPIC

MAX_S = 8.0
CONNECTIONS, WINDOW = 8, 100
IDS, TOKENS, GROUPS, HANDSHAKES = 100_000, 50_000, 100_000, 1_000
USER, PASSWORD = "eve", "secret"


@dataclass(frozen=True)
class Ports:
    """Of a broker under attack: its listeners, and the http process."""

    plain: int
    tls: int
    sasl: int
    http: int


def producer_ids(ports: Ports) -> str:
    """A new transactional id in each request."""
    requests = (InitProducerIdRequest(f"id-{number}", 60_000, -1, -1) for number in range(IDS))
    return pipelined(ports.plain, ApiKey.INIT_PRODUCER_ID, 4, requests, lambda answer: answer.error_code)


def tokens(ports: Ports) -> str:
    """A new delegation token in each request."""
    requests = (CreateDelegationTokenRequest(None, None, [], -1) for _ in range(TOKENS))
    api = ApiKey.CREATE_DELEGATION_TOKEN
    return pipelined(ports.sasl, api, 3, requests, lambda answer: answer.error_code, logs_in=True)


def groups(ports: Ports) -> str:
    """A new simple group in each request."""

    def commit(number: int) -> OffsetCommitRequest:
        topic = OffsetCommitRequestTopic(name=TOPIC, partitions=[OffsetCommitRequestPartition(0, number)])
        return OffsetCommitRequest(f"group-{number}", -1, "", topics=[topic])

    def code(answer: Any) -> int:
        return int(answer.topics[0].partitions[0].error_code)

    return pipelined(ports.plain, ApiKey.OFFSET_COMMIT, 8, (commit(n) for n in range(GROUPS)), code)


def pipelined(
    port: int,
    api: ApiKey,
    version: int,
    requests: Iterator[Struct],
    code: Callable[[Any], int],
    logs_in: bool = False,
) -> str:
    """Send requests over CONNECTIONS connections, WINDOW at a time; returns the number of answers
    by error code."""
    codes: Counter[int] = Counter()
    ends = time.monotonic() + MAX_S

    async def talk() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        if logs_in:
            hello = SaslHandshakeRequest("PLAIN")
            await ask((reader, writer), encode_request(ApiKey.SASL_HANDSHAKE, 1, 1, "a", hello))
            token = SaslAuthenticateRequest(f"\0{USER}\0{PASSWORD}".encode())
            await ask((reader, writer), encode_request(ApiKey.SASL_AUTHENTICATE, 1, 1, "a", token))
        while time.monotonic() < ends:
            some = islice(requests, WINDOW)
            frames = [encode_request(api, version, 7, "attack", request) for request in some]
            if not frames:
                break
            writer.write(b"".join(frames))
            for _ in frames:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                start = parse_response(frame, api, version)[1]
                codes[code(decode_exact(response_class(api), version, frame, start))] += 1
        writer.close()

    async def run() -> None:
        await asyncio.gather(*(talk() for _ in range(CONNECTIONS)))

    asyncio.run(run())
    return ", ".join(f"{count:,} with code {code}" for code, count in sorted(codes.items()))


def handshakes(ports: Ports) -> str:
    """Handshakes all at once."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    outcomes: Counter[str] = Counter()

    async def shake() -> None:
        try:
            _, writer = await asyncio.open_connection(
                "127.0.0.1", ports.tls, ssl=context, ssl_handshake_timeout=60
            )
            writer.close()
            outcomes["done"] += 1
        except OSError as error:
            outcomes[type(error).__name__] += 1

    async def run() -> None:
        await asyncio.gather(*(shake() for _ in range(HANDSHAKES)))

    asyncio.run(run())
    return ", ".join(f"{count:,} {name}" for name, count in outcomes.items())


def slow_readers(ports: Ports) -> str:
    """Scrapes of which no byte is read, on more connections than there are."""
    return _held(ports.http, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20)


def big_heads(ports: Ports) -> str:
    """Requests with heads of 15 KiB, again and again."""
    head = b"".join(b"x-%d: %s\r\n" % (number, b"y" * 152) for number in range(95))
    return _held(ports.http, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n" + head + b"\r\n", again=True)


def pipelined_scrapes(ports: Ports) -> str:
    """Scrapes that follow one another without a break, on all connections."""
    return _held(ports.http, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50, again=True)


def _held(port: int, data: bytes, again: bool = False, seconds: float = 10.0) -> str:
    """Send data on 100 connections. again: repeat it on each, and read what comes."""
    sent = received = 0
    ends = time.monotonic() + seconds
    links: dict[int, socket.socket] = {}
    while time.monotonic() < ends:
        for number in range(100):
            link = links.get(number)
            try:
                if link is None:
                    link = links[number] = socket.create_connection(("127.0.0.1", port), timeout=0.5)
                    sent += link.send(data)
                    link.setblocking(False)
                elif again:
                    with suppress(BlockingIOError):
                        received += len(link.recv(1 << 16))
                    with suppress(BlockingIOError):
                        sent += link.send(data)
                elif link.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b"":
                    raise ConnectionResetError
            except BlockingIOError:
                continue
            except OSError:
                if link is not None:
                    link.close()
                links.pop(number, None)
        time.sleep(0.002)
    for link in links.values():
        link.close()
    return f"{sent:,} bytes sent, {received:,} read"


STORMS: dict[str, Callable[[Ports], str]] = {
    f"InitProducerId, {IDS:,} transactional ids": producer_ids,
    f"CreateDelegationToken, {TOKENS:,}": tokens,
    f"OffsetCommit, {GROUPS:,} new groups": groups,
    f"TLS handshakes, {HANDSHAKES:,} at once": handshakes,
    "http: slow readers": slow_readers,
    "http: heads of 15 KiB": big_heads,
    "http: pipelined scrapes": pipelined_scrapes,
}
