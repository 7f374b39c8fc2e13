"""The server's side of SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), without channel
binding, as in Kafka.

Pure but for the nonce. The server never sees the password, nor anything that could be used in its
place.
"""

import base64
import binascii
import hashlib
import hmac
import re
import secrets

from kbroker.ipc.messages import SCRAM_MECHANISMS, ScramCredential

MIN_ITERATIONS = 4096
TOKEN_EXTENSION = "tokenauth"
"""SCRAM extension. If it is true, user and password are id and HMAC of a delegation token
(KIP-48)."""

_SASL_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PRINTABLE = r"[\x21-\x2b\x2d-\x7e]+"
_VALUE = r"[\x01-\x2b\x2d-\x7f]+"
_EXTENSIONS = rf"(?:,[A-Za-z]+={_VALUE})*"
_FIRST = re.compile(
    rf"n,(?:a=(?P<authzid>{_SASL_NAME}))?,(?P<bare>(?:m={_VALUE},)?n=(?P<name>{_SASL_NAME}),"
    rf"r=(?P<nonce>{_PRINTABLE})(?P<extensions>{_EXTENSIONS}))"
)
_FINAL = re.compile(
    rf"(?P<unproved>c=[a-zA-Z0-9/+=]*,r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS}),p=(?P<proof>[a-zA-Z0-9/+=]+)"
)


class ScramError(Exception):
    """The login is refused. is_public: the text is sent to the client, which otherwise gets the
    general message."""

    def __init__(self, text: str, is_public: bool = False) -> None:
        super().__init__(text)
        self.is_public = is_public


class ScramServer:
    """One exchange: `first` with the client's first message, `challenge`, `final` with its second
    one."""

    def __init__(self, mechanism: str) -> None:
        self.mechanism, self._hash = SCRAM_MECHANISMS[mechanism]
        self.user = ""
        self.by_token = False
        self._bare = self._server_first = self._nonce = self._authzid = ""
        self._credential: ScramCredential | None = None

    def first(self, message: bytes) -> str:
        """The user that logs in, or by_token the id of a delegation token. Raises ScramError."""
        match = _FIRST.fullmatch(_text(message))
        if match is None:
            raise ScramError("Invalid SCRAM client first message format")
        pairs = (pair.split("=", 1) for pair in match["extensions"].split(",") if pair)
        self.by_token = dict(pairs).get(TOKEN_EXTENSION, "").lower() == "true"
        self.user = _plain_name(match["name"])
        self._authzid = match["authzid"] or ""
        self._bare = match["bare"]
        self._nonce = match["nonce"] + base64.b64encode(secrets.token_bytes(24)).decode()
        return self.user

    def challenge(self, credential: ScramCredential) -> bytes:
        """The server's first message. credential: of the user; that of a user that does not exist
        fits no password, so that a client does not learn which users exist. Raises ScramError."""
        if self._authzid and self._authzid != self.user:
            why = (
                "Authentication failed: Client requested an authorization id that is different from username"
            )
            raise ScramError(why, is_public=True)
        if credential.iterations < MIN_ITERATIONS:
            raise ScramError(f"Iterations {credential.iterations} is less than the minimum {MIN_ITERATIONS}")
        self._credential = credential
        salt = base64.b64encode(credential.salt).decode()
        self._server_first = f"r={self._nonce},s={salt},i={credential.iterations}"
        return self._server_first.encode()

    def final(self, message: bytes) -> bytes:
        """The server's last message, when the client has proved that it knows the password. Raises
        ScramError."""
        credential = self._credential
        match = _FINAL.fullmatch(_text(message))
        if match is None or credential is None:
            raise ScramError("Invalid SCRAM client final message format")
        if match["nonce"] != self._nonce:
            raise ScramError("Invalid client nonce in the final client message.")
        try:
            proof = base64.b64decode(match["proof"], validate=True)
        except binascii.Error:
            raise ScramError("Invalid SCRAM client final message format") from None
        auth_message = ",".join((self._bare, self._server_first, match["unproved"])).encode()
        signature = hmac.digest(credential.stored_key, auth_message, self._hash)
        if len(proof) != len(signature):
            raise ScramError("Invalid client credentials")
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        stored_key = hashlib.new(self._hash, client_key).digest()
        if not hmac.compare_digest(stored_key, credential.stored_key):
            raise ScramError("Invalid client credentials")
        self._credential = None
        return b"v=" + base64.b64encode(hmac.digest(credential.server_key, auth_message, self._hash))


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise ScramError("a SCRAM message is not UTF-8") from None


def _plain_name(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")
