"""The tables of the store, version by version; store.py describes their content."""

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
