"""Many connections of one address guess a password: they do not get to it, and nobody else
notices."""

import asyncio
import time

import pytest

from tests.attack.logins import MODULE, logs_in
from tests.conftest import BrokerFactory

pytestmark = pytest.mark.slow

GUESSERS = 200
SECONDS = 8
RIGHT = 1000
"""Number of the right guess; without a bound some 560 are answered a second."""


def test_a_guessed_password_is_not_found_and_another_user_logs_in_at_once(
    broker_factory: BrokerFactory,
) -> None:
    broker = broker_factory(
        {
            "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
            "security.inter.broker.protocol": "SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{MODULE} required user_a="{RIGHT}" user_b="b";',
        }
    )
    port = int(broker.bootstrap.rpartition(":")[2])

    async def run() -> None:
        guesses = iter(range(10**9))
        found: list[int] = []
        end = time.monotonic() + SECONDS

        async def guess() -> None:
            while time.monotonic() < end:
                number = next(guesses)
                try:
                    async with asyncio.timeout(0.4):  # an answer that comes late is taken for a no
                        if await logs_in(port, "a", str(number)):
                            found.append(number)
                except TimeoutError:
                    continue

        guessing = [asyncio.ensure_future(guess()) for _ in range(GUESSERS)]
        await asyncio.sleep(SECONDS / 2)
        began = time.monotonic()
        async with asyncio.timeout(20):
            assert await logs_in(port, "b", "b")
        assert time.monotonic() - began < 5
        await asyncio.gather(*guessing)
        assert next(guesses) > RIGHT
        assert found == []

    asyncio.run(run())
    assert "Traceback" not in broker.logs()
