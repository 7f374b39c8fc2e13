"""The address of a broker's console."""

import re

from tests.peer.kbroker_node import KBroker


def console(node: KBroker) -> str:
    found = re.findall(r"kbroker ready.*? console=(\S+)", node.log_file.read_text())
    return str(found[-1])
