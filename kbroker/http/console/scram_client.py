"""The client side of SCRAM (RFC 5802) for one user. The password is dropped after its first use."""

import base64
import binascii
import hashlib
import hmac
import secrets

from kbroker.ipc.messages import SCRAM_MECHANISMS, ScramCredential

HASHES = {name: SCRAM_MECHANISMS[name].hash_name for name in ("SCRAM-SHA-512", "SCRAM-SHA-256")}
"""Mechanism -> its hash function, the preferred mechanism first."""
NAMES = {each.number: name for name, each in SCRAM_MECHANISMS.items()}
"""Names of mechanisms, by number."""
MAX_ITERATIONS = 1_000_000


class ScramFailed(Exception):
    """The server's messages violate SCRAM, or it does not have the user's credential."""


class CredentialChanged(ScramFailed):
    """The salt has changed since the password was dropped: the user logs in with it again."""


class ScramClient:
    """A user who can log in repeatedly. Only the salted password is stored: it is valid only for
    this broker's credential, until its salt changes.

    mechanism: empty until it is chosen, before the first login."""

    def __init__(self, mechanism: str, user: str, password: str) -> None:
        self.mechanism = mechanism
        self.user = user
        self._password: str | None = password
        self._salted = b""
        self._salt: tuple[bytes, int] | None = None

    def exchange(self) -> "Exchange":
        """One login."""
        return Exchange(self)

    def salted(self, salt: bytes, iterations: int) -> bytes:
        """The SaltedPassword. Raises CredentialChanged."""
        if self._salt == (salt, iterations):
            return self._salted
        if self._password is None:
            raise CredentialChanged("the user's credential has changed")
        name = HASHES[self.mechanism]
        self._salted = hashlib.pbkdf2_hmac(name, self._password.encode(), salt, iterations)
        self._salt = (salt, iterations)
        return self._salted

    def fits(self, credential: ScramCredential) -> bool:
        """Whether a login by this credential would succeed. Only after the first login."""
        if self._salt != (credential.salt, credential.iterations):
            return False
        name = HASHES[self.mechanism]
        stored_key = hashlib.new(name, hmac.digest(self._salted, b"Client Key", name)).digest()
        return hmac.compare_digest(stored_key, credential.stored_key)

    def forget_password(self) -> None:
        """Drop the password, after the first login."""
        self._password = None


class Exchange:
    """The messages of one login, in the order first, final, verify."""

    def __init__(self, client: ScramClient) -> None:
        self._client = client
        self._hash = HASHES[client.mechanism]
        self._nonce = base64.b64encode(secrets.token_bytes(24)).decode()
        name = client.user.replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={name},r={self._nonce}"
        self._signature = b""

    def first(self) -> bytes:
        """The client's first message."""
        return b"n,," + self._bare.encode()

    def final(self, challenge: bytes) -> bytes:
        """The client's proof. Raises ScramFailed."""
        try:
            fields = dict(part.split("=", 1) for part in challenge.decode().split(","))
            nonce, iterations = fields["r"], int(fields["i"])
            salt = base64.b64decode(fields["s"], validate=True)
        except (ValueError, KeyError, binascii.Error) as error:
            raise ScramFailed("the server's first message is malformed") from error
        if not nonce.startswith(self._nonce) or not 4096 <= iterations <= MAX_ITERATIONS:
            raise ScramFailed("the server's first message has a wrong nonce or iteration count")
        salted = self._client.salted(salt, iterations)
        unproved = f"c=biws,r={nonce}"
        exchanged = ",".join((self._bare, challenge.decode(), unproved)).encode()
        client_key = hmac.digest(salted, b"Client Key", self._hash)
        stored_key = hashlib.new(self._hash, client_key).digest()
        proof = bytes(
            a ^ b for a, b in zip(client_key, hmac.digest(stored_key, exchanged, self._hash), strict=True)
        )
        server_key = hmac.digest(salted, b"Server Key", self._hash)
        self._signature = hmac.digest(server_key, exchanged, self._hash)
        return f"{unproved},p={base64.b64encode(proof).decode()}".encode()

    def verify(self, final: bytes) -> None:
        """Check that the server has the credential. Raises ScramFailed."""
        expected = b"v=" + base64.b64encode(self._signature)
        if not hmac.compare_digest(final.split(b",")[0], expected):
            raise ScramFailed("the server did not prove that it knows the user")
        self._client.forget_password()
