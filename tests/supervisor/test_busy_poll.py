"""A broker whose processes poll says at its start if it has too few cores for that."""

from pathlib import Path

import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.supervisor import supervisor
from kbroker.supervisor.busy_poll import too_few_cores

SETTINGS = {"num.network.threads": "2", "num.io.threads": "1", "kbroker.busy.poll.io.us": "200"}


def test_each_process_needs_a_core_and_the_rest_two() -> None:
    config = BrokerConfig(SETTINGS)
    assert too_few_cores(config, 5) == ""
    warning = too_few_cores(config, 4)
    assert warning.startswith("kbroker.busy.poll.io.us=200: ")
    assert "2 network processes and 1 IO workers need 5 cores, and there are 4" in warning
    both = BrokerConfig(SETTINGS | {"kbroker.busy.poll.network.us": "7"})
    assert too_few_cores(both, 4).startswith(
        "kbroker.busy.poll.network.us=7 and kbroker.busy.poll.io.us=200: "
    )


@pytest.mark.parametrize(("settings", "warns"), [(SETTINGS, True), ({"num.io.threads": "1"}, False)])
def test_a_broker_whose_processes_sleep_does_not_warn(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    settings: dict[str, str],
    warns: bool,
) -> None:
    monkeypatch.setattr(supervisor, "cores", lambda: 1)
    supervisor._warn_of_polling(BrokerConfig({"log.dirs": str(tmp_path), **settings}))
    assert ("need 5 cores, and there are 1" in caplog.text) is warns
