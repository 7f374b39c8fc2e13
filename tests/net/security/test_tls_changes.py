"""New settings of TLS listeners are checked before they are stored: the answers of AlterConfigs are
Apache Kafka's."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kbroker.api.control_process import check_tls_changes
from kbroker.config.broker import BrokerConfig
from kbroker.config.setting import ConfigError
from kbroker.net.security.tls_changes import TlsChanges
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages import incremental_alter_configs as iac
from tests.api.in_process import ask
from tests.control.fakes import world
from tests.net.security.tls_stores import config_of, put

BROKER, SET = 4, 0
LOCATION = "listener.name.ssl.ssl.keystore.location"


def refusal(changes: TlsChanges, before: BrokerConfig, **own: str) -> str:
    after = before.with_dynamic(cluster={}, own={key.replace("_", "."): value for key, value in own.items()})
    with pytest.raises(ConfigError) as refused:
        changes.check(before, after)
    return str(refused.value)


def test_a_replaced_file_counts_once_the_listeners_take_it(tmp_path: Path) -> None:
    store = tmp_path / "k.pem"
    config = config_of(put(store, "k"))
    changes = TlsChanges(config)
    put(store, "other")  # the listeners refuse this one
    after = config.with_dynamic(cluster={}, own={LOCATION: put(tmp_path / "again.pem", "k")})
    changes.check(config, after)
    other = put(tmp_path / "copy.pem", "other")
    assert "DN=CN=k}, new={alias=kafka, DN=CN=other}" in refusal(changes, config, **{LOCATION: other})


def test_a_store_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    config = config_of(put(tmp_path / "k.pem", "k"))
    (tmp_path / "bad.pem").write_text("half a file")
    why = refusal(TlsChanges(config), config, **{LOCATION: str(tmp_path / "bad.pem")})
    assert why.startswith("Validation of dynamic config update of SSLFactory failed: ")
    assert "bad.pem" in why


def test_a_trust_store_cannot_be_added_while_the_listener_runs(tmp_path: Path) -> None:
    config = config_of(put(tmp_path / "k.pem", "k"))
    trust = {"listener.name.ssl.ssl.truststore.location": str(tmp_path / "k.crt")}
    assert "Cannot add SSL truststore to an existing listener" in refusal(TlsChanges(config), config, **trust)


def test_other_settings_read_no_store(tmp_path: Path) -> None:
    config = config_of(put(tmp_path / "k.pem", "k"))
    changes = TlsChanges(config)
    (tmp_path / "k.pem").unlink()
    changes.check(config, config.with_dynamic(cluster={}, own={"max.connections": "50"}))


def test_alter_configs_refuses_a_certificate_for_other_names(tmp_path: Path) -> None:
    store = put(tmp_path / "k.pem", "k")
    settings = {
        "listeners": "PLAINTEXT://:0,SSL://:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": store,
    }

    def alter(location: str) -> tuple[int, str]:
        resource = iac.AlterConfigsResource(BROKER, "1", [iac.AlterableConfig(LOCATION, SET, location)])
        request = iac.IncrementalAlterConfigsRequest([resource], False)
        answer: Any = asyncio.run(ask(made.broker, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request))
        return answer.responses[0].error_code, answer.responses[0].error_message

    with world(tmp_path / "world", settings) as made:
        check_tls_changes(made.broker)
        config_error = "org.apache.kafka.common.config.ConfigException: "
        assert alter(put(tmp_path / "other.pem", "other")) == (
            ErrorCode.INVALID_REQUEST,
            (
                f"Invalid value {config_error}Validation of dynamic config update of SSLFactory failed: {config_error}"
                "Keystore DistinguishedName does not match:  existing={alias=kafka, DN=CN=k}, "
                "new={alias=kafka, DN=CN=other} for configuration Invalid dynamic configuration"
            ),
        )
        assert LOCATION not in made.broker.dynamic_settings()
        renewed = put(tmp_path / "renewed.pem", "k")
        assert alter(renewed)[0] == ErrorCode.NONE
        assert made.broker.dynamic_settings()[LOCATION] == renewed
