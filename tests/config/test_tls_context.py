"""TLS contexts: PEM from files and from texts, what is refused, and whose certificate is which
user."""

import shutil
import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12

from kbroker.config.broker import BrokerConfig
from kbroker.config.key_store import JKS_MAGIC
from kbroker.config.principals import ANONYMOUS
from kbroker.config.tls_ciphers import ALWAYS_TLS13, openssl_name
from kbroker.config.tls_context import TlsError, context_and_chains, context_of, user_of
from kbroker.http.certificates import Certificates
from kbroker.net.security.tls_listeners import TlsListeners
from tests import key_stores
from tests.certificates import certificate, dated
from tests.key_stores import made
from tests.net.security.tls_stores import looked
from tests.tls_client import Client

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


def test_a_pem_store_that_cannot_be_loaded_is_explained(pem: Path, tmp_path: Path) -> None:
    """OpenSSL says "PEM lib" to all but one of them."""
    certificate(tmp_path, "other", "/CN=other")
    key, chain = (pem / "k.key").read_bytes(), (pem / "k.crt").read_bytes()
    loaded = serialization.load_pem_private_key(key, None)
    encrypted = loaded.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )

    def refusal(content: bytes, **settings: str) -> str:
        (tmp_path / "store.pem").write_bytes(content)
        with pytest.raises(TlsError) as refused:
            context(ssl_keystore_location=str(tmp_path / "store.pem"), **settings)
        named, _, reason = str(refused.value).partition(" cannot be used: ")
        assert named == f"ssl.keystore.location={tmp_path / 'store.pem'}"
        return reason

    assert refusal(b"") == refusal(bytes(range(256))) == "there is no certificate in PEM"
    assert refusal(key) == "there is no certificate in PEM"
    assert refusal(chain) == "there is no private key in PEM"
    assert refusal((tmp_path / "other.key").read_bytes() + chain) == (
        "the private key does not belong to the first certificate"
    )
    assert refusal(encrypted + chain) == "the private key is encrypted: set ssl.key.password"
    assert refusal(encrypted + chain, ssl_key_password="wrong") == (
        "ssl.key.password is not the password of the private key"
    )


def test_a_client_may_not_begin_another_handshake_on_its_connection(pem: Path) -> None:
    """Each costs the broker more than the client; OpenSSL 1.1.1 allows any number of them."""
    assert ssl.OP_NO_RENEGOTIATION in context(ssl_keystore_location=str(pem / "k.pem")).options


def test_clients_are_checked_against_the_trust_store(pem: Path) -> None:
    keys = {"ssl_keystore_location": str(pem / "k.pem"), "ssl_client_auth": "required"}
    made = context(**keys, ssl_truststore_location=str(pem / "k.crt"))
    assert made.verify_mode is ssl.CERT_REQUIRED
    assert len(made.get_ca_certs()) == 1
    with pytest.raises(TlsError, match="truststore"):
        context(**keys)


def test_on_sasl_listeners_only_their_own_setting_asks_for_certificates(pem: Path) -> None:
    """As in Kafka (KIP-684): clients there log in by SASL."""
    settings = {
        "listeners": "PLAINTEXT://:0,SASL_SSL://:0,SSL://:1",
        **PEM,
        "ssl.keystore.location": str(pem / "k.pem"),
        "ssl.truststore.location": str(pem / "k.crt"),
        "ssl.client.auth": "required",
    }
    config, warnings = BrokerConfig.load({"log.dirs": "/d", **settings})
    assert context_of(config, "SASL_SSL").verify_mode is ssl.CERT_NONE
    assert context_of(config, "SSL").verify_mode is ssl.CERT_REQUIRED
    (warning,) = [each for each in warnings if "ssl.client.auth" in each]
    assert "no effect on listener SASL_SSL" in warning
    own = {"listener.name.sasl_ssl.ssl.client.auth": "requested"}
    config, warnings = BrokerConfig.load({"log.dirs": "/d", **settings, **own})
    assert context_of(config, "SASL_SSL").verify_mode is ssl.CERT_OPTIONAL
    assert not [each for each in warnings if "ssl.client.auth" in each]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"ssl_keystore_location": "/nowhere"},
        {"ssl_keystore_key": "nonsense", "ssl_keystore_certificate_chain": "nonsense"},
        {"ssl_enabled_protocols": "SSLv3"},
        {"ssl_cipher_suites": "TLS_NO_SUCH_SUITE"},
        {"ssl_principal_mapping_rules": "RULE:^CN=(.*?),.*$/$2/"},
    ],
)
def test_settings_that_cannot_be_honoured_are_refused(settings: dict[str, str]) -> None:
    with pytest.raises(TlsError):
        context(**settings)


def test_a_user_is_the_subject_with_the_most_specific_name_first() -> None:
    subject = ((("countryName", "DE"),), (("organizationName", "a, b"),), (("commonName", "#c "),))
    assert user_of({"subject": subject}) == "CN=\\#c\\ ,O=a\\, b,C=DE"
    assert user_of(None) == user_of({}) == ANONYMOUS


@pytest.fixture(scope="module")
def stores(pem: Path) -> Path:
    """k.p12 with key and certificate, trust.p12 with a certificate, both with the password
    "sesame"; k.jks; k.odd, which is no store."""
    key = serialization.load_pem_private_key((pem / "k.key").read_bytes(), None)
    chain = x509.load_pem_x509_certificate((pem / "k.crt").read_bytes())
    locked = serialization.BestAvailableEncryption(b"sesame")
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    (pem / "k.p12").write_bytes(pkcs12.serialize_key_and_certificates(b"k", key, chain, None, locked))
    (pem / "trust.p12").write_bytes(
        pkcs12.serialize_java_truststore([pkcs12.PKCS12Certificate(chain, b"k")], locked)
    )
    (pem / "k.jks").write_bytes(JKS_MAGIC + bytes(60))
    (pem / "k.odd").write_bytes(bytes(60))
    return pem


@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])
def test_keys_and_trust_come_from_pkcs12_stores_which_java_also_calls_jks(stores: Path, kind: str) -> None:
    made = context(
        ssl_keystore_type=kind, ssl_keystore_location=str(stores / "k.p12"), ssl_keystore_password="sesame",
        ssl_truststore_type=kind, ssl_truststore_location=str(stores / "trust.p12"),
        ssl_truststore_password="sesame", ssl_client_auth="required",
    )  # fmt: skip
    (found,) = made.get_ca_certs()
    assert found["subject"] == ((("commonName", "k"),),)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"ssl_keystore_location": "{}/k.jks"}, "keytool -importkeystore -srckeystore .*k.jks -destkeystore"),
        ({"ssl_keystore_location": "{}/k.p12", "ssl_keystore_password": "opensaysme"}, "password is wrong"),
        ({"ssl_keystore_location": "{}/k.pem"}, "a PEM file: set ssl.keystore.type=PEM"),
        ({"ssl_keystore_location": "{}/k.odd"}, "not a PKCS12 store"),
        ({"ssl_keystore_location": "{}/none.p12"}, "No such file"),
        ({"ssl_keystore_location": "{}/trust.p12", "ssl_keystore_password": "sesame"}, "no private key"),
    ],
)
def test_a_store_that_can_not_be_used_is_refused_with_the_reason(
    stores: Path, settings: dict[str, str], why: str
) -> None:
    named = {name: text.format(stores) for name, text in settings.items()}
    with pytest.raises(TlsError, match=why) as refused:
        context(ssl_keystore_type="JKS", **named)
    assert "opensaysme" not in str(refused.value)


def test_pem_has_one_key_as_in_kafka(pem: Path) -> None:
    key, chain = (pem / "k.key").read_text(), (pem / "k.crt").read_text()
    (pem / "two.pem").write_text(2 * (key + chain))
    with pytest.raises(TlsError, match=r"two\.pem: 2 private keys; PEM has one, several are for PKCS12"):
        context(ssl_keystore_location=str(pem / "two.pem"))
    with pytest.raises(TlsError, match=r"ssl\.keystore\.key: 2 private keys"):
        context(ssl_keystore_key=2 * key, ssl_keystore_certificate_chain=2 * chain)
    context(ssl_keystore_key=f"EC, not a PRIVATE KEY\n{key}", ssl_keystore_certificate_chain=2 * chain)


@pytest.mark.parametrize("index", [0, 1])
def test_the_settings_of_a_listener_hold_for_each_entry_of_its_store(tmp_path: Path, index: int) -> None:
    entries = [made("first", "first.example"), made("second", "second.example")]
    client = Client()
    keys = key_stores.settings(key_stores.put(tmp_path / "k.p12", *entries))
    server = context(
        **{name.replace(".", "_"): value for name, value in keys.items()},
        ssl_client_auth="required",
        ssl_truststore_certificates=entries[0].pem.decode(),
        ssl_cipher_suites="TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    )
    for trusted in (0, 1):
        (tmp_path / "c.pem").write_bytes(entries[trusted].key_pem + entries[trusted].pem)
        client.context.load_cert_chain(tmp_path / "c.pem")
        if trusted == 0:
            assert client.gets(server, f"{entries[index].alias}.example") == entries[index].chain[0]
            assert (client.user, client.suite) == ("CN=first", "ECDHE-ECDSA-AES128-GCM-SHA256")
            client.session = None
        else:
            with pytest.raises(ssl.SSLCertVerificationError):
                client.gets(server, f"{entries[index].alias}.example")


def test_the_certificate_that_ends_first_counts(tmp_path: Path) -> None:
    soon = datetime(2030, 1, 1, tzinfo=UTC)
    store = key_stores.put(tmp_path / "k.p12", made("a", "a.example"), made("b", "b.example", ends=soon))
    config = BrokerConfig({"listeners": "SSL://:0", **key_stores.settings(store)})
    assert list(Certificates(config).expiries()) == [("SSL", soon.timestamp())]


def test_suites_are_chosen_by_their_names_in_rfcs(pem: Path) -> None:
    keys = {"ssl_keystore_location": str(pem / "k.pem")}
    old = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
    made = context(**keys, ssl_cipher_suites=old)
    assert made.maximum_version is ssl.TLSVersion.TLSv1_2
    named = [each["name"] for each in made.get_ciphers() if each["protocol"] != "TLSv1.3"]
    assert named == ["ECDHE-ECDSA-AES128-GCM-SHA256"]
    newest = ",".join(ALWAYS_TLS13)
    assert context(**keys, ssl_cipher_suites=newest).minimum_version is ssl.TLSVersion.TLSv1_3
    both = context(**keys, ssl_cipher_suites=f"{newest},{old}")
    assert (both.minimum_version, both.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    for wrong in ("TLS_AES_128_GCM_SHA256", "TLS_RSA_WITH_NULL_SHA", "TLS_ECDHE_PSK_WITH_AES_128_CBC_SHA999"):
        with pytest.raises(TlsError, match=r"ssl\.cipher\.suites"):
            context(**keys, ssl_cipher_suites=wrong)


def test_without_suites_no_distribution_adds_weak_ones(pem: Path) -> None:
    """Debian's Python begins with all of OpenSSL's."""

    class Weak(ssl.SSLContext):
        def __new__(cls, protocol: int) -> "Weak":
            made = super().__new__(cls, protocol)
            made.set_ciphers("ALL:@SECLEVEL=0")
            return made

    config = BrokerConfig({"listeners": "SSL://:0", **PEM, "ssl.keystore.location": str(pem / "k.pem")})
    made, _ = context_and_chains(config, "SSL", Weak)
    old = [each["name"] for each in made.get_ciphers() if each["protocol"] != "TLSv1.3"]
    assert old
    assert not [name for name in old if name.endswith("-SHA") or not name.startswith(("ECDHE-", "DHE-"))]


def test_every_suite_of_openssl_has_the_name_that_rfcs_give_it() -> None:
    known = {
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
        "TLS_DHE_RSA_WITH_AES_256_CBC_SHA256": "DHE-RSA-AES256-SHA256",
        "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
        "TLS_ECDHE_ECDSA_WITH_AES_128_CCM": "ECDHE-ECDSA-AES128-CCM",
        "TLS_ECDHE_ECDSA_WITH_AES_256_CCM_8": "ECDHE-ECDSA-AES256-CCM8",
    }
    assert {suite: openssl_name(suite) for suite in known} == known
    openssl = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    openssl.set_ciphers("ALL:@SECLEVEL=0")
    assert set(known.values()) <= {each["name"] for each in openssl.get_ciphers()}


def test_the_end_of_a_certificate_is_known_and_changes_with_its_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def put(name: str, ends: datetime) -> None:
        dated(tmp_path, name, datetime(2020, 1, 1, tzinfo=UTC), ends)
        text = (tmp_path / f"{name}.key").read_text() + (tmp_path / f"{name}.crt").read_text()
        (tmp_path / "new.pem").write_text(text)
        (tmp_path / "new.pem").replace(tmp_path / "k.pem")

    first, second = datetime(2030, 1, 1, tzinfo=UTC), datetime(2031, 1, 1, tzinfo=UTC)
    put("a", first)
    settings = PEM | {"listeners": "SSL://:0", "ssl.keystore.location": str(tmp_path / "k.pem")}
    config = BrokerConfig(settings)
    certificates, listeners = Certificates(config), TlsListeners(config)
    assert list(certificates.expiries()) == [("SSL", first.timestamp())]
    before = listeners._contexts["SSL"].context
    listeners._reload_changed()
    assert listeners._contexts["SSL"].context is before
    put("a", second)
    assert list(certificates.expiries()) == [("SSL", second.timestamp())]
    looked(listeners)
    assert listeners._contexts["SSL"].context is not before
    now = listeners._contexts["SSL"].context
    (tmp_path / "k.pem").write_text("half a file")
    looked(listeners)
    assert listeners._contexts["SSL"].context is now
    assert f"ssl.keystore.location={tmp_path / 'k.pem'} cannot be used" in caplog.text
