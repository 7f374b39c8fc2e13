"""The roles of child processes: one table, in start order; they stop in the order of
``stop_rank``."""

import importlib
from collections.abc import Callable

from msgspec import Struct

from kbroker.config.broker import BrokerConfig
from kbroker.config.sites import sites_of
from kbroker.ipc.child import ChildContext
from kbroker.supervisor.confinement.confine import Needs

Main = Callable[[ChildContext], None]
WRITES_FILES = Needs()


class Role(Struct, frozen=True):
    """main: "module:function". count: processes of this role. stop_rank: lower is drained first.

    late: it starts when the others are ready and it has something to do: http when the first client
    connects to its listening socket, the cleaner when an IO worker calls it. Until then a broker
    does without its memory. It imports its modules when it runs. The parent imports the modules of
    all other roles before it forks the first process: all share their pages, and a process that is
    restarted has them at once.

    still_s: a process without a heartbeat for this long is restarted. owns_logs: when one is
    killed, logs are not clean. needs: its other rights are given up. before: "module:function"
    that runs before that.
    """

    name: str
    main: str
    count: Callable[[BrokerConfig], int]
    stop_rank: int
    late: bool = False
    still_s: int = 10
    owns_logs: bool = False
    needs: Needs = WRITES_FILES
    before: str = ""

    def load(self) -> Main:
        """The main function, imported now unless it has been."""
        return _loaded(self.main)

    def prepare(self, context: ChildContext) -> None:
        """Run what needs the rights that the role gives up."""
        if self.before:
            _loaded(self.before)(context)


def _loaded(name: str) -> Main:
    module, _, function = name.partition(":")
    main: Main = getattr(importlib.import_module(module), function)
    return main


def network_count(config: BrokerConfig) -> int:
    """Network processes."""
    return config.get_int("num.network.threads")


def worker_count(config: BrokerConfig) -> int:
    """IO workers: at least one for each replica site."""
    return max(config.get_int("num.io.threads"), len(sites_of(config)))


def control_count(_: BrokerConfig) -> int:
    """There is one control process."""
    return 1


def http_count(config: BrokerConfig) -> int:
    """One http process, or none."""
    return int(bool(config.get_optional_str("kbroker.http.listen")))


def cleaner_count(config: BrokerConfig) -> int:
    """One cleaner process, or none."""
    enabled = config.get_bool("log.cleaner.enable") and config.get_int("log.cleaner.threads") > 0
    return int(enabled)


ROLES = (
    Role("control", "kbroker.api.control_process:main", control_count, stop_rank=1),
    Role("io", "kbroker.io.worker:main", worker_count, stop_rank=2, still_s=30, owns_logs=True),
    Role(
        "network",
        "kbroker.api.network_process:main",
        network_count,
        stop_rank=0,
        needs=Needs(writes_files=False),
    ),
    Role(
        "http",
        "kbroker.http.worker:main",
        http_count,
        stop_rank=3,
        late=True,
        still_s=30,
        needs=Needs(writes_files=False, reads_processes=True),
        before="kbroker.http.registry.protoc:begin",
    ),
    Role("cleaner", "kbroker.cleaner.worker:main", cleaner_count, stop_rank=0, late=True),
)
