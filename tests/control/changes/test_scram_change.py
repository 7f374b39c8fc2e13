"""One request changes a bounded number of credentials."""

import asyncio
import hashlib
import hmac
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kbroker.control.changes.scram_change import (
    MAX_SALT_BYTES,
    alter_scram_credentials,
    credential,
)
from kbroker.control.store.change import MAX_CHANGES
from kbroker.ipc.messages import ScramCredential
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.alter_user_scram_credentials import (
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kbroker.protocol.slices import Work
from tests.control.fakes import world


def finish(function: Callable[[], ScramCredential]) -> tuple[ScramCredential, int]:
    """(result, slices)"""
    work = Work(function)
    found = work.run_slice()
    while not work.done:
        found = work.run_slice()
    return found, work.slices


def test_a_request_has_a_bound(tmp_path: Path) -> None:
    many = [
        ScramCredentialUpsertion(f"u{number}", 1, 4096, b"salt", bytes(32))
        for number in range(MAX_CHANGES + 1)
    ]
    with world(tmp_path) as made:
        with pytest.raises(KafkaError) as refused:
            asyncio.run(alter_scram_credentials(made.broker, [], many))
        assert refused.value.code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert not made.broker.scram
        asyncio.run(alter_scram_credentials(made.broker, [], many[1:]))
        assert len(made.broker.scram) == MAX_CHANGES


@pytest.mark.parametrize("iterations", [-(2**31), -1, 0, 4095, 16385, 2**31 - 1])
def test_iterations_have_bounds(tmp_path: Path, iterations: int) -> None:
    one = ScramCredentialUpsertion("u", 1, iterations, b"salt", bytes(32))
    with world(tmp_path) as made:
        results = asyncio.run(alter_scram_credentials(made.broker, [], [one]))
        error = results["u"]
        assert error is not None
        assert error.code == ErrorCode.UNACCEPTABLE_CREDENTIAL
        assert not made.broker.scram


@pytest.mark.parametrize("mechanism", [-1, 0, 3])
def test_a_mechanism_that_is_not_scram_has_no_credential(tmp_path: Path, mechanism: int) -> None:
    upsertion = ScramCredentialUpsertion("u", mechanism, 4096, b"salt", bytes(32))
    with world(tmp_path) as made:
        for results in (
            asyncio.run(alter_scram_credentials(made.broker, [], [upsertion])),
            asyncio.run(alter_scram_credentials(made.broker, [ScramCredentialDeletion("u", mechanism)], [])),
        ):
            error = results["u"]
            assert error is not None
            assert error.code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert not made.broker.scram


def test_a_deleted_credential_stays_deleted_and_another_mechanisms_stays(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        for mechanism in (1, 2):
            one = ScramCredentialUpsertion("u", mechanism, 4096, b"salt", bytes(32))
            asyncio.run(alter_scram_credentials(made.broker, [], [one]))
        asyncio.run(alter_scram_credentials(made.broker, [ScramCredentialDeletion("u", 1)], []))
        kept = dict(made.broker.scram)
        assert kept.keys() == {("u", 2)}
        made.reboot()
        assert made.broker.scram == kept


def test_salts_of_a_request_have_a_bound(tmp_path: Path) -> None:
    half = bytes(MAX_SALT_BYTES // 2)
    many = [ScramCredentialUpsertion(f"u{number}", 1, 4096, half, bytes(32)) for number in range(3)]
    with world(tmp_path) as made:
        with pytest.raises(KafkaError) as refused:
            asyncio.run(alter_scram_credentials(made.broker, [], many))
        assert refused.value.code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert not made.broker.scram
        asyncio.run(alter_scram_credentials(made.broker, [], many[1:]))
        assert len(made.broker.scram) == 2


def test_refusals_hold_no_frames(tmp_path: Path) -> None:
    """Those of a million users would take 650 MB, until the garbage collector runs."""
    many = [ScramCredentialDeletion(f"u{number}", 1) for number in (1, 2, 2)]
    with world(tmp_path) as made:
        results = asyncio.run(alter_scram_credentials(made.broker, many, []))
    codes = []
    for _, error in results.items():
        assert error is not None
        assert error.__traceback__ is None
        codes.append(error.code)
    assert codes == [ErrorCode.RESOURCE_NOT_FOUND] * 2


def test_a_user_that_is_named_twice_is_not_altered(tmp_path: Path) -> None:
    one, other = (ScramCredentialUpsertion(name, 1, 4096, b"salt", bytes(32)) for name in ("u", "v"))
    with world(tmp_path) as made:
        results = asyncio.run(alter_scram_credentials(made.broker, [], [one, other, one]))
        assert results["v"] is None
        error = results["u"]
        assert error is not None
        assert error.code == ErrorCode.DUPLICATE_RESOURCE
        assert made.broker.scram.keys() == {("v", 1)}


@pytest.mark.parametrize("hash_name", ["sha256", "sha512"])
@pytest.mark.parametrize("size", [0, 32, 64, 65, 128, 129, 1_000_000])
def test_a_long_salted_password_has_the_keys_of_its_hmac(hash_name: str, size: int) -> None:
    """It is hashed piece by piece; 50 MB in one piece took 147 ms."""
    password = os.urandom(size)
    made, _ = finish(lambda: credential(hash_name, b"salt", password, 4096))
    assert made.server_key == hmac.digest(password, b"Server Key", hash_name)
    client_key = hmac.digest(password, b"Client Key", hash_name)
    assert made.stored_key == hashlib.new(hash_name, client_key).digest()


def test_a_long_salted_password_is_hashed_in_slices() -> None:
    _, slices = finish(lambda: credential("sha256", b"salt", bytes(32 << 20), 4096))
    assert slices > 3
