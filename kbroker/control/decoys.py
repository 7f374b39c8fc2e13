"""Credentials for logins of users and delegation tokens that do not exist.

A decoy has to look like a stored credential in every respect that a client sees: its salt stays the
same over restarts, and its form (iterations, length and characters of the salt) is as frequent
among decoys as among stored credentials.
"""

import hmac
import math
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kbroker.control.store.access import ScramKey
from kbroker.ipc.messages import SCRAM_MECHANISMS, ScramCredential

SHA_256, SHA_512 = (each.number for each in SCRAM_MECHANISMS.values())
HASHES: Final = {each.number: each.hash_name for each in SCRAM_MECHANISMS.values()}
"""Number of a SCRAM mechanism -> its hash function."""
MAX_FORMS: Final = 64
MAX_SALT_LENGTH: Final = 1024
_CHARACTERS: Final = (string.digits + string.ascii_lowercase).encode()
"""Characters of Apache Kafka's salts, in the order of digits."""
NUMBER_BITS: Final = 130
NUMBER_LENGTHS: Final = (25, 26)
"""Apache Kafka's salts are random numbers of NUMBER_BITS with base 36
(ScramFormatter.secureRandomString): three of five have 25 digits, and those of 26 begin with 1."""


class Form(NamedTuple):
    """The visible part of a credential. salt_length: None for a number as Apache Kafka's salts are.
    is_text: the salt has digits and lower-case letters only."""

    iterations: int
    salt_length: int | None
    is_text: bool


KAFKAS: Final = Form(4096, None, True)
"""Form of credentials that Apache Kafka's tools make, and of delegation tokens."""


class Decoys:
    """Runs in: control. Owner: the Broker. secret: kept in the store, so that decoys survive a
    restart. stored: credentials of users."""

    def __init__(self, secret: bytes, stored: Mapping[ScramKey, ScramCredential]) -> None:
        self._secret = secret
        self._forms: dict[int, Counter[Form]] = {mechanism: Counter() for mechanism in HASHES}
        self._frequent: dict[int, list[tuple[Form, int]]] = {}
        self._both = 0  # users with credentials of both mechanisms
        for (name, mechanism), credential in stored.items():
            self.replaced(mechanism, None, credential, mechanism == SHA_512 and (name, SHA_256) in stored)

    def replaced(
        self,
        mechanism: int,
        old: ScramCredential | None,
        new: ScramCredential | None,
        has_other: bool = False,
    ) -> None:
        """A user's credential has changed. has_other: the user has one of the other mechanism."""
        self._both += has_other * ((new is not None) - (old is not None))
        forms = self._forms.setdefault(mechanism, Counter())
        if old is not None:
            forms[_form_of(old)] -= 1
        if new is not None:
            forms[_form_of(new)] += 1
        self._frequent.pop(mechanism, None)

    def user(self, name: str, mechanism: int) -> ScramCredential:
        """A credential that no password fits. It stays the same while the stored forms do."""
        own = self._own("user", name, mechanism)
        return _made(own, mechanism, self._form(own, mechanism))

    def mechanism(self, name: str, offered: Sequence[int]) -> int:
        """The mechanism by which a user without a credential logs in: each as often as users take
        it who choose the first one of `offered` that they have."""
        first, *others = offered
        own = self._own("mechanism", name, 0)
        if not others:
            return first
        takes_first = self._forms[first].total()
        takes_second = self._forms[others[0]].total() - self._both
        place = int.from_bytes(own[:6], "big") * (takes_first + takes_second) >> 48
        return first if place < takes_first or not takes_second else others[0]

    def token(self, token_id: str, mechanism: int) -> ScramCredential:
        """The decoy of a delegation token. Existing tokens have the same salt."""
        return _made(self._own("token", token_id, mechanism), mechanism, KAFKAS)

    def _own(self, kind: str, name: str, mechanism: int) -> bytes:
        """The secret of one name. Only this step reads the name: a client may invent a long one."""
        return hmac.digest(self._secret, f"{kind} {mechanism} {name}".encode(), "sha256")

    def _form(self, own: bytes, mechanism: int) -> Form:
        """A form, as often as stored credentials have it. A change of a few credentials changes the
        forms of few names (rendezvous hashing with weights)."""
        frequent = self._frequent.get(mechanism)
        if frequent is None:
            counts = +self._forms.get(mechanism, Counter[Form]())
            frequent = self._frequent[mechanism] = counts.most_common(MAX_FORMS) or [(KAFKAS, 1)]

        def rank(entry: tuple[Form, int]) -> float:
            form, count = entry
            digest = hmac.digest(own, f"form {form}".encode(), "sha256")
            return math.log((int.from_bytes(digest[:6], "big") + 1) / (1 << 48)) / count

        return max(frequent, key=rank)[0]


def _made(own: bytes, mechanism: int, form: Form) -> ScramCredential:
    """The credential of a name's secret."""
    hash_name = HASHES.get(mechanism, "sha256")

    def digest(use: str) -> bytes:
        return hmac.digest(own, f"{use} {form}".encode(), hash_name)

    length = form.salt_length
    if length is None:
        salt = _digits(int.from_bytes(digest("salt")[:32], "big") >> 256 - NUMBER_BITS)
    else:
        salt = b"".join(digest(f"salt {at}") for at in range(0, 2 * length, 32))
        if form.is_text:
            pairs = zip(salt[:length], salt[length:], strict=False)
            salt = bytes(_CHARACTERS[(high << 8 | low) % len(_CHARACTERS)] for high, low in pairs)
        salt = salt[:length]
    return ScramCredential(salt, digest("stored"), digest("server"), form.iterations)


def _digits(number: int) -> bytes:
    digits = bytearray()
    while number:
        number, digit = divmod(number, len(_CHARACTERS))
        digits.append(_CHARACTERS[digit])
    digits.reverse()
    return bytes(digits)


def _form_of(credential: ScramCredential) -> Form:
    salt = credential.salt
    is_text = not salt.translate(None, _CHARACTERS)
    is_number = is_text and len(salt) in NUMBER_LENGTHS and salt[0] != _CHARACTERS[0]
    if is_number and int(salt, len(_CHARACTERS)) >> NUMBER_BITS == 0:
        return Form(credential.iterations, None, True)
    return Form(credential.iterations, min(len(salt), MAX_SALT_LENGTH), is_text)
