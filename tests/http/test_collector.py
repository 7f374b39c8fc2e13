"""What a scrape says, from shared memory filled by hand, read back by prometheus-client's own
parser."""

import errno
import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from kbroker.config.client_quotas import USER_KEYS
from kbroker.http.certificates import Certificates
from kbroker.http.directory import Directory
from kbroker.http.group_progress import GroupLag
from kbroker.http.host_limits import HostLimits
from kbroker.ipc.client_messages import ClientUse, QuotaUse
from kbroker.ipc.http_messages import ClientMetrics, ClientSample, GroupSummary, PushingClient
from kbroker.ipc.layout import Counter, ProcessLine, Slot, SlotState
from kbroker.ipc.log_dir_errors import LogDirErrors
from kbroker.ipc.ring import ring_push
from kbroker.ipc.store_copy_states import StoreCopyStates
from kbroker.metrics import layout
from kbroker.metrics.catalog import CATALOG
from kbroker.metrics.kafka import KAFKA, REQUEST, REQUEST_TIMES
from kbroker.metrics.labels import OTHER_STAGES, STAGES, VALUES
from kbroker.metrics.metric import Kind
from kbroker.metrics.slots import METRIC_WORDS, bind
from tests.http.scene import IO, NETWORK, SOURCES, Scene


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_requests_of_all_processes_add_up(scene: Scene) -> None:
    number = bind("kbroker_requests_total", api="Fetch", version=17)
    for process in SOURCES:
        scene.slots(process).words[number] += 5
    scrape = scene.scrape()
    assert scrape.value("kbroker_requests_total", api="Fetch", version="17") == 15
    assert scrape.value("kafka_network_requestmetrics_requests_total", request="Fetch", version="17") == 15


def test_series_that_have_counted_nothing_are_left_out(scene: Scene) -> None:
    scene.slots(NETWORK).words[bind("kbroker_requests_total", api="Fetch", version=17)] += 1
    assert scene.scrape().labels("kbroker_requests_total") == [{"api": "Fetch", "version": "17"}]


def test_few_series_are_there_before_their_first_event(scene: Scene) -> None:
    scrape = scene.scrape()
    for role in VALUES["role"]:
        assert scrape.value("kbroker_process_deaths_total", role=role) == 0
    for quota in VALUES["quota"]:
        assert scrape.value("kbroker_throttled_requests_total", quota=quota) == 0
    assert scrape.value("kbroker_failed_requests_total", api="Produce") == 0
    scene.slots(NETWORK).words[
        bind("kbroker_request_errors_total", api="Produce", error="CORRUPT_MESSAGE")
    ] += 2
    scene.slots(NETWORK).words[bind("kbroker_request_errors_total", api="Produce", error="NONE")] += 9
    assert scene.scrape().value("kbroker_failed_requests_total", api="Produce") == 2


def test_connections_begin_at_0_for_each_listener_and_process(scene: Scene) -> None:
    scrape = scene.scrape()
    assert scrape.labels("kbroker_connections") == [{"listener": "PLAINTEXT", "process": "network-0"}]
    assert scrape.value("kbroker_connections", listener="PLAINTEXT", process="network-0") == 0


def test_a_gauge_of_a_process_that_falls_to_0_stays(scene: Scene) -> None:
    number = bind("kbroker_arena_used_bytes")
    scene.slots(NETWORK).words[number] = 7
    assert scene.scrape().value("kbroker_arena_used_bytes", process="network-0") == 7
    scene.slots(NETWORK).words[number] = 0
    assert scene.scrape().value("kbroker_arena_used_bytes", process="network-0") == 0


def test_replicas_are_counted_without_kafkas_names_too(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"kbroker.metrics.kafka.names": "false"})
    slots = scene.topic("orders", 3)
    topic = scene.view.directory.topics[0]
    images = [replace(image, followers=(40 + image.index,)) for image in topic.partitions]
    images[0] = replace(images[0], in_sync=2)
    scene.view.directory = Directory.of({"orders": replace(topic, partitions=tuple(images))})
    scene.shared.slots[slots[1], Slot.MIN_IN_SYNC_REPLICAS] = 2
    scrape = scene.scrape()
    assert scrape.value("kbroker_under_replicated_partitions") == 2
    assert scrape.value("kbroker_under_min_isr_partitions") == 1
    assert scrape.value("kbroker_at_min_isr_partitions") == 1


def test_a_histogram_has_cumulative_buckets_count_and_sum(scene: Scene) -> None:
    slots = scene.slots(IO)
    for microseconds in (50, 100, 150, 3000):
        slots.observe(layout.APPEND_SECONDS, microseconds * 1000)
    scrape = scene.scrape()
    name = "kbroker_append_seconds"
    at = {
        le: scrape.sample(name, name + "_bucket", {"le": le}) for le in ("0.0001", "0.0002", "0.0032", "+Inf")
    }
    assert at == {"0.0001": 2, "0.0002": 3, "0.0032": 4, "+Inf": 4}
    assert scrape.sample(name, name + "_count", {}) == 4
    assert scrape.sample(name, name + "_sum", {}) == pytest.approx(0.0033)


def test_values_by_process_name_their_process(scene: Scene) -> None:
    scene.slots(NETWORK).words[layout.NETWORK_TURNS] = 3
    scene.slots(IO).words[bind("kbroker_drains_total")] = 4
    scrape = scene.scrape()
    assert scrape.value("kbroker_network_turns_total", process="network-0") == 3
    assert scrape.value("kbroker_drains_total", process="io-0") == 4
    assert (
        scrape.value("kbroker_network_stalls_total", process="network-0") == 0
    )  # an alert sees its first event
    assert len(scrape.labels("kbroker_network_stalls_total")) == 1


def test_kafka_request_times_are_quantiles_in_ms(scene: Scene) -> None:
    slots = scene.slots(NETWORK)
    slots.words[bind("kbroker_requests_total", api="Produce", version=11)] = 100
    for n in range(1, 101):
        slots.observe(bind("kbroker_request_phase_seconds", api="Produce", phase="total"), n * 1_000_000)
    name = "kafka_network_requestmetrics_totaltimems"
    scrape = scene.scrape()
    for quantile, milliseconds in (("0.50", 50), ("0.99", 99), ("0.999", 100)):
        assert scrape.value(name, request="Produce", quantile=quantile) == pytest.approx(
            milliseconds, rel=0.13
        )
    assert scrape.sample(name, name + "_count", {"request": "Produce"}) == 100


def test_kafka_request_times_forget_what_is_older_than_minutes(scene: Scene) -> None:
    slots = scene.slots(NETWORK)
    slots.words[bind("kbroker_requests_total", api="Produce", version=11)] = 1
    number = bind("kbroker_request_phase_seconds", api="Produce", phase="total")
    slots.observe(number, 5_000_000_000)
    labels = {"request": "Produce", "quantile": "0.50"}
    for _ in range(10):
        scene.scrape()
        scene.now += 60
    slots.observe(number, 1_000_000)
    name = "kafka_network_requestmetrics_totaltimems"
    assert scene.scrape().sample(name, name, labels) == pytest.approx(1, rel=0.13)


def test_each_of_kafkas_request_times_counts_every_request(scene: Scene) -> None:
    slots = scene.slots(NETWORK)
    for api, stages in (*STAGES.items(), ("Metadata", OTHER_STAGES)):
        slots.words[bind("kbroker_requests_total", api=api, version=11)] = 2
        for phase in stages:
            number = bind("kbroker_request_phase_seconds", api=api, phase=phase)
            slots.observe(number, 3_000_000)
            slots.observe(number, 3_000_000)
    scrape = scene.scrape()
    for name in REQUEST_TIMES:
        for api in (*STAGES, "Metadata"):
            labels = {"request": api}
            assert scrape.sample(REQUEST + name, REQUEST + name + "_count", labels) == 2, (name, api)
    remote = REQUEST + "remotetimems"
    assert scrape.sample(remote, remote, {"request": "Produce", "quantile": "0.99"}) == pytest.approx(
        3, rel=0.13
    )
    assert scrape.sample(remote, remote, {"request": "Metadata", "quantile": "0.99"}) < 0.01


def test_fetch_times_have_both_of_kafkas_names(scene: Scene) -> None:
    scene.slots(NETWORK).words[bind("kbroker_requests_total", api="Fetch", version=17)] = 1
    found = {
        labels["request"] for labels in scene.scrape().labels("kafka_network_requestmetrics_totaltimems")
    }
    assert found == {"Fetch", "FetchConsumer"}


def test_idle_share_is_that_of_the_last_minute(scene: Scene) -> None:
    scene.scrape()
    scene.now += 20
    scene.slots(IO).words[layout.IDLE_NS] = 15_000_000_000
    name = "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent"
    assert scene.scrape().value(name) == pytest.approx(0.75)


def test_a_network_process_is_idle_while_it_does_not_compute(scene: Scene) -> None:
    scene.shared.processes[NETWORK, ProcessLine.PID] = os.getpid()
    scene.scrape()
    scene.now += 50  # of its clock; this process has computed for less than a second of it
    share = scene.scrape().value("kafka_network_socketserver_networkprocessoravgidle_percent")
    assert 0.9 < share <= 1


@pytest.mark.parametrize("polls", [False, True])
def test_a_network_process_is_idle_while_it_polls(scene: Scene, polls: bool) -> None:
    scene.shared.processes[NETWORK, ProcessLine.PID] = os.getpid()
    scene.scrape()
    began = time.process_time()
    while (computed := time.process_time() - began) < 0.5:
        pass
    if polls:
        scene.slots(NETWORK).words[bind("kbroker_polling_seconds_total")] += int(computed * 1e9)
    scene.now += 1
    share = scene.scrape().value("kafka_network_socketserver_networkprocessoravgidle_percent")
    assert (share > 0.7) is polls


def test_partitions_show_their_slots(scene: Scene) -> None:
    slot = scene.topic("orders", 2)[1]
    words = scene.shared.slots[slot]
    words[Slot.LOG_START], words[Slot.LOG_END], words[Slot.HIGH_WATERMARK] = 5, 42, 40
    words[Slot.LOG_BYTES], words[Slot.SEGMENT_COUNT] = 999, 3
    scrape = scene.scrape()
    labels = {"topic": "orders", "partition": "1"}
    for name, value in {
        "kbroker_log_start_offset": 5,
        "kbroker_log_end_offset": 42,
        "kafka_log_log_logendoffset": 42,
        "kafka_log_log_size": 999,
        "kafka_log_log_numlogsegments": 3,
        "kafka_topic_partition_current_offset": 40,
        "kafka_topic_partition_oldest_offset": 5,
        "kafka_topic_partition_leader": scene.context.config.node_id,
    }.items():
        assert scrape.value(name, **labels) == value, name
    assert scrape.value("kafka_topic_partitions", topic="orders") == 2
    assert scrape.value("kafka_server_replicamanager_partitioncount") == 2


def test_an_offline_partition_is_counted_and_shown(scene: Scene) -> None:
    slot = scene.topic("broken")[0]
    scene.shared.slots[slot, Slot.STATE] = SlotState.OFFLINE
    scrape = scene.scrape()
    assert scrape.value("kafka_controller_kafkacontroller_offlinepartitionscount") == 1
    assert scrape.value("kafka_topic_partition_leader", topic="broken", partition="0") == -1
    assert (
        scrape.value("kafka_topic_partition_under_replicated_partition", topic="broken", partition="0") == 1
    )
    assert scrape.value("kbroker_partitions", state="offline") == 1


def test_topic_counters_start_at_what_the_slot_had_before(scene: Scene) -> None:
    slot = scene.topic("second")[0]
    for process in SOURCES:
        scene.shared.counters[process][slot, Counter.BYTES_IN] = 100
    scene.shared.counter_bases[slot, Counter.BYTES_IN] = 250
    scrape = scene.scrape()
    assert scrape.value("kbroker_topic_in_bytes_total", topic="second") == 50
    assert scrape.value("kafka_server_brokertopicmetrics_bytesin_total", topic="second") == 50


def test_only_the_busiest_partitions_have_series_above_the_limit(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"kbroker.metrics.partitions.max": "2"})
    slots = scene.topic("wide", 5)
    for place, slot in enumerate(slots):
        scene.shared.counters[IO][slot, Counter.BYTES_IN] = (place % 3) * 10
    scrape = scene.scrape()
    shown = {labels["partition"] for labels in scrape.labels("kbroker_log_end_offset")}
    assert shown == {"1", "2"} or shown == {"2", "4"} or shown == {"1", "2", "4"} - {"4"}
    assert scrape.value("kbroker_partitions_left_out") == 3
    assert scrape.value("kbroker_topic_in_bytes_total", topic="wide") == 40


def test_dead_letters_are_shown_by_group_and_topic(scene: Scene) -> None:
    scene.view.summaries = (
        GroupSummary("team", "share", "Stable", 1, {}, {"orders": 7, "mail": 0}),
        GroupSummary("plain", "share", "Stable", 1, {}),
    )
    scrape = scene.scrape()
    name = "kbroker_group_dead_letters_total"
    assert scrape.value(name, group="team", topic="orders") == 7
    assert scrape.value(name, group="team", topic="mail") == 0
    assert len(scrape.labels(name)) == 2
    for reason in VALUES["reason"]:
        assert scrape.value("kbroker_dead_letter_failures_total", reason=reason) == 0
    assert scrape.value("kbroker_dead_letters_waiting") == 0


def test_expired_records_are_shown_by_topic(scene: Scene) -> None:
    first, second = scene.topic("orders", 2)
    scene.topic("mail")
    scene.shared.counters[IO][first, Counter.EXPIRED] = 4
    scene.shared.counters[IO][second, Counter.EXPIRED] = 3
    scrape = scene.scrape()
    assert scrape.value("kbroker_topic_expired_records_total", topic="orders") == 7
    assert scrape.value("kbroker_topic_expired_records_total", topic="mail") == 0


def test_failed_and_total_requests_have_a_sum_without_a_topic(scene: Scene) -> None:
    words = scene.slots(NETWORK).words
    words[bind("kbroker_requests_total", api="Fetch", version=12)] = 4
    words[bind("kbroker_requests_total", api="Fetch", version=17)] = 5
    words[bind("kbroker_request_errors_total", api="Produce", error="NONE")] = 7
    words[bind("kbroker_request_errors_total", api="Produce", error="CORRUPT_MESSAGE")] = 2
    scrape = scene.scrape()
    prefix = "kafka_server_brokertopicmetrics_"
    assert scrape.value(prefix + "totalfetchrequests_total") == 9
    assert scrape.value(prefix + "failedproducerequests_total") == 2
    assert scrape.value(prefix + "failedfetchrequests_total") == 0
    assert scrape.value(prefix + "invalidmessagecrcrecords_total") == 2


def test_kafka_names_can_be_left_out(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"kbroker.metrics.kafka.names": "false"})
    scene.topic("orders")
    assert not [name for name in scene.scrape().families if name.startswith("kafka_")]


def test_the_copy_of_the_store_in_a_log_dir_shows_its_state(scene: Scene) -> None:
    def shown() -> dict[str, float]:
        found = scene.scrape()
        return {
            labels["state"]: found.value("kbroker_store_copy", **labels)
            for labels in found.labels("kbroker_store_copy")
        }

    path = str(scene.folder)
    assert shown() == {}
    states = StoreCopyStates([path], scene.shared)
    states.put([path], [path])
    assert shown() == {"current": 1, "stale": 0, "lost": 0}
    states.put([], [path])
    assert shown() == {"current": 0, "stale": 1, "lost": 0}
    LogDirErrors([path], scene.shared).fail(path, errno.EIO)
    assert shown() == {"current": 0, "stale": 0, "lost": 1}


def test_ring_lengths_are_read_from_the_rings(scene: Scene) -> None:
    import numpy as np

    ring_push(scene.shared.append_ring(NETWORK, 0), 16, np.zeros(8, np.int64))
    scrape = scene.scrape()
    labels = {"ring": "append", "client": "network-0", "worker": "io-0"}
    assert scrape.value("kbroker_ring_entries", **labels) == 1
    assert scrape.value("kafka_network_requestchannel_requestqueuesize") == 1


def test_every_row_of_the_catalogue_can_appear(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    _fill_everything(scene)
    link = SimpleNamespace(speed=10_000)
    monkeypatch.setattr("psutil.net_if_stats", lambda: {"eth0": link})
    counts = {f"{way}_{what}": 1 for way in ("read", "write") for what in ("count", "bytes", "time")}
    disk = SimpleNamespace(**counts, busy_time=1)  # a container's folders are on no block device
    monkeypatch.setattr("kbroker.http.host_rows.disks_of", lambda _: {"sda": disk})
    monkeypatch.setattr(Certificates, "expiries", lambda _: iter([("SSL", 1.9e9)]))
    monkeypatch.setattr(HostLimits, "speeds", lambda _: {"disk_write": 1e9})
    monkeypatch.setattr(scene.collector.progress, "lag_of", lambda *_: GroupLag(1.0, 7, 60.0))
    groups = [group.group_id for group in scene.view.summaries]
    monkeypatch.setattr(scene.collector.progress, "cold_bytes", lambda: dict.fromkeys(groups, 7))
    scene.scrape()
    scene.collector.progress.refresh(scene.view.directory, scene.view.groups)
    scene.now += 60
    families = scene.scrape().families
    rows = [*CATALOG, *KAFKA]
    aliases = {row.kafka for row in CATALOG if row.kafka}
    missing = [name for name in {row.name for row in rows} | aliases if name not in families]
    assert not missing
    silent = [name for name, family in families.items() if not family.samples]
    assert not silent
    assert {row.name for row in rows if not row.help} == set()


def test_openmetrics_reads_back(scene: Scene) -> None:
    _fill_everything(scene)
    text = scene.collector.text(openmetrics=True).decode()
    families = {family.name: family for family in parse_openmetrics(text)}
    assert families["kbroker_requests"].type == "counter"
    assert families["kbroker_append_seconds"].type == "histogram"


def _fill_everything(scene: Scene) -> None:
    """Give each series of each process something to show, and the host's parts what they need."""
    samples = tuple(ClientSample("m", "", "", "", "", counter, 1.0) for counter in (False, True))
    use = ClientUse((), tuple(QuotaUse(key, "u", "c", 1.0, 0.5, 1, 2) for key in USER_KEYS))
    scene.view.pushed = ClientMetrics(1, 0, (PushingClient("c", "i", "s", "1", "::1", samples),), use)
    StoreCopyStates([str(scene.folder)], scene.shared).put([str(scene.folder)], [])
    for place in METRIC_WORDS.values():
        for index in range(min(3, max(1, place.size // place.width))):
            word = place.start + index * place.width
            for process in (*SOURCES, scene.shared.supervisor_row):
                slots = scene.slots(process)
                if place.metric.kind is Kind.HISTOGRAM:
                    slots.observe(word, 123_456)
                else:
                    slots.words[word] += 1
    slot = scene.topic("orders")[0]
    words = scene.shared.slots[slot]
    words[Slot.MAX_TIMESTAMP] = 1_700_000_000_000
    words[Slot.LAST_STABLE], words[Slot.HIGH_WATERMARK], words[Slot.LOG_END] = 7, 8, 9
    (Path(scene.view.directory.partitions[0].folder) / "00000000000000000000.log").write_bytes(b"x" * 10_000)
    scene.page_cache.refresh(scene.view.directory, [scene.view.directory.partitions[0].folder])
    scene.shared.processes[NETWORK, ProcessLine.PID] = os.getpid()
    scene.view.summaries = (GroupSummary("g", "classic", "Stable", 1, {"orders": {0: 0}}, {"orders": 1}),)


def test_values_of_labels_fit_their_slots() -> None:
    assert len(VALUES["api"]) == layout.API_COUNT
    assert len(VALUES["version"]) == layout.VERSION_COUNT
    assert len(VALUES["error"]) == layout.ERROR_COUNT
    assert len(VALUES["phase"]) == layout.PHASE_COUNT
    assert all(len(set(values)) == len(values) for values in VALUES.values())
