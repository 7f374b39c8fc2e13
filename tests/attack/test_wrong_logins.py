"""Ten thousand wrong logins beside steady clients, who notice nothing, and are let in."""

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.attack.logins import MODULE, logs_in
from tests.attack.steady import Steady, p99
from tests.conftest import BrokerFactory
from tests.peer.kbroker_node import KBroker

pytestmark = pytest.mark.slow

COUNT = 10_000
TOGETHER = 400
TURNS = 8
NOTICED_S = 0.002
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
    "security.inter.broker.protocol": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{MODULE} required user_a="right" user_b="b";',
}


def wrong_logins(port: int, count: int) -> int:
    """So many attempts, TOGETHER at a time; how many got in."""

    async def run() -> int:
        numbers = iter(range(count))

        async def guess() -> int:
            found = 0
            for number in numbers:
                found += await logs_in(port, f"u{number % 50}", f"wrong-{number}")
            return found

        return sum(await asyncio.gather(*(guess() for _ in range(TOGETHER))))

    return asyncio.run(run())


def ports(broker: KBroker) -> list[int]:
    """Of its listeners, in the order of SETTINGS."""
    addresses = str(re.findall(r"bootstrap=(\S+)", broker.log_file.read_text())[-1]).split(",")
    return [int(each.rsplit(":", 1)[1]) for each in addresses]


def test_wrong_logins_are_refused_and_do_not_affect_others(broker_factory: BrokerFactory) -> None:
    """A client of another broker is disturbed by the same host at the same time, and only by that:
    the two are compared turn by turn."""
    broker, other = broker_factory(SETTINGS), broker_factory(SETTINGS)
    sasl, plain = ports(broker)
    other_plain = ports(other)[1]
    elsewhere: list[float] = []
    beside: list[float] = []
    with ThreadPoolExecutor(1) as threads:
        for _ in range(TURNS):
            with Steady(plain) as steady, Steady(other_plain) as undisturbed:
                assert threads.submit(wrong_logins, sasl, COUNT // TURNS).result() == 0
            beside.append(p99(steady.trips))
            elsewhere.append(p99(undisturbed.trips))
    assert asyncio.run(logs_in(sasl, "b", "b"))
    noticed = [here - there for here, there in zip(beside, elsewhere, strict=True)]
    assert min(noticed) < NOTICED_S, (elsewhere, beside)
    print(f"p99 beside wrong logins is longer by {min(noticed) * 1e3:.1f} to {max(noticed) * 1e3:.1f} ms")
    assert "Traceback" not in broker.logs()
