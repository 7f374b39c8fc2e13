"""A named pipe, folder or device in place of a file is refused, never waited for."""

import os
from pathlib import Path

import pytest

from kbroker.config.key_store import KeyStoreError, key_store
from kbroker.config.plain_file import open_plain
from kbroker.io.files import meta_properties
from kbroker.io.files.log_dir import take_closed
from kbroker.log import checkpoint, files
from kbroker.net.security.key_source import read_keys


def pipe(folder: Path, name: str = "pipe") -> Path:
    os.mkfifo(folder / name)
    return folder / name


def test_a_file_and_a_link_to_it_are_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    for name in ("file", "link"):
        with open_plain(tmp_path / name) as file:
            assert file.read() == b"content"


def test_anything_else_is_refused_at_once(tmp_path: Path) -> None:
    for path, text in (
        (pipe(tmp_path), "not a plain file"),
        (Path("/dev/zero"), "not a plain file"),
        (tmp_path, "Is a directory"),
        (tmp_path / "missing", "No such file"),
    ):
        with pytest.raises(OSError, match=text):
            open_plain(path)


def test_a_pipe_in_place_of_a_key_store_is_refused(tmp_path: Path) -> None:
    settings = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(pipe(tmp_path))}
    with pytest.raises(KeyStoreError, match="not a plain file"):
        key_store(settings.get)


def test_a_pipe_in_place_of_the_keys_of_tokens_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="not a plain file"):
        read_keys(pipe(tmp_path).as_uri())


def test_a_pipe_in_place_of_meta_properties_is_refused(tmp_path: Path) -> None:
    pipe(tmp_path, "meta.properties")
    with pytest.raises(OSError, match="not a plain file"):
        meta_properties.read(str(tmp_path))


def test_a_pipe_in_place_of_the_state_of_a_stop_is_refused(tmp_path: Path) -> None:
    pipe(tmp_path, f"{files.CLOSED_LOGS}0")
    with pytest.raises(OSError, match="not a plain file"):
        take_closed(str(tmp_path))


def test_a_pipe_in_place_of_a_file_of_a_partition_is_not_waited_for(tmp_path: Path) -> None:
    pipe(tmp_path, files.PARTITION_METADATA)
    pipe(tmp_path, files.LEADER_EPOCH_CHECKPOINT)
    assert checkpoint.read_topic_id(str(tmp_path)) is None
    assert checkpoint.known_leader_epochs(str(tmp_path)) == []
