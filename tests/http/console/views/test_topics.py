"""A topic's answer by the permissions of its reader."""

from types import SimpleNamespace
from typing import Any, NoReturn, cast

import pytest

from kbroker.http.console.refusal import Refusal
from kbroker.http.console.request import Request
from kbroker.http.console.views.topics import TOPIC, stored, topic
from kbroker.http.directory import Directory
from kbroker.ipc.layout import Slot
from kbroker.ipc.messages import PartitionImage, TopicImage
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from tests.http.console.schemas import problems


def asked(code: ErrorCode) -> Request:
    """A request for a topic; code: the broker's answer to whether the user may describe its
    settings."""
    found = SimpleNamespace(error_code=0, name="orders", topic_id=bytes(16), is_internal=False, partitions=[])
    answers: dict[ApiKey, Any] = {
        ApiKey.METADATA: SimpleNamespace(topics=[found]),
        ApiKey.DESCRIBE_CONFIGS: SimpleNamespace(
            results=[SimpleNamespace(error_code=int(code), error_message=None, configs=[])]
        ),
    }

    class Asked:
        caller = SimpleNamespace(ask=lambda api, *_, **__: answers[api])
        view = SimpleNamespace(directory=SimpleNamespace(topics=[]))
        live = SimpleNamespace(topic_rates=dict)
        shared = None

        def __getitem__(self, name: str) -> str:
            return "orders"

    return cast(Request, Asked())


def test_a_topic_is_shown_without_its_settings_to_a_user_who_may_only_read_it() -> None:
    found = topic(asked(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    assert (found["name"], found["settings"]) == ("orders", None)
    assert problems(found, TOPIC) == []


def test_a_topic_has_the_settings_that_its_reader_may_describe() -> None:
    found = topic(asked(ErrorCode.NONE))
    assert found["settings"] == []
    assert problems(found, TOPIC) == []


def test_other_errors_of_the_settings_are_not_hidden() -> None:
    with pytest.raises(Refusal) as refused:
        topic(asked(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    assert refused.value.status == 404


class Topics(tuple[TopicImage, ...]):
    """Topics that are not read one after the other."""

    def __iter__(self) -> NoReturn:
        raise AssertionError("all topics are read")


def test_a_topic_is_found_without_reading_all_of_them() -> None:
    """A page of topics is made of all: it took the square of their number."""
    shared: Any = SimpleNamespace(slots=Slot.table(4))
    shared.slots[2, Slot.LOG_BYTES] = 7
    parts = {name: PartitionImage(5, slot, 1, f"/data/{name}-5") for slot, name in enumerate("abcd")}
    directory = Directory(
        Topics([TopicImage(name, bytes(16), False, (part,)) for name, part in parts.items()])
    )
    assert {number: words["bytes"] for number, words in stored(shared, directory, "c").items()} == {5: 7}
    assert list(stored(shared, directory, "a")) == list(stored(shared, directory, "d")) == [5]
    for missing in ("", "bb", "e"):
        assert stored(shared, directory, missing) == {}
