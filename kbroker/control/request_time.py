"""The time that control spends on requests of clients with a request_percentage quota (KIP-124)."""

import time

from kbroker.config.client_quotas import REQUEST_PERCENTAGE, QuotaTable
from kbroker.config.principals import name_of
from kbroker.control.broker import Broker
from kbroker.ipc.messages import ClientRequest
from kbroker.ipc.sensors import Sensors, sensor_of

NS_PER_PERCENT = 1e7


class RequestTime:
    """Runs in: control. Owner: its main. The network process that sends the answer checks the
    quota."""

    def __init__(self, broker: Broker) -> None:
        window_ms = broker.config.get_int("quota.window.size.seconds") * 1000
        self._broker = broker
        self._sensors = Sensors(broker.shared, broker.shared.control_client, window_ms)
        self._table: QuotaTable | None = None
        self._counts = False

    def counts(self) -> bool:
        """Whether any such quota is set."""
        if self._table is not self._broker.quotas:
            self._table = self._broker.quotas
            self._counts = self._table.has(REQUEST_PERCENTAGE)
        return self._counts

    def spent(self, client: ClientRequest, began_ns: int) -> None:
        """Count the time of a request that is answered, or that waits now."""
        user = name_of(client.principal)
        bound = self._broker.quotas.bound(REQUEST_PERCENTAGE, user, client.client_id or "")
        sensor = sensor_of(REQUEST_PERCENTAGE, bound, NS_PER_PERCENT)
        if sensor is not None:
            now_ns = time.monotonic_ns()
            self._sensors.add(sensor, now_ns - began_ns, now_ns // 1_000_000)
