"""PEM key stores for tests of TLS listeners."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

from kbroker.config.broker import BrokerConfig
from kbroker.net.security.tls_listeners import TlsListeners
from tests.certificates import dated

BEGIN, END = datetime(2020, 1, 1, tzinfo=UTC), datetime(2040, 1, 1, tzinfo=UTC)


def put(store: Path, name: str) -> str:
    """A key store at `store`, replaced as by a rename, with a new certificate for the common
    name."""
    dated(store.parent, name, BEGIN, END)
    parts = [store.parent / f"{name}.key", store.parent / f"{name}.crt"]
    new = store.with_suffix(".new")
    new.write_text("".join(part.read_text() for part in parts))
    new.replace(store)
    return str(store)


def config_of(store: str, **settings: str) -> BrokerConfig:
    """A broker with the TLS listener SSL."""
    fixed = {"listeners": "SSL://:0", "ssl.keystore.type": "PEM", "ssl.keystore.location": store}
    return BrokerConfig(fixed | {key.replace("_", "."): value for key, value in settings.items()})


def looked(listeners: TlsListeners) -> object:
    """The context of the listener SSL after its files have been checked."""

    async def check() -> None:
        listeners._next_check_s = 0
        listeners._reload_changed()
        await listeners._reloads.wait(60)

    asyncio.run(check())
    return listeners._contexts["SSL"].context
