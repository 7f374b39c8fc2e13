"""moto's S3 server on loopback, with a bucket `backups`; ``python -m tests.cli.backup.s3_server
PORT`` runs one until a signal."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.request import Request, urlopen

READY = "the store answers"


@contextmanager
def s3_server(port: int = 0) -> Iterator[str]:
    """Its address; by default at a free port."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        with urlopen(Request(f"{endpoint}/backups", method="PUT"), timeout=30):
            pass
        yield endpoint
    finally:
        server.stop()


def environment(endpoint: str) -> dict[str, str]:
    """What a client of it needs."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
    }


if __name__ == "__main__":
    with s3_server(int(sys.argv[1])):
        print(READY, flush=True)
        signal.sigwait({signal.SIGTERM, signal.SIGINT})
