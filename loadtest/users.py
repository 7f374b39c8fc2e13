"""Locust's users: each starts one player process, merges its figures once a second, and ends it.

Locust conducts (how many, when, reports); players play. Nothing of the client library runs in
Locust's process, so its event loop is never blocked and never measured.
"""

import itertools
import os
import random
import subprocess
import time
from typing import IO, Any, ClassVar

import gevent
from locust import User, task
from locust.env import Environment

from loadtest import locust_parameters
from loadtest.histogram import empty
from loadtest.interpreter import RUN_MODULE
from loadtest.merge import merge
from loadtest.page import Page, Slot, Times
from loadtest.players.part import Part
from loadtest.run import load_run
from loadtest.settings import from_json

INTERVAL_S = 1.0
LEAVE, CATCH_UP = 1, 2
END_S = 150.0


class PlayerUser(User):
    """One logical client: a player, and after its end the next one. Runs in: a Locust process
    (gevent)."""

    abstract = True
    role: ClassVar[str]
    mode: ClassVar[str]
    stop_request: ClassVar[int] = LEAVE  # the request to end, see Slot.STOP
    # A player without a heartbeat for so long hangs in the client library; it is killed and
    # replaced. Plain calls of the library end by themselves in a minute.
    patience_s: ClassVar[float] = 75.0
    _numbers: ClassVar["itertools.count[int]"]

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._folder = locust_parameters.folder()
        self._run = load_run(self._folder)
        self._settings = from_json(self._run.settings)
        self._parameters = locust_parameters.load(self._folder)
        worker = getattr(environment.runner, "worker_index", 0)
        self._label = f"{self.role}-{self.mode}-{max(worker, 0)}-{next(type(self)._numbers)}"
        self._lives = itertools.count()
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None

    def on_start(self) -> None:
        """Starts the player."""
        name = f"{self._label}-{next(self._lives)}"
        path = self._folder / "pages" / f"{name}.page"
        self._page = Page(path, create=True)
        self._seen: dict[Any, Any] = {**dict.fromkeys(Slot, 0), **{times: empty() for times in Times}}
        self._born = time.monotonic()
        self._age_s = self.lifetime_s()
        label = f"{self._run.run:08x}-{self._label}"
        clock, begin_ns = self._parameters.clock(), self._parameters.begin_ns
        part = Part.of_run(self._folder, self._run, self.role, self.mode, label, path, clock, begin_ns)
        self._log = open(self._folder / "players.log", "ab")  # noqa: SIM115
        self._process = subprocess.Popen(
            [*RUN_MODULE, "loadtest.players", part.to_json()],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    def lifetime_s(self) -> float:
        """Time after which the player leaves and a new one starts."""
        return float("inf")

    @task
    def follow(self) -> None:
        """One interval: merge; replace a player that has ended, hangs, or has lived long enough."""
        gevent.sleep(INTERVAL_S)
        assert self._process is not None
        self._merge()
        if self._process.poll() is not None:
            self._failed(f"player ended with {self._process.returncode}")
            self._replace()
        elif self._silent_s() > self.patience_s:
            self._failed(f"no heartbeat for {self.patience_s:.0f} s, killed")
            self._process.kill()
            self._replace()
        elif time.monotonic() - self._born > self._age_s:
            self._end(LEAVE)
            self.on_start()

    def on_stop(self) -> None:
        """The run is over."""
        self._end(self.stop_request)

    def _replace(self) -> None:
        self._end(LEAVE)
        self.on_start()

    def _end(self, stop: int) -> None:
        """Request the player to end and wait for it; the wait lets other users run."""
        process = self._process
        if process is None:
            return
        self._page[Slot.STOP] = stop
        until = time.monotonic() + END_S
        while process.poll() is None and time.monotonic() < until and self._silent_s() < self.patience_s:
            gevent.sleep(0.1)
        if process.poll() is None:
            process.kill()
            self._failed("did not end, killed")
        self._merge()
        self._page[Slot.DONE] = 1  # also of one that could not say so
        self._process = None
        if self._log is not None:
            self._log.close()

    def _silent_s(self) -> float:
        """Seconds since the player's last heartbeat, or since it was started."""
        return time.monotonic() - max(self._page[Slot.HEARTBEAT_NS] / 1e9, self._born)

    def _failed(self, why: str) -> None:
        self.environment.stats.log_error(self.role, self.mode, why)

    def _merge(self) -> None:
        raise NotImplementedError

    def _more(self, what: Slot | Times) -> Any:
        """The growth of a slot or histogram since the last time."""
        now = self._page.times(what).copy() if isinstance(what, Times) else self._page[what]
        grown = now - self._seen[what]
        self._seen[what] = now
        return grown


class ProducerUser(PlayerUser):
    """Latency: from the intended time to the acknowledgement."""

    abstract = True

    def _merge(self) -> None:
        times, size, failed = self._more(Times.ACK), self._more(Slot.ACKED_BYTES), self._more(Slot.FAILED)
        merge(self.environment.stats, self.role, self.mode, times, size, failed)


class CopierUser(ProducerUser):
    """A copier reads until no more records arrive, and ends before the consumers."""

    abstract = True
    stop_request = CATCH_UP
    # send_offsets_to_transaction may wait forever when its coordinator goes away (librdkafka
    # 5456, 5511)
    patience_s = 30.0


class ConsumerUser(PlayerUser):
    """Latency: end to end, from the intended time to the delivery."""

    abstract = True
    stop_request = CATCH_UP

    def lifetime_s(self) -> float:
        churn = self._settings.churn_seconds
        return random.uniform(0.5, 1.5) * churn if churn else float("inf")

    def _merge(self) -> None:
        merge(
            self.environment.stats,
            self.role,
            self.mode,
            self._more(Times.END_TO_END),
            self._more(Slot.SEEN_BYTES),
        )


def user_classes() -> dict[str, type[PlayerUser]]:
    """The users of this run, by class name, each with its fixed count."""
    run = load_run(locust_parameters.folder())
    settings = from_json(run.settings)
    players: list[tuple[type[PlayerUser], str, str, int]] = [
        (ProducerUser, "produce", "plain", settings.plain),
        (ProducerUser, "produce", "idempotent", settings.idempotent),
        (ProducerUser, "transact", "transactional", settings.transactional),
        (CopierUser, "copy", "copied", settings.copiers),
    ]
    modes = settings.modes()
    for place, mode in enumerate(modes):
        share = len(range(place, settings.consumers, len(modes)))
        players.append((ConsumerUser, "consume", mode, share))
        players.append((ConsumerUser, "share", mode, len(range(place, settings.sharers, len(modes)))))
    made = {}
    for base, role, mode, count in players:
        if count:
            name = f"{role.title()}{mode.title()}"
            members = {
                "role": role,
                "mode": mode,
                "fixed_count": count,
                "abstract": False,
                "_numbers": itertools.count(),
                "__module__": __name__,
            }
            made[name] = type(name, (base,), members)
    return made
