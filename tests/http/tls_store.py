"""A key store of the http port for tests, and clients that trust it."""

import http.client
import ssl
from pathlib import Path

from kbroker.config.broker import BrokerConfig
from kbroker.http.tls import HttpTls
from tests.certificates import certificate

NAMES = ("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")


def put(store: Path, subject: str = "/CN=localhost") -> Path:
    """A key store at `store`, replaced as by a rename, with a new certificate."""
    certificate(store.parent, store.stem, subject, *NAMES)
    parts = [store.with_suffix(suffix).read_text() for suffix in (".key", ".crt")]
    new = store.with_suffix(".new")
    new.write_text("".join(parts))
    new.replace(store)
    return store


def settings(store: Path) -> dict[str, str]:
    """Settings of a port with this store. The listeners themselves have none."""
    return {
        "kbroker.http.ssl.listener": "web",
        "listener.name.web.ssl.keystore.type": "PEM",
        "listener.name.web.ssl.keystore.location": str(store),
    }


def tls_of(store: Path, **more: str) -> HttpTls:
    config, _ = BrokerConfig.load({"log.dirs": "/d", **settings(store), **more})
    found = HttpTls.of(config)
    assert found is not None
    return found


def trusting(store: Path) -> ssl.SSLContext:
    """A client's context that trusts the present certificate of a store."""
    return ssl.create_default_context(cafile=str(store.with_suffix(".crt")))


def connection(port: int, store: Path) -> http.client.HTTPSConnection:
    return http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=trusting(store))
