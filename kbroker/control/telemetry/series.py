"""The series that clients have pushed: a bounded number, each kept until a while after its client
has left."""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct, field

from kbroker.control.telemetry.points import Key, Point, printable
from kbroker.ipc.http_messages import ClientSample, PushingClient

MAX_OF_A_CLIENT: Final = 1000
KEPT_MS: Final = 60_000
"""Series outlive their client by this time, so that a scrape sees its last push."""
ALIVE: Final = 1 << 62


class ClientSeries(Struct):
    """The series of one client. until_ms: the time at which they are dropped. left_out: series of
    its last push for which there was no room."""

    client: Mapping[str, str]
    values: dict[Key, float] = field(default_factory=dict)
    until_ms: int = ALIVE
    left_out: int = 0


class ClientSeriesTable:
    """Runs in: control. Owner: the telemetry service. max_series: maximum series of all clients
    together. Connected clients keep their series: a flood of new clients shares the remaining room.
    Series of clients that have left are dropped first.
    """

    def __init__(self, max_series: int) -> None:
        self._max_series = max_series
        self._count = 0
        self._by_instance: dict[bytes, ClientSeries] = {}
        self._gone: dict[bytes, ClientSeries] = {}

    @property
    def left_out(self) -> int:
        """Series of the last pushes for which there was no room."""
        return sum(one.left_out for one in self._by_instance.values())

    def add(self, instance_id: bytes, client: Mapping[str, str], points: Iterable[Point]) -> None:
        """Apply a push of a client: values are set, deltas added. A client without points takes no
        memory: only series are counted, and it may come again and again by another id."""
        series = self._by_instance.get(instance_id) or ClientSeries(client)
        series.client, series.until_ms, series.left_out = client, ALIVE, 0
        self._gone.pop(instance_id, None)
        values = series.values
        for key, value, delta in points:
            known = values.get(key)
            if known is None:
                if len(values) >= MAX_OF_A_CLIENT or not self._has_room():
                    series.left_out += 1
                    continue
                self._count += 1
                values[key] = value
            else:
                values[key] = known + value if delta else value
        if values or series.left_out:
            self._by_instance[instance_id] = series

    def client_left(self, instance_id: bytes, now_ms: int) -> None:
        """The client has left: its series are kept for a while."""
        series = self._by_instance.get(instance_id)
        if series is not None and series.until_ms == ALIVE:
            series.until_ms = now_ms + KEPT_MS
            self._gone[instance_id] = series

    def sweep(self, now_ms: int) -> None:
        """Drop the series whose time is over; clients that left first come first."""
        while self._gone:
            first = next(iter(self._gone))
            if self._gone[first].until_ms > now_ms:
                return
            self._drop(first)

    def all(self) -> tuple[PushingClient, ...]:
        """Every client with its series."""
        return tuple(
            PushingClient(
                printable(series.client.get("client_id", "")),
                series.client["client_instance_id"],
                printable(series.client.get("client_software_name", "")),
                printable(series.client.get("client_software_version", "")),
                printable(series.client.get("client_source_address", "")),
                tuple(
                    ClientSample(key.metric, *key.labels, key.counter, value)
                    for key, value in series.values.items()
                ),
            )
            for series in self._by_instance.values()
        )

    def _has_room(self) -> bool:
        while self._count >= self._max_series and self._gone:
            self._drop(next(iter(self._gone)))
        return self._count < self._max_series

    def _drop(self, instance_id: bytes) -> None:
        del self._gone[instance_id]
        self._count -= len(self._by_instance.pop(instance_id).values)
