"""A password goes to a port of this host only if a user who is trusted listens there."""

import os
import pwd
import socket
from pathlib import Path

import pytest

from kbroker.config import http_owner
from kbroker.config.http_owner import OWNER, NotTheBroker, OwnedConnection, check_owner
from tests.foreign_listener import UID, as_uid, listening, needs_root

HOSTS = [
    ("127.0.0.1", "127.0.0.1"),
    ("0.0.0.0", "127.0.0.2"),
    ("::1", "::1"),
    ("::", "::1"),
    ("::", "127.0.0.1"),
]


def connected(host: str, port: int) -> socket.socket:
    return socket.create_connection((host, port), timeout=5)


@needs_root
@pytest.mark.parametrize(("bound", "host"), HOSTS)
def test_another_user_who_listens_is_named_before_a_byte_is_sent(bound: str, host: str) -> None:
    with listening(bound) as (port, received):
        with pytest.raises(NotTheBroker, match=f"^user {UID} listens at {host} port {port}: the password is"):
            OwnedConnection(host, port, timeout=5).request(
                "GET", "/", headers={"Authorization": "Basic eA=="}
            )
        assert received() == b""


@needs_root
def test_an_accepted_connection_belongs_to_who_accepted_it() -> None:
    with as_uid(UID):
        listener = socket.create_server(("127.0.0.1", 0))
    with listener, connected(*listener.getsockname()) as link:
        with listener.accept()[0]:
            check_owner(link)  # root has it now
        with connected(*listener.getsockname()) as other, as_uid(UID):
            accepted = listener.accept()[0]
            os.seteuid(0)
            with accepted, pytest.raises(NotTheBroker):
                check_owner(other)


@needs_root
def test_users_that_are_named_are_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening() as (port, _), connected("127.0.0.1", port) as link:
        check_owner(link, (UID,))
        monkeypatch.setenv(OWNER, str(UID))
        check_owner(link)
        monkeypatch.setenv(OWNER, pwd.getpwuid(0).pw_name)
        with pytest.raises(NotTheBroker):
            check_owner(link)
        monkeypatch.setenv(OWNER, "no-such-user")
        with pytest.raises(NotTheBroker, match=f"{OWNER}=no-such-user: this host has no such user"):
            check_owner(link)


@needs_root
def test_the_user_of_the_unit_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(OWNER, raising=False)
    monkeypatch.setattr(http_owner, "BROKER_USER", pwd.getpwuid(1).pw_name)
    with listening(uid=1) as (port, _), connected("127.0.0.1", port) as link:
        check_owner(link)


def test_the_commands_own_user_is_trusted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as own, connected(*own.getsockname()) as link:
        check_owner(link)


def test_a_listener_that_the_kernel_does_not_show_gets_no_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_owner, "TABLES", (tmp_path / "tcp", tmp_path / "tcp6"))
    with (
        socket.create_server(("127.0.0.1", 0)) as own,
        connected(*own.getsockname()) as link,
        pytest.raises(NotTheBroker, match="no program is known to listen"),
    ):
        check_owner(link)
