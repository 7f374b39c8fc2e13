"""Every metric of kbroker: one table, a row for each. The order of the first rows is that of
``layout``."""

from kbroker.metrics.metric import Metric, Source, counter, gauge, histogram

PARTITION, BROKER, HOST, GROUP = Source.PARTITION, Source.BROKER, Source.HOST, Source.GROUP
CLIENT = Source.CLIENT
PUSHED = ("client_id", "instance", "metric", "node", "topic", "partition", "attributes")
TOPIC = ("topic",)
QUOTA = ("quota", "user", "client_id")
LOG = ("topic", "partition")
NS = 1e-9
REQUEST = "kafka_network_requestmetrics_"
BROKER_TOPIC = "kafka_server_brokertopicmetrics_"
SESSIONS = "kafka_server_fetchsessioncache_"

# fmt: off
CATALOG: tuple[Metric, ...] = (
    # --- requests; hot: layout.REQUESTS ... layout.FRONT_WORDS
    counter("kbroker_requests_total", "Requests answered.", "api", "version",
            kafka=REQUEST + "requests_total", kafka_labels=("request", "version")),
    counter("kbroker_request_errors_total",
            "Answers by error code, NONE included; once for each code an answer holds.",
            "api", "error", kafka=REQUEST + "errors_total", kafka_labels=("request", "error")),
    counter("kbroker_request_bytes_total", "Bytes of requests, size fields included.", "api"),
    counter("kbroker_response_bytes_total", "Bytes of answers, size fields included.", "api"),
    counter("kbroker_appended_bytes_total", "Bytes of record batches written to logs.",
            kafka=BROKER_TOPIC + "bytesin_total"),
    counter("kbroker_appended_records_total", "Records written to logs.", kafka=BROKER_TOPIC + "messagesin_total"),
    counter("kbroker_appended_batches_total", "Record batches written to logs."),
    counter("kbroker_fetched_bytes_total", "Bytes of record batches in Fetch answers.",
            kafka=BROKER_TOPIC + "bytesout_total"),
    counter("kbroker_fetch_sent_bytes_total", "Bytes of record batches sent, by path: sendfile or copy.", "path"),
    counter("kbroker_rejected_bytes_total", "Bytes of record batches refused as too large.",
            kafka=BROKER_TOPIC + "bytesrejected_total"),
    counter("kbroker_network_turns_total", "Turns of the network process's loop.", by_process=True, role="network"),
    counter("kbroker_network_stalls_total", "Requests that had to wait for room in a ring or in the arena "
            "(back-pressure).", by_process=True, role="network"),
    counter("kbroker_idle_seconds_total", "Time an IO worker waited for something to do.", by_process=True, role="io",
            scale=NS),
    counter("kbroker_drains_total", "Calls of the append kernel that found work.", by_process=True, role="io"),
    histogram("kbroker_drain_seconds", "Time that such a call takes to write, publish and answer.", by_process=True),
    histogram("kbroker_append_seconds", "From a batch's entry in the append ring to the end of its write."),
    histogram("kbroker_parse_seconds", "Time to parse a Produce request, measured for one in 32."),
    histogram("kbroker_request_phase_seconds", "Time of a request in each phase. Each request is in all phases of its "
            "API, with 0 where it spent no time; total is their sum. queue: received, not taken. Produce: append "
            "(until written), flush (until synced and replicated, where acks wait for it), respond (until answered). "
            "Fetch: purgatory (waiting for records), cold_read (waiting for the disk), local (the rest until the "
            "answer is built), send (until the socket has taken it). Others: local, send.", "api", "phase"),
    # --- network
    gauge("kbroker_connections", "Open connections.", "listener", by_process=True, role="network",
          kafka="kafka_server_socket_server_metrics_connection_count",
          kafka_labels=("listener", "networkProcessor")),
    counter("kbroker_connections_opened_total", "Connections taken over by network processes.", "listener"),
    counter("kbroker_connections_closed_total", "Connections closed, by reason.", "why"),
    counter("kbroker_connections_refused_total", "Connections closed right after accept, because of a limit.",
            "listener"),
    counter("kbroker_throttled_requests_total", "Requests whose client is throttled, by the quota that it exceeds "
            "most.", "quota"),
    counter("kbroker_received_bytes_total", "Bytes received from clients.", by_process=True, role="network"),
    counter("kbroker_sent_bytes_total", "Bytes sent to clients.", by_process=True, role="network"),
    histogram("kbroker_loop_lag_seconds", "How late a timer of the process's event loop fires.", by_process=True),
    counter("kbroker_polling_seconds_total", "CPU time for which a process polled instead of sleeping "
            "(kbroker.busy.poll.network.us, kbroker.busy.poll.io.us). It is part of the CPU time of the process, and "
            "idle time in Kafka's metrics of idle threads.", by_process=True, scale=NS),
    gauge("kbroker_arena_used_bytes", "Arena of received requests in use.", by_process=True, role="network"),
    gauge("kbroker_outboxes_used", "Fetch answers that a sending thread sends or that wait for their socket; a "
          "process has room for 512.", by_process=True, role="network"),
    counter("kbroker_sender_sent_bytes_total", "Bytes that sending threads sent, headers included.", by_process=True,
            role="network"),
    counter("kbroker_sender_answers_total", "Fetch answers that sending threads finished.", by_process=True,
            role="network"),
    gauge("kbroker_fetch_sessions", "Incremental fetch sessions.", by_process=False,
          kafka=SESSIONS + "numincrementalfetchsessions"),
    gauge("kbroker_fetch_session_partitions", "Partitions in fetch sessions.",
          kafka=SESSIONS + "numincrementalfetchpartitionscached"),
    counter("kbroker_fetch_session_evictions_total", "Fetch sessions evicted in favor of others.",
            kafka=SESSIONS + "incrementalfetchsessionevictions_total"),
    gauge("kbroker_purgatory_delayed", "Delayed requests, by operation.", "operation",
          kafka="kafka_server_delayedoperationpurgatory_numdelayedoperations", kafka_labels=("delayedOperation",)),
    gauge("kbroker_purgatory_watched", "Entries in the watch lists of the purgatories.", "operation",
          kafka="kafka_server_delayedoperationpurgatory_purgatorysize", kafka_labels=("delayedOperation",)),
    counter("kbroker_purgatory_expired_total", "Delayed requests that timed out.", "operation"),
    # --- logs
    histogram("kbroker_flush_seconds", "Time of one fdatasync of a log."),
    counter("kbroker_flush_errors_total", "fdatasync calls that failed."),
    counter("kbroker_log_write_errors_total", "Writes to logs that failed."),
    gauge("kbroker_produce_refused_partitions", "Partitions that refuse produce because their disk is full, until "
          "there is room."),
    counter("kbroker_segment_rolls_total", "New segments because of size or age."),
    counter("kbroker_segments_deleted_total", "Segments deleted by retention."),
    counter("kbroker_retention_deleted_bytes_total", "Bytes of those segments."),
    histogram("kbroker_retention_seconds", "Time of one retention run over all logs of a worker."),
    counter("kbroker_recovered_logs_total", "Logs opened at start and after a worker's restart."),
    histogram("kbroker_recovery_seconds", "Time to open and check one log."),
    counter("kbroker_read_aheads_total", "Cold ranges that were read into the page cache."),
    counter("kbroker_read_ahead_bytes_total",
            "Bytes read from disk for fetches, including what IO workers and the kernel read ahead."),
    gauge("kbroker_producers", "Producer ids whose sequences are remembered, by partition."),
    # --- cleaner
    counter("kbroker_cleaner_runs_total", "Compactions of logs."),
    counter("kbroker_cleaner_failures_total", "Compactions that ended with an error; the log stays unchanged."),
    counter("kbroker_cleaner_read_bytes_total", "Bytes read by compaction, the dirty part twice."),
    counter("kbroker_cleaner_written_bytes_total", "Bytes of segments written by compaction."),
    histogram("kbroker_cleaner_seconds", "Time of one compaction of one log."),
    gauge("kbroker_cleaner_max_dirty_percent", "Percentage of dirty bytes of the dirtiest log that waits for "
          "compaction.", kafka="kafka_log_logcleanermanager_max_dirty_percent"),
    gauge("kbroker_cleaner_uncleanable_partitions", "Logs that compaction skips because they are damaged.",
          kafka="kafka_log_logcleanermanager_uncleanable_partitions_count"),
    # --- control and supervisor
    counter("kbroker_group_rebalances_total", "Rebalances of groups that were completed.",
            kafka="kafka_server_group_coordinator_metrics_group_completed_rebalance_count"),
    counter("kbroker_dead_letter_failures_total", "Attempts to write dead letters of share groups that failed, by "
            "reason. The broker tries again, except with unusable_topic: then records are given up without letters.",
            "reason"),
    gauge("kbroker_dead_letters_waiting", "Dead letters that could not be written yet."),
    gauge("kbroker_transactions_open", "Transactions that are open."),
    gauge("kbroker_transaction_oldest_seconds", "Age of the oldest open transaction; 0 without one.", scale=1e-3),
    counter("kbroker_transactions_timed_out_total", "Transactions aborted because they were open for longer than "
            "their timeout."),
    counter("kbroker_isr_shrinks_total", "Replicas that went out of sync.",
            kafka="kafka_server_replicamanager_isrshrinks_total"),
    counter("kbroker_isr_expands_total", "Replicas that are in sync again.",
            kafka="kafka_server_replicamanager_isrexpands_total"),
    counter("kbroker_leader_elections_total", "Changes of a partition's leader.",
            kafka="kafka_controller_controllerstats_leaderelectionrateandtimems_count"),
    counter("kbroker_unclean_leader_elections_total", "Leaders that were not in sync: records may be lost.",
            kafka="kafka_controller_controllerstats_uncleanleaderelections_total"),
    counter("kbroker_process_starts_total", "Starts of child processes.", "role"),
    counter("kbroker_process_deaths_total", "Child processes that ended unexpectedly (each is restarted).",
            "role"),
    counter("kbroker_process_stuck_total", "Child processes that made no progress and were restarted.",
            "role"),
    counter("kbroker_audit_events_total", "Lines for the audit log."),
    counter("kbroker_audit_lost_total", "Lines lost because the audit log's disk refused them for too long."),
    gauge("kbroker_process_confined", "1 for each way in which the kernel confines the process "
          "(kbroker.confine.processes).", "confinement", by_process=True),
    counter("kbroker_connections_accepted_total", "Connections accepted.", "listener"),
    counter("kbroker_scrapes_total", "Scrapes of the http process."),
    histogram("kbroker_scrape_seconds", "Time of one scrape, from the request to the text that is sent."),
    # --- partitions and topics
    gauge("kbroker_log_start_offset", "First offset of the log.", *LOG, source=PARTITION,
            kafka="kafka_log_log_logstartoffset"),
    gauge("kbroker_log_end_offset", "Next offset of the log.", *LOG, source=PARTITION,
            kafka="kafka_log_log_logendoffset"),
    gauge("kbroker_log_high_watermark", "Offset up to which consumers may read, while it is below the end of "
          "the log; else that is the one.", *LOG, source=PARTITION),
    gauge("kbroker_log_last_stable_offset", "Offset up to which read_committed consumers may read, while it is below "
          "the high watermark; else that is the one.", *LOG, source=PARTITION),
    gauge("kbroker_log_durable_offset", "Offset up to which everything is known to be on disk; of the busiest "
          "partitions (kbroker.metrics.details.max).", *LOG,
            source=PARTITION),
    gauge("kbroker_log_bytes", "Bytes of the log's segments.", *LOG, source=PARTITION, kafka="kafka_log_log_size"),
    gauge("kbroker_log_segments", "Segments of the log; under this name of the busiest partitions "
          "(kbroker.metrics.details.max).", *LOG, source=PARTITION,
            kafka="kafka_log_log_numlogsegments"),
    counter("kbroker_log_writes_total", "Writes to the log; batches that arrive together share one. Of the busiest "
            "partitions (kbroker.metrics.details.max).", *LOG,
            source=PARTITION),
    gauge("kbroker_log_max_timestamp_seconds", "Largest record timestamp of the log.", *LOG, source=PARTITION),
    counter("kbroker_topic_in_bytes_total", "Bytes of record batches appended.", *TOPIC, source=PARTITION,
            kafka=BROKER_TOPIC + "bytesin_total"),
    counter("kbroker_topic_in_records_total", "Records appended.", *TOPIC, source=PARTITION,
            kafka=BROKER_TOPIC + "messagesin_total"),
    counter("kbroker_topic_in_batches_total", "Record batches appended.", *TOPIC, source=PARTITION),
    counter("kbroker_topic_out_bytes_total", "Bytes of record batches in Fetch answers.", *TOPIC, source=PARTITION,
            kafka=BROKER_TOPIC + "bytesout_total"),
    counter("kbroker_topic_fetches_total", "Partition reads in Fetch answers.", *TOPIC, source=PARTITION,
            kafka=BROKER_TOPIC + "totalfetchrequests_total"),
    counter("kbroker_topic_failed_produces_total", "Client appends that were answered with an error.", *TOPIC,
            source=PARTITION, kafka=BROKER_TOPIC + "failedproducerequests_total"),
    counter("kbroker_topic_cold_bytes_total",
            "Bytes read from disk for fetches, including what IO workers and the kernel read ahead.", *TOPIC,
            source=PARTITION),
    counter("kbroker_topic_flushes_total", "Syncs of the topic's logs.", *TOPIC, source=PARTITION),
    counter("kbroker_topic_expired_records_total", "Offsets that kbroker.record.ttl.ms removed: records and "
            "markers of transactions.", *TOPIC, source=PARTITION),
    gauge("kbroker_topic_partitions", "Partitions of the topic.", *TOPIC, source=PARTITION),
    gauge("kbroker_topic_log_bytes", "Bytes of the topic's logs.", *TOPIC, source=PARTITION),
    gauge("kbroker_topic_page_cache_bytes",
            "Bytes of the topic's log files by state in the page cache: cached, dirty, writeback, evicted, "
            "recently_evicted; of the files checked last.", "topic", "state", source=PARTITION),
    gauge("kbroker_topic_page_cache_looked_at_bytes", "Size of the log files that were checked.", *TOPIC,
            source=PARTITION),
    gauge("kbroker_log_page_cache_bytes", "Bytes of the log in the page cache, for the partitions that were fetched "
          "from in the last 5 minutes and those in which a group lags; seconds old.", *LOG, source=PARTITION),
    gauge("kbroker_log_page_cache_left_out", "Such partitions without series of their own "
          "(kbroker.metrics.partitions.max): those that were fetched from last have one.", source=PARTITION),
    gauge("kbroker_under_replicated_partitions", "Partitions with replicas out of sync.", source=PARTITION),
    gauge("kbroker_under_min_isr_partitions",
          "Partitions with fewer replicas in sync than min.insync.replicas: acks=all is refused.", source=PARTITION),
    gauge("kbroker_at_min_isr_partitions", "Partitions with exactly as many replicas in sync as min.insync.replicas.",
          source=PARTITION),
    counter("kbroker_failed_requests_total", "Errors in answers, of every code but NONE; 0 for APIs that had none.",
            "api", source=BROKER),
    gauge("kbroker_topics_left_out", "Topics without series of their own (kbroker.metrics.partitions.max).",
          source=PARTITION),
    gauge("kbroker_partitions_left_out", "Partitions without series of their own (kbroker.metrics.partitions.max).",
          source=PARTITION),
    gauge("kbroker_partition_details_left_out", "Partitions without the series that only the busiest ones have "
          "(kbroker.metrics.details.max).", source=PARTITION),
    # --- the broker as a whole
    gauge("kbroker_info", "Always 1; version and node id as labels.", "version", "node_id", "cluster_id",
            source=BROKER),
    gauge("kbroker_topics", "Topics, internal ones included.", source=BROKER,
          kafka="kafka_controller_kafkacontroller_globaltopiccount"),
    gauge("kbroker_partitions", "Partitions by state.", "state", source=BROKER),
    gauge("kbroker_ready", "1 when every process has started and every log is open.", source=BROKER),
    gauge("kbroker_tls_certificate_expiry_timestamp_seconds", "Unix time when the certificate of a TLS listener "
          "expires; of several, the first that does.", "listener", source=BROKER),
    gauge("kbroker_log_dir_offline", "1 when the log dir has failed, until the next start.", "dir", source=BROKER),
    gauge("kbroker_store_copy",
          "1 for the state of the copy of the store in a log dir: current, stale (out of date, copied again when "
          "its disk answers), lost (its log dir is offline). Log dirs without a copy are left out.", "dir", "state",
          source=BROKER),
    gauge("kbroker_ring_entries", "Entries in the rings between a client process and an IO worker.", "ring", "client",
          "worker", source=BROKER),
    gauge("kbroker_ring_capacity", "Entries that fit in one ring.", source=BROKER),
    # --- host
    counter("process_cpu_seconds_total", "CPU time of all processes of the broker.", source=HOST),
    gauge("process_resident_memory_bytes", "Memory of all processes, shared pages by share (PSS).", source=HOST),
    gauge("process_virtual_memory_bytes", "Address space of all processes.", source=HOST),
    gauge("process_open_fds", "Open file descriptors of all processes.", source=HOST),
    gauge("process_max_fds", "File descriptors that all processes together may open.", source=HOST),
    gauge("process_start_time_seconds", "Unix time the broker started.", source=HOST),
    counter("kbroker_process_cpu_seconds_total", "CPU time of each process.", "process", "mode", source=HOST),
    gauge("kbroker_process_memory_bytes", "Memory of each process: pss counts shared pages by share, uss not.",
            "process",
          "type", source=HOST),
    gauge("kbroker_process_open_fds", "Open file descriptors of each process.", "process", source=HOST),
    gauge("kbroker_process_threads", "Threads of each process.", "process", source=HOST),
    gauge("kbroker_process_start_time_seconds", "Unix time each process started.", "process", source=HOST),
    gauge("kbroker_log_dir_bytes", "Size, used and free bytes of the file system of each log dir.", "dir", "type",
          source=HOST),
    gauge("kbroker_log_dir_full_seconds",
          "Seconds until the file system of each log dir is full, at the rate of the last hour (straight line "
          "through its free bytes), or of the last five minutes if the disk is then full within an hour; +Inf while "
          "it does not fill. The first value comes after a minute of samples.",
          "dir", source=HOST),
    counter("kbroker_disk_bytes_total", "Bytes of the block device of each log dir.", "device", "direction",
            source=HOST),
    counter("kbroker_disk_operations_total", "Operations of that device.", "device", "direction", source=HOST),
    counter("kbroker_disk_time_seconds_total", "Time spent in those operations; divided by the operations, the mean "
            "wait.", "device", "direction", source=HOST),
    counter("kbroker_disk_busy_seconds_total", "Time that the device was busy.", "device", source=HOST),
    counter("kbroker_pressure_seconds_total", "Time tasks of the host waited (PSI): some of them, or all (full).",
            "resource", "kind", source=HOST),
    counter("kbroker_network_bytes_total", "Bytes of each network interface.", "device", "direction", source=HOST),
    gauge("kbroker_host_limit_bytes_per_second", "Measured speed of this host: disk_write and disk_read of one disk, "
          "loopback; from kbroker.host.file, none without it.", "what", source=HOST),
    gauge("kbroker_network_link_bytes_per_second", "Speed of the link of each network interface; virtual ones that "
          "report none are left out.", "device", source=HOST),
    counter("kbroker_network_drops_total", "Packets dropped by each network interface.", "device", "direction",
            source=HOST),
    counter("kbroker_tcp_retransmits_total", "TCP segments sent again, of the whole host.", source=HOST),
    counter("kbroker_tcp_listen_drops_total",
            "Connections dropped because a listen queue was full, of the whole host.",
            source=HOST),
    gauge("kbroker_memory_bytes", "Memory of the host: total, available, page cache, dirty, write-back.", "type",
          source=HOST),
    # --- groups
    gauge("kbroker_groups", "Groups by type and state.", "type", "state", source=GROUP),
    gauge("kbroker_group_members", "Members of each group.", "group", source=GROUP,
          kafka="kafka_consumergroup_members", kafka_labels=("consumergroup",)),
    gauge("kbroker_group_offset", "Committed offset.", "group", *LOG, source=GROUP,
          kafka="kafka_consumergroup_current_offset", kafka_labels=("consumergroup", *LOG)),
    gauge("kbroker_group_lag", "Records after the committed offset, up to the high watermark. A partition without a "
          "committed offset counts from its log start, if members subscribe to its topic, or the group has no members "
          "and has committed offsets in other partitions of the topic.", "group", *LOG,
          source=GROUP, kafka="kafka_consumergroup_lag", kafka_labels=("consumergroup", *LOG)),
    gauge("kbroker_group_lag_sum", "Lag of all partitions of the group, including those left out; of a share group "
          "the records that it has not finished, in the partitions that it has fetched from.", "group", source=GROUP),
    gauge("kbroker_group_lag_seconds", "Time since the first record that is not committed was written, by its "
          "timestamp; 0 without lag. Of each group, the partitions where it is largest "
          "(kbroker.metrics.details.max); of a group without members, of those with a committed offset.",
          "group", *LOG, source=GROUP),
    gauge("kbroker_group_lag_bytes", "Bytes of the logs from the committed offsets, or the log starts, to the end.",
          "group", source=GROUP),
    gauge("kbroker_group_catch_up_seconds", "Time until the group has no lag, at the rate of the last five minutes; "
          "+Inf when the lag does not shrink.", "group", source=GROUP),
    gauge("kbroker_group_cache_seconds", "Time until the records that the group reads next leave the page cache, at "
          "the rate at which its lag in bytes grew in the last five minutes; 0 when they have left, +Inf when the lag "
          "does not grow, or the whole log is cached.", "group", source=GROUP),
    counter("kbroker_group_cold_bytes_total", "Bytes read from disk for the group. A fetch does not name its group, so "
            "those of a partition (kbroker_topic_cold_bytes_total) are divided among the groups whose commits pass "
            "records that were not in the page cache, in proportion to the bytes of these records. Bytes that no "
            "commit passes within an hour count for no group, as do those before the first scrape. A group has a "
            "series from the time when records that it reads next have left the page cache.", "group", source=GROUP),
    counter("kbroker_group_dead_letters_total", "Dead letters written for a share group, by the topic of their "
            "originals.", "group", "topic", source=GROUP),
    gauge("kbroker_group_partitions_left_out", "Partitions of groups without series of their own "
          "(kbroker.metrics.partitions.max): those with the smallest lag.", source=GROUP),
    gauge("kbroker_groups_left_out", "Groups without series of their own (kbroker.metrics.partitions.max): those with "
          "the smallest lag.", source=GROUP),
    # --- clients
    gauge("kbroker_connections_by_software", "Open connections by the software that their client named in ApiVersions "
          "(KIP-511): the 20 names and versions with the most connections, the rest as other; unknown: it named "
          "none.", "software_name", "software_version", "listener", source=CLIENT,
          kafka="kafka_server_socket_server_metrics_connections_software",
          kafka_labels=("clientSoftwareName", "clientSoftwareVersion", "listener")),
    counter("kbroker_client_received_bytes_total", "Bytes received by client id, size fields included: the 50 client "
            "ids that moved the most, the rest as other. A client id that gets a series of its own begins at 0.",
            "client_id", source=CLIENT),
    counter("kbroker_client_sent_bytes_total", "Bytes sent by client id.", "client_id", source=CLIENT),
    gauge("kbroker_quota_limit", "Quota of a user, a client id or both: bytes a second, percent of a thread's time, "
          "or partitions a second. <default>: of all without a quota of their own.", *QUOTA, source=CLIENT),
    gauge("kbroker_quota_used", "Used rate of a quota, in its unit, over quota.window.num windows; 0 if its clients "
          "have sent nothing for that time, also because they are throttled.", *QUOTA, source=CLIENT),
    counter("kbroker_quota_throttled_requests_total", "Requests that were throttled because of a quota.", *QUOTA,
            source=CLIENT),
    counter("kbroker_quota_throttled_seconds_total", "Time for which their clients were throttled.", *QUOTA,
            source=CLIENT),
    gauge("kbroker_quotas_left_out", "Quotas without series of their own: all but the 100 with the largest used "
          "share.", source=CLIENT),
    # --- what clients push of their own metrics (KIP-714)
    gauge("kbroker_client_instances", "Clients that asked which of their metrics to push and have not expired yet.",
          kafka="kafka_server_client_metrics_instance_count", source=CLIENT),
    gauge("kbroker_client_info", "1 for each client that has pushed metrics, and for a minute after it ended.",
          "client_id", "instance", "software_name", "software_version", "address", source=CLIENT),
    gauge("kbroker_client_metric_value", "A gauge that a client has pushed, under its OpenTelemetry name, or a sum "
          "that can also fall. attributes: those without a label here.", *PUSHED, source=CLIENT),
    counter("kbroker_client_metric_total", "A counter that a client has pushed: the sum of its deltas since its first "
            "push.", *PUSHED, source=CLIENT),
    gauge("kbroker_client_metrics_left_out", "Series that clients have pushed beyond the limits: 1,000 for each "
          "client and kbroker.client.telemetry.series.max for all.", source=CLIENT),
)
# fmt: on
