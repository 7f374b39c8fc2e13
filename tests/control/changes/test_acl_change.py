"""Filters of DeleteAcls that select the same ACLs again and again; changes of very many ACLs."""

import asyncio
from pathlib import Path

import pytest

from kbroker.config.acls import ALLOW, GROUP, LITERAL, READ, Acl, AclFilter
from kbroker.config.authorizer import Authorizer
from kbroker.control.changes import acl_change
from kbroker.control.changes.acl_change import ACLS_AT_ONCE, create_acls, delete_acls
from kbroker.control.store.change import MAX_CHANGES
from kbroker.ipc.messages import Image
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


def test_processes_are_sent_some_acls_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With each image control has as many in force; before, one callback took 23 ms for all of
    them."""
    authorizer = Authorizer()
    many = [ACLS[0]._replace(resource_name=f"g{number}") for number in range(MAX_CHANGES)]
    with world(tmp_path) as made:
        made.broker.authorizer = authorizer
        kept = Authorizer()

        async def announce(image: Image) -> None:
            assert image.acls is not None
            assert 0 < len(image.acls.added) + len(image.acls.removed) <= ACLS_AT_ONCE
            kept.add(image.acls.added)
            kept.remove(image.acls.removed)
            assert kept.acls == authorizer.acls

        monkeypatch.setattr(made.broker.links, "announce", announce)
        assert asyncio.run(create_acls(made.broker, authorizer, many)) == [None] * MAX_CHANGES
        assert list(authorizer.acls) == many
        (gone,) = asyncio.run(delete_acls(made.broker, authorizer, [ALL]))
        assert gone == many
        assert not kept.acls
