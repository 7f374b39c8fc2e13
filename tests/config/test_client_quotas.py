"""Client quotas: which one holds for whom, what entities and values may be."""

import itertools

import pytest

from kbroker.config.client_quotas import (
    IP_KEYS,
    USER_KEYS,
    Bound,
    Entity,
    QuotaError,
    QuotaTable,
    check_entity,
    check_value,
    entity_of,
    plain_address,
)

KEY = "producer_byte_rate"
MOST_SPECIFIC_FIRST: list[tuple[Entity, tuple[str, str]]] = [
    (entity_of([("user", "u"), ("client-id", "c")]), ("u", "c")),
    (entity_of([("user", "u"), ("client-id", None)]), ("u", "c")),
    (entity_of([("user", "u")]), ("u", "")),
    (entity_of([("user", None), ("client-id", "c")]), ("u", "c")),
    (entity_of([("user", None), ("client-id", None)]), ("u", "c")),
    (entity_of([("user", None)]), ("u", "")),
    (entity_of([("client-id", "c")]), ("", "c")),
    (entity_of([("client-id", None)]), ("", "c")),
]


@pytest.mark.parametrize("pair", list(itertools.combinations(range(8), 2)))
def test_the_more_specific_quota_holds(pair: tuple[int, int]) -> None:
    table = QuotaTable({MOST_SPECIFIC_FIRST[at][0]: {KEY: float(at + 1)} for at in reversed(pair)})
    assert table.bound(KEY, "u", "c") == Bound(pair[0] + 1, *MOST_SPECIFIC_FIRST[pair[0]][1])


def test_quotas_of_other_clients_and_other_keys_do_not_hold() -> None:
    table = QuotaTable(
        {
            entity_of([("user", "u")]): {"consumer_byte_rate": 1.0},
            entity_of([("user", "v")]): {KEY: 1.0},
            entity_of([("client-id", "d")]): {KEY: 1.0},
        }
    )
    assert table.bound(KEY, "u", "c") is None
    assert table.has(KEY)
    assert not table.has("request_percentage")


def test_a_client_without_id_has_the_quotas_of_its_user_only() -> None:
    table = QuotaTable(
        {entity_of([("client-id", None)]): {KEY: 1.0}, entity_of([("user", None)]): {KEY: 2.0}}
    )
    assert table.bound(KEY, "u", "") == Bound(2.0, "u", "")


@pytest.mark.parametrize(
    "pairs",
    [[], [("group", "g")], [("user", "")], [("client-id", "")], [("ip", "1.1.1.1"), ("user", "u")]],
)
def test_entities_that_make_no_sense_are_refused(pairs: list[tuple[str, str | None]]) -> None:
    with pytest.raises(QuotaError):
        check_entity(entity_of(pairs))


def test_addresses_and_users_have_other_keys() -> None:
    assert check_entity(entity_of([("ip", None)])) is IP_KEYS
    assert check_entity(entity_of([("user", "u"), ("client-id", None)])) is USER_KEYS


@pytest.mark.parametrize("value", [0.0, -1.0, 1.5, 1e19])
def test_byte_rates_are_positive_integers(value: float) -> None:
    with pytest.raises(QuotaError):
        check_value(USER_KEYS, KEY, value)


def test_the_largest_long_is_a_byte_rate() -> None:
    """Clients send it as a double, which is larger by one."""
    check_value(USER_KEYS, KEY, float((1 << 63) - 1))


def test_an_ipv4_address_has_one_form() -> None:
    assert {plain_address(text) for text in ("::ffff:10.0.0.1", "10.0.0.1")} == {"10.0.0.1"}
    assert plain_address("0:0::1") == "::1"


def test_a_table_changes_in_place() -> None:
    one, other = (entity_of([("user", name)]) for name in ("one", "other"))
    table = QuotaTable({one: {KEY: 1.0}, other: {KEY: 2.0}})
    table.merge(QuotaTable({one: {}}))
    assert table.has(KEY)
    assert table.bound(KEY, "one", "") is None
    table.merge(QuotaTable({other: {"x": 3.0}}))
    assert not table.has(KEY)
    assert table.has(KEY, "x")
    assert table.present == {"x"}
    assert table == QuotaTable({other: {"x": 3.0}})


def test_an_entity_has_each_type_once_in_the_order_of_their_names() -> None:
    assert entity_of([("user", "u"), ("client-id", None), ("user", "v")]) == (
        ("client-id", None),
        ("user", "v"),
    )
    assert entity_of([]) == ()


@pytest.mark.parametrize(
    ("pairs", "why"),
    [
        ([], "Invalid empty client quota entity"),
        ([("group", "g")], "Unhandled client quota entity type: group"),
        ([("user", "u"), ("client-id", "")], "Empty client-id not supported"),
        ([("ip", None), ("client-id", None)], "Invalid quota entity combination"),
    ],
)
def test_a_refusal_has_kafkas_text(pairs: list[tuple[str, str | None]], why: str) -> None:
    with pytest.raises(QuotaError, match=why):
        check_entity(entity_of(pairs))


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("connection_creation_rate", 1.0, "Invalid configuration key connection_creation_rate"),
        (KEY, 0.0, f"Quota {KEY} must be greater than 0"),
        (KEY, 9.3e18, f"Proposed value for {KEY} is too large for a LONG."),
        (KEY, 5.5, f"{KEY} cannot be a fractional value."),
        (KEY, 5.00001, f"{KEY} cannot be a fractional value."),
        ("request_percentage", -0.5, "Quota request_percentage must be greater than 0"),
    ],
)
def test_a_refused_value_has_kafkas_text(key: str, value: float, why: str) -> None:
    with pytest.raises(QuotaError) as refused:
        check_value(USER_KEYS, key, value)
    assert str(refused.value) == why


def test_rates_of_connections_are_ints_and_percentages_any_number() -> None:
    rate = "connection_creation_rate"
    check_value(IP_KEYS, rate, float((1 << 31) - 1))
    check_value(IP_KEYS, rate, 1.0)
    with pytest.raises(QuotaError, match="too large for an INT"):
        check_value(IP_KEYS, rate, float(1 << 31))
    with pytest.raises(QuotaError, match="Invalid configuration key"):
        check_value(IP_KEYS, KEY, 1.0)
    check_value(USER_KEYS, "request_percentage", 0.001)
    check_value(USER_KEYS, "controller_mutation_rate", 1e300)
    check_value(USER_KEYS, KEY, 5.0000001)
