"""OpenSSL contexts of TLS listeners, made from Kafka's ssl.* settings: own certificate and trusted
certificates.

Keys and certificates come from PEM or PKCS12 files, or as PEM text in the settings
(`config/key_store.py`).
"""

import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from kbroker.config.broker import BrokerConfig
from kbroker.config.key_store import (
    Chains,
    KeyEntry,
    KeyStoreError,
    Text,
    chains_of,
    client_auth,
    key_store,
    stamps,
    texts,
    trusted,
)
from kbroker.config.key_store_change import incompatible
from kbroker.config.principal_mapping import rules_of
from kbroker.config.principals import ANONYMOUS
from kbroker.config.setting import ConfigError
from kbroker.config.tls_ciphers import ALWAYS_TLS13, split
from kbroker.protocol.slices import each_paced

VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
DEFAULT_CIPHERS = "@SECLEVEL=2:ECDH+AESGCM:ECDH+CHACHA20:ECDH+AES:DHE+AES:!aNULL:!eNULL:!aDSS:!SHA1:!AESCCM"
"""Ciphers of TLS 1.2 without ssl.cipher.suites: those of Python as it is published. Distributions
build it with others: Debian's accepts CBC with SHA-1 and static RSA, too."""
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


class TlsError(Exception):
    """Settings from which no context can be built."""


def context_of(config: BrokerConfig, listener: str) -> ssl.SSLContext:
    """The context of a listener. Raises TlsError."""
    return context_and_chains(config, listener)[0]


def context_and_chains(
    config: BrokerConfig,
    listener: str,
    kind: type[ssl.SSLContext] = ssl.SSLContext,
    asks_clients: bool = True,
) -> tuple[ssl.SSLContext, Chains]:
    """The context of a listener, and what it presents. It holds the first entry of the key store,
    and hands clients over to the contexts of the others by the server name that they send.
    asks_clients: for certificates, by ssl.client.auth. Inside of a `Work`, a store with many keys
    takes many slices. Raises TlsError."""
    text = texts(config, listener)
    contexts = [_without_key(config, listener, kind)]
    with _source(text, "ssl.keystore.location", "ssl.keystore.key"):
        entries = key_store(text)
        contexts += (_without_key(config, listener, kind) for _ in each_paced(entries[1:]))
        for context, entry in each_paced(zip(contexts, entries, strict=True)):
            _load_key(context, entry)
    mode = CLIENT_AUTH[client_auth(config, listener) if asks_clients else "none"]
    with _source(text, "ssl.truststore.location", "ssl.truststore.certificates"):
        authorities = None if mode is ssl.CERT_NONE else trusted(text)
        for context in each_paced(contexts):
            context.verify_mode = mode
            if authorities is not None:
                context.load_verify_locations(cadata=authorities)
    if len(contexts) > 1:
        from kbroker.config.server_names import choose_by_name

        choose_by_name(contexts, [entry.chain for entry in entries])
    return contexts[0], chains_of(entries)


def _without_key(config: BrokerConfig, listener: str, kind: type[ssl.SSLContext]) -> ssl.SSLContext:
    """A context with the settings that all entries of a key store share. Raises TlsError."""
    context = kind(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION  # a default from OpenSSL 3 on only; Kafka refuses it, too
    enabled = config.of_listener(listener, "ssl.enabled.protocols")
    names = sorted(
        VERSIONS[name] for name in (enabled if isinstance(enabled, tuple) else ()) if name in VERSIONS
    )
    if not names:
        raise TlsError(f"ssl.enabled.protocols has none of {', '.join(VERSIONS)}")
    context.minimum_version, context.maximum_version = names[0], names[-1]
    suites = config.of_listener(listener, "ssl.cipher.suites")
    _choose_ciphers(context, suites if isinstance(suites, tuple) else ())
    try:
        rules_of(str(config.of_listener(listener, "ssl.principal.mapping.rules")))
    except ConfigError as error:
        raise TlsError(str(error)) from None
    return context


class ListenerContext:
    """The context of a running listener, and the stores that it was built from.

    Runs in: network, http. Owner: one thread; the context may be read by others.
    """

    def __init__(
        self,
        config: BrokerConfig,
        listener: str,
        kind: type[ssl.SSLContext] = ssl.SSLContext,
        asks_clients: bool = True,
    ) -> None:
        """The arguments are those of `context_and_chains`. Raises TlsError."""
        self._started = self._config = config
        self._listener = listener
        self._build = partial(context_and_chains, listener=listener, kind=kind, asks_clients=asks_clients)
        self._stamps = self._stamped()
        self.context, self._chains = self._build(config)

    def _stamped(self) -> list[tuple[str, int, int, int]]:
        return list(stamps(texts(self._config, self._listener)))

    def use(self, config: BrokerConfig) -> None:
        """Take new settings, for the next `renew`."""
        self._config = config
        self._stamps = self._stamped()

    def replaced(self) -> bool:
        """Whether a store's file has been replaced since the last call."""
        before, self._stamps = self._stamps, self._stamped()
        return self._stamps != before

    def renew(self) -> None:
        """Load the stores again: new connections use the renewed certificate. Raises TlsError if a
        store cannot be used, or has a certificate for other names; the context then stays."""
        context, chains = self._build(self._config)
        if why := incompatible(self._started, self._listener, self._chains, chains):
            raise TlsError(why)
        self.context, self._chains = context, chains


@contextmanager
def _source(text: Text, location: str, inline: str) -> Iterator[None]:
    """Raises TlsError, which names the store, for what cannot be loaded inside."""
    try:
        yield
    except KeyStoreError as error:
        raise TlsError(str(error)) from None
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        named = inline if (path := text(location)) is None else f"{location}={path}"
        raise TlsError(f"{named} cannot be used: {error}") from None


def _choose_ciphers(context: ssl.SSLContext, suites: tuple[str, ...]) -> None:
    """Kafka's ssl.cipher.suites; a TLS version of which none is named is not offered. Raises
    TlsError."""
    if not suites:
        context.set_ciphers(DEFAULT_CIPHERS)
        return
    newest, names, unknown = split(suites)
    if unknown:
        raise TlsError(f"ssl.cipher.suites: unknown here: {', '.join(unknown)}")
    try:
        if names:
            context.set_ciphers(":".join(names))
    except ssl.SSLError:
        raise TlsError(f"ssl.cipher.suites: OpenSSL has none of {', '.join(names)}") from None
    if not newest:
        context.maximum_version = min(context.maximum_version, ssl.TLSVersion.TLSv1_2)
    elif context.maximum_version >= ssl.TLSVersion.TLSv1_3 and newest != ALWAYS_TLS13:
        raise TlsError("ssl.cipher.suites: of TLS 1.3 all or none: " + ", ".join(sorted(ALWAYS_TLS13)))
    if not names:
        context.minimum_version = max(context.minimum_version, ssl.TLSVersion.TLSv1_3)
    if context.minimum_version > context.maximum_version:
        raise TlsError("ssl.cipher.suites has none for the versions of ssl.enabled.protocols")


def _load_key(context: ssl.SSLContext, entry: KeyEntry) -> None:
    """Raises ValueError with a reason, SSLError for any other."""
    with _file(entry.chain) as chain_file, _file(entry.key) as key_file:
        try:
            context.load_cert_chain(chain_file, key_file, entry.password)
        except ssl.SSLError as error:
            if (reason := _reason(entry, error)) is not None:
                raise ValueError(reason) from None
            raise


def _reason(entry: KeyEntry, error: ssl.SSLError) -> str | None:
    """A reason in words of the settings: OpenSSL says only "PEM lib" to most of them."""
    if b"CERTIFICATE-----" not in entry.chain:
        return "there is no certificate in PEM"
    if b"PRIVATE KEY-----" not in entry.key:
        return "there is no private key in PEM"
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the private key does not belong to the first certificate"
    if b"ENCRYPTED" not in entry.key:
        return None
    if not entry.password:
        return "the private key is encrypted: set ssl.key.password"
    return "ssl.key.password is not the password of the private key"


@contextmanager
def _file(text: bytes) -> Iterator[str]:
    """A name under which OpenSSL reads a text that is in no file."""
    fd = os.memfd_create("pem")
    try:
        os.write(fd, text)
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)


def user_of(certificate: Mapping[str, object] | None) -> str:
    """The principal's name of a client's certificate (ssl.SSLSocket.getpeercert): its subject as
    RFC 2253 writes it."""
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
