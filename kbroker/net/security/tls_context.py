"""How a TLS listener shows itself and whom it trusts: Kafka's ssl.* settings as an OpenSSL context.

Keys and certificates are PEM, as files (`ssl.keystore.location`) or as text in the settings (KIP-651).
"""

import os
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from kbroker.config.broker import BrokerConfig
from kbroker.net.security.tls_alert import TellingContext

VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
RDN_NAMES: Mapping[str, str] = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
"""Attributes that RFC 2253 has names for."""
ANONYMOUS = "ANONYMOUS"


Text = Callable[[str], str | None]


class TlsError(Exception):
    """Settings of which no context can be made."""


def context_of(config: BrokerConfig, listener: str) -> ssl.SSLContext:
    """The context of a listener. Raises TlsError."""

    def text(name: str) -> str | None:
        value = config.of_listener(listener, name)
        return value if isinstance(value, str) and value else None

    context = TellingContext(ssl.PROTOCOL_TLS_SERVER)
    enabled = config.of_listener(listener, "ssl.enabled.protocols")
    wanted = sorted(
        VERSIONS[name] for name in (enabled if isinstance(enabled, tuple) else ()) if name in VERSIONS
    )
    if not wanted:
        raise TlsError(f"ssl.enabled.protocols has none of {', '.join(VERSIONS)}")
    context.minimum_version, context.maximum_version = wanted[0], wanted[-1]
    for name, only in (("ssl.cipher.suites", ()), ("ssl.principal.mapping.rules", "DEFAULT")):
        if config.of_listener(listener, name) != only:
            raise TlsError(f"{name} can not be changed yet")
    try:
        _load_key(context, text)
        context.verify_mode = CLIENT_AUTH[text("ssl.client.auth") or "none"]
        if context.verify_mode is not ssl.CERT_NONE:
            _load_trust(context, text)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise TlsError(f"the key or trust store can not be used: {error}") from None
    return context


def _load_key(context: ssl.SSLContext, text: Text) -> None:
    if text("ssl.keystore.type") != "PEM":
        raise TlsError("ssl.keystore.type: only PEM is supported")
    password = text("ssl.key.password")
    location, key, chain = map(
        text, ("ssl.keystore.location", "ssl.keystore.key", "ssl.keystore.certificate.chain")
    )
    if key is not None and chain is not None:
        with _file(chain) as chain_file, _file(key) as key_file:
            context.load_cert_chain(chain_file, key_file, password or "")
    elif location is not None:
        context.load_cert_chain(location, None, password or "")
    else:
        raise TlsError(
            "ssl.keystore.location, or ssl.keystore.key and ssl.keystore.certificate.chain, must be set"
        )


def _load_trust(context: ssl.SSLContext, text: Text) -> None:
    location, certificates = text("ssl.truststore.location"), text("ssl.truststore.certificates")
    if text("ssl.truststore.type") != "PEM":
        raise TlsError("ssl.truststore.type: only PEM is supported")
    if certificates is not None:
        context.load_verify_locations(cadata=certificates)
    elif location is not None:
        context.load_verify_locations(cafile=location)
    else:
        raise TlsError(
            "ssl.truststore.location or ssl.truststore.certificates must be set for ssl.client.auth"
        )


@contextmanager
def _file(text: str) -> Iterator[str]:
    """A name under which OpenSSL reads a text that is in no file."""
    fd = os.memfd_create("pem")
    try:
        os.write(fd, text.encode())
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)


def user_of(certificate: Mapping[str, object] | None) -> str:
    """The principal's name of a client's certificate (ssl.SSLSocket.getpeercert): its subject as RFC 2253 writes it."""
    subject = (certificate or {}).get("subject", ())
    assert isinstance(subject, tuple)
    rdns = ["+".join(f"{_name(kind)}={_escaped(value)}" for kind, value in rdn) for rdn in reversed(subject)]
    return ",".join(rdns) or ANONYMOUS


def _name(kind: str) -> str:
    return RDN_NAMES.get(kind, kind)


def _escaped(value: str) -> str:
    text = "".join("\\" + char if char in ',+"\\<>;' else char for char in value)
    if text[:1] in ("#", " "):
        text = "\\" + text
    return text[:-1] + "\\ " if text.endswith(" ") and len(text) > 1 else text
