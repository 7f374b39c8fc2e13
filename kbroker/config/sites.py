"""Replica sites: groups of log dirs that each hold at most one replica of a partition
(docs/adr/0008)."""

import os
from collections.abc import Sequence

from msgspec import Struct

from kbroker.config.broker_values import BrokerValues
from kbroker.config.setting import ConfigError

KEY = "kbroker.replica.sites"


class Site(Struct, frozen=True):
    """number: from 0. node_id: what clients call it. log_dirs: absolute paths."""

    number: int
    node_id: int
    log_dirs: tuple[str, ...]


def port_key(listener: str, site: int) -> str:
    """Name of the bound port of a listener: only the listener's name for the first site."""
    return f"{listener}@{site}" if site else listener


def sites_of(config: BrokerValues) -> tuple[Site, ...]:
    """The sites of a broker: one that holds every log dir when the setting is empty. Raises
    ConfigError."""
    text = config.get_str(KEY)
    every = [os.path.abspath(path) for path in config.log_dirs]  # noqa: PTH100 links are kept
    groups = [_dirs(group) for group in text.split(";")] if text else [every]
    _check(text, groups, every)
    return tuple(Site(number, config.node_id + number, tuple(group)) for number, group in enumerate(groups))


def _dirs(group: str) -> list[str]:
    return [os.path.abspath(path.strip()) for path in group.split(",") if path.strip()]  # noqa: PTH100


def _check(text: str, groups: Sequence[Sequence[str]], every: Sequence[str]) -> None:
    def refuse(why: str) -> ConfigError:
        return ConfigError(f"Invalid value {text} for configuration {KEY}: {why}")

    named = [path for group in groups for path in group]
    if not all(groups):
        raise refuse("a site without a log directory")
    if len(set(named)) != len(named):
        raise refuse("a log directory cannot be in two sites")
    if unknown := [path for path in named if path not in every]:
        raise refuse(f"not in log.dirs: {', '.join(unknown)}")
    if left := [path for path in every if path not in named]:
        raise refuse(f"log directories in no site: {', '.join(left)}")
