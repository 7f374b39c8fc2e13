"""Logins by PLAIN, right and wrong ones."""

import asyncio
import struct

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode_exact
from kbroker.protocol.frame import encode_request, parse_response
from kbroker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kbroker.protocol.messages.sasl_handshake import SaslHandshakeRequest

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


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
