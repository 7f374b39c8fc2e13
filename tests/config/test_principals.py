"""Types and names of principals."""

from kbroker.config.principals import MAX_NAME, kept_name, name_of, parts_of, user_principal


def test_a_principal_has_a_type_and_a_name() -> None:
    assert parts_of(user_principal("alice")) == ("User", "alice")
    assert name_of("User:alice") == "alice"


def test_a_name_may_contain_colons() -> None:
    assert parts_of("User:CN=a:b") == ("User", "CN=a:b")
    assert name_of(user_principal("a:b")) == "a:b"


def test_a_principal_without_a_type_has_no_name() -> None:
    assert parts_of("alice") == ("alice", "")
    assert name_of("alice") == ""


def test_long_names_are_kept_by_their_hash() -> None:
    assert kept_name("a" * MAX_NAME) == "a" * MAX_NAME
    long = [kept_name("a" * MAX_NAME + end) for end in ("a", "b", "\ud800")]
    assert len(set(long)) == 3
    assert all(len(each) <= MAX_NAME for each in long)
