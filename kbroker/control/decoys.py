"""Credentials for logins of users and delegation tokens that do not exist.

A decoy has to look like a stored credential in every respect that a client sees: its salt stays the
same over restarts, and its form (iterations, length and characters of the salt) is as frequent
among decoys as among stored credentials.
"""

import hmac
import math
import string
from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from kbroker.control.store.access import ScramKey
from kbroker.ipc.messages import ScramCredential

HASHES: Final = {1: "sha256", 2: "sha512"}
"""By mechanism: SCRAM-SHA-256, SCRAM-SHA-512."""
MAX_FORMS: Final = 64
MAX_SALT_LENGTH: Final = 1024
_CHARACTERS: Final = (string.digits + string.ascii_lowercase).encode()
"""Of salts as Apache Kafka makes them."""


class Form(NamedTuple):
    """The visible part of a credential. is_text: the salt has digits and lower-case letters
    only."""

    iterations: int
    salt_length: int
    is_text: bool


KAFKAS: Final = Form(4096, 26, True)
"""Of credentials that Apache Kafka's tools make, and of delegation tokens."""


class Decoys:
    """Runs in: control. Owner: the Broker. secret: kept in the store, so that decoys survive a
    restart. stored: credentials of users."""

    def __init__(self, secret: bytes, stored: Mapping[ScramKey, ScramCredential]) -> None:
        self._secret = secret
        self._forms: dict[int, Counter[Form]] = {mechanism: Counter() for mechanism in HASHES}
        self._frequent: dict[int, list[tuple[Form, int]]] = {}
        for (_, mechanism), credential in stored.items():
            self.replaced(mechanism, None, credential)

    def replaced(self, mechanism: int, old: ScramCredential | None, new: ScramCredential | None) -> None:
        """A user's credential has changed."""
        forms = self._forms.setdefault(mechanism, Counter())
        if old is not None:
            forms[_form_of(old)] -= 1
        if new is not None:
            forms[_form_of(new)] += 1
        self._frequent.pop(mechanism, None)

    def user(self, name: str, mechanism: int) -> ScramCredential:
        """A credential that no password fits. It stays the same while the stored forms do."""
        return self._made("user", name, mechanism, self._form(name, mechanism))

    def token(self, token_id: str, mechanism: int) -> ScramCredential:
        """The same for a delegation token. Existing tokens have this salt, too."""
        return self._made("token", token_id, mechanism, KAFKAS)

    def _made(self, kind: str, name: str, mechanism: int, form: Form) -> ScramCredential:
        hash_name = HASHES.get(mechanism, "sha256")

        def digest(use: str) -> bytes:
            return hmac.digest(self._secret, f"{use} {kind} {mechanism} {form} {name}".encode(), hash_name)

        length = form.salt_length
        salt = b"".join(digest(f"salt {at}") for at in range(0, 2 * length, 32))
        if form.is_text:
            pairs = zip(salt[:length], salt[length:], strict=False)
            salt = bytes(_CHARACTERS[(high << 8 | low) % len(_CHARACTERS)] for high, low in pairs)
        return ScramCredential(salt[:length], digest("stored"), digest("server"), form.iterations)

    def _form(self, name: str, mechanism: int) -> Form:
        """A form, as often as stored credentials have it. A change of a few credentials changes the
        forms of few names (rendezvous hashing with weights)."""
        frequent = self._frequent.get(mechanism)
        if frequent is None:
            counts = +self._forms.get(mechanism, Counter[Form]())
            frequent = self._frequent[mechanism] = counts.most_common(MAX_FORMS) or [(KAFKAS, 1)]

        def rank(entry: tuple[Form, int]) -> float:
            form, count = entry
            digest = hmac.digest(self._secret, f"form {mechanism} {form} {name}".encode(), "sha256")
            return math.log((int.from_bytes(digest[:6], "big") + 1) / (1 << 48)) / count

        return max(frequent, key=rank)[0]


def _form_of(credential: ScramCredential) -> Form:
    salt = credential.salt
    is_text = not salt.translate(None, _CHARACTERS)
    return Form(credential.iterations, min(len(salt), MAX_SALT_LENGTH), is_text)
