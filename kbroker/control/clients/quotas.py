"""Quotas as /metrics shows them: the limit, the used rate, and throttled requests; their number is
bounded."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

from kbroker.config.client_quotas import (
    CLIENT_ID,
    IP,
    REQUEST_PERCENTAGE,
    USER,
    USER_KEYS,
    Bound,
    Entity,
)
from kbroker.control.broker import Broker
from kbroker.control.telemetry.points import printable
from kbroker.ipc.client_messages import ClientReport, QuotaUse
from kbroker.ipc.sensors import NS_PER_PERCENT, Sensors, sensor_of

MAX_SHOWN: Final = 100
MAX_KNOWN: Final = 500
"""Maximum of clients, and of entities with quotas, that are kept."""
DEFAULT: Final = "<default>"
"""Kafka's name of the entity for all clients without their own quota."""
UNITS: Final = {REQUEST_PERCENTAGE: NS_PER_PERCENT}


class QuotaHolder(NamedTuple):
    """A quota, and the user and client id that share it, as in Bound."""

    quota: str
    user: str
    client_id: str


class QuotaReports:
    """Runs in: control. Owner: ClientReports."""

    def __init__(self, broker: Broker) -> None:
        window_ms = broker.config.get_int("quota.window.size.seconds") * 1000
        self._broker = broker
        self._sensors = Sensors(broker.shared, broker.shared.control_client, window_ms)
        self._clients: dict[tuple[str, str], None] = {}
        self._throttled: dict[QuotaHolder, tuple[int, int]] = {}

    def take(self, report: ClientReport) -> None:
        """A network process has throttled requests, or has served clients with quotas."""
        for each in report.throttled:
            holder = QuotaHolder(each.quota, each.user, each.client_id)
            requests, milliseconds = self._throttled.pop(holder, (0, 0))
            self._throttled[holder] = requests + each.requests, milliseconds + each.milliseconds
        for client in report.clients:
            self._clients.pop(client, None)
            self._clients[client] = None
        _forget_oldest(self._throttled)
        _forget_oldest(self._clients)

    def use(self, now_ms: int) -> tuple[tuple[QuotaUse, ...], int]:
        """The quotas of which the largest share is used, and how many more there are."""
        quotas = self._broker.quotas.quotas
        limits = dict(self._of_clients())
        defaults = []
        for entity, values in islice(quotas.items(), MAX_KNOWN):
            user, client_id, default = _names(entity)
            for key in (key for key in USER_KEYS if key in values):
                if default:
                    defaults.append(_row(QuotaHolder(key, user, client_id), values[key], None))
                else:
                    limits.setdefault(QuotaHolder(key, user, client_id), values[key])
        rows = [self._used(holder, limit, now_ms) for holder, limit in limits.items()]
        rows.sort(key=lambda row: (-(row.used or 0.0) / row.limit, row.quota, row.user, row.client_id))
        left_out = max(0, len(rows) - MAX_SHOWN) + max(0, len(defaults) - MAX_SHOWN)
        left_out += max(0, len(quotas) - MAX_KNOWN)
        return (*defaults[:MAX_SHOWN], *rows[:MAX_SHOWN]), left_out

    def _of_clients(self) -> Iterator[tuple[QuotaHolder, float]]:
        """The quotas that hold for the clients that were served last."""
        table = self._broker.quotas
        if table.quotas:
            for user, client_id in self._clients:
                for key in USER_KEYS:
                    bound = table.bound(key, user, client_id)
                    if bound is not None:
                        yield QuotaHolder(key, bound.user, bound.client_id), bound.limit

    def _used(self, holder: QuotaHolder, limit: float, now_ms: int) -> QuotaUse:
        unit = UNITS.get(holder.quota, 1.0)
        sensor = sensor_of(holder.quota, Bound(limit, holder.user, holder.client_id), unit)
        assert sensor is not None
        return _row(
            holder, limit, self._sensors.rate(sensor, now_ms) / unit, *self._throttled.get(holder, (0, 0))
        )


def _forget_oldest(known: dict[Any, Any]) -> None:
    for oldest in list(islice(known, max(0, len(known) - MAX_KNOWN))):
        del known[oldest]


def _names(entity: Entity) -> tuple[str, str, bool]:
    """User and client id of an entity, and whether one of them is the default; an entity of
    addresses has no quota that is shown."""
    names = dict(entity)
    if IP in names:
        return "", "", False
    user, client_id = names.get(USER, ""), names.get(CLIENT_ID, "")
    return (
        DEFAULT if user is None else user,
        DEFAULT if client_id is None else client_id,
        user is None or client_id is None,
    )


def _row(
    holder: QuotaHolder, limit: float, used: float | None, requests: int = 0, milliseconds: int = 0
) -> QuotaUse:
    user, client_id = printable(holder.user), printable(holder.client_id)
    return QuotaUse(holder.quota, user, client_id, limit, used, requests, milliseconds)
