"""Changing SCRAM credentials: checked, stored, then used by every login from the answer on
(KIP-554).

Kafka's ScramControlManager. A client sends the salted password. Only the two keys that are derived
from it are stored; they do not reveal it (RFC 5802).
"""

import hashlib
import hmac
from collections.abc import Sequence

from kbroker.control.broker import Broker
from kbroker.control.store.access import ScramKey
from kbroker.control.store.change import MAX_CHANGES, Change
from kbroker.ipc.messages import ScramCredential
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.alter_user_scram_credentials import (
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kbroker.protocol.slices import paced

HASHES = {1: "sha256", 2: "sha512"}
"""By mechanism: SCRAM-SHA-256, SCRAM-SHA-512."""
Alteration = ScramCredentialDeletion | ScramCredentialUpsertion
MIN_ITERATIONS = 4096
MAX_ITERATIONS = 16384


async def alter_scram_credentials(
    broker: Broker,
    deletions: Sequence[ScramCredentialDeletion],
    upsertions: Sequence[ScramCredentialUpsertion],
) -> dict[str, KafkaError | None]:
    """Alter the credentials of each user; returns None, or the reason for its refusal. Raises
    KafkaError when nothing could be stored."""
    async with broker.changing:
        changes: dict[str, tuple[ScramKey, ScramCredential | None]] = {}
        errors: dict[str, KafkaError] = {}
        every: list[Alteration] = [*deletions, *upsertions]
        for one in paced(every):
            if one.name in errors:
                continue
            if changes.pop(one.name, None) is not None:
                why = "A user credential cannot be altered twice in the same request"
                errors[one.name] = KafkaError(ErrorCode.DUPLICATE_RESOURCE, why)
                continue
            try:
                changes[one.name] = ((one.name, one.mechanism), _checked(broker, one))
            except KafkaError as error:
                errors[one.name] = error
        if len(changes) > MAX_CHANGES:
            text = f"One request may change {MAX_CHANGES} credentials."
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text)
        if changes:
            await _apply(broker, dict(changes.values()))
        return {**dict.fromkeys(changes), **errors}


def _checked(broker: Broker, one: Alteration) -> ScramCredential | None:
    """The new credential, None to drop it. Raises KafkaError."""
    if not one.name:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if one.mechanism not in HASHES:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(one, ScramCredentialDeletion):
        if (one.name, one.mechanism) not in broker.scram:
            why = "Attempt to delete a user credential that does not exist"
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, why)
        return None
    if one.iterations < MIN_ITERATIONS:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if one.iterations > MAX_ITERATIONS:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    return credential(HASHES[one.mechanism], bytes(one.salt), bytes(one.salted_password), one.iterations)


def credential(hash_name: str, salt: bytes, salted_password: bytes, iterations: int) -> ScramCredential:
    """The part of a salted password that is stored."""
    client_key = hmac.digest(salted_password, b"Client Key", hash_name)
    stored_key = hashlib.new(hash_name, client_key).digest()
    server_key = hmac.digest(salted_password, b"Server Key", hash_name)
    return ScramCredential(salt, stored_key, server_key, iterations)


async def _apply(broker: Broker, changes: dict[ScramKey, ScramCredential | None]) -> None:
    await broker.in_store(lambda store: store.apply(Change(scram=changes)))
    for key, kept in changes.items():
        if kept is None:
            broker.scram.pop(key, None)
        else:
            broker.scram[key] = kept
    broker.settings_changed()
