"""docs/config.md lists the tables."""

from kbroker.config import docs
from kbroker.config.broker import BROKER
from kbroker.config.topic import TOPIC


def test_every_public_setting_is_on_the_page() -> None:
    text = docs.page()
    for table in (BROKER, TOPIC):
        for name, row in table.items():
            assert row.internal or f"`{name}`" in text


def test_the_page_says_which_changes_take_effect_at_the_next_start() -> None:
    later = {name for name, row in BROKER.items() if "takes effect at the next start" in row.doc}
    assert later == {name for name, row in BROKER.items() if row.at_next_start}
    assert {"num.network.threads", "num.io.threads", "listeners"} <= later
