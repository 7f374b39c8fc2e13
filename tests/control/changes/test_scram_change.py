"""One request changes a bounded number of credentials."""

import asyncio
from pathlib import Path

import pytest

from kbroker.control.changes.scram_change import alter_scram_credentials
from kbroker.control.store.change import MAX_CHANGES
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.alter_user_scram_credentials import ScramCredentialUpsertion
from tests.control.fakes import world


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
