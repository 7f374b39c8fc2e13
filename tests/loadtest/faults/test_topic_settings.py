"""A fault changes a setting of the load's topics and drops it again."""

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AlterConfigOpType, ConfigResource

from loadtest.faults import topic_settings
from loadtest.faults.topic_settings import CHOICES, change_for
from loadtest.topics import PROMISED


class Answer:
    def result(self, _timeout_s: float) -> None:
        """Done."""


class Listing:
    topics = ("load-1-plain", "load-1-copied", "orders")


class Admin:
    """Accepts changes from the second request on."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.changes: list[tuple[str, str, str | None, AlterConfigOpType | None]] = []

    def list_topics(self, timeout: float) -> Listing:
        return Listing()

    def incremental_alter_configs(
        self, resources: list[ConfigResource], request_timeout: float
    ) -> dict[str, Answer]:
        if self.failures:
            self.failures -= 1
            raise KafkaException
        for one in resources:
            for entry in one.incremental_configs:
                self.changes.append((one.name, entry.name, entry.value, entry.incremental_operation))
        return {one.name: Answer() for one in resources}


def change(monkeypatch: pytest.MonkeyPatch, admin: Admin, which: float) -> str:
    monkeypatch.setattr(topic_settings, "AdminClient", lambda _settings: admin)
    monkeypatch.setattr(topic_settings.time, "sleep", lambda _seconds: None)  # type: ignore[attr-defined]
    return change_for("host:1", which, 5.0)


@pytest.mark.parametrize("number", range(len(CHOICES)))
def test_a_setting_is_set_on_topics_of_the_load_alone_and_dropped(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    admin = Admin(failures=1)
    detail = change(monkeypatch, admin, number / len(CHOICES))
    name, value = CHOICES[number]
    load = Listing.topics[:2]
    assert admin.changes == [
        *((topic, name, value, AlterConfigOpType.SET) for topic in load),
        *((topic, name, None, AlterConfigOpType.DELETE) for topic in load),
    ]
    assert detail == f"{name}={value} on 2 topics, and back again"


def test_a_broker_that_accepts_no_change_in_time_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_settings, "PATIENCE_S", -1.0)
    with pytest.raises(RuntimeError, match=r"segment\.ms was not changed"):
        change(monkeypatch, Admin(failures=9), 0.0)


def test_no_choice_is_a_setting_that_the_judge_relies_on() -> None:
    assert not {name for name, _ in CHOICES} & (set(PROMISED) | {"segment.bytes", "max.message.bytes"})
