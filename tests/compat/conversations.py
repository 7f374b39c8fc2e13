"""All conversations about groups, and the settings that both brokers need for them."""

from collections.abc import Callable

from tests.compat import (
    cached_answer_scripts,
    group_scripts,
    share_portion_scripts,
    share_scripts,
    streams_scripts,
)
from tests.compat.group_talk import Talk

GROUP_SCRIPTS: dict[str, Callable[[Talk], None]] = {
    **group_scripts.SCRIPTS,
    **share_scripts.SCRIPTS,
    **share_portion_scripts.SCRIPTS,
    **streams_scripts.SCRIPTS,
    **cached_answer_scripts.SCRIPTS,
}
GROUP_SETTINGS = {"group.initial.rebalance.delay.ms": "500", **streams_scripts.SETTINGS}
