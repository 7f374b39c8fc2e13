"""One CreateTopics for a topic of a thousand partitions, and one DeleteTopics for it.

CreateTopics of so many partitions is answered before their logs exist, by both brokers: the second
figure is the time until all of them answer ListOffsets. Each figure is the median of several
topics.
"""

import time
from statistics import median

from bench.generator import LoadFailed
from bench.raw_requests import answer_of
from bench.scenario import Measure, Scenario
from bench.turn import Measures, Turn
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

PARTITIONS = 1000
TOPICS = 3
CREATE_VERSION = 7
DELETE_VERSION = 6
TIMEOUT_MS = 60_000
GONE_S = 120
POLL_S = 0.05


def run(turn: Turn) -> Measures:
    figures = [_turn(turn, f"thousand-{turn.number}-{number}") for number in range(TOPICS)]
    return {key: median(one[key] for one in figures) for key in figures[0]}


def _turn(turn: Turn, name: str) -> Measures:
    turn.made.append(name)
    topic = CreatableTopic(name, PARTITIONS, 1)
    create = CreateTopicsRequest([topic], TIMEOUT_MS)
    begun = time.monotonic()
    answer = answer_of(turn.target.port, ApiKey.CREATE_TOPICS, CREATE_VERSION, create)
    created = time.monotonic()
    _check("CreateTopics", answer.topics[0].error_code)
    usable = turn.target.wait_ready(name, PARTITIONS) + turn.target.launched_at
    delete = DeleteTopicsRequest(topics=[DeleteTopicState(name)], timeout_ms=TIMEOUT_MS)
    deleting = time.monotonic()
    answer = answer_of(turn.target.port, ApiKey.DELETE_TOPICS, DELETE_VERSION, delete)
    deleted = time.monotonic()
    _check("DeleteTopics", answer.responses[0].error_code)
    turn.made.remove(name)
    _await_removal(turn, name)
    return {"answer_s": created - begun, "usable_s": usable - begun, "delete_s": deleted - deleting}


def _check(what: str, error: int) -> None:
    if error:
        raise LoadFailed(f"{what} failed with {error}")


def _await_removal(turn: Turn, name: str) -> None:
    """The folders' removal must not be in the figures of the next topic."""
    deadline = time.monotonic() + GONE_S
    while any(turn.target.data_dir.glob(f"{name}-*")):
        if time.monotonic() > deadline:
            raise LoadFailed(f"folders of {name} are left after {GONE_S} s")
        time.sleep(POLL_S)


SCENARIO = Scenario(
    "create_1000",
    f"create a topic of {PARTITIONS:,} partitions",
    (
        Measure("answer_s", "time until CreateTopics has answered", "s", "lower", 1.0),
        Measure("usable_s", "time until every partition answers", "s", "lower", 1.0),
        Measure("delete_s", "time until DeleteTopics has answered", "s", "lower", 1.0),
    ),
    run,
    kind="topics",
)
