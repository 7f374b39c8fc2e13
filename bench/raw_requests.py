"""Requests of a scenario over raw connections: sent once, or repeated by 50 connections. Every
answer is compared with the expected one."""

import socket
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any

from bench import limits
from bench.generator import LoadFailed
from bench.members import CORRELATION_ID
from bench.scenario import Limit, Scenario, client_cpu, cpu_per_message, latency, rate
from bench.turn import Measures, Turn
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode_exact
from kbroker.protocol.frame import encode_request, parse_response
from kbroker.protocol.messages import response_class
from kbroker.protocol.schema import Struct

CONNECTIONS = 50
SETTLE_S = 0.2
NUMBER = "0000000000"
"""Digits in a request that the load generator replaces by a new number each time."""


def framed(api: ApiKey, version: int, request: Struct) -> bytes:
    return encode_request(api, version, CORRELATION_ID, "bench", request)


def ask(port: int, frame: bytes) -> bytes:
    """The whole answer to one request."""
    with socket.create_connection(("127.0.0.1", port)) as link, link.makefile("rb") as stream:
        link.sendall(frame)
        size = stream.read(4)
        if len(size) < 4:
            raise LoadFailed("the broker closed a connection")
        return size + stream.read(*struct.unpack(">i", size))


def answer_of(port: int, api: ApiKey, version: int, request: Struct) -> Any:
    """The decoded answer to one request."""
    body = ask(port, framed(api, version, request))[4:]
    _, at = parse_response(body, api, version)
    return decode_exact(response_class(api), version, body, at)


def repeat(turn: Turn, frame: bytes) -> Measures:
    """CONNECTIONS connections repeat this request; NUMBER in it is replaced each time."""
    answer, last = ask(turn.target.port, frame), b""
    while answer != last:  # the first request may create a topic, for example
        time.sleep(SETTLE_S)
        answer, last = ask(turn.target.port, frame), answer
    digits = NUMBER.encode()
    numbered: dict[str, object] = {"number_at": frame.index(digits)} if digits in frame else {}
    if numbered and digits in answer:
        numbered["number_in_answer"] = answer.index(digits)
    return send(turn, [[frame]] * CONNECTIONS, [answer], **numbered, **turn.timed())


def send(
    turn: Turn, requests: Sequence[Sequence[bytes]], answers: Sequence[bytes], **options: object
) -> Measures:
    """Each connection repeats its requests. answers: the expected ones, the same for all
    connections."""
    sent, expected = turn.target.folder / "requests.bin", turn.target.folder / "answer.bin"
    sent.write_bytes(b"".join(frame for own in requests for frame in own))
    expected.write_bytes(b"".join(answers))
    if len(answers) > 1:
        options["each"] = len(answers)
    load = turn.load("repeat", requests=sent, answer=expected, connections=len(requests), **options)
    return {**load.rate("requests"), **load.latency("answer")}


def request_scenario(
    name: str,
    title: str,
    run: Callable[[Turn], Measures],
    limit: Limit | None = None,
    kind: str = "questions",
) -> Scenario:
    """A scenario of requests from CONNECTIONS connections. kind: see Scenario. limit: the bare loop
    beside it, or None."""
    measures = (
        rate(1.0, "requests/s"),
        cpu_per_message(what="request"),
        latency("p99", what="answer"),
        client_cpu(),
    )
    return Scenario(name, f"{title}, {CONNECTIONS} connections", measures, run, kind=kind, limit=limit)


def repeated(name: str, title: str, run: Callable[[Turn], Measures]) -> Scenario:
    """A scenario of `repeat`."""
    return request_scenario(name, title, run, limits.echo())
