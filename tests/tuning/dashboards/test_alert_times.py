"""The shipped alerts, unchanged, fire on troubles of real brokers within the time that
docs/alerts.md promises, and resolve within their window, in a real Prometheus that scrapes each
15 s."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from loadtest.faults.preload import NoPreload, Preload
from tests.conftest import _run
from tests.peer.kbroker_node import KBroker
from tests.peer.small_disk import small_disk
from tests.tuning.dashboards.made_series import TROUBLES
from tests.tuning.dashboards.prometheus import Prometheus, until
from tests.tuning.dashboards.troubles import (
    FullDisk,
    KilledProcess,
    StalledDisk,
    StuckGroup,
    ThrottledClient,
    Trouble,
)
from tuning.dashboards.alerts import ALERTS

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(2400)]

INTERVAL_S = 15
LATE_S = 30
"""Two scrapes, in which a busy machine and the look at the alerts may be late."""
LOOK_S = 2.0
DISK_BYTES = 256 << 20
FIRES_S = {alert.name: alert.fires_s for alert in ALERTS}


@dataclass
class Watch:
    """Seconds after the beginning of a trouble at which each of its alerts fired, and after its end
    at which each had resolved."""

    trouble: Trouble
    fired: dict[str, float] = field(default_factory=dict)
    resolved: dict[str, float] = field(default_factory=dict)
    cured_s: float | None = None

    def look(self, firing: set[str], at_s: float) -> None:
        """The trouble lasts until all of its alerts have fired, or one is late."""
        names = self.trouble.alerts
        for name in names:
            if self.cured_s is None and name in firing:
                self.fired.setdefault(name, at_s)
            elif self.cured_s is not None and name not in firing:
                self.resolved.setdefault(name, at_s - self.cured_s)
        late = at_s > max(FIRES_S[name] for name in names) + LATE_S
        if self.cured_s is None and (late or len(self.fired) == len(names)):
            self.trouble.cure()
            self.cured_s = at_s

    def is_over(self, at_s: float) -> bool:
        if self.cured_s is None:
            return False
        longest_s = max(TROUBLES[name].resolves_s for name in self.trouble.alerts) + LATE_S
        return len(self.resolved) == len(self.trouble.alerts) or at_s > self.cured_s + longest_s

    def wrong(self) -> list[str]:
        """What was late, or did not come."""
        found = []
        for name in self.trouble.alerts:
            fired_s, resolved_s = self.fired.get(name), self.resolved.get(name)
            if fired_s is None or fired_s > FIRES_S[name] + LATE_S:
                found.append(f"{name} fired after {fired_s} s instead of {FIRES_S[name]}")
            if resolved_s is None or resolved_s > TROUBLES[name].resolves_s:
                found.append(f"{name} resolved after {resolved_s} s instead of {TROUBLES[name].resolves_s}")
        return found


@pytest.fixture
def troubles(tmp_path: Path) -> Iterator[list[Trouble]]:
    """On four brokers, of which one has a slow disk and one a small disk."""
    try:
        slow = Preload(tmp_path / "preload")
    except NoPreload as reason:
        pytest.skip(str(reason))
    with ExitStack() as stack:
        disk = stack.enter_context(small_disk(tmp_path / "disk", DISK_BYTES))

        def broker(name: str, preload: Preload | None = None, **settings: str) -> KBroker:
            node = KBroker(tmp_path / name, {key.replace("_", "."): text for key, text in settings.items()})
            node.environment.update({} if preload is None else preload.environment())
            running = _run(node)
            stack.callback(lambda: next(running, None))
            return next(running)

        small = broker("small", log_dirs=str(disk / "data"), log_segment_bytes="4194304")
        calm = broker("calm")
        made = [
            KilledProcess(broker("killed")),
            FullDisk(small, disk / "ballast"),
            ThrottledClient(calm),
            StuckGroup(calm),
            StalledDisk(broker("stalled", slow), slow),
        ]
        stack.callback(slow.slow_disk, 0)
        yield made


def test_alerts_fire_within_the_promised_time_and_resolve_within_their_window(
    troubles: list[Trouble], tmp_path: Path
) -> None:
    brokers = list({id(trouble.broker): trouble.broker for trouble in troubles}.values())
    prometheus = Prometheus(tmp_path, *brokers, interval_s=INTERVAL_S)
    watches = [Watch(trouble) for trouble in troubles]
    with ExitStack() as stack:
        stack.callback(prometheus.stop)
        for trouble in troubles:
            stack.enter_context(trouble.working())
        assert until(lambda: prometheus.has(f"count(kbroker_ready == 1) == {len(brokers)}"), 120)
        for trouble in troubles:
            assert until(lambda: prometheus.has(trouble.before), 120), trouble.before  # noqa: B023  called here
        time.sleep(2 * INTERVAL_S)  # a rate needs two samples
        for trouble in troubles:
            assert not prometheus.firing(trouble.broker) & set(trouble.alerts)
        began_s = time.monotonic()
        for trouble in troubles:
            trouble.begin()
        while not all(watch.is_over(time.monotonic() - began_s) for watch in watches):
            for watch in watches:
                watch.look(prometheus.firing(watch.trouble.broker), time.monotonic() - began_s)
            time.sleep(LOOK_S)
    for watch in watches:
        for name in watch.trouble.alerts:
            times = [found.get(name, -1.0) for found in (watch.fired, watch.resolved)]
            print(
                f"{name}: fired after {times[0]:.0f} s (at most {FIRES_S[name]}), resolved after {times[1]:.0f} s"
            )
    assert [text for watch in watches for text in watch.wrong()] == []
