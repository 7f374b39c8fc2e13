"""Setting and recommended value of each knob, for docs/knobs.md. Bounds are the constants that the
checks use."""

from tuning.broker.space import ACTIVE_SHARE
from tuning.host.offloads import ASK
from tuning.knobs.disk import FEWEST_REQUESTS, HEAVY, READ_AHEAD_KB
from tuning.knobs.file_system import FEWEST_INODES, LITTLE, PROVEN, SCARCE, UNSAFE
from tuning.knobs.limits import FEWEST
from tuning.knobs.memory import DIRTY_SECONDS, FEWEST_MAPS, HUGE_SHARE, MAX_SWAPPINESS
from tuning.knobs.network import BACKLOG, FULL, STORM, SYN_BACKLOG
from tuning.knobs.processor import SLOW_CLOCKS, STEADY

_STORM = f"{SYN_BACKLOG} for {STORM} or more connections"
_BUFFER = "at least kbroker.local.socket.buffer.bytes (1048576)"
_WINDOW = "largest value: twice the interface's speed x round trip (--rtt)"

SETTINGS: dict[str, tuple[str, str]] = {
    "vm.swappiness": ("vm.swappiness", f"1; up to {MAX_SWAPPINESS} is fine, and any value without swap"),
    "dirty limit (vm.dirty_bytes or vm.dirty_ratio)": (
        "vm.dirty_bytes",
        "{:g} to {:g} s of the disk's write rate; the proposal is 10 s".format(*DIRTY_SECONDS),
    ),
    "vm.max_map_count": ("vm.max_map_count", f"at least {FEWEST_MAPS}"),
    "vm.overcommit_memory": ("vm.overcommit_memory", "0; 2 only if the arenas fit below the commit limit"),
    "vm.zone_reclaim_mode": ("vm.zone_reclaim_mode", "0 on a host with several nodes"),
    "transparent_hugepage/enabled": ("/sys/kernel/mm/transparent_hugepage/enabled", "madvise or never"),
    "reserved huge pages": ("vm.nr_hugepages", f"0; below {HUGE_SHARE:.0%} of memory is fine"),
    "proactive reclaim (DAMON)": (
        "/sys/kernel/mm/damon/admin/kdamonds/*/state, /sys/module/damon_reclaim/parameters/enabled",
        "off, or no scheme with action pageout that includes the page cache",
    ),
    "cgroup memory limit": ("memory.max", "max, or enough for the arenas and the cache of the logs"),
    "queue/scheduler": (
        "/sys/block/DISK/queue/scheduler",
        f"none or mq-deadline, not {', '.join(HEAVY)}; mq-deadline on a rotating disk",
    ),
    "queue/read_ahead_kb": ("/sys/block/DISK/queue/read_ahead_kb", "{} to {}".format(*READ_AHEAD_KB)),
    "queue/nr_requests": ("/sys/block/DISK/queue/nr_requests", f"at least {FEWEST_REQUESTS}"),
    "queue/wbt_lat_usec": (
        "/sys/block/DISK/queue/wbt_lat_usec",
        "-1 (the kernel's default) with durable acks, never 0",
    ),
    "queue/nomerges": ("/sys/block/DISK/queue/nomerges", "0"),
    "fstrim.timer": ("systemctl enable --now fstrim.timer", "on, unless the file system has discard"),
    "written to by this user": ("chown, chmod of log.dirs", "yes"),
    "clock": ("chrony, systemd-timesyncd", "synchronised"),
    "interrupts": ("/proc/irq/*/smp_affinity_list, irqbalance", "on several cores at 10 Gbit/s and more"),
    "queue/write_cache": (
        "/sys/block/DISK/queue/write_cache",
        "write through, or a cache that survives a power failure",
    ),
    "file system": ("type in /etc/fstab", " or ".join(PROVEN)),
    "barriers": ("mount option", f"barrier=1, not {' or '.join(UNSAFE)}"),
    "synchronous mount": ("mount option", "async"),
    "journalled data": ("mount option", "data=ordered"),
    "access times": ("mount option", "noatime or relatime"),
    "discard": ("mount option; fstrim.timer", "nodiscard; enabled"),
    "read-only": ("mount option", "rw"),
    "free space": (
        "log.dirs, log.retention.bytes, log.segment.bytes",
        f"at least {LITTLE:.0%} free, serious below {SCARCE:.0%}; active segments within {ACTIVE_SHARE:.0%}",
    ),
    "free inodes": ("mkfs.ext4 -i", f"at least {2 * FEWEST_INODES} a log"),
    "place of log.dirs": ("log.dirs", "not below /tmp or /var/tmp"),
    "net.core.rmem_max": ("net.core.rmem_max", _BUFFER),
    "net.core.wmem_max": ("net.core.wmem_max", _BUFFER),
    "net.ipv4.tcp_rmem": ("net.ipv4.tcp_rmem", _WINDOW),
    "net.ipv4.tcp_wmem": ("net.ipv4.tcp_wmem", _WINDOW),
    "net.core.somaxconn": ("net.core.somaxconn", _STORM),
    "net.ipv4.tcp_max_syn_backlog": ("net.ipv4.tcp_max_syn_backlog", _STORM),
    "net.ipv4.tcp_slow_start_after_idle": (
        "net.ipv4.tcp_slow_start_after_idle",
        "0 with clients on other hosts",
    ),
    "packets dropped before their protocol": (
        "net.core.netdev_max_backlog",
        f"{BACKLOG} if /proc/net/softnet_stat keeps growing",
    ),
    "listen queue overflows": ("socket.listen.backlog.size", "more if kbroker_tcp_listen_drops_total grows"),
    "tracked connections": ("net.netfilter.nf_conntrack_max", f"all connections within {FULL:.0%} of it"),
    "speed": ("ethtool -s NIC speed", "at least the rate of all consumers divided by 0.7"),
    "offloads": ("ethtool -K NIC", ", ".join(ASK) + " on"),
    "receive packet steering": ("/sys/class/net/NIC/queues/rx-*/rps_cpus", "0 with a queue for each core"),
    "receive queues": ("ethtool -L NIC combined", "at least half as many as cores, at 10 Gbit/s and more"),
    "scaling governor": ("cpupower frequency-set -g", " or ".join(STEADY)),
    "clocksource": (
        "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        f"tsc or the hypervisor's, not {', '.join(SLOW_CLOCKS)}",
    ),
    "NUMA nodes": ("numactl --cpunodebind, --membind", "one node, if your load benefits"),
    "cgroup cpu quota": ("num.network.threads, num.io.threads", "together at most 1.5 x the quota (cpu.max)"),
    "cachestat": ("Linux; the sandbox's filter of system calls", "6.5 or later; allowed"),
    "preadv2 RWF_NOWAIT": ("the file system", " or ".join(PROVEN)),
    "short time slices": ("Linux", "6.12 or later"),
    "io_uring": ("kernel.io_uring_disabled", "any"),
    "descriptors of a process (hard limit)": (
        "LimitNOFILE",
        f"at least {FEWEST}, more with many logs or clients",
    ),
    "fs.file-max": ("fs.file-max", "the files of all kbroker processes"),
    "fs.nr_open": ("fs.nr_open", f"at least LimitNOFILE ({FEWEST} or more)"),
}
