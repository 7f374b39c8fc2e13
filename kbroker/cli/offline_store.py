"""Changes the store of a stopped broker, as kafka-storage does before the first start."""

import hashlib
import os
import secrets
import sqlite3
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from kbroker.cli.failures import CommandFailed, UsageFailed
from kbroker.config import properties
from kbroker.config.broker import BrokerConfig
from kbroker.config.setting import ConfigError
from kbroker.control.changes.scram_change import credential
from kbroker.control.store.access import ScramKey
from kbroker.control.store.change import Change
from kbroker.control.store.choice import open_newest
from kbroker.control.store.store import StoreError
from kbroker.io.files import meta_properties
from kbroker.io.files.log_dir import LogDir, LogDirInUse
from kbroker.ipc.messages import ScramCredential

PRIVATE = 0o077


def put_credentials(
    server_properties: Path, user: str, password: str, mechanisms: Sequence[tuple[int, str]], iterations: int
) -> None:
    """Store credentials (mechanism's number, its hash) of a user. Raises CommandFailed."""
    if not user:
        raise UsageFailed("the user's name is empty")
    scram: dict[ScramKey, ScramCredential | None] = {}
    for number, hash_name in mechanisms:
        salt = secrets.token_bytes(20)
        salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, iterations)
        scram[user, number] = credential(hash_name, salt, salted, iterations)
    _apply(server_properties, Change(scram=scram))


def _apply(server_properties: Path, change: Change) -> None:
    """Change the newest copy of the store; the next start updates the other copies."""
    try:
        config, _ = BrokerConfig.load(properties.read(server_properties), {})
    except ConfigError as error:
        raise UsageFailed(str(error)) from error
    os.umask(PRIVATE)
    with ExitStack() as locks:
        folders = [LogDir(path) for path in config.log_dirs]
        try:
            for folder in folders:
                folder.lock()
                locks.callback(folder.unlock)
            paths = [folder.path for folder in folders]
            known = [found for path in paths if (found := meta_properties.read(path)) is not None]
            chosen = open_newest(paths, paths, known[0].cluster_id if known else "")
        except LogDirInUse as error:
            raise CommandFailed(f"the broker runs: {error}") from error
        except (OSError, StoreError, meta_properties.MetaPropertiesError) as error:
            raise CommandFailed(str(error)) from error
        try:
            chosen.store.apply(change)
        except sqlite3.Error as error:  # such as a full disk
            raise CommandFailed(f"{chosen.store.path}: {error}") from error
        finally:
            chosen.store.close()
