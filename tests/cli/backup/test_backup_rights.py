"""A backup by a user who may not see everything is refused; a complete one takes few rights."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Shell
from tests.conftest import BrokerFactory

pytestmark = pytest.mark.compat

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{MODULE} user_admin="a" user_alice="b";',
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}


def client(folder: Path, user: str, password: str) -> Path:
    file = folder / f"{user}.properties"
    login = f'{MODULE} username="{user}" password="{password}";'
    file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={login}\n")
    return file


def backed_up(dest: Path, *options: object) -> tuple[int, str, str]:
    """Code, stdout and stderr of a backup in a process of its own, which keeps its lock and its low
    priority."""
    command = [sys.executable, "-m", "kbroker", "backup", str(dest), "--json", *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def test_a_backup_needs_describe_on_the_cluster_and_on_every_topic(
    shell: Shell, broker_factory: BrokerFactory, tmp_path: Path
) -> None:
    broker = broker_factory(SETTINGS)
    admin, alice = (
        ("-b", broker.bootstrap, "--command-config", client(tmp_path, user, password))
        for user, password in (("admin", "a"), ("alice", "b"))
    )
    for topic in ("open", "secret"):
        shell("topics", "create", topic, *admin)
    dest = tmp_path / "backups"
    allow = ("acls", "add", "--principal", "User:alice", "-o", "describe")

    code, _, error = backed_up(dest, *alice)
    assert (code, error.count("\n")) == (1, 1)
    assert "CLUSTER_AUTHORIZATION_FAILED: log dirs need Describe on the cluster; " in error
    shell("cluster", "log-dirs", *alice, code=1)

    shell(*allow, "--cluster", *admin)
    shell(*allow, "--topic", "open", *admin)
    code, _, error = backed_up(dest, *alice)
    assert (code, error.count("\n")) == (1, 1)
    assert error.startswith("kbroker: this user may not describe secret: the backup would lack them")
    assert "no complete backup" in shell("backups", "list", dest).stderr

    shell(*allow, "--topic", "*", *admin)
    code, out, _ = backed_up(dest, *alice)
    assert (code, json.loads(out)["partitions"]) == (0, 2)
    assert len(shell("backups", "list", dest, "--json").json) == 1
