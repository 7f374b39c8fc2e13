"""Broker settings of kbroker itself. Kafka has none of them, so they carry the prefix
`kbroker.`."""

from kbroker.config.checks import PowerOfTwo, at_least, listen_address
from kbroker.config.setting import BOOLEAN, CLUSTER, HIGH, INT, LONG, LOW, STRING, Setting

# fmt: off
KBROKER = (
    Setting("kbroker.write.caching", BOOLEAN, True, dynamic=CLUSTER, importance=HIGH,
            doc="Default of the topic setting write.caching. With false, acks=all is answered only when the bytes "
                "are on disk; all waiting appends of a disk share one sync."),
    Setting("kbroker.clamp.replication.factor", BOOLEAN, True,
            doc="If a client or a setting requests more replicas than there are sites, create the topic with fewer "
                "replicas, with a warning. A factor above 3 from a client is refused, because no program has it as "
                "its default. With several kbroker.replica.sites this applies only to internal topics. False "
                "refuses, as Kafka does."),
    Setting("kbroker.kraft.metadata", BOOLEAN, False,
            doc="Write KRaft metadata at each clean stop, as `kbroker export kraft` does, so that Apache Kafka can "
                "start on the log.dirs at any time: the release whose metadata is there, else the newest "
                "(`kbroker docs move-out`)."),
    Setting("kbroker.replica.sites", STRING, "", importance=HIGH,
            doc="Groups of log.dirs that keep replicas of each other's partitions. Commas separate the directories "
                "of a site, semicolons separate sites; every directory must be in one site. Clients see each site "
                "as a node: its id is node.id plus its number, its ports are those of the listeners plus its "
                "number (port 0 takes any free one). Empty: one site with all directories."),
    Setting("kbroker.http.listen", STRING, "127.0.0.1:9404", listen_address,
            doc="Address of the http process: console, /metrics, /healthz, /readyz. Empty turns it off. Port 0 takes "
                "any free port, and so does the default if its port is in use."),
    Setting("kbroker.http.ssl.listener", STRING, "",
            doc="Name whose TLS settings the http port and the schema registry use: of a listener, or any name NAME "
                "with listener.name.NAME.ssl.keystore.location and so on. Clients need no certificates. "
                "Empty, the default: plain HTTP."),
    Setting("kbroker.console.enable", BOOLEAN, True,
            doc="Serve the console, a web page and its JSON API, at kbroker.http.listen. On loopback it is open to all "
                "users of this host; on other addresses, or if every listener requires a login, users log in with "
                "SCRAM, and without a SASL listener that offers SCRAM it is not served."),
    Setting("kbroker.console.readonly", BOOLEAN, True,
            doc="The console is read-only. False lets it change topics, settings, groups, quotas, ACLs and SCRAM "
                "users, with the permissions of its user (`kbroker docs console`)."),
    Setting("kbroker.console.reports.dir", STRING, "",
            doc="Folder of the reports that the console lists and shows: verdicts of the judge, figures of load "
                "tests, results of the benchmark, proofs of kbroker tune verify. It reads JSON files in the folder "
                "and up to three levels below it, and does not follow links. Only users who may describe the "
                "broker's settings see reports. Empty shows none."),
    Setting("kbroker.host.file", STRING, "",
            doc="File of `kbroker tune bench` with the measured speeds of this host. /metrics, the console's overview "
                "and `kbroker top` then show throughput against them, and kbroker tune uses it. It is read again when "
                "it changes. Empty: none."),
    Setting("kbroker.schema.registry.listen", STRING, "", listen_address,
            doc="Address of the schema registry (Confluent's REST API, `kbroker docs registry`), served by the http "
                "process: on loopback to all users of this host; on other addresses, or if every listener requires a "
                "login, only to users who log in with SCRAM. Confluent's port is 8081. Empty, the default, turns it "
                "off; it needs the packages of kbroker[registry]."),
    Setting("kbroker.metrics.kafka.names", BOOLEAN, True,
            doc="Also serve metrics under the names that dashboards for Kafka use (JMX exporter, kafka_exporter)."),
    Setting("kbroker.metrics.login", BOOLEAN, False,
            doc="Serve /metrics only to SCRAM users of the broker, by HTTP Basic; probes need no login. The broker "
                "needs a SASL listener with SCRAM."),
    Setting("kbroker.metrics.partitions.max", INT, 2000, at_least(0), importance=LOW,
            doc="Maximum number of topics, of partitions, of groups and of partitions of groups with series of "
                "their own. If there are more, series go to partitions that are offline or have replicas out of "
                "sync, then to the busiest, and to the groups with the largest lag. Sums include all of them."),
    Setting("kbroker.metrics.details.max", INT, 100, at_least(0), importance=LOW,
            doc="Maximum number of partitions with kbroker_log_durable_offset, kbroker_log_segments and "
                "kbroker_log_writes_total, chosen as for kbroker.metrics.partitions.max, and of partitions of a group "
                "with kbroker_group_lag_seconds: those where it is largest. Names of Kafka's dashboards do not have "
                "this bound."),
    Setting("kbroker.client.telemetry.enable", BOOLEAN, False,
            doc="Let clients push their own metrics (KIP-714) as client metrics subscriptions request; /metrics "
                "shows them. Off by default, as in Apache Kafka without a plugin, because librdkafka writes a line "
                "to the log of each client that is offered it. Without kbroker.http.listen it is never offered."),
    Setting("kbroker.client.telemetry.series.max", INT, 10000, at_least(0), importance=LOW,
            doc="Maximum number of series on /metrics that all clients together may push."),
    Setting("kbroker.slow.request.ms", INT, 0, at_least(0),
            doc="Log requests that take at least this long, with their client and the time of each stage: at most "
                "10 lines a second for each network process, and only samples of requests that kernels answer. The "
                "time that a Fetch waits for records does not count. 0 logs none and costs nothing."),
    Setting("kbroker.arena.bytes", LONG, 268435456, at_least(16777216), importance=LOW,
            doc="Shared memory of each network process for received requests. It is address space: a page uses "
                "memory only after it was needed once."),
    Setting("kbroker.ring.entries", INT, 4096, PowerOfTwo(16, 65536), importance=LOW,
            doc="Descriptors that fit in one ring between a network process and an IO worker."),
    Setting("kbroker.max.partitions", INT, 20000, at_least(64), importance=LOW,
            doc="Number of partitions that the shared partition table has room for."),
    Setting("kbroker.log.reserve.bytes", LONG, 67108864, at_least(0), importance=LOW,
            doc="Maximum disk space reserved at a time after the end of a fast-growing log, on ext4, so that "
                "appends need not wait while write-back allocates blocks. Space that is not used within half a "
                "minute is released. 0 reserves none; log.preallocate reserves whole segments instead."),
    Setting("kbroker.confine.processes", BOOLEAN, True,
            doc="Remove from each child process the privileges that it does not need: network processes cannot "
                "open files for writing, no child can start a program (Landlock and seccomp, if the kernel has "
                "them), and root keeps only the capabilities to reach files of other users."),
    Setting("kbroker.slice.us", INT, 100, at_least(0), importance=LOW,
            doc="Time slice that network processes and IO workers request from the scheduler (Linux 6.12 and "
                "later). With a short slice they run as soon as they are woken, even while other processes "
                "compute. 0 requests none."),
    Setting("kbroker.busy.poll.network.us", INT, 0, at_least(0), importance=LOW,
            doc="Time for which a network process continues to poll its sockets and rings after its last work, before "
                "it sleeps: a request that arrives meanwhile waits for no wake-up. A process that polls takes a whole "
                "core, so the broker needs two cores more than it has network processes and IO workers; with fewer, "
                "acks take longer, and it warns at its start. 0: it sleeps at once."),
    Setting("kbroker.busy.poll.io.us", INT, 0, at_least(0), importance=LOW,
            doc="Time for which an IO worker continues to poll its rings after its last work, before it sleeps; as "
                "kbroker.busy.poll.network.us."),
    Setting("kbroker.local.socket.buffer.bytes", INT, 1048576, at_least(-1), importance=LOW,
            doc="SO_SNDBUF and SO_RCVBUF for clients on this host, if socket.send.buffer.bytes and "
                "socket.receive.buffer.bytes have Kafka's default of 102400. -1, or more than the kernel allows "
                "(net.core.wmem_max, rmem_max), leaves them to the operating system."),
    Setting("kbroker.local.congestion.control", STRING, "reno", importance=LOW,
            doc="TCP congestion control for clients on this host, because pacing (as in BBR) makes loopback "
                "slower. Empty, or a name that the kernel does not offer to this user, leaves it to the operating "
                "system."),
    Setting("kbroker.sendfile.min.bytes", INT, 32768, at_least(0), importance=LOW,
            doc="Ranges of a Fetch answer of at least this size are sent by sendfile, smaller ones by one gathered "
                "send."),
)
# fmt: on
