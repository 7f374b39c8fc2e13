"""One grant for all connections of a principal, until the last one closes, and its changes by
ACLs."""

from collections.abc import Iterable, Mapping
from itertools import product

import numpy as np
import pytest

from kbroker.config import acls
from kbroker.net.rows import Access as AccessRow
from kbroker.net.rows import Connection as ConnectionRow
from kbroker.net.rows import Grant as GrantRow
from kbroker.net.rows import May
from kbroker.net.security import access as module
from kbroker.net.security.grant import BITS, Grant
from tests.net.security.access_scene import Scene, acl, bits


def test_connections_of_a_principal_share_a_grant_until_the_last_one_closes() -> None:
    case = Scene()
    one, two, other = case.connect("User:a"), case.connect("User:a"), case.connect("User:b")
    assert one.grant is two.grant is not other.grant
    assert case.grants.keys() == {("User:a", None), ("User:b", None)}
    case.access.forget(one)
    assert (one.grant, one.access, case.rows[one.row, ConnectionRow.ACCESS]) == (None, None, 0)
    assert ("User:a", None) in case.grants
    case.access.forget(two)
    assert case.grants.keys() == {("User:b", None)}
    case.access.forget(two)
    assert other.grant.users == 1


def test_a_super_user_has_no_grant() -> None:
    case = Scene()
    root = case.connect("User:root")
    assert (root.grant, case.rows[root.row, ConnectionRow.ACCESS], case.grants) == (None, 0, {})
    assert case.access.may(root, acls.WRITE, "t")


def test_a_connection_that_changes_its_user_has_the_permissions_of_the_new_one() -> None:
    case = Scene()
    case.change(acl("User:a"))
    connection = case.connect("User:a")
    assert bits(connection) == May.WRITE | May.DESCRIBE
    connection.principal = "User:b"
    case.access.know(connection)
    assert bits(connection) == 0
    assert case.grants.keys() == {("User:b", None)}
    connection.principal = "User:root"
    case.access.know(connection)
    assert (case.rows[connection.row, ConnectionRow.ACCESS], case.grants) == (0, {})


def test_clients_with_the_same_permissions_have_answers_in_common_and_others_have_not() -> None:
    case = Scene()
    first, second, third = case.connect("User:a"), case.connect("User:a"), case.connect("User:b")
    root = case.connect("User:root")
    assert first.answer_scope == second.answer_scope > 0
    assert third.answer_scope not in (first.answer_scope, 0, -1)
    assert root.answer_scope == 0
    assert case.scopes == [(each.row, each.answer_scope) for each in (first, second, third, root)]


def test_a_number_of_answers_is_used_again_only_after_all_answers_were_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_ANSWER_SCOPES", 4)
    case = Scene()
    gone = [case.connect(f"User:{n}") for n in range(2)]
    stays = case.connect("User:stays")
    assert [each.answer_scope for each in (*gone, stays)] == [1, 2, 3]
    assert case.forgotten == 0
    for each in gone:
        case.access.forget(each)
        del case.connections[each.row]
    case.connections[9] = case.connections.pop(stays.row)
    late = case.connect("User:late")
    assert case.forgotten == 1
    assert (stays.answer_scope, late.answer_scope) == (1, 2)
    assert (stays.row, 1) in case.scopes


def test_a_client_above_the_limit_gets_no_answers_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ANSWER_SCOPES", 4)
    case = Scene()
    scopes = []
    for n in range(8):
        case.connect(f"User:{n}")
        scopes = [each.answer_scope for each in case.connections.values()]
        numbered = [scope for scope in scopes if scope != -1]
        assert len(set(numbered)) == len(numbered)
        assert all(0 < scope < 4 for scope in numbered)
    assert scopes.count(-1) >= 5


def test_a_login_above_the_limit_forgets_no_answers_until_many_clients_are_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of them gave all open connections new numbers, and no number was free."""
    monkeypatch.setattr(module, "MAX_ANSWER_SCOPES", 9)
    case = Scene()
    known = [case.connect(f"User:{n}") for n in range(8)]
    late = [case.connect(f"User:late-{n}") for n in range(4)]
    assert [each.answer_scope for each in (*known, *late)] == [*range(1, 9), -1, -1, -1, -1]
    assert (case.forgotten, len(case.scopes)) == (0, 12)
    for each in (*known[:5], late[0]):
        case.access.forget(each)
        each.answer_scope = 0
    open_ones = [*known[5:], *late[1:], case.connect("User:new")]
    assert case.forgotten == 1
    assert [each.answer_scope for each in open_ones] == [1, 2, 3, 4, 5, 6, 7]


def test_a_change_of_acls_reaches_the_open_connections_of_its_principal() -> None:
    case = Scene()
    own, other = case.connect("User:a"), case.connect("User:b")
    case.change(acl("User:a"), acl("User:b", acls.READ))
    assert (bits(own), bits(other)) == (May.WRITE | May.DESCRIBE, May.READ | May.DESCRIBE)
    case.change(removed=(acl("User:a"),))
    assert (bits(own), bits(other)) == (0, May.READ | May.DESCRIBE)
    case.change(acl("User:a", acls.DESCRIBE), full=True)
    assert (bits(own), bits(other)) == (May.DESCRIBE, 0)


def test_a_client_whose_host_acls_begin_to_name_gets_a_grant_of_its_own() -> None:
    case = Scene()
    here, there = case.connect("User:a", "10.0.0.1"), case.connect("User:a", "10.0.0.2")
    case.change(acl("User:a", host="10.0.0.1"))
    assert (bits(here), bits(there)) == (May.WRITE | May.DESCRIBE, 0)
    assert case.grants.keys() == {("User:a", "10.0.0.1"), ("User:a", None)}
    case.change(removed=(acl("User:a", host="10.0.0.1"),))
    assert here.grant is there.grant
    assert case.grants.keys() == {("User:a", None)}


@pytest.mark.parametrize("permission", [acls.ALLOW, acls.DENY])
def test_an_acl_of_an_empty_host_applies_to_no_connection(permission: int) -> None:
    case = Scene()
    client = case.connect("User:a")
    case.change(acl("User:a", acls.READ), acl("User:a", host="")._replace(permission=permission))
    assert bits(client) == May.READ | May.DESCRIBE
    assert not case.access.may(client, acls.WRITE, "t")
    case.change(acl("User:a", acls.READ, host="")._replace(permission=acls.DENY))
    assert bits(client) == May.READ | May.DESCRIBE


def test_new_topics_and_a_larger_table_have_their_bytes() -> None:
    case = Scene()
    case.change(
        acl("User:a", name="u"), acl("User:a", acls.IDEMPOTENT_WRITE, acls.CLUSTER_NAME, acls.CLUSTER)
    )
    client = case.connect("User:a")
    case.topics.on_row(1, "u")
    assert (bits(client, 0), bits(client, 1)) == (0, May.WRITE | May.DESCRIBE)
    case.topics.capacity = 16
    case.topics.rows = {"u": 0, "t": 5, "v": 9}
    case.topics.on_rows({"t": 0, "u": 1, "gone": 2})
    assert len(client.grant.bits) == 16
    assert client.grant.words[GrantRow.TOPICS] == client.grant.bits.ctypes.data
    assert np.flatnonzero(client.grant.bits).tolist() == [0], "u"
    assert bits(client, 0) == May.WRITE | May.DESCRIBE


def test_a_larger_table_computes_only_new_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of ten thousand topics and a hundred principals took seconds, in one callback."""
    case = Scene()
    case.change(acl("User:a", name="new"))
    client = case.connect("User:a")
    computed: list[str] = []
    monkeypatch.setattr(Grant, "allows", lambda grant, operation, kind, name: computed.append(name))
    former = {f"t{number}": number for number in range(8)}
    case.topics.rows, case.topics.capacity = {**former, "new": 8}, 16
    case.topics.on_rows(former)
    assert set(computed) == {"new"}
    assert len(client.grant.bits) == 16


def test_a_transactional_id_is_looked_up_for_its_client_and_again_after_a_change() -> None:
    case = Scene()
    case.change(acl("User:a", name="mine", kind=acls.TRANSACTIONAL_ID))
    client = case.connect("User:a")
    words = client.access[0]
    case.access.check_transactional_id(client.row, 0, 4, 0)
    assert (words[AccessRow.ID_BYTES], words[AccessRow.ID_ALLOWED], words[AccessRow.ID] != 0) == (4, 1, True)
    assert bytes(client.access[1][:4]) == b"mine"
    case.access.check_transactional_id(client.row, 5, 5, 0)
    assert (words[AccessRow.ID_BYTES], words[AccessRow.ID_ALLOWED]) == (5, 0)
    assert case.refusals == [(acls.WRITE, acls.TRANSACTIONAL_ID, "other")]
    assert case.cleared == [client.row, client.row]
    case.change(acl("User:b"))
    assert words[AccessRow.ID] == 0


def test_every_refusal_is_in_the_audit_log() -> None:
    case = Scene()
    case.change(acl("User:a", acls.READ))
    client = case.connect("User:a")
    assert case.access.may(client, acls.READ, "t")
    assert case.refusals == []
    assert not case.access.may_write(client.row, b"t")
    case.access.denied(client.row, 0, 3, 0)
    assert case.refusals == [(acls.WRITE, acls.TOPIC, "t"), (acls.WRITE, acls.TOPIC, "t", 3)]
    case.access.denied(99, 0, 3, 0)
    case.access.check_transactional_id(99, 0, 4, 0)
    assert (len(case.refusals), case.cleared) == (2, [])


def test_without_an_authorizer_everything_is_allowed() -> None:
    case = Scene(**{"authorizer.class.name": ""})
    client = case.connect("User:a")
    case.change(acl("User:b"))
    assert (client.grant, client.access, case.grants) == (None, None, {})
    assert case.access.may_write(client.row, b"t")


def test_a_change_computes_only_the_topics_and_principals_that_it_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not the bytes of each topic for each principal."""
    case = Scene()
    rows = case.topics.rows
    rows.clear()
    rows.update({f"t{number}": number for number in range(4)} | {"other": 4})
    one = case.connect("User:a")
    case.connect("User:b")
    computed: list[tuple[str, str]] = []
    set_topics = Grant._set_topics

    def counted(grant: Grant, rows: Mapping[str, int], names: Iterable[str]) -> None:
        chosen = list(names)
        computed.extend((grant.who[0], name) for name in chosen)
        set_topics(grant, rows, chosen)

    monkeypatch.setattr(Grant, "_set_topics", counted)
    case.change(acl("User:a", name="t2"), acl("User:c", name="t1"), acl("User:a", name="unknown"))
    assert computed == [("User:a", "t2")]
    assert [bits(one, row) for row in range(5)] == [0, 0, May.WRITE | May.DESCRIBE, 0, 0]
    computed.clear()
    case.change(acl("User:a", name="t0")._replace(pattern_type=acls.PREFIXED))
    assert computed == [("User:a", "t0")]
    computed.clear()
    case.change(acl("User:*", name="*", operation=acls.READ))
    assert sorted(computed) == [(who, name) for who in ("User:a", "User:b") for name in sorted(rows)]
    assert bits(one, 4) == May.READ | May.DESCRIBE
    computed.clear()
    case.change(removed=(acl("User:a", name="t2"),))
    assert computed == [("User:a", "t2")]
    assert bits(one, 2) == May.READ | May.DESCRIBE


@pytest.mark.parametrize("everyone", ["true", "false"])
def test_each_topic_has_the_byte_that_its_own_question_gives(everyone: str) -> None:
    """Whichever topics are computed together."""
    case = Scene(**{"allow.everyone.if.no.acl.found": everyone})
    case.topics.rows = {f"{team}-{number}": row for row, (team, number) in enumerate(product("abc", "123"))}
    case.topics.capacity = 16
    clients = [case.connect(f"User:{who}", host) for who in "xy" for host in ("10.0.0.1", "10.0.0.2")]
    changes = [
        acl("User:x", name="a-1"),
        acl("User:x", acls.READ, "a-2", host="10.0.0.2"),
        acl("User:y", acls.READ, "a")._replace(pattern_type=acls.PREFIXED),
        acl("User:*", acls.ALL, "a-3")._replace(permission=acls.DENY),
        acl("User:x", acls.ALL, "b-")._replace(pattern_type=acls.PREFIXED),
        acl("User:y", acls.WRITE, "*"),
        acl("User:x", acls.WRITE, "*")._replace(permission=acls.DENY),
    ]
    different = set()
    for one in [*changes, *changes]:
        known = case.access._authorizer is not None and one in case.access._authorizer.acls
        case.change(*([] if known else [one]), removed=(one,) if known else ())
        for client in clients:
            for name, row in case.topics.rows.items():
                allowed = [client.grant.allows(each, acls.TOPIC, name) for _, each in BITS]
                expected = sum(bit for (bit, _), may in zip(BITS, allowed, strict=True) if may)
                assert bits(client, row) == expected, (one, client.principal, name)
                different.add(expected)
    assert len(different) > 3


def test_topics_with_the_same_acls_are_asked_about_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A login, and a change of what the principal may do to all topics, took 8 microseconds for
    each."""
    case = Scene()
    case.topics.rows = {f"topic-{number}": number for number in range(1000)}
    case.topics.capacity = 1000
    requested: list[str] = []
    set_topic = Grant.set_topic

    def counted(grant: Grant, row: int, name: str) -> None:
        requested.append(name)
        set_topic(grant, row, name)

    monkeypatch.setattr(Grant, "set_topic", counted)
    case.change(acl("User:b", name="topic-7"), acl("User:a", name="topic-9"))
    client = case.connect("User:a")
    assert len(requested) == 3  # topics without an ACL, with one of others, with an own one
    requested.clear()
    case.change(acl("User:a", acls.READ, "*"))
    assert len(requested) == 3
    assert [bits(client, row) for row in (0, 7, 9)] == [
        May.READ | May.DESCRIBE,
        May.READ | May.DESCRIBE,
        May.READ | May.WRITE | May.DESCRIBE,
    ]
