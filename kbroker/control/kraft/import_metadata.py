"""Imports the metadata of log dirs that Apache Kafka has used: it replaces the store's.

Runs when control starts, before the store is loaded: topics that Kafka deleted are removed,
settings, quotas and users are replaced by Kafka's, and leader epochs continue above Kafka's. New
topics and partitions are found on disk (`adoption.py`). Settings that only kbroker knows stay.
Nothing is done unless Kafka has run since kbroker last saw its metadata log.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from kbroker.config.alter import Alteration, AlterError, Op, alter_broker, alter_client_metrics, alter_group
from kbroker.config.broker import BrokerConfig, is_sensitive
from kbroker.config.setting import ConfigError
from kbroker.config.topic import TopicConfig
from kbroker.control.kraft.export import SET_LEVEL, is_own
from kbroker.control.kraft.metadata_folder import MARK, fingerprint, put_unseen
from kbroker.control.metadata import adoption, kafka_metadata
from kbroker.control.metadata.catalogue import Topic
from kbroker.control.metadata.config_resource import BROKER, CLIENT_METRICS, GROUP, TOPIC
from kbroker.control.metadata.features import FEATURES
from kbroker.control.metadata.kafka_metadata import KafkaMetadata
from kbroker.control.store.change import Change, ConfigKey, Stored
from kbroker.control.store.store import Store
from kbroker.protocol.epochs import MAX_EPOCH

log = logging.getLogger(__name__)

K = TypeVar("K")
V = TypeVar("V")
Found = Mapping[tuple[bytes, int], adoption.FoundPartition]


def import_metadata(store: Store, log_dirs: Sequence[str], config: BrokerConfig) -> None:
    """Update the store to Kafka's metadata, and store which topics Kafka has. Blocks; nothing else
    runs yet."""
    mark = fingerprint(log_dirs)
    seen = store.meta(MARK, "")
    if not mark or mark == seen:
        return
    kafka = kafka_metadata.read(log_dirs)
    if kafka is None:
        return
    stored = store.load()
    # Topics without a mark were adopted by an older kbroker: which broker used them last is
    # unknown.
    if seen or not stored.topics:
        found = {(one.topic_id, one.index): one for one in adoption.scan(log_dirs)}
        change = _change(stored, kafka, found, config)
        if not seen:
            change.features = _levels(kafka)
        store.apply(change)
        store.skip_producer_ids(kafka.next_producer_id or 0)
        if seen:
            log.info(
                "Apache Kafka has used the log dirs: its settings apply from now on; %d topics were deleted",
                len(change.deleted_topics),
            )
    put_unseen(store, kafka.topics.values())
    store.put_meta(MARK, mark)


def _change(stored: Stored, kafka: KafkaMetadata, found: Found, config: BrokerConfig) -> Change:
    change = Change()
    for topic in stored.topics:
        if kafka.topics.get(topic.name) == topic.topic_id:
            _continue_topic(change, topic, found)
        elif any((topic.topic_id, p.index) in found for p in topic.partitions):
            log.warning("topic %s is not in Apache Kafka's metadata, but its data is here: kept", topic.name)
        else:
            change.deleted_topics.append(topic.name)
            change.configs[TOPIC, topic.name] = dict.fromkeys(stored.configs.get((TOPIC, topic.name), {}))
    kept = {topic.name for topic in stored.topics} - set(change.deleted_topics)
    for key in {*stored.configs, *kafka.configs}:
        kind, name = key
        if kind != TOPIC or (name in kept and kafka.topics.get(name) is not None):
            new_configs = _usable(key, kafka.configs.get(key, {}), config)
            if difference := _difference(stored.configs.get(key, {}), new_configs, keep=is_own):
                change.configs[key] = difference
    for entity in {*stored.client_quotas, *kafka.quotas}:
        amounts = _difference(stored.client_quotas.get(entity, {}), kafka.quotas.get(entity, {}))
        if amounts:
            change.client_quotas[entity] = amounts
    change.scram = _difference(stored.scram, kafka.scram)
    change.tokens = _difference(stored.tokens, kafka.tokens)
    acls = set(kafka.acls.values())
    change.acls = {acl: acl in acls for acl in {*stored.acls, *acls} if (acl in acls) != (acl in stored.acls)}
    return change


def _levels(kafka: KafkaMetadata) -> dict[str, int]:
    """Feature levels that were set before a backup; none of Apache Kafka's: kbroker's own apply."""
    return {
        name: level
        for name, feature in FEATURES.items()
        if SET_LEVEL + name in kafka.features
        and feature.min_level <= (level := kafka.features.get(name, 0)) <= feature.max_level
    }


def _continue_topic(change: Change, topic: Topic, found: Found) -> None:
    """Leader epochs above those in the logs, and log dirs into which Kafka moved partitions."""
    for partition in topic.partitions:
        here = found.get((topic.topic_id, partition.index))
        if here is None:
            continue
        moved = here.log_dir != partition.log_dir and not Path(partition.leader.folder).exists()
        if moved:
            partition.leader.log_dir = here.log_dir
        outdated = here.leader_epoch >= partition.leader_epoch
        if outdated:
            partition.leader_epoch = min(here.leader_epoch + 1, MAX_EPOCH)
        if moved or outdated:
            change.led_partitions.append(partition)


def _difference(
    before: Mapping[K, V], after: Mapping[K, V], keep: Callable[[K], bool] = lambda _: False
) -> dict[K, V | None]:
    """The keys to set, and with None the keys to delete; keep: keys that stay as they are."""
    changed: dict[K, V | None] = {key: value for key, value in after.items() if before.get(key) != value}
    return changed | {key: None for key in before if key not in after and not keep(key)}


def _usable(key: ConfigKey, configs: Mapping[str, str], config: BrokerConfig) -> dict[str, str]:
    """The configs that kbroker accepts; others are logged."""
    usable: dict[str, str] = {}
    if _problem(key, configs, config) is None:
        return dict(configs)
    for name, value in configs.items():
        problem = _problem(key, {**usable, name: value}, config)
        if problem is None:
            usable[name] = value
        else:
            secret = key[0] == BROKER and is_sensitive(name)  # Kafka's metadata has passwords in plain text
            shown = name if secret else f"{name}={value}"
            log.error("config %s of %s is ignored: %s", shown, key[1] or "all brokers", problem)
    return usable


def _problem(key: ConfigKey, configs: Mapping[str, str], config: BrokerConfig) -> str | None:
    """The reason why a resource cannot have these configs."""
    kind, resource = key
    settings = [Alteration(name, Op.SET, value) for name, value in configs.items()]
    try:
        if kind == TOPIC:
            TopicConfig.resolve(configs, config)
        elif kind == BROKER:
            alter_broker(resource, settings, config)
        elif kind == GROUP:
            alter_group(resource, {}, settings, config)
        elif kind == CLIENT_METRICS:
            alter_client_metrics(resource, {}, settings)
        else:
            return f"resource type {kind} is not known"
    except AlterError as error:
        return error.message
    except ConfigError as error:
        return str(error)
    return None
