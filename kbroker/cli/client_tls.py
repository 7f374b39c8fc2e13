"""TLS settings of librdkafka that kafka-python has no names for: it gets them as a context."""

import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

VERIFICATION: Final = "enable.ssl.certificate.verification"
ONLY_IN_A_CONTEXT: Final = (
    "ssl.ca.pem",
    "ssl.certificate.pem",
    "ssl.key.pem",
    "ssl.cipher.suites",
    "ssl.crl.location",
    VERIFICATION,
)
PROBE: Final = "probe"
"""librdkafka's word, for ssl.ca.location, for the places where systems keep certificates."""
_FALSE: Final = ("false", "f", "0")


def needs_context(settings: Mapping[str, str]) -> bool:
    """Whether kafka-python's own settings cannot express these of librdkafka."""
    authorities = settings.get("ssl.ca.location", "")
    return (
        any(name in settings for name in ONLY_IN_A_CONTEXT)
        or authorities == PROBE
        or bool(authorities and Path(authorities).is_dir())
    )


def context_of(settings: Mapping[str, str]) -> ssl.SSLContext:
    """The context of a client. Raises OSError for a file that cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if settings.get("ssl.endpoint.identification.algorithm") == "none":
        context.check_hostname = False
    if settings.get(VERIFICATION, "").lower() in _FALSE:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    _trust(context, settings)
    if revoked := settings.get("ssl.crl.location"):
        context.load_verify_locations(revoked)
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    if suites := settings.get("ssl.cipher.suites"):
        context.set_ciphers(suites)
    with ExitStack() as files:
        certificate = _file_of("certificate", settings, files)
        if certificate is not None:
            key = _file_of("key", settings, files)
            context.load_cert_chain(certificate, key, settings.get("ssl.key.password"))
    return context


def _trust(context: ssl.SSLContext, settings: Mapping[str, str]) -> None:
    authorities = settings.get("ssl.ca.location", PROBE)
    if pem := settings.get("ssl.ca.pem"):
        context.load_verify_locations(cadata=pem)
    elif authorities == PROBE:
        context.load_default_certs()
    elif Path(authorities).is_dir():
        context.load_verify_locations(capath=authorities)
    else:
        context.load_verify_locations(authorities)


def _file_of(kind: str, settings: Mapping[str, str], files: ExitStack) -> str | None:
    """The file of the client's certificate or key; a text gets one until the files are closed."""
    text = settings.get(f"ssl.{kind}.pem")
    return settings.get(f"ssl.{kind}.location") if text is None else files.enter_context(_in_memory(text))


@contextmanager
def _in_memory(text: str) -> Iterator[str]:
    """OpenSSL reads certificates of clients from files only."""
    descriptor = os.memfd_create("pem", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "w", closefd=False) as file:
            file.write(text)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
