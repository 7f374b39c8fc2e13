"""docs/config.md lists the tables."""

from kbroker.config import docs
from kbroker.config.broker import BROKER
from kbroker.config.topic import TOPIC


def test_every_public_setting_is_on_the_page() -> None:
    text = docs.page()
    for table in (BROKER, TOPIC):
        for name, row in table.items():
            assert row.internal or f"`{name}`" in text
