"""The authorizer beside a plain reading of its rules, and the rules that are easily got wrong."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.config import acls
from kbroker.config.acls import Acl, AclFilter
from kbroker.config.authorizer import Authorizer, super_users_of
from kbroker.config.setting import ConfigError

NAMES = ("a", "ab", "abc", "b", "*")
WHO = ("User:x", "User:y", "User:*")
HOSTS = ("1.1.1.1", "2.2.2.2", "*", "")
ENTRY = st.builds(
    Acl,
    st.sampled_from((acls.TOPIC, acls.GROUP)),
    st.sampled_from(NAMES),
    st.sampled_from((acls.LITERAL, acls.PREFIXED)),
    st.sampled_from(WHO),
    st.sampled_from(HOSTS),
    st.sampled_from((acls.ALL, acls.READ, acls.WRITE, acls.ALTER_CONFIGS, acls.DESCRIBE)),
    st.sampled_from((acls.ALLOW, acls.DENY)),
)


def plainly(entries: list[Acl], everyone: bool, who: str, host: str, operation: int, name: str) -> bool:
    """The rules, one after the other."""
    naming = [
        one
        for one in entries
        if one.resource_type == acls.TOPIC
        and (
            one.resource_name in (name, "*")
            if one.pattern_type == acls.LITERAL
            else name.startswith(one.resource_name)
        )
    ]
    if not naming:
        return everyone
    own = [one for one in naming if one.principal in (who, "User:*") and one.host in (host, "*")]
    if any(one.permission == acls.DENY and one.operation in (operation, acls.ALL) for one in own):
        return False
    implied = acls.IMPLYING.get(operation, frozenset((operation,)))
    return any(one.permission == acls.ALLOW and one.operation in (*implied, acls.ALL) for one in own)


@given(
    st.lists(ENTRY, max_size=6),
    st.booleans(),
    st.sampled_from(WHO[:2]),
    st.sampled_from(HOSTS[:2]),
    st.sampled_from((acls.READ, acls.WRITE, acls.DESCRIBE, acls.DESCRIBE_CONFIGS)),
    st.sampled_from(NAMES[:4]),
)
def test_the_rules_hold_for_any_acls_and_after_removals(
    entries: list[Acl], everyone: bool, who: str, host: str, operation: int, name: str
) -> None:
    one = Authorizer(frozenset(), everyone, entries)
    requested = (who, host, operation, acls.TOPIC, name)
    expected = plainly(entries, everyone, who, host, operation, name)
    assert one.allows(*requested) == expected
    one.add([Acl(acls.TOPIC, "abcd", acls.PREFIXED, who, host, acls.ALL, acls.DENY)])
    gone = entries[::2]
    one.remove(gone)
    left = [each for each in dict.fromkeys(entries) if each not in gone]
    assert one.allows(*requested) == plainly(left, everyone, who, host, operation, name)


@given(st.lists(ENTRY, max_size=12), st.booleans(), st.sampled_from(WHO[:2]))
def test_grouped_resources_have_the_same_permissions(entries: list[Acl], everyone: bool, who: str) -> None:
    one = Authorizer(frozenset(), everyone, entries)
    names = (*NAMES, "abcd", "c", "ba")
    lists = one.grouped(who, acls.TOPIC, names)
    assert sorted(name for some in lists for name in some) == sorted(names)
    for some in lists:
        for operation in (acls.READ, acls.WRITE, acls.DESCRIBE):
            for host in (*HOSTS[:2], "3.3.3.3"):
                found = {one.allows(who, host, operation, acls.TOPIC, name) for name in some}
                assert len(found) == 1, some


@pytest.mark.parametrize(
    ("operation", "denied", "on"),
    [(acls.READ, acls.ALL, "t"), (acls.READ, acls.READ, "*"), (acls.DESCRIBE, acls.ALL, "*")],
)
def test_all_operations_are_allowed_but_for_a_denial(operation: int, denied: int, on: str) -> None:
    allow = Acl(acls.TOPIC, "t", acls.LITERAL, "User:x", "*", acls.ALL, acls.ALLOW)
    deny = Acl(acls.TOPIC, on, acls.LITERAL, "User:x", "*", denied, acls.DENY)
    requested = ("User:x", "h", operation, acls.TOPIC, "t")
    assert Authorizer(entries=[allow]).allows(*requested)
    assert not Authorizer(entries=[allow, deny]).allows(*requested)


def test_a_literal_filter_takes_no_prefix_of_the_name() -> None:
    expected = AclFilter(acls.TOPIC, "t", acls.LITERAL, None, None, acls.ANY, acls.ANY)
    assert [
        expected.matches(Acl(acls.TOPIC, "t", pattern, "User:x", "*", acls.READ, acls.ALLOW))
        for pattern in (acls.LITERAL, acls.PREFIXED)
    ] == [True, False]


def test_a_denial_of_read_denies_no_describe() -> None:
    entries = [
        Acl(acls.TOPIC, "t", acls.LITERAL, "User:x", "*", acls.WRITE, acls.ALLOW),
        Acl(acls.TOPIC, "t", acls.LITERAL, "User:x", "*", acls.READ, acls.DENY),
    ]
    one = Authorizer(frozenset(), False, entries)
    assert one.allows("User:x", "h", acls.DESCRIBE, acls.TOPIC, "t")
    assert not one.allows("User:x", "h", acls.READ, acls.TOPIC, "t")


def test_super_users_may_do_what_is_denied_to_all() -> None:
    entry = Acl(acls.TOPIC, "*", acls.LITERAL, "User:*", "*", acls.ALL, acls.DENY)
    one = Authorizer(super_users_of("User:x; User:CN=a,OU=b"), False, [entry])
    assert one.allows("User:x", "h", acls.READ, acls.TOPIC, "t")
    assert one.allows("User:CN=a,OU=b", "h", acls.READ, acls.TOPIC, "t")
    assert not one.allows("User:y", "h", acls.READ, acls.TOPIC, "t")


def test_a_super_user_without_a_type_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected a principal"):
        super_users_of("User:a;root")


def test_some_topic_is_allowed_unless_a_denial_covers_all_that_is() -> None:
    def some(*entries: tuple[int, str, int]) -> bool:
        found = [
            Acl(acls.TOPIC, name, pattern, "User:x", "*", acls.WRITE, permission)
            for pattern, name, permission in entries
        ]
        return Authorizer(frozenset(), False, found).allows_some("User:x", "h", acls.WRITE, acls.TOPIC)

    assert some((acls.LITERAL, "t", acls.ALLOW))
    assert not some((acls.LITERAL, "t", acls.ALLOW), (acls.LITERAL, "t", acls.DENY))
    assert not some((acls.PREFIXED, "team-a", acls.ALLOW), (acls.PREFIXED, "team", acls.DENY))
    assert some((acls.PREFIXED, "team", acls.ALLOW), (acls.PREFIXED, "team-a", acls.DENY))
    assert not some((acls.LITERAL, "t", acls.ALLOW), (acls.LITERAL, "*", acls.DENY))
    assert not some((acls.PREFIXED, "team", acls.ALLOW), (acls.PREFIXED, "team", acls.DENY))
    assert some((acls.PREFIXED, "t", acls.ALLOW), (acls.LITERAL, "t", acls.DENY))
    assert some((acls.LITERAL, "t", acls.ALLOW), (acls.PREFIXED, "*", acls.DENY))


def test_a_long_name_is_compared_only_with_prefixes_that_are_denied() -> None:
    """All of its prefixes are half a gigabyte for a name of 32,767 bytes, at each
    InitProducerId."""

    class Name(str):
        cut = 0

        def __getitem__(self, part: Any) -> str:
            Name.cut += 1
            return str.__getitem__(self, part)

    entries = [
        Acl(acls.TOPIC, Name("t" * 1000), acls.LITERAL, "User:x", "*", acls.WRITE, acls.ALLOW),
        Acl(acls.TOPIC, "other", acls.PREFIXED, "User:x", "*", acls.WRITE, acls.DENY),
    ]
    assert Authorizer(entries=entries).allows_some("User:x", "h", acls.WRITE, acls.TOPIC)
    assert Name.cut == 1


@pytest.mark.parametrize(
    ("who", "host", "operation", "permission", "allowed"),
    [
        ("User:x", "*", acls.ALL, acls.ALLOW, True),
        ("User:*", "h", acls.WRITE, acls.ALLOW, True),
        ("User:x", "other", acls.WRITE, acls.ALLOW, False),
        ("User:y", "*", acls.WRITE, acls.ALLOW, False),
        ("User:x", "*", acls.READ, acls.ALLOW, False),
        ("User:x", "*", acls.WRITE, acls.DENY, False),
    ],
)
def test_some_topic_is_allowed_by_an_acl_of_the_client_and_the_operation(
    who: str, host: str, operation: int, permission: int, allowed: bool
) -> None:
    entry = Acl(acls.TOPIC, "t", acls.LITERAL, who, host, operation, permission)
    one = Authorizer(entries=[entry])
    assert one.allows_some("User:x", "h", acls.WRITE, acls.TOPIC) is allowed
    assert not one.allows_some("User:x", "h", acls.WRITE, acls.GROUP)


def test_a_host_is_known_while_an_acl_names_it() -> None:
    entries = [
        Acl(acls.TOPIC, name, acls.LITERAL, "User:x", "10.0.0.1", acls.READ, acls.ALLOW) for name in "tu"
    ]
    one = Authorizer(entries=[*entries, entries[0]])
    assert (one.host_of("10.0.0.1"), one.host_of("10.0.0.2")) == ("10.0.0.1", None)
    one.remove(entries[:1])
    assert one.host_of("10.0.0.1") == "10.0.0.1"
    one.remove(entries)
    assert one.host_of("10.0.0.1") is None


def test_an_acl_of_an_empty_host_applies_to_no_client() -> None:
    """As in Apache Kafka, which stores it and compares it with addresses."""
    entry = Acl(acls.TOPIC, "t", acls.LITERAL, "User:x", "", acls.WRITE, acls.ALLOW)
    one = Authorizer(entries=[entry])
    for host in (one.host_of("10.0.0.1"), "10.0.0.1"):
        assert not one.allows("User:x", host, acls.WRITE, acls.TOPIC, "t")
        assert not one.allows_some("User:x", host, acls.WRITE, acls.TOPIC)


def test_a_filter_that_matches_takes_every_pattern_that_covers_the_name() -> None:
    entries = [
        Acl(acls.TOPIC, name, pattern, "User:x", "*", acls.READ, acls.ALLOW)
        for pattern, name in (
            (acls.LITERAL, "abc"),
            (acls.LITERAL, "*"),
            (acls.PREFIXED, "ab"),
            (acls.PREFIXED, "b"),
            (acls.LITERAL, "ab"),
        )
    ]
    expected = AclFilter(acls.TOPIC, "abc", acls.MATCH, None, None, acls.ANY, acls.ANY)
    assert [entries.index(one) for one in Authorizer(entries=entries).acls if expected.matches(one)] == [
        0,
        1,
        2,
    ]


@pytest.mark.parametrize(
    ("named", "client"),
    [
        ("2001:db8:0:0:0:0:0:1", "2001:db8::1"),  # as Java writes it, and with it Apache Kafka
        ("2001:DB8::1", "2001:db8::1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("fe80:0:0:0:0:0:0:7%eth0", "fe80::7%eth0"),
        ("::ffff:10.0.0.9", "10.0.0.9"),
        ("10.0.0.9", "10.0.0.9"),
    ],
)
@pytest.mark.parametrize("permission", [acls.ALLOW, acls.DENY])
def test_a_host_is_an_address_in_any_form(named: str, client: str, permission: int) -> None:
    everybody = Acl(acls.TOPIC, "t", acls.LITERAL, "User:*", "*", acls.READ, acls.ALLOW)
    of_host = Acl(acls.TOPIC, "t", acls.LITERAL, "User:x", named, acls.READ, permission)
    one = Authorizer(entries=[of_host] if permission == acls.ALLOW else [everybody, of_host])
    asked = acls.READ, acls.TOPIC, "t"
    assert one.allows("User:x", client, *asked) is (permission == acls.ALLOW)
    assert one.allows_some("User:x", client, *asked[:2]) is (permission == acls.ALLOW)
    assert one.allows("User:x", "10.0.0.1", *asked) is (permission == acls.DENY)
    assert one.host_of(client) == client
    assert list(one.acls)[-1].host == named, "it is listed as it was given"
    one.remove([of_host])
    assert one.host_of(client) is None


def test_a_question_looks_at_the_acls_of_its_principal() -> None:
    """And at those for everybody; not at those of all others, however many name the resource."""

    class Counted(dict[Acl, str]):
        def __iter__(self):  # type: ignore[no-untyped-def]
            raise AssertionError("these are the ACLs of another principal")

        items = __iter__

    one = Authorizer()
    one.add(Acl(acls.TOPIC, "t", acls.LITERAL, who, "*", acls.READ, acls.ALLOW) for who in WHO[:3])
    for group in (one._principals, one._literal[acls.TOPIC, "t"]):
        group["User:many"] = Counted()
    assert one.allows(WHO[0], "h", acls.READ, acls.TOPIC, "t")
    assert not one.allows("User:none", "h", acls.WRITE, acls.TOPIC, "t")
    assert not one.allows_some("User:none", "h", acls.WRITE, acls.TOPIC)


def test_a_denied_prefix_leaves_other_topics_to_a_client_that_may_use_all() -> None:
    allow = Acl(acls.TOPIC, "*", acls.LITERAL, "User:x", "*", acls.WRITE, acls.ALLOW)
    deny = Acl(acls.TOPIC, "*", acls.PREFIXED, "User:x", "*", acls.WRITE, acls.DENY)
    assert Authorizer(entries=[allow, deny]).allows_some("User:x", "h", acls.WRITE, acls.TOPIC)


def test_nothing_is_kept_of_removed_acls() -> None:
    """The lengths of prefixes are tried for each name."""
    entries = [
        Acl(acls.TOPIC, name, pattern, who, "1.1.1.1", acls.READ, acls.ALLOW)
        for name in ("ab", "cd", "*")
        for pattern in (acls.LITERAL, acls.PREFIXED)
        for who in ("User:x", "User:*")
    ]
    one = Authorizer(entries=entries)
    one.remove(entries)
    assert vars(one) == vars(Authorizer()) | {"_lengths": {acls.TOPIC: {}}}


@pytest.mark.parametrize("who", ["User:x", "User:*"])
def test_a_permission_for_any_resource_is_found_without_a_look_at_all_acls(who: str) -> None:
    """A login took 70 ms when its principal, or everybody, had 50,000 ACLs."""

    class Counted(dict[Acl, str]):
        looked_up = 0

        def get(self, *args: Any) -> Any:
            self.looked_up += 1
            return super().get(*args)

    entries = [Acl(acls.TOPIC, f"t{n}", acls.LITERAL, who, "*", acls.WRITE, acls.ALLOW) for n in range(100)]
    denied = Acl(acls.TOPIC, "t0", acls.LITERAL, "User:y", "*", acls.WRITE, acls.DENY)
    authorizer = Authorizer(entries=[*entries, denied])
    own = authorizer._principals[who] = Counted(authorizer._principals[who])
    assert authorizer.allows_some("User:x", None, acls.WRITE, acls.TOPIC)
    assert own.looked_up == 1
    authorizer.remove(entries)
    assert not authorizer.allows_some("User:x", None, acls.WRITE, acls.TOPIC)
    authorizer.remove([denied])
    assert authorizer._denials == {}
