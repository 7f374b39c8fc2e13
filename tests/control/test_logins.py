"""Requests of network processes about logins: the answer does not reveal whether a user exists."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kbroker.control.broker import Broker
from kbroker.control.changes.scram_change import alter_scram_credentials
from kbroker.control.logins import MAX_RELAYED, RELAYED_NS, Logins, RelayedLogins
from kbroker.ipc.login_messages import (
    AttemptLogin,
    FindScramCredential,
    FindTokenCredential,
    LoginForClient,
    LoginTurn,
)
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
        salt, iterations = seen(asked(made.broker, "nobody"))
        assert (len(salt) in range(20, 27), salt.isalnum(), iterations) == (True, True, 4096)
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


# --- logins of the http process for its clients -------------------------------------------------------


def announced(
    port: int, client: str, user: str = "ann", mechanisms: tuple[int, ...] = (2, 1)
) -> LoginForClient:
    return LoginForClient("SASL", "127.0.0.1", port, client, user, mechanisms)


def attempt(port: int, user: str = "ann", listener: str = "SASL") -> AttemptLogin:
    return AttemptLogin(listener, "127.0.0.1", port, user)


def ask(logins: Logins, message: Any) -> Any:
    replies: Any = Replies()
    logins.serve(replies, 1, message)
    return replies.bodies[0] if replies.bodies else None


def test_wrong_passwords_at_the_http_port_count_for_its_clients_only(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        logins = Logins(made.broker, None)
        turns = []
        for port in range(200):
            ask(logins, announced(port, "192.0.2.1", f"user-{port}"))
            turns.append(ask(logins, attempt(port, f"user-{port}")))
        assert {turn.host for turn in turns} == {"192.0.2.1"}
        assert None in {turn.wait_s for turn in turns}, "too many wait"
        assert ask(logins, attempt(300)) == LoginTurn(0, "127.0.0.1"), "a client of this host"
        ask(logins, announced(301, "192.0.2.2"))
        assert ask(logins, attempt(301)) == LoginTurn(0, "192.0.2.2")


def test_an_announced_login_counts_once_and_not_for_another_connection() -> None:
    relayed = RelayedLogins()
    relayed.put(announced(1, "192.0.2.1"), 0)
    assert relayed.take(attempt(2), 0) == "127.0.0.1"
    assert relayed.take(attempt(1, listener="OTHER"), 0) == "127.0.0.1"
    assert relayed.take(attempt(1, "eve"), 0) == "127.0.0.1", "from this port to another address or site"
    assert relayed.take(attempt(1), RELAYED_NS) == "192.0.2.1"
    assert relayed.take(attempt(1), RELAYED_NS) == "127.0.0.1"
    relayed.put(announced(1, "192.0.2.1"), 0)
    assert relayed.take(attempt(1), RELAYED_NS + 1) == "127.0.0.1", "the http process gave it up"


def test_a_bounded_number_of_announced_logins_is_kept() -> None:
    relayed = RelayedLogins()
    for port in range(MAX_RELAYED + 1):
        relayed.put(announced(port, "192.0.2.1"), 0)
    found = [relayed.take(attempt(port), 0) for port in (0, 1, MAX_RELAYED)]
    assert found == ["127.0.0.1", "192.0.2.1", "192.0.2.1"]


def test_a_user_logs_in_by_the_first_mechanism_that_it_has(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        logins = Logins(made.broker, None)
        ours = [
            ScramCredentialUpsertion(user, mechanism, 4096, b"s" * 20, bytes(32))
            for user, mechanism in (("both", 1), ("both", 2), ("old", 1), ("new", 2))
        ]
        for each in ours:
            asyncio.run(alter_scram_credentials(made.broker, [], [each]))

        def chosen(user: str, *mechanisms: int) -> Any:
            return ask(logins, announced(1, "192.0.2.1", user, mechanisms))

        assert [chosen(user, 2, 1) for user in ("both", "old", "new")] == [2, 1, 2]
        assert [chosen(user, 1) for user in ("both", "old", "new", "nobody")] == [1] * 4
        unknown = Counter(chosen(f"nobody-{number}", 2, 1) for number in range(300))
        assert 60 < unknown[1] < 140, "one user of three has none but the second"
