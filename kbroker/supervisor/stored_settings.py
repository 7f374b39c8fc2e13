"""Dynamic broker settings of an earlier run, which decide how many processes this one starts.

Runs in: acceptor, before anything is forked. Control reads the store for all else, and tells changes while it runs.
"""

import logging
import sqlite3
from contextlib import closing
from pathlib import Path

from kbroker.config.broker import BrokerConfig
from kbroker.config.setting import ConfigError
from kbroker.control.config_resource import BROKER
from kbroker.control.store import FILE_NAME

log = logging.getLogger(__name__)

CLUSTER_WIDE = ""


def with_stored_settings(config: BrokerConfig) -> BrokerConfig:
    """The file's settings under those that were set by AlterConfigs. A store that can not be read is control's to tell
    of: the start goes on with the file's."""
    path = Path(config.log_dirs[0]) / FILE_NAME
    if not path.exists():
        return config
    layers: dict[str, dict[str, str]] = {CLUSTER_WIDE: {}, str(config.node_id): {}}
    try:
        with closing(sqlite3.connect(path)) as db:
            rows = db.execute(
                "SELECT resource_name, name, value FROM configs WHERE resource_type = ?", (BROKER,)
            )
            for resource, name, value in rows:
                layers.setdefault(resource, {})[name] = value
        return config.with_dynamic(cluster=layers[CLUSTER_WIDE], own=layers[str(config.node_id)])
    except (sqlite3.Error, ConfigError) as error:
        log.warning("%s: stored settings are left out until control has read them: %s", path, error)
        return config
