"""Broker settings: identity, listeners, sockets, connection limits, request queues."""

from kbroker.config.checks import ConnectionsPerIp, at_least, list_of, one_of
from kbroker.config.processes import io_workers, network_processes
from kbroker.config.setting import CLUSTER, HIGH, INT, INT_MAX, LIST, LONG, LOW, PER_BROKER, STRING, Setting

# fmt: off
NETWORK = (
    Setting("node.id", INT, 1, at_least(0), importance=HIGH,
            doc="Number of this node, shown to clients as the broker id. Written to meta.properties at "
                "the first start."),
    Setting("broker.id", INT, -1, importance=HIGH,
            doc="Older name of node.id; when both are set they must be equal."),
    Setting("broker.rack", STRING, None,
            doc="Rack name reported in Metadata and DescribeCluster; consumers may use it to prefer a "
                "near replica."),
    Setting("listeners", LIST, ("PLAINTEXT://:9092",), list_of(may_be_empty=False), PER_BROKER, HIGH,
            at_next_start=True,
            doc="Where the broker listens, NAME://host:port separated by commas. An empty host means "
                "all addresses, port 0 any free port. A change takes effect at the next start."),
    Setting("advertised.listeners", LIST, None, list_of(may_be_empty=False, may_be_null=True),
            importance=HIGH,
            doc="Addresses that clients connect to. Unset: those of listeners, with the host's own name in place "
                "of an empty host."),
    Setting("listener.security.protocol.map", STRING,
            "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
            dynamic=PER_BROKER, importance=LOW, at_next_start=True,
            doc="Security protocol of each listener name, NAME:PROTOCOL separated by commas. A change takes effect at "
                "the next start."),
    Setting("inter.broker.listener.name", STRING, None,
            doc="Must be one of advertised.listeners, as in Kafka; without effect, because kbroker connects to "
                "no other broker."),
    Setting("security.inter.broker.protocol", STRING, "PLAINTEXT",
            one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
            doc="Accepted, and without effect: as inter.broker.listener.name."),
    Setting("controller.listener.names", LIST, (), list_of(), importance=HIGH,
            doc="Listeners with these names belong to the controllers of a Kafka cluster. kbroker has no "
                "controllers and does not open them."),
    Setting("num.network.threads", INT, network_processes, at_least(1), CLUSTER, HIGH, at_next_start=True,
            default_text="half of the cores (or of the cgroup's quota of them), 1 to 8",
            doc="Number of network processes. Each has its own event loop and sockets and serves Produce and Fetch "
                "itself. At most 63. A change takes effect at the next start."),
    Setting("num.io.threads", INT, io_workers, at_least(1), CLUSTER, HIGH, at_next_start=True,
            default_text="a quarter of the cores (or of the cgroup's quota of them), 1 to 8",
            doc="Number of IO workers. Each is a process, and each partition's log is written by exactly one "
                "of them. At most 128. A change takes effect at the next start."),
    Setting("queued.max.request.bytes", LONG, -1,
            doc="Bytes of requests that may be in memory before a network process stops reading from its sockets. The "
                "network processes share them equally, but each has room for one request of "
                "socket.request.max.bytes. -1: up to kbroker.arena.bytes each."),
    Setting("socket.send.buffer.bytes", INT, 102400, importance=HIGH,
            doc="SO_SNDBUF of client sockets; -1 leaves it to the operating system."),
    Setting("socket.receive.buffer.bytes", INT, 102400, importance=HIGH,
            doc="SO_RCVBUF of client sockets; -1 leaves it to the operating system."),
    Setting("socket.request.max.bytes", INT, 104857600, at_least(1), importance=HIGH,
            doc="Largest request accepted; a connection that announces more is closed."),
    Setting("socket.listen.backlog.size", INT, 50, at_least(1),
            doc="Connections that may wait to be accepted; the kernel caps it at net.core.somaxconn, which also "
                "applies if this is not set."),
    Setting("connections.max.idle.ms", LONG, 600000,
            doc="Time without a request, or with answers of which the client takes less than 1 KiB a second, after "
                "which a connection is closed; a negative value never closes it."),
    Setting("connection.failed.authentication.delay.ms", INT, 100, at_least(0), importance=LOW,
            doc="Delay of the response to a failed authentication, to slow down guessing."),
    Setting("max.connections", INT, INT_MAX, at_least(0), CLUSTER,
            doc="Maximum number of connections of the whole broker. Per listener: listener.name.NAME.max.connections."),
    Setting("max.connections.per.ip", INT, INT_MAX, at_least(0), CLUSTER,
            doc="Maximum number of connections from one address."),
    Setting("max.connections.per.ip.overrides", STRING, "", ConnectionsPerIp(), CLUSTER,
            doc="Exceptions to max.connections.per.ip, host:count separated by commas."),
    Setting("max.connection.creation.rate", INT, INT_MAX, at_least(0), CLUSTER,
            doc="Maximum number of new connections a second; further ones wait. Per listener with the listener "
                "prefix."),
    Setting("max.request.partition.size.limit", INT, 2000, at_least(1),
            doc="Maximum number of partitions in one DescribeTopicPartitions response; clients request the rest "
                "with the cursor."),
    Setting("fetch.max.bytes", INT, 57671680, at_least(1024),
            doc="Maximum bytes of one Fetch answer, whatever the consumer requests."),
    Setting("max.incremental.fetch.session.cache.slots", INT, 1000, at_least(0),
            doc="Fetch sessions kept by all network processes together; one keeps at most 131072."),
    Setting("fetch.purgatory.purge.interval.requests", INT, 1000,
            doc="Completed entries that may stay in the watch lists of waiting fetches before they are "
                "swept."),
    Setting("telemetry.max.bytes", INT, 1048576, at_least(1), importance=LOW,
            doc="Maximum size of one push of a client's metrics, both compressed and decompressed."),
    Setting("quota.window.num", INT, 11, at_least(1), importance=LOW,
            doc="Samples kept to measure a client's rate against its quota."),
    Setting("quota.window.size.seconds", INT, 1, at_least(1), importance=LOW,
            doc="Length of one sample of a client's rate."),
    Setting("controller.quota.window.num", INT, 11, at_least(1), importance=LOW,
            doc="Samples kept to measure topic creations and deletions against their quota."),
    Setting("controller.quota.window.size.seconds", INT, 1, at_least(1), importance=LOW,
            doc="Length of one sample of topic creations and deletions."),
)
# fmt: on
