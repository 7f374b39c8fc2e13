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
        salt = b"a" * 25 if form.salt_length is None else (b"0", b"\xff")[not form.is_text] * form.salt_length
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
    forms = (KAFKAS, Form(8192, 24, True), Form(10000, 32, False))
    decoys = Decoys(b"secret", stored((60, forms[0]), (30, forms[1]), (10, forms[2])))
    seen = Counter(decoys.user(name, 1).iterations for name in NAMES)
    assert seen.keys() == {4096, 8192, 10000}
    assert 500 < seen[4096] < 700
    assert 220 < seen[8192] < 380
    assert 50 < seen[10000] < 160
    found = [decoys.user(name, 1) for name in NAMES]
    assert {_form_of(each) for each in found if each.iterations != 4096} == set(forms[1:])
    assert {decoys.user(name, 2).iterations for name in NAMES} == {4096}, "no user has SCRAM-SHA-512"


def test_the_salts_of_decoys_are_distributed_as_those_of_apache_kafka() -> None:
    """It takes the digits of random numbers below 2 ** 130, so 26 digits begin with 1."""
    decoys = Decoys(b"secret", {})
    salts = [made(name, 1).salt for name in NAMES for made in (decoys.user, decoys.token)]
    lengths = Counter(map(len, salts))
    assert lengths.keys() <= {22, 23, 24, 25, 26}
    assert 0.36 < lengths[26] / len(salts) < 0.46
    assert 0.53 < lengths[25] / len(salts) < 0.63
    assert {salt[:1] for salt in salts if len(salt) == 26} == {b"1"}
    assert b"0" not in {salt[:1] for salt in salts}
    assert len({salt[:1] for salt in salts if len(salt) == 25}) == 35


@pytest.mark.parametrize("salt", [b"", b"0" * 25, b"2" + b"0" * 25, b"z" * 26, b"a" * 20, b"a" * 27])
def test_salts_of_other_tools_keep_their_length(salt: bytes) -> None:
    user = ScramCredential(salt, bytes(32), bytes(32), 4096)
    found = Decoys(b"secret", {("ann", 1): user}).user("bob", 1).salt
    assert len(found) == len(salt)
    assert not found.strip(b"0123456789abcdefghijklmnopqrstuvwxyz")


def test_a_new_user_changes_the_decoys_of_few_names() -> None:
    users = stored((50, KAFKAS), (50, Form(8192, None, True)))
    decoys = Decoys(b"secret", users)
    before = [decoys.user(name, 1) for name in NAMES]
    decoys.replaced(1, None, users["user-99", 1])
    changed = sum(old != decoys.user(name, 1) for old, name in zip(before, NAMES, strict=True))
    assert 0 <= changed < 30
    decoys.replaced(1, users["user-99", 1], None)
    assert before == [decoys.user(name, 1) for name in NAMES]


def test_the_form_of_the_last_user_is_gone_with_it() -> None:
    users = stored((1, Form(8192, None, True)))
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
    assert len(digests) <= 1 + MAX_FORMS + 2 * MAX_SALT_LENGTH // 32 + 2
    digests.clear()
    decoys.user("a" * 100_000, 1)
    decoys.token("a" * 100_000, 1)
    assert sum(len(text) > 100 for text in digests) == 2, "a long name is read once"


def test_unknown_users_take_each_mechanism_as_often_as_users() -> None:
    made = ScramCredential(b"a" * 25, bytes(32), bytes(32), 4096)
    users: dict[ScramKey, ScramCredential] = {}
    for number in range(100):
        kinds = (1, 2) if number < 30 else (2,) if number < 40 else (1,)
        users |= {(f"user-{number}", kind): made for kind in kinds}
    decoys = Decoys(b"secret", users)

    def share(*offered: int) -> float:
        return sum(decoys.mechanism(name, offered) == 1 for name in NAMES) / len(NAMES)

    assert 0.53 < share(2, 1) < 0.67, "60 of 100 have only SCRAM-SHA-256"
    assert 0.85 < share(1, 2) < 0.95
    assert (share(1), share(2)) == (1, 0)
    for _ in range(40, 100):
        decoys.replaced(2, None, made, has_other=True)
    assert share(2, 1) == 0
    for number in range(100):
        decoys.replaced(2, made, None, has_other=not 30 <= number < 40)
    assert share(2, 1) == 1
    assert {Decoys(b"secret", {}).mechanism(name, (2, 1)) for name in NAMES} == {2}
