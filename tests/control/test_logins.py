"""Requests of network processes about logins: the answer does not reveal whether a user exists."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kbroker.control.broker import Broker
from kbroker.control.changes.scram_change import alter_scram_credentials
from kbroker.control.decoys import KAFKAS, _form_of
from kbroker.control.logins import Logins
from kbroker.ipc.login_messages import FindScramCredential, FindTokenCredential
from kbroker.ipc.messages import ScramCredential
from kbroker.protocol.messages.alter_user_scram_credentials import ScramCredentialUpsertion
from tests.control.fakes import world


class Replies:
    """A link that remembers the replies."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []

    def reply(self, call_id: int, body: Any) -> None:
        self.bodies.append(body)


def asked(broker: Broker, user: str, mechanism: int = 1) -> ScramCredential:
    replies: Any = Replies()
    Logins(broker, None).serve(replies, 1, FindScramCredential(user, mechanism))
    (found,) = replies.bodies
    assert isinstance(found, ScramCredential)
    return found


def seen(credential: ScramCredential) -> tuple[bytes, int]:
    """The part of a credential that a client sees in its challenge."""
    return credential.salt, credential.iterations


def test_the_challenge_of_an_unknown_user_stays_the_same_over_a_restart(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        before = [asked(made.broker, "nobody", mechanism) for mechanism in (1, 2)]
        again = made.reboot()
        assert [asked(again, "nobody", mechanism) for mechanism in (1, 2)] == before


def test_an_unknown_user_has_iterations_and_a_salt_that_users_have(tmp_path: Path) -> None:
    salted = ScramCredentialUpsertion("ann", 1, 8192, b"\xff" * 20, bytes(32))
    with world(tmp_path) as made:
        assert _form_of(asked(made.broker, "nobody")) == KAFKAS
        asyncio.run(alter_scram_credentials(made.broker, [], [salted]))
        for broker in (made.broker, made.reboot()):
            assert seen(asked(broker, "ann")) == (b"\xff" * 20, 8192)
            salt, iterations = seen(asked(broker, "nobody"))
            assert (len(salt), iterations) == (20, 8192)


def test_each_broker_has_a_secret(tmp_path: Path) -> None:
    with world(tmp_path / "one") as one, world(tmp_path / "two") as two:
        assert asked(one.broker, "nobody") != asked(two.broker, "nobody")


@pytest.mark.parametrize("mechanism", [1, 2, 3])
def test_an_unknown_token_is_answered_with_a_credential_that_lasts(tmp_path: Path, mechanism: int) -> None:
    def token(broker: Broker) -> Any:
        replies: Any = Replies()

        async def ask() -> None:
            Logins(broker, None).serve(replies, 1, FindTokenCredential("id", mechanism))
            while not replies.bodies:
                await asyncio.sleep(0)

        asyncio.run(ask())
        return replies.bodies[0]

    with world(tmp_path) as made:
        before = token(made.broker)
        assert (before.owner, before.expiry_ms) == ("", 0)
        assert before.credential == made.broker.decoys.token("id", mechanism)
        assert token(made.reboot()) == before
