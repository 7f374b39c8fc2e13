"""Filters of DeleteAcls that select the same ACLs again and again."""

import asyncio
from pathlib import Path

import pytest

from kbroker.config.acls import ALLOW, GROUP, LITERAL, READ, Acl, AclFilter
from kbroker.config.authorizer import Authorizer
from kbroker.control.changes import acl_change
from kbroker.control.changes.acl_change import delete_acls
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.control.fakes import world

ACLS = [Acl(GROUP, f"g{number}", LITERAL, "User:a", "*", READ, ALLOW) for number in range(10)]
ALL = AclFilter(GROUP, None, LITERAL, None, None, READ, ALLOW)


def test_an_answer_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ACLs that the first filters select are deleted; the others get an error."""
    monkeypatch.setattr(acl_change, "MAX_ANSWERED", 25)
    authorizer = Authorizer(entries=ACLS)
    with world(tmp_path) as made:
        made.broker.authorizer = authorizer
        results = asyncio.run(delete_acls(made.broker, authorizer, [ALL] * 4))
    assert results[:2] == [ACLS, ACLS]
    refused = [one.code for one in results[2:] if isinstance(one, KafkaError)]
    assert refused == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
    assert not authorizer.acls
