"""Credentials as the broker stores them, and logins of the console's SCRAM client by them."""

import hashlib
import hmac

from kbroker.http.console.scram_client import HASHES, ScramClient
from kbroker.ipc.messages import ScramCredential
from kbroker.net.security.scram import ScramServer

SALT, ITERATIONS = b"0123456789abcdef", 4096


def credential(mechanism: str, password: str, salt: bytes = SALT) -> ScramCredential:
    name = HASHES[mechanism]
    salted = hashlib.pbkdf2_hmac(name, password.encode(), salt, ITERATIONS)
    stored = hashlib.new(name, hmac.digest(salted, b"Client Key", name)).digest()
    return ScramCredential(salt, stored, hmac.digest(salted, b"Server Key", name), ITERATIONS)


def log_in(client: ScramClient, stored: ScramCredential) -> None:
    server, exchange = ScramServer(client.mechanism), client.exchange()
    assert server.first(exchange.first()) == client.user
    exchange.verify(server.final(exchange.final(server.challenge(stored))))
