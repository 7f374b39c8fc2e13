"""Many connections of one address guess a password: they do not find it, and no other user
notices."""

import asyncio

import pytest

from tests.attack.logins import MODULE, logs_in
from tests.conftest import BrokerFactory

pytestmark = pytest.mark.slow

GUESSERS = 200
RIGHT = 1000
"""Number of the right guess; without a bound some 560 are answered a second."""
BEFORE, AFTER = 400, 2 * RIGHT
"""Guesses that are begun when the other user logs in, and at least until the end."""
PATIENCE_S = 120
AT_ONCE_S = 60
"""For the login of another user, on a busy machine; after all guesses it would never end."""


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
        begun = 0
        other_is_in = False

        async def guess() -> None:
            nonlocal begun
            while begun < AFTER or not other_is_in:
                number = begun = next(guesses)
                try:
                    async with asyncio.timeout(0.4):  # an answer that comes late is taken for a no
                        if await logs_in(port, "a", str(number)):
                            found.append(number)
                except TimeoutError:
                    continue

        guessing = [asyncio.ensure_future(guess()) for _ in range(GUESSERS)]
        async with asyncio.timeout(PATIENCE_S):
            while begun < BEFORE:
                await asyncio.sleep(0.01)
            async with asyncio.timeout(AT_ONCE_S):
                assert await logs_in(port, "b", "b")
            assert not any(each.done() for each in guessing), "a guess has failed"
            other_is_in = True
            await asyncio.gather(*guessing)
        assert next(guesses) > RIGHT
        assert found == []

    asyncio.run(run())
    assert "Traceback" not in broker.logs()
