"""The tables of credentials and permissions: SCRAM credentials, delegation tokens, ACLs.

None of them holds a password, an HMAC, or anything that could replace one.
"""

import json
import sqlite3
from collections.abc import Mapping

from kbroker.config.acls import Acl
from kbroker.control.metadata.delegation_tokens import DelegationToken
from kbroker.ipc.messages import ScramCredential

ScramKey = tuple[str, int]
"""User and mechanism: 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512."""


def load_scram(db: sqlite3.Connection) -> dict[ScramKey, ScramCredential]:
    """Credentials of users."""
    rows = db.execute(
        "SELECT user, mechanism, salt, stored_key, server_key, iterations FROM scram_credentials"
    )
    return {(user, mechanism): ScramCredential(*credential) for user, mechanism, *credential in rows}


def apply_scram(db: sqlite3.Connection, changes: Mapping[ScramKey, ScramCredential | None]) -> None:
    """Set credentials; None deletes one."""
    for key, credential in changes.items():
        db.execute("DELETE FROM scram_credentials WHERE user = ? AND mechanism = ?", key)
        if credential is not None:
            db.execute("INSERT INTO scram_credentials VALUES (?, ?, ?, ?, ?, ?)", (*key, *credential))


def load_tokens(db: sqlite3.Connection) -> dict[str, DelegationToken]:
    """Delegation tokens by id."""
    rows = db.execute(
        "SELECT token_id, owner, requester, renewers, issued_ms, max_ms, expiry_ms FROM delegation_tokens"
    )
    return {
        token_id: DelegationToken(token_id, owner, requester, tuple(json.loads(renewers)), *times)
        for token_id, owner, requester, renewers, *times in rows
    }


def apply_tokens(db: sqlite3.Connection, changes: Mapping[str, DelegationToken | None]) -> None:
    """Set tokens; None deletes one."""
    gone = [(token_id,) for token_id, token in changes.items() if token is None]
    db.executemany("DELETE FROM delegation_tokens WHERE token_id = ?", gone)
    kept = [
        (token.token_id, token.owner, token.requester, json.dumps(token.renewers), *token[4:])
        for token in changes.values()
        if token is not None
    ]
    db.executemany("INSERT OR REPLACE INTO delegation_tokens VALUES (?, ?, ?, ?, ?, ?, ?)", kept)


def load_acls(db: sqlite3.Connection) -> list[Acl]:
    """All ACLs."""
    return [Acl(*row) for row in db.execute(f"SELECT {', '.join(Acl._fields)} FROM acls")]


def apply_acls(db: sqlite3.Connection, acls: Mapping[Acl, bool]) -> None:
    """Add ACLs (True) and delete ACLs (False)."""
    condition = " AND ".join(f"{name} = ?" for name in Acl._fields)
    gone = [acl for acl, stays in acls.items() if not stays]
    db.executemany(f"DELETE FROM acls WHERE {condition}", gone)
    added = [acl for acl, stays in acls.items() if stays]
    db.executemany("INSERT OR REPLACE INTO acls VALUES (?, ?, ?, ?, ?, ?, ?)", added)
