"""Client settings of Java and of librdkafka mean the same here, for both client libraries."""

from pathlib import Path

import pytest

from kbroker.cli.client_properties import parse_pairs, read, to_java, to_kafka_python, to_librdkafka
from kbroker.cli.failures import UsageFailed

JAAS = "org.apache.kafka.common.security.scram.ScramLoginModule required username=\"ada\" password='s;cr et';"


def test_librdkafkas_name_of_the_mechanism_reaches_both_libraries(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SASL_SSL\nsasl.mechanisms=PLAIN\n")
    settings = read(file)
    assert settings == {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
    assert to_kafka_python(settings) == {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}


def test_javas_sasl_settings_reach_both_libraries(tmp_path: Path) -> None:
    file, trusted = tmp_path / "client.properties", tmp_path / "ca.pem"
    trusted.touch()
    file.write_text(
        "# secret\nbootstrap.servers=b:1\nsecurity.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
        f"sasl.jaas.config={JAAS}\nssl.truststore.type=PEM\nssl.truststore.location={trusted}\n"
        "ssl.endpoint.identification.algorithm=\n"
    )
    settings = read(file)
    assert settings == {
        "bootstrap.servers": "b:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "ada",
        "sasl.password": "s;cr et",
        "ssl.ca.location": str(trusted),
        "ssl.endpoint.identification.algorithm": "none",
    }
    assert to_kafka_python(settings) == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "ada",
        "sasl_plain_password": "s;cr et",
        "ssl_cafile": str(trusted),
        "ssl_check_hostname": False,
    }


def test_a_pem_keystore_is_certificate_and_key() -> None:
    found = to_librdkafka(
        {"ssl.keystore.type": "PEM", "ssl.keystore.location": "/me.pem", "ssl.key.password": "p"}
    )
    assert to_kafka_python(found) == {
        "ssl_certfile": "/me.pem",
        "ssl_keyfile": "/me.pem",
        "ssl_password": "p",
    }


def test_librdkafkas_settings_stay_as_they_are() -> None:
    settings = {"sasl.username": "ada", "socket.keepalive.enable": "true"}
    assert to_librdkafka(settings) == settings


def test_a_file_of_javas_clients_is_taken_as_it_is() -> None:
    """Settings without a meaning here are left out; those of security never are."""
    java = {
        "request.timeout.ms": "60000",
        "key.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
        "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor",
        "ssl.enabled.protocols": "TLSv1.3",
    }
    assert to_librdkafka({**java, "client.id": "me"}) == {"client.id": "me"}
    assert to_librdkafka({"ssl.cipher.suites": "X"}) == {"ssl.cipher.suites": "X"}


def test_an_unreadable_property_or_file_is_named() -> None:
    with pytest.raises(UsageFailed, match=r"ssl\.truststore\.type"):
        to_librdkafka({"ssl.truststore.type": "JKS"})
    with pytest.raises(UsageFailed, match=r"security\.protocol=SASL: expected one of PLAINTEXT, SSL, SASL_"):
        to_librdkafka({"security.protocol": "SASL"})
    with pytest.raises(UsageFailed, match=r"sasl\.jaas\.config"):
        to_librdkafka({"sasl.jaas.config": "SomeModule required;"})
    with pytest.raises(UsageFailed, match="cannot read"):
        read(Path("missing.properties"))
    with pytest.raises(UsageFailed, match="expected key=value"):
        parse_pairs("--config", ["novalue"])


@pytest.mark.parametrize("password", ['a"b', "a'b", "a\\b", 'a\\"; username="bob', ""])
def test_a_password_with_quotes_is_read_as_it_was_written(password: str) -> None:
    settings = {"sasl.mechanism": "PLAIN", "sasl.username": "ada", "sasl.password": password}
    assert to_librdkafka(to_java(settings)) == settings


def test_an_escaped_quote_does_not_end_a_password_in_single_quotes() -> None:
    found = to_librdkafka({"sasl.jaas.config": JAAS.replace("s;cr et", r"it\'s")})
    assert found["sasl.password"] == "it's"


def test_a_login_by_a_delegation_token_is_refused_by_name() -> None:
    with pytest.raises(UsageFailed, match="delegation token"):
        to_librdkafka({"sasl.jaas.config": JAAS.replace("username", 'tokenauth="true" username')})
    assert to_librdkafka({"sasl.jaas.config": JAAS.replace("ada", "tokenauth")})


@pytest.mark.parametrize("key", ["ssl.truststore.location", "ssl.keystore.location", "ssl.key.location"])
def test_a_missing_file_is_named(key: str, tmp_path: Path) -> None:
    file, store = tmp_path / "client.properties", tmp_path / "ca.pem"
    file.write_text(f"security.protocol=SSL\n{key}={store}\n")
    with pytest.raises(UsageFailed, match=f"{key}: cannot read {store}: No such file or directory"):
        read(file)
    store.write_text("")
    assert str(store) in read(file).values()
