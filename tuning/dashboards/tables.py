"""The panels by subject, only with metrics that kbroker exports (docs/metrics.md); a test checks
that."""

from tuning.dashboards.panel import Panel


def p99(metric: str, by: str = "", more: str = "") -> str:
    """Expression of a histogram's 99th percentile."""
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile(0.99, sum by ({labels}) (rate({metric}_bucket{{@{more}}}[#])))"


def rate(metric: str, by: str = "", more: str = "") -> str:
    """Expression of a counter's rate, summed."""
    return f"sum by ({by}) (rate({metric}{{@{more}}}[#]))" if by else f"sum(rate({metric}{{@{more}}}[#]))"


def times(metric: str, more: str = "") -> tuple[tuple[str, str], ...]:
    """The line of a heat map of a histogram."""
    return ((f"sum by (le) (increase({metric}_bucket{{@{more}}}[#]))", "{{le}}"),)


PHASE = "kbroker_request_phase_seconds"
LINK_SHARE = (
    "max by (device, direction) (rate(kbroker_network_bytes_total{@}[#]) / on (instance, device) group_left () "
    "kbroker_network_link_bytes_per_second{@})"
)
COLD = rate("kbroker_topic_cold_bytes_total", "topic", "~")

# fmt: off
ROOMS: dict[str, tuple[Panel, ...]] = {
    "Overview": (
        Panel("Ready", "1 when every process has started and every log is open.", "none",
              (("kbroker_ready{@}", "{{instance}}"),), "stat"),
        Panel("Log dirs offline", "A failed log dir stays offline until the next start.", "none",
              (("sum(kbroker_log_dir_offline{@})", "offline"),), "stat", 1),
        Panel("Full in", "If the fullest disk fills as it does now; on a full disk produce is refused.", "s",
              (("min(kbroker_log_dir_full_seconds{@})", "{{dir}}"),), "stat"),
        Panel("Bytes", "Record batches written, and record batches sent to consumers.", "Bps",
              ((rate("kbroker_appended_bytes_total"), "in"), (rate("kbroker_fetched_bytes_total"), "out"))),
        Panel("Records in", "Records written to logs.", "cps", ((rate("kbroker_appended_records_total"), "records"),)),
        Panel("Errors", "Responses with an error, by error code; some are a normal part of the protocol.", "cps",
              ((rate("kbroker_request_errors_total", "error", ', error!="NONE"'), "{{error}}"),)),
    ),
    "Requests": (
        Panel("Requests", "Requests answered, by API.", "reqps", ((rate("kbroker_requests_total", "api"), "{{api}}"),)),
        Panel("Produce p99 by phase", "queue: until the request is taken; append: until it is written; "
              "flush: until it is synced; respond: until it is answered.", "s",
              ((p99(PHASE, "phase", ', api="Produce"'), "{{phase}}"),), bad=0.1),
        Panel("Fetch p99 by phase", "purgatory: waiting for data; cold_read: waiting for the disk.", "s",
              ((p99(PHASE, "phase", ', api="Fetch"'), "{{phase}}"),)),
        Panel("Produce times", "Requests by their whole time: a second band shows what a p99 hides.", "s",
              times(PHASE, ', api="Produce", phase="total"'), "heatmap"),
        Panel("Fetch times", "Requests by their whole time, waiting for records included.", "s",
              times(PHASE, ', api="Fetch", phase="total"'), "heatmap"),
        Panel("Back-pressure", "Requests that waited for space in a ring or in the arena, because the IO "
              "workers do not keep up.", "cps", ((rate("kbroker_network_stalls_total", "process"), "{{process}}"),)),
        Panel("Waiting", "Delayed requests, by operation.", "none",
              (("sum by (operation) (kbroker_purgatory_delayed{@})", "{{operation}}"),)),
    ),
    "Topics": (
        Panel("Bytes in", "Record batches appended, of the ten busiest topics.", "Bps",
              ((f"topk(10, {rate('kbroker_topic_in_bytes_total', 'topic', '~')})", "{{topic}}"),)),
        Panel("Bytes out", "Record batches in Fetch answers, of the ten busiest topics.", "Bps",
              ((f"topk(10, {rate('kbroker_topic_out_bytes_total', 'topic', '~')})", "{{topic}}"),)),
        Panel("Records in", "Records appended, of the ten busiest topics.", "cps",
              ((f"topk(10, {rate('kbroker_topic_in_records_total', 'topic', '~')})", "{{topic}}"),)),
        Panel("Expired records", "Records removed by kbroker.record.ttl.ms, of the ten busiest topics.", "cps",
              ((f"topk(10, {rate('kbroker_topic_expired_records_total', 'topic', '~')})", "{{topic}}"),)),
    ),
    "Logs and page cache": (
        Panel("Log bytes", "Size of the logs of the ten largest topics.", "bytes",
              (("topk(10, kbroker_topic_log_bytes{@~})", "{{topic}}"),), stacked=True),
        Panel("Sync p99", "Time of one fdatasync; with write.caching=false acks wait for it.", "s",
              ((p99("kbroker_flush_seconds"), "fdatasync"),), bad=0.1),
        Panel("Sync times", "Each fdatasync by its time.", "s", times("kbroker_flush_seconds"), "heatmap"),
        Panel("Append p99", "From a batch's entry in the ring to the end of its write.", "s",
              ((p99("kbroker_append_seconds"), "append"), (p99("kbroker_drain_seconds"), "one drain"))),
        Panel("Read from disk", "Share of fetched bytes that were not in the page cache, by topic.", "percentunit",
              ((COLD + " / " + rate("kbroker_topic_out_bytes_total", "topic", "~"),
                "{{topic}}"),)),
        Panel("In the page cache", "Log files checked last, by state; recently evicted pages were in the cache before.",
              "bytes", (("sum by (state) (kbroker_topic_page_cache_bytes{@~})", "{{state}}"),)),
        Panel("Cached share of logs that are read", "Of the ten partitions with the smallest share in the page cache, "
              "of those that were fetched from lately or in which a group lags.", "percentunit",
              (("bottomk(10, kbroker_log_page_cache_bytes{@~} / kbroker_log_bytes{@~})", "{{topic}}-{{partition}}"),)),
        Panel("Segments", "Segments rolled, and segments deleted by retention.", "cps",
              ((rate("kbroker_segment_rolls_total"), "rolled"), (rate("kbroker_segments_deleted_total"), "deleted"))),
        Panel("Compaction", "Bytes read and written by the cleaner.", "Bps",
              ((rate("kbroker_cleaner_read_bytes_total"), "read"),
               (rate("kbroker_cleaner_written_bytes_total"), "written"))),
        Panel("Write errors", "Failed appends and syncs: a disk is full or broken.", "cps",
              ((rate("kbroker_log_write_errors_total"), "writes"), (rate("kbroker_flush_errors_total"), "syncs"))),
    ),
    "Network": (
        Panel("Connections", "Open connections, by network process.", "none",
              (("sum by (process) (kbroker_connections{@})", "{{process}}"),), stacked=True),
        Panel("Connections opened and refused", "Dropped: a listen queue of the host was full.", "cps",
              ((rate("kbroker_connections_opened_total"), "opened"),
               (rate("kbroker_connections_refused_total"), "refused"),
               (rate("kbroker_tcp_listen_drops_total"), "dropped"))),
        Panel("Interfaces", "Bytes of the host's interfaces.", "Bps",
              ((rate("kbroker_network_bytes_total", "device, direction"), "{{device}} {{direction}}"),)),
        Panel("Links in use", "Bytes as a share of the link's speed; no line for interfaces that report none.",
              "percentunit", ((LINK_SHARE, "{{device}} {{direction}}"),), bad=0.9),
        Panel("Sent by threads", "Large fetch responses are sent by threads; the event loops send the rest.", "Bps",
              ((rate("kbroker_sender_sent_bytes_total"), "threads"), (rate("kbroker_sent_bytes_total"), "all"))),
        Panel("Outboxes in use", "Responses being sent or waiting for their socket, of at most 512 per process. "
              "Many for a long time: clients read slowly.", "none",
              (("sum by (process) (kbroker_outboxes_used{@})", "{{process}}"),), bad=480),
        Panel("Retransmits", "TCP segments sent again by the whole host.", "cps",
              ((rate("kbroker_tcp_retransmits_total"), "segments"),)),
    ),
    "Clients": (
        Panel("Bytes by client id", "Bytes received and sent, of the ten busiest client ids.", "Bps",
              ((f"topk(10, {rate('kbroker_client_received_bytes_total', 'client_id')})", "{{client_id}} in"),
               (f"topk(10, {rate('kbroker_client_sent_bytes_total', 'client_id')})", "{{client_id}} out"))),
        Panel("Connections by software", "Name and version of the client software, as clients report them.", "none",
              (("sum by (software_name, software_version) (kbroker_connections_by_software{@})",
                "{{software_name}} {{software_version}}"),), stacked=True),
        Panel("Connections closed", "By reason: peer is a client that left; idle, error, limit and memory are "
              "decisions of the broker.", "cps", ((rate("kbroker_connections_closed_total", "why"), "{{why}}"),)),
        Panel("Quotas in use", "Used share of the quota of a user or a client id; the ten largest.",
              "percentunit",
              (("topk(10, kbroker_quota_used{@} / kbroker_quota_limit{@})", "{{quota}} {{user}} {{client_id}}"),),
              bad=1),
        Panel("Throttled requests", "Requests whose client was throttled.", "cps",
              ((rate("kbroker_throttled_requests_total", "quota"), "{{quota}}"),)),
        Panel("Throttled by quotas", "Share of time for which clients are throttled, summed over their connections; "
              "the ten largest.", "percentunit",
              ((f"topk(10, {rate('kbroker_quota_throttled_seconds_total', 'quota, user, client_id')})",
                "{{quota}} {{user}} {{client_id}}"),), bad=0.1),
        Panel("Quotas not shown", "Only the 100 quotas with the largest used shares have their own series.",
              "none", (("sum(kbroker_quotas_left_out{@})", "quotas"),), "stat"),
        Panel("Clients that push metrics", "Clients with metrics of their own (KIP-714), and series beyond the limits.",
              "none", (("sum(kbroker_client_instances{@})", "clients"),
                       ("sum(kbroker_client_metrics_left_out{@})", "series left out"))),
    ),
    "Groups": (
        Panel("Lag", "Records after the committed offsets, of the ten groups with the largest lag.", "none",
              (("topk(10, kbroker_group_lag_sum{@%})", "{{group}}"),)),
        Panel("Lag in seconds", "Age of the oldest record that is not committed, of the ten that lag most.", "s",
              (("topk(10, max by (group) (kbroker_group_lag_seconds{@%}))", "{{group}}"),)),
        Panel("Lag in bytes", "Bytes of the logs after the committed offsets.", "bytes",
              (("topk(10, kbroker_group_lag_bytes{@%})", "{{group}}"),)),
        Panel("Caught up in", "At the rates of the last five minutes; no line if the lag does not shrink.", "s",
              (("kbroker_group_catch_up_seconds{@%}", "{{group}}"),)),
        Panel("Leaves the page cache in", "Time until the group reads from the disk; no line while its lag does not "
              "grow.", "s", (("kbroker_group_cache_seconds{@%}", "{{group}}"),)),
        Panel("Read from disk", "Of the ten groups that read most from there: their commits pass records that were "
              "not in the page cache.", "Bps",
              ((f"topk(10, {rate('kbroker_group_cold_bytes_total', 'group', '%')})", "{{group}}"),)),
        Panel("Members", "Members of each group.", "none", (("kbroker_group_members{@%}", "{{group}}"),)),
        Panel("Dead letters", "Written, by group and topic of the original records; the ten busiest.", "cps",
              ((f"topk(10, {rate('kbroker_group_dead_letters_total', 'group, topic', '%')})",
                "{{group}} {{topic}}"),)),
        Panel("Dead letters not written", "Waiting dead letters, and failed attempts; for unusable_topic records are "
              "archived without letters.", "none",
              (("sum(kbroker_dead_letters_waiting{@})", "waiting"),
               ("sum by (reason) (increase(kbroker_dead_letter_failures_total{@}[#]))", "{{reason}}")), bad=1),
        Panel("Rebalances", "Completed rebalances.", "cps", ((rate("kbroker_group_rebalances_total"), "rebalances"),)),
        Panel("Open transactions", "Number, and age of the oldest, for which read_committed consumers wait.", "none",
              (("kbroker_transactions_open{@}", "open"), ("kbroker_transaction_oldest_seconds{@}", "oldest, s"))),
    ),
    "Processes and host": (
        Panel("CPU", "Cores used by each process; kbroker_polling_seconds_total is the part that polls.", "none",
              ((rate("kbroker_process_cpu_seconds_total", "process"), "{{process}}"),), stacked=True),
        Panel("Memory", "PSS of each process: a shared page counts in part for each.", "bytes",
              (('sum by (process) (kbroker_process_memory_bytes{@, type="pss"})', "{{process}}"),), stacked=True),
        Panel("Loop delay p99", "Delay of timers: no core was free, or Python code ran for long.", "s",
              ((p99("kbroker_loop_lag_seconds", "process"), "{{process}}"),), bad=0.05),
        Panel("Disk", "Bytes read and written by the devices of the log dirs.", "Bps",
              ((rate("kbroker_disk_bytes_total", "device, direction"), "{{device}} {{direction}}"),)),
        Panel("Disk busy", "Share of time for which the device was busy.", "percentunit",
              ((rate("kbroker_disk_busy_seconds_total", "device"), "{{device}}"),), bad=0.9),
        Panel("Pressure", "Share of time for which all tasks of the host waited (PSI, full).", "percentunit",
              ((rate("kbroker_pressure_seconds_total", "resource", ', kind="full"'), "{{resource}}"),), bad=0.1),
        Panel("Host memory", "The page cache holds the logs.", "bytes",
              (("kbroker_memory_bytes{@}", "{{type}}"),)),
        Panel("Open descriptors", "File descriptors of each process.", "none",
              (("kbroker_process_open_fds{@}", "{{process}}"),)),
        Panel("Process deaths", "Child processes that ended unexpectedly; each is restarted.", "none",
              (("sum by (role) (increase(kbroker_process_deaths_total{@}[#]))", "{{role}}"),), bad=1),
    ),
}
# fmt: on
