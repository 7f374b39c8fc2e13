"""Changing SCRAM credentials: checked, stored, then used by every login from the answer on
(KIP-554).

Kafka's ScramControlManager. A client sends the salted password. Only the two keys that are derived
from it are stored; they do not reveal it (RFC 5802).
"""

import hashlib
import hmac
from collections.abc import Sequence

from kbroker.control.broker import Broker
from kbroker.control.decoys import HASHES
from kbroker.control.store.access import ScramKey
from kbroker.control.store.change import MAX_CHANGES, Change
from kbroker.ipc.messages import ScramCredential
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.alter_user_scram_credentials import (
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kbroker.protocol.slices import Repeated, Table, paced

Alteration = ScramCredentialDeletion | ScramCredentialUpsertion
MIN_ITERATIONS = 4096
MAX_ITERATIONS = 16384
MAX_SALT_BYTES = 8 << 20
"""As much as a batch of Kafka's metadata log holds."""
PIECE_BYTES = 1 << 16


async def alter_scram_credentials(
    broker: Broker,
    deletions: Sequence[ScramCredentialDeletion],
    upsertions: Sequence[ScramCredentialUpsertion],
) -> Table[str, KafkaError | None]:
    """Alter the credentials of each user; returns None, or the reason for its refusal. Raises
    KafkaError when nothing could be stored."""
    async with broker.changing:
        every: list[Alteration] = [*deletions, *upsertions]
        repeated = Repeated(one.name for one in every)
        results: Table[str, KafkaError | None] = Table()
        changes: dict[ScramKey, ScramCredential | None] = {}
        size = 0
        for one in paced(every):
            if one.name in results:
                continue
            try:
                made = _checked(broker, one)
                if one.name in repeated:
                    why = "A user credential cannot be altered twice in the same request"
                    raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, why)
            except KafkaError as error:
                results[one.name] = error.without_frames()
                continue
            results[one.name] = None
            changes[one.name, one.mechanism] = made
            size += 0 if made is None else len(made.salt)
            _check_size(len(changes), size)
        if changes:
            await _apply(broker, changes)
        return results


def _check_size(count: int, size: int) -> None:
    if count > MAX_CHANGES:
        text = f"One request may change {MAX_CHANGES} credentials."
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text)
    if size > MAX_SALT_BYTES:
        text = f"The salts of one request may have {MAX_SALT_BYTES} bytes."
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text)


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
    salted_password = _hmac_key(salted_password, hash_name)
    client_key = hmac.digest(salted_password, b"Client Key", hash_name)
    stored_key = hashlib.new(hash_name, client_key).digest()
    server_key = hmac.digest(salted_password, b"Server Key", hash_name)
    return ScramCredential(salt, stored_key, server_key, iterations)


def _hmac_key(key: bytes, hash_name: str) -> bytes:
    """A key with the same HMACs, no longer than a block of the hash (RFC 2104); a client may send
    a hundred megabytes."""
    digest = hashlib.new(hash_name)
    if len(key) <= digest.block_size:
        return key
    for at in paced(range(0, len(key), PIECE_BYTES)):
        digest.update(key[at : at + PIECE_BYTES])
    return digest.digest()


async def _apply(broker: Broker, changes: dict[ScramKey, ScramCredential | None]) -> None:
    await broker.in_store(lambda store: store.apply(Change(scram=changes)))
    for key, kept in changes.items():
        name, mechanism = key
        has_other = any((name, each) in broker.scram for each in HASHES if each != mechanism)
        broker.decoys.replaced(mechanism, broker.scram.get(key), kept, has_other)
        if kept is None:
            broker.scram.pop(key, None)
        else:
            broker.scram[key] = kept
    broker.settings_changed()
