"""moto's S3 server on loopback, with a bucket `backups`; ``python -m tests.cli.backup.s3_server
PORT [FOLDER]`` runs one until a signal.

With a folder it speaks TLS, for the host `minio`, and the folder gets the certificate of its
authority: authority.crt.
"""

import signal
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from urllib.request import Request, urlopen

from tests.certificates import dated

READY = "the store answers"
HOST = "minio"


@contextmanager
def s3_server(port: int = 0, certificates: Path | None = None) -> Iterator[str]:
    """Its address; by default at a free port."""
    from moto.moto_server.werkzeug_app import (
        DomainDispatcherApplication,
        MotoRequestHandler,
        create_backend_app,
    )
    from werkzeug.serving import make_server

    files = trusted = None
    if certificates is not None:
        files = _certified(certificates)
        trusted = ssl.create_default_context(cafile=certificates / "authority.crt")
    app = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", port, app, True, request_handler=MotoRequestHandler, ssl_context=files)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        endpoint = f"https://{HOST}:{server.port}" if files else f"http://127.0.0.1:{server.port}"
        with urlopen(Request(f"{endpoint}/backups", method="PUT"), timeout=30, context=trusted):
            pass
        yield endpoint
    finally:
        server.shutdown()


def _certified(folder: Path) -> tuple[str, str]:
    """A certificate and its key, signed by the folder's authority."""
    now = datetime.now(UTC)
    begins, ends = now - timedelta(days=1), now + timedelta(days=1)
    dated(folder, "authority", begins, ends, authority=True)
    dated(folder, HOST, begins, ends, issuer="authority", hosts=(HOST,))
    return f"{folder / HOST}.crt", f"{folder / HOST}.key"


def environment(endpoint: str) -> dict[str, str]:
    """What a client of it needs."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
    }


if __name__ == "__main__":
    with s3_server(int(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None):
        print(READY, flush=True)
        signal.sigwait({signal.SIGTERM, signal.SIGINT})
