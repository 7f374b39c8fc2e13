"""The API of a running broker: every route fits its schema, and what it says and changes is so."""

import json
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kbroker.http.console.routes import ROUTES
from tests.conftest import _run
from tests.http.console.report_samples import write_reports
from tests.http.console.schemas import problems
from tests.http.console.service import Service
from tests.peer.kbroker_node import KBroker
from tests.peer.side_work import beside

pytestmark = pytest.mark.compat

RECORDS = 90
AT_MS = 1_700_000_000_000


class Scene:
    """A broker with topics, groups, transactions; its console may change things."""

    def __init__(self, node: KBroker) -> None:
        self.node = node
        self.console = Service(node)
        self.client = {"bootstrap.servers": node.bootstrap}
        self.admin = AdminClient(self.client)
        topics = [NewTopic("orders", 3, 1), NewTopic("single", 1, 1), NewTopic("empty", 1, 1)]
        for future in self.admin.create_topics(topics).values():
            future.result(120)
        self._produce()
        self._transactions()
        consumer = Consumer(self.client | {"group.id": "billing", "auto.offset.reset": "earliest"})
        offsets = [TopicPartition("orders", partition, 5) for partition in range(3)]
        consumer.commit(offsets=offsets, asynchronous=False)
        consumer.close()

    def _produce(self) -> None:
        producer = Producer(self.client)
        for number in range(RECORDS):
            producer.produce(
                "orders",
                json.dumps({"number": number, "city": "Bern" if number % 10 == 0 else "Basel"}),
                key=f"customer-{number}",
                headers={"trace": f"{number:04}"},
                partition=number % 3,
                timestamp=AT_MS + number * 1000,
            )
        producer.produce("single", struct.pack(">q", -1), key=None)
        producer.flush(30)

    def _transactions(self) -> None:
        done = Producer(self.client | {"transactional.id": "done"})
        self.open = Producer(self.client | {"transactional.id": "open"})
        for producer, text in ((done, b"aborted"), (self.open, b"not yet")):
            producer.init_transactions(120)
            producer.begin_transaction()
            producer.produce("single", text)
            producer.flush(30)
        done.abort_transaction(30)

    def committed(self) -> list[int]:
        consumer = Consumer(self.client | {"group.id": "billing"})
        found = consumer.committed([TopicPartition("orders", partition) for partition in range(3)], 30)
        consumer.close()
        return [each.offset for each in found]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("console")
    write_reports(folder / "reports")
    settings = {"kbroker.console.readonly": "false", "kbroker.console.reports.dir": str(folder / "reports")}
    node = KBroker(folder, settings)
    running = _run(node)
    next(running)
    yield Scene(node)
    next(running, None)


NAMES = {"topic": "orders", "group": "billing", "report": quote("load/run-1/verdict.json", safe="")}


@pytest.mark.parametrize(
    "route", [route for route in ROUTES if route.method == "GET"], ids=lambda route: route.path
)
def test_every_answer_fits_its_schema(scene: Scene, route: Any) -> None:
    answer = scene.console.get(route.path.format(**NAMES))
    assert problems(answer, route.result) == []


def test_topics_say_what_is_in_them(scene: Scene) -> None:
    found = scene.console.get("/api/topics", search="ORD")["topics"]
    assert [(row["name"], row["partitions"], row["records"]) for row in found] == [("orders", 3, RECORDS)]
    assert found[0]["bytes"] > 0
    topic = scene.console.get("/api/topics/orders")
    assert [row["high_watermark"] for row in topic["partitions"]] == [RECORDS // 3] * 3
    assert {row["name"]: row["source"] for row in topic["settings"]}["retention.ms"] == "default"
    assert "__consumer_offsets" not in {row["name"] for row in scene.console.get("/api/topics")["topics"]}
    inside = scene.console.get("/api/topics", internal="true")["topics"]
    assert "__consumer_offsets" in {row["name"] for row in inside}


def test_lists_come_in_pages(scene: Scene) -> None:
    first = scene.console.get("/api/topics", limit=2)
    second = scene.console.get("/api/topics", limit=2, offset=2)
    assert first["total"] == second["total"] >= 3
    names = [row["name"] for row in (*first["topics"], *second["topics"])]
    assert names == sorted(set(names))


def test_messages_are_read_through_by_their_cursor(scene: Scene) -> None:
    seen: list[int] = []
    answer = scene.console.get("/api/topics/orders/messages", start="earliest", limit=20)
    while answer["records"]:
        seen += [json.loads(record["value"]["text"])["number"] for record in answer["records"]]
        answer = scene.console.get("/api/topics/orders/messages", cursor=answer["cursor"], limit=20)
    assert sorted(seen) == list(range(RECORDS))
    assert answer["complete"]


def test_messages_are_found_by_offset_time_and_text(scene: Scene) -> None:
    def numbers(**query: Any) -> list[int]:
        records = scene.console.get("/api/topics/orders/messages", **query)["records"]
        return [json.loads(record["value"]["text"])["number"] for record in records]

    assert numbers(start="offset", offset=28, partition=1) == [85, 88]
    assert numbers(start="time", time_ms=AT_MS + 87_000) == [87, 88, 89]
    assert numbers(start="time", time_ms=AT_MS + 900_000) == []
    assert numbers(start="earliest", value="bern") == list(range(0, RECORDS, 10))
    assert numbers(start="earliest", key="customer-42") == [42]
    assert numbers(start="earliest", value="0042") == [42]
    assert numbers(start="latest", limit=3) == [87, 88, 89]
    assert numbers(start="offset", offset=10**18) == []


def test_open_and_aborted_records_are_shown_unless_excluded(scene: Scene) -> None:
    def texts(**query: Any) -> list[Any]:
        records = scene.console.get("/api/topics/single/messages", start="earliest", **query)["records"]
        return [(record["value"]["encoding"], record["value"]["text"]) for record in records]

    binary = ("base64", "//////////8=")
    assert texts() == [binary, ("utf-8", "aborted"), ("utf-8", "not yet")]
    assert texts(committed="true") == [binary]


def test_groups_and_transactions_show_their_state(scene: Scene) -> None:
    group = scene.console.get("/api/groups/billing")
    assert (group["kind"], group["state"], group["lag"]) == ("classic", "Empty", RECORDS - 15)
    listed = scene.console.get("/api/groups", search="billing")["groups"]
    assert [(row["group"], row["lag"], row["topics"]) for row in listed] == [
        ("billing", RECORDS - 15, ["orders"])
    ]
    rows = {row["transactional_id"]: row for row in scene.console.get("/api/transactions")["transactions"]}
    assert rows["done"]["state"] == "CompleteAbort"
    assert rows["open"]["state"] == "Ongoing"
    assert rows["open"]["partitions"] == [{"topic": "single", "partition": 0}]


def test_an_unknown_resource_is_404(scene: Scene) -> None:
    for path in (
        "/api/topics/none",
        "/api/topics/none/messages",
        "/api/groups/none",
        "/api/topics/orders/messages?partition=9",
    ):
        status, answer = scene.console.request("GET", path)
        assert status == 404, (path, answer)


def test_a_topic_is_created_grown_altered_and_deleted(scene: Scene) -> None:
    change = scene.console.change
    assert change("/api/topics", name="fresh", partitions=2, settings={"retention.ms": "1000"})[0] == 200
    assert change("/api/topics", name="fresh")[1]["error"] == "TOPIC_ALREADY_EXISTS"
    assert change("/api/topics", name="no/name")[1]["error"] == "INVALID_TOPIC_EXCEPTION"
    assert change("/api/topics/fresh/partitions", partitions=4)[0] == 200
    assert (
        change("/api/topics/fresh/settings", settings={"retention.ms": None, "segment.ms": "60000"})[0] == 200
    )
    status, answer = change("/api/topics/fresh/settings", settings={"retention.ms": "often"})
    assert (status, answer["error"]) == (400, "INVALID_CONFIG")
    topic = scene.console.get("/api/topics/fresh")
    values = {row["name"]: (row["value"], row["source"]) for row in topic["settings"]}
    assert len(topic["partitions"]) == 4
    assert values["segment.ms"] == ("60000", "topic")
    assert values["retention.ms"][1] == "default"
    assert change("/api/topics/fresh/delete", confirm="other")[0] == 400
    assert change("/api/topics/fresh/delete", confirm="fresh")[0] == 200
    assert scene.console.request("GET", "/api/topics/fresh")[0] == 404


def test_offsets_are_previewed_then_reset(scene: Scene) -> None:
    def reset(**body: Any) -> list[tuple[int, int]]:
        status, answer = scene.console.change("/api/groups/billing/reset", **body)
        assert status == 200, answer
        return [(move["before"], move["after"]) for move in answer["moves"]]

    assert reset(to="time", time_ms=AT_MS + 45_000) == [(5, 15)] * 3
    assert reset(to="shift", by=-100) == [(5, 0)] * 3
    assert scene.committed() == [5, 5, 5]
    assert reset(to="offset", offset=7, topic="orders", partition=1, preview=False) == [(5, 7)]
    assert scene.committed() == [5, 7, 5]
    reset(to="offset", offset=5, preview=False)
    assert scene.committed() == [5, 5, 5]


def test_a_group_with_members_is_not_changed(scene: Scene) -> None:
    consumer = Consumer(scene.client | {"group.id": "active", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    assert consumer.consume(1, 30)
    consumer.commit(asynchronous=False)
    group = scene.console.get("/api/groups/active")
    assert [(m["client_id"], m["assignment"]) for m in group["members"]] == [
        ("rdkafka", [{"topic": "orders", "partitions": [0, 1, 2]}])
    ]
    assert scene.console.change("/api/groups/active/reset", to="earliest", preview=False)[0] == 409
    assert scene.console.change("/api/groups/active/delete", confirm="active")[0] == 409
    consumer.close()
    assert scene.console.change("/api/groups/active/delete", confirm="active")[0] == 200
    assert scene.console.request("GET", "/api/groups/active")[0] == 404


def test_the_tail_shows_what_comes_and_what_the_filter_lets_pass(scene: Scene) -> None:
    connection = HTTPConnection(scene.console.address, timeout=30)
    connection.request("GET", "/api/topics/empty/tail?value=yes")
    answer = connection.getresponse()
    assert answer.readline() == b"retry: 2000\n"
    producer = Producer(scene.client)
    for number in range(10):
        producer.produce("empty", f"{'yes' if number % 2 else 'no'} {number}")
    producer.flush(30)
    texts: list[str] = []
    while len(texts) < 5:
        line = answer.readline()
        assert line, "the stream ended"
        if line.startswith(b"data: "):
            texts += [record["value"]["text"] for record in json.loads(line[6:])["records"]]
    assert texts == [f"yes {number}" for number in range(1, 10, 2)]
    answer.close()


def test_samples_show_the_load(scene: Scene) -> None:
    connection = HTTPConnection(scene.console.address, timeout=30)
    connection.request("GET", "/api/events")
    answer = connection.getresponse()

    def load(stop: threading.Event) -> None:
        producer = Producer(scene.client)
        while not stop.wait(0.05):
            producer.produce("empty", b"x" * 1000)
            producer.flush(30)

    with closing(answer), beside(load):
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            line = answer.readline()
            if line.startswith(b"data: "):
                sample = json.loads(line[6:])
                busy = {row["topic"] for row in sample["top_topics"] if row["in_bytes"] > 0}
                if sample["in_bytes"] > 0 and "empty" in busy and "total" in sample["stages"]["produce"]:
                    break
        else:
            pytest.fail("no sample shows the load")


def test_reports_are_listed_with_their_full_text(scene: Scene) -> None:
    found = scene.console.get("/api/reports")
    assert [(row["name"], row["kind"], row["verdict"]) for row in found["reports"]] == [
        ("load/run-1/verdict.json", "judge", "convicted"),
        ("load/run-1/figures.json", "load test", "all acknowledged"),
        ("bench.json", "benchmark", "no turn failed"),
    ]
    assert (found["folder"], found["problem"]) == (str(scene.node.folder / "reports"), None)
    where = f"/api/reports/{NAMES['report']}"
    text, offset = "", 0
    while offset is not None:
        part = scene.console.get(where, offset=offset)
        text, offset = text + part["text"], part["next_offset"]
    assert text == (scene.node.folder / "reports" / "load" / "run-1" / "verdict.json").read_text()
    assert len(text) > len(part["text"])
    assert part["tables"][0]["rows"][0] == ["V01", "convicted", "gone 1", "–", "–"]


@pytest.mark.parametrize(
    "name", ["none.json", "../data/meta.json", "..%2fkbroker.log", "secret.json", "link.json", "load"]
)
def test_a_file_that_is_no_report_is_not_shown(scene: Scene, name: str) -> None:
    status, answer = scene.console.request("GET", f"/api/reports/{quote(name, safe='%')}")
    assert (status, answer["error"]) == (404, "not_found")
    assert "hunter2" not in json.dumps(answer)


PATHS = st.sampled_from([route.path for route in ROUTES if route.method == "GET"])


@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(
    PATHS,
    st.text(min_size=1, max_size=12),
    st.dictionaries(
        st.sampled_from(
            ["limit", "offset", "partition", "start", "cursor", "key", "search", "time_ms", "sort"]
        ),
        st.text(max_size=12) | st.integers(-(2**70), 2**70).map(str),
        max_size=3,
    ),
)
def test_no_request_makes_the_console_fail(scene: Scene, path: str, name: str, query: dict[str, str]) -> None:
    named = path.replace("{topic}", quote(name, safe="")).replace("{group}", quote(name, safe=""))
    named = named.replace("{report}", quote(name, safe=""))
    words = "&".join(f"{key}={quote(value, safe='')}" for key, value in query.items())
    status, answer = scene.console.request("GET", f"{named}?{words}")
    assert status in (200, 400, 404), (status, answer)
    assert "Traceback" not in scene.node.logs()


def test_findings_of_the_host_come_with_their_remedies(scene: Scene) -> None:
    found = scene.console.get("/api/host")
    assert any(line.startswith("partitions ") and "/metrics" in line for line in found["workload"])
    rows = {row["knob"]: row for row in found["findings"]}
    assert rows["broker: log dirs offline"]["severity"] == "ok"
    assert rows["vm.max_map_count"]["now"].isdigit()
    order = ["serious", "advice", "note", "unseen", "ok"]
    assert [row["severity"] for row in found["findings"]] == sorted(
        (row["severity"] for row in found["findings"]), key=order.index
    )
    assert scene.console.request("POST", "/api/host", {})[0] == 405


def test_findings_follow_settings_that_change_at_run_time(scene: Scene) -> None:
    name = "log.flush.interval.messages"

    def found() -> list[str]:
        return [row["now"] for row in scene.console.get("/api/host")["findings"] if row["knob"] == name]

    assert found() == []
    assert scene.console.change("/api/settings", settings={name: "5"})[0] == 200
    deadline = time.monotonic() + 60  # findings are kept for seconds
    while found() != ["5"]:
        assert time.monotonic() < deadline, found()
        time.sleep(0.5)
    assert scene.console.change("/api/settings", settings={name: None})[0] == 200


def test_clients_are_listed_with_their_software(scene: Scene) -> None:
    producer = Producer(scene.client | {"client.id": "of-this-test"})
    producer.list_topics(timeout=30)
    rows: list[Any] = []
    deadline = time.monotonic() + 90
    while not rows and time.monotonic() < deadline:  # an answer may be a second old
        found = scene.console.get("/api/clients")["clients"]
        rows = [row for row in found if row["client_id"] == "of-this-test"]
        time.sleep(0.05)
    assert rows
    assert {row["software_name"] for row in rows} == {"confluent-kafka-python"}
    assert all(row["software_version"] for row in rows)
    assert {key: rows[0][key] for key in ("address", "principal", "listener", "protocol", "tls")} == {
        "address": "127.0.0.1", "principal": "User:ANONYMOUS", "listener": "PLAINTEXT", "protocol": "PLAINTEXT",
        "tls": False,
    }  # fmt: skip
    assert sum(row["connections"] for row in rows) >= 1
