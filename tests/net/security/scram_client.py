"""The client's side of a SCRAM login."""

import base64
import hashlib
import hmac

from kbroker.ipc.messages import ScramCredential

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
PASSWORD = b"pencil"


def credential(hash_name: str = "sha256", iterations: int = 4096) -> ScramCredential:
    salted = hashlib.pbkdf2_hmac(hash_name, PASSWORD, SALT, iterations)
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    stored_key = hashlib.new(hash_name, client_key).digest()
    return ScramCredential(SALT, stored_key, hmac.digest(salted, b"Server Key", hash_name), iterations)


def client_final(server_first: bytes, password: bytes, hash_name: str, bare: str) -> tuple[bytes, bytes]:
    """The client's last message and the server's signature that it then expects."""
    fields = dict(part.split("=", 1) for part in server_first.decode().split(","))
    salted = hashlib.pbkdf2_hmac(hash_name, password, base64.b64decode(fields["s"]), int(fields["i"]))
    unproved = f"c=biws,r={fields['r']}"
    reported = f"{bare},{server_first.decode()},{unproved}".encode()
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    signature = hmac.digest(hashlib.new(hash_name, client_key).digest(), reported, hash_name)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    expected = hmac.digest(hmac.digest(salted, b"Server Key", hash_name), reported, hash_name)
    return f"{unproved},p={base64.b64encode(proof).decode()}".encode(), b"v=" + base64.b64encode(expected)
