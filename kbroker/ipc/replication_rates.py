"""Replication throttles (KIP-73) that all IO workers share: rates by site, and counts of copied
bytes.

Control writes the rates. Each IO worker adds the bytes that it copies for throttled replicas to its
own row, and reads the rows of all. A rate is stored plus one, because untouched memory is 0: no
limit.
"""

from kbroker.ipc.shared import Shared

LEADER, FOLLOWER = 0, 1


class ReplicationRates:
    """Runs in: control and io. The words are shared; an object of this class is a view of them.

    A site is named by its number. side: LEADER for bytes that its replicas send, FOLLOWER for bytes
    that they copy.
    """

    def __init__(self, shared: Shared) -> None:
        self._rates = shared.replication_rates
        self._bytes = shared.replication_bytes

    def set(self, site: int, side: int, bytes_per_second: int | None) -> None:
        """Set a limit; None for no limit."""
        self._rates[site, side] = 0 if bytes_per_second is None else bytes_per_second + 1

    def rate(self, site: int, side: int) -> int | None:
        """Bytes a second, None without a limit."""
        word = int(self._rates[site, side])
        return word - 1 if word else None

    def add(self, worker: int, site: int, side: int, count: int) -> None:
        """Count copied bytes under a site's limit."""
        self._bytes[worker, site, side] += count

    def total(self, site: int, side: int) -> int:
        """Bytes that all workers have copied under a site's limit."""
        return int(self._bytes[:, site, side].sum())
