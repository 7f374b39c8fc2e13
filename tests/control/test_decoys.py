"""An unknown user looks like one of those that exist, before and after a restart."""

import hmac
from collections import Counter

import pytest

from kbroker.control.decoys import KAFKAS, MAX_FORMS, MAX_SALT_LENGTH, Decoys, Form, _form_of
from kbroker.control.store.access import ScramKey
from kbroker.ipc.messages import ScramCredential

NAMES = [f"name-{number}" for number in range(1000)]


def stored(*forms: tuple[int, Form]) -> dict[ScramKey, ScramCredential]:
    """That many users of each form, all with SCRAM-SHA-256."""
    made: dict[ScramKey, ScramCredential] = {}
    for count, form in forms:
        salt = (b"a" if form.is_text else b"\xff") * form.salt_length
        for _ in range(count):
            made[f"user-{len(made)}", 1] = ScramCredential(salt, bytes(32), bytes(32), form.iterations)
    return made


def test_a_decoy_stays_the_same_over_restarts_and_differs_by_user_and_broker() -> None:
    first, again = Decoys(b"secret", {}), Decoys(b"secret", {})
    assert first.user("ann", 1) == again.user("ann", 1)
    other_name, other_kind, other_hash = first.user("bob", 1), first.token("ann", 1), first.user("ann", 2)
    other_broker = Decoys(b"another", {}).user("ann", 1)
    salts = {one.salt for one in (first.user("ann", 1), other_name, other_kind, other_hash, other_broker)}
    assert len(salts) == 5


@pytest.mark.parametrize(("mechanism", "size"), [(1, 32), (2, 64)])
def test_a_decoy_has_keys_of_its_mechanism(mechanism: int, size: int) -> None:
    found = Decoys(b"secret", {}).user("ann", mechanism)
    assert (len(found.stored_key), len(found.server_key)) == (size, size)
    assert _form_of(found) == KAFKAS


def test_the_forms_of_decoys_are_as_frequent_as_those_of_users() -> None:
    forms = (KAFKAS, Form(8192, 26, True), Form(10000, 32, False))
    decoys = Decoys(b"secret", stored((60, forms[0]), (30, forms[1]), (10, forms[2])))
    seen = Counter(_form_of(decoys.user(name, 1)) for name in NAMES)
    assert seen.keys() == set(forms)
    assert 500 < seen[forms[0]] < 700
    assert 220 < seen[forms[1]] < 380
    assert 50 < seen[forms[2]] < 160
    assert {_form_of(decoys.user(name, 2)) for name in NAMES} == {KAFKAS}, "no user has SCRAM-SHA-512"


def test_a_new_user_changes_the_decoys_of_few_names() -> None:
    users = stored((50, KAFKAS), (50, Form(8192, 26, True)))
    decoys = Decoys(b"secret", users)
    before = [decoys.user(name, 1) for name in NAMES]
    decoys.replaced(1, None, users["user-99", 1])
    changed = sum(old != decoys.user(name, 1) for old, name in zip(before, NAMES, strict=True))
    assert 0 <= changed < 30
    decoys.replaced(1, users["user-99", 1], None)
    assert before == [decoys.user(name, 1) for name in NAMES]


def test_the_form_of_the_last_user_is_gone_with_it() -> None:
    users = stored((1, Form(8192, 26, True)))
    decoys = Decoys(b"secret", users)
    assert {decoys.user(name, 1).iterations for name in NAMES} == {8192}
    decoys.replaced(1, users["user-0", 1], None)
    assert {decoys.user(name, 1).iterations for name in NAMES} == {4096}


def test_the_work_for_many_forms_and_long_salts_has_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    many = stored(*((1, Form(4096 + number, MAX_SALT_LENGTH * 8, False)) for number in range(2 * MAX_FORMS)))
    decoys = Decoys(b"secret", many)
    digests: list[bytes] = []
    digest = hmac.digest

    def counted(key: bytes, text: bytes, name: str) -> bytes:
        digests.append(text)
        return digest(key, text, name)

    monkeypatch.setattr(hmac, "digest", counted)
    assert len(decoys.user("ann", 1).salt) == MAX_SALT_LENGTH
    assert len(digests) <= MAX_FORMS + 2 * MAX_SALT_LENGTH // 32 + 2
