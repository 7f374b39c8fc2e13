"""Commands of both client libraries take the TLS settings of librdkafka."""

import ssl
from pathlib import Path

import pytest

from kbroker.cli.client_properties import to_kafka_python
from kbroker.cli.client_tls import context_of, needs_context
from tests.certificates import certificate
from tests.cli.client_settings import settings
from tests.cli.conftest import Shell
from tests.conftest import BrokerFactory
from tests.peer.kbroker_node import KBroker

SSL = {"security.protocol": "ssl"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With an authority of its own, `broker.crt`."""
    certificate(tmp_path, "broker", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1")
    return tmp_path


def test_settings_that_kafka_python_knows_need_no_context(folder: Path) -> None:
    authority = str(folder / "broker.crt")
    assert to_kafka_python(SSL | {"ssl.ca.location": authority}) == {
        "security_protocol": "SSL",
        "ssl_cafile": authority,
    }
    assert "ssl_context" not in to_kafka_python({"ssl.ca.pem": "x"})  # without TLS


def test_a_text_and_a_folder_name_authorities(folder: Path) -> None:
    text = {"ssl.ca.pem": (folder / "broker.crt").read_text()}
    assert needs_context(text)
    assert [each["subject"] for each in context_of(text).get_ca_certs()] == [
        ((("commonName", "localhost"),),)
    ]
    assert needs_context({"ssl.ca.location": str(folder)})
    assert context_of({"ssl.ca.location": str(folder)}).get_ca_certs() == []  # it is read on demand
    assert needs_context({"ssl.ca.location": "probe"})
    context_of({"ssl.ca.location": "probe"})


def test_checks_are_those_of_the_settings(folder: Path) -> None:
    trusting = SSL | {"ssl.ca.location": str(folder / "broker.crt")}
    plain = context_of(trusting)
    assert (plain.verify_mode, plain.check_hostname) == (ssl.CERT_REQUIRED, True)
    anyone = to_kafka_python(trusting | {"enable.ssl.certificate.verification": "false"})["ssl_context"]
    assert (anyone.verify_mode, anyone.check_hostname) == (ssl.CERT_NONE, False)
    unnamed = context_of(trusting | {"ssl.endpoint.identification.algorithm": "none"})
    assert (unnamed.verify_mode, unnamed.check_hostname) == (ssl.CERT_REQUIRED, False)
    suites = context_of(trusting | {"ssl.cipher.suites": "ECDHE-ECDSA-AES128-GCM-SHA256"}).get_ciphers()
    assert "ECDHE-ECDSA-AES128-GCM-SHA256" in [each["name"] for each in suites]
    assert "ECDHE-RSA-AES256-GCM-SHA384" not in [each["name"] for each in suites]


def test_a_client_proves_itself_by_texts_or_files(folder: Path) -> None:
    texts = {f"ssl.{kind}.pem": (folder / f"broker.{end}").read_text() for kind, end in PAIR}
    files = {f"ssl.{kind}.location": str(folder / f"broker.{end}") for kind, end in PAIR}
    for given in (texts, files):
        context_of(given | {"enable.ssl.certificate.verification": "false"})
    certificate(folder, "other", "/CN=other")
    with pytest.raises(ssl.SSLError):  # the key is read, too
        context_of(texts | {"ssl.key.pem": (folder / "other.key").read_text()})


PAIR = (("certificate", "crt"), ("key", "key"))


@pytest.fixture
def broker(broker_factory: BrokerFactory, folder: Path) -> KBroker:
    return broker_factory(settings(folder, "SSL"))


@pytest.mark.compat
def test_commands_of_both_libraries_take_the_same_file(shell: Shell, broker: KBroker, folder: Path) -> None:
    escaped = (folder / "broker.crt").read_text().replace("\n", "\\n")
    for text in (f"ssl.ca.pem={escaped}", "enable.ssl.certificate.verification=false"):
        file = folder / "client.properties"
        file.write_text(f"security.protocol=SSL\n{text}\n")
        for command in (("topics", "list"), ("cluster", "features"), ("groups", "list")):
            shell(*command, "-b", broker.bootstrap, "--command-config", file)


def test_a_login_that_kafka_python_lacks_is_refused_at_once(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n")
    done = shell("groups", "list", "-b", "127.0.0.1:1", "--command-config", file, code=2)
    (line,) = done.stderr.splitlines()
    assert line.endswith("sasl.mechanism=OAUTHBEARER: this command can log in with PLAIN and SCRAM only")
