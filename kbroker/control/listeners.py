"""The callbacks of coordinators for events in control."""

from collections.abc import Callable

from msgspec import Struct, field

from kbroker.config.broker import BrokerConfig
from kbroker.control.metadata.catalogue import Replica, Topic
from kbroker.ipc.link import AsyncLink

RequestServer = Callable[[AsyncLink, int, bytes, bytes], bool]
"""Serves a request, given its link, call, packed peer and frame; False: not this one."""


class Listeners(Struct):
    """Runs in: control. Owner: the broker. Coordinators add to the lists at start.

    settings: called in a thread with the broker's settings before and after a change that is not
    made yet; raises ConfigError to refuse it. config: called with the resource (type, name) whose
    dynamic configs have changed. partitions: called with each topic that is new or has more
    partitions. opened_late: called with each log that had found no room and is open now. leaders:
    called when the IO workers know other leaders of partitions. deletion: called with each topic
    that has been deleted. acls: called when ACLs have changed. connection: called with the id of
    each closed connection that had sent what is kept by connection. block_servers: called first
    with each block of requests; requests they serve need no further call. False if none is left.
    request_servers: by the first two bytes of a request's frame, its API key: called with each
    other request of a block; True if it is served. sliced_apis: keys of APIs whose requests may
    take long, although they are short.
    """

    settings: list[Callable[[BrokerConfig, BrokerConfig], None]] = field(default_factory=list)
    config: list[Callable[[int, str], None]] = field(default_factory=list)
    partitions: list[Callable[[Topic], None]] = field(default_factory=list)
    opened_late: list[Callable[[Replica], None]] = field(default_factory=list)
    leaders: list[Callable[[], None]] = field(default_factory=list)
    deletion: list[Callable[[Topic], None]] = field(default_factory=list)
    acls: list[Callable[[], None]] = field(default_factory=list)
    connection: list[Callable[[int], None]] = field(default_factory=list)
    block_servers: list[Callable[[AsyncLink, bytearray], bool]] = field(default_factory=list)
    request_servers: dict[bytes, RequestServer] = field(default_factory=dict)
    sliced_apis: set[int] = field(default_factory=set)
