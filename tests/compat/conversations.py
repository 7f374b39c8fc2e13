"""All conversations about groups, and the settings that both brokers need for them."""

from collections.abc import Callable

from tests.compat import (
    cached_answer_scripts,
    group_scripts,
    share_portion_scripts,
    share_progress_scripts,
    share_scripts,
    streams_scripts,
)
from tests.compat.group_talk import Talk
from tests.compat.raw import SocketPeer
from tests.compat.side_by_side import Lines

GROUP_SCRIPTS: dict[str, Callable[[Talk], None]] = {
    **group_scripts.SCRIPTS,
    **share_scripts.SCRIPTS,
    **share_portion_scripts.SCRIPTS,
    **share_progress_scripts.SCRIPTS,
    **streams_scripts.SCRIPTS,
    **cached_answer_scripts.SCRIPTS,
}
GROUP_SETTINGS = {"group.initial.rebalance.delay.ms": "500", **streams_scripts.SETTINGS}


def answers_to(peer: SocketPeer, script: str) -> Lines:
    """The answers of a broker to a script."""
    talk = Talk(peer, script)
    talk.find_coordinator()
    GROUP_SCRIPTS[script](talk)
    talk.close()
    return talk.lines
