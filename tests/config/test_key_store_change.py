"""Which new certificates may replace the old one of a TLS listener; the texts are those that Apache
Kafka 4.3.1 answers."""

from collections.abc import Sequence
from datetime import UTC, datetime
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from kbroker.config.broker import BrokerConfig
from kbroker.config.key_store import Chains
from kbroker.config.key_store_change import adds_trust, changes_stores, incompatible

KEY = ec.generate_private_key(ec.SECP256R1())
K = ("O", "x"), ("CN", "k")
IDS = {"O": NameOID.ORGANIZATION_NAME, "CN": NameOID.COMMON_NAME}
A, B, HERE = x509.DNSName("a"), x509.DNSName("b"), x509.IPAddress(ip_address("127.0.0.1"))


def chain(subject: Sequence[tuple[str, str]] = K, *names: x509.GeneralName) -> bytes:
    """A self-signed certificate as PEM."""
    name = x509.Name([x509.NameAttribute(IDS[kind], value) for kind, value in subject])
    builder = x509.CertificateBuilder(name, name, KEY.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
    builder = builder.not_valid_after(datetime(2040, 1, 1, tzinfo=UTC))
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(KEY, hashes.SHA256()).public_bytes(Encoding.PEM)


def config(**settings: str) -> BrokerConfig:
    return BrokerConfig({key.replace("_", "."): value for key, value in settings.items()})


def pem(*chains: bytes) -> Chains:
    return tuple(("kafka", each) for each in chains)


def refusal(old: bytes, new: bytes, **settings: str) -> str | None:
    return incompatible(config(**settings), "TLS", pem(old), pem(new))


OLD = chain(K, A, B, HERE)


def test_the_same_names_and_further_ones_are_taken() -> None:
    assert refusal(OLD, chain(K, HERE, B, A)) is None
    assert refusal(OLD, chain(K, A, B, HERE, x509.UniformResourceIdentifier("spiffe://x"))) is None
    assert refusal(chain(K), chain(K)) is None


def test_a_subject_is_compared_without_case_and_further_blanks() -> None:
    assert refusal(chain(K), chain((("O", " X"), ("CN", "K ")))) is None


@pytest.mark.parametrize(
    ("new", "dn"),
    [((("O", "x"), ("CN", "other")), "CN=other, O=x"), ((("CN", "k"), ("O", "x")), "O=x, CN=k")],
)
def test_another_subject_is_refused_unless_allowed(new: Sequence[tuple[str, str]], dn: str) -> None:
    other = chain(new, A, B, HERE)
    assert refusal(OLD, other) == (
        "Keystore DistinguishedName does not match:  existing={alias=kafka, DN=CN=k, O=x}, "
        f"new={{alias=kafka, DN={dn}}}"
    )
    assert refusal(OLD, other, ssl_allow_dn_changes="true") is None
    assert refusal(OLD, other, ssl_allow_san_changes="true") is not None


def test_a_missing_alternative_name_is_refused_unless_allowed() -> None:
    less = chain(K, A)
    assert refusal(OLD, less) == (
        "Keystore SubjectAltNames do not match:  existing={alias=kafka, SAN=[[2, a], [2, b], [7, 127.0.0.1]]}, "
        "new={alias=kafka, SAN=[[2, a]]}"
    )
    assert refusal(OLD, chain(K)) is not None
    assert refusal(OLD, less, ssl_allow_san_changes="true") is None
    assert refusal(OLD, less, ssl_allow_dn_changes="true") is not None


def test_a_listener_may_allow_what_the_others_do_not() -> None:
    allowed = BrokerConfig({"listener.name.tls.ssl.allow.san.changes": "true"})
    assert incompatible(allowed, "TLS", pem(OLD), pem(chain(K))) is None
    assert incompatible(allowed, "OTHER", pem(OLD), pem(chain(K))) is not None


def test_an_unreadable_certificate_replaces_none() -> None:
    assert refusal(OLD, b"half a file") == "the new certificate cannot be read"
    assert refusal(b"what only OpenSSL reads", OLD) is None


def test_the_entries_of_a_store_are_compared_one_by_one() -> None:
    named = (("CN", "other"),)
    other = chain(named, A)
    old = (("a", OLD), ("b", other))
    assert incompatible(config(), "TLS", old, (("a", chain(K, A, B, HERE)), ("b", chain(named, A)))) is None
    assert incompatible(config(), "TLS", old, (("b", other), ("a", OLD))) == (
        "Keystore DistinguishedName does not match:  existing={alias=a, DN=CN=k, O=x}, "
        "new={alias=b, DN=CN=other}"
    )
    assert incompatible(config(), "TLS", old, (("a", OLD), ("b", chain(named, B)))) == (
        "Keystore SubjectAltNames do not match:  existing={alias=b, SAN=[[2, a]]}, new={alias=b, SAN=[[2, b]]}"
    )


def test_a_store_keeps_the_number_of_its_entries_unless_all_changes_are_allowed() -> None:
    two = (("a", OLD), ("b", chain(K, A)))
    for allowed in ({}, {"ssl_allow_dn_changes": "true"}, {"ssl_allow_san_changes": "true"}):
        assert incompatible(config(**allowed), "TLS", two, two[:1]) == (
            "Keystore entries do not match, existing store contains 2 entries, new store contains 1 entries"
        )
    both = config(ssl_allow_dn_changes="true", ssl_allow_san_changes="true")
    assert incompatible(both, "TLS", two, two[:1]) is None


def test_stores_change_with_their_settings() -> None:
    before = config()
    after = BrokerConfig({"listener.name.tls.ssl.truststore.location": "/t.pem"})
    assert changes_stores(before, after, "TLS")
    assert not changes_stores(before, after, "OTHER")
    assert not changes_stores(before, config(ssl_client_auth="required"), "TLS")
    assert adds_trust(before, after, "TLS")
    assert not adds_trust(after, after, "TLS")
