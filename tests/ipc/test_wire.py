"""Every message travels as it is, and nothing else does."""

import pickle
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.config.broker import BrokerConfig
from kbroker.config.client_quotas import QuotaTable
from kbroker.config.topic import TopicConfig
from kbroker.ipc import cleaning_messages as clm
from kbroker.ipc import client_messages as cm
from kbroker.ipc import http_messages as hm
from kbroker.ipc import login_messages as lm
from kbroker.ipc import messages as m
from kbroker.ipc import move_messages as mm
from kbroker.ipc.cached_answers import AnswerVersions
from kbroker.ipc.link import FrameReader
from kbroker.ipc.wire import LENGTH, MESSAGES, REPLIES, Decoder, Malformed, pack, reply_decoder

CONFIG = TopicConfig.resolve({}, BrokerConfig.load({"log.dirs": "/d"})[0])
LEAD = m.Lead(3, 4, (5,), ((6, 7),), 2)
PARTITION = m.PartitionImage(0, 3, 1, "/d/t-0", 2, (4,), False)
QUOTAS = QuotaTable(
    {(("client-id", None), ("user", "a")): {"producer_byte_rate": 1.5}, (("ip", "::1"),): {"x": 2.0}}
)
EXAMPLES: list[Any] = [
    m.Hello("io", 1, 2),
    hm.GroupsPage(7, (hm.GroupSummary("g", "share", "Empty", 0, {}),)),
    m.ClientRequest(1, 2, 3, 4, None, "PLAINTEXT", "::1", 5, "User:\u00e9", b"\xff\0", 1),
    m.VerifyTransaction("id", 1, 2, (("t", 0), ("u", 1)), 12),
    clm.AskWorker(1, clm.SwapSegments(1, 2, ((3, 4, 5),), 6, 7, -1, 8)),
    m.Image(
        1,
        True,
        (m.TopicImage("t", bytes(16), False, (PARTITION,)),),
        ("gone",),
        {"a": "b"},
        QUOTAS,
        {"f": 1},
        2,
    ),
    m.OpenPartition(1, 2, "t", 0, bytes(range(16)), "/d", 3, CONFIG, LEAD, True),
    m.OpenPartition(1, 2, "t", 0, bytes(16), "/d", 3, CONFIG, m.Follow(1, 2, 3, 4, 5, "/e/t-0")),
    m.ConfigurePartition(1, CONFIG),
    mm.MoveFailed(1, 2, "/d"),
    lm.LoginSucceeded("::1", "u"),
    cm.ClientReport((cm.SoftwareConnections("librdkafka", "2.1", "PLAINTEXT", 3),)),
    cm.ClientReport(None, (cm.Throttled("producer_byte_rate", "u", "", 1, 700),), (("u", "c"),)),
    cm.ClientReport(moved=(cm.MovedBytes("c", 1 << 40, 0),)),
    m.AuditEvents((m.AuditEvent(1, "login", "User:u", "::1", 2, "SASL", "PLAIN", False, ("t",), "no", 3),)),
]
CLEANING = clm.CleaningJob(1, 2, "t", 0, "/d", 3, 4, (clm.ClosedSegment(5, 6, 7),), b"last", CONFIG)
VALUES: list[tuple[Any, Any]] = [
    (clm.BeginCleaning(1, 2), CLEANING),
    (clm.AskWorker(0, clm.BeginCleaning(1, 2)), CLEANING),
    (clm.AskWorker(0, clm.CleanableLogs()), (clm.CleanableLog(1, 2, 0.5, True),)),
    (lm.FindScramCredential("u", 1), m.ScramCredential(b"s", b"k", b"v", 4096)),
    (lm.FindTokenCredential("id", 2), lm.TokenCredential(m.ScramCredential(b"s", b"k", b"v", 4096), "u", 5)),
    (lm.AttemptLogin("SASL", "::1", 5, "u"), lm.LoginTurn(0.5, "::1")),
    (lm.AttemptLogin("SASL", "::1", 5, "u"), lm.LoginTurn(None, "10.0.0.1")),
    (lm.LoginForClient("SASL", "::1", 5, "10.0.0.1", "u", (2, 1)), 2),
    (
        hm.ClientsQuery(),
        hm.ClientMetrics(
            1,
            2,
            (
                hm.PushingClient(
                    "c", "i", "s", "1", "::1", (hm.ClientSample("m", "", "t", "0", "", True, 1.5),)
                ),
            ),
            cm.ClientUse(
                (cm.SoftwareConnections("librdkafka", "2.1", "PLAINTEXT", 3),),
                (cm.QuotaUse("producer_byte_rate", "u", "", 1.5, None, 2, 3),),
                1,
                (cm.MovedBytes("c", 1, 2),),
            ),
        ),
    ),
    (
        cm.ConnectedQuery(),
        cm.ConnectedClients((cm.ConnectedClient("::1", "c", "s", "1", "User:u", "SSL", 2, 1.5, 0.0),), 3, 4),
    ),
    (hm.GroupsQuery(), (hm.GroupSummary("g", "classic", "Stable", 1, {"t": {0: 5}}, {"t": 3}),)),
    (m.DescribeProducers((1, 2)), (((1, 2, 3, 4, 5, 6),), 3)),
    (m.VerifyTransaction(None, 1, 2, (), 11), ((0, None), (48, "no"))),
    (clm.BrokerSettings(), {"a": "b"}),
    (mm.MovesInProgress(), (mm.MoveProgress(1, 2, 3),)),
    (EXAMPLES[2], None),
    (EXAMPLES[2], b"frame"),
]


def read(stream: bytes, decoder: Decoder | None = None) -> list[tuple[int, Any]]:
    return list(FrameReader(lambda _: decoder).feed(stream))


@pytest.mark.parametrize("body", EXAMPLES)
def test_a_message_arrives_as_it_was_sent(body: Any) -> None:
    assert read(pack(7, body)) == [(7, body)]


@pytest.mark.parametrize(("call", "value"), VALUES)
def test_a_reply_has_the_type_of_its_call(call: Any, value: Any) -> None:
    assert read(pack(0, m.Reply(4, value)), reply_decoder(call)) == [(0, m.Reply(4, value))]


def test_an_error_is_a_reply_to_any_call_and_a_reply_to_none_is_passed_over() -> None:
    error = m.Reply(4, None, 3, "why")
    for requested in REPLIES:
        assert read(pack(0, error), msgspec.msgpack.Decoder(REPLIES[requested])) == [(0, error)]
    assert read(pack(0, m.Reply(4, 5))) == []


def test_numbers_of_shared_memory_travel_as_numbers() -> None:
    words = np.arange(3)
    assert read(pack(1, m.DeleteRecords(words[1], words[2]))) == [(1, m.DeleteRecords(1, 2))]
    frame = AnswerVersions(words).answer(b"frame", b"", 0, 0)
    assert read(pack(0, m.Reply(4, frame)), reply_decoder(EXAMPLES[2])) == [(0, m.Reply(4, b"frame"))]


def test_every_message_there_is_may_travel() -> None:
    kinds = [
        kind
        for module in (m, clm, cm, hm, lm, mm)
        for kind in vars(module).values()
        if isinstance(kind, type)
    ]
    tagged = {
        kind for kind in kinds
        if issubclass(kind, msgspec.Struct) and kind.__struct_config__.tag is not None
    }  # fmt: skip
    assert tagged == {*MESSAGES, m.Reply}


def test_a_pickle_is_no_message_and_runs_nothing() -> None:
    class Attack:
        def __reduce__(self) -> Any:
            return exec, ("import os; os._exit(77)",)

    payload = pickle.dumps((0, Attack()))
    with pytest.raises(Malformed):
        read(LENGTH.pack(len(payload)) + payload)


@given(st.binary(max_size=80))
def test_any_bytes_are_messages_or_malformed(payload: bytes) -> None:
    try:
        read(LENGTH.pack(len(payload)) + payload)
    except Malformed:
        return


@given(st.sampled_from([pack(7, body) for body in EXAMPLES]), st.data())
def test_a_changed_byte_is_another_message_or_malformed(stream: bytes, data: st.DataObject) -> None:
    changed = bytearray(stream)
    changed[data.draw(st.integers(4, len(stream) - 1))] = data.draw(st.integers(0, 255))
    try:
        for call_id, body in read(bytes(changed)):
            assert isinstance(call_id, int)
            assert type(body) in MESSAGES
    except Malformed:
        return


@pytest.mark.parametrize("after", [b"", b"\x91" * 100_000])
def test_lists_that_are_nested_too_deeply_are_malformed(after: bytes) -> None:
    """In place of a reply's value, and after its last member."""
    value = b"\xc0" if after else b"\x91" * 100_000 + b"\xc0"
    members = b"\xa5Reply\1" + value + b"\0\xa0" + (after + b"\xc0" if after else b"")
    payload = b"\x91\x92\0" + (b"\x96" if after else b"\x95") + members
    with pytest.raises(Malformed):
        read(LENGTH.pack(len(payload)) + payload)
