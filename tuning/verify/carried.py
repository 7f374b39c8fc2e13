"""Settings that the broker of a turn takes from the user's, and advice that its load cannot show.

Listeners, security, replicas and retention stay out: the broker of a turn is one of its own, on
loopback, with an empty log dir.
"""

from tuning.situation import Situation

CARRIED = (
    "compression.type",
    "fetch.max.bytes",
    "kbroker.arena.bytes",
    "kbroker.confine.processes",
    "kbroker.local.congestion.control",
    "kbroker.local.socket.buffer.bytes",
    "kbroker.log.reserve.bytes",
    "kbroker.max.partitions",
    "kbroker.ring.entries",
    "kbroker.sendfile.min.bytes",
    "kbroker.slice.us",
    "kbroker.write.caching",
    "log.flush.interval.messages",
    "log.flush.interval.ms",
    "log.flush.scheduler.interval.ms",
    "log.index.interval.bytes",
    "log.index.size.max.bytes",
    "log.preallocate",
    "log.segment.bytes",
    "num.io.threads",
    "num.network.threads",
    "queued.max.request.bytes",
    "socket.listen.backlog.size",
    "socket.receive.buffer.bytes",
    "socket.send.buffer.bytes",
)

_FOLDERS = "it is about places on disks"
_ROOM = "it is about room, not speed"
_REMOTE = "it is for clients on other hosts; this load runs on this one"
_STORM = "it is for thousands of clients that connect at once"
_SCARCE = "it matters when memory is scarce, which this load does not make it"
_LIMIT = "it is a limit: nothing gains until it is reached"
NOT_SHOWN = {
    "log.dirs": _FOLDERS,
    "kbroker.replica.sites": _FOLDERS,
    "default.replication.factor": _FOLDERS,
    "kbroker.max.partitions": _ROOM,
    "log.segment.bytes": _ROOM,
    "log.retention.bytes": _ROOM,
    "kbroker.write.caching": "it is a promise of acks, not a gain; every turn keeps it",
    "socket.send.buffer.bytes": _REMOTE,
    "socket.receive.buffer.bytes": _REMOTE,
    "net.ipv4.tcp_rmem": _REMOTE,
    "net.ipv4.tcp_wmem": _REMOTE,
    "net.ipv4.tcp_slow_start_after_idle": _REMOTE,
    "socket.listen.backlog.size": _STORM,
    "net.core.somaxconn": _STORM,
    "net.ipv4.tcp_max_syn_backlog": _STORM,
    "vm.swappiness": _SCARCE,
    "vm.nr_hugepages": _SCARCE,
    "vm.zone_reclaim_mode": _SCARCE,
    "vm.overcommit_memory": _LIMIT,
    "vm.max_map_count": _LIMIT,
    "fs.file-max": _LIMIT,
    "fs.nr_open": _LIMIT,
}
"""Advice that is taken or left for its reason alone; `--try` measures it nevertheless."""


def baseline(situation: Situation) -> dict[str, str]:
    """Settings of the turns without a change."""
    static = situation.config.static
    carried = {key: static[key] for key in CARRIED if key in static}
    if situation.workload.durable:
        carried["kbroker.write.caching"] = "false"
    return carried
