"""Client quotas in a network process: what each kind of request uses, how long its client is
throttled, and how."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.config.client_quotas import (
    CLIENT_ID,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    QuotaTable,
    entity_of,
)
from kbroker.ipc.client_messages import Throttled
from kbroker.ipc.shared import Shared, Sizes
from kbroker.net.connections.connection import FilePart, Part, State
from kbroker.net.rows import Connection as ConnectionRow
from kbroker.net.rows import Context, Flag
from kbroker.net.usage import quotas
from kbroker.net.usage.quotas import THROTTLED, Quotas
from kbroker.net.usage.throttled_answer import throttle_time_ms
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.frame import encode_response
from kbroker.protocol.messages.create_topics import CreateTopicsResponse
from kbroker.protocol.messages.heartbeat import HeartbeatResponse
from kbroker.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from kbroker.protocol.messages.sasl_handshake import SaslHandshakeResponse
from kbroker.protocol.messages.share_fetch import ShareFetchResponse

SECOND_NS = 1_000_000_000
ROW = 1


class Scene:
    """One connection of client "c" in row 1. Four samples of a second: a rate is over three seconds
    just now."""

    def __init__(self, **limits: float) -> None:
        self.now_ns = 10 * SECOND_NS
        self.later: list[tuple[float, Callable[..., None], Any]] = []
        self.let_go: list[int] = []
        self.rows = ConnectionRow.table(2)
        self.throttled: Counter[int] = Counter()
        self.words = Context.row()
        tables: Any = SimpleNamespace(
            shared=Shared(Sizes(1, 1, 1, 8, 4096, quota_samples=4)),
            client=0,
            connections=self.rows,
            words=self.words,
            metrics=SimpleNamespace(words=self.throttled),
        )
        config: Any = SimpleNamespace(get_int=lambda name: 1)
        self.quotas = Quotas(tables, config, self.let_go.append)
        self.connection: Any = SimpleNamespace(
            row=ROW, state=State.READY, user="u", client_id="", quota_known=False, api_key=-1, api_version=4,
            began_ns=0, purgatory_ns=0, cold_ns=0, earlier_ns=0, login=None,
        )  # fmt: skip
        self.change(**limits)

    def change(self, **limits: float) -> None:
        found = {entity_of([(CLIENT_ID, "c")]): limits} if limits else {}
        self.quotas.change(QuotaTable(found), [self.connection], full=True)

    def has(self, flag: int) -> bool:
        return bool(self.rows[ROW, ConnectionRow.FLAGS] & flag)

    def produced(self, size: int, began_ns: int | None = None) -> int:
        began_ns = self.now_ns if began_ns is None else began_ns
        return self.quotas.produced(self.connection, "c", size, began_ns)

    def answered(self, key: int, answer: object) -> int:
        """The throttle time that the answer holds."""
        self.connection.api_key = key
        version = self.connection.api_version
        parts: list[Part] = [encode_response(key, version, 7, answer)]
        (frame,) = self.quotas.answered(self.connection, parts)
        assert isinstance(frame, bytes)
        return throttle_time_ms(frame, key, version)

    def pass_the_time(self) -> None:
        for _, step, *arguments in self.later:
            step(*arguments)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Scene]:
    def make(**limits: float) -> Scene:
        made = Scene(**limits)
        loop = SimpleNamespace(call_later=lambda *each: made.later.append(each))
        monkeypatch.setattr(time, "monotonic_ns", lambda: made.now_ns)
        monkeypatch.setattr(asyncio, "get_running_loop", lambda: loop)
        return made

    return make


Make = Callable[..., Scene]


def test_a_producer_beyond_its_rate_is_throttled_and_read_again_afterwards(scene: Make) -> None:
    kbroker = scene(**{PRODUCER_BYTE_RATE: 100})
    assert kbroker.produced(300) == 0
    assert not kbroker.has(Flag.MUTED)
    assert kbroker.produced(100) == 1000  # 400 bytes / 100 - 3 s
    assert kbroker.has(Flag.MUTED)
    assert [delay for delay, *_ in kbroker.later] == [1.0]
    assert kbroker.throttled == {THROTTLED["produce"]: 1}
    kbroker.pass_the_time()
    assert not kbroker.has(Flag.MUTED)
    assert kbroker.let_go == [ROW]


def test_a_throttled_fetch_gets_no_bytes_and_they_do_not_count(scene: Make) -> None:
    kbroker = scene(**{CONSUMER_BYTE_RATE: 100})
    kbroker.quotas.client_known(kbroker.connection, "c")
    kbroker.connection.began_ns = kbroker.now_ns
    assert kbroker.quotas.max_fetch_bytes(kbroker.connection) == 300
    assert kbroker.quotas.fetched(kbroker.connection, 400) == 1000
    assert kbroker.throttled == {THROTTLED["fetch"]: 1}
    assert kbroker.quotas.fetched(kbroker.connection, 300) == 0
    assert kbroker.quotas.fetched(kbroker.connection, 1) > 0


def test_the_time_of_requests_is_throttled_for_a_window_at_the_most(scene: Make) -> None:
    kbroker = scene(**{REQUEST_PERCENTAGE: 10})
    assert kbroker.produced(1, kbroker.now_ns - 3 * SECOND_NS // 10) == 0  # a tenth of three seconds
    assert kbroker.produced(1, kbroker.now_ns - SECOND_NS // 20) == 500
    assert kbroker.produced(1, kbroker.now_ns - 9 * SECOND_NS) == 1000
    assert kbroker.throttled == {THROTTLED["request"]: 2}


def test_each_throttled_request_is_reported_with_its_quota_and_time(scene: Make) -> None:
    kbroker = scene(**{PRODUCER_BYTE_RATE: 100})
    kbroker.produced(400)
    kbroker.produced(100)
    throttled, clients = kbroker.quotas.use.take()
    assert throttled == (Throttled(PRODUCER_BYTE_RATE, "", "c", 2, 1000 + 2000),)
    assert clients == (("u", "c"),)


def test_a_client_without_a_quota_is_not_reported(scene: Make) -> None:
    kbroker = scene(**{PRODUCER_BYTE_RATE: 100})
    kbroker.quotas.client_known(kbroker.connection, "d")
    assert kbroker.quotas.use.take() == ((), ())


def test_acks_0_uses_no_time(scene: Make) -> None:
    kbroker = scene(**{REQUEST_PERCENTAGE: 1})
    assert kbroker.produced(1, began_ns=0) == 0


def test_a_fetch_is_not_charged_for_the_time_that_it_waited(scene: Make) -> None:
    kbroker = scene(**{REQUEST_PERCENTAGE: 10})
    kbroker.quotas.client_known(kbroker.connection, "c")
    kbroker.connection.began_ns = kbroker.now_ns - SECOND_NS
    kbroker.connection.purgatory_ns, kbroker.connection.cold_ns = 6 * SECOND_NS // 10, SECOND_NS // 10
    assert kbroker.quotas.fetched(kbroker.connection, 1) == 0
    assert (
        kbroker.quotas.fetched(kbroker.connection, 1) == 1000
    )  # 0.6 s in three seconds, three allowed tenths
    assert kbroker.throttled == {THROTTLED["request"]: 1}


def test_a_fetch_that_waited_before_python_had_it_is_charged_for_its_own_time(scene: Make) -> None:
    kbroker = scene(**{REQUEST_PERCENTAGE: 10})
    kbroker.quotas.client_known(kbroker.connection, "c")
    kbroker.connection.began_ns = kbroker.now_ns - 4 * SECOND_NS // 10
    kbroker.connection.purgatory_ns = kbroker.connection.earlier_ns = 6 * SECOND_NS // 10
    assert kbroker.quotas.fetched(kbroker.connection, 1) == 1000


def test_the_longer_of_two_throttle_times_counts(scene: Make) -> None:
    kbroker = scene(**{PRODUCER_BYTE_RATE: 100, REQUEST_PERCENTAGE: 10})
    assert kbroker.produced(500, kbroker.now_ns - 35 * SECOND_NS // 100) == 2000
    assert kbroker.throttled == {THROTTLED["produce"]: 1}
    other = scene(**{PRODUCER_BYTE_RATE: 100, REQUEST_PERCENTAGE: 10})
    assert other.produced(310, other.now_ns - 35 * SECOND_NS // 100) == 500
    assert other.throttled == {THROTTLED["request"]: 1}


def test_any_other_answer_says_how_long_its_client_is_throttled(scene: Make) -> None:
    kbroker = scene(**{REQUEST_PERCENTAGE: 10})
    kbroker.quotas.client_known(kbroker.connection, "c")
    assert kbroker.answered(ApiKey.HEARTBEAT, HeartbeatResponse()) == 0
    kbroker.produced(1, kbroker.now_ns - 2 * SECOND_NS)
    assert kbroker.answered(ApiKey.HEARTBEAT, HeartbeatResponse()) == 1000
    assert kbroker.has(Flag.MUTED)


@pytest.mark.parametrize("reported_ms", [0, 700])
def test_an_answer_that_reports_its_whole_throttle_time_is_sent_as_it_is(
    scene: Make, reported_ms: int
) -> None:
    kbroker = scene(**{CONTROLLER_MUTATION_RATE: 1})
    kbroker.connection.api_key = ApiKey.CREATE_TOPICS
    answer = CreateTopicsResponse(throttle_time_ms=reported_ms)
    parts: list[Part] = [encode_response(ApiKey.CREATE_TOPICS, 4, 7, answer)]
    assert kbroker.quotas.answered(kbroker.connection, parts) is parts
    assert kbroker.has(Flag.MUTED) == (reported_ms > 0)


def test_records_of_a_share_group_are_a_consumers_bytes(scene: Make) -> None:
    """The longer of the times of both quotas counts, under its own name."""
    answer = ShareFetchResponse()
    size = len(encode_response(ApiKey.SHARE_FETCH, 1, 7, answer))
    for spent_ns in (0, 2 * SECOND_NS):
        kbroker = scene(**{CONSUMER_BYTE_RATE: size / 5, REQUEST_PERCENTAGE: 10})
        kbroker.quotas.client_known(kbroker.connection, "c")
        kbroker.connection.api_version = 1
        if spent_ns:
            kbroker.produced(1, kbroker.now_ns - spent_ns)
        before = kbroker.throttled.copy()
        assert kbroker.answered(ApiKey.SHARE_FETCH, answer) == 2000
        assert kbroker.throttled - before == {THROTTLED["fetch"]: 1}
    kbroker = scene(**{CONSUMER_BYTE_RATE: size / 3.5, REQUEST_PERCENTAGE: 10})
    kbroker.quotas.client_known(kbroker.connection, "c")
    kbroker.connection.api_version = 1
    kbroker.produced(1, kbroker.now_ns - 2 * SECOND_NS)
    assert kbroker.answered(ApiKey.SHARE_FETCH, answer) == 1000
    assert kbroker.throttled == {THROTTLED["request"]: 2}


def test_a_throttled_change_of_topics_holds_its_client_back(scene: Make) -> None:
    kbroker = scene(**{CONTROLLER_MUTATION_RATE: 1})
    kbroker.quotas.client_known(kbroker.connection, "c")
    assert kbroker.answered(ApiKey.CREATE_TOPICS, CreateTopicsResponse(throttle_time_ms=700)) == 700
    assert kbroker.has(Flag.MUTED)
    assert [delay for delay, *_ in kbroker.later] == [0.7]
    assert kbroker.throttled == {THROTTLED["mutation"]: 1}


def test_other_clients_of_other_quotas_are_not_throttled(scene: Make) -> None:
    kbroker = scene(**{PRODUCER_BYTE_RATE: 100})
    assert kbroker.quotas.produced(kbroker.connection, "d", 10_000, kbroker.now_ns) == 0


def test_kernels_serve_what_has_no_quota(scene: Make) -> None:
    """Before its client is known nothing is served by kernels alone; afterwards what no quota
    limits."""
    kbroker = scene(**{PRODUCER_BYTE_RATE: 100})
    assert (kbroker.has(Flag.QUOTA), kbroker.has(Flag.FETCH)) == (True, False)
    kbroker.quotas.client_known(kbroker.connection, "c")
    assert (kbroker.has(Flag.QUOTA), kbroker.has(Flag.FETCH)) == (True, True)
    kbroker.quotas.client_known(kbroker.connection, "d")
    assert (kbroker.has(Flag.QUOTA), kbroker.has(Flag.FETCH)) == (False, True)
    kbroker.change(**{CONSUMER_BYTE_RATE: 100})
    kbroker.quotas.client_known(kbroker.connection, "c")
    assert (kbroker.has(Flag.QUOTA), kbroker.has(Flag.FETCH)) == (False, False)
    kbroker.change(**{REQUEST_PERCENTAGE: 100})
    kbroker.quotas.client_known(kbroker.connection, "c")
    assert (kbroker.has(Flag.QUOTA), kbroker.has(Flag.FETCH)) == (True, False)


def test_new_quotas_count_for_a_client_that_is_known(scene: Make) -> None:
    kbroker = scene(**{REQUEST_PERCENTAGE: 100})
    kbroker.quotas.client_known(kbroker.connection, "c")
    kbroker.change(**{PRODUCER_BYTE_RATE: 100})
    assert (kbroker.has(Flag.QUOTA), kbroker.has(Flag.FETCH)) == (True, False), "Python looks first"
    kbroker.quotas.client_known(kbroker.connection, "c")
    assert (kbroker.has(Flag.QUOTA), kbroker.has(Flag.FETCH)) == (True, True)


def test_quotas_do_not_open_a_connection_that_has_not_logged_in(scene: Make) -> None:
    kbroker = scene()
    kbroker.rows[ROW] = 0
    kbroker.connection.state = State.HANDSHAKE
    kbroker.change(**{PRODUCER_BYTE_RATE: 100})
    kbroker.quotas.client_known(kbroker.connection, "c")
    assert kbroker.rows[ROW, ConnectionRow.FLAGS] == 0
    kbroker.connection.state = State.READY
    kbroker.quotas.client_known(kbroker.connection, "c")
    assert kbroker.has(Flag.AUTHENTICATED)


def test_quotas_do_not_renew_a_session_that_has_expired(scene: Make) -> None:
    kbroker = scene()
    kbroker.rows[ROW] = 0
    kbroker.connection.login = SimpleNamespace(expired=True)
    kbroker.change(**{PRODUCER_BYTE_RATE: 100})
    assert not kbroker.has(Flag.AUTHENTICATED | Flag.FETCH)
    kbroker.change()
    assert not kbroker.has(Flag.AUTHENTICATED | Flag.FETCH | Flag.QUOTA)
    kbroker.connection.login.expired = False
    kbroker.change()
    assert kbroker.has(Flag.AUTHENTICATED)
    assert kbroker.has(Flag.FETCH)


def test_a_throttle_time_ends_with_its_quota(scene: Make) -> None:
    kbroker = scene(**{PRODUCER_BYTE_RATE: 100})
    kbroker.produced(400)
    assert kbroker.connection.throttle_ms == 1000
    kbroker.change()
    assert kbroker.connection.throttle_ms == 0


def test_a_bounded_number_of_clients_is_remembered(scene: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas, "REMEMBERED", 2)
    kbroker = scene(**{PRODUCER_BYTE_RATE: 100})
    for number in range(5):
        kbroker.quotas.client_known(kbroker.connection, str(number))
        assert len(kbroker.quotas._known) <= 2


def test_an_answer_to_a_fetch_is_not_throttled_again(scene: Make) -> None:
    """Its throttle time was decided before its bytes were chosen."""
    kbroker = scene(**{REQUEST_PERCENTAGE: 10})
    kbroker.produced(1, kbroker.now_ns - 2 * SECOND_NS)
    before = kbroker.throttled.copy()
    kbroker.connection.api_key = ApiKey.FETCH
    parts: list[Part] = [b"anything"]
    assert kbroker.quotas.answered(kbroker.connection, parts) is parts
    kbroker.connection.api_key = ApiKey.HEARTBEAT
    for others in ([], [FilePart(None, 0, 0)]):
        assert kbroker.quotas.answered(kbroker.connection, others) is others
    assert kbroker.throttled == before


@pytest.mark.parametrize(
    ("key", "answer"),
    [
        (ApiKey.SASL_HANDSHAKE, SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE)),
        (ApiKey.SASL_AUTHENTICATE, SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE)),
    ],
)
def test_requests_of_a_login_outside_of_a_login_are_throttled(scene: Make, key: int, answer: object) -> None:
    """As in Apache Kafka. Their answers cannot report it."""
    kbroker = scene(**{REQUEST_PERCENTAGE: 10})
    kbroker.produced(1, kbroker.now_ns - 2 * SECOND_NS)
    kbroker.pass_the_time()
    kbroker.connection.api_version = 1
    assert kbroker.answered(key, answer) == 0
    assert kbroker.has(Flag.MUTED)


def test_only_changes_of_topics_are_throttled_by_control(scene: Make) -> None:
    kbroker = scene(**{CONTROLLER_MUTATION_RATE: 1})
    kbroker.quotas.client_known(kbroker.connection, "c")
    assert kbroker.answered(ApiKey.HEARTBEAT, HeartbeatResponse(throttle_time_ms=700)) == 700
    assert not kbroker.has(Flag.MUTED)


def test_new_quotas_hold_at_once_and_removed_ones_no_more(scene: Make) -> None:
    kbroker = scene()
    assert (kbroker.quotas.active, kbroker.produced(10_000)) == (False, 0)
    kbroker.change(**{PRODUCER_BYTE_RATE: 100})
    assert (kbroker.quotas.active, kbroker.words[Context.QUOTAS]) == (True, 1)
    assert kbroker.produced(10_000) > 0
    kbroker.change()
    assert (kbroker.quotas.active, kbroker.words[Context.QUOTAS]) == (False, 0)
    assert kbroker.produced(10_000) == 0


@pytest.mark.parametrize("ends", ["closed", "stopped"])
def test_a_throttled_connection_that_has_ended_is_not_read_again(scene: Make, ends: str) -> None:
    kbroker = scene(**{PRODUCER_BYTE_RATE: 100})
    assert kbroker.produced(400) == 1000
    if ends == "closed":
        kbroker.connection.state = State.CLOSED
    else:
        kbroker.quotas.stop()
    kbroker.pass_the_time()
    assert kbroker.has(Flag.MUTED)
    assert kbroker.let_go == []


def test_a_long_answer_is_throttled_by_its_first_part(scene: Make) -> None:
    kbroker = scene(**{REQUEST_PERCENTAGE: 10})
    kbroker.quotas.client_known(kbroker.connection, "c")
    kbroker.produced(1, kbroker.now_ns - 2 * SECOND_NS)
    kbroker.connection.api_key = ApiKey.CREATE_TOPICS
    frame = encode_response(ApiKey.CREATE_TOPICS, 4, 7, CreateTopicsResponse())
    parts: list[Part] = [memoryview(frame)[:-1], frame[-1:]]
    found = b"".join(bytes(part) for part in kbroker.quotas.answered(kbroker.connection, parts))
    assert throttle_time_ms(found, ApiKey.CREATE_TOPICS, 4) == 1000
    assert found[12:] == frame[12:]


def test_long_client_ids_are_not_remembered(scene: Make) -> None:
    kbroker = scene(**{PRODUCER_BYTE_RATE: 100})
    limits = [kbroker.quotas.client_known(kbroker.connection, "x" * 32_000 + end) for end in "ab"]
    assert limits[0] == limits[1]
    assert not kbroker.quotas._known


def test_the_windows_of_rates_are_as_long_as_the_setting_says() -> None:
    tables: Any = SimpleNamespace(shared=Shared(Sizes(1, 1, 1, 8, 4096, quota_samples=4)), client=0)
    config = BrokerConfig({"quota.window.size.seconds": "3"})
    assert Quotas(tables, config, lambda _: None)._sensors.window_ms == 3000
