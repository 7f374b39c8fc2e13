"""The workload of the node. The knobs, the sizing model and the proposals all read this one
description."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Workload:
    """write_rate: bytes/s in, as compressed. retention_s: inf keeps forever. batch_bytes: of a
    producer's request.

    groups: consumer groups that keep up. lagging_groups: those that read what is old, drain times
    as fast as it is written. lag_s: how far the live ones may lag and still be served from memory.
    copies: replicas on this host. rtt_ms: of remote clients. durable: acks wait for the disk.
    """

    write_rate: float = 50e6
    retention_s: float = 7 * 86400.0
    partitions: int = 100
    groups: int = 2
    lagging_groups: int = 0
    drain: float = 2.0
    lag_s: float = 60.0
    copies: int = 1
    connections: int = 200
    batch_bytes: int = 16384
    segment_bytes: int = 1 << 30
    remote_clients: bool = True
    rtt_ms: float = 0.5
    durable: bool = False
    tls: bool = False

    @property
    def disk_write_rate(self) -> float:
        """Bytes/s that reach the disks."""
        return self.write_rate * self.copies

    @property
    def read_rate(self) -> float:
        """Bytes/s to consumers."""
        return self.write_rate * (self.groups + self.lagging_groups * self.drain)

    @property
    def cold_read_rate(self) -> float:
        """Bytes/s that come from the disks: the lagging groups share nothing."""
        return self.write_rate * self.lagging_groups * self.drain

    @property
    def requests(self) -> float:
        """Produce and fetch requests a second: fetches of live groups find what one produce round
        brought."""
        return self.write_rate / self.batch_bytes * (1 + self.groups)
