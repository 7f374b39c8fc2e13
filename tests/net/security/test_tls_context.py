"""TLS contexts: PEM from files and from texts, what is refused, and whose certificate is which user."""

import shutil
import ssl
from pathlib import Path

import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.net.security.tls_context import ANONYMOUS, TlsError, context_of, user_of
from tests.certificates import certificate

PEM = {"ssl.keystore.type": "PEM", "ssl.truststore.type": "PEM"}


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with k.key, k.crt and both in k.pem."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make certificates with")
    folder = tmp_path_factory.mktemp("pem")
    certificate(folder, "k", "/CN=k")
    (folder / "k.pem").write_text((folder / "k.key").read_text() + (folder / "k.crt").read_text())
    return folder


def context(**settings: str) -> ssl.SSLContext:
    named = {key.replace("_", "."): value for key, value in settings.items()}
    listeners = {"listeners": "PLAINTEXT://:0,SSL://:0"}
    return context_of(BrokerConfig({**listeners, **PEM, **named}), "SSL")


def test_keys_come_from_a_file_or_from_the_settings(pem: Path) -> None:
    assert context(ssl_keystore_location=str(pem / "k.pem")).verify_mode is ssl.CERT_NONE
    texts = {
        "ssl_keystore_key": (pem / "k.key").read_text(),
        "ssl_keystore_certificate_chain": (pem / "k.crt").read_text(),
    }
    made = context(**texts)
    assert (made.minimum_version, made.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


def test_clients_are_checked_against_the_trust_store(pem: Path) -> None:
    keys = {"ssl_keystore_location": str(pem / "k.pem"), "ssl_client_auth": "required"}
    made = context(**keys, ssl_truststore_location=str(pem / "k.crt"))
    assert made.verify_mode is ssl.CERT_REQUIRED
    assert len(made.get_ca_certs()) == 1
    with pytest.raises(TlsError, match="truststore"):
        context(**keys)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"ssl_keystore_type": "JKS"},
        {"ssl_keystore_location": "/nowhere"},
        {"ssl_keystore_key": "nonsense", "ssl_keystore_certificate_chain": "nonsense"},
        {"ssl_enabled_protocols": "SSLv3"},
        {"ssl_cipher_suites": "TLS_AES_128_GCM_SHA256"},
        {"ssl_principal_mapping_rules": "RULE:^CN=(.*?),.*$/$1/"},
    ],
)
def test_what_can_not_be_honoured_is_refused(settings: dict[str, str]) -> None:
    with pytest.raises(TlsError):
        context(**settings)


def test_a_user_is_the_subject_with_the_most_specific_name_first() -> None:
    subject = ((("countryName", "DE"),), (("organizationName", "a, b"),), (("commonName", "#c "),))
    assert user_of({"subject": subject}) == "CN=\\#c\\ ,O=a\\, b,C=DE"
    assert user_of(None) == user_of({}) == ANONYMOUS
