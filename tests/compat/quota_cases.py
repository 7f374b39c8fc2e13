"""Quota and credential requests, each to be answered as Apache Kafka 4.3.1 answers it. They build
on one another."""

from functools import partial

from kbroker.protocol.api_keys import ApiKey as K
from kbroker.protocol.messages import alter_client_quotas as acq
from kbroker.protocol.messages import describe_client_quotas as dcq
from tests.compat.raw import Case, case

IN_ORDER = frozenset({"entries", "entries.entity", "entries.values"})
"""Client suites compare whole answers: Kafka's order counts."""

later = partial(case, settles=True, same_text=True, keep=IN_ORDER)
"""A case that looks at what an earlier one changed: Kafka applies changes after it has answered."""

Names = dict[str, str | None]


def entry(entity: Names | list[tuple[str, str | None]], **values: float | None) -> acq.RequestEntryData:
    """Values by key, None to remove."""
    pairs = list(entity.items()) if isinstance(entity, dict) else entity
    return acq.RequestEntryData(
        [acq.RequestEntityData(kind, name) for kind, name in pairs],
        [acq.OpData(key, 0.0 if value is None else value, value is None) for key, value in values.items()],
    )


def alter(*entries: acq.RequestEntryData, validate_only: bool = False) -> acq.AlterClientQuotasRequest:
    return acq.AlterClientQuotasRequest(list(entries), validate_only)


def described(
    *components: tuple[str, int, str | None], strict: bool = False
) -> dcq.DescribeClientQuotasRequest:
    return dcq.DescribeClientQuotasRequest([dcq.ComponentData(*each) for each in components], strict)


DUPLICATE = entry({"user": "twice"}, producer_byte_rate=1.0)
DUPLICATE.ops.append(acq.OpData("producer_byte_rate", 2.0))
HIGH = 1e12  # nothing that these tests send comes near

ALTERATIONS: list[Case] = [
    case("quotas, validated", K.ALTER_CLIENT_QUOTAS, (0, 1),
         alter(entry({"user": "unborn"}, producer_byte_rate=HIGH), validate_only=True), same_text=True),
    case("quotas", K.ALTER_CLIENT_QUOTAS, (0, 1), alter(
        entry({"user": "alice"}, producer_byte_rate=HIGH, request_percentage=99.5),
        entry({"user": "alice", "client-id": "app"}, consumer_byte_rate=HIGH),
        entry({"user": "alice", "client-id": None}, consumer_byte_rate=HIGH),
        entry({"user": None, "client-id": "app"}, consumer_byte_rate=HIGH),
        entry({"user": None, "client-id": None}, controller_mutation_rate=1e6),
        entry({"client-id": "app"}, producer_byte_rate=HIGH),
        entry({"client-id": "some one"}, producer_byte_rate=HIGH, consumer_byte_rate=HIGH),
        entry({"ip": "10.1.2.3"}, connection_creation_rate=1000.0),
        entry({"ip": "::1:2"}, connection_creation_rate=1000.0),
    ), same_text=True),
    case("quotas, refused", K.ALTER_CLIENT_QUOTAS, (0, 1), alter(
        entry({}, producer_byte_rate=1.0), entry({"group": "a"}, producer_byte_rate=1.0),
        entry({"user": ""}, producer_byte_rate=1.0), entry({"client-id": ""}, producer_byte_rate=1.0),
        entry({"ip": ""}, connection_creation_rate=1.0), entry({"ip": "no such host"}, connection_creation_rate=1.0),
        entry({"ip": "1.1.1.1", "user": "a"}, connection_creation_rate=1.0),
        entry({"ip": "1.1.1.2"}, producer_byte_rate=1.0), entry({"user": "b"}, connection_creation_rate=1.0),
        entry({"user": "c"}, bogus=1.0), entry({"user": "d"}, producer_byte_rate=0.0),
        entry({"user": "e"}, producer_byte_rate=-1.0), entry({"user": "f"}, producer_byte_rate=1.5),
        entry({"user": "g"}, producer_byte_rate=1e19), entry({"ip": "1.1.1.3"}, connection_creation_rate=2147483648.0),
        entry({"ip": "1.1.1.4"}, connection_creation_rate=0.5), entry({"user": "h"}, request_percentage=0.0),
        entry({"user": "i"}, bogus=None), DUPLICATE,
    ), same_text=True),
    case("all keys", K.ALTER_CLIENT_QUOTAS, (0, 1), alter(
        entry({"user": "every", "client-id": "key"}, request_percentage=50.0, producer_byte_rate=HIGH,
              controller_mutation_rate=1e6, consumer_byte_rate=HIGH),
        entry({"user": "three"}, producer_byte_rate=HIGH, consumer_byte_rate=HIGH, request_percentage=50.0),
        *(entry({"client-id": f"client-{number}"}, producer_byte_rate=HIGH) for number in range(40)),
    ), same_text=True),
    case("entity twice", K.ALTER_CLIENT_QUOTAS, (0, 1), alter(
        entry({"user": "again"}, producer_byte_rate=HIGH), entry({"user": "again"}, consumer_byte_rate=HIGH)),
        same_text=True),
    case("type twice", K.ALTER_CLIENT_QUOTAS, (0, 1), alter(
        entry([("user", "first"), ("user", "last")], producer_byte_rate=HIGH)), same_text=True),
    case("no operation", K.ALTER_CLIENT_QUOTAS, (0, 1), alter(entry({"user": "idle"})), same_text=True),
    case("nothing", K.ALTER_CLIENT_QUOTAS, (0, 1), alter()),
]  # fmt: skip

DESCRIPTIONS: list[Case] = [
    later(f"describe {number}", K.DESCRIBE_CLIENT_QUOTAS, (0, 1), request)
    for number, request in enumerate((
        described(), described(strict=True),
        described(("user", 0, "alice")), described(("user", 0, "alice"), strict=True),
        described(("user", 0, "alice"), ("client-id", 0, "app")), described(("user", 1, None)),
        described(("user", 1, None), ("client-id", 1, None), strict=True), described(("user", 2, None)),
        described(("user", 2, None), strict=True), described(("client-id", 2, None), ("user", 2, None)),
        described(("client-id", 0, "some one")), described(("ip", 2, None)), described(("ip", 0, "10.1.2.3")),
        described(("ip", 1, None)), described(("user", 0, "nobody")),
        described(("", 0, "a")), described(("user", 0, "a"), ("user", 2, None)), described(("group", 0, "a")),
        described(("user", 0, None)), described(("user", 1, "a")), described(("user", 2, "a")),
        described(("user", 3, None)), described(("user", -1, None)), described(("ip", 2, None), ("user", 2, None)),
    ))
]  # fmt: skip

REMOVALS: list[Case] = [
    case("remove", K.ALTER_CLIENT_QUOTAS, (0, 1), alter(
        entry({"user": "alice"}, producer_byte_rate=None, consumer_byte_rate=HIGH),
        entry({"client-id": "some one"}, producer_byte_rate=None, consumer_byte_rate=None),
        entry({"user": "nobody"}, producer_byte_rate=None)), same_text=True),
    later("removed", K.DESCRIBE_CLIENT_QUOTAS, (1, 1), described()),
]  # fmt: skip

CASES = ALTERATIONS + DESCRIPTIONS + REMOVALS
