"""The tables of the store, version by version.

Schema version (PRAGMA user_version) 6:
    meta(key, value)                    cluster_id, next_producer_id, next_generation, features_epoch; run, changes:
                                        see `StoreVersion`; copies: log dirs of all copies that are
                                        written, as JSON; directory.<log dir>: its directory.id;
                                        absent.<directory.id>: a log dir that may have folders of
                                        topics that were deleted while it was not there;
                                        kafka_metadata, kafka_unseen_topics: see
                                        kraft/metadata_folder.py;
                                        login_secret: see decoys.py; digest: see digest.py
    topics(name, topic_id)
    partitions(topic, idx, log_dir, leader_epoch, slot, generation)     the leader's log
    replicas(topic, idx, position, log_dir, slot, generation, in_sync, state)
                                        all logs of a partition that has more than one, the leader's
                                        included, the preferred one first; state: '', or 'adding',
                                        'removing' (since 4)
    configs(resource_type, resource_name, name, value)      resource types as in Kafka's ConfigResource
    features(name, level)               finalized features
    deletions(topic, idx, topic_id, log_dir, slot, generation)
                                        logs of deleted topics whose folders may still be there
                                        (since 2; since 4 one for each replica)
    client_quotas(entity, key, value)   entity as JSON of its (type, name) pairs (since 3)
    scram_credentials(user, mechanism, salt, stored_key, server_key, iterations)
                                        never a password, nor what could stand for one (since 3)
    acls(resource_type, resource_name, pattern_type, principal, host, operation, permission)
                                        numbers as in Kafka's protocol (since 5)
    delegation_tokens(token_id, owner, requester, renewers, issued_ms, max_ms, expiry_ms)
                                        principals as Type:name, renewers as JSON; never an HMAC
                                        (since 6)
Migration: add a step to MIGRATIONS that takes version n to n + 1; steps run in one transaction when
the file is opened.
"""

_VERSION_1 = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE topics (name TEXT PRIMARY KEY, topic_id BLOB NOT NULL UNIQUE) WITHOUT ROWID;
CREATE TABLE partitions (
    topic TEXT NOT NULL REFERENCES topics (name) ON DELETE CASCADE,
    idx INTEGER NOT NULL,
    log_dir TEXT NOT NULL,
    leader_epoch INTEGER NOT NULL,
    slot INTEGER NOT NULL UNIQUE,
    generation INTEGER NOT NULL,
    PRIMARY KEY (topic, idx)
) WITHOUT ROWID;
CREATE TABLE configs (
    resource_type INTEGER NOT NULL,
    resource_name TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (resource_type, resource_name, name)
) WITHOUT ROWID;
CREATE TABLE features (name TEXT PRIMARY KEY, level INTEGER NOT NULL) WITHOUT ROWID;
"""
_VERSION_2 = """
CREATE TABLE deletions (
    topic TEXT NOT NULL,
    idx INTEGER NOT NULL,
    topic_id BLOB NOT NULL,
    log_dir TEXT NOT NULL,
    slot INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    PRIMARY KEY (topic_id, idx)
) WITHOUT ROWID;
"""
_VERSION_3 = """
CREATE TABLE client_quotas (
    entity TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (entity, key)
) WITHOUT ROWID;
CREATE TABLE scram_credentials (
    user TEXT NOT NULL,
    mechanism INTEGER NOT NULL,
    salt BLOB NOT NULL,
    stored_key BLOB NOT NULL,
    server_key BLOB NOT NULL,
    iterations INTEGER NOT NULL,
    PRIMARY KEY (user, mechanism)
) WITHOUT ROWID;
"""
_VERSION_4 = """
CREATE TABLE replicas (
    topic TEXT NOT NULL REFERENCES topics (name) ON DELETE CASCADE,
    idx INTEGER NOT NULL,
    position INTEGER NOT NULL,
    log_dir TEXT NOT NULL,
    slot INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    in_sync INTEGER NOT NULL,
    state TEXT NOT NULL,
    PRIMARY KEY (topic, idx, position)
) WITHOUT ROWID;
ALTER TABLE deletions RENAME TO old_deletions;
CREATE TABLE deletions (
    topic TEXT NOT NULL,
    idx INTEGER NOT NULL,
    topic_id BLOB NOT NULL,
    log_dir TEXT NOT NULL,
    slot INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    PRIMARY KEY (topic_id, idx, log_dir)
) WITHOUT ROWID;
INSERT INTO deletions SELECT * FROM old_deletions;
DROP TABLE old_deletions;
"""
_VERSION_5 = """
CREATE TABLE acls (
    resource_type INTEGER NOT NULL,
    resource_name TEXT NOT NULL,
    pattern_type INTEGER NOT NULL,
    principal TEXT NOT NULL,
    host TEXT NOT NULL,
    operation INTEGER NOT NULL,
    permission INTEGER NOT NULL,
    PRIMARY KEY (resource_type, resource_name, pattern_type, principal, host, operation, permission)
) WITHOUT ROWID;
"""
_VERSION_6 = """
CREATE TABLE delegation_tokens (
    token_id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    requester TEXT NOT NULL,
    renewers TEXT NOT NULL,
    issued_ms INTEGER NOT NULL,
    max_ms INTEGER NOT NULL,
    expiry_ms INTEGER NOT NULL
) WITHOUT ROWID;
"""
MIGRATIONS = (_VERSION_1, _VERSION_2, _VERSION_3, _VERSION_4, _VERSION_5, _VERSION_6)
