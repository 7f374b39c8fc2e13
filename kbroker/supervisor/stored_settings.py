"""Dynamic broker settings of an earlier run, which determine how many processes this run starts.

Runs in: acceptor, before anything is forked. Control reads the rest of the store, and sends changes
while it runs.
"""

import logging
import sqlite3
from contextlib import closing
from pathlib import Path

from kbroker.config.broker import BrokerConfig
from kbroker.config.setting import ConfigError
from kbroker.control.metadata.config_resource import BROKER
from kbroker.control.store.store import FILE_NAME, StoreVersion, store_version_of

log = logging.getLogger(__name__)

CLUSTER_WIDE = ""
Layers = dict[str, dict[str, str]]
"""Settings by resource name: of the cluster, of each node."""


def with_stored_settings(config: BrokerConfig) -> BrokerConfig:
    """The file's settings, overridden by those that AlterConfigs has set, from the newest copy of
    the store. Control reports an unreadable copy; without any copy the start continues with the
    file's settings."""
    found = [_read(Path(log_dir, FILE_NAME)) for log_dir in config.log_dirs]
    copies = [copy for copy in found if copy is not None]
    if not copies:
        return config
    _, layers = max(copies, key=lambda copy: copy[0])
    try:
        return config.with_dynamic(
            cluster=layers.get(CLUSTER_WIDE, {}), own=layers.get(str(config.node_id), {})
        )
    except ConfigError as error:
        log.warning("stored settings are ignored until control has read them: %s", error)
        return config


def _read(path: Path) -> tuple[StoreVersion, Layers] | None:
    layers: Layers = {}
    try:
        if not path.exists():
            return None
        with closing(sqlite3.connect(path)) as db:
            rows = db.execute(
                "SELECT resource_name, name, value FROM configs WHERE resource_type = ?", (BROKER,)
            )
            for resource, name, value in rows:
                layers.setdefault(resource, {})[name] = value
            return store_version_of(db), layers
    except (OSError, sqlite3.Error) as error:
        log.warning("%s: its settings are ignored until control has read them: %s", path, error)
        return None
