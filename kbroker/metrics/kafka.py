"""Metrics with names of Kafka's dashboards that are computed, not just another name of a row of the
catalogue.

Names follow Strimzi's rules for Kafka's JMX exporter (KRaft), and kafka_exporter's. Metrics about
replication are derived from the partitions' states, not counted.
"""

from kbroker.metrics.metric import Kind, Metric, Source

LOG = ("topic", "partition")
PARTITION, BROKER, HOST, GROUP, ROW = Source.PARTITION, Source.BROKER, Source.HOST, Source.GROUP, Source.ROW
CLIENT = Source.CLIENT
QUOTA = ("resource", "user", "clientId")
MANAGER = "kafka_server_replicamanager_"
CONTROLLER = "kafka_controller_kafkacontroller_"
TOPIC_PARTITION = "kafka_topic_partition_"
REQUEST = "kafka_network_requestmetrics_"
BROKER_TOPIC = "kafka_server_brokertopicmetrics_"
GROUPS = "kafka_coordinator_group_groupmetadatamanager_"

REQUEST_TIMES = {
    "totaltimems": "total",
    "requestqueuetimems": "queue",
    "localtimems": "local",
    "remotetimems": "purgatory",
    "responsequeuetimems": "respond",
    "responsesendtimems": "send",
}
"""Kafka's request times and the phases they are."""

REJECTED = {
    "invalidmagicnumberrecords_total": "UNSUPPORTED_FOR_MESSAGE_FORMAT",
    "invalidmessagecrcrecords_total": "CORRUPT_MESSAGE",
    "invalidoffsetorsequencerecords_total": "OUT_OF_ORDER_SEQUENCE_NUMBER",
    "nokeycompactedtopicrecords_total": "INVALID_RECORD",
}
"""Kafka's counters of refused records and the errors of Produce answers that they count."""

GROUP_STATES = {
    "numgroups": "",
    "numgroupspreparingrebalance": "PreparingRebalance",
    "numgroupscompletingrebalance": "CompletingRebalance",
    "numgroupsstable": "Stable",
    "numgroupsdead": "Dead",
    "numgroupsempty": "Empty",
}
"""Kafka's gauges of classic groups and the states they count; "" counts all."""


def _row(name: str, kind: str, help: str, *labels: str, source: Source = BROKER) -> Metric:  # noqa: A002
    return Metric(name, Kind(kind), help, labels, source)


# fmt: off
KAFKA: tuple[Metric, ...] = (
    *(_row(REQUEST + name, "summary", f"Phase {phase} of requests in ms; quantiles over the last five minutes.",
            "request",
           source=ROW) for name, phase in REQUEST_TIMES.items()),
    *(_row(BROKER_TOPIC + name, "counter", f"Errors {why} in Produce answers.", source=ROW)
      for name, why in REJECTED.items()),
    _row(BROKER_TOPIC + "totalproducerequests_total", "counter", "Produce requests.", source=ROW),
    _row(BROKER_TOPIC + "failedfetchrequests_total", "counter", "Errors in Fetch answers.", source=ROW),
    _row("kafka_network_requestchannel_requestqueuesize", "gauge", "Entries in all append rings."),
    _row("kafka_network_requestchannel_responsequeuesize", "gauge", "Entries in all completion rings."),
    _row("kafka_network_socketserver_networkprocessoravgidle_percent", "gauge",
            "Share of time network processes were idle "
         "(0 to 1), since the last minute.", source=HOST),
    _row("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent", "gauge",
            "Share of time IO workers were idle "
         "(0 to 1), since the last minute.", source=ROW),
    _row("kafka_log_logflushstats_logflushrateandtimems", "summary", "Times of fdatasync in ms.", source=ROW),
    _row("kafka_server_group_coordinator_metrics_offset_commit_count", "counter", "Offsets committed.", source=ROW),
    _row("kafka_log_logmanager_offlinelogdirectorycount", "gauge", "Log dirs that failed."),
    _row(MANAGER + "leadercount", "gauge", "Partitions that this broker leads."),
    _row(MANAGER + "partitioncount", "gauge", "Partitions of this broker."),
    _row(MANAGER + "underreplicatedpartitions", "gauge", "Partitions with replicas that are out of sync."),
    _row(MANAGER + "underminisrpartitioncount", "gauge", "Partitions with fewer in-sync replicas than acks=all "
         "requires."),
    _row(MANAGER + "atminisrpartitioncount", "gauge", "Partitions with no more in-sync replicas than acks=all "
         "requires."),
    _row("kafka_server_replicafetchermanager_maxlag", "gauge", "Records that the slowest replica lacks."),
    _row(MANAGER + "offlinereplicacount", "gauge", "Partitions whose log dir failed."),
    _row("kafka_cluster_partition_underminisr", "gauge", "1 when fewer replicas are in sync than acks=all requires.",
         *LOG, source=PARTITION),
    _row("kafka_cluster_partition_atminisr", "gauge", "1 when no more replicas are in sync than acks=all requires.",
         *LOG, source=PARTITION),
    _row(CONTROLLER + "activecontrollercount", "gauge", "1: this broker is its own controller."),
    _row(CONTROLLER + "offlinepartitionscount", "gauge", "Partitions whose log dir failed."),
    _row(CONTROLLER + "globalpartitioncount", "gauge", "Partitions of all topics."),
    _row("kafka_server_kafkaserver_linux_disk_read_bytes", "gauge",
            "Bytes that the broker's processes read from disks.",
         source=HOST),
    _row("kafka_server_kafkaserver_linux_disk_write_bytes", "gauge",
            "Bytes that the broker's processes wrote to disks.",
         source=HOST),
    *(_row(GROUPS + name, "gauge", f"Classic groups{' in state ' + state if state else ''}.", source=GROUP)
      for name, state in GROUP_STATES.items()),
    _row("kafka_server_group_coordinator_metrics_group_count", "gauge", "Groups by protocol.", "protocol",
            source=GROUP),
    _row("kafka_server_quota_byte_rate", "gauge", "Bytes a second of clients with a quota.", *QUOTA, source=CLIENT),
    _row("kafka_server_quota_request_time", "gauge", "Percent of a thread's time that clients with a quota use.",
         *QUOTA, source=CLIENT),
    _row("kafka_server_quota_mutation_rate", "gauge",
         "Partitions a second that clients with a quota create and delete.", *QUOTA, source=CLIENT),
    _row("kafka_server_quota_throttle_time", "gauge", "Mean time in ms for which requests were throttled, of those of "
         "the last ten seconds.", *QUOTA, source=CLIENT),
    _row("kafka_brokers", "gauge", "Brokers: 1."),
    _row("kafka_broker_info", "gauge", "Always 1.", "id", "address"),
    _row("kafka_topic_partitions", "gauge", "Partitions of the topic.", "topic", source=PARTITION),
    _row(TOPIC_PARTITION + "current_offset", "gauge", "High watermark.", *LOG, source=PARTITION),
    _row(TOPIC_PARTITION + "oldest_offset", "gauge", "First offset.", *LOG, source=PARTITION),
    _row(TOPIC_PARTITION + "leader", "gauge", "Node id of the leader, -1 while the partition is offline.", *LOG,
         source=PARTITION),
    _row(TOPIC_PARTITION + "replicas", "gauge", "Replicas of the partition.", *LOG, source=PARTITION),
    _row(TOPIC_PARTITION + "in_sync_replica", "gauge", "In-sync replicas, 0 while the partition is offline.", *LOG,
            source=PARTITION),
    _row(TOPIC_PARTITION + "leader_is_preferred", "gauge", "1 while the first of the replicas leads.", *LOG,
            source=PARTITION),
    _row(TOPIC_PARTITION + "under_replicated_partition", "gauge", "1 while a replica is out of sync.", *LOG,
         source=PARTITION),
    _row("kafka_consumergroup_current_offset_sum", "gauge", "Sum of a topic's committed offsets.", "consumergroup",
            "topic",
         source=GROUP),
    _row("kafka_consumergroup_lag_sum", "gauge", "Records of a topic that are not committed yet.", "consumergroup",
         "topic", source=GROUP),
)
# fmt: on
