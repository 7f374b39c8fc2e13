"""What would end a start is found before the kernels are compiled, and nothing stays taken."""

import socket
from pathlib import Path

import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.io.files.log_dir import LogDir
from kbroker.supervisor import http_listeners, start_check
from kbroker.supervisor.log_dirs import LogDirs, LogDirsUnusable, start_failure


def _config(folder: Path, **more: str) -> BrokerConfig:
    settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(folder)}
    return BrokerConfig.load(settings | {name.replace("_", "."): value for name, value in more.items()}, {})[
        0
    ]


@pytest.mark.parametrize("setting", ["listeners", "kbroker_http_listen", "kbroker_schema_registry_listen"])
def test_an_address_in_use_prevents_the_start(tmp_path: Path, setting: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        value = f"PLAINTEXT://{address}" if setting == "listeners" else address
        with pytest.raises(OSError, match="in use") as refused:
            start_check.check(_config(tmp_path, **{setting: value}))
    assert start_failure(refused.value).startswith("cannot start: ")
    assert address in start_failure(refused.value)


def test_a_default_address_is_none_because_the_start_takes_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested: list[str] = []
    monkeypatch.setattr(http_listeners, "listen", lambda address, *_: requested.append(address))
    start_check.check(_config(tmp_path))
    assert requested == [""]  # the registry's, which is off
    start_check.check(_config(tmp_path, kbroker_http_listen="127.0.0.1:1"))
    assert requested == ["", "127.0.0.1:1", ""]


def test_a_log_dir_in_use_prevents_the_start(tmp_path: Path) -> None:
    other = LogDir(str(tmp_path))
    other.lock()
    with pytest.raises(LogDirsUnusable, match="in use by another broker"):
        start_check.check(_config(tmp_path))
    other.unlock()


def test_log_dirs_of_which_none_can_be_used_prevent_the_start(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(LogDirsUnusable) as refused:
        start_check.check(_config(file))
    assert start_failure(refused.value) == f"no log dir can be used: {file} (a file, not a folder)"


def test_one_log_dir_of_several_is_enough(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    start_check.check(_config(tmp_path, log_dirs=f"{file},{tmp_path / 'data'}"))


def test_a_check_leaves_everything_free_and_the_clean_marker_in_place(tmp_path: Path) -> None:
    LogDirs([str(tmp_path)], 1).release(clean=True)
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    config = _config(tmp_path, listeners=f"PLAINTEXT://127.0.0.1:{port}")
    start_check.check(config)
    start_check.check(config)
    assert LogDirs([str(tmp_path)], 1).clean == {str(tmp_path)}
