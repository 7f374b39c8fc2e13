"""A reader without a group needs the right to read its topic and no right of a group."""

from pathlib import Path

import pytest

from tests.cli.conftest import Shell
from tests.conftest import BrokerFactory

pytestmark = pytest.mark.compat

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{MODULE} required user_ann="a" user_root="r";',
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:root",
}


def test_reading_without_a_group_needs_no_right_of_a_group(
    shell: Shell, broker_factory: BrokerFactory, tmp_path: Path
) -> None:
    bootstrap = broker_factory(SETTINGS).bootstrap

    def as_user(user: str) -> tuple[str, Path]:
        file = tmp_path / f"{user}.properties"
        file.write_text(
            f"bootstrap.servers={bootstrap}\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            f"sasl.username={user}\nsasl.password={user[0]}\n"
        )
        return "--command-config", file

    shell("topics", "create", "orders", *as_user("root"))
    shell("acls", "add", "--principal", "User:ann", "-o", "read", "--topic", "orders", *as_user("root"))
    # No end is given, so that the coordinator's refusal comes while records are awaited.
    read = ("consume", "orders", "--from-beginning", "--quiet", *as_user("ann"))
    assert shell(*read, "--idle-timeout", "2").stdout == b""
    refused = shell(*read, "--group", "billing", code=1)
    assert "GROUP_AUTHORIZATION_FAILED" in refused.stderr
