"""Changes of ACLs in slices: other clients are served meanwhile, with permissions that were in
force or will be."""

from functools import partial

import pytest

from kbroker.config import acls
from kbroker.net.rows import May
from kbroker.protocol import slices
from kbroker.protocol.slices import Work
from tests.net.security.access_scene import Scene, acl, bits


def test_other_clients_are_served_while_an_acl_for_everybody_changes_all_principals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of thousands of topics for each of many principals, in one callback."""
    monkeypatch.setattr(slices, "SLICE_NS", 0)
    case = Scene()
    case.topics.rows = {f"t{number}": number for number in range(100)}
    case.topics.capacity = 100
    open_ones = [case.connect(f"User:{number}") for number in range(24)]
    for change, computed in (
        (partial(case.change, acl("User:*", name="t5")), 24),
        (partial(case.change, acl("User:*", name="t")._replace(pattern_type=acls.PREFIXED)), 24 * 100),
        (partial(case.change, removed=(acl("User:*", name="t5"),)), 24),
    ):
        work = Work(change)
        while not work.done:
            work.run_slice()
            late = case.connect(f"User:late-{work.slices}")
            case.access.forget(late)
            del case.connections[late.row]
        assert work.slices > computed // slices.CHECK_EVERY
        assert all(bits(client, 5) == May.WRITE | May.DESCRIBE for client in open_ones)


def test_a_client_that_logs_in_while_acls_change_has_the_new_permissions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slices, "SLICE_NS", 0)
    case = Scene()
    for number in range(20):
        case.connect(f"User:{number}")
    case.change(acl("User:*"))
    work = Work(partial(case.change, removed=(acl("User:*"),)))
    work.run_slice()
    assert not work.done
    assert bits(case.connect("User:late")) == 0
    while not work.done:
        work.run_slice()
    assert [bits(each) for each in case.connections.values()] == [0] * 21


def test_clients_keep_their_permissions_while_a_full_image_is_applied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Control sends one when it has restarted; all ACLs were dropped, and added, in one
    callback."""
    monkeypatch.setattr(slices, "SLICE_NS", 0)
    case = Scene()
    case.topics.rows = {"t0": 0, "t7": 7}
    kept = [acl("User:a", name=f"t{number}") for number in range(1, 400)]
    case.change(acl("User:a", name="t0"), *kept)
    client = case.connect("User:a")
    work = Work(partial(case.change, *kept, acl("User:late"), full=True))
    while not work.done:
        work.run_slice()
        late = case.connect("User:a", f"10.0.1.{work.slices}")
        assert all(bits(each, 7) == May.WRITE | May.DESCRIBE for each in (client, late))
        assert all(case.access.may(each, acls.WRITE, "t7") for each in (client, late))
        case.access.forget(late)
        del case.connections[late.row]
    assert work.slices > 2 * len(kept) // slices.CHECK_EVERY
    assert bits(client, 0) == 0
    assert case.access._authorizer is not None
    assert set(case.access._authorizer.acls) == {*kept, acl("User:late")}


@pytest.mark.parametrize("removes", [False, True])
def test_nothing_is_allowed_by_half_of_a_change(removes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A principal may write to all topics but one: that ACL comes last, and goes first."""
    monkeypatch.setattr(slices, "SLICE_NS", 0)
    case = Scene()
    denied = acl("User:a")._replace(permission=acls.DENY)
    others = [acl("User:a", name=f"t{number}") for number in range(50)]
    allowed = acl("User:a", name="*")
    change = [denied, *others, allowed] if removes else [allowed, *others, denied]
    if removes:
        case.change(*change)
    client = case.connect("User:a")
    work = Work(partial(case.change, *(() if removes else change), removed=tuple(change) if removes else ()))
    while not work.done:
        work.run_slice()
        assert not case.access.may(client, acls.WRITE, "t")
    assert work.slices > len(change) // slices.CHECK_EVERY
