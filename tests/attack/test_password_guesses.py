"""Many connections of one address guess a password: they do not get to it, and nobody else
notices."""

import asyncio
import struct
import time

import pytest

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode_exact
from kbroker.protocol.frame import encode_request, parse_response
from kbroker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kbroker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.conftest import BrokerFactory

pytestmark = pytest.mark.slow

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
GUESSERS = 200
SECONDS = 8
RIGHT = 1000
"""Number of the right guess; without a bound some 560 are answered a second."""


async def ask(streams: tuple[asyncio.StreamReader, asyncio.StreamWriter], frame: bytes) -> bytes:
    reader, writer = streams
    writer.write(frame)
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


async def logs_in(port: int, user: str, password: str) -> bool:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        streams = reader, writer
        await ask(
            streams, encode_request(ApiKey.SASL_HANDSHAKE, 1, 1, "guess", SaslHandshakeRequest("PLAIN"))
        )
        token = SaslAuthenticateRequest(f"\0{user}\0{password}".encode())
        frame = await ask(streams, encode_request(ApiKey.SASL_AUTHENTICATE, 1, 2, "guess", token))
        body = parse_response(frame, ApiKey.SASL_AUTHENTICATE, 1)[1]
        return decode_exact(SaslAuthenticateResponse, 1, frame, body).error_code == 0
    except (OSError, asyncio.IncompleteReadError):
        return False
    finally:
        writer.close()


def test_a_guessed_password_is_not_found_and_another_user_logs_in_at_once(
    broker_factory: BrokerFactory,
) -> None:
    broker = broker_factory(
        {
            "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
            "security.inter.broker.protocol": "SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{MODULE} required user_a="{RIGHT}" user_b="b";',
        }
    )
    port = int(broker.bootstrap.rpartition(":")[2])

    async def run() -> None:
        guesses = iter(range(10**9))
        found: list[int] = []
        end = time.monotonic() + SECONDS

        async def guess() -> None:
            while time.monotonic() < end:
                number = next(guesses)
                try:
                    async with asyncio.timeout(0.4):  # an answer that comes late is taken for a no
                        if await logs_in(port, "a", str(number)):
                            found.append(number)
                except TimeoutError:
                    continue

        guessing = [asyncio.ensure_future(guess()) for _ in range(GUESSERS)]
        await asyncio.sleep(SECONDS / 2)
        began = time.monotonic()
        async with asyncio.timeout(20):
            assert await logs_in(port, "b", "b")
        assert time.monotonic() - began < 5
        await asyncio.gather(*guessing)
        assert next(guesses) > RIGHT
        assert found == []

    asyncio.run(run())
    assert "Traceback" not in broker.logs()
