"""The options of `move` and `import`: the file of the other cluster, and the time without writes
after which a source counts as stopped, by both of its names."""

import socket
import threading
from contextlib import suppress

import pytest

from kbroker.cli.connection import Connection
from kbroker.cli.failures import Unreachable, UsageFailed
from kbroker.cli.mirror.commands import IDLE_TIMEOUT_S, _other, _quiet_s
from tests.cli.conftest import Shell


def test_the_former_name_has_the_same_effect() -> None:
    assert _quiet_s(None, None) == IDLE_TIMEOUT_S
    assert _quiet_s(5.0, None) == _quiet_s(None, 5.0) == 5.0
    with pytest.raises(UsageFailed, match="--quiet is the former name of --idle-timeout"):
        _quiet_s(5.0, 5.0)


@pytest.mark.parametrize("option", ["--to-config", "--from-config"])
def test_a_cluster_that_requires_a_login_names_the_option_of_its_file(option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def close_each() -> None:
            with suppress(OSError):
                while True:
                    server.accept()[0].close()

        threading.Thread(target=close_each, daemon=True).start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        other = _other(Connection("127.0.0.1:1", {}, 5.0), address, None, option)
        for connection in (other, other.again()):
            with pytest.raises(Unreachable) as refused:
                connection.reach()
            assert f"({option} FILE)" in refused.value.message
            assert "--command-config" not in refused.value.message
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("words", [("move", "--to"), ("import", "--from")])
def test_both_names_are_refused_beside_each_other(shell: Shell, words: tuple[str, str]) -> None:
    line = (*words, "127.0.0.1:1", "-b", "127.0.0.1:2", "--quiet", "5", "--idle-timeout", "5")
    assert "give one" in shell(*line, code=2).stderr
