"""Entries of PKCS12 stores: every key with the chain of its own certificate."""

from contextlib import suppress

import pytest
from cryptography.hazmat.primitives.serialization import NoEncryption, pkcs12

from kbroker.config.key_entries import MAX_KEYS, entries_of
from tests.key_stores import PASSWORD, Made, made, single, store

ROOT = made("root")
MIDDLE = made("middle", issuer=ROOT)
INSIDE = made("Inside", "inside.example", issuer=MIDDLE)
OUTSIDE = made("outside", "outside.example")


def read(content: bytes, password: str = PASSWORD) -> list[tuple[str, bytes, bytes]]:
    return entries_of(content, password, pkcs12.load_pkcs12(content, password.encode()))


def parts(*entries: Made) -> list[tuple[str, bytes, bytes]]:
    return [(each.alias.lower(), each.key_pem, each.pem) for each in entries]


def test_each_key_has_the_chain_of_its_certificate() -> None:
    shared = made("more", "more.example", issuer=MIDDLE)
    assert read(store(INSIDE, OUTSIDE, shared)) == parts(INSIDE, OUTSIDE, shared)
    assert read(store(OUTSIDE, INSIDE)) == parts(OUTSIDE, INSIDE)


def test_the_only_entry_has_all_certificates_of_its_store() -> None:
    assert read(single(INSIDE)) == parts(INSIDE)
    assert read(single(Made("odd", OUTSIDE.key, [*OUTSIDE.chain, *ROOT.chain])))[0][2].count(b"BEGIN") == 2
    plain = single(INSIDE, NoEncryption())
    assert entries_of(plain, "", pkcs12.load_pkcs12(plain, None)) == parts(INSIDE)


def test_an_entry_without_an_alias_has_its_number() -> None:
    named = [Made("", each.key, each.chain) for each in (INSIDE, OUTSIDE)]
    assert [alias for alias, _, _ in read(store(*named))] == ["1", "2"]


def test_a_key_without_a_certificate_is_no_entry() -> None:
    bare = Made("bare", made("bare").key, [])
    assert read(store(bare, OUTSIDE, bare)) == parts(OUTSIDE)
    assert read(store(bare, bare)) == read(single(bare)) == []


def test_two_certificates_of_one_key_are_two_entries() -> None:
    again = made("again", "again.example", key=OUTSIDE.key)
    assert read(store(OUTSIDE, again)) == parts(OUTSIDE, again)


def test_an_authority_of_the_same_name_with_another_key_is_not_in_the_chain() -> None:
    other = made("middle", "other.example")
    assert read(store(other, INSIDE)) == parts(other, INSIDE)


def test_a_store_has_a_maximum_of_keys() -> None:
    assert len(read(store(*[OUTSIDE] * MAX_KEYS))) == MAX_KEYS
    with pytest.raises(ValueError, match=f"{MAX_KEYS + 1} private keys; the maximum is {MAX_KEYS}"):
        read(store(*[OUTSIDE] * (MAX_KEYS + 1)))


def test_of_a_store_that_is_not_der_the_library_gives_one_entry() -> None:
    content = store(INSIDE, OUTSIDE)
    known = pkcs12.load_pkcs12(content, PASSWORD.encode())
    (only,) = entries_of(b"\x30\x80" + content[4:], PASSWORD, known)
    assert only[:2] == parts(INSIDE)[0][:2]
    for at in range(0, len(content), 3):
        with suppress(ValueError):
            entries_of(content[:at] + b"\xff" + content[at + 1 :], PASSWORD, known)
        assert entries_of(content[:at], PASSWORD, known)
    with pytest.raises(ValueError, match="cannot be read with the password"):
        entries_of(content, "opensaysme", known)
