"""Broker settings of kbroker itself. Kafka has none of them, so they carry the prefix
`kbroker.`."""

from kbroker.config.checks import PowerOfTwo, at_least, listen_address
from kbroker.config.setting import BOOLEAN, CLUSTER, HIGH, INT, LONG, LOW, STRING, Setting

# fmt: off
KBROKER = (
    Setting("kbroker.write.caching", BOOLEAN, True, dynamic=CLUSTER, importance=HIGH,
            doc="Default of the topic setting write.caching. False answers acks=all only when the bytes "
                "are on disk; one sync is shared by all waiting appends of a disk."),
    Setting("kbroker.clamp.replication.factor", BOOLEAN, True,
            doc="Create topics with as many replicas as there are when a client or the settings ask for more, "
                "with a warning. A client's factor above 3 is refused: no program has it as its default. "
                "With several kbroker.replica.sites this is so for internal topics alone. "
                "False refuses, as Kafka does."),
    Setting("kbroker.kraft.metadata", BOOLEAN, False,
            doc="Write KRaft metadata at each clean stop, as `kbroker export kraft` does, so that Apache Kafka can "
                "start on the log.dirs at any time (docs/move-out.md)."),
    Setting("kbroker.replica.sites", STRING, "", importance=HIGH,
            doc="Groups of log.dirs that keep replicas of each other's partitions: directories of a site are "
                "separated by commas, sites by semicolons, and every directory is in one of them. A site is a "
                "node for clients: its id is node.id plus its number, its ports are those of the listeners "
                "plus its number (port 0 takes any free one). Empty is one site of all directories."),
    Setting("kbroker.http.listen", STRING, "127.0.0.1:9404", listen_address,
            doc="Address of the http process: /metrics, /healthz, /readyz. Empty turns it off, port 0 "
                "takes any free port, and so does the default when its port is taken."),
    Setting("kbroker.console.enable", BOOLEAN, True,
            doc="Serve the console, a web page and its JSON API, at kbroker.http.listen: to everyone on loopback, on "
                "other addresses only to users that log in with SCRAM, and not where no SASL listener offers that."),
    Setting("kbroker.console.readonly", BOOLEAN, True,
            doc="The console only shows. False lets it create, alter and delete topics, alter settings, reset offsets "
                "and delete groups, with the rights that the broker gives to the user that asks."),
    Setting("kbroker.console.reports.dir", STRING, "",
            doc="Folder whose reports the console lists and shows: verdicts of the judge, figures of load "
                "tests, results of the benchmark, proofs of kbroker tune verify; JSON files in it and in three "
                "levels of folders below it, links left out. They are shown to who may describe the broker's "
                "settings. Empty shows none."),
    Setting("kbroker.schema.registry.listen", STRING, "", listen_address,
            doc="Address of the schema registry (Confluent's REST API, docs/registry.md), served by the http process: "
                "to all users on loopback, elsewhere only to users that log in with SCRAM. Confluent's port is 8081. "
                "Empty, the default, turns it off; it needs the packages of kbroker[registry]."),
    Setting("kbroker.metrics.kafka.names", BOOLEAN, True,
            doc="Metrics also under the names that dashboards for Kafka use (JMX exporter, kafka_exporter)."),
    Setting("kbroker.metrics.partitions.max", INT, 2000, at_least(0), importance=LOW,
            doc="Topics, partitions, groups and partitions of groups, of each as many, that get metrics of their own; "
                "above it the busiest do, before them partitions that are offline or have replicas out of sync, and "
                "the groups with the largest lag. Sums hold all of them."),
    Setting("kbroker.client.telemetry.enable", BOOLEAN, False,
            doc="Offer clients to push their own metrics (KIP-714) as client metrics subscriptions ask them to; "
                "/metrics shows what they push. Off, as in Apache Kafka without a plugin: librdkafka logs a line "
                "about it in each client. Without kbroker.http.listen it is never offered."),
    Setting("kbroker.client.telemetry.series.max", INT, 10000, at_least(0), importance=LOW,
            doc="Series that clients may have on /metrics by pushing them, all clients together."),
    Setting("kbroker.slow.request.ms", INT, 0, at_least(0),
            doc="Write requests that take this long to the log, with their client and the time of each stage: at most "
                "10 lines a second of each network process, samples of those that kernels answer. The time that a "
                "Fetch waits for records does not count. 0 writes none and costs nothing."),
    Setting("kbroker.arena.bytes", LONG, 268435456, at_least(16777216), importance=LOW,
            doc="Shared memory for received requests, of each network process. Address space: a page is "
                "used only once it was needed."),
    Setting("kbroker.ring.entries", INT, 4096, PowerOfTwo(16, 65536), importance=LOW,
            doc="Descriptors that fit in one ring between a network process and an IO worker."),
    Setting("kbroker.max.partitions", INT, 20000, at_least(64), importance=LOW,
            doc="Partitions the shared partition table has room for."),
    Setting("kbroker.log.reserve.bytes", LONG, 67108864, at_least(0), importance=LOW,
            doc="Disk space reserved at most at a time ahead of the end of a log that grows fast, on ext4, so that "
                "appends need not wait while write-back allocates blocks. What is not used in half a minute is "
                "given back. 0 reserves none; log.preallocate reserves whole segments instead."),
    Setting("kbroker.confine.processes", BOOLEAN, True,
            doc="Take from each child process the rights that it does not need: network processes can open no file "
                "for writing and none can start a program (Landlock and seccomp, where the kernel has them), and of "
                "root's capabilities those alone stay that reach files of other users."),
    Setting("kbroker.slice.us", INT, 100, at_least(0), importance=LOW,
            doc="Time slice that network processes and IO workers ask of the scheduler (Linux 6.12 and "
                "later): a short one lets them run as soon as they are woken, though others compute. 0 asks "
                "for none."),
    Setting("kbroker.local.socket.buffer.bytes", INT, 1048576, at_least(-1), importance=LOW,
            doc="SO_SNDBUF and SO_RCVBUF of clients on this host, where socket.send.buffer.bytes and "
                "socket.receive.buffer.bytes are Kafka's default of 102400. -1, or more than the kernel "
                "allows (net.core.wmem_max, rmem_max), leaves them to the operating system."),
    Setting("kbroker.local.congestion.control", STRING, "reno", importance=LOW,
            doc="TCP congestion control of clients on this host: pacing, as of BBR, makes loopback "
                "slower. Empty leaves it to the operating system."),
    Setting("kbroker.sendfile.min.bytes", INT, 32768, at_least(0), importance=LOW,
            doc="Ranges of a Fetch answer from this size on go by sendfile, smaller ones by one "
                "gathered send."),
)
# fmt: on
