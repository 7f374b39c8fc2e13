"""Random requests of all APIs and versions to kbroker and to Apache Kafka 4.3.1: the answers are
the same, field by field.

Each run makes the same requests, so that one that passed does not fail later. KBROKER_RANDOM_SEED
makes others, or "new" draws a seed; KBROKER_RANDOM_REQUESTS makes a run longer. A difference is
shown with its request; it may follow from an earlier difference in the state of the brokers.
"""

import os
import random
import time
from collections.abc import Iterator

import pytest

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.schema import Struct
from tests.compat.random_requests import SETTINGS, RandomRequest, World, prepare, served
from tests.compat.raw import LEVELLED, Case, SocketPeer, differences, plain
from tests.compat.side_by_side import raw_peers, side_by_side

pytestmark = [pytest.mark.kafka, pytest.mark.compat]

CHOSEN = os.environ.get("KBROKER_RANDOM_SEED", "31")
SEED = random.SystemRandom().getrandbits(31) if CHOSEN == "new" else int(CHOSEN)
REQUESTS = int(os.environ.get("KBROKER_RANDOM_REQUESTS", "1500"))
MAX_S = 60.0
"""Maximum time for all requests, unless their number is given."""
DIFFER = LEVELLED | {
    "acquisition_lock_timeout_ms", "client_instance_id", "host", "leader_epoch", "log_append_time_ms", "member_id",
    "session_id", "subscription_id", "throttle_time_ms", "timestamp", "transaction_start_time_ms",
}  # fmt: skip
BY_HASH: dict[ApiKey, frozenset[str]] = {
    ApiKey.SHARE_GROUP_HEARTBEAT: frozenset({"assignment"}),
    ApiKey.SHARE_GROUP_DESCRIBE: frozenset({"groups.members.assignment"}),
}
"""Fields in the order of Apache Kafka's hash tables: which partitions a member shares."""
PASSING = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)
"""Errors after which a client repeats its request: one broker may be faster than the other."""


@pytest.fixture(scope="module")
def worlds(
    tmp_path_factory: pytest.TempPathFactory, kafka_jars: str
) -> Iterator[tuple[tuple[SocketPeer, World], ...]]:
    """Apache Kafka and kbroker, each with its world."""
    now_ms = time.time_ns() // 1_000_000
    with side_by_side(tmp_path_factory.mktemp("random"), SETTINGS) as brokers:
        yield tuple((peer, prepare(peer, now_ms)) for peer in raw_peers(*brokers))


def test_random_requests_have_the_same_answers(worlds: tuple[tuple[SocketPeer, World], ...]) -> None:
    apis = served()
    ends = time.monotonic() + MAX_S
    found: dict[str, str] = {}
    answered = number = 0
    for number in range(REQUESTS):
        if "KBROKER_RANDOM_REQUESTS" not in os.environ and time.monotonic() > ends:
            break
        one = RandomRequest.of(SEED, number, apis)
        answers, lines = compared(one, worlds)
        answered += answers[0] is not None
        for line in lines:
            kind = f"{one.api.name} {line.partition(':')[0]}"
            found.setdefault(
                kind, f"#{number} v{one.version} {line[:300]}\n    {one.build(worlds[0][1])!s:.500}"
            )
    text = "\n".join(f"{kind}: {each}" for kind, each in found.items())
    print(f"KBROKER_RANDOM_SEED={SEED}: {number + 1} requests, {answered} answers")
    assert not found, f"KBROKER_RANDOM_SEED={SEED}\n{text}"
    assert answered > number / 2, "Apache Kafka closed upon most requests"


def compared(
    one: RandomRequest, worlds: tuple[tuple[SocketPeer, World], ...]
) -> tuple[list[Struct | None], list[str]]:
    """The answers, and where they differ."""
    how = Case(
        str(one.number),
        one.api,
        (one.version, one.version),
        lambda *_: Struct(),
        ignore=BY_HASH.get(one.api, frozenset()),
        levelled=DIFFER,
    )
    ends = time.monotonic() + 60
    while True:
        answers = [peer.ask(one.api, one.version, one.build(world)) for peer, world in worlds]
        shown = [plain(answer, how) for answer in answers]
        lines = differences(*shown)
        if not lines or not any(map(passes, shown)) or time.monotonic() > ends:
            return answers, lines
        time.sleep(0.05)


def passes(answer: object) -> bool:
    """Whether an answer contains an error that passes."""
    if isinstance(answer, dict):
        return any(
            value in PASSING if "error_code" in key else passes(value) for key, value in answer.items()
        )
    return isinstance(answer, list) and any(map(passes, answer))
