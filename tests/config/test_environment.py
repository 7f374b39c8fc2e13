"""Variables as settings; the cases are those of Kafka's KafkaDockerWrapperTest."""

from pathlib import Path

import pytest

from kbroker.config import environment
from kbroker.config.broker import BrokerConfig
from kbroker.config.setting import ConfigError


def test_variables_name_settings_as_in_kafkas_images() -> None:
    variables = {
        "KAFKA_TOOLS_LOG4J_LOGLEVEL": "TRACE",
        "KAFKA_VALID_PROPERTY": "Value",
        "SOME_VARIABLE": "Some Value",
        "KAFKA_VALID___PROPERTY__ALL_CASES": "All Cases Value",
        "KAFKA_KAFKA_VALID_PROPERTY": "Value",
    }
    assert environment.settings(variables) == {
        "valid.property": "Value",
        "valid-property_all.cases": "All Cases Value",
        "kafka.valid.property": "Value",
    }


@pytest.mark.parametrize("variable", [*sorted(environment.NO_SETTINGS), "KAFKA_", "KAFKA", "kafka_log_dirs"])
def test_variables_of_scripts_and_other_programs_are_no_settings(variable: str) -> None:
    assert environment.setting_of(variable) is None


def test_the_environment_wins_over_the_file() -> None:
    found = environment.over(
        {"log.dirs": "/file", "num.partitions": "2"}, {"KAFKA_LOG_DIRS": "/variable", "HOME": "/"}
    )
    assert found == {"log.dirs": "/variable", "num.partitions": "2"}


def test_listeners_of_the_environment_replace_what_the_file_advertises() -> None:
    file = {"listeners": "PLAINTEXT://:1", "advertised.listeners": "PLAINTEXT://file:1"}
    found = environment.over(file, {"KAFKA_LISTENERS": "PLAINTEXT://:2"})
    assert found == {"listeners": "PLAINTEXT://:2"}
    both = {"KAFKA_LISTENERS": "PLAINTEXT://:2", "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://here:2"}
    assert environment.over(file, both)["advertised.listeners"] == "PLAINTEXT://here:2"


def test_advertised_listeners_that_the_file_has_not_are_listened_on() -> None:
    file = {"listeners": "PLAINTEXT://:1", "advertised.listeners": "PLAINTEXT://file:1"}
    advertised = "INSIDE://kafka:19092,OUTSIDE://[::1]:9092"
    found = environment.over(file, {"KAFKA_ADVERTISED_LISTENERS": advertised})
    assert found == {
        "listeners": "INSIDE://0.0.0.0:19092,OUTSIDE://0.0.0.0:9092",
        "advertised.listeners": advertised,
    }


@pytest.mark.parametrize("file", [{}, {"listeners": "PLAINTEXT://:9092,OTHER://:1"}])
def test_advertised_listeners_that_the_file_has_leave_its_ports(file: dict[str, str]) -> None:
    """A port that the container publishes may differ from the one inside."""
    found = environment.over(file, {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://host:9999"})
    assert found == file | {"advertised.listeners": "PLAINTEXT://host:9999"}


def test_files_of_tls_are_found_where_apache_kafkas_images_have_them(tmp_path: Path) -> None:
    (tmp_path / "creds").write_text("secret\n")
    variables = {
        "KAFKA_SSL_KEYSTORE_FILENAME": "server.p12",
        "KAFKA_SSL_KEYSTORE_CREDENTIALS": "creds",
        "KAFKA_SSL_KEY_CREDENTIALS": "creds",
        "KAFKA_SSL_TRUSTSTORE_FILENAME": "clients.p12",
        "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": "creds",
    }
    assert environment.over({}, variables, tmp_path) == {
        "ssl.keystore.location": str(tmp_path / "server.p12"),
        "ssl.keystore.password": "secret",
        "ssl.key.password": "secret",
        "ssl.truststore.location": str(tmp_path / "clients.p12"),
        "ssl.truststore.password": "secret",
    }


def test_a_file_of_tls_that_cannot_be_read_is_named_with_its_variable(tmp_path: Path) -> None:
    variables = {"KAFKA_SSL_KEY_CREDENTIALS": "none"}
    with pytest.raises(ConfigError, match=r"KAFKA_SSL_KEY_CREDENTIALS: cannot read .*/none: No such file"):
        environment.over({}, variables, tmp_path)


def test_a_compose_file_written_for_apache_kafka_gives_valid_settings() -> None:
    variables = {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_LISTENERS": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "KAFKA_NUM_PARTITIONS": "3",
    }
    config, warnings = BrokerConfig.load(environment.over({}, variables), {})
    assert [(one.host, one.port) for one in config.listeners] == [("localhost", 9092)]
    assert config.get_int("num.partitions") == 3
    assert all("has no effect" in warning for warning in warnings)


def test_a_value_that_is_not_utf8_is_refused_without_it() -> None:
    with pytest.raises(ConfigError, match=r"^KAFKA_LOG_DIRS: not UTF-8$"):
        environment.settings({"KAFKA_LOG_DIRS": "/d\udcffta", "OTHER": "\udcff"})
