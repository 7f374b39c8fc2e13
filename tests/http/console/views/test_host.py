"""The settings that the tuner looks at."""

from kbroker.config.broker import BrokerConfig
from kbroker.http.console.views.host import effective
from kbroker.http.console.views.settings import SOURCES


def row(name: str, value: str | None, source: int) -> dict[str, str | None]:
    return {"name": name, "value": value, "source": SOURCES[source]}


def test_changes_since_the_start_are_settings_too() -> None:
    config = BrokerConfig({"num.io.threads": "3"})
    rows = [
        row("log.segment.bytes", "2000000", 3),
        row("log.retention.ms", "1000", 3),
        row("log.retention.ms", "2000", 2),
        row("num.io.threads", "3", 4),
        row("log.roll.ms", None, 3),
    ]
    found = effective(config, rows)
    assert found.get_int("log.segment.bytes") == 2_000_000
    assert found.log_retention_ms == 2000
    assert (found.get_int("num.io.threads"), dict(found.static)) == (3, dict(config.static))


def test_changes_that_need_what_is_not_shown_leave_the_settings_as_they_were() -> None:
    config = BrokerConfig({})
    assert effective(config, [row("log.segment.bytes", "often", 3)]) is config
