"""Every API, asked by users with every kind of grant: kbroker gives the answers that Apache Kafka
4.3.1 gave with its StandardAuthorizer."""

from pathlib import Path

import pytest

from kbroker.api.registry import APIS
from kbroker.protocol.api_keys import ApiKey
from tests.compat.acl_answers import RECORDED, Answers, deviations
from tests.compat.acl_matrix import settings
from tests.compat.acl_world import ALL, World
from tests.peer.kbroker_node import KBroker
from tests.peer.ports import free_port

pytestmark = [pytest.mark.compat, pytest.mark.short]


def test_users_with_every_grant_get_the_recorded_answers(tmp_path: Path) -> None:
    ports = free_port(), free_port()
    node = KBroker(tmp_path, dict(settings(*ports)))
    node.start()
    try:
        world = World(*ports)
        world.prepare()
        found = deviations(Answers.read(RECORDED), Answers.of(world))
    finally:
        node.stop()
    assert not found, found


def test_every_api_is_called_that_clients_use_after_their_login() -> None:
    """All but those that no ACL is about."""
    requested = {one.api for one in ALL}
    assert set(APIS) - requested == {
        ApiKey.API_VERSIONS,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
        ApiKey.PUSH_TELEMETRY,
    }


def test_another_answer_to_one_user_is_found(tmp_path: Path) -> None:
    recorded = Answers.read(RECORDED)
    assert not deviations(recorded, recorded)
    changed = tmp_path / "changed.json"
    recorded.write(changed)
    assert not deviations(recorded, Answers.read(changed))
    lines = changed.read_text().splitlines()
    (place,) = (number for number, line in enumerate(lines) if line.startswith('"end transaction v3":'))
    lines[place] = lines[place].replace('"error_code":', '"error_code":1', 1)
    changed.write_text("\n".join(lines))
    assert "end transaction v3" in deviations(recorded, Answers.read(changed))
