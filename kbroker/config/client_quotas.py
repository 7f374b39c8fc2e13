"""Client quotas: their entities, their keys, and which quota applies to a client (KIP-13, 546, 599,
612).

An entity names a user, a client id, both, or an address. None instead of a name is the default for
all that have no quota of their own. Among the quotas of one key the most specific applies (Kafka's
DefaultQuotaCallback). Pure.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from kbroker.config.client_network import literal
from kbroker.config.java_hash import Sort, map_order, string_hash

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
TYPES: Final = (USER, CLIENT_ID, IP)

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

LONG_MAX = (1 << 63) - 1
INT_MAX = (1 << 31) - 1
USER_KEYS: Final[Mapping[str, tuple[str, float] | None]] = {
    PRODUCER_BYTE_RATE: ("LONG", LONG_MAX),
    CONSUMER_BYTE_RATE: ("LONG", LONG_MAX),
    REQUEST_PERCENTAGE: None,
    CONTROLLER_MUTATION_RATE: None,
}
"""Keys of user and client-id entities: type and largest value of whole numbers, None for
doubles."""
IP_KEYS: Final[Mapping[str, tuple[str, float] | None]] = {CONNECTION_CREATION_RATE: ("INT", INT_MAX)}

FRACTION = 1e-6

Entity = tuple[tuple[str, str | None], ...]
"""(type, name) pairs in the order of the types' names, each type once."""
Quotas = Mapping[Entity, Mapping[str, float]]
"""Values by entity and key."""


class QuotaError(Exception):
    """An alteration that cannot be applied: INVALID_REQUEST with Kafka's text."""


def entity_of(pairs: Iterable[tuple[str, str | None]]) -> Entity:
    """An entity from pairs; of a type that comes twice the last one counts, as in Kafka."""
    return tuple(sorted(dict(pairs).items()))


def in_kafka_order(quotas: Quotas, sort: Sort = sorted) -> Iterator[tuple[Entity, list[tuple[str, float]]]]:
    """Entities and their values in Kafka's order: the order of HashMaps that are filled from
    other HashMaps."""
    for entity in map_order(map_order(quotas, _entity_hash, sort=sort), _entity_hash, 1, sort):
        values = quotas[entity]
        keys = map_order(map_order(values, string_hash), string_hash, 1)
        yield entity, [(key, values[key]) for key in keys]


def _entity_hash(entity: Entity) -> int:
    """ClientQuotaEntity.hashCode: the hash of a list that holds one map, of names by type."""
    pairs = (string_hash(kind) ^ (0 if name is None else string_hash(name)) for kind, name in entity)
    return 31 + sum(pairs) & 0xFFFFFFFF


def check_entity(entity: Entity) -> Mapping[str, tuple[str, float] | None]:
    """The keys that the entity may have, save for whether an address can be resolved. Raises
    QuotaError."""
    if not entity:
        raise QuotaError("Invalid empty client quota entity")
    for kind, name in entity:
        if kind not in TYPES:
            raise QuotaError(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise QuotaError(f"Empty {kind} not supported")
    kinds = {kind for kind, _ in entity}
    if IP not in kinds:
        return USER_KEYS
    if len(kinds) > 1:
        raise QuotaError(
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
        )
    return IP_KEYS


def check_value(keys: Mapping[str, tuple[str, float] | None], key: str, value: float) -> None:
    """Raises QuotaError for a key that the entity has not, and for a value that the key cannot
    have."""
    if key not in keys:
        raise QuotaError(f"Invalid configuration key {key}")
    if value <= 0:
        raise QuotaError(f"Quota {key} must be greater than 0")
    whole = keys[key]
    if whole is None:
        return
    kind, largest = whole
    if value > float(largest):  # as Java compares: the largest LONG is sent as 2**63
        article = "an" if kind == "INT" else "a"
        raise QuotaError(f"Proposed value for {key} is too large for {article} {kind}.")
    if abs(value % 1.0) > FRACTION:
        raise QuotaError(f"{key} cannot be a fractional value.")


class Bound(NamedTuple):
    """A quota in force: its value and the clients that share it. user or client_id is empty where
    it does not matter."""

    limit: float
    user: str
    client_id: str


@dataclass
class QuotaTable:
    """Finds the quota in force for a client. Runs in: control and network, each with its own table,
    which `merge` changes in place: a change costs its own size, however many quotas there are.

    present: the keys that any entity has.
    """

    quotas: dict[Entity, dict[str, float]]

    def __post_init__(self) -> None:
        self._entities = Counter(key for values in self.quotas.values() for key in values)
        self.present = set(self._entities)

    def merge(self, changed: "QuotaTable") -> None:
        """Replace all quotas of these entities. An entity without values has no quota any more."""
        for entity, values in changed.quotas.items():
            self._entities.subtract(list(self.quotas.pop(entity, ())))
            self._entities.update(list(values))
            if values:
                self.quotas[entity] = values
        self.present = {key for key, count in self._entities.items() if count > 0}

    def has(self, *keys: str) -> bool:
        """Whether any entity has one of these keys."""
        return not self.present.isdisjoint(keys)

    def bound(self, key: str, user: str, client_id: str) -> Bound | None:
        """The quota of a client, None when there is none."""
        levels = [
            (user, client_id, ((USER, user),), ((CLIENT_ID, client_id),)),
            (user, client_id, ((USER, user),), ((CLIENT_ID, None),)),
            (user, "", ((USER, user),), ()),
            (user, client_id, ((USER, None),), ((CLIENT_ID, client_id),)),
            (user, client_id, ((USER, None),), ((CLIENT_ID, None),)),
            (user, "", ((USER, None),), ()),
            ("", client_id, (), ((CLIENT_ID, client_id),)),
            ("", client_id, (), ((CLIENT_ID, None),)),
        ]
        for shared_user, shared_client, of_user, of_client in levels:
            if of_client and not client_id:
                continue  # quotas of client ids are not for clients without one
            limit = self.quotas.get((*of_client, *of_user), {}).get(key)
            if limit is not None:
                return Bound(limit, shared_user, shared_client)
        return None


def is_address(host: str) -> bool:
    """Whether it is a literal address, which needs no resolver."""
    return literal(host) is not None


def plain_address(host: str) -> str:
    """A literal address in its one form, an IPv4 address in IPv6 clothes as IPv4; other text as it
    is."""
    return str(literal(host) or host)
